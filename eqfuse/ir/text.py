"""Graphs from text: what `str(graph)` prints, read as data. Nothing of it is executed.

In: text; and the constants that it names by number. Out: `Graph`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Body, Graph, Node, input_node, node
from eqfuse.ops.host_function import host_function
from eqfuse.ops.literal import Literal, literal_from_text
from eqfuse.ops.types import tensor_type


def parse(text: str, literals: Sequence[Literal] = ()) -> Graph:
    """The graph that prints as `text`, where ``const(3)`` is number 3 of `literals`. Reads the text as data (never
    executes it)."""
    try:
        (function,) = ast.parse(text).body
        return _graph(function, literals)
    except EqfuseError:
        raise
    except (AssertionError, SyntaxError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EqfuseError(f"this is not the text of a graph: {error!r}") from error


def _graph(function: ast.stmt, literals: Sequence[Literal]) -> Graph:
    assert isinstance(function, ast.FunctionDef)
    values: dict[str, Node] = {}
    bodies: dict[str, Body] = {}
    for arg, default in zip(function.args.args, function.args.defaults, strict=True):
        type_text = ast.literal_eval(default)
        assert arg.annotation is not None
        values[arg.arg] = input_node(
            ast.literal_eval(arg.annotation), tensor_type(type_text.rstrip("!")), type_text.endswith("!")
        )
    inputs = tuple(values.values())
    for line in function.body:
        match line:
            case ast.Return(value=ast.Tuple(elts=outputs)):
                return Graph(inputs, tuple(values[e.id] for e in outputs if isinstance(e, ast.Name)))
            case ast.FunctionDef():
                bodies[line.name] = Body(_graph(line, literals))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=op), args=operands)):
                constant = op == "const"
                values[name] = _const(operands, literals) if constant else _node(op, operands, values, bodies)
            case _:
                raise ValueError(f"the statement {ast.unparse(line)}")
    raise EqfuseError("this is not the text of a graph: it returns nothing")


def _const(operands: list[ast.expr], literals: Sequence[Literal]) -> Node:
    first, *rest = map(ast.literal_eval, operands)
    return node("const", (), (literal_from_text(first, *rest) if rest else literals[first],))


def _node(op: str, operands: list[ast.expr], values: dict[str, Node], bodies: dict[str, Body]) -> Node:
    args = [values[a.id] for a in operands if isinstance(a, ast.Name) and a.id not in bodies]
    attrs = [bodies[a.id] if isinstance(a, ast.Name) else attr(a) for a in operands[len(args) :]]
    return node(op, args, attrs)


def attr(text: ast.expr) -> Any:
    """Inverse of `ir.graph.attr_text`. ValueError where the text is no plain value."""
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id == "dtype":
        return np.dtype(ast.literal_eval(text.args[0]))
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id == "host_function":
        return host_function(*map(ast.literal_eval, text.args))
    return ast.literal_eval(text)
