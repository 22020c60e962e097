"""Loops and choices, whose attributes hold graphs of their own: what one step computes, or one branch.

In: the initial carries, what is looped over, and values that do not change. Out: one result as it is; several as one
vector of bytes, which `loop_result` takes apart. `StepGraph` is what the operators ask of such a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from eqfuse.ops.row import Op, PriceClass, Role, Types, need, no_flops
from eqfuse.ops.types import TensorType, tensor_type

RESULT_ALIGNMENT = 64  # bytes, of each result in the vector
UNKNOWN_TRIPS = 32  # taken for a price where data decide how often a loop runs
BYTE = np.dtype(np.uint8)
INDEX_TYPE = TensorType(np.dtype(np.int64), ())
CONDITION = TensorType(np.dtype(bool), ())


class StepGraph(Protocol):
    """A graph: the types it takes and gives, and what it computes."""

    @property
    def takes(self) -> Sequence[TensorType]: ...

    @property
    def gives(self) -> Sequence[TensorType]: ...

    @property
    def flops(self) -> int: ...

    def __call__(self, *arrays: np.ndarray) -> Sequence[np.ndarray]: ...


# ---- several results in one vector


def packed_type(results: Sequence[TensorType]) -> TensorType:
    """The type of `results` together."""
    return results[0] if len(results) == 1 else TensorType(BYTE, (places(results)[-1],))


def places(results: Iterable[TensorType]) -> list[int]:
    """Where each result begins in the vector, no two at one place, and where the last one ends."""
    starts = [0]
    for t in results:
        starts.append(starts[-1] + -(-max(t.nbytes, 1) // RESULT_ALIGNMENT) * RESULT_ALIGNMENT)
    return starts


def unpacked(packed: Any, results: Sequence[TensorType]) -> list[Any]:
    """The `results` in `packed`, as views of it; on any device."""
    if len(results) == 1:
        return [packed]
    return [packed_part(packed, start, t) for start, t in zip(places(results), results, strict=False)]


def packed_part(packed: Any, begin: int, t: TensorType) -> Any:
    """The result of type `t` that begins at the byte `begin`."""
    return packed[begin : begin + t.nbytes].view(t.dtype).reshape(t.shape)


def packed_results(values: Sequence[np.ndarray], results: Sequence[TensorType]) -> np.ndarray:
    t = packed_type(results)
    vector = np.zeros(t.shape, t.dtype)
    for place, value in zip(unpacked(vector, results), values, strict=True):
        place[...] = value
    return vector


# ---- what the results are


def results_of(op: str, types: Types, attrs: tuple) -> list[TensorType]:
    """The types of the results of a loop or a choice. ShapeError where its bodies do not fit."""
    return _RESULTS[op](types, attrs)


def _while_results(types: Types, attrs: tuple) -> list[TensorType]:
    condition, body, carries = attrs
    _takes("while_loop", condition, types, types)
    _takes("while_loop", body, types, types)
    need(tuple(condition.gives) == (CONDITION,), "while_loop", types, "the condition gives one bool")
    return _same_carries("while_loop", body, types, types[:carries])


def _fori_results(types: Types, attrs: tuple) -> list[TensorType]:
    body, carries = attrs
    need(tuple(types[:2]) == (INDEX_TYPE, INDEX_TYPE), "fori_loop", types, "the bounds are int64 scalars")
    _takes("fori_loop", body, types, (INDEX_TYPE, *types[2:]))
    return _same_carries("fori_loop", body, types, types[2 : 2 + carries])


def _scan_results(types: Types, attrs: tuple) -> list[TensorType]:
    body, carries, arrays, length, *_ = attrs
    stacked = types[carries : carries + arrays]
    fits = all(t.rank and t.shape[0] == length for t in stacked)
    need(fits, "scan", types, "what is looped over has {} rows", length)
    rows = [TensorType(t.dtype, t.shape[1:]) for t in stacked]
    _takes("scan", body, types, (INDEX_TYPE, *types[:carries], *rows, *types[carries + arrays :]))
    last = _same_carries("scan", body, types, types[:carries])
    return [*last, *(TensorType(t.dtype, (length, *t.shape)) for t in body.gives[carries:])]


def _choice_results(types: Types, attrs: tuple) -> list[TensorType]:
    yes, no = attrs
    need(types[0] == CONDITION, "if_else", types, "the condition is one bool")
    _takes("if_else", yes, types, types[1:])
    _takes("if_else", no, types, types[1:])
    need(tuple(yes.gives) == tuple(no.gives), "if_else", types, "both branches give the same types")
    return list(yes.gives)


def _takes(op: str, body: StepGraph, types: Types, wanted: Types) -> None:
    need(tuple(body.takes) == tuple(wanted), op, types, "a body takes {}", ", ".join(map(str, body.takes)))


def _same_carries(op: str, body: StepGraph, types: Types, carries: Types) -> list[TensorType]:
    need(tuple(body.gives[: len(carries)]) == tuple(carries), op, types, "a step changes the type of a carry")
    return list(carries)


def _custom_results(_types: Types, attrs: tuple) -> list[TensorType]:
    call, *_ = attrs
    return list(call.value.gives)


_RESULTS: dict[str, Callable[[Types, tuple], list[TensorType]]] = {
    "while_loop": _while_results, "fori_loop": _fori_results, "scan": _scan_results, "if_else": _choice_results,
    "custom_call": _custom_results, "custom_change": _custom_results,
}  # fmt: skip
SCAN_ATTRS = ("body", "carries", "stacked", "trips", "start", "reverse")
LOOPS = frozenset({"while_loop", "fori_loop", "scan", "if_else"})


def trips(op: str, attrs: tuple) -> int | None:
    """How often the body runs; None where data decide that."""
    return attrs[SCAN_ATTRS.index("trips")] if op == "scan" else 1 if op == "if_else" else None


# ---- what they compute: step by step, by the evaluator


def _do_while(*operands: Any) -> np.ndarray:
    *arrays, condition, body, carries = operands
    state, shared = arrays[:carries], arrays[carries:]
    while condition(*state, *shared)[0]:
        state = body(*state, *shared)
    return packed_results(state, body.gives)


def _do_fori(*operands: Any) -> np.ndarray:
    lower, upper, *arrays, body, carries = operands
    state, shared = arrays[:carries], arrays[carries:]
    for i in range(int(lower), int(upper)):
        state = body(np.asarray(i, np.int64), *state, *shared)
    return packed_results(state, body.gives)


def _do_scan(*operands: Any) -> np.ndarray:
    *arrays, body, carries, count, length, start, reverse = operands
    state, stacked, shared = arrays[:carries], arrays[carries : carries + count], arrays[carries + count :]
    stacks = [np.empty((length, *t.shape), t.dtype) for t in body.gives[carries:]]
    for i in scan_indices(length, reverse):
        outputs = body(np.asarray(start + i), *state, *(x[i] for x in stacked), *shared)
        state = outputs[:carries]
        for stack, value in zip(stacks, outputs[carries:], strict=True):
            stack[i] = value
    return packed_results([*state, *stacks], [*body.gives[:carries], *(TensorType(s.dtype, s.shape) for s in stacks)])


def scan_indices(length: int, reverse: bool) -> range:
    """The indices of a scan, in the order of its steps."""
    return range(length - 1, -1, -1) if reverse else range(length)


def _do_choice(condition: np.ndarray, *operands: Any) -> np.ndarray:
    *arrays, yes, no = operands
    return packed_results((yes if condition else no)(*arrays), yes.gives)


def _do_result(packed: np.ndarray, offset: int, result: str) -> np.ndarray:
    return packed_part(packed, offset, tensor_type(result))


# ---- rows


def _packed_rule(op: str) -> Callable[[Types, tuple], TensorType]:
    return lambda types, attrs: packed_type(results_of(op, types, attrs))


def _result_type(types: Types, attrs: tuple) -> TensorType:
    offset, result = attrs
    tensor, t = tensor_type(result), types[0]
    fits = t.dtype == BYTE and t.rank == 1 and 0 <= offset <= offset + tensor.nbytes <= t.size
    need(fits, "loop_result", types, "it does not hold {} at {}", result, offset)
    return tensor


def _flops(op: str) -> Callable[[Types, TensorType, tuple], int]:
    def flops(_types: Types, _out: TensorType, attrs: tuple) -> int:
        bodies = [a.flops for a in attrs if hasattr(a, "flops")]
        times = trips(op, attrs)
        return max(bodies) if op == "if_else" else sum(bodies) * (UNKNOWN_TRIPS if times is None else times)

    return flops


def _copied(_types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size


def _loop(name: str, attrs: tuple[str, ...], meaning: Callable[..., Any]) -> Op:
    return Op(name, Role.LIBRARY, None, attrs, _packed_rule(name), meaning, _flops(name), PriceClass.SIMPLE)


ROWS = [
    _loop("while_loop", ("condition", "body", "carries"), _do_while),
    _loop("fori_loop", ("body", "carries"), _do_fori),
    _loop("scan", SCAN_ATTRS, _do_scan),
    _loop("if_else", ("yes", "no"), _do_choice),
    Op("loop_result", Role.LIBRARY, 1, ("offset", "result"), _result_type, _do_result, _copied, PriceClass.SIMPLE),
]


def _no_meaning(*_operands: Any) -> np.ndarray:
    raise NotImplementedError("a call with a rule for its gradient stands in no graph")


# Values that count as constants, and calls of functions with a gradient of their own, which have results as loops do,
# while a function around them is differentiated: no graph that is finished holds one.
STOPPED = Op("stopped", Role.LIBRARY, 1, (), lambda types, _: types[0], lambda x: x, no_flops, PriceClass.SIMPLE)
CUSTOM = [
    Op(name, Role.LIBRARY, None, attrs, _packed_rule(name), _no_meaning, no_flops, PriceClass.SIMPLE)
    for name, attrs in (("custom_call", ("call",)), ("custom_change", ("call", "moving", "backward")))
]
