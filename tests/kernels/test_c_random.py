"""Random maps, rows and reductions of every dtype over views and odd shapes, with special values, as C.

Only operators with exactly defined results take part, so kernels have the evaluator's bits; where they add, arrays hold
small integers, and results that depend on the order are near. With EQFUSE_EXPLORE=5 each run draws new kernels, five
times as many when slow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from eqfuse.emit.c import kernels, nest, rates, schedule, writer
from eqfuse.emit.c.kernels import CKernel
from eqfuse.errors import EqfuseError, UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import State, classify
from eqfuse.machine.c_objects import load_all
from tests.kernels.one_answer import ADDING, Judge, arrays_for
from tests.kernels.test_cuda_elementwise import same
from tests.kernels.test_cuda_random import Drawing
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import KINDS, C, emitted, run_all
from tests.support.drawing import EXPLORING, many

pytestmark = needs_compiler


class Stages(Drawing):
    """Values are reduced, and what is made of them again; sums and products are among these. A leaf may be as wide as
    the whole before it is computed with."""

    def leaf(self) -> Node:
        n = super().leaf()
        return node("broadcast_to", (n,), (self.whole,)) if n.op != "const" and self.rng.random() < 0.25 else n

    def body(self) -> Graph:
        values = self.grow([self.leaf() for _ in range(3)], int(self.rng.integers(1, 7)))
        made: list[Node] = []
        ops = ["any", "all", "max", "min", *(("sum", "prod") if self.dtype.kind != "b" else ())]
        ops += ["argmax", "argmin"] if len(self.axes) == 1 else []
        for _ in range(int(self.rng.integers(1, 4))):
            whole = [v for v in values if v.shape == self.whole] or [self.input(self.whole, self.dtype)]
            made += [node(str(self.pick(ops)), (self.pick(whole),), (self.axes,))]
            values = self.grow([*values, *[n for n in made if n.dtype == self.dtype]], int(self.rng.integers(1, 5)))
        outputs = tuple(dict.fromkeys([made[-1], values[-1]]))
        inputs = sorted((n for n in Graph((), outputs).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        return Graph(tuple(inputs), outputs)

    def data(self, body: Graph) -> list[np.ndarray]:
        adds = any(n.op in ADDING for n in body.nodes)
        return arrays_for(self.rng, body) if adds else super().data(body)


def drawn(rng: np.random.Generator, count: int) -> Iterator[tuple[Graph, CKernel, list[np.ndarray]]]:
    while count:
        drawing = (Drawing, Stages)[count % 2](rng)
        try:
            body = drawing.body()
        except EqfuseError:  # NumPy has no largest of nothing
            continue
        if not body.inputs or any(o.op in ("input", "const") for o in body.outputs):
            continue
        state = classify(body, C)
        if not isinstance(state, State) or state.kind not in KINDS or all(o.type.size == 0 for o in body.outputs):
            continue
        try:
            made = emitted(state.kind, body)
        except UnsupportedOp:  # of a view of the result of a reduction
            continue
        yield body, made, drawing.data(body)
        count -= 1


def judge(seed: int, count: int) -> None:
    made = list(drawn(np.random.default_rng(None if EXPLORING else seed), count))
    results = run_all([k for _, k, _ in made], [arrays for _, _, arrays in made])
    for (body, kernel, arrays), writes in zip(made, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(body, arrays)
        if any(n.op in ADDING for n in body.nodes):
            assert Judge(body, arrays).agree(writes), f"{body}\n{kernel.text.source}\n{arrays}\n{writes}\n{wanted}"
            continue
        for got, want in zip(writes, wanted, strict=True):
            zero = (want == 0) & (got == 0)  # whose sign max and min leave open
            assert (same(got, want) | zero).all(), f"{body}\n{kernel.text.source}\n{arrays}\n{got}\n{want}"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, chunks and parts so small that bodies of tests have many, on several threads."""
    for module, name, value in (
        (nest, "SHORT", 4), (rates, "SHORT", 4), (nest, "BLOCK", 4), (nest, "TILE", 8), (schedule, "LINE", 4),
        (schedule, "SHARED_FROM", 0.0), (schedule, "HANDED", 0.0), (schedule, "CHUNK", 1e-9), (schedule, "PART", 8),
        (schedule, "FEW_UNITS", 100), (writer, "PAIR_BYTES", 32),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def test_random_kernels_have_the_evaluators_bits() -> None:
    judge(0, 60)


def test_random_kernels_in_many_blocks_have_the_evaluators_bits(small_blocks: None) -> None:
    judge(1, 60)


@pytest.mark.slow
def test_random_kernels_do_nothing_undefined(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What C leaves undefined ends the process."""
    flags = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    monkeypatch.setattr(kernels, "load_all", lambda texts: load_all(texts, *flags))
    judge(10, many(100))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_kernels_have_the_evaluators_bits(seed: int) -> None:
    judge(seed, many(100))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 10))
def test_many_random_kernels_in_many_blocks_have_the_evaluators_bits(seed: int, small_blocks: None) -> None:
    judge(seed, many(100))
