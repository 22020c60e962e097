"""Products whose panels of a right operand are copied for some blocks of columns at a time: in turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqfuse.cost.device import Device
from eqfuse.emit.c.product import schedule, turns
from eqfuse.emit.c.product.blocks import EVEN_UNITS
from eqfuse.emit.c.product.schedule import ProductSchedule
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, judge, product
from tests.support.kernels import add, body, cast, data, mul, number, read

DTYPES = "float32", "float64", "int32"
ONE, TWO = replace(C, threads=1), replace(C, threads=2)


def matmul(x: Node, y: Node) -> Node:
    return node("matmul", (x, y))


def turned(x: Node) -> Node:
    return node("transpose", (x,), ((*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2),))


def lone(rows: int, terms: int, columns: int, dtype: str = "float32") -> Graph:
    x, y = read(0, (rows, terms), dtype), read(1, (terms, columns), dtype)
    return body([x, y], matmul(x, y))


def graphs() -> list[Graph]:
    """Of whole blocks and of shorter last ones; of batches, some with a right operand of each; with other work."""
    cases = [lone(380, 70, columns, dtype) for columns in (2048, 2000, 1543) for dtype in DTYPES]
    for stem, other in [((3,), (3,)), ((3,), ()), ((2, 3), (2, 1))]:
        x, y = read(0, (*stem, 330, 33)), read(1, (*other, 1100, 33))
        cases.append(body([x, y], matmul(x, turned(y))))
    x, y, bias, residual = read(0, (360, 64)), read(1, (64, 1100)), read(2, (1100,)), read(3, (360, 1100))
    cases.append(body([x, y, bias, residual], mul(node("maximum", (add(matmul(x, y), bias), number(0))), residual)))
    half = read(1, (64, 1100), "float16")
    cases.append(body([x, half], matmul(add(x, x), mul(cast(half, "float32"), number(2)))))
    return cases


def of_many_terms() -> list[Graph]:
    """Blocks of terms that turns have as many of, and others; left operands that lie as they are multiplied, across, or
    are computed; rows and columns that no tile divides; what follows the product; what several axes of an array are."""
    cases = [lone(*extents, dtype) for extents in [(300, 4096, 65), (301, 4099, 130)] for dtype in DTYPES]
    x, y, z, bias = read(0, (4100, 330)), read(1, (4100, 96)), read(2, (96, 4100)), read(3, (96,))
    cases += [body([x, y], matmul(turned(x), y)), body([x, z], matmul(turned(x), turned(z)))]
    cases.append(body([x, y], matmul(turned(node("tanh", (x,))), mul(y, y))))
    cases.append(body([x, y, bias], node("maximum", (add(matmul(turned(x), y), bias), number(0)))))
    batch, weights = read(0, (3, 290, 2100)), read(1, (3, 2100, 40))
    cases.append(body([batch, weights], matmul(batch, weights)))
    images = read(0, (40, 300, 10, 9))
    merged = node("reshape", (node("transpose", (images,), ((1, 0, 2, 3),)),), ((300, 3600),))
    cases.append(body([images], matmul(merged, turned(merged))))
    return cases


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "NEAR_PANELS", 1)
    monkeypatch.setattr(turns, "TURN_SECONDS", 0)


def schedule_of(graph: Graph, device: Device = TWO) -> ProductSchedule:
    own = product(graph, device).schedule
    assert isinstance(own, ProductSchedule)
    return own


@needs_compiler
@pytest.mark.parametrize("device", [ONE, TWO], ids=["one thread", "two"])
def test_products_in_turns_are_what_they_mean(device: Device) -> None:
    every = graphs()
    assert sum(schedule_of(graph, device).blocks.turns > 1 for graph in every) > len(every) / 2
    judge([product(graph, device) for graph in every], every, [data(graph) for graph in every])


@needs_compiler
@pytest.mark.parametrize("device, near", [(ONE, 300 << 10), (TWO, 1)], ids=["one thread", "two"])
def test_products_in_turns_of_terms_are_what_they_mean(
    device: Device, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "ABOUT_AS_LONG", 1e9)
    monkeypatch.setattr(turns, "NEAR_PANELS", near)
    every = of_many_terms()
    assert all(schedule_of(graph, device).blocks.turn_terms for graph in every if near == 1)
    judge([product(graph, device) for graph in every], every, [data(graph) for graph in every])


def test_a_product_of_many_terms_holds_the_panels_of_some() -> None:
    turns.NEAR_PANELS = 256 << 10
    graph = lone(700, 9000, 130)
    several = schedule_of(graph)
    assert several.blocks.turn_terms and several.workspace_bytes < (256 << 10) + 2 * graph.outputs[0].type.nbytes


def test_a_turn_needs_the_panels_of_its_columns_and_all_are_priced() -> None:
    graph = lone(380, 70, 2048)
    several = schedule_of(graph)
    turns.NEAR_PANELS = 1 << 40
    (whole,), (part,) = schedule_of(graph).workspaces, several.workspaces
    assert several.blocks.turns > 1
    assert part.nbytes * several.blocks.turns == whole.nbytes
    assert several.price(TWO).bytes_read == sum(n.type.nbytes for n in graph.inputs) + whole.nbytes


def test_all_threads_have_as_many_units_in_a_turn() -> None:
    for graph in graphs():
        own = schedule_of(graph)
        assert own.blocks.turns == 1 or own.units % 2 == 0 or own.units >= 2 * EVEN_UNITS


def test_short_turns_are_not_worth_waiting_for_one_another() -> None:
    turns.TURN_SECONDS = 5e-4
    assert schedule_of(lone(380, 70, 2048)).blocks.turns == 1


def test_constants_are_copied_once_and_not_in_turns() -> None:
    given = lone(380, 70, 2048)
    x, y = given.inputs
    fixed = input_node("fixed", y.type, True)
    assert schedule_of(Graph((x, fixed), substitute(given.outputs, {y: fixed}))).blocks.turns == 1
