"""Where stand-ins are put while a function is traced: under every name, and in every container, by which it comes to
what they stand for.

In: what a function about to be traced can reach. Out: nothing; for as long as the `with` lasts, they stand there.
"""

from __future__ import annotations

import functools
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.converted import Constant
from eqfuse.frontends.numpy.distributions import ReplacedNames
from eqfuse.frontends.numpy.reach import Builtin, Namespace, ReachableState, reach
from eqfuse.frontends.numpy.stand_ins import everywhere, stand_in_for

Items = Mapping[Any, Any]

_lock = threading.Lock()
_placed: dict[tuple[int, Any], list[Any]] = {}  # by namespace and name: the original, its stand-in, and how many traces
_hidden: list[ReplacedNames] = []  # NumPy's modules, and what they hold without a trace and within one
_traces = 0  # how many run now, in all threads


def reached_from(roots: Mapping[str, Any]) -> ReachableState:
    """What functions and objects can reach, whatever stands in for it now."""
    with _lock:
        return reach(roots, original)


@contextmanager
def stand_ins(reached: ReachableState) -> Iterator[None]:
    """Let the stand-ins be found under every name that a function and what it calls can reach."""
    global _traces
    with _lock:
        placed = [(namespace, name, _place(namespace, name, value)) for namespace, name, value in reached.names]
        if not _traces:
            _hidden[:] = everywhere()
            for module, _, replacements in _hidden:
                module.update(replacements)
        _traces += 1
    try:
        yield
    finally:
        with _lock:
            for namespace, name, entry in placed:
                if entry is not None:
                    _give_back(namespace, name, entry)
            _traces -= 1
            if not _traces:
                for module, originals, _ in _hidden:
                    module.update(originals)
                _hidden.clear()


def _place(namespace: Namespace, name: Any, value: Any) -> list[Any] | None:
    """Let the stand-in for `value`, if it has one, be found under `name`."""
    key = (id(namespace), name)
    if key not in _placed:
        stand_in = Constant.from_array(value) if type(value) is np.ndarray else stand_in_for(value)
        if stand_in is None:
            return None
        _placed[key] = [value, stand_in, 0]
        _set(namespace, name, stand_in)
    _placed[key][2] += 1
    return _placed[key]


def _give_back(namespace: Namespace, name: Any, entry: list[Any]) -> None:
    """Let the original be found again, once no trace needs the stand-in. What the function put there instead stays."""
    key = (id(namespace), name)
    entry[2] -= 1
    untouched = _get(namespace, name) is entry[1]
    if _placed.get(key) is entry and not (entry[2] and untouched):
        del _placed[key]
        if untouched:
            _set(namespace, name, entry[0])


def original(namespace: Namespace, name: Any) -> Any:
    """The value of `name`, whatever stands in for it now."""
    entry, value = _placed.get((id(namespace), name)), _get(namespace, name)
    return entry[0] if entry is not None and value is entry[1] else value


def as_before(holder: Any, items: Items) -> Items:
    """`items`, what `holder` has by key, whatever stands in for some of it now."""
    if not _placed:
        return items
    entries = {key: _placed.get((id(holder), key)) for key in items}
    return {
        key: value if (entry := entries[key]) is None or value is not entry[1] else entry[0]
        for key, value in items.items()
    }


def _get(namespace: Namespace, name: Any) -> Any:
    if isinstance(namespace, types.CellType):
        return None if namespace == types.CellType() else namespace.cell_contents
    if isinstance(namespace, dict):
        return namespace.get(name)
    if isinstance(namespace, (list, deque)):
        return namespace[name] if name < len(namespace) else None
    own = getattr(namespace, "__dict__", {})
    return own.get(name) if name in own or isinstance(namespace, type) else getattr(namespace, name, None)


def _set(namespace: Namespace, name: Any, value: Any) -> None:
    if isinstance(namespace, types.CellType):
        namespace.cell_contents = value
    elif isinstance(value, Builtin):
        del namespace[name]
    elif isinstance(namespace, (dict, list, deque)):
        namespace[name] = value
    elif isinstance(namespace, type):
        type.__setattr__(namespace, name, value)
    elif isinstance(namespace, functools.partial):
        held = {key: getattr(namespace, key) for key in ("func", "args", "keywords")} | {name: value}
        namespace.__setstate__((*held.values(), vars(namespace)))  # type: ignore[attr-defined]
    else:
        object.__setattr__(namespace, name, value)
