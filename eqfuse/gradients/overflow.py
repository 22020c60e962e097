"""Sigmoids and exponential linear units of a graph that was made for its values, as they are differentiated.

In: nodes. Out: equal ones, in which exponentials that are divided by, or that are not chosen, do not overflow: the
derivative would be infinity times zero. (A function is traced anew when it is differentiated, and `eqfuse.functions`
bounds these itself.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.origins import note_instead
from eqfuse.gradients.expr import Expr, constant_number, f
from eqfuse.ir.graph import Body, Graph, Node, node, topological


def exponentials_bounded(nodes: Sequence[Node]) -> list[Node]:
    """`nodes`, in the bodies of loops too, with bounded exponents in ``1 / (exp(x) + 1)``, ``-x / (exp(x) + 1)`` and
    ``where(x > 0, a, expm1(x) * b)``."""
    replacements: dict[Node, Node] = {}
    for n in topological(nodes):
        args = [replacements[a] for a in n.args]
        if n.op == "divide":
            args = _bounded_quotient(*args)
        elif n.op == "where":
            args[2] = _bounded_choice(args[0], args[2])
        attrs = [_bounded_body(a) for a in n.attrs]
        is_same = all(new is old for new, old in zip([*args, *attrs], [*n.args, *n.attrs], strict=True))
        replacements[n] = n if is_same else node(n.op, args, attrs)
    note_instead({n: new for n, new in replacements.items() if new is not n})
    return [replacements[n] for n in nodes]


def _bounded_body(attr: Any) -> Any:
    if not isinstance(attr, Body):
        return attr
    outputs = tuple(exponentials_bounded(attr.graph.outputs))
    return attr if outputs == attr.graph.outputs else Body(Graph(attr.graph.inputs, outputs))


def _bounded_quotient(number: Node, divisor: Node) -> list[Node]:
    """Both, the exponent held below the logarithm of the largest number where the quotient is then as good as 0."""
    unchanged = [number, divisor]
    if divisor.op != "add" or divisor.dtype.kind != "f":
        return unchanged
    exponents = [a.args[0] for a in divisor.args if a.op == "exp"]
    if len(exponents) != 1 or 1 not in [constant_number(Expr(a)) for a in divisor.args]:
        return unchanged
    (exponent,) = exponents
    bounded = f("minimum", Expr(exponent), float(math.floor(math.log(np.finfo(exponent.dtype).max))))
    if number is (-Expr(exponent)).node:
        number = (-bounded).node
    elif constant_number(Expr(number)) != 1:
        return unchanged
    return [number, divisor.over([f("exp", bounded).node if a.op == "exp" else a for a in divisor.args])]


def _bounded_choice(condition: Node, n: Node) -> Node:
    """What is chosen where x > 0 is false, if it is ``expm1(x)`` or that times something: of the smaller of x and 0."""
    if condition.op != "greater" or constant_number(Expr(condition.args[1])) != 0:
        return n
    if n.op == "multiply":
        return n.over([_bounded_choice(condition, a) for a in n.args])
    if n.op != "expm1" or n.dtype.kind != "f" or n.args[0] is not condition.args[0]:
        return n
    return f("expm1", f("minimum", Expr(n.args[0]), 0)).node

