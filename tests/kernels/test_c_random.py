"""Random maps, rows and reductions of every dtype over views and odd shapes, with special values, as C.

Only operators with exactly defined results take part, so kernels have the evaluator's bits; where they add, arrays hold
small integers, and results that depend on the order are near. With EQFUSE_EXPLORE=5 each run draws new kernels, five
times as many when slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from eqfuse import dtypes
from eqfuse.emit.c import forms, kernels, lines, nest, reductions, schedule, splits, streaming, strips
from eqfuse.emit.c.kernels import CKernel
from eqfuse.errors import EqfuseError, UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify
from eqfuse.machine.c_objects import load_all
from tests.kernels.one_answer import ADDING, Reference, arrays_for
from tests.kernels.test_cuda_elementwise import same, special_values
from tests.kernels.test_cuda_random import Drawing
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import KINDS, C, emitted, run_all, with_address_sanitizer
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
        reduced: list[Node] = []
        ops = ["any", "all", "max", "min", *(("sum", "prod") if self.dtype.kind != "b" else ())]
        ops += ["argmax", "argmin"] if len(self.axes) == 1 else []
        for _ in range(int(self.rng.integers(1, 4))):
            whole = [v for v in values if v.shape == self.whole] or [self.input(self.whole, self.dtype)]
            reduced += [node(str(self.pick(ops)), (self.pick(whole),), (self.axes,))]
            values = self.grow([*values, *[n for n in reduced if n.dtype == self.dtype]], int(self.rng.integers(1, 5)))
        last = values[-1]
        if self.rng.random() < 0.3:  # something of each row is made of its reduction, beside what is reduced
            last = node("maximum", (reduced[-1], self.input(reduced[-1].shape, reduced[-1].dtype)))
            reduced[-1] = reduced[-1].args[0]
        outputs = tuple(dict.fromkeys([reduced[-1], last]))
        inputs = sorted((n for n in Graph((), outputs).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        return Graph(tuple(inputs), outputs)

    def data(self, body: Graph) -> list[np.ndarray]:
        adds = any(n.op in ADDING for n in body.nodes)
        return arrays_for(self.rng, body) if adds else super().data(body)


class Scans(Stages):
    """Values are scanned along an axis, reduced over it, and what is made of them is scanned again."""

    def body(self) -> Graph:
        self.axes = (int(self.rng.integers(-len(self.whole), 0)),)
        values = self.grow([self.leaf() for _ in range(3)], int(self.rng.integers(1, 5)))
        for _ in range(int(self.rng.integers(1, 4))):
            whole = [v for v in values if v.shape == self.whole] or [self.input(self.whole, self.dtype)]
            x, way = self.pick(whole), int(self.rng.integers(5))
            ufunc = ("maximum", "minimum")[int(self.rng.integers(2))]
            value = [node("cumsum", (x,), self.axes), node("cumprod", (x,), self.axes)][way] if way < 2 else \
                node("accumulate", (x,), (ufunc, *self.axes)) if way < 4 else node("max", (x,), (self.axes,))
            value = value if value.dtype == self.dtype else node("cast", (value,), (self.dtype,))
            values = self.grow([*values, value], int(self.rng.integers(1, 4)))
        scanned = [v for v in values if v.shape == self.whole][-1:]
        outputs = tuple(dict.fromkeys([*scanned, values[-1], value]))
        inputs = sorted((n for n in Graph((), outputs).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        return Graph(tuple(inputs), outputs)


class Maps(Stages):
    """Leaves are joined of pieces, which may be computed, padded, or gathered, and values are rolled."""

    def leaf(self) -> Node:
        way, axis = int(self.rng.integers(6)), int(self.rng.integers(len(self.whole)))
        before, n, after = self.whole[:axis], self.whole[axis], self.whole[axis + 1 :]
        if way == 0:
            ends = [0, *sorted(int(e) for e in self.rng.integers(0, n + 1, 2)), n]
            pieces = [self.piece((*before, b - a, *after)) for a, b in pairwise(ends)]
            return node("concat", pieces, (axis - len(self.whole),))
        if way == 1:
            widths = tuple((min(1, m), m // 2) if self.rng.random() < 0.6 and m else (0, 0) for m in self.whole)
            inner = tuple(m - sum(w) for m, w in zip(self.whole, widths, strict=True))
            return node("pad", (self.piece(inner), const(self.pick(special_values(self.dtype)), self.dtype)), (widths,))
        if way == 2 and 0 not in self.whole:
            rank = int(self.rng.integers(len(self.whole) - axis + 1))
            source = self.input((*before, 7, *self.whole[axis + rank :]), self.dtype)
            return node("take", (source, self.places(self.whole[axis : axis + rank])), (axis - source.type.rank,))
        if way == 3 and 0 not in self.whole:
            source = self.input((*before, 7, *after), self.dtype)
            return node("take_along_axis", (source, self.places(self.whole)), (axis - len(self.whole),))
        if way == 4 and n and n % 2 == 0:
            return node("concat", self.halves((*before, n // 2, *after)), (axis - len(self.whole),))
        return super().leaf()

    def halves(self, shape: tuple[int, ...]) -> list[Node]:
        """Two pieces that are computed from one leaf, which may be joined itself."""
        whole, self.whole = self.whole, shape
        leaf = node("broadcast_to", (self.leaf(),), (shape,))
        pieces = [self.pick(self.grow([leaf], int(self.rng.integers(1, 3)))) for _ in range(2)]
        self.whole = whole
        return pieces

    def piece(self, shape: tuple[int, ...]) -> Node:
        way, x = int(self.rng.integers(5)), self.input(shape, self.dtype)
        axes = tuple(a for a in range(-len(shape), 0) if self.rng.random() < 0.5)
        if way == 0:
            return node("flip", (x,), (axes,))
        if way == 1:
            return node("maximum", (x, self.input(shape[-1:], self.dtype)))
        if way == 2:
            return node("broadcast_to", (const(self.pick(special_values(self.dtype)), self.dtype),), (shape,))
        if way == 3:
            x = self.input(tuple(1 if a - len(shape) in axes else n for a, n in enumerate(shape)), self.dtype)
            return node("broadcast_to", (x,), (shape,))
        return x

    def places(self, shape: tuple[int, ...]) -> Node:
        index = self.input(shape, self.pick([np.dtype(np.int8), np.dtype(np.int64), np.dtype(np.uint16)]), "at")
        return node("minimum", (index, self.input(shape[-1:], index.dtype, "at"))) if self.rng.random() < 0.3 else index

    def grow(self, values: list[Node], steps: int) -> list[Node]:
        values = super().grow(values, steps)
        x, axis = self.pick(values), int(self.rng.integers(-len(self.whole), 0))
        if x.shape == self.whole and x.type.extent(axis) > 1 and self.rng.random() < 0.5:
            by = int(self.rng.integers(1, x.type.extent(axis)))
            ranges = [[(0, n, 1) for n in x.shape] for _ in range(2)]
            for part, ends in zip(ranges, ((by, x.type.extent(axis), 1), (0, by, 1)), strict=True):
                part[axis] = ends
            values.append(node("concat", [node("slice", (x,), (tuple(part),)) for part in ranges], (axis,)))
        return values


class Neighbours(Drawing):
    """Values are read at several shifts along the last axes, and what is made of these again; some are columns."""

    def leaf(self) -> Node:
        return self.input((*self.whole[:-1], 1), self.dtype) if self.rng.random() < 0.3 else super().leaf()

    def body(self) -> Graph:
        rows, extent = int(self.rng.integers(20, 40)), int(self.rng.integers(80, 140))
        self.whole = (*self.whole[:-2], *(rows, extent)[-len(self.whole) :])
        values = self.grow([self.leaf() for _ in range(2)], int(self.rng.integers(2, 6)))
        for _ in range(int(self.rng.integers(1, 4))):
            first, second, *others = self.shifted(self.dear(values))
            values = [*others, self.leaf(), node("maximum", (first, second))]
            values = [*values, *self.grow(values[-1:], int(self.rng.integers(1, 6)))]
        full = [v for v in values if v.shape == self.whole]
        inputs = sorted((n for n in Graph((), (full[-1],)).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        return Graph(tuple(inputs), (full[-1],))

    def dear(self, values: list[Node]) -> list[Node]:
        """`values` of full size, and what is dearer than to read it again."""
        full = [v for v in values if v.shape == self.whole] or [self.input(self.whole, self.dtype)]
        pair = self.pick(full), self.pick(full)
        dear = {"b": "logical_xor", "f": "divide", "i": "floor_divide", "u": "floor_divide"}[dtypes.kind(self.dtype)]
        return [*full, node(dear, pair), node("minimum", (full[-1], node(dear, pair)))]

    def shifted(self, values: list[Node]) -> list[Node]:
        """Parts of the last of `values` and of another, of one shape; or these rolled along an axis."""
        last, other, axes = values[-1], self.pick(values), range(-min(2, len(self.whole)), 0)
        reach = {axis: int(self.rng.integers(0, 6)) for axis in axes}
        shifts = [{axis: int(self.rng.integers(0, n + 1)) for axis, n in reach.items()} for _ in range(4)]
        if self.rng.random() < 0.4:
            axis = self.pick(axes)
            return [*[self.rolled(last, each[axis], axis) for each in shifts], other]
        kept = {axis: self.whole[axis] - n for axis, n in reach.items()}
        parts = [{axis: (each[axis], each[axis] + n) for axis, n in kept.items()} for each in shifts]
        self.whole = (*self.whole[: -len(kept)], *kept.values())
        return [*[self.part(last, each) for each in parts], self.part(other, parts[0])]

    def rolled(self, n: Node, by: int, axis: int) -> Node:
        extent = n.type.extent(axis)
        return node("concat", (self.part(n, {axis: (by, extent)}), self.part(n, {axis: (0, by)})), (axis,))

    def part(self, n: Node, ends: dict[int, tuple[int, int]]) -> Node:
        ranges = [(*ends.get(axis, (0, n.type.extent(axis))), 1) for axis in range(-n.type.rank, 0)]
        return node("slice", (n,), (tuple(ranges),))


def drawn(rng: np.random.Generator, count: int) -> Iterator[tuple[Graph, CKernel, list[np.ndarray]]]:
    while count:
        drawing = (Drawing, Stages, Maps, Scans, Neighbours)[count % 5](rng)
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
            kernel = emitted(state.kind, body)
        except UnsupportedOp:  # of a view of the result of a reduction
            continue
        yield body, kernel, drawing.data(body)
        count -= 1


def judge(seed: int, count: int) -> None:
    cases = list(drawn(np.random.default_rng(None if EXPLORING else seed), count))
    results = run_all([k for _, k, _ in cases], [arrays for _, _, arrays in cases])
    for (body, kernel, arrays), writes in zip(cases, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(body, arrays)
        if any(n.op in ADDING and n.op != "cumsum" for n in body.nodes):
            assert Reference(body, arrays).agree(writes), f"{body}\n{kernel.text.source}\n{arrays}\n{writes}\n{wanted}"
            continue
        for got, want in zip(writes, wanted, strict=True):
            zero = (want == 0) & (got == 0)  # whose sign max and min leave open
            assert (same(got, want) | zero).all(), f"{body}\n{kernel.text.source}\n{arrays}\n{got}\n{want}"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, chunks and parts so small that bodies of tests have many, on several threads."""
    for module, name, value in (
        (nest, "SHORT_DIMENSION", 4), (lines, "FAR_BYTES", 0), (nest, "ACROSS_BLOCK", 4), (nest, "TILE", 8),
        (schedule, "LINE", 4),
        (splits, "LINE", 4), (splits, "ELEMENTS_OF_A_PART", 8), (splits, "SHORT_PART", 8), (splits, "FEW_UNITS", 100),
        (schedule, "SHARED_FROM", 0.0), (schedule, "HANDED", 0.0), (schedule, "CHUNK_SECONDS", 1e-9),
        (reductions, "PAIR_BYTES", 32), (forms, "SMALL_SHARE", 2),
        (streaming, "LEAST_ROW", 4), (streaming, "STREAMED_SHARE", 0), (lines, "STAGE_BYTES", 32),
        (streaming, "exceeds_caches", lambda read, written, device: streaming.HAS_STREAM),
        (strips, "LENGTH", 8), (strips, "STRIP_REACH", 8), (strips, "WORTH_A_STRIP", 1.0), (strips, "CHUNK_ROWS", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.slow
def test_random_kernels_have_the_evaluators_bits() -> None:
    judge(0, 20)


def test_random_kernels_in_many_blocks_have_the_evaluators_bits(small_blocks: None) -> None:
    judge(1, 20)


@pytest.mark.slow
def test_random_kernels_do_nothing_undefined(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What C leaves undefined ends the process."""
    flags = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    monkeypatch.setattr(kernels, "load_all", lambda texts, quick: load_all(texts, *flags))
    judge(10, many(100))


@pytest.mark.slow
def test_random_kernels_touch_no_memory_but_their_arrays() -> None:
    with_address_sanitizer("tests.kernels.test_c_random", f"judge(11, {many(100)})")


@pytest.mark.slow
def test_many_random_kernels_have_the_evaluators_bits() -> None:
    judge(2, many(100))


@pytest.mark.slow
def test_many_random_kernels_in_many_blocks_have_the_evaluators_bits(small_blocks: None) -> None:
    judge(6, many(100))
