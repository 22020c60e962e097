"""Every operator has its row in every table; the message says which table misses which operator."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

import eqfuse.emit.onnx.model  # noqa: F401 (it fills the table of exports)
from eqfuse.cost.price_classes import USUAL_PRICES
from eqfuse.dtypes import TENSORS
from eqfuse.emit.cuda import calls
from eqfuse.emit.cuda import ops as cuda
from eqfuse.emit.cuda.scheduling import cupy_names
from eqfuse.emit.cuda.scheduling.host import UFUNC_NAMES
from eqfuse.emit.numpy.table import NUMPY_ROWS as NUMPY
from eqfuse.emit.onnx.table import NOT_EXPORTED
from eqfuse.emit.onnx.table import ONNX_WRITERS as ONNX
from eqfuse.errors import DtypeError, EqfuseError, LawError
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.ir.running_errors import running_errors
from eqfuse.ops import TABLE, Op
from eqfuse.ops.elementwise import UFUNCS, loop_dtypes
from eqfuse.ops.facts import of_dtype
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.ranges import range_of
from eqfuse.ops.row import PriceClass
from eqfuse.ops.special import SPECIAL_UFUNCS
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.match import Decline
from eqfuse.rewrites.language.samples import sample_attr

LEAVES = ("input", "const")
COMPLEX = ("real", "imag", "complex")


def loop(op: Op) -> list[TensorType]:
    """Types of arguments for which NumPy has a loop of the ufunc, floats before others."""
    assert op.arity is not None
    for first, second in product(("float64", "int64", "bool", "int32"), repeat=2):
        wanted = [np.dtype(d) for d in (first, *[second] * (op.arity - 1))]
        try:
            if list(loop_dtypes(op.name, *wanted)[: op.arity]) == wanted:
                return [TensorType(d, (2, 2)) for d in wanted]
        except DtypeError:
            continue
    raise AssertionError(f"NumPy has no loop of {op.name}")


def type_and_flops(op: Op) -> bool:
    types = loop(op)
    return op.flops(types, op.type(types, ()), ()) >= 0


def meaning(op: Op) -> bool:
    return isinstance(op.meaning, np.ufunc)


def ranges(op: Op) -> bool:
    types = loop(op)
    out = op.type(types, ())
    return range_of(op.name, (), types, [of_dtype(t.dtype) for t in types]).within(of_dtype(out.dtype))


def error_bound(op: Op) -> bool:
    inputs = [input_node(f"x{i}", t) for i, t in enumerate(loop(op))]
    values = [np.full(n.shape, 1, n.dtype) for n in inputs]
    graph = Graph(tuple(inputs), (node(op.name, inputs),))
    return not np.isnan(running_errors(graph, values)[graph.outputs[0]].error).any()


def price_class(op: Op) -> bool:
    return op.price in USUAL_PRICES or op.price is PriceClass.PRODUCT


def numpy_emission(op: Op) -> bool:
    return op.name in NUMPY or op.name in LEAVES


def cuda_emission(op: Op) -> bool:
    """In a kernel, by a call of CuPy, or as a loop of the host's; few special functions may run on the host. Slices are
    read and written by indices."""
    if op.name not in UFUNCS:
        return op.name in calls.CUPY_CALLS or op.name in LOOPS or op.name in (*LEAVES, "slice", "slice_scatter")
    inside = any(cuda.emits(op.name, [d] * op.arity, d) for d in TENSORS)  # type: ignore[operator]
    return inside or UFUNC_NAMES[op.name] in cupy_names.CUPY_LOOPS or op.name in SPECIAL_UFUNCS


def onnx_export(op: Op) -> bool:
    return op.name in ONNX or op.name in NOT_EXPORTED or op.name in (*LEAVES, *COMPLEX, *LOOPS, "loop_result")


def derivative(op: Op) -> bool:
    return op.name in DERIVATIVES or op.name in LEAVES


def law_samples(op: Op) -> bool:
    return op.name == "input" or all(_is_drawn(op, name) for name in op.attrs)


def _is_drawn(op: Op, name: str) -> bool:
    types = [TensorType(np.dtype(np.float32), (3, 3))] * 2
    try:
        sample_attr(op.name, name, types, (-1, -1, -1), np.dtype(np.float32), random.Random(0))
    except LawError:
        return False
    except (Decline, TypeError):  # it is drawn for other arguments
        return True
    return True


def frontend_entry(op: Op) -> bool:
    """Is a traced call of the ufunc this operator? A composition of others would take its place."""
    every = (loop(op), [TensorType(np.dtype(np.complex128), (2,))] * len(loop(op)))
    return any(n.op == op.name for types in every for n in traced(op, types))


def traced(op: Op, types: list[TensorType]) -> tuple[Node, ...]:
    try:
        return trace(op.meaning, *(spec(t.shape, t.dtype) for t in types)).nodes
    except EqfuseError:
        return ()


EVERY: dict[str, Callable[[Op], bool]] = {
    "price classes (eqfuse/cost/price_classes.py)": price_class,
    "NumPy emission (eqfuse/emit/numpy/table.py)": numpy_emission,
    "CUDA emission (eqfuse/emit/cuda/ops.py or calls.py, or a ufunc of CuPy's)": cuda_emission,
    "ONNX export (eqfuse/emit/onnx, or a reason in its table.py)": onnx_export,
    "derivatives (a family of eqfuse/gradients; a reason where there is none)": derivative,
    "law samples (rewrites/language/samples.py)": law_samples,
}
OF_UFUNCS: dict[str, Callable[[Op], bool]] = {
    "meaning (eqfuse/ops/elementwise.py)": meaning,
    "type and flops (eqfuse/ops/elementwise.py)": type_and_flops,
    "ranges (eqfuse/ops/ranges.py)": ranges,
    "error bounds (eqfuse/ops/error_bounds.py)": error_bound,
    "front-end (a composition in eqfuse/frontends/numpy/ufuncs.py takes its place)": frontend_entry,
}


def missing(op: Op) -> Iterator[str]:
    for table, has in (EVERY | OF_UFUNCS if op.name in UFUNCS else EVERY).items():
        if not has(op):
            yield table


@pytest.mark.parametrize("name", TABLE)
def test_every_table_has_a_row_for(name: str) -> None:
    with np.errstate(all="ignore"):
        tables = list(missing(TABLE[name]))
    assert not tables, f"{name} has no row in: {'; '.join(tables)}"


def test_the_message_names_the_operator_and_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ONNX, "exp")
    monkeypatch.delitem(NUMPY, "exp")
    assert [table.partition(" (")[0] for table in missing(TABLE["exp"])] == ["NumPy emission", "ONNX export"]


def test_no_table_has_a_row_of_an_operator_that_is_not_there() -> None:
    assert NUMPY.keys() == TABLE.keys() - {*LEAVES}
    assert not (ONNX.keys() | NOT_EXPORTED.keys()) - TABLE.keys()
    assert not (calls.CUPY_CALLS.keys() | DERIVATIVES.keys()) - TABLE.keys()
    assert inspect.signature(Op).parameters["price"].default is inspect.Parameter.empty, "no price without a choice"
