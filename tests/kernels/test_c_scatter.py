"""C kernels that join values to the elements that indices name: bits, errors, which bodies one kernel holds."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c.kernels import CKernel
from eqfuse.emit.c.scatter.schedule import own_schedule
from eqfuse.emit.c.scatter.writer import scatter_text
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node, topological
from eqfuse.kinds import State, classify
from eqfuse.ops.updates import MODES
from tests.kernels.test_c_emit import counted
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, run_all
from tests.support.kernels import body, mul, number, read

RNG = np.random.default_rng(5)
ROWS, COUNT = 40, 1500  # a strip of 512 elements is not all


def own(graph: Graph) -> CKernel:
    """Our own kernel of `graph`, be it cheaper than NumPy's or not."""
    name, schedule = f"scatter_{graph.key}", own_schedule(graph, C)
    return CKernel(name, scatter_text(schedule, name, True), schedule)


def joined(mode: str, base: Node, places: Node, values: Node, axis: int = -1) -> Graph:
    leaves = [n for n in topological([base, places, values]) if n.op == "input"]
    return body(leaves, scattered(mode, base, places, values, axis))


def scattered(mode: str, base: Node, places: Node, values: Node, axis: int = -1) -> Node:
    return node("scatter", (base, places, values), (axis, mode))


def places_of(graph: Graph) -> list[np.ndarray]:
    """Data for a body: many of its indices are alike, some count from the end."""
    counts = any(n.op == "bincount" for n in graph.nodes)
    return [
        RNG.integers(0 if counts else -7, 7, n.shape).astype(n.dtype) if n.dtype.kind in "iu" and i == 1
        else (RNG.standard_normal(n.shape) * 3).astype(n.dtype)
        for i, n in enumerate(graph.inputs)
    ]  # fmt: skip


V, X = read(2, (COUNT,)), read(0, (ROWS,))
PLACES = read(1, (COUNT,), np.int64)
WIDE, WIDE_X = read(2, (COUNT, 33)), read(0, (ROWS, 33))
EVERYWHERE = node("broadcast_to", (const(np.array(3)),), ((COUNT,),))
ZEROS = node("broadcast_to", (number(0.0),), ((ROWS,),))
CASES = {
    "sums": joined("add", X, PLACES, V),
    "the values are computed": joined("add", X, PLACES, mul(mul(V, V), number(0.5))),
    "largest": joined("maximum", X, read(1, (COUNT,), np.int32), V),
    "products of integers": joined("multiply", read(0, (ROWS,), np.int32), PLACES, read(2, (COUNT,), np.int32)),
    "rounded at each step": joined("add", read(0, (ROWS,), np.float16), PLACES, read(2, (COUNT,), np.float16)),
    "rows": joined("add", WIDE_X, PLACES, WIDE, -2),
    "in each row": joined("add", read(0, (6, ROWS)), PLACES, read(2, (6, COUNT))),
    "indices of two axes": joined("add", read(0, (ROWS, 5)), read(1, (30, 50), np.int64), read(2, (30, 50, 5)), -2),
    "one place for all": Graph((X, PLACES, V), (scattered("subtract", X, EVERYWHERE, V),)),
    "the indices are computed": joined("add", X, node("negative", (PLACES,)), V),
    "the values are gathered": joined("add", X, PLACES, node("take", (V, node("abs", (PLACES,))), (-1,))),
    "what is updated is one number": Graph((X, PLACES, V), (scattered("add", ZEROS, PLACES, V),)),
    "counts": Graph((X, PLACES), (node("bincount", (PLACES,), (9,)),)),
    "weighted counts": Graph((X, PLACES, V), (node("bincount", (PLACES, mul(V, V)), (9,)),)),
}  # fmt: skip


@needs_compiler
def test_values_are_joined_in_the_order_of_numpy_bit_for_bit() -> None:
    arrays = [places_of(graph) for graph in CASES.values()]
    kernels = [own(graph) for graph in CASES.values()]
    for (name, graph), given, (got,) in zip(CASES.items(), arrays, run_all(kernels, arrays), strict=True):
        (want,) = evaluate(graph, given)
        np.testing.assert_array_equal(got, want, name)


