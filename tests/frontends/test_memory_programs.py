"""Random statements about memory do what NumPy does: to results, to arguments, and to the arrays they are part of.

Each program runs by NumPy and in one way of running it here, on arguments that lie alike. The default run draws a few
hundred, `pytest -m slow` four thousand. A failure prints a script of the fewest statements that still fail.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.targets import device_for
from eqfuse.errors import EqfuseError
from eqfuse.extract import EXTRACTORS
from eqfuse.extract.unfused import unfused_plan
from eqfuse.ir.evaluate import evaluate
from eqfuse.runtime.program import emit
from tests.support.drawing import EXPLORING, many
from tests.support.memory_programs import MemoryProgram, random_memory_program, smallest
from tests.support.statements import REFUSED

SHORT = ef.Budget(nodes=300, rounds=3, optimum=0.2)
Way = tuple[str, Callable[[Callable[..., Any]], Callable[..., Any]]]  # how it is said, and the function that runs so

REFUSALS = (
    "how NumPy laid out a computed array", "lies in memory is not known",  # the layout of a computed array
    "whose memory another argument shares",  # two arguments of one array, one of them changed
    "is read-only",  # np.broadcast_arrays, whose results NumPy still lets be written to
    "a write through a view by",  # of windows, which share elements
    "x.flat is assigned what shares memory",  # which NumPy reads as it writes
    "indexing with a mask of rank 0",
    # without elements, where NumPy does not look
    r"could not broadcast a value of shape \(.*\b0\b.*\)", "Size of label", "out of bounds for extent 0",
)  # fmt: skip


def evaluated(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Traced, and run by the evaluator."""

    def call(*args: Any) -> Any:
        graph = ef.trace(fn, *args)
        signature: Any = graph.signature
        fed = signature.feed(args)
        results = signature.settle(fed, evaluate(graph, [np.array(a) for a in fed.arrays]))
        return signature.rebuild([np.array(r, order="C") for r in results])

    return call


def emitted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled without a search: a kernel per operator."""
    return lambda *args: emit(unfused_plan(ef.trace(fn, *args), device_for("cpu")))(*args)


def saved(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            ef.compile(fn, *args, laws="none", extractor="unfused").save(Path(folder) / "p")
            return ef.load(Path(folder) / "p")(*args)

    return call


def resized(fn: Callable[..., Any]) -> Callable[..., Any]:
    """By the plan of other sizes, carried to these, where the function can run at others."""
    jitted = ef.jit(fn, dynamic=True, laws="none", extractor="unfused")

    def call(*args: Any) -> Any:
        try:
            jitted(*(np.concatenate([a, a]) if a.ndim else a.copy() for a in args))
        except (EqfuseError, *REFUSED):
            pass
        return jitted(*args)

    return call


def jitted(rng: Random) -> Way:
    options: dict[str, Any] = {
        "numerics": rng.choice(("strict", "reassociate", "approximate")), "extractor": rng.choice(list(EXTRACTORS)),
        "laws": rng.choice(("all", "all", "none")), "memory_limit": rng.choice((None, None, 1 << 30)),
    }  # fmt: skip
    return ", ".join(f"{k}={v!r}" for k, v in options.items()), ef.jit(**options, budget=SHORT)


def a_way(rng: Random, searched: float) -> Way:
    """Most often one that costs little."""
    if rng.random() < searched:
        return jitted(rng)
    plain = "laws='none', extractor='unfused'"
    ways = (evaluated,) * 5 + (emitted,) * 4
    if rng.random() < searched:
        ways = (saved, resized)
    way = rng.choice(ways)
    return f"{plain}, dynamic=True" if way is resized else plain, way


def same(wanted: Any, got: Any, what: str) -> None:
    assert isinstance(got, np.ndarray) == isinstance(wanted, np.ndarray), f"{what}: {type(got)}, NumPy {type(wanted)}"
    if not isinstance(wanted, np.generic | np.ndarray):
        assert type(got) is type(wanted), f"{what}: {type(got)}, NumPy {type(wanted)}"
        assert got == wanted, f"{what}: {got}, NumPy {wanted}"
        return
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), f"{what}: {got!r}, NumPy {wanted!r}"
    np.testing.assert_array_equal(got, wanted, err_msg=what)


def check(program: MemoryProgram, way: Callable[..., Any]) -> bool:
    """Whether there was something to compare; AssertionError where it differs."""
    fn, arguments = program.build()
    (outside, given), (changed, own) = arguments(), arguments()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = fn(*given)
        except REFUSED:
            return False
        try:
            got = way(fn)(*own)
        except EqfuseError as refusal:
            if any(re.search(reason, str(refusal)) for reason in REFUSALS):
                return False
            raise AssertionError(f"refused: {refusal}") from refusal
    for i, (w, g) in enumerate(zip(wanted, got, strict=True)):
        same(w, g, f"result {program.results[i]}")
    for i, (w, g) in enumerate(zip(outside, changed, strict=True)):
        same(w, g, f"the array b{i} outside")
    arrays = [g for g in got if isinstance(g, np.ndarray)]
    for i, g in enumerate(arrays):
        is_argument = any(g is a for a in own)
        is_new = g.flags.writeable and not any(np.shares_memory(g, b) for b in changed)
        assert is_argument or is_new, f"a result is no new array: {g.flags}"
        assert not any(g is not h and np.shares_memory(g, h) for h in arrays[:i]), "two results share memory"
    return True


def differs(program: MemoryProgram, way: Callable[..., Any]) -> bool:
    try:
        check(program, way)
    except NameError:
        return False
    except Exception:
        return True
    return False


def every(seeds: range, searched: float) -> None:
    compared = 0
    for seed in seeds:
        program, (said, way) = random_memory_program(seed), a_way(Random(seed), searched)
        try:
            compared += check(program, way)
        except Exception as error:
            shrunk = smallest(program, lambda p, way=way: differs(p, way))
            raise AssertionError(f"seed {seed}: {error}\n\n{shrunk.reproducer(said)}") from error
    assert compared > 0.9 * len(seeds)


def part_of(count: int, part: int) -> range:
    start = int.from_bytes(np.random.bytes(6), "little") if EXPLORING else 10**6 * part
    return range(start, start + count)


@pytest.mark.parametrize("part", range(2))
def test_random_statements_about_memory_do_what_numpy_does(part: int) -> None:
    every(part_of(100, part), searched=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100, 104))
def test_hundreds_of_random_statements_about_memory_do_what_numpy_does(part: int) -> None:
    every(part_of(many(150), part), searched=0.03)


def test_the_judge_notices_a_lost_write_and_a_copy_taken_for_a_view() -> None:
    lost = MemoryProgram(("np.arange(6.0)",), ("b0[::2]",), ("x0[1:] = 5",), ("x0",))
    with pytest.raises(AssertionError, match="b0 outside"):
        check(lost, lambda fn: lambda x: fn(x.copy()))

    def copying(fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            results = fn(x.copy())
            x[...] = results[0]
            return results

        return call

    aliased = MemoryProgram(("np.arange(6.0)",), ("b0",), ("v0 = x0[1:]", "v0 += 1"), ("x0", "v0"))
    with pytest.raises(AssertionError, match="share memory"):
        check(aliased, copying)
