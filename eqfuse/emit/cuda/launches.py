"""The launches of a plan as Python functions, in which only the arrays that change from call to call are looked up.

In: a `Plan`, and what runs each of its kernels. Out: `Launches`, a text that is compiled once; bound to a device and to
memory it is `BoundLaunches`, which is called with arrays. Next stop: `executable.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from eqfuse.emit.cuda.calls import CudaCalls
from eqfuse.emit.cuda.kernels import CudaKernel, Emitted
from eqfuse.emit.cuda.loops import CudaLoop
from eqfuse.ir.graph import Node, input_node, node
from eqfuse.ir.view_strides import contiguous, strided
from eqfuse.ir.views import leaf_chain, strides_after, taken
from eqfuse.machine.gpu import Gpu, ready
from eqfuse.ops.types import TensorType
from eqfuse.plan.buffers import Layout
from eqfuse.plan.plan import Plan


@dataclass(frozen=True)
class BoundLaunches:
    """What a call runs in one memory: so many `kernels`. `call` takes the arguments, `launch` and `results` the new
    arrays of `fresh` too."""

    kernels: int

    call: Callable[..., tuple[Any, ...]]
    fresh: Callable[[], list[Any]]
    launch: Callable[..., None]
    results: Callable[..., tuple[Any, ...]]


class Launches:
    """The launches of `plan`, whose kernels `functions` run; None for a view. `laid`: where its values lie.

    In the text, v3 is the value 3 of the plan, f2 the function of its kernel 2, launched over g2 blocks of b2 threads
    with the constants k2_0… and the workspaces w2_0….
    """

    def __init__(self, plan: Plan, functions: Sequence[Emitted | None], laid: Layout) -> None:
        self.plan, self.functions, self.laid = plan, functions, laid
        self._views: dict[int, tuple[int, tuple[Node, ...]]] = {}  # the value that each looks at, through which chain
        self._looks = {i: self._looking(i) for i in range(len(plan.kernels))}
        for looks in self._looks.values():
            for v, base, chain in looks:
                root, before = self._views.get(base, (base, ()))
                self._views[v] = root, (*before, *chain)
        self._changing = {*plan.inputs, *laid.fresh}  # and views that are taken at every call
        self._changing |= {v for v, (root, _) in self._views.items() if root in self._changing or not self._is_free(v)}
        self._warns = any(isinstance(f, (CudaCalls, CudaLoop)) for f in functions)
        self._codes: dict[bool, CodeType] = {}

    def _looking(self, i: int) -> list[tuple[int, int, tuple[Node, ...]]]:
        """The values of kernel `i` that lie where others do: which, and through what."""
        k, updates = self.plan.kernels[i], self.laid.updates
        if k.is_view:
            return [(k.writes[0], k.reads[0], leaf_chain(k.body.outputs[0])[1])]
        if i in updates.in_place:
            return [(k.writes[0], updates.in_place[i], leaf_chain(k.body.outputs[0].args[0])[1])]
        return [(v, updates.over[v], self._reshaped(v, updates.over[v])) for v in k.writes if v in updates.over]

    def _reshaped(self, v: int, base: int) -> tuple[Node, ...]:
        """What shows the elements of the value `base` in the shape of `v`."""
        shape, whole = self.plan.types[v].shape, input_node("whole", self.plan.types[base])
        return () if shape == whole.shape else (node("reshape", (whole,), (shape,)),)

    def on(self, gpu: Gpu, module: Any, captured: bool) -> dict[str, Any]:
        """What the text names, on the device of `gpu`, whatever memory it works in. `captured`: in graphs."""
        own = {"product": gpu.product} if captured else {}
        names: dict[str, Any] = {
            "ready": partial(ready, gpu), "empty": gpu.empty, "errstate": partial(np.errstate, all="ignore"),
        }  # fmt: skip
        for v in self.laid.fresh:
            names |= {f"s{v}": self.plan.types[v].shape, f"d{v}": self.plan.types[v].dtype}
        for i, f in enumerate(self.functions):
            if isinstance(f, CudaLoop):
                names[f"f{i}"] = f.bind(gpu)
            elif f is not None:
                constants = [gpu.upload(c) if isinstance(c, np.ndarray) else c for c in f.constants]
                names |= {f"k{i}_{j}": c for j, c in enumerate(constants)}
            names |= {f"a{v}": partial(taken, chain=chain) for v, _, chain in self._looks[i]}
            if isinstance(f, CudaCalls):
                names[f"f{i}"] = f.bind(gpu.arrays, gpu.special, widened_product=gpu.product, **own)
            elif isinstance(f, CudaKernel) and f.grid:
                function = gpu.function(module, f.name, f.shared_bytes)
                names |= {f"f{i}": function, f"g{i}": f.grid, f"b{i}": f.block}
        return names

    def bind(self, names: dict[str, Any], fixed: dict[int, Any], workspaces: Sequence[Sequence[Any]],
             seconds: Callable[[Callable[[], None]], None] | None = None) -> BoundLaunches:  # fmt: skip
        """The launches with the `names` of a device, over `fixed` values. With `seconds`, each kernel is given to it
        as something to call."""
        names = names | {f"v{v}": array for v, array in fixed.items()} | {"seconds": seconds}
        for i, arrays in enumerate(workspaces):
            names |= {f"w{i}_{j}": array for j, array in enumerate(arrays)}
        for v, (root, chain) in self._views.items():
            if v not in self._changing:
                names[f"v{v}"] = taken(names[f"v{root}"], chain)
        timed = seconds is not None
        if timed not in self._codes:
            self._codes[timed] = compile(self._text(timed), "<eqfuse launches>", "exec")
        exec(self._codes[timed], names)
        kernels = sum(f is not None for f in self.functions)
        return BoundLaunches(kernels, names["call"], names["fresh"], names["launch"], names["results"])

    def _text(self, timed: bool) -> str:
        fresh = [f"empty(s{v}, d{v})" for v in self.laid.fresh]
        input_names, fresh_names = ([f"v{v}" for v in values] for values in (self.plan.inputs, self.laid.fresh))
        both = ", ".join(input_names + fresh_names)
        views, lines = self._view_lines(), []
        for i, f in enumerate(self.functions):
            lines += views.get(i, [])
            if f is None:
                continue
            if timed:
                lines.append(f"seconds(lambda: {self._launch(i, f)})")
            else:
                lines.append(self._launch(i, f))
        if self._warns:
            lines = ["with errstate():", *(f"    {line}" for line in lines)]
        results = "".join(f"v{v}.copy(order='C'), " if copied else f"v{v}, " for v, copied in self.laid.outputs)
        call = [f"{name} = {array}" for name, array in zip(fresh_names, fresh, strict=True)]
        return "\n".join([
            *_function("fresh", "", [f"return [{', '.join(fresh)}]"]),
            *_function("launch", both, lines),
            *_function("results", both, [*self._viewed_results(views), f"return ({results})"]),
            *_function("call", ", ".join(input_names), [*call, f"launch({both})", f"return results({both})"]),
        ])  # fmt: skip

    def _view_lines(self) -> dict[int, list[str]]:
        """What takes the views that change, by kernel."""
        lines_of = {i: [f"v{v} = a{v}(v{base})" for v, base, _ in looks if v in self._changing]
                 for i, looks in self._looks.items()}  # fmt: skip
        return {i: lines for i, lines in lines_of.items() if lines}

    def _viewed_results(self, views: dict[int, list[str]]) -> list[str]:
        """The lines among `views` that the results need."""
        needed, lines = {v for v, _ in self.laid.outputs}, []
        for i in sorted(views, reverse=True):
            looked = [base for v, base, _ in self._looks[i] if v in needed]
            needed.update(looked)
            lines += views[i] if looked else []
        return lines[::-1]

    def _launch(self, i: int, f: Emitted) -> str:
        """The line that runs the kernel `i`. A CUDA function reads copies of views that are strided."""
        k = self.plan.kernels[i]
        reads, writes = ([f"v{v}" for v in values] for values in (k.reads, k.writes))
        if isinstance(f, CudaLoop):
            return f"f{i}([{', '.join(reads)}], [{', '.join(writes)}])"
        constants = [f"k{i}_{j}" for j in range(len(f.constants))]
        if isinstance(f, CudaCalls):
            return f"f{i}({', '.join([*reads, *constants, *writes])})"
        if not f.grid:
            return "None"
        reads = [name if self._is_in_order(v) else f"ready({name})" for v, name in zip(k.reads, reads, strict=True)]
        arguments = f.arguments(writes, reads, constants, [f"w{i}_{j}" for j in range(len(f.workspace))])
        return f"f{i}(g{i}, b{i}, ({''.join(f'{name}, ' for name in arguments)}))"

    def _is_free(self, view: int) -> bool:
        """Is a view taken without a copy, which would have to be made anew at every call?"""
        root, chain = self._views[view]
        return strides_after(self.plan.types[root], chain) is not None

    def _is_in_order(self, v: int) -> bool:
        """Is it known that the value lies as CUDA functions take it?"""
        if v not in self._views:
            return True
        root, chain = self._views[v]
        view = strided(self.plan.types[root].shape, chain)
        return view is not None and view.first == 0 and _dense(self.plan.types[v], view.strides)


def _dense(kind: TensorType, strides: tuple[int, ...]) -> bool:
    pairs = zip(kind.shape, strides, contiguous(kind.shape), strict=True)
    return all(n == 1 or stride == wanted for n, stride, wanted in pairs)


def _function(name: str, parameters: str, lines: Sequence[str]) -> list[str]:
    return [f"def {name}({parameters}):", *(f"    {line}" for line in lines or ["pass"]), ""]