@needs_compiler
def test_bytes_priced_are_bytes_that_the_text_reads() -> None:
    kernel = own(CASES["weighted counts"])
    counts = counted(kernel)
    assert kernel.schedule.reads == (0, PLACES.type.nbytes, V.type.nbytes)
    assert counts["r1"] == counts["r2"] == (COUNT, COUNT)
    assert counts["w0"][1] == 9 + 2 * COUNT, "each element is begun once, read and written for each value"


def test_loops_that_would_change_the_order_of_values_are_refused() -> None:
    pairs, places = node("transpose", (read(2, (50, 30)),), ((1, 0),)), read(1, (30, 50), np.int8)
    with pytest.raises(UnsupportedOp, match="another order than NumPy"):
        own_schedule(joined("add", X, places, pairs), C)
    one_by_one, in_vectors = own_schedule(CASES["sums"], C), own_schedule(CASES["rows"], C)
    assert one_by_one.has_conflicts and not in_vectors.has_conflicts


@needs_compiler
@pytest.mark.parametrize("place", [ROWS, -ROWS - 1])
def test_a_place_beyond_the_array_raises_what_numpy_raises(place: int) -> None:
    def join(x: np.ndarray, places: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = x.copy()
        np.add.at(out, places, v * v)
        return out

    given = [RNG.standard_normal(ROWS), np.array([1, place, 2]), np.ones(3)]
    with pytest.raises(IndexError):
        join(*given)
    with pytest.raises(IndexError):
        ef.jit(join, target="c")(*given)


@needs_compiler
def test_counts_refuse_values_below_zero_and_beyond_their_length() -> None:
    count = ef.jit(lambda places, w: np.bincount(places, w * w, minlength=8), target="c")
    weights = np.arange(3000.0)
    places = np.arange(3000) % 8
    np.testing.assert_array_equal(count(places, weights), np.bincount(places, weights * weights))
    for wrong in (-1, 8):
        places[2500] = wrong
        with pytest.raises(ValueError, match=r"negative|beyond"):
            count(places, weights)


def _histogram(x: Node, bins: int, limits: tuple[float, float]) -> Graph:
    (leaf,) = [n for n in topological([x]) if n.op == "input"]
    return Graph((leaf,), (node("histogram", (x,), ((bins,), (limits,), False, False)),))


BINS = [(1, (0.0, 1.0)), (7, (-1.0, 2.5)), (50, (-0.3, 0.7)), (333, (0.1, 0.1)), (1000, (-7, 9)), (3, (1e-3, 1e5))]


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
def test_histograms_count_what_numpy_counts_at_every_edge_and_beside_it(dtype: str) -> None:
    graphs, arrays = [], []
    for bins, limits in BINS if dtype == "float64" else BINS[np.dtype(dtype).kind == "f" :: 2]:
        edges = np.histogram_bin_edges(np.empty(0, dtype), bins, limits)
        with np.errstate(all="ignore"):
            near = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
            drawn = [*near, RNG.normal(size=500) * 3 + limits[0], [np.nan, np.inf, -np.inf, 1e30, -1e30]]
            x = np.concatenate(drawn).astype(dtype)
        graphs.append(_histogram(read(0, x.shape, np.dtype(dtype)), bins, limits))
        arrays.append([x])
    for graph, given, (got,) in zip(graphs, arrays, run_all([own(g) for g in graphs], arrays), strict=True):
        (want,) = evaluate(graph, given)
        np.testing.assert_array_equal(got, want, str(graph))


@needs_compiler
def test_a_histogram_of_what_is_computed_stores_neither_that_nor_its_places() -> None:
    def counted_bins(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.histogram(np.sqrt(x * x + 1) - 2, 40, (-1.0, 1.5))

    x = RNG.normal(size=100_000)
    program = ef.compile(counted_bins, x, target=C)
    for got, want in zip(program(x), counted_bins(x), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    assert [k.ops[-1] for k in program.report.kernels if k.kind == "scatter"] == ["histogram"]
    assert program.peak_bytes < 4000


def test_histograms_of_bins_that_are_not_of_one_known_width_are_library_calls() -> None:
    x = read(0, (COUNT,))
    given = {"edges from data": ((9,), (None,), False, False), "densities": ((9,), ((0.0, 1.0),), True, False),
             "edges that coincide": ((9,), ((1.0, 1.0 + 4e-16),), False, False),
             "too wide": ((9,), ((-1.7e308, 1.7e308),), False, False)}  # fmt: skip
    for name, attrs in given.items():
        state = classify(Graph((x,), (node("histogram", (x,), attrs),)), C)
        assert isinstance(state, State) and state.kind == "library", name


@pytest.mark.parametrize("mode", MODES)
def test_values_of_every_mode_have_a_kernel_and_those_that_replace_elements_a_library_call(mode: str) -> None:
    dtype = np.int32 if mode in ("gcd", "lcm") or mode.startswith("bitwise") else np.float32
    state = classify(joined(mode, read(0, (ROWS,), dtype), PLACES, read(2, (COUNT,), dtype)), C)
    assert isinstance(state, State) and (mode != "set" or state.kind == "library")


@needs_compiler
def test_the_array_of_the_caller_is_not_written() -> None:
    def twice(x: np.ndarray, places: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = x.copy()
        np.add.at(out, places, v * 2)
        np.add.at(out, places, out[places] * v)
        return out

    x, places, v = RNG.standard_normal(50), RNG.integers(0, 50, 400), RNG.standard_normal(400)
    before = x.copy()
    np.testing.assert_allclose(ef.jit(twice, target="c")(x, places, v), twice(x, places, v), rtol=1e-12)
    np.testing.assert_array_equal(x, before)


def test_one_kernel_holds_the_values_and_the_indices_but_no_more() -> None:
    counts = node("bincount", (node("abs", (PLACES,)), V), (9,))
    held = [scattered("add", X, node("negative", (PLACES,)), mul(V, V)), counts]
    for n in held:
        state = classify(Graph((X, PLACES, V), (n,)), C)
        assert isinstance(state, State) and state.kind == "scatter"
    assert "read from memory" in str(classify(joined("add", mul(X, X), PLACES, V), C))
    assert isinstance(classify(body([X, PLACES, V], mul(held[0], held[0])), C), str)


@needs_compiler
@pytest.mark.parametrize(
    "dtype, mode", [("float64", "add"), ("float64", "maximum"), ("int64", "add"), ("float32", "add")]
)
def test_rows_of_every_width_are_joined_one_after_another(dtype: str, mode: str) -> None:
    """However short rows are, and so whichever loop is that of vectors."""
    rows = [*((k,) for k in range(1, 10)), (2, 2), (1, 3), (3, 1)]
    both = (15, 64) if dtype == "float32" else ()  # the others have each row with one number of them
    shapes = [(n, *row) for i, row in enumerate(rows) for n in both or ((15, 64)[i % 2],)]
    graphs, arrays = [], []
    for shape in shapes:
        base, values = read(0, (5, *shape[1:]), np.dtype(dtype)), read(2, shape, np.dtype(dtype))
        graphs.append(joined(mode, base, read(1, shape[:1], np.int64), values, -len(shape)))
        numbers = [RNG.integers(-9, 9, x.shape).astype(dtype) for x in (base, values)]
        arrays.append([numbers[0], np.arange(shape[0]) % 3, numbers[1]])
    kernels = [own(graph) for graph in graphs]
    for shape, graph, given, (got,) in zip(shapes, graphs, arrays, run_all(kernels, arrays), strict=True):
        np.testing.assert_array_equal(got, evaluate(graph, given)[0], str(shape))


@pytest.mark.parametrize("width", range(1, 10))
def test_no_loop_of_vectors_has_turns_that_update_the_same_element(width: int) -> None:
    values = read(2, (64, width))
    kernel = own(joined("add", read(0, (5, width)), read(1, (64,), np.int64), values, -2))
    assert kernel.schedule.has_conflicts or width >= 5
    updates = 0
    for block in kernel.text.source.split("#pragma omp simd")[kernel.schedule.has_conflicts :]:
        depth, inside = 0, []
        for line in block.split("\n")[1:]:
            depth += line.count("{") - line.count("}")
            inside.append(line)
            if depth <= 0:
                break
        updates += any("w0[" in line and "_at" in line for line in inside)
    assert updates == (not kernel.schedule.has_conflicts)
