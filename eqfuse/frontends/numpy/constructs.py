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
BODY_SHOWN = 8  # lines of a body; a longer one is left out


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
    statement = _left_by(tree, max(asking, key=lambda n: n.lineno))
    written = _instead(statement, _names_before(tree, statement))
    return f"\nIn place of `{_head(statement)}`:\n{indent(written, '    ')}" if written else ""


def _left_by(tree: ast.Module, asking: Asking) -> Asking:
    """The loop that ends where `asking` is true, if it does nothing else; or `asking`."""
    if not _is_exit(asking):
        return asking
    return next((n for n in ast.walk(tree) if isinstance(n, ast.While) and asking in n.body), asking)


def _is_exit(n: ast.stmt | ast.expr) -> bool:
    return isinstance(n, ast.If) and not n.orelse and [type(s) for s in n.body] == [ast.Break]


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


def _instead(n: Asking, bound: set[str]) -> str:
    if isinstance(n, ast.IfExp):
        return f"ef.cond({_condition(n.test)}, lambda: {ast.unparse(n.body)}, lambda: {ast.unparse(n.orelse)})"
    carries = [name for name in _stored([*n.body, *n.orelse]) if name in bound] or ["carry"]
    names = ", ".join(carries)
    if isinstance(n, ast.If):
        branches = [_function(f, names, body, carries) for f, body in (("yes", n.body), ("no", n.orelse))]
        both = "or, where both sides may be computed, np.where(condition, a, b)"
        return "\n".join([*branches, f"{names} = ef.cond({_condition(n.test)}, yes, no, {names})   # {both}"])
    parameter = names if len(carries) == 1 else "carry"
    whole = names if len(carries) == 1 else f"({names})"
    if isinstance(n, ast.While):
        if [s for s in n.body if _is_exit(s)]:
            return _with_exit(n, carries)
        goes_on = f"def goes_on({parameter}):\n" + _opened(carries) + f"    return {_condition(n.test)}"
        step = _function("step", parameter, n.body, carries)
        return f"{goes_on}\n{step}\n{names} = ef.while_loop(goes_on, step, {whole})"
    bounds = n.iter.args if isinstance(n.iter, ast.Call) and ast.unparse(n.iter.func) == "range" else []
    if len(bounds) not in (1, 2):
        return ""
    lower, upper = ["0", *map(_traced_int, bounds)][-2:]
    step = _function("step", f"{ast.unparse(n.target)}, {parameter}", n.body, carries)
    return f"{step}\n{names} = ef.fori_loop({lower}, {upper}, step, {whole})"


def _traced_int(bound: ast.expr) -> str:
    """`bound` without Python's int, which takes no traced number."""
    if not (isinstance(bound, ast.Call) and ast.unparse(bound.func) == "int" and len(bound.args) == 1):
        return ast.unparse(bound)
    number = ast.unparse(bound.args[0])
    is_atom = isinstance(bound.args[0], (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    return f"{number if is_atom else f'({number})'}.astype(int)"


def _with_exit(n: ast.While, carries: Sequence[str]) -> str:
    """A loop that a statement of its body may leave: it carries whether it was left, and the rest of the last step is
    not taken."""
    index = next(index for index, s in enumerate(n.body) if _is_exit(s))
    exit_, rest = n.body[index], n.body[index + 1 :]
    assert isinstance(exit_, ast.If)
    names = ", ".join([*carries, "done"])
    going = "np.logical_not(done)"
    if not (isinstance(n.test, ast.Constant) and n.test.value):
        going = f"np.logical_and({going}, {_condition(n.test)})"
    before = "\n".join([*map(ast.unparse, n.body[:index]), f"done = {_condition(exit_.test)}"])
    if changed := [name for name in _stored(rest) if name in carries]:
        several = len(changed) > 1
        parameter = "carry" if several else changed[0]
        whole = f"({', '.join(changed)})" if several else changed[0]
        before += "\n" + _function("rest", parameter, rest, changed)
        before += f"\n{', '.join(changed)} = ef.cond(done, lambda same: same, rest, {whole})"
    if any(isinstance(s, (ast.Break, ast.Continue, ast.Return)) for s in _within([*n.body[:index], *rest])):
        before = "..."
    step = f"def step(carry):\n    {names} = carry\n{indent(before, '    ')}\n    return {names}"
    goes_on = f"def goes_on(carry):\n    {names} = carry\n    return {going}"
    return f"{goes_on}\n{step}\n{names} = ef.while_loop(goes_on, step, ({', '.join([*carries, 'False'])}))"


class _ArrayConditions(ast.NodeTransformer):
    """Conditions of Python as those of NumPy, which may be traced."""

    def visit_BoolOp(self, n: ast.BoolOp) -> ast.expr:
        self.generic_visit(n)
        return _joined("logical_and" if isinstance(n.op, ast.And) else "logical_or", n.values)

    def visit_UnaryOp(self, n: ast.UnaryOp) -> ast.expr:
        self.generic_visit(n)
        return _joined("logical_not", [n.operand]) if isinstance(n.op, ast.Not) else n

    def visit_Compare(self, n: ast.Compare) -> ast.expr:
        self.generic_visit(n)
        operands = [n.left, *n.comparators]
        pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(operands, n.ops, n.comparators, strict=False)]
        return _joined("logical_and", pairs) if len(pairs) > 1 else n


def _joined(function: str, values: Sequence[ast.expr]) -> ast.expr:
    """`values` joined two by two by that function of NumPy."""
    name = ast.Attribute(ast.Name("np", ast.Load()), function, ast.Load())
    first, *others = values
    if not others:
        return ast.Call(name, [first], []) if function == "logical_not" else first
    return ast.Call(name, [first, _joined(function, others)], [])


def _condition(test: ast.expr) -> str:
    return ast.unparse(_ArrayConditions().visit(ast.parse(ast.unparse(test), mode="eval").body))


def _within(body: Sequence[ast.stmt]) -> list[ast.AST]:
    return [n for statement in body for n in ast.walk(statement)]


def _function(name: str, parameters: str, body: Sequence[ast.stmt], carries: Sequence[str]) -> str:
    leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in _within(body))
    text = "\n".join(map(ast.unparse, body))
    text = "..." if leaves or text.count("\n") >= BODY_SHOWN else text
    opened = _opened(carries) if "carry" in parameters.split(", ") else ""
    lines = indent(text, "    ") + "\n" if text else ""
    return f"def {name}({parameters}):\n{opened}{lines}    return {', '.join(carries)}"


def _opened(carries: Sequence[str]) -> str:
    return f"    {', '.join(carries)} = carry\n" if len(carries) > 1 else ""


def _stored(body: Sequence[ast.stmt]) -> list[str]:
    """The names that `body` gives values, or writes into."""
    names: dict[str, None] = {}
    for n in _within(body):
        while isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Store):
            n = ast.Name(n.value.id, ast.Store()) if isinstance(n.value, ast.Name) else n.value
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            names[n.id] = None
    return list(names)


def _names_before(tree: ast.Module, asking: Asking) -> set[str]:
    """The names that have values in the function around `asking` before it runs."""
    functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and asking in ast.walk(f)]
    if not functions:
        return set()
    function = max(functions, key=lambda f: f.lineno)
    a = function.args
    parameters = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    return parameters | set(_stored([s for s in function.body if s.lineno < asking.lineno]))
