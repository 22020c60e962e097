"""What the default numerics promise holds for random programs, whichever of their forms is taken."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.rewrites import APPROXIMATE, Law, admitted, book, laws_named
from tests.numerics.contract import broken
from tests.numerics.forms import Rewriter, cancelling, patterns, random_array, random_form, random_program
from tests.support.drawing import many

DATA = 8  # choices of data for each program
PARTS = 8


def laws() -> tuple[Law, ...]:
    return admitted(laws_named("all"), "reassociate")


def broken_on_some_data(
    graph: Graph, other: Graph, rng: np.random.Generator, first: Sequence[np.ndarray]
) -> tuple[list[str], Sequence[np.ndarray]]:
    """What `other` breaks of what `graph` promises, and on which arrays."""
    arrays = first
    for _ in range(DATA):
        with np.errstate(all="ignore"):
            faults = broken(graph, arrays, evaluate(other, arrays))
        if faults:
            return faults, arrays
        fresh = rng.random() < 0.4
        arrays = [random_array(rng, x.type) for x in graph.inputs] if fresh else cancelling(rng, graph, arrays)
    return [], arrays


def walk(rewriter: Rewriter, seed: int) -> str:
    """What is wrong with a random program after random uses of laws."""
    rng = np.random.default_rng(seed)
    graph, arrays = random_program(rng, steps=int(rng.integers(1, 8)), patterns=PATTERNS)
    other, used = rewriter.walk(graph, rng, int(rng.integers(1, 8)))
    faults, data = broken_on_some_data(graph, other, rng, arrays)
    return f"seed {seed}: {used}\n{graph}\n{other}\n{data}\n{faults}" if faults else ""


PATTERNS = patterns(admitted(laws_named("all"), "approximate"))


def walks(seeds: range) -> None:
    rewriter = Rewriter(laws())
    texts = [text for seed in seeds if (text := walk(rewriter, seed))]
    assert not texts, "\n\n".join(texts[:3])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_a_program_after_random_uses_of_laws_is_as_accurate_as_before(part: int) -> None:
    walks(range(60 * part, 60 * (part + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_programs_after_random_uses_of_laws_are_as_accurate_as_before(part: int) -> None:
    walks(range(1000 + 2500 * part, 1000 + 2500 * part + many(60)))


@pytest.mark.slow
def test_laws_that_may_cancel_are_found_out_so() -> None:
    rewriter = Rewriter([law for law in book() if law.exactness is APPROXIMATE])
    seeds = (seed for seed in range(400) if walk(rewriter, seed))
    assert len(list(itertools.islice(seeds, 2))) == 2


def forms(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph, arrays = random_program(rng, patterns=PATTERNS)
        segment = saturate_segment(graph, laws(), ef.Budget(nodes=300, rounds=5))
        for _ in range(3):
            form = random_form(segment, rng)
            faults, data = broken_on_some_data(graph, form, rng, arrays)
            assert not faults, f"seed {seed}\n{graph}\n{form}\n{data}\n{faults}"


def test_any_program_of_the_e_graph_is_as_accurate_as_the_one_written() -> None:
    forms(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_any_program_of_many_e_graphs_is_as_accurate_as_the_one_written(part: int) -> None:
    forms(range(1000 + part, 1000 + part + PARTS * many(2), PARTS))


def compiled(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph, arrays = random_program(rng, programs=3, patterns=PATTERNS)
        program = ef.compile(graph, target="numpy", budget=ef.Budget(nodes=500, rounds=4))
        for _ in range(DATA):
            with np.errstate(all="ignore"):
                faults = broken(graph, arrays, program(*arrays))
            assert not faults, f"seed {seed}\n{graph}\n{program.plan}\n{arrays}\n{faults}"
            arrays = cancelling(rng, graph, arrays)


@pytest.mark.slow
def test_a_compiled_program_is_as_accurate_as_numpy() -> None:
    compiled(range(3))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_compiled_programs_are_as_accurate_as_numpy(part: int) -> None:
    compiled(range(1000 + part, 1000 + part + PARTS * many(2), PARTS))
