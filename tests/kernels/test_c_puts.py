"""Updates that C makes as copies give what NumPy gives, where values are read from what is written, too."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.c.puts import note_puts
from eqfuse.emit.numpy.source import Source
from eqfuse.frontends.numpy import tidy
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.machine.c_loops import put_function
from eqfuse.ops.types import TensorType
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import with_address_sanitizer

pytestmark = needs_compiler
DTYPES = [np.dtype(name) for name in ("float64", "float32", "int8", "complex128", "float16")]
PLACES = [np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")]


def drawn_update(rng: np.random.Generator) -> tuple[Graph, list[np.ndarray]]:
    """An update of a small array: slices of it, or places along an axis, some of which it lacks. Its values are those
    of another array behind views, or a view of what is updated."""
    shape = tuple(map(int, rng.integers(1, 6, rng.integers(1, 4))))
    base = input_node("base", TensorType(rng.choice(DTYPES), shape))
    others: list[Node] = []
    arrays: list[np.ndarray] = []
    if rng.random() < 0.5:
        starts = [int(rng.integers(0, extent)) for extent in shape]
        ends = [int(rng.integers(start + 1, extent + 1)) for start, extent in zip(starts, shape, strict=True)]
        ranges = [tidy.canonical_range(range(a, b, int(rng.integers(1, 3)))) for a, b in zip(starts, ends, strict=True)]
        wanted = tuple([len(range(*r)) for r in ranges])
    else:
        axis, dtype = int(rng.integers(0, len(shape))), np.dtype(rng.choice(PLACES))
        lowest = 0 if dtype.kind == "u" else -shape[axis]
        extents = (int(rng.integers(1, 4)),) * int(rng.integers(0, 2))
        arrays.append(np.asarray(rng.integers(lowest, shape[axis] + (rng.random() < 0.1), extents), dtype))
        others.append(input_node("places", TensorType(dtype, extents)))
        wanted = (*shape[:axis], *extents, *shape[axis + 1 :])
    values = base
    fits = len(wanted) == len(shape) and all(n <= m for n, m in zip(wanted, shape, strict=True))
    if not fits or rng.random() < 0.5:
        values = input_node("values", TensorType(base.dtype, tuple([n + 1 for n in wanted])))
        others.append(values)
        arrays.append(rng.integers(-99, 99, values.shape).astype(base.dtype))
    first = [int(rng.integers(0, m - n + 1)) for n, m in zip(wanted, values.shape, strict=True)]
    values = tidy.slice_(values, [(a, a + n, 1) for a, n in zip(first, wanted, strict=True)])
    for axis_of_values in range(len(wanted)):
        if rng.random() < 0.3:
            values = tidy.flip(values, [axis_of_values - len(wanted)])
    if not others or others[0].attr("name") != "places":
        update = node("slice_scatter", (base, values), ((tuple(ranges),),))
    else:
        update = node("scatter", (base, others[0], values), (axis - len(shape), "set"))
    return Graph((base, *others), (update,)), [rng.integers(-99, 99, shape).astype(base.dtype), *arrays]


@pytest.mark.parametrize("seed", range(8))
def test_an_update_in_place_gives_what_numpy_gives(seed: int) -> None:
    judge(seed)


@pytest.mark.slow
def test_an_update_reads_and_writes_no_more_than_its_arrays() -> None:
    with_address_sanitizer("tests.kernels.test_c_puts", "judge(9)")


def judge(seed: int) -> None:
    rng, updates = np.random.default_rng(seed), 0
    for _ in range(200):
        graph, arrays = drawn_update(rng)
        source = Source(graph)
        note_puts(source)
        if source.calls is None:
            continue
        names = dict(zip((source.leaf(n) for n in graph.inputs), (a.copy() for a in arrays), strict=True))
        names |= {"o0": names[source.leaf(graph.inputs[0])]}
        names |= {name: n.literal.array for name, n in source.constants.items()}
        _, reads, others = source.calls[-1]
        missed = put_function()(*(names[word] for word in (*reads, *others)))
        try:
            (expected,) = evaluate(graph, arrays)
        except IndexError:
            assert missed
            np.testing.assert_array_equal(names["o0"], arrays[0])
        else:
            assert not missed
            np.testing.assert_array_equal(names["o0"], expected)
        updates += 1
    assert updates > 150
