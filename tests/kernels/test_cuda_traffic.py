"""What CUDA kernels are scheduled to read, write, hold and launch is what their text does, counted on the emulator."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.ops import computing_type
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule, product_schedule
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from eqfuse.testing import cudasim
from tests.kernels import test_cuda_contract, test_cuda_emit
from tests.kernels.test_cuda_random import kernels as random_kernels
from tests.support.drawing import many
from tests.support.gpu import emulated_function
from tests.support.kernels import add, body, layer_norm, mul, number, read, reduced, softmax

H100 = profile("h100")
Made = tuple[Graph, CudaSchedule, CudaKernel]

pytestmark = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")


def flipped(x: Node) -> Node:
    """Read at two places, in two passes each."""
    turned = node("flip", (x,), ((-1,),))
    return mul(node("subtract", (x, reduced("max", add(x, turned)))), turned)


def of_a_slice(x: Node) -> Node:
    return softmax(node("slice", (x,), (((0, x.shape[0], 2), (1, x.shape[1], 1)),)))


def of_a_column_and_a_line(x: Node) -> Node:
    scaled = mul(mul(x, read(1, (x.shape[0], 1))), read(2, (x.shape[1],)))
    return add(node("subtract", (scaled, reduced("max", scaled))), read(3, (x.shape[1],)))


def late(x: Node) -> Node:
    """An array that only the last pass needs."""
    return mul(softmax(x), read(1, x.shape))


ROWS: dict[str, Callable[[Node], Node]] = {
    "read forwards and backwards": flipped, "every other row, but the first column": of_a_slice,
    "rows and columns broadcast": of_a_column_and_a_line, "needed late": late, "norm": layer_norm,
}  # fmt: skip
MAPS: dict[str, Callable[[Node], Node]] = {
    "stencil": lambda x: add(*[node("slice", (x,), (((0, 6, 1), (i, i + 30, 1)),)) for i in (0, 1)]),
    "a part of a map": lambda x: node("slice", (node("exp", (x,)),), (((1, 3, 1), (0, 40, 3)),)),
    "apart": lambda x: add(*[node("slice", (x,), (((0, 6, 2), (i, i + 9, 1)),)) for i in (0, 20)]),
    "by tiles": lambda x: add(node("transpose", (node("exp", (read(1, (3, 40, 37)),)),), ((0, 2, 1),)),
                              read(2, (37, 1))),
    "windows": lambda x: node("exp", (node("sliding_window", (x,), (((-1, 5),),)),)),
    "of another rank": lambda x: node("slice", (node("reshape", (x,), ((6, 1, 40),)),),
                                      (((0, 6, 5), (0, 1, 1), (0, 9, 1)),)),
}  # fmt: skip


def emitted() -> Iterator[tuple[str, Graph]]:
    for case in [*test_cuda_emit.CASES][::3]:
        kernel = test_cuda_emit.kernel_of(case)
        yield kernel.kind, kernel.body


def products(cases: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    for case in cases:
        yield "contract", test_cuda_contract.emitted(case)[0].body


def rows(*shapes: tuple[int, int]) -> Iterator[tuple[str, Graph]]:
    for root, shape in itertools.product(ROWS.values(), shapes):
        yield "row", _body(root(read(0, shape)))


def cascades() -> Iterator[tuple[str, Graph]]:
    x = read(0, (2, 12_000))
    top, mean = reduced("max", x), mul(reduced("sum", x), number(1 / 12_000))
    terms, centred = node("exp", (node("subtract", (x, top)),)), node("subtract", (x, mean))
    yield "row", body([x], reduced("sum", terms), top)
    yield "row", body([x], reduced("sum", mul(centred, centred)))


def scans() -> Iterator[tuple[str, Graph]]:
    for shape, axis in (((6, 300), -1), ((70, 40), -2), ((1, 30_000), -1), ((5000, 4), -2), ((2, 1500), -1)):
        x = read(0, shape)
        yield "scan", body([x], add(node("cumsum", (mul(x, x),), (axis,)), x))
    x = read(0, (3, 700))
    yield "scan", body([x], reduced("max", node("cumsum", (softmax(x),), (-1,))), mul(x, x))


def maps() -> Iterator[tuple[str, Graph]]:
    for root in MAPS.values():
        yield "map", _body(root(read(0, (6, 40))))


def random(seed: int, count: int) -> Iterator[tuple[str, Graph]]:
    for kind, drawn, _ in random_kernels(np.random.default_rng(seed), count):
        if not any(n.op == "take" for n in drawn.nodes):  # what a gather reads is in its indices
            yield kind, drawn


BODIES = {
    "rows that stay in registers": lambda: rows((6, 300), (2, 1500)), "maps": maps, "random": lambda: random(5, 12),
    "rows of which the reads do": lambda: rows((1, 40_000)), "rows that do not": lambda: rows((1, 250_000)),
    "rows of which shared memory holds a part": lambda: rows((1, 53_248), (1, 70_001)),
    "cascades": cascades, "scans": scans, "emitted": emitted,
    "products": lambda: products([*test_cuda_contract.CASES][::4]),
    "products whose terms blocks share": lambda: products(test_cuda_contract.SHARED),
    "a product whose terms blocks share": lambda: products(["batches, terms that blocks share"]),
    "many random": lambda: random(6, many(30)),
}  # fmt: skip


SLOW = ("rows of which the reads do", "rows of which shared memory holds a part", "rows that do not", "emitted",
        "products", "products whose terms blocks share", "many random")  # fmt: skip


def _body(output: Node) -> Graph:
    inputs = (n for n in Graph((), (output,)).nodes if n.op == "input")
    return body(sorted(inputs, key=lambda n: n.attr("name")), output)


def kernels_of(case: str) -> list[Made]:
    kernels = []
    for kind, graph in BODIES[case]():
        schedule = product_schedule(graph, H100) if kind == "contract" else kind_named(kind).schedule(graph, H100)
        kernels.append((graph, schedule, source_of(graph, schedule, f"{kind}_{graph.key}")))
    return kernels


def _array(n: Node) -> np.ndarray:
    """Zeros, of which `any` looks at all; `all` at ones."""
    return np.zeros(n.shape, n.dtype)


def traffic(graph: Graph, cuda: CudaKernel, code: str) -> list[list[cudasim.Traffic]]:
    """Of the arrays read, those written, and the workspace."""
    groups: list[list[np.ndarray]] = [
        [_array(n) for n in graph.inputs], [np.zeros(o.shape, o.dtype) for o in graph.outputs],
        [np.zeros(n, dtype) for dtype, n in cuda.workspace],
    ]  # fmt: skip
    reads, writes, workspace = groups
    function = emulated_function(cuda, code, counted=True)
    arguments = cuda.arguments(writes, reads, cuda.constants, workspace)
    counts = function.traffic(cuda.grid, cuda.block, arguments, cuda.shared_bytes)
    first = len(reads) + len(cuda.constants)
    parts = counts[: len(reads)], counts[first : first + len(writes)], counts[first + len(writes) :]
    return [[c for c in part if c is not None] for part in parts]


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in BODIES])
def test_a_kernel_reads_and_writes_the_bytes_of_its_schedule(case: str) -> None:
    kernels = kernels_of(case)
    code = module_source(list(dict.fromkeys(cuda.source for *_, cuda in kernels)))
    for graph, schedule, cuda in kernels:
        if any(n.op in ("all", "any") for n in graph.nodes) and cuda.workspace:
            continue  # what it reads of partial results is in their values
        if not cuda.grid:
            assert not schedule.calls and not any((*schedule.reads, *schedule.writes))
            continue
        reads, writes, workspace = traffic(graph, cuda, code)
        once = isinstance(schedule, ProductSchedule)
        got, between = ([t.read if once else t.read_by_pass for t in part] for part in (reads, workspace))
        gathers = any(n.op == "take" for n in graph.nodes)
        assert tuple(got) == schedule.reads or (gathers and tuple(got) <= schedule.reads), f"{graph}\n{schedule}\n{got}"
        assert tuple(t.written for t in writes) == schedule.writes, graph
        assert sum(between) == schedule.read_between, graph
        assert sum(t.written for t in workspace) == schedule.workspace_bytes, graph


def test_the_bodies_take_every_way_through_the_passes() -> None:
    schedules = [s for case in BODIES for _, s, _ in kernels_of(case) if isinstance(s, RowsSchedule)]
    assert {s.rows.layout for s in schedules} == {"warp", "block", "column"}
    for way in (lambda s: bool(s.held), lambda s: s.splits > 1, lambda s: s.unrolled):
        assert {way(s) for s in schedules} == {True, False}


def test_a_thread_holds_what_its_schedule_says() -> None:
    for graph, schedule, cuda in itertools.chain.from_iterable(map(kernels_of, BODIES)):
        if not isinstance(schedule, RowsSchedule):
            continue
        declared = re.findall(r"^    ([\w<>, ]+) (?:h|scanned)\d+\[(\d+)\];", cuda.source, re.MULTILINE)
        assert ("EQF_DYN_SHARED" in cuda.source) == bool(schedule.shared_bytes)
        if schedule.holding.as_read:
            assert sum(_register_bytes(kind) * int(count) for kind, count in declared) == schedule.kept_bytes, graph
        else:
            wanted = [(computing_type(n.dtype), str(max(1, schedule.items))) for n in schedule.held]
            assert sorted(declared) == sorted(wanted), graph


def _register_bytes(kind: str) -> int:
    """What a thread takes for one value of C's `kind`."""
    vector = re.fullmatch(r"Vec<unsigned, (\d+)>", kind)
    return 4 * int(vector[1]) if vector else 8 if kind in ("double", "long long") else 4
