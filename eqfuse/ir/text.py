"""Graphs from text: what `str(graph)` prints, read as data. Nothing of it is executed."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.ops.literal import literal_from_text
from eqfuse.ops.types import tensor_type


def parse(text: str) -> Graph:
    """The graph that prints as `text`. Reads the text as data (never executes it)."""
    try:
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        values: dict[str, Node] = {}
        for arg, default in zip(function.args.args, function.args.defaults, strict=True):
            type_text = ast.literal_eval(default)
            assert arg.annotation is not None
            values[arg.arg] = input_node(
                ast.literal_eval(arg.annotation), tensor_type(type_text.rstrip("!")), type_text.endswith("!")
            )
        inputs = tuple(values.values())
        for line in function.body:
            if isinstance(line, ast.Return):
                assert isinstance(line.value, ast.Tuple)
                return Graph(inputs, tuple(values[e.id] for e in line.value.elts if isinstance(e, ast.Name)))
            assert isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
            (target,), call = line.targets, line.value
            assert isinstance(target, ast.Name) and isinstance(call.func, ast.Name)
            if call.func.id == "const":
                made = node("const", (), (literal_from_text(*map(ast.literal_eval, call.args)),))
            else:
                args = [values[a.id] for a in call.args if isinstance(a, ast.Name)]
                made = node(call.func.id, args, [attr(a) for a in call.args if not isinstance(a, ast.Name)])
            values[target.id] = made
    except EqfuseError:
        raise
    except (AssertionError, SyntaxError, ValueError, KeyError, TypeError) as error:
        raise EqfuseError(f"this is not the text of a graph: {error!r}") from error
    raise EqfuseError("this is not the text of a graph: it returns nothing")


def attr(text: ast.expr) -> Any:
    """Inverse of `ir.graph.attr_text`. ValueError where the text is no plain value."""
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id == "dtype":
        return np.dtype(ast.literal_eval(text.args[0]))
    return ast.literal_eval(text)
