"""Kernels of the C target: C functions for fused bodies, NumPy calls for all else.

In: the kernels of a plan. Out: for each a `NumpyKernel`, one line or a few of the program's Python function; and the C
text that these lines call. Next stop: `executable.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.emit.c.alike import with_alike_joined
from eqfuse.emit.c.calls import CallsSchedule, numpy_side
from eqfuse.emit.c.convolution.schedule import ConvolutionSchedule
from eqfuse.emit.c.convolution.writer import convolution_text
from eqfuse.emit.c.division import DIVISOR
from eqfuse.emit.c.functions import with_functions
from eqfuse.emit.c.ops import QUICK_FUNCTIONS
from eqfuse.emit.c.product.schedule import ProductSchedule
from eqfuse.emit.c.product.writer import panels_function, product_text
from eqfuse.emit.c.puts import note_puts
from eqfuse.emit.c.scatter.schedule import ScatterSchedule
from eqfuse.emit.c.scatter.writer import scatter_text
from eqfuse.emit.c.schedule import LoopsSchedule, spread_schedule
from eqfuse.emit.c.sliding.schedule import WindowsSchedule
from eqfuse.emit.c.sliding.writer import windows_text
from eqfuse.emit.c.streaming import STREAM
from eqfuse.emit.c.totals import TotalsSchedule, totals_text
from eqfuse.emit.c.writer import Text, loops_text
from eqfuse.emit.executable import function_name
from eqfuse.emit.numpy import kernels as numpy_kernels
from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.emit.numpy.scheduling import whole_arrays
from eqfuse.emit.numpy.source import Source
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, const
from eqfuse.kinds import kind_named
from eqfuse.kinds.schedule import Schedule
from eqfuse.machine import c_calls
from eqfuse.machine.c_copies import ordered_copy
from eqfuse.machine.c_objects import load_all
from eqfuse.machine.c_threads import compiling, runner
from eqfuse.machine.memory import aligned_memory
from eqfuse.machine.thread_limit import thread_count
from eqfuse.plan.plan import Kernel

RUN_NAME = "eqf_run"  # what runs chunks on threads; set when the text is loaded
# NumPy's array object, of which kernels read where its memory is; the size of its head is that of any Python object.
HEAD = f"""typedef struct {{ char head[{object.__basicsize__}]; void *data; }} Array;
void (*{RUN_NAME})(void (*chunk)(void *const *, long long), void *const *arrays, long long chunks, long long threads);
{c_calls.TEXT}#define inline inline __attribute__((always_inline)) /* else the loops of large texts are no vectors */
"""
# Characters of kernels in a text before the next begins: at least, as a compiler takes as long to start as to compile
# so many, and at most. Between these, there are as many texts as threads compile at once.
TEXT_LENGTHS = 4000, 12_000
BRIEF = 2e-6  # predicted seconds of a kernel, below which its text is compiled in little time: a call takes longer
TYPES = {"Pair": "typedef struct { double re, im; } Pair;\n", "Divisor": DIVISOR, "eqf_stream": STREAM}


@dataclass(frozen=True)
class CKernel:
    """One C kernel, the function `name`. `panels`: the function that copies right operands for it, where a program
    calls that once, as they are constants."""

    name: str
    text: Text
    schedule: LoopsSchedule | TotalsSchedule | ProductSchedule | ConvolutionSchedule | WindowsSchedule
    panels: str | None = None

    @property
    def functions(self) -> list[str]:
        return [self.name] if self.panels is None else [self.name, self.panels]

    @property
    def is_quick(self) -> bool:
        """Is it compiled in little time? Loops over all elements say which of them are vectors, and are as fast with
        few optimisations; of a kernel that takes less time than a call of it, nobody would notice."""
        return type(self.schedule) in (LoopsSchedule, TotalsSchedule) or self.schedule.seconds < BRIEF

    @cached_property
    def refusal(self) -> Callable[..., None]:
        """What raises the error of a place that its arrays do not have."""
        return partial(raise_index_error, self.text.parameters.body)

    def with_constants(self, constants: Collection[int], rounds: bool) -> CKernel:
        """Where the inputs of these numbers are constants: the kernel that finds its right operands copied."""
        s = self.schedule
        if not isinstance(s, ProductSchedule) or not s.workspaces or not s.copied <= set(constants):
            return self
        if s.blocks.turns > 1:  # what one turn copies the next one writes over
            return self
        name = f"{self.name}_once"
        return CKernel(name, product_text(s, name, rounds, once=True), s, panels_function(name))

    def copied(self, function: Any, constants: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """What `function`, that of `panels`, makes of `constants`, by number of input."""
        copies = [np.ndarray(t.shape, t.dtype, aligned_memory(t.nbytes)) for t in self.schedule.workspaces]
        parameters, absent = self.text.parameters, np.empty(0)
        reads = [constants.get(i, absent) for i in parameters.read_numbers()]
        literals = [literal.array for literal in parameters.constants]
        function(*reads, *literals, *[absent] * len(parameters.body.outputs), *copies)
        return copies

    def called(
        self, function: Any, copied: Collection[int], panels: Mapping[str, np.ndarray] | None = None
    ) -> NumpyKernel:
        """The line that calls its `function`, with its reads numbered `copied` in C order first, and with `panels`, by
        names that no other line uses."""
        parameters = self.text.parameters
        source = Source(parameters.body)
        source.inline = True
        source.writes_last = isinstance(self.schedule, (LoopsSchedule, ProductSchedule))
        again = self.text.misses or any(n.op in QUICK_FUNCTIONS for n in parameters.body.nodes)  # may reads be read?
        if source.writes_last and not again:
            pairs = self.schedule.overlays
            source.overlays = frozenset((j, i) for i, n in enumerate(parameters.body.inputs) for j in pairs.get(n, ()))
        source.writes_gaps = type(self.schedule) is LoopsSchedule and self.schedule.may_spread
        source.names |= {self.name: function, "in_order": ordered_copy}
        reads = [f"r{i}" for i in parameters.read_numbers()]
        others = [source.leaf(const(literal.array)) for literal in parameters.constants]
        source.names |= panels or {}
        others += [*source.writes, *(panels or (source.workspace(t) for t in self.schedule.workspaces))]
        source.calls = [(self.name, reads, others)]
        in_order = [f"in_order(r{i})" if i in copied else f"r{i}" for i in parameters.read_numbers()]
        call = f"{self.name}({', '.join([*in_order, *others])})"
        if self.text.misses:
            refused = f"refused_{self.name}"
            source.names[refused] = self.refusal
            call = f"if {call}: {refused}({', '.join(f'r{i}' for i in range(len(parameters.body.inputs)))})"
        source.line(call)
        return NumpyKernel(source.text(), source, self.schedule)


@dataclass(frozen=True)
class Module:
    """A C text, and the kernels that stand in it. `is_quick`: is it to be compiled in little time?"""

    text: str
    kernels: Sequence[CKernel]
    is_quick: bool = False


def source_of(body: Graph, schedule: Schedule, name: str, rounds: bool = True) -> CKernel | Source:
    """The kernel `name` of `schedule`, which one of the kinds of eqfuse itself has made."""
    match schedule:
        case CallsSchedule():
            source = numpy_kernels.source_of(body, schedule.by_numpy)
            note_puts(source)
            return source
        case ScatterSchedule():
            return CKernel(name, scatter_text(schedule, name, rounds), schedule)
        case LoopsSchedule():
            return CKernel(name, loops_text(schedule, name, rounds), schedule)
        case TotalsSchedule():
            return CKernel(name, totals_text(schedule, name, rounds), schedule)
        case ProductSchedule():
            return CKernel(name, product_text(schedule, name, rounds), schedule)
        case ConvolutionSchedule():
            return CKernel(name, convolution_text(schedule, name, rounds), schedule)
        case WindowsSchedule():
            return CKernel(name, windows_text(schedule, name, rounds), schedule)
        case _ if not schedule.calls:
            return nothing(body)
    raise TypeError(f"no emitter for a {type(schedule).__name__} of {body}")


def nothing(body: Graph) -> Source:
    """A kernel without anything to compute."""
    source = Source(body)
    source.inline = True
    return source


def emit_kernel(
    kernel: Kernel, device: Device, rounds: bool = True, gaps: bool = False, meter: Meter | None = None
) -> NumpyKernel | CKernel:
    """What runs `kernel`. UnsupportedOp when its kind or an operator has no form here."""
    kind = kind_named(kernel.kind)
    if kind.has_plans:
        planned: NumpyKernel = kind.emit_plans(kernel, device, meter)
        return planned
    schedule = kind.schedule(kernel.body, device)
    if isinstance(schedule, CallsSchedule) and gaps:
        return numpy_kernels.emit_kernel(kernel, numpy_side(device), gaps)
    emitted = kind.emit(kernel.body, schedule, device, function_name(kernel), rounds)
    return emitted if isinstance(emitted, CKernel) else _in_order(emitted, schedule)


def emit_by_numpy(body: Graph) -> NumpyKernel:
    """What runs `body` where it is not compiled: one NumPy call after another. UnsupportedOp where there is none for
    one of its operators on whole arrays."""
    schedule = whole_arrays(body)
    return _in_order(numpy_kernels.source_of(body, schedule), schedule)


def _in_order(emitted: Source, schedule: Schedule) -> NumpyKernel:
    if emitted.returned:  # library routines may give arrays in another order
        emitted.names["in_order"] = ordered_copy
        emitted.returned = f"in_order({emitted.returned})"
    return NumpyKernel(emitted.text(), emitted, schedule)


def emit_spread(kernel: Kernel, device: Device, rounds: bool, strides: Sequence[Sequence[int]]) -> CKernel:
    """The map `kernel` where its results have gaps between their elements, which lie with these `strides`."""
    name = "_".join([function_name(kernel), *("_".join(map(str, lie)) for lie in strides)])
    schedule = spread_schedule(kernel.body, device, strides)
    return CKernel(name, loops_text(schedule, name, rounds), schedule)


def module_text(kernels: Collection[CKernel]) -> str:
    """One C text: what kernels call, then the kernels, each once."""
    return _text([*kernel_texts(kernels).values()])


def _text(sources: Sequence[str]) -> str:
    types = "".join(text for name, text in TYPES.items() if any(name in source for source in sources))
    return f"{HEAD}{types}\n{with_functions(sources)}"


def kernel_texts(kernels: Collection[CKernel]) -> dict[tuple[str, ...], str]:
    """The texts of kernels, by name; those that are brief and alike have one."""
    brief = {k.name for k in kernels if k.schedule.seconds < BRIEF}
    return with_alike_joined({k.name: k.text.source for k in kernels}, brief)


def modules(kernels: Sequence[CKernel], in_haste: Collection[str] = ()) -> list[Module]:
    """Texts that together have every kernel once; those named `in_haste` stand with the quick ones. Texts are compiled
    side by side, so each has a few kernels only."""
    each = {k.name: k for k in kernels}
    sources = kernel_texts(each.values())
    short, long = TEXT_LENGTHS
    least = min(max(short, sum(map(len, sources.values())) // thread_count()), long)
    texts: list[Module] = []
    for is_quick in (True, False):
        groups: list[list[tuple[str, ...]]] = []
        for names in sources:
            if (each[names[0]].is_quick or names[0] in in_haste) is not is_quick:
                continue
            length = sum(len(sources[other]) for other in groups[-1]) if groups else least
            if least <= max(length, len(sources[names])):
                groups.append([])
            groups[-1].append(names)
        for group in groups:
            named = [each[name] for names in group for name in names]
            texts.append(Module(_text([sources[names] for names in group]), named, is_quick))
    return texts


def loaded(texts: Sequence[Module]) -> dict[str, Any]:
    """The functions of all kernels of these texts, by name."""
    functions: dict[str, Any] = {}
    with compiling():
        libraries = load_all([m.text for m in texts], quick=[m.text for m in texts if m.is_quick])
    for library, module in zip(libraries, texts, strict=True):
        ctypes.c_void_p.in_dll(library, RUN_NAME).value = runner()
        functions |= c_calls.library_functions(library, [f for k in module.kernels for f in k.functions])
    return functions


def raise_index_error(body: Graph, *arrays: np.ndarray) -> None:
    """Raise what `body` means for `arrays`, of which it takes places that they do not have: IndexError."""
    with np.errstate(all="ignore"):
        evaluate(body, arrays)
    raise IndexError("an index is out of bounds")
