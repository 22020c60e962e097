"""Python's own loops and branches that would depend on data, and the lines to write instead.

In: the user's statement that asks a traced array for its value. Out: text with `ef.while_loop`, `ef.fori_loop` or
`ef.cond`, in the user's own names. Used by the refusals of `ndarray`.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from textwrap import indent

from eqfuse.errors import line_number, user_place

Asking = ast.While | ast.If | ast.IfExp | ast.For
SHOWN = 8  # lines of a body; a longer one is left out


def lines_instead() -> str:
    """The lines to write in place of the loop or branch that the user's innermost statement is; none for another."""
    place = user_place()
    if place is None:
        return ""
    line = line_number(place)
    try:
        tree = ast.parse("".join(linecache.getlines(place[0].co_filename)))
    except (SyntaxError, ValueError):
        return ""
    asking = [n for n in ast.walk(tree) if isinstance(n, Asking) and _asks(n, line)]
    if not asking:
        return ""
    found = max(asking, key=lambda n: n.lineno)
    written = _instead(found, _known_before(tree, found))
    return f"\nIn place of `{_head(found)}`:\n{indent(written, '    ')}" if written else ""


def _asks(n: Asking, line: int) -> bool:
    """Does the loop or branch `n` ask for a value in `line`?"""
    asked = n.iter if isinstance(n, ast.For) else n.test
    return asked.lineno <= line <= (asked.end_lineno or line)


def _head(n: Asking) -> str:
    if isinstance(n, ast.IfExp):
        return f"… if {ast.unparse(n.test)} else …"
    if isinstance(n, ast.For):
        return f"for {ast.unparse(n.target)} in {ast.unparse(n.iter)}:"
    return f"{'while' if isinstance(n, ast.While) else 'if'} {ast.unparse(n.test)}:"


def _instead(n: Asking, known: set[str]) -> str:
    if isinstance(n, ast.IfExp):
        return f"ef.cond({ast.unparse(n.test)}, lambda: {ast.unparse(n.body)}, lambda: {ast.unparse(n.orelse)})"
    carries = [name for name in _stored([*n.body, *n.orelse]) if name in known] or ["carry"]
    names = ", ".join(carries)
    if isinstance(n, ast.If):
        branches = [_function(f, names, body, carries) for f, body in (("yes", n.body), ("no", n.orelse))]
        both = "or, where both sides may be computed, np.where(condition, a, b)"
        return "\n".join([*branches, f"{names} = ef.cond({ast.unparse(n.test)}, yes, no, {names})   # {both}"])
    parameter = names if len(carries) == 1 else "carry"
    whole = names if len(carries) == 1 else f"({names})"
    if isinstance(n, ast.While):
        goes_on = f"def goes_on({parameter}):\n" + _opened(carries) + f"    return {ast.unparse(n.test)}"
        step = _function("step", parameter, n.body, carries)
        return f"{goes_on}\n{step}\n{names} = ef.while_loop(goes_on, step, {whole})"
    bounds = n.iter.args if isinstance(n.iter, ast.Call) and ast.unparse(n.iter.func) == "range" else []
    if len(bounds) not in (1, 2):
        return ""
    lower, upper = ["0", *map(ast.unparse, bounds)][-2:]
    step = _function("step", f"{ast.unparse(n.target)}, {parameter}", n.body, carries)
    return f"{step}\n{names} = ef.fori_loop({lower}, {upper}, step, {whole})"


def _function(name: str, parameters: str, body: Sequence[ast.stmt], carries: Sequence[str]) -> str:
    within = [n for statement in body for n in ast.walk(statement)]
    leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in within)
    text = "\n".join(map(ast.unparse, body))
    text = "..." if leaves or text.count("\n") >= SHOWN else text
    opened = _opened(carries) if "carry" in parameters.split(", ") else ""
    lines = indent(text, "    ") + "\n" if text else ""
    return f"def {name}({parameters}):\n{opened}{lines}    return {', '.join(carries)}"


def _opened(carries: Sequence[str]) -> str:
    return f"    {', '.join(carries)} = carry\n" if len(carries) > 1 else ""


def _stored(body: Sequence[ast.stmt]) -> list[str]:
    """The names that `body` gives values, or writes into."""
    found: dict[str, None] = {}
    for n in (n for statement in body for n in ast.walk(statement)):
        while isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store):
            n = ast.Name(n.value.id, ast.Store()) if isinstance(n.value, ast.Name) else n.value
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            found[n.id] = None
    return list(found)


def _known_before(tree: ast.Module, asking: Asking) -> set[str]:
    """The names that have values in the function around `asking` before it runs."""
    functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and asking in ast.walk(f)]
    if not functions:
        return set()
    function = max(functions, key=lambda f: f.lineno)
    a = function.args
    parameters = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    return parameters | set(_stored([s for s in function.body if s.lineno < asking.lineno]))
