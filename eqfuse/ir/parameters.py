"""The parameters of a traced function, and how the arguments of a call fit them: which are static, which by position.

In: a function, a call's arguments. Out: the arguments in one normal form, and the static ones by name. Next stop:
`signature.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

from eqfuse.errors import ArgumentError, OptionError, TraceError
from eqfuse.ir.graph import Graph


def parameters_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fn`, of a graph that of a call of it, or None for a builtin that does not tell."""
    if isinstance(fn, Graph):
        names = [str(n.attr("name")) for n in fn.inputs]
        return positional_parameters(names) if fn.signature is None else fn.signature.parameters
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError):
        return None


def positional_parameters(names: Sequence[str]) -> inspect.Signature | None:
    """Parameters of these `names`, or None where Python has no such parameters."""
    if len({*names}) < len(names) or any(not name.isidentifier() or iskeyword(name) for name in names):
        return None
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def bound_arguments(parameters: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """The arguments by the names of the parameters; ArgumentError where they do not fit."""
    try:
        return parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"the arguments do not fit the traced function: {error}") from None


class CallForm(NamedTuple):
    """Of calls with as many arguments by position and others of these names: where the arguments of the normal form
    are, counted through both. A parameter that takes several has a tuple of places, or a dict."""

    positional: tuple[int, ...]
    named: dict[str, Any]
    fixed: dict[str, Any]


class CallForms:
    """The forms of calls of one function, each found once: to bind arguments takes longer than a small program."""

    def __init__(self, parameters: inspect.Signature | None, static: frozenset[str]) -> None:
        self._parameters, self._static = parameters, static
        self._forms: dict[tuple[int, tuple[str, ...]], CallForm] = {}

    def split(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple[tuple, dict[str, Any]], dict[str, Any]]:
        """The dynamic (args, kwargs) in one normal form, and the static arguments by name.

        In the normal form every argument that can be positional is, unless a static or an omitted one stands before it.
        """
        if not kwargs and not self._static:
            return (args, kwargs), {}
        key = len(args), tuple(kwargs)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form(*key)
        values = (*args, *kwargs.values())
        positional = tuple([values[place] for place in form.positional])
        named = {name: _argument(place, values) for name, place in form.named.items()}
        return (positional, named), {name: _argument(place, values) for name, place in form.fixed.items()}

    def _form(self, count: int, names: tuple[str, ...]) -> CallForm:
        """Of calls with `count` arguments by position. ArgumentError where these do not fit the function."""
        if self._parameters is None:
            raise TraceError("this builtin does not tell its parameters: pass its arguments by position")
        stand_ins = dict(zip(names, range(count, count + len(names)), strict=True))
        bound = bound_arguments(self._parameters, tuple(range(count)), stand_ins)
        parameters = self._parameters.parameters.values()
        twice = sorted({*names} & {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY})
        if self._static and twice:
            raise ArgumentError(
                f"the keyword {twice[0]!r} has the name of a parameter by position, and others are static: rename one"
            )
        fixed = {name: bound.arguments.pop(name) for name in self._static if name in bound.arguments}
        return CallForm(bound.args, bound.kwargs, fixed)


def _argument(place: Any, values: Sequence[Any]) -> Any:
    """The argument at `place`, or all that one parameter takes."""
    if isinstance(place, tuple):
        return tuple([values[each] for each in place])
    if isinstance(place, dict):
        return {name: values[each] for name, each in place.items()}
    return values[place]


def static_names(parameters: str | Iterable[str]) -> frozenset[str]:
    names: tuple[Any, ...] = (parameters,)
    if isinstance(parameters, Iterable) and not isinstance(parameters, str):
        names = tuple(parameters)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(f"static_argnames is {parameters!r}: give the name of a parameter, or a tuple of names")
    return frozenset(names)


def are_parameters(names: frozenset[str], parameters: inspect.Signature | None) -> None:
    """Refuse a static argument that is no parameter of the function."""
    unknown = names - set(parameters.parameters if parameters is not None else ())
    if unknown:
        raise TraceError(f"static_argnames: the function has no parameter {', '.join(map(repr, sorted(unknown)))}")
