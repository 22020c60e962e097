"""What runs a plan on a GPU: its kernels as CUDA functions and library calls, bound to device memory.

In: a `Plan` for a GPU. Out: `CudaExecutable`: its source and memory need no GPU, only a call does. CuPy in, CuPy out;
NumPy arguments are copied to the device, and the results back when no argument lay there. Calls on one stream share
memory, which the order of the stream makes safe.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from eqfuse.emit.cuda.calls import CudaCalls
from eqfuse.emit.cuda.kernels import CudaKernel, Emitted, emit_kernel
from eqfuse.emit.cuda.loops import CudaLoop
from eqfuse.emit.cuda.prelude import PRELUDE
from eqfuse.emit.executable import Executable, constant_values
from eqfuse.ir.accepted import ndarray
from eqfuse.ir.graph import Graph
from eqfuse.ir.views import leaf_chain, taken
from eqfuse.machine.gpu import Gpu, cupy_gpu, ready
from eqfuse.machine.nvrtc import STRICT
from eqfuse.plan.buffers import layout
from eqfuse.plan.in_place import Updates
from eqfuse.plan.plan import Kernel, Plan, value_names

KEPT_BYTES = 64 << 20  # an arena up to this size stays with its program, with the arrays in it ready
TIMED, MOST_TIMES = 5e-4, 10  # seconds of a kernel that are timed at once, and how often at most it runs in them

Values = list[Any]
Run = Callable[[Values, Sequence[Any]], None]  # values, the kernel's workspace


@dataclass(frozen=True)
class _Loaded:
    """The program on one device: the values that never change, and its kernels."""

    fixed: Values
    steps: list[Run]


@dataclass(frozen=True)
class _CallBuffers:
    """What one call at a time uses on one stream: values with the arena's arrays in place, a workspace per kernel."""

    values: Values
    workspaces: list[list[Any]]


