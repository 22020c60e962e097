"""The two judges of ONNX: the package's reference evaluator, which follows the standard's text, and onnxruntime.

In: a node and the values of its inputs. Out: the values of its outputs, or Refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy's names of bfloat16 and float8)
import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from eqfuse import dtypes

IR_VERSION = 10
Array = Any  # an ndarray, or a list of them, which is a sequence


class Refused(Exception):
    """A judge does not run a node."""


def type_proto(x: Array) -> onnx.TypeProto:
    """The type of a value, or of the dtype of an empty sequence."""
    if isinstance(x, list):
        return onnx.helper.make_sequence_type_proto(type_proto(x[0] if x else np.zeros((), np.float32)))
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], outputs: Sequence[Any], opset: int
) -> onnx.ModelProto:
    """A model of `nodes`; what it puts out are names, or names with types."""
    graph = onnx.helper.make_graph(
        nodes, "main",
        [onnx.helper.make_value_info(name, type_proto(x)) for name, x in inputs.items()],
        [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs],
    )  # fmt: skip
    return onnx.helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[onnx.helper.make_opsetid("", opset)])


def onnxruntime(model: onnx.ModelProto) -> Any:
    """`model` as onnxruntime runs it, node by node: a function of its inputs by name."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        raise Refused(f"onnxruntime: {error}") from error

    def run(inputs: Mapping[str, Array]) -> list[Array]:
        try:
            return session.run(None, dict(inputs), _QUIET)
        except Exception as error:
            raise Refused(f"onnxruntime: {error}") from error

    return run


_QUIET = ort.RunOptions()
_QUIET.log_severity_level = 4


def reference(model: onnx.ModelProto) -> Any:
    """`model` as the reference evaluator runs it."""
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:  # it raises whatever NumPy and Python raise
        raise Refused(f"reference: {error}") from error

    def run(inputs: Mapping[str, Array]) -> list[Array]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                outputs = evaluator.run(None, {name: copied(x) for name, x in inputs.items()})
            except Exception as error:
                raise Refused(f"reference: {type(error).__name__}: {error}") from error
        return [m if m is None or isinstance(m, list) else np.asarray(m) for m in outputs]

    return run


def copied(x: Array) -> Array:
    return [copied(y) for y in x] if isinstance(x, list) else np.array(x)


def read_as(x: Array, like: Array) -> Array:
    """`x` in the dtype that onnxruntime's Python has no name for, and gives as whole numbers."""
    if isinstance(x, np.ndarray) and isinstance(like, np.ndarray) and like.dtype in dtypes.ADDED:
        return x.view(like.dtype) if x.dtype.kind == "u" and x.dtype.itemsize == like.dtype.itemsize else x
    return x
