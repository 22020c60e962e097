"""A softmax between two products, made of one block of columns after another: no row is held whole.

In: a body of kind back_to_back. Out: `ProductParts` with `OnlineSoftmax` (Milakov and Gimelshein 2018; in attention:
Dao et al. 2022). Next stop: `blocks.py`. Where a mask leaves nothing of a block, it is passed over.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqfuse.emit.c.product.parts import BlockPart, OnlineSoftmax, ProductParts, part_of, row_nest
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, const, input_node, node, substitute
from eqfuse.kinds.softmax import SoftmaxRows, rows_between
from eqfuse.ops.types import Shape


def online_parts_of(body: Graph, whole: ProductParts) -> ProductParts:
    """`whole`: its parts for whole rows. UnsupportedOp where no softmax of the dtype of the sums is between two
    products."""
    if len(whole.products) != 2 or whole.products[0].dtype != whole.dtype:
        raise UnsupportedOp("rows are summed up block by block between two products of float32 or float64")
    first, second = whole.products
    rows = rows_between(body, first, second.args[0])
    top, total, terms = rows.top, rows.total, rows.terms
    if top is None or total is None or terms is None or rows.shift is not top or top.shape[:-1] != second.shape[:-1]:
        raise UnsupportedOp("rows are summed up block by block where a softmax is between two products")
    if any(n.dtype != whole.dtype for n in (top, total, terms, rows.weights)):
        raise UnsupportedOp("a softmax is made block by block in the dtype of the sums")
    space = (*second.shape[:-2], *first.shape[-2:])
    result, last = whole.results
    so_far, before, summed = (input_node(name, top.type) for name in ("top", "before", "total"))
    scores = input_node("scores", top.args[0].type)
    newer, block_scores = substitute((top, top.args[0]), {first: result})
    tops = part_of((node("maximum", (before, newer)), block_scores), space, (result, before))
    weights = part_of(_weighted(rows, so_far, before, scores), space, (scores, so_far, before))
    result_of = {second: node("divide", (last, summed)) if rows.divided else last, total: summed, top: so_far}
    outputs = tuple(substitute(body.outputs, result_of))
    if first in Graph((), (*outputs, *weights.body.outputs)).nodes:
        raise UnsupportedOp("of what is between two products only the maxima and sums of rows are read after them")
    rest = part_of(outputs, second.shape, (last, so_far, summed))
    live = _live(rows, first, space)
    by_rows = [whole.lefts[0], tops, weights, *([live] if live is not None else []), rest]
    dims = row_nest(second.shape[:-1], by_rows, whole.rights, (*whole.results, scores, so_far, before, summed))
    return replace(
        whole, lefts=(whole.lefts[0], weights), rest=rest, carried=(so_far, summed), rows=dims,
        online=OnlineSoftmax(tops, live, scores, before),
    )  # fmt: skip


def _weighted(rows: SoftmaxRows, top: Node, before: Node, scores: Node) -> tuple[Node, ...]:
    """Of a block: what the second product multiplies, the sums of terms, by what the sums before it are scaled. Terms
    of rows of which nothing is above -infinity yet are 0."""
    assert rows.top is not None and rows.total is not None and rows.scores is not None
    lowest, zero = (const(value, top.dtype) for value in (-np.inf, 0))
    shift = node("where", (node("equal", (top, lowest)), zero, top))
    distance = node("subtract", (before, shift))
    if rows.scale is not None:
        distance = node("multiply", (distance, rows.scale))
    weights_and_sums = substitute((rows.weights, rows.total), {rows.scores: scores, rows.top: shift})
    return (*weights_and_sums, node(rows.function, (distance,)))


def _live(rows: SoftmaxRows, first: Node, space: Shape) -> BlockPart | None:
    """Has a row anything in a block that no mask makes -infinity? None where there is no mask, or more than the
    exponentials are multiplied: what is masked then need not be 0."""
    conditions, scores = [], rows.scores
    while scores is not None and scores.op == "where" and (mask := _masked(scores)) is not None:
        condition, scores = mask
        conditions.append(condition)
    if not conditions or rows.weights is not rows.terms or first in Graph((), tuple(conditions)).nodes:
        return None
    live, *others = conditions
    for other in others:
        live = node("logical_and", (live, other))
    whole = live if live.shape == space else node("broadcast_to", (live,), (space,))
    return part_of((node("any", (whole,), ((-1,),)),), space, ())


def _masked(n: Node) -> tuple[Node, Node] | None:
    """Where a choice is not -infinity, and what it is there."""
    condition, one, other = n.args
    if condition.dtype != np.bool_:
        return None
    if _is_lowest(other):
        return condition, one
    return (node("logical_not", (condition,)), other) if _is_lowest(one) else None


def _is_lowest(n: Node) -> bool:
    return n.number is not None and bool(n.number == -np.inf)
