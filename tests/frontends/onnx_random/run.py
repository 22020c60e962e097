"""A model run node by node by both judges, beside runs in which every rounding is a little different.

In: nodes and the values of inputs. Out: for every name a `DrawnValue`: what is right, and how far from it an
implementation may be. What the judges leave open shows where the disturbed runs differ: an ill-conditioned sum,
a tie that rounding breaks, an index that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from eqfuse import dtypes
from tests.frontends.onnx_random.judges import Array, Refused, model_of, onnxruntime, read_as, reference
from tests.frontends.onnx_random.numbers import Tolerance, largest, least, misses, moderate, safe, special

RUNS = 8  # disturbed ones


class Disagreement(AssertionError):
    """The judges differ, and the table does not say which of them is right."""

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Array], results: Mapping[Any, list[Array]]) -> None:
        self.model, self.inputs, self.results = model, inputs, results
        text = onnx.printer.to_text(model)
        each = "\n".join(f"{judge.__name__}\n{result}" for judge, result in results.items())
        super().__init__(f"the judges differ in\n{text}\n{dict(inputs)}\n{each}")


@dataclass(frozen=True)
class DrawnValue:
    """What a name holds: `array` is right; `disturbed` are other runs' values, None where such a run left the
    operator's domain; `cautious` is NaN where a number was met whose products and sums may not be finite. `known`: it
    depends on no input."""

    name: str
    array: Array
    disturbed: tuple[Array | None, ...]
    cautious: Array | None = None
    known: bool = False
    is_option: bool = False

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.array, np.ndarray) and not self.is_option

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size


class ModelRun:
    """The values of a model so far."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.values: dict[str, DrawnValue] = {}
        self.onnxruntime = True  # does it run every node to the values here?
        self._noise = [(np.random.default_rng(i // 2), 1 - i % 2 * 2) for i in range(RUNS)]  # each and its negative

    def give(self, name: str, array: Array, known: bool) -> DrawnValue:
        """A value from outside, which is exact."""
        self.values[name] = DrawnValue(name, array, (array,) * RUNS, safe(array), known)
        return self.values[name]

    def apply(self, n: onnx.NodeProto) -> list[DrawnValue]:
        """The outputs of `n`. Refused where no judge runs it, or its result is left open for these values."""
        from tests.frontends.onnx_random.table import TABLE

        row = TABLE[n.op_type]
        inputs = {name: self.values[name] for name in dict.fromkeys(reads(n))}
        arrays = {name: v.array for name, v in inputs.items()}
        if not row.defined(n, arrays):
            raise Refused(f"{n.op_type} is not defined for these values")
        right, judge, agreed = self._judged(n, row, arrays)
        if row.finite and not all(map(moderate, right)):
            raise Refused(f"{n.op_type} leaves the range of moderate numbers")
        disturbed = [
            right if not row.rounding.ulps and all(v.disturbed[i] is v.array for v in inputs.values())
            else self._disturbed(n, row, {name: v.disturbed[i] for name, v in inputs.items()}, judge, i)
            for i in range(RUNS)
        ]  # fmt: skip
        cautious = self._cautious(n, row, inputs, right, judge)
        self.onnxruntime &= agreed
        known = all(v.known for v in inputs.values()) or n.op_type in ("Shape", "Size")
        outputs = []
        for i, (name, array) in enumerate(zip(n.output, right, strict=True)):
            others = tuple(None if d is None else d[i] for d in disturbed)
            doubted = None if cautious is None else cautious[i]
            outputs.append(DrawnValue(name, array, others, doubted, known, is_option=n.op_type == "Optional"))
            if name:
                self.values[name] = outputs[-1]
        return outputs

    def _cautious(
        self, n: onnx.NodeProto, row: Any, inputs: Mapping[str, DrawnValue], right: list[Array], judge: Any
    ) -> list[Array] | None:
        if all(v.cautious is v.array for v in inputs.values()):
            return [safe(x) for x in right]
        given = {name: v.cautious for name, v in inputs.items()}
        if any(x is None for x in given.values()) or not row.defined(n, given, every=True):
            return None
        try:
            return [safe(x) for x in judge(given)]
        except Refused:
            return None

    def _disturbed(
        self, n: onnx.NodeProto, row: Any, inputs: Mapping[str, Array | None], judge: Any, i: int
    ) -> list[Array] | None:
        if any(x is None for x in inputs.values()):
            return None
        rounding = row.rounding
        given = {name: self._noisy(x, rounding, 0, i) if rounding.of_inputs else x for name, x in inputs.items()}
        if not row.defined(n, given):
            return None
        try:
            outputs = judge(given)
        except Refused:
            return None
        scale = largest([*given.values(), *outputs]) if rounding.absolute else 0
        return [self._noisy(x, rounding, scale, i) for x in outputs] if rounding.ulps else outputs

    def _noisy(self, x: Array, rounding: Tolerance, scale: float, i: int) -> Array:
        """`x` with every float a few units in the last place away, of itself or of `scale`; what may be zero then is
        zero now and then."""
        if isinstance(x, list):
            return [self._noisy(y, rounding, scale, i) for y in x]
        if x is None or dtypes.kind(x.dtype) != "f" or not x.size:
            return x
        step = rounding.step(x.dtype)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            rng, sign = self._noise[i]
            noise = rng.uniform(-1, 1, x.shape)
            if rng.random() < 0.5:  # all in one direction, as when a long sum is rounded
                noise = np.abs(noise)
            noise *= sign
            small = np.where((wide != 0) & (np.abs(wide) < least(x.dtype)), least(x.dtype), 0)
            noisy = wide + noise * (step * np.maximum(np.abs(wide), scale) + small)
            return np.where((np.abs(wide) < step * scale) & (noise < -0.5), 0, noisy).astype(x.dtype)

    def _judged(self, n: onnx.NodeProto, row: Any, inputs: Mapping[str, Array]) -> tuple[list[Array], Any, bool]:
        """The right outputs; who gives them; and whether onnxruntime does."""
        model = model_of([n], inputs, [o for o in n.output if o], self.opset)
        runs: dict[Any, Callable[..., list[Array]]] = {}
        results: dict[Any, list[Array]] = {}
        refusals = []
        for judge in (reference, onnxruntime):
            try:
                runs[judge] = _all_outputs(n, judge(model), inputs, self.opset)
                results[judge] = runs[judge](inputs)
            except Refused as error:
                refusals.append(str(error))
        if len(results) == 2:
            results[onnxruntime] = [
                read_as(g, r) for g, r in zip(results[onnxruntime], results[reference], strict=True)
            ]
        if len(results) == 2 and self._alike(row.rounding, inputs, results, runs):
            return results[reference], runs[onnxruntime], True
        right = row.right(n, inputs, self.opset)
        if right is None and len(results) == 2 and any(map(special, (*inputs.values(), *results[reference]))):
            right = "reference"  # which is NumPy
        if right is None and len(results) == 2:
            raise Disagreement(model, inputs, results)
        for judge, result in results.items():
            if right in (None, judge.__name__):
                return result, runs[judge], judge is onnxruntime
        raise Refused("; ".join(refusals) or "no judge is right")

    def _alike(self, rounding: Tolerance, inputs: Mapping[str, Array], results: Any, runs: Any) -> bool:
        """Do the two judges agree, as far as rounding allows?"""
        got, right = results[onnxruntime], results[reference]
        scale = largest([*inputs.values(), *right]) if rounding.absolute else 0
        if not any(misses(g, r, (), rounding, scale) for g, r in zip(got, right, strict=True)):
            return True
        if not rounding.of_inputs:
            return False
        try:
            moved = [
                runs[reference]({name: self._noisy(x, rounding, 0, i) for name, x in inputs.items()})
                for i in range(RUNS)
            ]
        except Refused:
            return False
        each = enumerate(zip(got, right, strict=True))
        return not any(misses(g, r, [m[i] for m in moved], rounding, scale) for i, (g, r) in each)


def reads(n: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads: its inputs, and what graphs in it take from around."""
    yield from (i for i in n.input if i)
    for a in n.attribute:
        if a.HasField("g"):
            yield from free(a.g)


def free(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a graph takes from around it."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    for n in graph.node:
        yield from (name for name in reads(n) if name not in own)
        own |= set(n.output)
    yield from (o.name for o in graph.output if o.name not in own)


def _all_outputs(n: onnx.NodeProto, run: Any, arrays: Mapping[str, Array], opset: int) -> Any:
    """`run`, with None for the outputs that `n` leaves out. Refused where an output has another dtype than an input
    whose dtype the standard says it has."""
    likes = _dtypes(n, arrays, opset)

    def complete(inputs: Mapping[str, Array]) -> list[Array]:
        outputs = iter(run(inputs))
        results = [next(outputs) if o else None for o in n.output]
        for x, dtype in zip(results, likes, strict=False):
            if dtype is not None and isinstance(x, np.ndarray) and x.dtype != dtype:
                raise Refused(f"a result is {x.dtype} instead of {dtype}")
        return results

    return complete


def _dtypes(n: onnx.NodeProto, arrays: Mapping[str, Array], opset: int) -> list[np.dtype | None]:
    """The dtypes of the outputs that are those of an input."""
    schema = onnx.defs.get_schema(n.op_type, opset)
    by_type = {}
    for formal, name in zip(schema.inputs, n.input, strict=False):
        if name and isinstance(arrays[name], np.ndarray):
            by_type.setdefault(formal.type_str, arrays[name].dtype)
    return [by_type.get(o.type_str) for o in schema.outputs]
