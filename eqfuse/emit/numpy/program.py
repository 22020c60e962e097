"""One Python function for a whole program: inline kernels stand in it line by line, the others are called.

In: a `Plan`, its emitted kernels, and where its values lie. Out: `Routine`, readable source and a function.
Names: v: values of the plan, t: results on the way, a: views, k: constants. Arrays that stay from one call to the next
are global to the function, views of them too; it makes the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.emit.numpy.ops import NAMES, view_text
from eqfuse.emit.numpy.source import Source, tuple_text
from eqfuse.ir.graph import Node, input_node, node
from eqfuse.ir.views import leaf_chain, strides_after, taken
from eqfuse.plan.buffers import Layout
from eqfuse.plan.memory import LEAST_RESULT, results
from eqfuse.plan.plan import Kernel, Plan, value_names

CopyInto = Callable[[np.ndarray, np.ndarray], None]  # from the second to the first, in C order
BoundCall = Callable[[Sequence[np.ndarray]], tuple[np.ndarray, ...]]
View = tuple[str, tuple[Node, ...]]  # of what is named, through these views


class NativeCall(NamedTuple):
    """A function, and the names of what it is given: arrays that it reads in C order, then others."""

    function: Callable[..., Any]
    reads: tuple[str, ...]
    others: tuple[str, ...]



FEWEST_TOGETHER = 3  # calls of C that Python begins as one
_OURS = re.compile(r"\b[roakt]\d+\b")
_WORDS = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class _KernelLines:
    """The lines of one kernel."""

    head: str
    lines: list[str]
    is_view: bool
    calls: list[NativeCall] | None = None


class Routine:
    """The function of a program, once it is bound to memory: it takes the arguments and gives the results.
    `ordered_inputs`: those that must lie in C order where its lines, not its kernels, call C."""

    def __init__(
        self,
        plan: Plan,
        kernels: Sequence[Kernel],
        emitted: Sequence[NumpyKernel | None],
        layout: Layout,
        constants: dict[int, np.ndarray],
        copy_into: CopyInto,
    ) -> None:
        writer = _Writer(plan, kernels, emitted, layout, constants, copy_into)
        self._parts, self._names, self._stays = writer.parts, writer.globals, writer.stays
        self.shown, self.outputs = writer.shown, [name for name, _ in writer.outputs()]
        self.ordered_inputs = frozenset(v for v in plan.inputs if f"v{v}" in writer.read_in_order)
        self._begin = ["def program(inputs):", f"    {tuple_text([f'v{v}' for v in plan.inputs])} = inputs"]
        self._end = f"    return {tuple_text([f'copied({v})' if copied else v for v, copied in writer.outputs()])}"
        self._functions = writer.functions()
        self._code = self._compiled(self._lines())

    @property
    def calls(self) -> list[NativeCall] | None:
        """What the function calls, where it does nothing else but show arrays as views of themselves."""
        each = [part.calls for part in self._parts if not part.is_view]
        return None if None in each else [call for calls in each for call in calls or ()]

    def staying(self, values: Mapping[int, np.ndarray]) -> dict[str, Any]:
        """What stays from call to call on the memory of `values`, by name."""
        stays: dict[str, Any] = {}
        for name, source in self._stays.items():
            if isinstance(source, int):
                stays[name] = values[source]
            elif isinstance(source, tuple):
                stays[name] = taken(stays[source[0]], source[1])
            else:
                stays[name] = source
        return stays

    @property
    def source(self) -> str:
        once = [f"# once: {name} = {view_text(*view)}" for name, view in self._stays.items() if isinstance(view, tuple)]
        lines = [*once, *self._begin, *self._lines(heads=True), self._end]
        return "\n".join([*self._functions, *lines]) + "\n"

    def bound(self, values: Mapping[int, np.ndarray], mark: Callable[[], None] | None = None) -> BoundCall:
        """The function on the memory of `values`: those of the plan that stay, and the workspaces, by number.

        It calls `mark` at first and after every kernel that is no view.
        """
        # what stays is global: thousands of local names would take, and give back, new pages at every call
        names = {"__builtins__": {}, **self._names, **self.staying(values), "mark": mark}
        code = self._code if mark is None else self._compiled(["    mark()", *self._lines(marks=True)])
        return FunctionType(code.replace(), names)  # code of its own: it remembers where its globals lie

    def _lines(self, heads: bool = False, marks: bool = False) -> list[str]:
        lines = []
        for part in self._parts:
            lines += [f"    {part.head}"] * heads + part.lines + ["    mark()"] * (marks and not part.is_view)
        return lines

    def _compiled(self, lines: list[str]) -> CodeType:
        names: dict[str, Any] = {}
        exec(compile("\n".join([*self._begin, *lines, self._end]), "<eqfuse program>", "exec"), names)
        code: CodeType = names["program"].__code__
        return code


class _Writer:
    """Writes kernels one after another. `stays`: what is handed in, a constant, the number of a value, or a view."""

    def __init__(
        self,
        plan: Plan,
        kernels: Sequence[Kernel],
        emitted: Sequence[NumpyKernel | None],
        layout: Layout,
        constants: dict[int, np.ndarray],
        copy_into: CopyInto,
    ) -> None:
        self.plan, self.layout = plan, layout
        self.globals: dict[str, Any] = {"copied": partial(_copied, copy_into), "result": results.new}
        staying = [v for v in (*constants, *layout.slots) if v < len(plan.types)]
        self.stays: dict[str, np.ndarray | np.generic | int | View] = {f"v{v}": v for v in staying}
        self.constant_names = {f"v{v}" for v in constants}
        self.roots: dict[str, View] = {}  # of views that stay
        self.names = {v: f"v{v}" for v in range(len(plan.types))}
        self.count = 2  # k0 and k1 are functions
        self.constants: dict[int, str] = {}
        self.numbers: dict[int, str] = {}
        self.called: dict[int, tuple[str, NumpyKernel]] = {}
        self.fresh = set(layout.fresh)
        self.in_place, self.in_parts = layout.updates.in_place, layout.updates.parts
        self.over = layout.updates.over
        self.written: dict[int, set[int]] = {}  # values that lie where an update would copy them, by kernel
        for part in self.in_parts.values():
            self.written.setdefault(part.user, set()).add(part.position)
        self.lent: dict[int, list[int]] = {}  # values that lie in results first, by kernel
        for v, (loan, _) in layout.lent.items():
            if v < len(plan.types):
                self.lent.setdefault(loan.first, []).append(v)
        self.views: dict[View, str] = {}
        self.shown: dict[str, View] = {}  # views that each call takes
        self.read_in_order: set[str] = set()  # by calls that C makes together
        self.parts = [self._part(i, *both) for i, both in enumerate(zip(kernels, emitted, strict=True))]

    def outputs(self) -> list[tuple[str, bool]]:
        return [(self.names[v], copied) for v, copied in self.layout.outputs]

    def functions(self) -> list[str]:
        """The kernels that are called."""
        return [k.source.replace("def run(", f"def {name}(", 1) for name, k in self.called.values()]

    def _part(self, i: int, k: Kernel, emitted: NumpyKernel | None) -> _KernelLines:
        ops = " ".join(n.op for n in k.body.operators)
        head = f"# kernel {i}, {k.kind}: {value_names(k.writes)} = {ops} of {value_names(k.reads)}"
        if emitted is None:
            name, base = self.names[k.writes[0]], self.names[k.reads[0]]
            lines = self._view(name, base, leaf_chain(k.body.outputs[0])[1])
            return _KernelLines(f"{head}: no data moves", lines, True)
        lines = []
        if i in self.in_place:
            head += f", in its memory ({self.names[self.in_place[i]]})"
            lines += self._lying(k.writes[0], self.in_place[i])
        for v in k.writes:
            if v in self.over:
                head += f", over {self.names[self.over[v]]}"
                lines += self._lying(v, self.over[v])
        for v in self.lent.get(i, ()):
            lines += self._lent(f"v{v}", v)
        for v in k.writes:
            part = self.in_parts.get(v)
            if part is not None:
                lines += self._fresh(part.whole)
                lines += self._view(f"v{v}", self.names[part.whole], part.views)
                head += f", into {self.names[part.whole]}"
        for v in k.writes:
            lines += self._fresh(v)
        reads, writes = ([self.names[v] for v in values] for values in (k.reads, k.writes))
        if emitted.parts.inline:
            calls: Sequence[tuple[str, list[str], list[str]] | None] = emitted.parts.calls or ()
            if len(calls) != len(emitted.parts.lines):
                calls = [None] * len(emitted.parts.lines)
            own = list(zip(emitted.parts.lines, calls, strict=True))
            if emitted.parts.returned:
                own.append((f"    o0 = {emitted.parts.returned}", None))
            if i in self.in_place or not self.over.keys().isdisjoint(k.writes):
                own = own[emitted.parts.keeping :]
            if i in self.written:  # each value is copied by a line at the end
                first = len(own) - (len(k.body.outputs[0].args) - 1)
                own = [each for position, each in enumerate(own) if position - first not in self.written[i]]
            names = self._inline_names(i, emitted.parts, reads, writes, lines)
            native = [self._call(emitted.parts, call, names) for _, call in own if call is not None]
            by_c = native if len(native) == len(own) else None
            if emitted.parts.together and len(native) >= FEWEST_TOGETHER and by_c and self._lie_in_order(native):
                return _KernelLines(head, [*lines, self._together(emitted.parts, native)], False, by_c)
            own_lines = self._inline(emitted.parts, [line for line, _ in own], names)
            return _KernelLines(head, [*lines, *own_lines], False, by_c)
        name, _ = self.called.setdefault(id(emitted), (f"kernel{len(self.called)}", emitted))
        self.globals[name] = emitted.run
        return _KernelLines(head, [*lines, f"    {name}({tuple_text(writes)}, {tuple_text(reads)})"], False)

    def _lying(self, v: int, base: int) -> list[str]:
        """Lines that let the value `v` lie where `base` does, in the same order. No view that is spread is taken, be it
        over as many elements: NumPy writes to none."""
        types, name = self.plan.types, self.names[base]
        if types[v].shape == types[base].shape:
            self.names[v] = name
            return []
        whole = input_node("whole", types[base])
        return self._view(self.names[v], name, (node("reshape", (whole,), (types[v].shape,)),))

    def _fresh(self, v: int) -> list[str]:
        """The line that makes the result `v`, where it is one and not made yet."""
        if v not in self.fresh:
            return []
        self.fresh.remove(v)
        t = self.plan.types[v]
        if t.nbytes >= LEAST_RESULT:
            return [f"    v{v} = result({t.shape}, {self._dtype(t.dtype)})"]
        self._global("empty", NAMES["empty"])
        return [f"    v{v} = empty({t.shape}, {self._dtype(t.dtype)})"]

    def _lent(self, name: str, number: int) -> list[str]:
        """The lines that make what lies in a result, and the result before it."""
        loan, t = self.layout.lent[number]
        self._global("ndarray", np.ndarray)
        view = f"ndarray({t.shape}, {self._dtype(t.dtype)}, v{loan.lender}, {loan.offset})"
        return [*self._fresh(loan.lender), f"    {name} = {view}"]

    def _inline_names(
        self, i: int, parts: Source, reads: list[str], writes: list[str], lines: list[str]
    ) -> dict[str, str]:
        """What the names in an inline kernel are in the function; `lines` that take views are added."""
        names = {f"r{j}": name for j, name in enumerate(reads)} | {f"o{j}": name for j, name in enumerate(writes)}
        names |= {name: self._constant(n.literal.array) for name, n in parts.constants.items()}
        for name, n in parts.views.items():
            leaf, chain = leaf_chain(n)
            view = names[parts.leaf(leaf)], chain
            if view not in self.views:
                self.views[view] = self._name("a")
                lines += self._view(self.views[view], *view)
            names[name] = self.views[view]
        for name, n in parts.numbers.items():
            leaf, chain = leaf_chain(n)
            if leaf.op == "const" and not chain:
                names[name] = self._number(leaf.literal.array)
            else:
                names[name] = self._name("a")
                self._names_of_views()
                lines.append(f"    {names[name]} = {view_text(names[parts.leaf(leaf)], chain, number=True)}")
        for name, number in zip(parts.workspaces, self.layout.workspaces.get(i, ()), strict=True):
            names[name] = self._name("t")
            if number in self.layout.lent:
                lines += self._lent(names[name], number)
            else:
                self.stays[names[name]] = number
        return names

    def _call(self, parts: Source, call: tuple[str, list[str], list[str]], names: Mapping[str, str]) -> NativeCall:
        """A call of C that may stand in place of a line of a kernel."""
        function, reads, others = call
        self.stays |= {word: parts.names[word] for word in others if word not in names}
        return NativeCall(
            parts.names[function], *(tuple([names.get(word, word) for word in words]) for words in (reads, others))
        )

    def _lie_in_order(self, calls: Sequence[NativeCall]) -> bool:
        """Is nothing that `calls` read a view, which may have gaps?"""
        read = {name for call in calls for name in call.reads}
        return read.isdisjoint(self.shown) and read.isdisjoint(self.roots)

    def _together(self, parts: Source, calls: Sequence[NativeCall]) -> str:
        """The line that calls all of them."""
        self.read_in_order.update(name for call in calls for name in call.reads)
        arrays = list(dict.fromkeys(name for call in calls for name in (*call.reads, *call.others)))
        numbers = {name: i for i, name in enumerate(arrays)}
        assert parts.together is not None
        function, table = parts.together(
            [(call.function, [numbers[name] for name in (*call.reads, *call.others)]) for call in calls]
        )
        self._global("together", function)
        self._global("no_memory", _no_memory)
        return f"    if together({self._constant(table)}, {', '.join(arrays)}): no_memory()"

    def _inline(self, parts: Source, own: list[str], names: dict[str, str]) -> list[str]:
        lines = []

        def ours(match: re.Match[str]) -> str:
            if match[0] in NAMES:
                return match[0]
            if match[0] not in names:
                names[match[0]] = self._name("t")
            return names[match[0]]

        for line in own:
            for word in _WORDS.findall(line):
                if word in parts.names and word not in parts.constants:
                    self._global(word, parts.names[word])
            lines.append(_OURS.sub(ours, line))
        return lines

    def _view(self, name: str, base: str, chain: tuple[Node, ...]) -> list[str]:
        """Lines that take a view; none where it is taken once, with the memory below it."""
        root, before = self.roots.get(base, (base, ()))
        if root in self.stays:
            through = (*before, *chain)
            if root in self.constant_names or strides_after(through[0].args[0].type, through) is not None:
                self.stays[name], self.roots[name] = (base, chain), (root, through)
                return []
        self._names_of_views()
        self.shown[name] = base, chain
        return [f"    {name} = {view_text(base, chain)}"]

    def _names_of_views(self) -> None:
        for word in ("broadcast_to", "flip", "sliding_window"):
            self._global(word, NAMES[word])

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count - 1}"

    def _constant(self, array: np.ndarray) -> str:
        name = self.constants.get(id(array))
        if name is None:
            name = self.constants[id(array)] = self._name("k")
            self.stays[name] = array
            self.constant_names.add(name)
        return name

    def _number(self, array: np.ndarray) -> str:
        """The name of the number in the constant `array`."""
        name = self.numbers.get(id(array))
        if name is None:
            name = self.numbers[id(array)] = self._name("k")
            self.stays[name] = array[()]
        return name

    def _dtype(self, dtype: np.dtype) -> str:
        self._global(dtype.name, dtype)
        return dtype.name

    def _global(self, name: str, value: Any) -> None:
        assert self.globals.setdefault(name, value) is value, f"two meanings of {name}"


def _no_memory() -> None:
    raise MemoryError("values that an update reads from what it writes are copied first, for which there is no memory")


def _copied(copy_into: CopyInto, array: np.ndarray) -> np.ndarray:
    copy = results.new(array.shape, array.dtype)
    copy_into(copy, array)
    return copy
