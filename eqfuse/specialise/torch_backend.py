"""`ef.torch_backend`: torch.compile's graphs, forward and backward, as programs.

In: a graph that torch has captured, and options of `ef.compile`. Out: what torch calls in its place. Next stop:
`frontends/torch/`, for each part of it. torch's AOTAutograd comes before: it takes the gradient, makes changes in place
results, and breaks operators down to core ones.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from eqfuse.errors import OptionError, UnsupportedOp
from eqfuse.frontends.torch.nodes import NodeError, graph_of, place_of
from eqfuse.frontends.torch.partition import partition
from eqfuse.frontends.torch.tensors import array_of_tensor, strides_in_order, tensor_of, tensor_with_strides
from eqfuse.runtime.program import Program
from eqfuse.specialise.compile import compile

KEPT = 32  # programs of one part, for sizes that change
COMPILE_MODES: dict[str | None, dict[str, Any]] = {
    None: {}, "default": {}, "reduce-overhead": {"graphs": True}, "max-autotune": {"autotune": True},
    "max-autotune-no-cudagraphs": {"autotune": True},
}  # fmt: skip
# What torch breaks down beside what it does for its core operators, and what it must not.
ALSO_DECOMPOSED = (
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "linalg_vector_norm",
    "upsample_bilinear2d", "upsample_nearest2d", "_unsafe_index_put",
)  # fmt: skip
NOT_DECOMPOSED = ("_scaled_dot_product_flash_attention_for_cpu", "embedding_dense_backward")
_log = logging.getLogger("eqfuse")


@dataclass(frozen=True)
class LeftToTorch:
    """An operator that torch computes between programs, why, and the user's line that it comes from."""

    operator: str
    reason: str
    place: str