class CudaExecutable(Executable):
    """A plan as launches and library calls on `gpu`, by default the one that CuPy finds when it is first called.

    `functions`: what runs each kernel; None for a view.
    """

    def __init__(self, plan: Plan, gpu: Gpu | None = None) -> None:
        super().__init__(plan)
        self._gpu = gpu
        self.functions = _emitted(plan)
        self._layout = layout(plan, Updates({}, {}), (), {})
        self._lock = threading.Lock()
        self._loaded: dict[Hashable, _Loaded] = {}  # by device
        self._buffers: dict[Hashable, list[_CallBuffers]] = {}  # by device and stream; those that no call uses
        self.peak_bytes = self._layout.nbytes + sum(f.schedule.workspace_bytes for f in self.functions if f)

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        self._counted(arrays)
        gpu = self._gpu or cupy_gpu()
        outputs = self.on_device(gpu, arrays)
        return outputs if any(map(gpu.holds, arrays)) else tuple(map(gpu.download, outputs))

    def on_device(self, gpu: Gpu, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for `arrays`, on the device."""
        here = gpu.current_stream()
        loaded = self._loaded.get(here[0]) or self._load(gpu, here[0])
        free = self._buffers.setdefault(here, [])
        try:
            buffers = free.pop()
        except IndexError:
            buffers = self._new_buffers(gpu, loaded)
        try:
            return self._run_on(gpu, arrays, loaded, buffers)
        finally:
            free.append(buffers)

    def source(self) -> str:
        """One CUDA text: the functions of all kernels in the order they run, library calls as comments."""
        parts, shown = [PRELUDE], set()
        if self.plan.numerics == "strict":
            parts.insert(0, f"// strict: NVRTC is given {' '.join(STRICT)}\n#define EQF_STRICT\n")
        for i, (k, f) in enumerate(zip(self.plan.kernels, self.functions, strict=True)):
            ops = " ".join(n.op for n in k.body.operators)
            parts.append(f"// kernel {i}, {k.kind}: {value_names(k.writes)} = {ops} of {value_names(k.reads)}\n")
            if f is None:
                parts[-1] += "// a view: no data moves\n"
            elif isinstance(f, (CudaCalls, CudaLoop)):
                parts[-1] += "".join(f"// {line}\n" for line in f.source.splitlines())
            else:
                launch = f"{f.grid} blocks of {f.block} threads" if f.grid else "not launched: nothing to compute"
                again = " (above)" if f.name in shown else ""
                parts[-1] += f"// {f.name}{again}, {launch}\n" + ("" if again else f.source)
                shown.add(f.name)
        return "\n".join(parts)

    def schedules(self) -> list[str]:
        return [str(f.schedule) for f in self.functions if f]

    def notes(self) -> str:
        """The operators that run on the host."""
        hosts = [f.schedule.host if isinstance(f, CudaCalls) else () for f in self.functions if f]
        names = [f"{n.op} ({i})" for i, host in enumerate(hosts) for n in host]
        return f"On the host, by kernel, as CuPy has nothing like it: {', '.join(names)}" if names else ""

    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        gpu = self._gpu or cupy_gpu()
        loaded = self._load(gpu, gpu.current_stream()[0])
        buffers = self._new_buffers(gpu, loaded)
        taken: list[list[float]] = []
        times = [1] * len(loaded.steps)
        for _ in range(6):
            values = self._initial_values(gpu, arrays, buffers)
            steps = zip(loaded.steps, buffers.workspaces, times, strict=True)
            with np.errstate(all="ignore"):
                taken.append([gpu.seconds(partial(step, values, space), n) for step, space, n in steps])
            times = [max(1, min(MOST_TIMES, int(TIMED / seconds))) for seconds in taken[-1]]
        medians = [statistics.median(seconds) for seconds in zip(*taken[1:], strict=True)]
        return [s for s, k in zip(medians, self.plan.kernels, strict=True) if not k.is_view]

    def _run_on(self, gpu: Gpu, arrays: Sequence[Any], loaded: _Loaded, buffers: _CallBuffers) -> tuple[Any, ...]:
        values = self._initial_values(gpu, arrays, buffers)
        with np.errstate(all="ignore"):
            for step, workspace in zip(loaded.steps, buffers.workspaces, strict=True):
                step(values, workspace)
        return tuple([values[v].copy(order="C") if copied else values[v] for v, copied in self._layout.outputs])

    def _initial_values(self, gpu: Gpu, arrays: Sequence[Any], buffers: _CallBuffers) -> Values:
        """The values at the start of a call: the arguments on the device, and memory for everything else."""
        values = buffers.values.copy()
        if self._layout.nbytes > KEPT_BYTES:
            self._place(gpu, values)
        for array, (v, dtype, shape) in zip(arrays, self._expected, strict=True):
            held = gpu.holds(array)
            argument = array if held else ndarray(array, f"the argument {self._name(v)!r}")
            if argument.shape != shape or argument.dtype != dtype:
                self._refuse(v, argument)
            values[v] = ready(gpu, argument) if held else gpu.upload(argument)
        for v in self._layout.fresh:
            values[v] = gpu.empty(self.plan.types[v].shape, self.plan.types[v].dtype)
        return values

    def _place(self, gpu: Gpu, values: Values) -> None:
        """The intermediates as arrays in a new arena."""
        arena = gpu.empty((self._layout.nbytes,), np.dtype(np.uint8))
        for v, array in self._layout.arrays(arena).items():
            values[v] = array

    def _new_buffers(self, gpu: Gpu, loaded: _Loaded) -> _CallBuffers:
        values = loaded.fixed.copy()
        if self._layout.nbytes <= KEPT_BYTES:
            self._place(gpu, values)
        shapes = [f.schedule.workspace if f else () for f in self.functions]
        return _CallBuffers(values, [[gpu.upload(np.zeros(n, dtype)) for dtype, n in shape] for shape in shapes])

    def _load(self, gpu: Gpu, device: Hashable) -> _Loaded:
        """Compile the functions, and upload what every call reads."""
        with self._lock:
            if device not in self._loaded:
                wanted = {v for k in self.plan.kernels for v in k.reads} | set(self.plan.outputs)
                known = constant_values(self.plan)
                fixed: Values = [None] * len(self.plan.types)
                for v in sorted(wanted & known.keys()):
                    fixed[v] = gpu.upload(known[v])
                emitted = any(isinstance(f, CudaKernel) for f in self.functions)
                module = gpu.module(self.source(), self.plan.numerics == "strict") if emitted else None
                views = {k.writes[0] for k in self.plan.kernels if k.is_view}
                pairs = zip(self.plan.kernels, self.functions, strict=True)
                steps = [_step(gpu, module, k, f, views) for k, f in pairs]
                gpu.finish()  # other streams read what was uploaded
                self._loaded[device] = _Loaded(fixed, steps)
            return self._loaded[device]


def _emitted(plan: Plan) -> list[Emitted | None]:
    """What runs each kernel; None for a view. Equal kernels share one."""
    found: dict[tuple[str, Graph], Emitted] = {}
    for k in plan.kernels:
        if not k.is_view and (k.kind, k.body) not in found:
            found[k.kind, k.body] = emit_kernel(k, plan.device, plan.numerics != "approximate")
    return [found.get((k.kind, k.body)) for k in plan.kernels]


def _step(gpu: Gpu, module: Any, kernel: Kernel, emitted: Emitted | None, views: set[int]) -> Run:
    """How `kernel` runs on the device. A CUDA function reads copies of `views`, which may be strided."""
    reads, writes = kernel.reads, kernel.writes
    if emitted is None:
        chain = leaf_chain(kernel.body.outputs[0])[1]

        def view(values: Values, _workspace: Sequence[Any]) -> None:
            values[writes[0]] = taken(values[reads[0]], chain)

        return view
    if isinstance(emitted, CudaLoop):
        loop = emitted.bind(gpu)
        return lambda values, _workspace: loop([values[v] for v in reads], [values[v] for v in writes])
    constants = [gpu.upload(c) if isinstance(c, np.ndarray) else c for c in emitted.constants]
    if isinstance(emitted, CudaCalls):
        calls = emitted.bind(gpu)

        def call(values: Values, _workspace: Sequence[Any]) -> None:
            calls(*[values[v] for v in reads], *constants, *[values[v] for v in writes])

        return call
    if not emitted.grid:
        return lambda _values, _workspace: None
    function, grid, block, arguments = module.get_function(emitted.name), emitted.grid, emitted.block, emitted.arguments

    def launch(values: Values, workspace: Sequence[Any]) -> None:
        operands = [ready(gpu, values[v]) if v in views else values[v] for v in reads]
        function(grid, block, arguments([values[v] for v in writes], operands, constants, workspace))

    return launch
