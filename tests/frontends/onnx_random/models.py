"""Random models: twenty to forty nodes of any operator of the table, in any opset version from 9 on.

In: a seed. Out: a model, arrays for its inputs, and what the judges make of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.frontends.onnx_random import (  # noqa: F401  (fill the table)
    rows_control,
    rows_elementwise,
    rows_indexing,
    rows_manipulation,
    rows_networks,
    rows_quantised,
    rows_reductions,
    rows_windows,
)
from tests.frontends.onnx_random.draw import Draw
from tests.frontends.onnx_random.judges import IR_VERSION, Array, type_proto
from tests.frontends.onnx_random.run import DrawnValue, ModelRun, reads
from tests.frontends.onnx_random.table import TABLE

NEWEST = 28
LARGE = (
    "RNN", "GRU", "LSTM", "Attention", "LinearAttention", "GridSample", "RoiAlign", "Resize", "If", "Loop", "Scan",
    "STFT",
)  # fmt: skip
COMMON_FAMILIES = ("elementwise", "manipulation", "reductions")
COMMON = {name for name, row in TABLE.items() if row.draw.__module__.endswith(COMMON_FAMILIES)}


@dataclass(frozen=True)
class Model:
    """A model, its arguments by name, the numbers of its symbolic sizes, and how the judges run it."""

    proto: onnx.ModelProto
    arguments: dict[str, np.ndarray]
    sizes: dict[str, int]
    run: ModelRun

    @property
    def outputs(self) -> list[DrawnValue]:
        return [self.run.values[o.name] for o in self.proto.graph.output]


def random_model(seed: Any, least: int = 20, most: int = 40) -> Model:
    """The model of a seed."""
    rng = np.random.default_rng(seed)
    opset = int(rng.integers(9, NEWEST + 1))
    chances = rng.random(3)
    d = Draw(rng, opset, special=chances[0] < 0.2, empty=chances[1] < 0.1, everywhere=chances[2] < 0.7)
    wanted = int(rng.integers(least, most + 1))
    names = [name for name, row in TABLE.items() if row.since <= opset <= row.until]
    weights = [3.0 if name in COMMON else 1.0 for name in names]
    while len(d.nodes) < wanted:
        name = d.pick(names, weights)
        if name in LARGE and sum(n.op_type in LARGE for n in d.nodes) >= 2:
            continue
        d.step(name)
    read = {name for n in d.nodes for name in reads(n)}
    tensors = [name for name in d.results if d.run.values[name].is_tensor]
    outputs = [name for name in tensors if name not in read]
    outputs += [name for name in tensors if name in read and d.chance(0.05)]
    return assembled(d.run, d.nodes, d.inputs, d.initialisers, outputs, symbolic=d.chance(0.3), outlined=d.chance(0.3))


def assembled(
    run: ModelRun, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], initialisers: Sequence[str],
    outputs: Sequence[str], symbolic: bool = False, outlined: bool = False,
) -> Model:  # fmt: skip
    """The model of what is needed for `outputs`."""
    needed = set(outputs)
    kept = []
    for n in reversed(nodes):
        if (needed - set(inputs)) & set(n.output):
            kept.append(n)
            needed |= set(reads(n))
    kept.reverse()
    arguments = {name: run.values[name].array for name in inputs if name in needed}
    sizes: dict[str, int] = {}
    graph = onnx.helper.make_graph(
        kept, "main",
        [onnx.helper.make_value_info(name, _declared(x, sizes if symbolic else None)) for name, x in arguments.items()],
        [onnx.helper.make_value_info(name, type_proto(run.values[name].array)) for name in outputs],
        [onnx.numpy_helper.from_array(run.values[name].array, name) for name in initialisers if name in needed],
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, ir_version=IR_VERSION, opset_imports=[onnx.helper.make_opsetid("", run.opset)]
    )
    if outlined:
        _outline(model, len(kept) // 3, 2 * len(kept) // 3)
    return Model(model, arguments, sizes, run)


def _declared(x: Array, sizes: dict[str, int] | None) -> onnx.TypeProto:
    """The type of `x`, its first extent with a name where `sizes` are wanted."""
    declared = type_proto(x)
    if sizes is not None and x.ndim:
        name = f"n{x.shape[0]}"
        declared.tensor_type.shape.dim[0].dim_param = name
        sizes[name] = x.shape[0]
    return declared


def _outline(model: onnx.ModelProto, first: int, last: int) -> None:
    """Make the nodes from `first` on, before `last`, a function of the model."""
    graph = model.graph
    inside = list(graph.node)[first:last]
    if not inside or any(a.HasField("g") for n in inside for a in n.attribute):
        return
    names = [o for n in inside for o in n.output if o]
    inputs = _distinct(name for n in inside for name in reads(n) if name not in names)
    after = {name for n in list(graph.node)[last:] for name in reads(n)} | {o.name for o in graph.output}
    outputs = [name for name in names if name in after]
    if not outputs:
        return
    imports = list(model.opset_import)
    model.functions.append(onnx.helper.make_function("local", "part", inputs, outputs, inside, imports))
    call = onnx.helper.make_node("part", inputs, outputs, domain="local")
    nodes = [*list(graph.node)[:first], call, *list(graph.node)[last:]]
    del graph.node[:]
    graph.node.extend(nodes)
    model.opset_import.append(onnx.helper.make_opsetid("local", 1))


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
