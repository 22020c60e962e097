"""Every law of the book holds on generated arrays of all ranks, every guard is needed, tempting false laws fail."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import LawError
from eqfuse.functions import relu, sigmoid
from eqfuse.rewrites import (
    APPROXIMATE,
    EXACT,
    FAMILIES,
    OPT_IN,
    REASSOCIATES,
    Law,
    apply,
    attrs,
    book,
    bounded,
    computed,
    floating,
    guard,
    is_constant,
    laws_named,
    positive,
    tensors,
)  # fmt: skip
from eqfuse.rewrites.checking.check import check
from eqfuse.rewrites.checking.data import layout_name
from eqfuse.rewrites.language.term import walk
from eqfuse.rewrites.language.words import exp, where
from eqfuse.rewrites.refuted import REFUTED

x, y, z = tensors("x y z")
(p,) = attrs("p")

MIRRORS = ["greater_is_less", "greater_equal_is_less_equal"]


CASES = 30
EVERY = 80  # law of every third family; `eqfuse laws check` takes them all, with more cases
ONLY_MATRICES = {"terms_in_parts", "trace_of_product", "take_rows_of_product", "take_columns_of_product"}


@pytest.mark.parametrize("family", [*FAMILIES][::3])
def test_laws_hold_and_need_their_guards(family: str) -> None:
    for law in FAMILIES[family][::EVERY]:
        report = check(law, cases=CASES)
        assert report.ok, str(report)
        assert report.cases >= 15, f"{law.name}: only {report.cases} of {report.tries} generated arguments fit"
        assert max(report.coverage.ranks) == 4 or law.name in ONLY_MATRICES, f"{law.name}: only {report.coverage}"
        idle = [g.sentence for g in report.guards if g.status == "idle"]
        assert not idle, f"{law.name}: no counterexample without {idle}"
        if law.complex is not None:
            assert report.complex_cases >= 2, f"{law.name}: only {report.complex_cases} complex cases"


def test_the_book_has_hundreds_of_laws_with_names_of_their_own() -> None:
    names = [law.name for law in (*book(), *(law for law, _ in REFUTED))]
    assert len(book()) >= 250 and len(set(names)) == len(names)


FOLDER = Path(__file__).parents[2] / "rewrites"


def test_order_is_stated_by_less() -> None:
    def speaks_of_greater(law: Law) -> bool:
        return any(t.op.startswith("greater") for side in (*law.lefts, *law.rights) for t in walk(side))

    assert [law.name for law in book() if speaks_of_greater(law)] == MIRRORS


def test_every_family_stands_in_the_readme() -> None:
    text = (FOLDER / "README.md").read_text()
    missing = [family for family in FAMILIES if f"| `{family}` |" not in text]
    assert not missing, f"the table of families in rewrites/README.md has no row for {missing}"


@pytest.mark.parametrize("file", sorted(p.stem for p in FOLDER.glob("*.py") if "\nLAWS = " in p.read_text()))
def test_the_laws_of_every_file_are_in_the_book(file: str) -> None:
    names = {law.name for law in import_module(f"eqfuse.rewrites.{file}").LAWS}
    assert names <= {law.name for law in book()}, f"rewrites/__init__.py does not list the family {file}"


@pytest.mark.parametrize("law, why", REFUTED[::24], ids=lambda value: getattr(value, "name", ""))
def test_tempting_false_laws_have_a_counterexample(law: Law, why: str) -> None:
    """(`eqfuse laws check` refutes all of them.)"""
    report = check(law)
    refutation = report.counterexample
    assert refutation is not None, f"{report}; expected: {why}"
    assert refutation.left.shape == refutation.right.shape
    too_much = f"more than a reader takes in: {refutation}"
    assert all(a.size <= 4 and not layout_name(a) for a in refutation.arrays.values()), too_much
    assert sum(v != 0 for a in refutation.arrays.values() for v in a.ravel()) <= 3, too_much


def test_a_counterexample_shows_shapes_and_values() -> None:
    text = str(check(Law("bad", x - y, y - x, exactness=APPROXIMATE)))
    assert "is false" in text and "left side" in text and "x = " in text


def test_exactness_is_measured_not_believed() -> None:
    assert not check(Law("claims_too_much", x * y + x * z, x * (y + z), exactness=EXACT)).ok


def test_laws_are_written_with_operators_numpy_and_eqfuse_functions() -> None:
    assert check(Law("relu_of_sigmoid", relu(sigmoid(x)), sigmoid(x), exactness=EXACT)).measured == EXACT
    assert check(Law("tanh", np.tanh(x * 1.0), np.tanh(x), exactness=EXACT)).ok


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: Law("unbound", x + x, y), "is not bound"),
        (lambda: Law("unbound_axes", x + x, x.sum(p)), "is not bound"),
        (lambda: Law("bare", x, x + 0.0), "matches every tensor"),
        (lambda: Law("computed_left", x.sum(computed(lambda t: t, x)), x), "computed value"),
        (lambda: Law("guard", x + x, x, (guard("y is small", lambda t: True, y),)), "not matched"),
        (lambda: Law("side", x + x, 3), "not a term"),  # type: ignore[arg-type]
        (lambda: x @ "w", "cannot stand in a law"),
        (lambda: Law("several", (x + y, x - y), (y + x,)), "2 terms cannot equal 1"),
        (lambda: Law("strange", where(x / y, x, y), x), "no types of its variables fit the left side where"),
        (lambda: Law("truth", x @ y, (x @ y) > 0.0), "never have one type"),
        (lambda: Law("bits", x / y, apply("bitwise_and", x / y, y)), "fit the right side bitwise_and"),
        (lambda: Law("dtypes", x > y, x - y), "never have one type"),
        (lambda: Law("zeros", x + y, (x + y) + 0.0), r"holds \(x \+ y\), which \(x \+ y\) matches again"),
        (lambda: Law("ones", exp(x), exp(x * 1.0)), "grow without end"),
        (lambda: Law("swapped", (x + y) - 0.0, x + y, both=True), "grow without end"),
        (lambda: Law("pair", (x @ y, x @ z), (x @ (y + 0.0), x @ z)), "grow without end"),
        (lambda: Law("place", x + x, x * 2.0, EXACT), r"tuple, \(guard,\) or \(\), before the exactness"),
        (lambda: Law("alone", x + x, x * 2.0, floating(x)), r"the guards are a tuple, \(guard,\)"),
        (lambda: Law("list", x + x, x * 2.0, [floating(x)]), r"the guards are a tuple, \(guard,\)"),
        (lambda: Law("one", x + x, x * 2.0, (), 1), "exactness is 1, none of EXACT, REASSOCIATES, APPROXIMATE"),
        (lambda: Law("over", x + x, x * 2.0, complex=True), "complex is True, none of EXACT"),
        (lambda: Law("late", x + x, x * 2.0, (), EXACT, REASSOCIATES), "both is .*REASS.*, neither True nor False"),
        *((lambda n=n: Law(n, x + x, x * 2.0), "a name is one line") for n in ("", " ", "a\nb", "a~", 3, None)),
        (lambda: guard(lambda t: True, "x is small", x), "write a sentence, then the predicate"),
        (lambda: guard("x is small", True, x), "write a sentence, then the predicate"),
        (lambda: guard("x is small", lambda t: True, x * x), r"the guard that x is small is about \(x \* x\)"),
        (lambda: positive(x + x), r"positive is about \(x \+ x\): write variables"),
        (lambda: computed(3, x), "write the function first"),
        (lambda: computed(lambda t: 2.0, x * x), r"computed\(…\) is about \(x \* x\): write variables"),
        (lambda: tensors("x, y"), "write their names with spaces between"),
        (lambda: attrs(2), "write their names with spaces between"),
    ],
)
def test_ill_formed_laws_are_refused_when_made(make: object, complaint: str) -> None:
    with pytest.raises(LawError, match=complaint):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "predicate, complaint",
    [
        (lambda t: t.shape[5] == 1, "raises IndexError: tuple index out of range for x = "),
        (lambda t: None, "the guard that x is fine says None, neither True nor False for x = "),
        (lambda t: t.shape, r"says \(.*\), neither True nor False"),
        (lambda t, u: True, "raises TypeError: .* missing 1 required positional argument"),
        (lambda t: 1 / 0, "raises ZeroDivisionError: division by zero for x = "),
    ],
)
def test_a_faulty_guard_is_an_error_that_names_law_and_types(predicate: Callable, complaint: str) -> None:
    law = Law("faulty", x + x, x * 2.0, (guard("x is fine", predicate, x),))
    with pytest.raises(LawError, match=f"law 'faulty': a guard or a computed value.*{complaint}"):
        check(law)
    with pytest.raises(LawError, match=f"law 'faulty': a guard or a computed value.*{complaint}"):
        ef.saturate(ef.trace(lambda a: a + a, np.ones(3)), laws=[law])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a{number}b", "[bold]a[/bold]", "a;b) (c", "größer als 0", "%s", "'"])
def test_a_laws_name_is_data(name: str, tmp_path: Path) -> None:
    law = Law(name, x * 2.0, x + x, both=True)
    space = ef.saturate(ef.trace(lambda a: a * 2.0 + 1.0, np.ones(3)), laws=[law])
    assert space.laws_fired.keys() == {name}
    space.save(tmp_path / "space.json")
    assert ef.load_space(tmp_path / "space.json").laws_fired == space.laws_fired
    program = ef.compile(lambda a: a * 2.0 + 1.0, np.ones(3), laws=[law])
    assert name in str(check(law)) and name in " ".join(str(program.explain()).split())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Law("turned", x + y, y + x),
        lambda: Law("said", exp(x), exp(x * 1.0), grows=True),
        lambda: Law("bounded", exp(x), exp(x * 1.0), (bounded("x has rank 0", lambda t: t.rank == 0, x),)),
        lambda: Law("known", x / y, x * (1.0 / y), (is_constant(y),)),
        lambda: Law("inverse", exp(x + y), exp(x) * exp(y), exactness=APPROXIMATE),
    ],
)
def test_laws_that_end_or_say_that_they_do_not_are_accepted(make: Callable[[], Law]) -> None:
    make()


def test_only_laws_that_are_used_by_name_may_grow_without_end() -> None:
    assert all(law.family in OPT_IN for law in book() if law.grows)


def test_selection_by_set_family_name_and_law() -> None:
    mine = Law("mine", x + x, x * 2.0, exactness=EXACT)
    assert laws_named("none") == ()
    assert laws_named("casts") == FAMILIES["casts"]
    assert laws_named(["casts", mine, "times_one"])[-2:] == (mine, laws_named("times_one")[0])
    assert not {law.family for law in laws_named("all")} & OPT_IN
    with pytest.raises(LawError, match=r"no law or family is named 'csts'; families: algebra"):
        laws_named("csts")


def test_a_law_of_the_users_own_takes_the_place_of_the_books_law_of_that_name() -> None:
    x, y = tensors("x y")
    mine = Law("times_one", x * y, y * x)
    for laws in (["all", mine], [mine, "all"]):
        assert [law for law in laws_named(laws) if law.name == "times_one"] == [mine]
    with pytest.raises(LawError, match="two laws are named"):
        laws_named([mine, Law("times_one", x + y, y + x)])
