"""A user's own law is checked before it is used, once; what cannot be used is never left out in silence."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import LawError
from eqfuse.rewrites import APPROXIMATE, EXACT, REASSOCIATES, Law, computed, guard, own, tensors
from eqfuse.rewrites.checking import check as check_of_laws
from eqfuse.rewrites.checking.fingerprint import fingerprint

x, y, z = tensors("x y z")
A = np.arange(6.0).reshape(2, 3)


def program(a: np.ndarray) -> np.ndarray:
    return a * 2.0 + a


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the laws that were checked since."""
    names: list[str] = []
    original = check_of_laws.check

    def check(law: Law) -> Any:
        names.append(law.name)
        return original(law)

    monkeypatch.setattr(check_of_laws, "check", check)
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    return names


WAYS: dict[str, Callable[[Any], Any]] = {
    "compile": lambda laws: ef.compile(program, A, laws=laws),
    "jit": lambda laws: ef.jit(program, laws=laws)(A),
    "jit(dynamic=True)": lambda laws: ef.jit(program, laws=laws, dynamic=True)(A),
    "specs with symbols": lambda laws: ef.compile(program, ef.spec(("n", 3)), laws=laws)(A),
    "saturate": lambda laws: ef.saturate(ef.trace(program, A), laws=laws),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_false_law_is_refused_with_its_counterexample(way: Callable[[Any], Any]) -> None:
    law = Law("triples", x * 2.0, x + x + x)
    with pytest.raises(LawError, match=r"(?s)the law triples: .*is false:.*left side .*Law\(…, check=False\)") as error:
        way(["all", law])
    assert "test_own.py" in (error.value.where or "")
    with pytest.raises(LawError, match="the law triples"):
        way(law)


def test_its_author_may_vouch_for_a_law() -> None:
    law = Law("triples", x * 2.0, x * 3.0, check=False)
    assert str(law).endswith("[EXACT, not checked]")
    assert ef.saturate(ef.trace(program, A), laws=law).laws_fired == {"triples": 1}


@pytest.mark.slow
def test_a_law_that_no_check_can_tell_anything_of_is_refused() -> None:
    law = Law("never", x * 2.0, x + x, (guard("nothing is right", lambda t: False, x),))
    with pytest.raises(LawError, match=r"the law never.*\n.*was not tested: none of .*check=False"):
        ef.compile(program, A, laws=[law])


LOSES = Law("loses", np.maximum(x, np.minimum(x, y)), x, (), APPROXIMATE)


@pytest.mark.parametrize("laws", [[LOSES], "absorb_minimum"])
def test_a_law_that_the_numerics_do_not_allow_is_refused_by_name(laws: Any) -> None:
    for numerics in ("strict", "reassociate"):
        with pytest.raises(LawError, match=f"numerics='{numerics}' does not allow the law '(loses|absorb_minimum)'"):
            ef.compile(program, A, laws=laws, numerics=numerics)
    ef.compile(program, A, laws=laws, numerics="approximate")
    ef.compile(program, A, laws=["all", "lattice"], numerics="strict")  # of sets and families what is allowed


def test_a_law_is_checked_once_in_a_process_and_once_for_its_text(checked: list[str]) -> None:
    for _ in range(2):
        law = Law("doubles", x * 2.0, x + x)
        ef.compile(program, A, laws=["all", law])
        ef.compile(program, A[:1], laws=["all", law], numerics="strict")
    assert checked == ["doubles"]
    ef.compile(program, A, laws=["all", Law("doubles", x * 2.0, x + x, exactness=REASSOCIATES)])
    assert checked == ["doubles"] * 2
    ef.compile(program, A, laws="all")
    assert checked == ["doubles"] * 2


@pytest.mark.slow
def test_a_law_whose_text_tells_not_all_of_it_is_checked_in_every_process(checked: list[str]) -> None:
    class Small:
        most = 3

        def __call__(self, t: Any) -> bool:
            return bool(t.size < self.most)

    small = Small()
    for _ in range(2):
        law = Law("doubles", x * 2.0, x + x, (guard("x is small", lambda t: small(t), x),))
        assert fingerprint(law) is None
        ef.compile(program, A, laws=["all", law])
        ef.compile(program, A[:1], laws=["all", law])
    assert checked == ["doubles"] * 2


def test_where_nothing_can_be_kept_laws_are_checked_all_the_same(checked: list[str], tmp_path: Path) -> None:
    (tmp_path / "laws").write_text("no folder")
    for _ in range(2):
        assert own.usable([Law("doubles", x * 2.0, x + x)], "strict")
    assert checked == ["doubles"] * 2


LIMIT = 4


def _small(t: Any) -> bool:
    return bool(t.size < LIMIT)


def _guarded(predicate: Callable[..., bool], *about: Any) -> str | None:
    return fingerprint(Law("guarded", x * y, y * x, (guard("of a kind", predicate, *about or (x,)),)))


def test_a_laws_text_changes_with_all_that_its_functions_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def within(most: int, *, least: int = 0) -> Callable[..., bool]:
        return lambda t, and_not=least: and_not < t.size < most

    def computing(function: Callable[..., Any], *args: Any) -> str | None:
        return fingerprint(Law("computes", x * y, x * y * computed(function, *args), grows=True))

    texts = [
        _guarded(within(4)), _guarded(within(5)), _guarded(within(4, least=1)),
        *(_guarded(functools.partial(lambda n, t: t.size < n, n)) for n in (4, 5)),
        _guarded(lambda a, b: a.size < b.size, x, y), _guarded(lambda a, b: a.size < b.size, y, x),
        computing(lambda t: 1.0, x), computing(lambda t: 2.0, x), computing(lambda t: 1.0, y),
        computing(lambda a, b: 1.0, x, y), computing(lambda a, b: 1.0, y, x),
    ]  # fmt: skip
    before, again = _guarded(lambda t: _small(t)), _guarded(within(4))
    monkeypatch.setitem(globals(), "LIMIT", 5)
    texts += [before, _guarded(lambda t: _small(t))]
    assert None not in texts and len(set(texts)) == len(texts) and again == texts[0]


def test_a_law_of_the_book_is_told_apart_from_all_others_by_its_text() -> None:
    texts = [fingerprint(law) for law in ef.rewrites.book()]
    assert None not in texts and len(set(texts)) == len(texts)
    assert fingerprint(Law("a", x + y, y + x)) != fingerprint(Law("a", x + y, y + x, exactness=REASSOCIATES))
    assert Law("a", x + y, y + x).exactness is EXACT
