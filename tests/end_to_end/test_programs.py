"""Programs as people write them: jitted, they give what plain NumPy gives, and do to their arguments what it does."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c import haste
from eqfuse.ir.pytree import tree_leaves, unflatten
from tests.programs.every import FIELDS, PROGRAMS
from tests.programs.program import Arguments, ExampleProgram
from tests.support.c_kernels import needs_compiler

LONG = {
    "polymer", "kalman", "markov_chain", "bilateral", "iir", "implied_volatility", "binomial_tree", "heston",
    "yield_curve", "point_in_polygon", "mandelbrot", "convex_distance", "reaction_diffusion", "wave", "advection",
}  # fmt: skip
SHORT = ef.Budget(nodes=200, rounds=3)
SEARCHED_LONG = [field.PROGRAMS[-1] for field in FIELDS]


def run(function: Any, arguments: Arguments) -> tuple[Any, Any]:
    """What `function` returns, and its arguments afterwards; the ones given are left alone."""
    args, kwargs = deepcopy(arguments)
    with np.errstate(all="ignore"):
        result = function(*args, **kwargs)
    return result, (args, kwargs)


def nudged(arguments: Arguments, rng: np.random.Generator) -> Arguments:
    """The arguments with the last bit of some numbers changed: what rounding alone may do to a result."""
    leaves, structure = tree_leaves(arguments)

    def nudge(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fc":
            return leaf
        eps = np.finfo(leaf.dtype).eps
        return (leaf * (1 + rng.integers(-1, 2, leaf.shape) * eps)).astype(leaf.dtype)

    return unflatten(structure, [nudge(leaf) for leaf in leaves])


def judge(got: Any, wanted: Any, others: list[Any]) -> None:
    """Same structure, dtypes, shapes, NaNs and integers; floats as near as `others`, which only rounding parts."""
    leaves, structure = tree_leaves(got)
    expected, expected_structure = tree_leaves(wanted)
    assert structure == expected_structure
    alternatives = [tree_leaves(other)[0] for other in others]
    for i, (g, w) in enumerate(zip(leaves, expected, strict=True)):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), f"leaf {i}"
        if w.dtype.kind not in "fc":
            np.testing.assert_array_equal(g, w, err_msg=f"leaf {i}")
            continue
        finite = np.isfinite(w)
        np.testing.assert_array_equal(g[~finite], w[~finite], err_msg=f"leaf {i}")
        spread = max(np.abs(np.asarray(a[i])[finite] - w[finite]).max(initial=0) for a in alternatives)
        tolerance = 64 * spread + 64 * np.finfo(w.dtype).eps * np.abs(w[finite]).max(initial=0)
        np.testing.assert_allclose(g[finite], w[finite], rtol=0, atol=tolerance, err_msg=f"leaf {i}")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_a_traced_program_means_what_numpy_computes(program: ExampleProgram) -> None:
    arguments = program.arguments(program.small)
    wanted, _ = run(program.function, arguments)
    rng = np.random.default_rng(0)
    others = [run(program.function, nudged(arguments, rng))[0] for _ in range(3)]
    graph = ef.trace(program.function, *arguments[0], static_argnames=program.static, **arguments[1])
    got, untouched = run(lambda *args, **kwargs: ef.meaning(graph, *args, **kwargs), arguments)
    judge(got, wanted, others)
    judge(untouched, arguments, [arguments])


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name in LONG or i % 8 else [])
     for i, p in enumerate([p for p in PROGRAMS if p not in SEARCHED_LONG])],
)  # fmt: skip
def test_a_jitted_program_does_what_numpy_does(program: ExampleProgram) -> None:
    does_what_numpy_does(program, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("program", SEARCHED_LONG, ids=lambda p: p.name)
def test_so_does_one_that_is_searched_as_long_as_usual(program: ExampleProgram) -> None:
    does_what_numpy_does(program, None)


@needs_compiler
@pytest.mark.parametrize("program", [field.PROGRAMS[0] for field in FIELDS[::3]], ids=lambda p: p.name)
def test_so_does_one_that_there_is_no_time_to_compile(program: ExampleProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haste, "QUICK_PACE", 1e6)
    does_what_numpy_does(program, SHORT, "c")


def does_what_numpy_does(program: ExampleProgram, budget: ef.Budget | None, target: str = "cpu") -> None:
    jitted = ef.jit(static_argnames=program.static, budget=budget, target=target)(program.function)
    for seed in (1, 2):  # the second call runs the first one's program
        arguments = program.arguments(program.small, seed)
        wanted = run(program.function, arguments)
        rng = np.random.default_rng(0)
        others = [run(program.function, nudged(arguments, rng)) for _ in range(3)]
        judge(run(jitted, arguments), wanted, others)


def test_there_are_at_least_thirty_programs_of_distinct_names() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 30
