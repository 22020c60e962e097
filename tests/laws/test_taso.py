"""Every substitution of TASO and TENSAT that holds is proved by the law book; the others are refuted by numbers."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from eqfuse.budget import Budget
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.rewrites import admitted, laws_named
from tests.laws.taso_axioms import AXIOMS
from tests.laws.taso_substitutions import SUBSTITUTIONS, F, Substitution
from tests.support.some import some

EQUALITIES = [*SUBSTITUTIONS, *AXIOMS]


def outputs(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@lru_cache
def proofs(laws: tuple[str, ...], numerics: str) -> dict[str, bool]:
    """By source, whether both sides end in one class; each equality has inputs of its own in the one e-graph."""
    mine = [e for e in EQUALITIES if (e.laws, e.numerics) == (laws, numerics) and not e.beyond]

    def sides(*arrays: Any) -> tuple[Any, ...]:
        rest, results = list(arrays), []
        for e in mine:
            args = [rest.pop(0) for _ in e.shapes]
            results += [*outputs(e.left(*args)), *outputs(e.right(*args))]
        return tuple(results)

    graph = trace(sides, *(spec(shape, F) for e in mine for shape in e.shapes))
    chosen = admitted(laws_named(list(laws)), numerics)
    roots = list(saturate_segment(graph, chosen, Budget(seconds=60, nodes=6000)).roots)
    proved = {}
    for e in mine:
        n = len(outputs(e.left(*(np.zeros(shape, F) for shape in e.shapes))))
        left, right, roots = roots[:n], roots[n : 2 * n], roots[2 * n :]
        proved[e.source] = left == right
    assert not roots
    return proved


def agree(equality: Substitution) -> bool:
    """Whether NumPy gives equal arrays for both sides."""
    rng = np.random.default_rng(0)
    arrays = [(rng.integers(-8, 9, shape) / 2).astype(F) for shape in equality.shapes]
    left, right = outputs(equality.left(*arrays)), outputs(equality.right(*arrays))
    return len(left) == len(right) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(left, right, strict=True)
    )


def verdict(equality: Substitution) -> str:
    if equality.beyond:
        return "out of scope"
    proved, holds = proofs(equality.laws, equality.numerics)[equality.source], agree(equality)
    assert holds or not proved, f"{equality.source} is proved and false"
    return "proved" if proved else "unproved" if holds else "refuted"


@pytest.mark.parametrize("equality", some(EQUALITIES, 2), ids=lambda equality: equality.source)
def test_what_holds_in_numpy_is_proved_and_what_does_not_is_refuted(equality: Substitution) -> None:
    wanted = "out of scope" if equality.beyond else "refuted" if equality.false else "proved"
    assert verdict(equality) == wanted, equality.false or equality.beyond


def test_the_lists_are_whole_and_their_verdicts_are_these(capsys: pytest.CaptureFixture[str]) -> None:
    table: dict[str, Counter[str]] = {}
    for e in EQUALITIES:
        how = verdict(e)
        if how == "proved" and (e.laws, e.numerics) != (("all",), "reassociate"):
            how += f" ({e.numerics}, by {', '.join(e.laws)})"
        table.setdefault(e.source.rstrip("0123456789 "), Counter())[how] += 1
    with capsys.disabled():
        print()
        for what, counts in table.items():
            print(f"{what:>20} {sum(counts.values()):4}: " + ", ".join(f"{n} {how}" for how, n in counts.items()))
    assert {what: sum(counts.values()) for what, counts in table.items()} == {
        "substitution": 120, "pair": 13, "predefined": 4, "predefined pair": 2, "axiom": 44, "lemma": 3,
        "axiom marked wrong": 2,
    }  # fmt: skip
    total = Counter(how.partition(" (")[0] for counts in table.values() for how in counts.elements())
    assert total == {"proved": 185, "refuted": 1, "out of scope": 2}
