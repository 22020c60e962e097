"""Arithmetic on numbers: NumPy's own numbers compute it, to the bits of arrays, and elements are taken by one index."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.cost.roofline import work
from eqfuse.emit.numpy.kernels import source_of
from eqfuse.emit.numpy.ops import NAMES, view_text
from eqfuse.emit.numpy.scheduling import fused
from eqfuse.emit.numpy.table import NUMBERS
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ir.views import leaf_chain, taken
from eqfuse.ops import row
from eqfuse.ops.types import TensorType
from tests.support.drawing import many
from tests.support.some import some

CORNERS = (0.0, -0.0, 1.0, -1.5, 3.0, 1e30, -1e-30, 1e300, 5e-324, np.inf, -np.inf, np.nan)


def ran(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What the plan of one kernel that is `graph` gives, without a warning."""
    program = ef.compile(graph, target=DEVICES["cpu"], laws="none")
    assert program.report.n_kernels == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [np.array(x) for x in program.run([a.copy() for a in arrays])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", some(NUMBERS, 2))
def test_numbers_have_the_bits_of_arrays(op: str, dtype: type) -> None:
    with np.errstate(over="ignore"):
        corners = np.array(CORNERS).astype(dtype)
    x = input_node("x", TensorType(np.dtype(dtype), corners.shape))
    elements = [node("reshape", (node("slice", (x,), (((i, i + 1, 1),),)),), ((),)) for i in range(corners.size)]
    rest = int(dtype == np.float64)  # of the pairs, either dtype has every third one
    pairs = [(a, b) for (i, a), (j, b) in product(enumerate(elements), repeat=2) if (i + j) % 3 == rest]
    nodes = [node(op, args) for args in (pairs if row(op).arity == 2 else zip(elements, strict=True))]
    for start in range(0, len(nodes), 9):  # a search of all of them takes many times as long
        check_bits(Graph((x,), tuple(nodes[start : start + 9])), corners)


def check_bits(graph: Graph, corners: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, [corners])
    for a, b in zip(ran(graph, [corners]), wanted, strict=True):
        assert ((a.dtype, a.shape) == (b.dtype, ()) and a.tobytes() == np.asarray(b).tobytes()) or (a != a and b != b)


def random_program(seed: int) -> tuple[Graph, list[np.ndarray]]:
    """Numbers and short arrays, made of one another: elements, arithmetic, sums, views, several results."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(rng.choice([np.float32, np.float64]))
    inputs = [input_node(f"x{i}", TensorType(dtype, shape)) for i, shape in enumerate([(3, 4), (4,), (), (1,)])]
    numbers: list[Node] = [inputs[2], const(dtype.type(0.5)), node("reshape", (inputs[3],), ((),))]
    vectors: list[Node] = [inputs[1]]

    def pick(values: list[Node]) -> Node:
        return values[-1 - int(rng.integers(min(len(values), 4)))]

    for _ in range(int(rng.integers(4, 25))):
        choice = int(rng.integers(8))
        if choice < 4:
            op = str(rng.choice(list(NUMBERS)))
            numbers.append(node(op, [pick(numbers) for _ in range(row(op).arity or 0)]))
        elif choice == 4:
            i, j = int(rng.integers(3)), int(rng.integers(4))
            numbers.append(node("reshape", (node("slice", (inputs[0],), (((i, i + 1, 1), (j, j + 1, 1)),)),), ((),)))
        elif choice == 5:
            numbers.append(node("reshape", (node("sum", (pick(vectors),), ((-1,),)),), ((),)))
        elif choice == 6:
            vectors.append(node(str(rng.choice(["add", "multiply"])), (pick(vectors), pick(numbers))))
        else:
            numbers.append(node(str(rng.choice(["tanh", "abs"])), (pick(numbers),)))
    outputs = dict.fromkeys([numbers[-1], pick(numbers), pick(vectors), node("reshape", (pick(numbers),), ((1, 1),))])
    graph = Graph(tuple(inputs), tuple(outputs))
    return graph, [rng.uniform(0.5, 1.5, n.shape).astype(n.dtype) for n in inputs]


def check(seed: int) -> None:
    graph, arrays = random_program(seed)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, arrays)
    for laws in ("none", "all"):
        got = ef.compile(graph, target="numpy", laws=laws).run(arrays)
        rtol = 1e-4 if graph.inputs[0].dtype == np.float32 else 1e-10
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=f"seed {seed}, laws {laws}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + many(8)))
def test_more_random_programs_of_numbers_and_arrays_are_right(seed: int) -> None:
    check(seed)


def test_numbers_are_computed_without_a_call_and_priced_so() -> None:
    number = TensorType(np.dtype(np.float64), ())
    a, b = input_node("a", number), input_node("b", TensorType(number.dtype, (5,)))
    element = node("reshape", (node("slice", (b,), (((2, 3, 1),),)),), ((),))
    body = Graph((a, b), (node("divide", (node("subtract", (a, element)), const(3.0, number.dtype))),))
    device = DEVICES["cpu"]
    text = source_of(body, fused(body, device)).text()
    assert not any(f"{op}(" in text for op in NUMBERS) and "[2]" in text
    one, row_of = (work("add", (), t, [t, t], device).whole for t in (number, TensorType(number.dtype, (1,))))
    assert one < row_of / 3 < device.call_seconds


def test_a_number_that_an_array_is_made_of_is_an_array() -> None:
    a, b = (input_node(n, TensorType(np.dtype(np.float64), shape)) for n, shape in (("a", ()), ("b", (5,))))
    scale = node("multiply", (a, a))
    body = Graph((a, b), (node("multiply", (b, node("negative", (scale,)))),))
    assert "negative(" in source_of(body, fused(body, DEVICES["cpu"])).text()


def test_an_index_takes_what_views_one_after_another_take() -> None:
    rng = np.random.default_rng(0)
    dropped = 0
    for _ in range(200):
        shape = tuple(int(e) for e in rng.integers(1, 4, int(rng.integers(1, 4))))
        n = x = input_node("x", TensorType(np.dtype(np.int64), shape))
        for _ in range(int(rng.integers(1, 3))):
            starts = [int(rng.integers(e)) for e in n.shape]
            stops = [int(rng.integers(s + 1, e + 1)) for s, e in zip(starts, n.shape, strict=True)]
            n = node("slice", (n,), (tuple((s, e, 1) for s, e in zip(starts, stops, strict=True)),)) if n.shape else n
            kept = tuple(e for e in n.shape if e > 1 or rng.random() < 0.4)
            n = node("reshape", (n,), (kept,))
        _, chain = leaf_chain(n)
        array = np.arange(x.type.size).reshape(shape)
        for number in (False, True)[: 1 + (n.shape == ())]:
            text = view_text("x", chain, number)
            dropped += "reshape" not in text and any(v.op == "reshape" for v in chain)
            got = eval(text, {**NAMES, "x": array})
            assert isinstance(got, np.generic if number else np.ndarray)
            np.testing.assert_array_equal(got, taken(array, chain))
            assert number or np.shares_memory(got, array)
    assert dropped > 100


VIEWS = {
    "flip": (-1,), "broadcast_to": (2, 4), "sliding_window": ((-1, 3),), "transpose": (0,), "reshape": (2, 2),
    "slice": ((1, 4, 2),),
}  # fmt: skip


def test_a_number_is_taken_of_every_view() -> None:
    for op, attr in VIEWS.items():
        x = input_node("x", TensorType(np.dtype(np.float64), (4,)))
        seen = node(op, (x,), (attr,))
        one = node("slice", (seen,), (tuple((e - 1, e, 1) for e in seen.shape),))
        number = node("reshape", (one,), ((),))
        graph = Graph((x,), (node("multiply", (number, number)),))
        array = np.arange(2.0, 6.0)
        (got,) = ran(graph, [array])
        np.testing.assert_array_equal(got, ef.meaning(graph, array))
