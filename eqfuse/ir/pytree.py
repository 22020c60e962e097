"""Nested containers: tuples, lists, dicts, named tuples and dataclasses around arrays.

In: a tree. Out: its leaves in order and a hashable `Structure` that rebuilds it. Used by `ef.trace` and `ef.jit`. A
dataclass is rebuilt field by field, without its ``__init__`` or ``__post_init__``: what these did is in the fields.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from eqfuse.errors import TraceError

LEAVES: set[type] = {np.ndarray}  # classes of leaves, as far as any was met
_NAMES = frozenset([str, type(None)])
_STATIC = (str, bytes, type(None), np.dtype, type, slice, type(Ellipsis))


class Structure(NamedTuple):
    """A tree without its leaves. `kind`: a container type, None for a leaf, or `Static` (its value is the one key).

    The first key of a defaultdict is the function that makes its defaults. `unlike`: what tells keys apart that Python
    calls equal, such as 1 and True; none of plain text.
    """

    kind: Any
    keys: tuple[Hashable, ...] = ()
    children: tuple[Any, ...] = ()  # of Structure
    unlike: tuple[Hashable, ...] = ()

    @staticmethod
    def of_keys(kind: Any, keys: tuple[Hashable, ...], children: tuple[Any, ...] = ()) -> Structure:
        """A structure whose keys are the user's."""
        names_only = _NAMES.issuperset(map(type, keys))
        return Structure(kind, keys, children, () if names_only else tuple(map(told_apart, keys)))


LEAF = Structure(None)
SCALAR = Structure(None, ("scalar",))  # an array given back as NumPy's scalar
BOOL_LEAF = Structure(None, ("bool",))  # ... as Python's bool


class Static:
    """Marks the structure of a value that is no array (a string, None, a dtype): kept, compared and given back."""


def tree_leaves(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of `tree`, left to right, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    if kind in LEAVES:
        leaves.append(tree)
        return LEAF
    if kind is tuple or kind is list:
        return Structure(kind, (), tuple([_flatten(child, leaves) for child in tree]))
    if kind is dict or kind is OrderedDict:
        if not tree:
            return Structure(kind)
        return Structure.of_keys(kind, tuple(tree), tuple([_flatten(child, leaves) for child in tree.values()]))
    if kind is defaultdict:
        children = tuple([_flatten(child, leaves) for child in tree.values()])
        return Structure.of_keys(kind, (tree.default_factory, *tree), children)
    if isinstance(tree, _STATIC):
        return Structure.of_keys(Static, (_hashable(tree),))
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return Structure(kind, (), tuple([_flatten(child, leaves) for child in tree]))
    if dataclasses.is_dataclass(kind):
        names = tuple([name for name in _fields(kind) if hasattr(tree, name)])
        return Structure(kind, names, tuple([_flatten(getattr(tree, name), leaves) for name in names]))
    if isinstance(tree, (tuple, list, dict)):
        raise TraceError(
            f"{kind.__module__}.{kind.__qualname__} is not among the containers eqfuse opens: use a tuple, list, dict, "
            "named tuple or dataclass"
        )
    LEAVES.add(kind)
    leaves.append(tree)
    return LEAF


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields."""
    return tuple([f.name for f in dataclasses.fields(kind)])


def told_apart(value: Any) -> Hashable:
    """Equal only for values that trace alike: 1, 1.0 and True differ, and so do 0.0 and -0.0; a NaN equals itself.
    TypeError with the name of a class that has no hash."""
    if isinstance(value, tuple):
        return (type(value), tuple(map(told_apart, value)))
    if isinstance(value, frozenset):
        return (type(value), frozenset(map(told_apart, value)))
    if isinstance(value, slice):
        return (slice, told_apart((value.start, value.stop, value.step)))
    if isinstance(value, numbers.Number) and not isinstance(value, int):
        return (type(value), repr(value))
    if dataclasses.is_dataclass(value) and type(value).__hash__ not in (None, object.__hash__, type.__hash__):
        names = [f.name for f in dataclasses.fields(value) if f.compare]
        return (type(value), tuple([told_apart(getattr(value, name)) for name in names]))
    try:
        hash(value)
    except TypeError:
        raise TypeError(type(value).__name__) from None
    return (type(value), value)


def _hashable(value: Any) -> Hashable:
    return ("slice", value.start, value.stop, value.step) if isinstance(value, slice) else value


def leaf_structures(structure: Structure) -> list[Structure]:
    """The structure of each leaf, left to right."""
    if structure.kind is None:
        return [structure]
    return [leaf for child in structure.children for leaf in leaf_structures(child)]


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree with `structure` around `leaves`."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        leaf = next(leaves)
        if not structure.keys or type(leaf) is not np.ndarray:
            return leaf
        return bool(leaf) if structure == BOOL_LEAF else leaf[()]
    if kind is Static:
        (value,) = structure.keys
        return slice(*value[1:]) if isinstance(value, tuple) else value
    children = [_unflatten(child, leaves) for child in structure.children]
    if kind is tuple or kind is list:
        return kind(children)
    if kind is dict or kind is OrderedDict:
        return kind(zip(structure.keys, children, strict=True))
    if kind is defaultdict:
        default: Any = structure.keys[0]
        return defaultdict(default, zip(structure.keys[1:], children, strict=True))
    if issubclass(kind, tuple):
        return tuple.__new__(kind, children)
    instance = object.__new__(kind)
    for name, child in zip(structure.keys, children, strict=True):
        object.__setattr__(instance, str(name), child)  # a frozen class has no other way
    return instance


def paths(structure: Structure, prefix: str = "") -> list[str]:
    """How a user would write each leaf: ``params['w']``, ``xs[0]``."""
    kind = structure.kind
    if kind is None:
        return [prefix]
    if kind in (dict, OrderedDict):
        steps = [f"[{key!r}]" for key in structure.keys]
    elif kind is defaultdict:
        steps = [f"[{key!r}]" for key in structure.keys[1:]]
    elif kind in (tuple, list):
        steps = [f"[{i}]" for i in range(len(structure.children))]
    elif kind is Static:
        steps = []
    else:
        steps = [f".{name}" for name in structure.keys or kind._fields]
    return [path for step, child in zip(steps, structure.children, strict=True) for path in paths(child, prefix + step)]
