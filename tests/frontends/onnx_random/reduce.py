"""A model that fails, made small, and as text that runs.

In: a `Model`, and what is wrong with a model. Out: a smaller one with which the same is wrong, and a program that
shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from tests.frontends.onnx_random.judges import Refused
from tests.frontends.onnx_random.models import Model, assembled
from tests.frontends.onnx_random.run import Disagreement, ModelRun

Check = Callable[[Model], str]  # what is wrong with a model: "kind: details", or nothing


def reduced(model: Model, check: Check) -> Model:
    """The smallest model that was found with the same kind of failure: fewer outputs, no function, no symbols, inputs
    in place of what nodes compute."""
    kind = failure(model, check)

    def fails(smaller: Model | None) -> bool:
        return smaller is not None and failure(smaller, check) == kind

    plain = cut(model, [o.name for o in model.proto.graph.output], [])
    if fails(plain):
        model = plain
    for output in model.proto.graph.output:
        single = cut(model, [output.name], [])
        if fails(single):
            model = single
            break
    for name in [o for n in nodes_of(model) for o in n.output]:
        earlier = cut(model, [name], []) if name and model.run.values[name].is_tensor else None
        if fails(earlier):
            model = earlier
            break
    for name in [o for n in nodes_of(model) for o in n.output][::-1]:
        if name in model.run.values and name not in {o.name for o in model.proto.graph.output}:
            smaller = cut(model, [o.name for o in model.proto.graph.output], [name])
            model = smaller if fails(smaller) else model
    return model


def failure(model: Model, check: Check) -> str:
    """The kind of a failure, which reduced models are to share."""
    return check(model).partition(":")[0]


def nodes_of(model: Model) -> list[onnx.NodeProto]:
    """The nodes, with those of functions in their place."""
    functions = {f.name: f.node for f in model.proto.functions}
    return [inner for n in model.proto.graph.node for inner in functions.get(n.op_type, [n])]


def cut(model: Model, outputs: Sequence[str], known: Sequence[str]) -> Model | None:
    """The part of the model that is needed for `outputs`, to which what is `known` is given; run anew."""
    graph = model.proto.graph
    values, nodes = model.run.values, nodes_of(model)
    if not all(values[name].is_tensor for name in known):
        return None
    run = ModelRun(model.run.opset)
    inputs = [*model.arguments, *known]
    initialisers = [t.name for t in graph.initializer]
    for name in inputs + initialisers:
        run.give(name, values[name].array, name in initialisers)
    try:
        for n in nodes:
            if not set(known) & set(n.output):
                run.apply(n)
        return assembled(run, nodes, inputs, initialisers, outputs)
    except (Refused, Disagreement, KeyError):  # a judge does not run it, or another result of a node is missing
        return None


def program(model: Model, what: str) -> str:
    """A program that shows what is wrong."""
    arguments = ",\n".join(f"    {name!r}: {_array(x)}" for name, x in model.arguments.items())
    right = "\n".join(f"# {o.name} = {_array(o.array)}" for o in model.outputs)
    sizes = "".join(f", {name}={n}" for name, n in model.sizes.items())
    return (
        f"# {what}\nimport ml_dtypes\nimport numpy as np\nimport onnx\nimport eqfuse as ef\n\n"
        f'model = onnx.parser.parse_model(r"""{onnx.printer.to_text(model.proto)}""")\n'
        f"arguments = {{\n{arguments}\n}}\ngraph = ef.from_onnx(model{sizes})\n"
        f'print(ef.meaning(graph, **arguments))\nprint(ef.compile(graph, numerics="strict")(**arguments))\n'
        f"print(ef.compile(graph)(**arguments))\n{right}\n"
    )


def _array(x: np.ndarray) -> str:
    name = x.dtype.name if x.dtype.kind in "biuf" else f"ml_dtypes.{x.dtype.name}"
    numbers = np.array2string(x, separator=", ", threshold=10**6, floatmode="unique").replace("\n", "")
    dtype = f'"{name}"' if "." not in name else name
    return f"np.array({numbers}, {dtype}).reshape({x.shape})".replace("nan", "np.nan").replace("inf", "np.inf")
