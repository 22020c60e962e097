"""What runs a plan on a GPU: its kernels as CUDA functions and library calls, bound to device memory.

In: a `Plan` for a GPU. Out: `CudaExecutable`: its source and memory need no GPU, only a call does. It runs where its
arguments lie, and gives arrays of the library of the first on a device; NumPy arguments are copied to the device, and
the results back when no argument lay there. Calls on one stream share memory, which the order of the stream makes safe.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.emit.cuda.arguments import argument_array, as_kind, device_of
from eqfuse.emit.cuda.calls import CudaCalls, emit_calls
from eqfuse.emit.cuda.graphs import Graphs, refuse_capture
from eqfuse.emit.cuda.kernels import CudaKernel, Emitted, emit_kernel, shared_functions
from eqfuse.emit.cuda.launches import BoundLaunches, Launches
from eqfuse.emit.cuda.loops import CudaLoop
from eqfuse.emit.executable import Executable, constant_values
from eqfuse.errors import TargetUnavailable
from eqfuse.ir.graph import Graph
from eqfuse.machine.gpu import Gpu, cupy_gpu, ready
from eqfuse.machine.nvrtc import STRICT
from eqfuse.plan.buffers import layout
from eqfuse.plan.in_place import updates
from eqfuse.plan.plan import Plan, value_names

GPU_ARENA_KEPT = 64 << 20  # an arena up to this size stays with its program, with the arrays in it ready
TIMED, MOST_TIMES = 5e-4, 10  # seconds of a kernel that are timed at once, and how often at most it runs in them

Workspaces = list[list[Any]]  # of each kernel


@dataclass(frozen=True)
class _DeviceState:
    """The program on one device: the values that never change, and what its launches name."""

    fixed: dict[int, Any]
    names: dict[str, Any]


class CudaExecutable(Executable):
    """A plan as launches and library calls on `gpu`, by default the one that CuPy finds when it is first called.

    `functions`: what runs each kernel; None for a view. `carried`: of a loop's step, as `plan.in_place.updates` takes
    it; `kept`: the results that lie in the memory of carries, and in whose.
    """

    def __init__(self, plan: Plan, gpu: Gpu | None = None, carried: Mapping[int, int] | None = None) -> None:
        super().__init__(plan)
        self._gpu = gpu
        self.functions = _emitted(plan)
        loops = {i: f.carries for i, f in enumerate(self.functions) if isinstance(f, CudaLoop) and f.carries}
        placed = updates(plan, carried=carried, loops=loops)
        self.kept = placed.kept
        for i in placed.in_place:
            self.functions[i] = _in_place(plan.kernels[i].body, self.functions[i])
        self.layout = layout(plan, placed, (), {}, carried)
        self._launches = Launches(plan, self.functions, self.layout)
        self._has_graphs = False
        self._lock = threading.Lock()
        self._loaded: dict[Hashable, _DeviceState] = {}  # by device
        written = plan.graph.signature.written if plan.graph.signature else ()
        others = len(plan.outputs) - len(written)
        self._updated = [*[None] * others, *written] if written else []  # the argument that each output replaces
        self._free: dict[Hashable, list[Callable[..., tuple[Any, ...]]]] = {}  # by device and stream; in no call's use
        self.peak_bytes = self.layout.nbytes + sum(f.schedule.workspace_bytes for f in self.functions if f)

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        gpu = self._gpu or cupy_gpu()
        if gpu.devices > 1:
            device = self._device(gpu, arrays)
            if device is not None and device != gpu.current_stream()[0]:
                with gpu.on(device):
                    return self._results(gpu, arrays, *self._arguments(gpu, arrays))
        arguments, first = self._arguments(gpu, arrays)
        if gpu.holds(first) and not self._updated:
            return self._call(gpu, arguments)
        return self._results(gpu, arrays, arguments, first)

    def _results(self, gpu: Gpu, arrays: Sequence[Any], arguments: list[Any], first: Any) -> tuple[Any, ...]:
        """The outputs as the library of `first` has them, or that of the argument that one replaces."""
        outputs = self._call(gpu, arguments)
        replaced = self._updated or [None] * len(outputs)
        return tuple([as_kind(gpu, output, first if i is None else arrays[i])
                      for output, i in zip(outputs, replaced, strict=True)])  # fmt: skip

    def on_device(self, gpu: Gpu, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for `arrays`, on the device."""
        return self._call(gpu, self._arguments(gpu, arrays)[0])

    def use_graphs(self) -> None:
        refuse_capture(self.plan, self.functions)
        with self._lock:
            self._has_graphs = True
            self._loaded, self._free = {}, {}

    def source(self) -> str:
        """One CUDA text: the functions of all kernels in the order they run, library calls as comments."""
        kernels = [f for f in self.functions if isinstance(f, CudaKernel)]
        parts, shown = [shared_functions(k.source for k in kernels)], set()
        if self.plan.numerics == "strict":
            parts.insert(0, f"// strict: NVRTC is given {' '.join(STRICT)}\n#define EQF_STRICT\n")
        for i, (k, f) in enumerate(zip(self.plan.kernels, self.functions, strict=True)):
            ops = " ".join(n.op for n in k.body.operators)
            parts.append(f"// kernel {i}, {k.kind}: {value_names(k.writes)} = {ops} of {value_names(k.reads)}")
            parts[-1] += f"{self._lying(i)}\n"
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

    def _lying(self, i: int) -> str:
        """Whose memory results of kernel `i` lie in."""
        updates = self.layout.updates
        if i in updates.in_place:
            return f", in the memory of v{updates.in_place[i]}"
        return "".join([f", over v{updates.over[v]}" for v in self.plan.kernels[i].writes if v in updates.over])

    def schedules(self) -> list[str]:
        return [str(f.schedule) for f in self.functions if f]

    def notes(self) -> str:
        """The operators that run on the host, of which a program with graphs has none."""
        if self._has_graphs:
            return "From a program's second call on its kernels start all at once, as a CUDA graph"
        hosts = [f.schedule.host if isinstance(f, CudaCalls) else () for f in self.functions if f]
        names = [f"{n.op} ({i})" for i, host in enumerate(hosts) for n in host]
        return f"On the host, by kernel, as CuPy has nothing like it: {', '.join(names)}" if names else ""

    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        gpu = self._gpu or cupy_gpu()
        loaded, taken = self._load(gpu, gpu.current_stream()[0]), list[float]()
        arena, workspaces = self._arena(gpu), self._workspaces(gpu)
        times: list[int] = []

        def timed(work: Callable[[], None]) -> None:
            taken.append(gpu.seconds(work, times[len(taken)] if times else 1))

        bound = self._launches.bind(loaded.names, loaded.fixed | arena, workspaces, timed)
        rounds: list[list[float]] = []
        for _ in range(6):
            taken.clear()
            bound.call(*self._arguments(gpu, arrays)[0])
            rounds.append(taken.copy())
            times = [max(1, min(MOST_TIMES, int(TIMED / seconds))) for seconds in taken]
        return [statistics.median(seconds) for seconds in zip(*rounds[1:], strict=True)]

    def _arguments(self, gpu: Gpu, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        """The arguments on the device, and the first of them that lay there, if any did."""
        self._counted(arrays)
        arguments, first = [], None
        for array, (v, dtype, shape) in zip(arrays, self._expected, strict=True):
            argument = array if (held := gpu.holds(array)) else argument_array(gpu, array, self._name(v))
            if argument.shape != shape or argument.dtype != dtype:
                self._refuse(v, argument)
            if held or type(argument) is not np.ndarray:
                arguments.append(ready(gpu, argument))
                if first is None:
                    first = array
            else:
                arguments.append(gpu.upload(argument))
        return arguments, first

    def _device(self, gpu: Gpu, arrays: Sequence[Any]) -> int | None:
        """The device on which the arguments lie, as far as they lie on one. TargetUnavailable where they lie on two."""
        self._counted(arrays)
        places = {self._name(v): device_of(gpu, array, self._name(v))
                  for array, (v, _, _) in zip(arrays, self._expected, strict=True)}  # fmt: skip
        lying = {name: place for name, place in places.items() if place is not None}
        one = next(iter(lying), None)
        for name, place in lying.items():
            if place != lying[one]:
                raise TargetUnavailable(
                    f"the argument {one!r} lies on cuda:{lying[one]}, {name!r} on cuda:{place}: copy one of them to "
                    "the other's device, where the program then runs"
                )
        return lying.get(one)

    def _call(self, gpu: Gpu, arguments: Sequence[Any]) -> tuple[Any, ...]:
        here = gpu.current_stream()
        free = self._free.get(here)
        if free is None:
            free = self._free.setdefault(here, [])
        try:
            call = free.pop()
        except IndexError:
            call = self._new_call(gpu, here[0])
        try:
            return call(*arguments)
        finally:
            free.append(call)

    def _new_call(self, gpu: Gpu, device: Hashable) -> Callable[..., tuple[Any, ...]]:
        """What runs one call at a time on one stream, in memory of its own."""
        loaded, workspaces = self._loaded.get(device) or self._load(gpu, device), self._workspaces(gpu)

        def bound() -> BoundLaunches:
            return self._launches.bind(loaded.names, loaded.fixed | self._arena(gpu), workspaces)

        if self._has_graphs:
            return Graphs(gpu, bound())
        if self.layout.nbytes <= GPU_ARENA_KEPT:
            return bound().call
        return lambda *arguments: bound().call(*arguments)

    def _arena(self, gpu: Gpu) -> dict[int, Any]:
        """The intermediates as arrays in a new arena."""
        return self.layout.arrays(gpu.empty((self.layout.nbytes,), np.dtype(np.uint8)))

    def _workspaces(self, gpu: Gpu) -> Workspaces:
        shapes = [f.schedule.workspace if f else () for f in self.functions]
        return [[gpu.upload(np.zeros(n, dtype)) for dtype, n in shape] for shape in shapes]

    def _load(self, gpu: Gpu, device: Hashable) -> _DeviceState:
        """Compile the functions, and upload what every call reads."""
        with self._lock:
            if device not in self._loaded:
                wanted = {v for k in self.plan.kernels for v in k.reads} | set(self.plan.outputs)
                constants = constant_values(self.plan)
                fixed = {v: gpu.upload(constants[v]) for v in sorted(wanted & constants.keys())}
                kernels = [f for f in self.functions if isinstance(f, CudaKernel)]
                specific = any(k.schedule.architecture_specific for k in kernels)
                module = gpu.module(self.source(), self.plan.numerics == "strict", specific) if kernels else None
                names = self._launches.on(gpu, module, self._has_graphs)
                gpu.finish()  # other streams read what was uploaded
                self._loaded[device] = _DeviceState(fixed, names)
            return self._loaded[device]


def _in_place(body: Graph, function: Emitted | None) -> Emitted | None:
    """The update `body`, a library call unless it changes nothing, where its result lies in the memory of the array."""
    return emit_calls(body, function.schedule, in_place=True) if isinstance(function, CudaCalls) else function


def _emitted(plan: Plan) -> list[Emitted | None]:
    """What runs each kernel; None for a view. Equal kernels share one."""
    emitted: dict[tuple[str, Graph], Emitted] = {}
    for k in plan.kernels:
        if not k.is_view and (k.kind, k.body) not in emitted:
            emitted[k.kind, k.body] = emit_kernel(k, plan.device, plan.numerics != "approximate")
    return [emitted.get((k.kind, k.body)) for k in plan.kernels]
