"""ONNX nodes in the making: the body of one function, and the dtypes that each ONNX operator is given.

In: calls of `Builder`, from the rows of the files beside this one. Out: NodeProtos of opset `OPSET`. An operator
that onnxruntime's CPU kernels do not have in a dtype (measured, onnxruntime 1.31) is computed in one that holds the
values exactly, and its result is cast back; where there is none the operator is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse import dtypes
from eqfuse.errors import UnsupportedOp
from eqfuse.ops.literal import Literal

if TYPE_CHECKING:
    import onnx

OPSET = 21  # of the operators that are written
IR_VERSION = 10  # of the file, which goes with it

I32, I64, U64, F32 = (np.dtype(name) for name in ("int32", "int64", "uint64", "float32"))
_F = "float16 float32 float64"
_NUMBERS = f"int8 int16 int32 int64 uint8 uint16 uint32 uint64 {_F}"
_MAX = f"bool int8 int32 int64 uint8 {_F}"
_KERNELS = {
    **dict.fromkeys(("Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tanh", "Floor", "Ceil", "Round"), _F),
    **dict.fromkeys(("IsNaN", "IsInf", "Pow"), _F),
    **dict.fromkeys(("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"), "float16 float32"),
    **dict.fromkeys(("Asinh", "Acosh", "Atanh", "Erf", "Conv"), "float16 float32"),
    **dict.fromkeys(("Abs", "Sign", "Add", "Sub", "Mul", "Div", "Mod"), _NUMBERS),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _NUMBERS),
    **dict.fromkeys(("BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), _NUMBERS.removesuffix(_F)),
    **dict.fromkeys(("Max", "Min"), f"int8 int32 int64 uint8 uint32 uint64 {_F}"),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum"), f"int32 int64 {_F}"),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _MAX),
    **dict.fromkeys(("ArgMax", "ArgMin"), _MAX.removeprefix("bool ")),
    "Det": "float32",
    "Neg": f"int8 int16 int32 int64 {_F}",
    "Equal": f"bool {_NUMBERS}",
    "Where": f"int8 int32 int64 uint8 uint32 {_F}",
    "MatMul": f"int32 int64 uint32 uint64 {_F}",
    "MaxPool": f"int8 uint8 {_F}",
    "Pad": f"bool int8 int32 int64 uint8 uint32 uint64 {_F}",
    "TopK": f"int8 int16 int32 int64 uint8 {_F}",
    "ScatterND": "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64",
}  # fmt: skip
TAKES = {op: frozenset(names.split()) for op, names in _KERNELS.items()}
_WIDER = {
    "bool": I32, "int8": I32, "int16": I32, "uint8": I32, "uint16": I32, "uint32": I64, "uint64": I64,
    "float16": F32, "bfloat16": F32, "float8_e4m3fn": F32, "float8_e5m2": F32,
}  # fmt: skip
# what moves elements of any dtype but these: the standard has no float8, onnxruntime no bfloat16
MOVES = frozenset(("Concat", "Expand", "Gather", "GatherElements", "ScatterND", "Slice", "Tile"))
# of 64 bits without a sign: what is the same modulo 2 ** 64 whichever way they are read
_MODULAR = frozenset(("Neg", "Where", "ReduceSum", "ReduceProd", "CumSum"))


@dataclass(frozen=True)
class OnnxValue:
    """A value inside a function: its name, and the dtype that it has there."""

    name: str
    dtype: np.dtype


class Builder:
    """The nodes of one function so far; or of a graph inside one, whose names are those of nothing `around` it."""

    def __init__(self, around: Builder | None = None) -> None:
        self.around = around
        self.nodes: list[onnx.NodeProto] = []
        self._constants: dict[Literal, OnnxValue] = {}
        self._count = 0

    def name(self) -> str:
        if self.around is not None:
            return self.around.name()
        self._count += 1
        return f"t{self._count}"

    def uncast(self, op: str, *args: OnnxValue, dtype: np.dtype | None = None, **attributes: Any) -> OnnxValue:
        """`op` of `args` as they are. `dtype`: of the result, unless it is that of the first."""
        original = args[0].dtype
        if op in MOVES and original in dtypes.ADDED:
            wide = (self.cast(a, F32) if a.dtype == original else a for a in args)
            return self.cast(self.uncast(op, *wide, **attributes), original)
        return self.several(op, args, (dtype or args[0].dtype,), **attributes)[0]

    def several(
        self, op: str, args: tuple[OnnxValue, ...], dtypes: tuple[np.dtype, ...], **attributes: Any
    ) -> list[OnnxValue]:
        """The results of `op`, which have `dtypes`."""
        import onnx

        results = [OnnxValue(self.name(), dtype) for dtype in dtypes]
        names = [a.name for a in args], [r.name for r in results]
        self.nodes.append(onnx.helper.make_node(op, *names, **attributes))
        return results

    def __call__(self, op: str, *args: OnnxValue, dtype: np.dtype | None = None, **attributes: Any) -> OnnxValue:
        """`op` of `args`, of one dtype, in a dtype that it takes. `dtype`: of the result, unless it is theirs."""
        original = args[0].dtype
        wider = computed_in(op, original)
        value = self.uncast(op, *(self.cast(a, wider) for a in args), dtype=dtype, **attributes)
        return value if dtype else self.cast(value, original)

    def cast(self, x: OnnxValue, dtype: np.dtype) -> OnnxValue:
        """`x` in `dtype`, as NumPy casts."""
        import onnx

        if x.dtype == dtype:
            return x
        saturate = {"saturate": 0} if dtype.name.startswith("float8") else {}
        return self.uncast("Cast", x, dtype=dtype, to=onnx.helper.np_dtype_to_tensor_dtype(dtype), **saturate)

    def constant(self, array: Any, dtype: np.dtype | None = None) -> OnnxValue:
        """The array as a value."""
        import onnx

        literal = Literal(np.asarray(array, dtype))
        if literal not in self._constants:
            value = OnnxValue(self.name(), literal.array.dtype)
            tensor = onnx.numpy_helper.from_array(np.array(literal.array))
            self.nodes.append(onnx.helper.make_node("Constant", [], [value.name], value=tensor))
            self._constants[literal] = value
        return self._constants[literal]

    def ints(self, *values: int) -> OnnxValue:
        """A vector of int64: axes, a shape."""
        return self.constant(np.array(values, np.int64))

    def where(self, condition: OnnxValue, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        wider = computed_in("Where", x.dtype)
        value = self.uncast("Where", condition, self.cast(x, wider), self.cast(y, wider), dtype=wider)
        return self.cast(value, x.dtype)


def computed_in(op: str, dtype: np.dtype) -> np.dtype:
    """The dtype in which `op` is computed for values of `dtype`."""
    if dtype.name in TAKES[op]:
        return dtype
    wider = _WIDER.get(dtype.name)
    exact = dtype != U64 or op in _MODULAR
    if wider is None or not exact or wider.name not in TAKES[op]:
        raise UnsupportedOp(f"onnxruntime has no {op} of {dtype.name}, and none of a wider dtype that would be exact")
    return wider
