"""The loops and branches of a plan: their steps have plans of their own, which a kernel of kind ``loop`` holds.

In: a plan in which such kernels have no inner plans yet, and what makes the plan of a graph. Out: the plan with them,
its prices those of all steps. Next stop: `emit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.targets import iterations_of, offloads, writes_in_place
from eqfuse.cost.work import element_work, touches
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Body, Graph, Node, substitute
from eqfuse.ir.loops import FIRST_CARRY, inputs_before, result_number
from eqfuse.ir.views import leaf_chain
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS, UNKNOWN_TRIPS, trips
from eqfuse.plan.in_place import updates
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.summary import count, counted, duration

BEGIN_CALLS = 10  # what a loop or a choice takes before its first step and behind the last, in calls: 5 us at 0.47
STEP_CALLS = 2  # what a step takes beside its kernels, in calls: Python's loop, and the program's function


def loop_of(body: Graph) -> Node | None:
    """The loop or choice that the kernel body is, behind views of what it reads."""
    return next((n for n in body.nodes if n.op in LOOPS), None)


def planned_loop(kernel: Kernel) -> Node:
    """The loop or choice that `kernel` is. EqfuseError where its steps have no plans."""
    n = loop_of(kernel.body)
    assert n is not None
    if not kernel.inner:
        raise EqfuseError(f"the steps of this {n.op} have no plan: make programs by ef.compile or ef.jit")
    return n


def inner_graphs(n: Node) -> tuple[Graph, ...]:
    """What the kernel of the loop `n` runs: of a while loop the condition at first, then each step with the condition
    after it; of a choice both branches; else the step."""
    bodies: list[Body] = [a for a in n.attrs if isinstance(a, Body)]
    if n.op != "while_loop":
        return tuple([b.graph for b in bodies])
    condition, step = (b.graph for b in bodies)
    carries: int = n.attr("carries")
    values = (*step.outputs, *step.inputs[carries:])
    goes_on = substitute(condition.outputs, dict(zip(condition.inputs, values, strict=True)))
    return condition, Graph(step.inputs, (*step.outputs, *goes_on))


def is_indexed(n: Node) -> bool:
    """Does a step of the scan `n` read the number of its step?"""
    step: Body = n.attr("body")
    return step.graph.inputs[0] in step.graph.nodes


def first_carries(n: Node) -> dict[int, int]:
    """The results of the loop `n` that are carries, and which argument each begins with. Of a choice: those for which
    both branches change one argument."""
    if n.op != "if_else":
        return {result: result + FIRST_CARRY[n.op] for result in range(n.attr("carries"))}
    arguments: dict[int, int] = {}
    for result, outputs in enumerate(zip(*(g.outputs for g in inner_graphs(n)), strict=True)):
        changed = {_changed(g, o) for g, o in zip(inner_graphs(n), outputs, strict=True)}
        (argument, *others) = changed
        if argument is not None and not others and argument + 1 not in arguments.values():
            arguments[result] = argument + 1
    return arguments


def _changed(graph: Graph, output: Node) -> int | None:
    """Which input of `graph` an update, or several, make the `output` of, if any; it may be that itself."""
    n: Node | None = output
    while n is not None and n.op != "input":
        if n.row.role is Role.UPDATE or n.op == "reshape":
            n = n.args[0]
        elif n.op in LOOPS or n.op == "loop_result":
            loop, result = (n, 0) if n.op in LOOPS else (n.args[0], result_number(n))
            argument = first_carries(loop).get(result)
            n = None if argument is None else loop.args[argument]
        else:
            n = None
    return graph.inputs.index(n) if n is not None and n.type == output.type else None


def carried(n: Node, plan: Plan, first: Mapping[int, int] | None = None) -> dict[int, int]:
    """The values of `plan`, an inner plan of the loop `n`, that carries come in, and which of its results is the next;
    none unless it is the plan of a step or of a branch. `first`: which results are carries, as `first_carries`."""
    if n.op != "if_else" and plan.graph != inner_graphs(n)[-1]:
        return {}
    first = first_carries(n) if first is None else first
    return {plan.inputs[argument + inputs_before(n)]: result for result, argument in first.items()}


def readers_first(plan: Plan, carries: Collection[int]) -> Plan:
    """`plan` with small kernels that read an array before those that may write over it: updates, and loops that begin
    with it. Else it would be copied. `carries`: inputs that may be written over, too."""
    root = {v: v for v in range(len(plan.types))}
    readers: dict[int, list[Kernel]] = {}
    for k in plan.kernels:
        if k.is_view:
            root[k.writes[0]] = root[k.reads[0]]
        for v in {root[v] for v in k.reads}:
            readers.setdefault(v, []).append(k)
    free = {v for k in plan.kernels for v in k.writes if root[v] == v}.union(carries) - {root[v] for v in plan.outputs}
    order = [*plan.kernels]
    place = {id(k): i for i, k in enumerate(order)}
    for k in plan.kernels:
        for v in {root[v] for v in _written_over(k)} & free:
            later = [r for r in readers[v] if place[id(r)] > place[id(k)]]
            first = _needed(order[place[id(k)] :], later) if later else []
            if first and sum(plan.types[w].nbytes for m in first for w in m.writes) < plan.types[v].nbytes:
                moved = {id(m) for m in first}
                start = place[id(k)]
                order[start:] = [*first, *(m for m in order[start:] if id(m) not in moved)]
                place = {id(m): i for i, m in enumerate(order)}
    return plan if order == [*plan.kernels] else replace(plan, kernels=tuple(order))


def _written_over(k: Kernel) -> list[int]:
    """The values that kernel `k` may write over, if none reads them later."""
    n = loop_of(k.body)
    if n is None:
        update = k.body.outputs[0]
        changed = [update.args[0]] if k.template.updates and update.row.role is Role.UPDATE else []
    else:
        changed = [n.args[argument] for argument in first_carries(n).values()]
    leaves = [leaf_chain(a)[0] for a in changed]
    return [v for v, leaf in zip(k.reads, k.body.inputs, strict=True) if leaf in leaves]


def _needed(kernels: Sequence[Kernel], readers: Sequence[Kernel]) -> list[Kernel]:
    """Those of `kernels`, in order, that `readers` need, these among them; none where one needs the first kernel."""
    wanted = {id(r) for r in readers}
    values: set[int] = set()
    needed = []
    for k in reversed(kernels):
        if id(k) in wanted or not values.isdisjoint(k.writes):
            needed.append(k)
            values.update(k.reads)
    return [] if needed[-1] is kernels[0] else needed[::-1]


def _carries_read_first(n: Node, plan: Plan) -> Plan:
    return readers_first(plan, carried(n, plan))


def _in_place(n: Node, plan: Plan) -> Plan:
    """`plan`, the updates that write into carries priced without the copy of what they do not replace."""
    placements = updates(plan, carried=carried(n, plan))
    if not placements.kept or not writes_in_place(plan.device):
        return plan
    written = {i for i, base in placements.in_place.items() if base in placements.carried}
    kernels = tuple([_updating(k, plan.device) if i in written else k for i, k in enumerate(plan.kernels)])
    return plan if kernels == plan.kernels else replace(plan, kernels=kernels, bound=None)


def _updating(k: Kernel, device: Device) -> Kernel:
    """`k`, an update, priced as one in place."""
    n, p = k.body.outputs[0], k.price
    values = [a for i, a in enumerate(n.args) if i and n.row.own_dtype(i) is None]
    written = min(n.type.nbytes, sum(a.type.nbytes for a in values))
    read = touches(n.op, n.attrs, n.args[0].type, n.type)
    copied = read + n.type.nbytes - written
    seconds = max(device.call_seconds, p.seconds - copied / device.single.bandwidth(copied)) if copied else p.seconds
    return replace(k, price=replace(p, seconds=seconds, bytes_read=p.bytes_read - read, bytes_written=written))


def with_inner(plan: Plan, plan_of: Callable[[Graph], Plan]) -> Plan:
    """`plan`, its loops with the plans of their steps, each made by `plan_of`, and priced by these. A loop writes each
    of its results where the plan has it, instead of all of them into one vector."""
    plan = readers_first(_apart(plan), {})
    kernels = tuple([completed(k, plan.device, plan_of) for k in plan.kernels])
    if kernels == plan.kernels:
        return plan
    more = sum(k.price.seconds for k in kernels) - plan.seconds
    return replace(plan, kernels=kernels, bound=None if plan.bound is None else plan.bound + more)


def _apart(plan: Plan) -> Plan:
    """`plan`, its loops with several results as kernels with as many outputs, where only those are read."""
    readers: dict[int, list[Kernel]] = {}
    for k in plan.kernels:
        for v in k.reads:
            readers.setdefault(v, []).append(k)
    takes: dict[int, list[Kernel]] = {}  # by the vector of a loop
    for k in plan.kernels:
        (v, *more), n = k.writes, loop_of(k.body)
        taken = readers.get(v, [])
        if n is not None and not more and v not in plan.outputs and taken and all(map(_takes_a_result, taken)):
            takes[v] = taken
    gone = {id(k) for taken in takes.values() for k in taken}
    kernels = tuple([_with_results(k, takes.get(k.writes[0], ())) for k in plan.kernels if id(k) not in gone])
    waists = tuple([v for v in plan.waists if v not in takes])
    return replace(plan, kernels=kernels, waists=waists, bound=None) if takes else plan


def _takes_a_result(k: Kernel) -> bool:
    (n, *more) = k.body.outputs
    return not more and n.op == "loop_result" and n.args[0] in k.body.inputs


def _with_results(loop: Kernel, taken: Sequence[Kernel]) -> Kernel:
    """`loop` with an output for each result that kernels have `taken`."""
    if not taken:
        return loop
    (packed,) = loop.body.outputs
    outputs = tuple([k.body.outputs[0].over([packed]) for k in taken])
    written = loop.price.bytes_written - packed.type.nbytes + sum(o.type.nbytes for o in outputs)
    price = replace(loop.price, bytes_written=max(0, written))
    return replace(loop, body=Graph(loop.body.inputs, outputs), writes=tuple([k.writes[0] for k in taken]), price=price)


def completed(kernel: Kernel, device: Device, plan_of: Callable[[Graph], Plan]) -> Kernel:
    """`kernel`; where it is a loop without the plans of its steps, with them."""
    n = loop_of(kernel.body)
    if n is None or kernel.inner:
        return kernel
    inner = tuple([_in_place(n, _carries_read_first(n, plan_of(graph))) for graph in inner_graphs(n)])
    return replace(kernel, inner=inner, price=loop_price(n, inner, device))


def runs(n: Node) -> tuple[int, bool]:
    """How often the loop `n` runs, and whether that is known."""
    number = trips(n.op, n.attrs)
    return (UNKNOWN_TRIPS, False) if number is None else (number, True)


def overhead_seconds(device: Device) -> float:
    """What a step takes beside its kernels, where Python runs it."""
    return STEP_CALLS * max(device.call_seconds, device.launch_seconds)


def transition_seconds(body: Graph, nbytes: int, device: Device) -> float:
    """From a step to the next: what it takes beside its kernels, and to write carries of so many bytes, which the next
    one reads."""
    iterations = iterations_of(device)
    overhead = None if iterations is None else iterations.advance_seconds(body)
    carries = 2 * nbytes / device.bandwidth(2 * nbytes)
    return carries + (overhead_seconds(device) if overhead is None else overhead)


def step_seconds(body: Graph, device: Device) -> float:
    """What a step takes whose values stay near: a call for each operator, or one launch where there are launches."""
    works = [
        element_work(n.op, n.attrs, n.type, [a.type for a in n.args], device, None) for n in body.computations
    ]
    calls = 1 if offloads(device) else sum(w.calls for w in works)
    return sum(w.seconds for w in works) + calls * max(device.call_seconds, device.launch_seconds)


def loop_price(n: Node, inner: Sequence[Plan], device: Device) -> Price:
    """All steps one after another; of a choice the dearer branch."""
    times, _ = runs(n)
    step = max(inner, key=lambda p: p.seconds) if n.op == "if_else" else inner[-1]
    kernels = [k.price for k in step.kernels]
    once = 0.0 if offloads(device) else BEGIN_CALLS * device.call_seconds
    once += sum(p.seconds for p in inner[:-1]) if n.op == "while_loop" else 0.0
    iterations = iterations_of(device)
    iteration = None if iterations is None or n.op == "if_else" else iterations.iteration_seconds(step)
    overhead = overhead_seconds(device) if iteration is None else iteration - step.seconds
    read, written = times * sum(p.bytes_read for p in kernels), times * sum(p.bytes_written for p in kernels)
    flops = times * sum(p.flops for p in kernels)
    longest = max(kernels, key=lambda p: p.seconds, default=None)
    is_short = longest is None or overhead > longest.seconds
    bound = "launch" if is_short or longest is None else longest.bound
    seconds = step.seconds + overhead + (_far_seconds(n, step, times, device) if n.op == "scan" else 0.0)
    return Price(once + times * seconds, read, written, flops, bound)


def _far_seconds(n: Node, step: Plan, times: int, device: Device) -> float:
    """What a step of the scan `n` takes beside what its plan says, as its rows come from where all rows lie, and what
    it stacks goes where all of that lies: its plan takes them for data that is used again and again. Rows that exceed
    the level-2 caches come from there for each kernel: a cache of victims keeps little of what streams by once."""
    first, carries = 1 + n.attr("carries"), n.attr("carries")
    rows = {*step.inputs[first : first + n.attr("stacked")]}
    far = rows | {*step.outputs[carries:]}
    size = sum(step.types[v].nbytes for v in far)
    stays = size <= device.l2_bytes * device.threads
    shown = {v: v for v in far}  # views of rows, and which
    met: set[int] = set()
    more = 0.0
    for k in step.kernels:
        if k.is_view:
            if k.reads[0] in shown:
                shown[k.writes[0]] = shown[k.reads[0]]
            continue
        new = {shown[v] for v in (*k.reads, *k.writes) if v in shown} - met
        met |= new if stays else set()
        nbytes = sum(step.types[v].nbytes for v in new)
        p = k.price
        apart = nbytes / device.bandwidth(2 * times * size)
        share = nbytes / max(nbytes, p.bytes_read + p.bytes_written) if p.bound == "memory" else 1.0
        more += max(0.0, apart - share * max(0.0, p.seconds - device.launch_seconds))
    return more


@dataclass(frozen=True)
class LoopSchedule(Schedule):
    """How a loop runs, in words; and the bytes that its steps hold, their results among them."""

    text: str
    workspace_bytes: int
    workspace = ()  # nothing of it is kept from call to call

    def __str__(self) -> str:
        return self.text


def loop_schedule(kernel: Kernel, held: int) -> LoopSchedule:
    """The schedule of a loop whose steps hold `held` bytes."""
    reads, writes = (tuple(n.type.nbytes for n in nodes) for nodes in (kernel.body.inputs, kernel.body.outputs))
    return LoopSchedule(reads, writes, sum(len(p.kernels) for p in kernel.inner), _described(kernel), held)


def _described(kernel: Kernel) -> str:
    n = loop_of(kernel.body)
    assert n is not None
    times, fixed = runs(n)
    if n.op == "if_else":
        return "one of " + " or ".join(f"({_kernels(p)})" for p in kernel.inner)
    often = count(times, "step") if fixed else f"as many steps as data decide, {times} taken for the price"
    return f"{often}, each {_kernels(kernel.inner[-1])}"


def _kernels(plan: Plan) -> str:
    lines = plan.kernel_lines()
    held = "; ".join(f"{line.kind} {counted(line.ops)}" for line in lines)
    return f"{count(len(lines), 'kernel')} of {duration(plan.seconds)}" + (f": {held}" if held else "")