class TorchBackend:
    """A backend of torch.compile. `programs`: what it has compiled; `left_to_torch`: what it has not."""

    def __init__(self, fallback: bool, options: dict[str, Any]) -> None:
        self.fallback, self.options = fallback, options
        self.programs: list[Program] = []
        self.left_to_torch: list[LeftToTorch] = []

    def __call__(self, module: Any, example_inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:
        """What torch.compile calls with each graph that it captures."""
        from functorch.compile import min_cut_rematerialization_partition
        from torch._dynamo.backends.common import aot_autograd

        backend = self._with(settings)
        compiler = aot_autograd(
            fw_compiler=backend.compiled, decompositions=_decompositions(),
            partition_fn=min_cut_rematerialization_partition,
        )  # fmt: skip
        return compiler(module, example_inputs)

    def _with(self, settings: dict[str, Any]) -> TorchBackend:
        """This backend, or one with the options that torch.compile was given: programs of both are listed here."""
        mode, options = settings.get("mode"), dict(settings.get("options") or {})
        if mode not in COMPILE_MODES:
            raise OptionError(f"mode={mode!r} is none of {', '.join(map(repr, COMPILE_MODES))}")
        options = COMPILE_MODES[mode] | options
        if not options:
            return self
        backend = TorchBackend(options.pop("fallback", self.fallback), self.options | options)
        backend.programs, backend.left_to_torch = self.programs, self.left_to_torch
        return backend

    def compiled(self, module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """What computes a graph of core operators: compiled when it is first called."""
        from torch._functorch.aot_autograd import make_boxed_func

        return make_boxed_func(_Division(self, module, {}))

    def leave(self, node: Any, reason: str) -> None:
        """Note, and log for the first time, that torch computes a node; UnsupportedOp where it must not."""
        left = LeftToTorch(str(node.target), reason, place_of(node))
        if not self.fallback:
            where = f" ({left.place})" if left.place else ""
            title = f"{left.operator}{where}"
            raise UnsupportedOp(f"{title} cannot be compiled: {reason}; with fallback=True torch runs it")
        if left.operator not in {other.operator for other in self.left_to_torch}:
            _log.warning("torch itself runs %s: %s", left.operator, reason)
        self.left_to_torch.append(left)

    def __repr__(self) -> str:
        counts = Counter(left.operator for left in self.left_to_torch)
        kernels = sum(len(program.plan.kernel_lines()) for program in self.programs)
        lines = [f"<eqfuse backend of torch.compile, {len(self.programs)} program(s), {kernels} kernel(s)>"]
        reasons = {left.operator: left.reason for left in self.left_to_torch}
        return "\n".join([*lines, *(f"  in torch: {name} ×{n}: {reasons[name]}" for name, n in counts.items())])


class _Division:
    """Parts that are compiled, and what torch computes between them."""

    def __init__(self, backend: TorchBackend, module: Any, refused: dict[str, str]) -> None:
        self._backend, self._module, self._refused = backend, module, refused
        self._run: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._run is None:
            self._run = self._divided()
        return self._run(*inputs)

    def _divided(self) -> Callable[..., Any]:
        names, left = partition(self._module, self._refused)
        for node, reason in left.items():
            self._backend.leave(node, reason)
        for name in names:
            part = _Part(self._backend, getattr(self._module, name))
            delattr(self._module, name)
            setattr(self._module, name, part)
        return self._module.forward


class _Part:
    """One GraphModule that rows compute: a program for each combination of sizes, the last `KEPT` of them."""

    def __init__(self, backend: TorchBackend, module: Any) -> None:
        self._backend, self._module = backend, module
        self._programs: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
        self._divided: _Division | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._divided is not None:
            return self._divided(*inputs)
        key = tuple(x if isinstance(x, int | float | complex) else x.shape for x in inputs)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._compiled(inputs)
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return program(*inputs)

    def _compiled(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            graph = graph_of(self._module, inputs)
        except NodeError as refused:
            reason = str(refused.error).splitlines()[0]
            self._divided = _Division(self._backend, self._module, {refused.node.name: reason})
            return self._divided
        program = compile(graph, **self._backend.options)
        self._backend.programs.append(program)
        return _caller(program, inputs, _results_of(self._module))


def _results_of(module: Any) -> Any:
    """What torch's own run on shapes has noted of a graph's results: a list, or one."""
    results = next(n for n in module.graph.nodes if n.op == "output").args[0]
    return [n.meta["val"] for n in results] if isinstance(results, tuple | list) else results.meta["val"]


def _caller(program: Program, inputs: Sequence[Any], noted: Any) -> Callable[..., Any]:
    """A program of arrays as one of tensors, whose results lie as torch has noted."""
    places = [i for i, x in enumerate(inputs) if not isinstance(x, int | float | complex)]
    several = isinstance(noted, list)
    layouts = [_layout(value) for value in (noted if several else [noted])]

    def call(*tensors: Any) -> Any:
        arrays = program.run([array_of_tensor(tensors[i]) for i in places])
        results = [layout(tensor_of(a)) for a, layout in zip(arrays, layouts, strict=True)]
        return results if several else results[0]

    return call


def _layout(noted: Any) -> Callable[[Any], Any]:
    """What lays a tensor out with the strides noted; where these are symbols, in the order of these."""
    strides = noted.stride()
    if all(isinstance(stride, int) for stride in strides):
        return lambda tensor: tensor_with_strides(tensor, strides)
    hints = [stride if isinstance(stride, int) else stride.node.hint for stride in strides]
    order = sorted(range(len(hints)), key=lambda axis: (-hints[axis], axis))
    return lambda tensor: tensor_with_strides(tensor, strides_in_order(tensor.shape, order))


@cache
def _decompositions() -> dict[Any, Any]:
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions

    packets = [getattr(torch.ops.aten, name) for name in ALSO_DECOMPOSED]
    table = {**core_aten_decompositions(), **get_decompositions(packets)}
    kept = {getattr(torch.ops.aten, name).default for name in NOT_DECOMPOSED}
    return {op: function for op, function in table.items() if op not in kept}


def torch_backend(*, fallback: bool = True, **options: Any) -> TorchBackend:
    """A backend for torch.compile, ``torch.compile(model, backend=ef.torch_backend(numerics="strict"))``.

    `options` are those of `ef.compile`: target, numerics, laws, …. Without options, and in any process, the name does:
    ``torch.compile(model, backend="eqfuse", options={...})``. Tensors are on the CPU. What has no row in the table of
    torch's operators torch runs itself, between programs: a line of the log says so, and `left_to_torch` of the
    backend. ``fallback=False``: it raises UnsupportedOp, which names the operator and your line. `programs` of the
    backend lists what was compiled, in order.
    """
    return TorchBackend(fallback, options)


eqfuse = torch_backend()
