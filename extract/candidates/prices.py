"""What kernels over one segment cost: the work of their operators, what they read and what they write.

In: the classes of a segment and a `Device`. Out: `Price`s. Every cut holds them and they hold no cut, so that what a
search made is freed when it ends, without a collection.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import work
from eqfuse.cost.targets import Estimates, estimates_of, is_compiled, searches_schedules
from eqfuse.cost.work import Jumps, Work
from eqfuse.egraph.space import EClass, ENode
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.candidates.work import ON_WHOLE_ARRAYS, Works, WorkTable, mask_of, set_bits, union
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.kinds import Kind, State, kind_of, price
from eqfuse.kinds.schedule import Schedule

if TYPE_CHECKING:
    from eqfuse.extract.candidates.cuts import Cut


ALL_SCHEDULED = 60  # classes, up to which every candidate has a schedule: some plans that estimates lead to are dearer
DOUBT = 0.03  # of a price
FEW_OF_PAIRS, FAR_LARGER = 200, 16  # the same where an array is so many times as large as all that is read and kept
_UNKNOWN: Any = object()  # a schedule that was not asked for
SHORT_PROGRAM = 1e-4  # seconds of a program, as written, below which plans are made by estimates: no calls pay for more


_Schedules = dict[tuple[str, tuple], Schedule | None]  # by the kind and the structure of a body
_of_program: ContextVar[dict[Device, _Schedules] | None] = ContextVar("_of_program", default=None)


@contextmanager
def schedules_shared() -> Iterator[None]:
    """A context in which the searches of all segments make the schedules of alike kernels once. It may be nested."""
    before = _of_program.get()
    token = _of_program.set({} if before is None else before)
    try:
        yield
    finally:
        _of_program.reset(token)


def _shared(device: Device) -> _Schedules:
    """The schedules that the searches of a program share; none where there is no program."""
    of_program = _of_program.get()
    return {} if of_program is None else of_program.setdefault(device, {})


@dataclass
class SearchStage:
    """Of a search. `by_estimates`: are kernels judged by estimates, and schedules made of those that are chosen? None
    until that is decided. `trusts`: is a kernel then taken to run before it has a schedule? See `trust.py`."""

    by_estimates: bool | None
    trusts: bool = False


class Prices:
    """Prices of kernels over `classes` on `device`. Those of schedules, and the stage, are shared with others that they
    are `like`."""

    def __init__(
        self, classes: Sequence[EClass], kept: Collection[int], device: Device, like: Prices | None = None
    ) -> None:
        """`kept`: the classes that are read from memory, or written there, whatever is chosen."""
        self._classes, self._device = classes, device
        self._compiled = is_compiled(device)
        self._work_table = WorkTable(self._compiled)
        self._behind: dict[tuple[object, float], dict[int, int]] = {}  # of each view, operators as they run behind it
        self._masks_behind: dict[tuple[object, float], dict[int, int]] = {}  # the same of sets, in compiled kernels
        self._numbers: dict[tuple[int, ENode, Jumps], int] = {}
        self._inputs: dict[int, Node] = {}
        self.sizes = [c.type.nbytes for c in classes]  # bytes
        self._itemsizes = [c.type.dtype.itemsize for c in classes]
        constants = ((n for n in c.nodes if n.op == "const") for c in classes)
        self._literals = [next((n.attr("value") for n in nodes), None) for nodes in constants]
        self._searches_schedules = searches_schedules(device)
        self._estimates: Estimates | None = like._estimates if like else None
        self._kept = sum([self.sizes[c] for c in kept])  # bytes
        of_pairs = self._is_of_pairs(max(self.sizes, default=0))
        if like is None and len(classes) > (FEW_OF_PAIRS if of_pairs else ALL_SCHEDULED):
            self._estimates = estimates_of(device)
        self._all_estimates = estimates_of(device)
        self.stage: SearchStage = like.stage if like else SearchStage(None if self._all_estimates else False)
        self._by_state: dict[tuple, tuple[Price, State]] = {}  # with the state, whose number is no other's then
        self._schedules: dict[tuple, Schedule | None] = {}
        self._alike: _Schedules = like._alike if like else _shared(device)  # whatever they read
        self._settled: dict[tuple[str, Graph], Price | None] = like._settled if like else {}
        self._views: dict[int, int] = {}  # of an array, those that are smaller than it, a bit each
        self._viewed: dict[tuple[int, int], int] = {}  # bytes of an array that a view of it needs
        self._seen: dict[tuple[int, int], int] = {}  # bytes of an array that a set of its views needs, all told

    def decide(self, seconds: float) -> bool:
        """A program takes `seconds` as written: does it turn out that kernels are judged by their schedules?"""
        if self.stage.by_estimates is None:
            self.stage.by_estimates = seconds < SHORT_PROGRAM
            return not self.stage.by_estimates
        return False

    def number(self, eclass: int, enode: ENode, steps: Jumps) -> int:
        """The number of an operator that computes class `eclass`, and reads elements in `steps`."""
        key = (eclass, enode, steps)
        number = self._numbers.get(key)
        if number is None:
            types = [self._classes[a].type for a in enode.args]
            literal = self._literals[enode.args[-1]] if enode.args else None
            done = work(enode.op, enode.attrs, self._classes[eclass].type, types, self._device, steps, literal)
            number = self._numbers[key] = self._work_table.enter(done)
        return number

    def viewed(self, works: Works, view: object, share: float) -> Works:
        """`works` as they run behind `view`, which shows that share of their elements: in tiles for this view alone, on
        whole arrays once for all."""
        run = [operator for times, mask in works.items() if times != ON_WHOLE_ARRAYS for operator in set_bits(mask)]
        seen = self._numbers_behind(run, view, share)
        whole = [operator for operator, behind in zip(run, seen, strict=True) if behind != operator]
        return {1.0: mask_of(seen), ON_WHOLE_ARRAYS: works.get(ON_WHOLE_ARRAYS, 0) | mask_of(whole)}

    def behind(self, works: Works, view: object, share: float) -> Works:
        """The same in a compiled kernel, where what is done several times an element is done so here too."""
        behind = self._masks_behind.setdefault((view, share), {})
        for mask in works.values():
            if mask not in behind:
                behind[mask] = self._work_table.behind(mask, share)
        return {times: behind[mask] for times, mask in works.items()}

    def operator_count(self, works: Works) -> int:
        """How many operators `works` holds."""
        return self._work_table.count(works)

    def _numbers_behind(self, operators: list[int], view: object, share: float) -> list[int]:
        """The numbers of `operators` as they run behind `view`."""
        numbers = self._behind.setdefault((view, share), {})
        for operator in operators:
            if operator not in numbers:
                numbers[operator] = self._work_table.viewed(operator, share)
        return [numbers[operator] for operator in operators]

    def note_view(self, eclass: int, whole: Mapping[int, int], read: Mapping[int, int]) -> None:
        """`eclass` is a view that needs the bytes `read` of arrays, of which its argument needs those in `whole`."""
        for c, size in read.items():
            if size < self.sizes[c] == whole[c]:
                self._views[c] = self._views.get(c, 0) | 1 << eclass
                if self._viewed.get((c, eclass)) != size:
                    self._viewed[c, eclass] = size
                    self._seen.clear()

    def node(self, eclass: int, enode: ENode | None, args: Sequence[Node]) -> Node:
        """What `enode` computes from `args`; of class `eclass` in memory where there is none."""
        if enode is None:
            return self._input(eclass)
        return node(enode.op, args, enode.attrs, self._classes[eclass].type)

    def _input(self, eclass: int) -> Node:
        leaf = self._inputs.get(eclass)
        if leaf is None:
            read = self._classes[eclass]
            leaf = self._inputs[eclass] = input_node(f"c{eclass}", read.type, read.constant)
        return leaf

    def _is_of_pairs(self, size: int) -> bool:
        """Is an array of `size` bytes many times as large as all that is read from memory and kept there?"""
        return size > FAR_LARGER * self._kept

    def kernel(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> Price:
        """The price of a kernel of `state` that computes `cuts` from `leaves` and stores the results. A search takes
        one that stores an array of pairs for dearer by what prices are not known to: it stores none for nothing."""
        own = self._kernel(cuts, state, leaves)
        if any(self._is_of_pairs(self.sizes[c.eclass]) for c in cuts):
            return replace(own, seconds=own.seconds * (1 + DOUBT))
        return own

    def _kernel(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> Price:
        if self._by_schedule(state.template):
            schedule = self._scheduled(state.template, tuple([c.node for c in cuts]))
            read, written, done = self._moved(cuts, state, leaves)
            if schedule is None:
                return Price(math.inf, read, written, done.flops, "memory")
            of_schedule = schedule.price(self._device, done)
            if of_schedule is not None:
                return of_schedule
        return self._of_state(cuts, state, leaves)

    def estimate(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> float | None:
        """About as many seconds, without a schedule, where a search goes by that; None where it goes by the price."""
        return self._of_state(cuts, state, leaves).seconds if self._is_estimated(state.template) else None

    def rough(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> float | None:
        """The same of a kernel where a search goes by the price of its schedule."""
        kind = state.template
        if self._is_estimated(kind) or not self._by_schedule(kind):
            return None
        if self._all_estimates is None and not kind.pointwise:  # a roofline says too little of rows and products
            return None
        return self._of_state(cuts, state, leaves).seconds

    def _is_estimated(self, kind: Kind) -> bool:
        if not self.goes_by_estimates and self._estimates is None:
            return False
        return self._by_schedule(kind)

    @property
    def goes_by_estimates(self) -> bool:
        """Are kernels judged by estimates alone, at this stage?"""
        return self.stage.by_estimates is not False

    def traffic(self, cut: Cut) -> int:
        """The bytes that a kernel of `cut` alone reads and writes."""
        read, written, _ = self._moved((cut,), cut.stored, cut.leaves)
        return read + written

    def has_schedule(self, state: State) -> bool:
        """Is it known without making it that a kernel of `state` has a schedule, or taken on trust?"""
        if self.stage.trusts:
            return True
        if self._all_estimates is None:
            return state.template.pointwise and state.dense and not state.mapped
        estimates = self._all_estimates if self.goes_by_estimates else self._estimates
        return estimates is not None and estimates.has_schedule(state)

    def is_near(self, state: State) -> bool:
        """Is the estimate of a kernel of `state` as good as its price?"""
        return self.goes_by_estimates or (self._estimates is not None and self._estimates.is_near(state))

    def _by_schedule(self, kind: Kind) -> bool:
        """Does the search make the schedules of kernels of this kind?"""
        return self._searches_schedules and kind.has_schedule_price(self._device.target)

    def _of_state(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> Price:
        """By its state, which most kernels share with others that move as much and do the same work."""
        read, written, done = self._moved(cuts, state, leaves)
        arguments, itemsize = len(leaves) + len(cuts), self._itemsizes[cuts[0].eclass]
        key = id(state), read, written, done, arguments, itemsize
        entry = self._by_state.get(key)
        if entry is None:
            own = price(state, read, written, done, self._device, arguments, itemsize)
            entry = self._by_state[key] = own, state
        return entry[0]

    def _moved(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> tuple[int, int, Work]:
        """The bytes that a kernel reads and writes, and its work."""
        if len(cuts) > 1:
            return self._moved_by(cuts, state, leaves)
        (cut,) = cuts
        if cut.moved is None:
            cut.moved = self._moved_by(cuts, state, leaves)
        return cut.moved

    def _moved_by(self, cuts: tuple[Cut, ...], state: State, leaves: dict[int, int]) -> tuple[int, int, Work]:
        inside = 0
        for c in cuts:
            inside |= c.inside
        works = cuts[0].works if len(cuts) == 1 else union(c.works for c in cuts)
        done = self._work_table.total(works, -1 if self._compiled else _few(state))
        return self._read(leaves, inside), sum([self.sizes[c.eclass] for c in cuts]), done

    def of_schedule(self, kind: str, body: Graph) -> Price | None:
        """What a kernel of `kind` costs by its schedule, of which `kernel` is an estimate; None where it is none."""
        key = kind, body
        if key not in self._settled:
            kernel_kind = kind_of(kind)
            has_price = kernel_kind.has_schedule_price(self._device.target)
            self._settled[key] = kernel_kind.schedule(body, self._device).price(self._device) if has_price else None
        return self._settled[key]

    def _scheduled(self, kind: Kind, outputs: tuple[Node, ...]) -> Schedule | None:
        """How a kernel of `kind` runs; None where there is none. Kernels alike but for what they read share it."""
        key = kind.name, outputs
        if key not in self._schedules:
            try:
                self._schedules[key] = self._scheduled_alike(kind, outputs)
            except UnsupportedOp:
                self._schedules[key] = None
        return self._schedules[key]

    def _scheduled_alike(self, kind: Kind, outputs: Sequence[Node]) -> Schedule | None:
        """A schedule depends on the names of no inputs: bodies that differ in these alone share one."""
        body = Graph((), tuple(outputs))
        alike = kind.name, _structure(body)
        schedule = self._alike.get(alike, _UNKNOWN)
        if schedule is _UNKNOWN:
            try:
                schedule = kind.schedule(body.with_inputs(), self._device)
            except UnsupportedOp:
                schedule = None
            self._alike[alike] = schedule
        return schedule

    def _read(self, leaves: dict[int, int], inside: int) -> int:
        """The bytes read of `leaves`: of an array that is read as several views, those of all, up to the whole."""
        read = sum(leaves.values())
        for c in self._views.keys() & leaves if self._views else ():
            views = self._views[c] & inside
            seen = self._seen.get((c, views))
            if seen is None:
                seen = self._seen[c, views] = sum([self._viewed[c, eclass] for eclass in set_bits(views)])
            read += max(0, min(seen, self.sizes[c]) - leaves[c])
        return read


def _few(state: State) -> int:
    """The elements of the result of a kernel that reduces, and does no more than that; -1 of others."""
    kind = state.template
    once = kind.only_reduces or (kind.reduces and state.shape == state.reduced)
    return math.prod(state.reduced) if once else -1


def _structure(body: Graph) -> tuple:
    """What a body computes, whatever its inputs are called: equal of bodies that differ in these names alone."""
    numbers: dict[Node, int] = {}
    parts: list[object] = []
    for n in body.nodes:
        if n.op == "input":
            parts.append((n.type, n.is_constant_leaf))
        else:
            parts.append((n.op, n.attrs, *[numbers[a] for a in n.args]))
        numbers[n] = len(numbers)
    return (*parts, *[numbers[o] for o in body.outputs])
