"""Draws the nodes of a random model: typed inputs, attributes, constants, graphs within graphs.

In: a seeded generator and the rows of `table`. Out: nodes, each run by the judges as soon as it is drawn, so that every
value is known to those that come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from eqfuse import dtypes
from tests.frontends.onnx_random.judges import IR_VERSION, Array, Refused
from tests.frontends.onnx_random.run import DrawnValue, ModelRun, reads
from tests.frontends.onnx_random.table import TABLE, NodeSpec

F32, F64, I32, I64, BOOL = (np.dtype(d) for d in ("float32", "float64", "int32", "int64", "bool"))
WEIGHTS = {F32: 20, F64: 6, I64: 6, np.dtype(np.float16): 4, I32: 4, BOOL: 3, np.dtype(ml_dtypes.bfloat16): 1}
ELEMENTS = 400  # of one value at most
EXTENTS = (1, 2, 3, 4, 5)

Shape = tuple[int, ...]
Test = Callable[[DrawnValue], Any]


class Draw:
    """A model in the making. `special` and `empty` say what numbers and extents there are; `everywhere`, that
    onnxruntime must run it."""

    def __init__(
        self, rng: np.random.Generator, opset: int, special: bool = False, empty: bool = False, everywhere: bool = False
    ) -> None:
        self.rng, self.opset, self.special, self.empty, self.everywhere = rng, opset, special, empty, everywhere
        self.run = ModelRun(opset)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[str] = []
        self.initialisers: list[str] = []
        self.pool: list[str] = []  # what nodes may read
        self.results: list[str] = []  # what nodes have made
        self.unread: set[str] = set()
        self.depth = 0  # of graphs within graphs
        self._count = 0
        self.op = ""

    # ---- chances

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def integer(self, low: int, high: int) -> int:
        """Between `low` and `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, choices: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        p = None if weights is None else np.asarray(weights, float) / sum(weights)
        return choices[int(self.rng.choice(len(choices), p=p))]

    def optional(self, p: float = 0.5, **attributes: Any) -> dict[str, Any]:
        """Each of the attributes, or not."""
        return {name: a for name, a in attributes.items() if self.chance(p)}

    def real(self, low: float, high: float) -> float:
        """A number of few digits, which float32 holds."""
        return float(np.float32(self.rng.uniform(low, high).__round__(2)))

    def extent(self) -> int:
        return 0 if self.empty and self.chance(0.15) else int(self.pick(EXTENTS))

    def shape(self, rank: int | None = None) -> Shape:
        rank = self.pick((0, 1, 2, 3, 4, 5), (2, 4, 6, 4, 2, 1)) if rank is None else rank
        while True:
            shape = tuple(self.extent() for _ in range(rank))
            if np.prod(shape) <= ELEMENTS:
                return shape

    def axis(self, x: DrawnValue, extra: int = 0) -> int:
        """One of the axes of `x`, perhaps counted from the back."""
        return self.integer(-x.rank - extra, x.rank + extra - 1)

    def axes(self, x: DrawnValue, least: int = 0, most: int | None = None) -> list[int]:
        """Some of the axes of `x`, in any order, perhaps counted from the back."""
        count = self.integer(least, x.rank if most is None else min(most, x.rank))
        chosen = self.rng.permutation(x.rank)[:count]
        return [int(a) - (x.rank if self.chance(0.4) else 0) for a in chosen]

    # ---- types

    def types(self, place: int) -> list[np.dtype]:
        """The dtypes that the operator takes as its input `place`."""
        schema = onnx.defs.get_schema(self.op, self.opset, "")
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        return [d for name, d in _TENSORS.items() if name in constraints.get(formal.type_str, [formal.type_str])]

    def dtype(self, place: int = 0, among: Sequence[np.dtype] | None = None) -> np.dtype:
        choices = [d for d in self.types(place) if among is None or d in among]
        return self.pick(choices, [WEIGHTS.get(d, 1) for d in choices])

    # ---- values

    def value(
        self, place: int = 0, rank: int | Sequence[int] | None = None, dtype: Any = None, ok: Test | None = None,
        shape: Shape | None = None, **numbers: Any,
    ) -> DrawnValue:  # fmt: skip
        """Something for the input `place`: a value that there is, one in another shape, or a new one."""
        types = self.types(place) if dtype is None else [dtype] if isinstance(dtype, np.dtype) else list(dtype)
        ranks = None if rank is None else (rank,) if isinstance(rank, int) else tuple(rank)

        def fits(v: DrawnValue) -> bool:
            return (
                v.is_tensor and v.dtype in types and (ranks is None or v.rank in ranks)
                and (shape is None or v.shape == shape) and (ok is None or bool(ok(v)))
            )  # fmt: skip

        candidates = [v for v in map(self.run.values.__getitem__, self.pool) if fits(v)]
        unread = [v for v in candidates if v.name in self.unread]
        if unread and self.chance(0.7):
            return self.pick(unread)
        if candidates and self.chance(0.8):
            return self.pick(candidates)
        if shape is None and self.chance(0.8):
            adapted = self._adapted(types, ranks, ok)
            if adapted is not None:
                return adapted
        for _ in range(200):
            of_rank = shape if shape is not None else self.shape(None if ranks is None else self.pick(ranks))
            kind = self.pick(types, [WEIGHTS.get(d, 1) for d in types])
            array = self.numbers(kind, of_rank, **numbers)
            if ok is None or ok(DrawnValue("", array, ())):
                return self.new(array)
        raise Refused("nothing fits")

    def _adapted(self, types: Sequence[np.dtype], ranks: Sequence[int] | None, ok: Test | None) -> DrawnValue | None:
        """A value that there is in a shape and a dtype that fit."""
        tensors = [v for v in map(self.run.values.__getitem__, self.pool) if v.is_tensor]
        candidates = [v for v in tensors if v.name in self.unread] or tensors
        for _ in range(10 if candidates else 0):
            v = self.pick(candidates)
            shape = v.shape if ranks is None or v.rank in ranks else self.factors(v.size, self.pick(ranks))
            dtype = v.dtype if v.dtype in types else self.pick(types, [WEIGHTS.get(t, 1) for t in types])
            if shape is None or not holds(v.array, dtype) or not castable(dtype, v.dtype, self.opset):
                continue
            array = v.array.reshape(shape).astype(dtype)
            if ok is None or ok(DrawnValue("", array, ())):
                return self._converted(v, shape, dtype)
        return None

    def _converted(self, v: DrawnValue, shape: Shape, dtype: np.dtype) -> DrawnValue:
        if v.dtype != dtype:
            v = self.node("Cast", NodeSpec([v], {"to": onnx.helper.np_dtype_to_tensor_dtype(dtype)}))[0]
        if v.shape != shape:
            to = self.const(np.array(shape, np.int64), plain=True)
            v = self.node("Reshape", NodeSpec([v, to], {"allowzero": 1} if 0 in shape and self.opset >= 14 else {}))[0]
        return v

    def factors(self, size: int, rank: int) -> Shape | None:
        """A shape of `size` elements."""
        if rank == 0:
            return () if size == 1 else None
        shape = [1] * rank
        while size > 1:
            p = next(p for p in range(2, size + 1) if size % p == 0)
            shape[self.integer(0, rank - 1)] *= p
            size //= p
        if size == 0:
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    def like(self, x: DrawnValue, shape: Shape, dtype: np.dtype | None = None, **numbers: Any) -> DrawnValue:
        """A value of that shape, and of the dtype of `x`."""
        return self.value(dtype=dtype or x.dtype, shape=tuple(shape), **numbers)

    def new(self, array: np.ndarray) -> DrawnValue:
        """An input, or, more rarely, an initialiser."""
        if self.depth or self.chance(0.3):
            return self.const(array)
        name = self.name("x")
        self.inputs.append(name)
        self.pool.append(name)
        return self.run.give(name, array, known=False)

    def const(self, array: Any, plain: bool = False) -> DrawnValue:
        """A value that is known while the model is loaded: an initialiser, or what a node Constant gives."""
        array = np.asarray(array)
        if not plain and self.chance(0.2) and array.dtype in self._constants():
            name = self.name("c")
            n = onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array))
            self.nodes.append(n)
        else:
            name = self.name("w")
            self.initialisers.append(name)
        self.pool.append(name)
        return self.run.give(name, array, known=True)

    def _constants(self) -> list[np.dtype]:
        schema = onnx.defs.get_schema("Constant", self.opset, "")
        return [d for name, d in _TENSORS.items() if name in schema.type_constraints[0].allowed_type_strs]

    def name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def numbers(
        self, dtype: np.dtype, shape: Shape, low: float | None = None, high: float | None = None,
        special: bool | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Small numbers within the bounds, many of them halves; where `special`, also those at which they differ."""
        kind = dtypes.kind(dtype)
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind in "iu":
            info = np.iinfo(dtype)
            low = max(-9 if low is None else low, info.min)
            array = np.asarray(self.rng.integers(int(low), int(9 if high is None else high) + 1, shape)).astype(dtype)
            edges: list[Any] = [info.min, info.max]
        else:
            low, high = -4 if low is None else low, 4 if high is None else high
            array = self.rng.uniform(low, high, shape)
            if self.chance(0.5):
                array = np.clip(np.rint(array * 2) / 2, low, high)
            array = np.asarray(array).astype(dtype)
            edges = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(ml_dtypes.finfo(dtype).max), 1e-5]
        wanted = self.special if special is None else special
        if wanted and array.size and self.chance(0.5):
            flat = array.reshape(-1)
            for place in self.rng.integers(0, flat.size, max(1, flat.size // 6)):
                flat[place] = np.asarray(self.pick(edges)).astype(dtype)
        return array

    # ---- nodes

    def step(self, op: str) -> bool:
        """One node of `op`, if a row can draw it."""
        row = TABLE[op]
        if not max(row.since, 1) <= self.opset <= row.until:
            return False
        self.op = op
        before = self._state()
        try:
            spec = row.draw(self)
            if spec is not None:
                self.node(op, spec)
                return True
        except Refused:
            pass
        self._back_to(before)
        return False

    def node(self, op: str, spec: NodeSpec, graphs: Sequence[str] = ()) -> list[DrawnValue]:
        """The node that a row has drawn, run by the judges. Refused where its results are not worth having."""
        names = [self.name("v") for _ in range(spec.outputs)]
        inputs = [i.name if i is not None else "" for i in spec.inputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        n = onnx.helper.make_node(op, inputs, names, **spec.attributes)
        deprecated = op == "GroupNormalization" and self.opset < 21
        if not deprecated and not any(a.HasField("g") for a in n.attribute):
            onnx.checker.check_node(n, self._context())
        results = self.run.apply(n)
        if self.everywhere and not self.run.onnxruntime:
            raise Refused("onnxruntime does not have it")
        if not all(map(self._worth, results)):
            raise Refused("too large, or too far from finite")
        self.nodes.append(n)
        self.pool += names
        self.results += names
        self.unread = (self.unread - set(reads(n))) | {r.name for r in results if r.is_tensor}
        return results

    def _context(self) -> Any:
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = IR_VERSION, {"": self.opset}
        return context

    def _worth(self, v: DrawnValue) -> bool:
        arrays = v.array if isinstance(v.array, list) else [v.array]
        return all(self._fine(a) for a in arrays)

    def _fine(self, x: Array) -> bool:
        if x.size > ELEMENTS * 4 or x.ndim > 8:
            return False
        if dtypes.kind(x.dtype) != "f" or not x.size or self.special:
            return True
        wide = x.astype(np.float64)
        finite = np.isfinite(wide)
        return bool(finite.mean() > 0.7 and np.abs(wide[finite]).max(initial=0) < 2.0**40)

    def _state(self) -> Any:
        values = dict(self.run.values), self.run.onnxruntime
        return (
            [list(x) for x in (self.nodes, self.inputs, self.initialisers, self.pool, self.results)],
            values,
            self.unread,
        )

    def _back_to(self, state: Any) -> None:
        (self.nodes, self.inputs, self.initialisers, self.pool, self.results), values, self.unread = state
        self.run.values, self.run.onnxruntime = values


def holds(x: np.ndarray, dtype: np.dtype) -> bool:
    """Has every element of `x` a value in `dtype`, up to rounding?"""
    if dtypes.kind(dtype) == "b":
        return True
    wide = x.astype(np.float64)
    least, most = (-1e4, 1e4) if dtypes.kind(dtype) == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max / 2)
    return bool(((wide >= least) & (wide <= most)).all())


def castable(dtype: np.dtype, source: np.dtype, opset: int) -> bool:
    """Does Cast take one to the other?"""
    constraints = onnx.defs.get_schema("Cast", opset).type_constraints
    return all(_type_name(d) in c.allowed_type_strs for d, c in zip((source, dtype), constraints, strict=True))


def _type_name(dtype: np.dtype) -> str:
    names = {"float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2"}
    return f"tensor({names.get(dtype.name, dtype.name)})"


_TENSORS = {_type_name(d): d for d in dtypes.TENSORS if d.kind != "c"}
