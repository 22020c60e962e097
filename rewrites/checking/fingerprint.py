"""Text that changes when a law does: its sides, and the code and data of its guards and computed values.

In: `Law`. Out: text, or None where a function holds something whose value nobody can tell from outside.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from eqfuse.errors import is_librarys_file
from eqfuse.rewrites.language.law import Attr, Computation, Law, Term, walk

_DEPTH = 6  # of functions that call each other
_BY_REPR = int | float | complex | str | bytes | None | Enum | np.dtype | np.generic | Attr | Term


class NoText(Exception):
    """A value that has no text."""


def fingerprint(law: Law) -> str | None:
    try:
        return repr([str(law), law.chain, law.slices, *(_text(part, _DEPTH) for part in _parts(law))])
    except NoText:
        return None


def _parts(law: Law) -> Iterator[Any]:
    """Functions, and the variables that they are about."""
    for g in law.when:
        yield from (g.predicate, g.wanted, g.judged, g.args)
    for term in (t for side in (*law.lefts, *law.rights) for t in walk(side)):
        yield from (part for a in term.attrs if isinstance(a, Computation) for part in (a.function, a.args))


def _text(value: Any, depth: int) -> str:
    if isinstance(value, types.FunctionType):
        return _function(value, depth)
    if isinstance(value, functools.partial):
        return _text((value.func, value.args, value.keywords), depth)
    if isinstance(value, types.MethodType):
        return _text((value.__func__, value.__self__), depth)
    if isinstance(value, tuple | list):
        return f"({', '.join(_text(v, depth) for v in value)})"
    if isinstance(value, dict | set | frozenset):
        return str(sorted(_text(v, depth) for v in (value.items() if isinstance(value, dict) else value)))
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    if isinstance(value, _BY_REPR):
        return repr(value)
    if is_dataclass(value):
        return f"{type(value).__qualname__}{_text([getattr(value, f.name) for f in fields(value)], depth)}"
    raise NoText


def _function(function: types.FunctionType, depth: int) -> str:
    """Its code, and that of what it calls; of a library, whose version is known, the name."""
    code, name = function.__code__, f"{function.__module__}.{function.__qualname__}"
    ours = name.startswith("eqfuse.")
    if depth == 0 or (is_librarys_file(code.co_filename) and not ours):
        return name
    held = [c.cell_contents for c in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), function.__kwdefaults__]
    named = [function.__globals__[n] for n in sorted(_names(code)) if n in function.__globals__]
    called = [v for v in named if isinstance(v, types.FunctionType)] if ours else named
    return f"{_instructions(code)} {[_text(v, depth - 1) for v in (*held, *called)]}"


def _names(code: types.CodeType) -> set[str]:
    """The names that it uses, and functions within it."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _instructions(code: types.CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {[_constant(c) for c in code.co_consts]}"


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _instructions(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
