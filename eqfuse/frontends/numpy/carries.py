"""What passes from one step of a loop to the next: arrays that nest as the user has them, each of one type.

In: what a loop is given, and what a step returns. Out: leaves in order, as tracers where a function is traced and as
NumPy's arrays elsewhere; a step that changes their types is refused, by the name of the leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, ShapeError, TraceError, line_of
from eqfuse.frontends.numpy.number import Number, is_number, number_kind
from eqfuse.frontends.numpy.promotion import lift, with_dtype
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import current
from eqfuse.ir.accepted import supported_array
from eqfuse.ir.arithmetic import NUMBER_KINDS
from eqfuse.ir.pytree import Structure, paths, tree_leaves, unflatten
from eqfuse.ops.loops import CONDITION
from eqfuse.ops.types import TensorType


class Carries:
    """The leaves of `tree`, which `loop` is given as its `what`."""

    def __init__(self, loop: str, what: str, tree: Any) -> None:
        leaves, self.structure = tree_leaves(tree)
        self.loop, self.what = loop, what
        self.paths = paths(self.structure, what)
        self.values = [array_of(leaf, f"{path} of {loop}") for leaf, path in zip(leaves, self.paths, strict=True)]
        self.types = [type_of(v) for v in self.values]

    def tree(self, leaves: Sequence[Any]) -> Any:
        """`leaves` as they nest for the user."""
        return unflatten(self.structure, leaves)

    def after(self, tree: Any) -> list[Any]:
        """The leaves of what a step returns, each of the type that it had before."""
        leaves, structure = tree_leaves(tree)
        self._refuse_other(structure)
        arrays = [like(leaf, t) for leaf, t in zip(leaves, self.types, strict=True)]
        for leaf, path, t in zip(arrays, self.paths, self.types, strict=True):
            if type_of(leaf) != t:
                raise _changed(f"{path} of {self.loop}", t, leaf)
        return arrays

    def _refuse_other(self, structure: Structure) -> None:
        if structure != self.structure:
            raise TraceError(
                f"a step of {self.loop} returns {tree_text(structure)} where its {self.what} is "
                f"{tree_text(self.structure)}: a step returns the same containers, of as many arrays, as it takes"
            )


def tree_text(structure: Structure) -> str:
    """The containers of a tree, with a dot for every array: ``(·, {'w': ·})``."""
    kind, keys, children, _ = structure
    inner = [tree_text(child) for child in children]
    if kind is None:
        return "·"
    if kind in (tuple, list):
        return f"({', '.join(inner)}{',' * (len(inner) == 1)})" if kind is tuple else f"[{', '.join(inner)}]"
    if kind is dict:
        return f"{{{', '.join(f'{key!r}: {child}' for key, child in zip(keys, inner, strict=True))}}}"
    return f"{kind.__name__}({', '.join(map(str, keys) if not children else inner)})"


def type_of(value: Any) -> TensorType:
    return TensorType(value.dtype, value.shape)


def array_of(value: Any, what: str) -> Any:
    """`value` as an array of its own, in C order; a NumPy scalar where it has no axes."""
    if not isinstance(value, (Tracer, Number, np.ndarray, np.generic)) and not is_number(value):
        raise TraceError(
            f"the {what} is a {type(value).__module__}.{type(value).__qualname__}, not an array, a number, or a "
            "container of these: convert it by np.asarray"
        )
    if current() is not None:
        return wrap(lift(value).node)
    return np.array(supported_array(value, f"the {what}"), order="C")[()]


def like(value: Any, t: TensorType) -> Any:
    """`value` as `array_of` gives it; a Python number in the dtype of `t` where that is no narrower kind of number."""
    if is_number(value):
        kind = number_kind(value) or next(k for k in NUMBER_KINDS if isinstance(value, k))
        if np.result_type(t.dtype, kind()) == t.dtype:
            constant = with_dtype(value, t.dtype)
            return constant.literal.array[()] if current() is None else wrap(constant)
    return array_of(value, "result of a step")


def condition(value: Any) -> Any:
    """`value`, which decides whether a loop goes on or which branch is taken, as a bool scalar."""
    array = array_of(value, "condition")
    if type_of(array) != CONDITION:
        raise DtypeError(
            f"the condition is {type_of(array)}, not one bool: compare (error > 1e-6, x != 0), and join many by .all() "
            "or .any()"
        )
    return array


def pair(value: Any) -> tuple[Any, Any]:
    """What a step of a scan returns."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TraceError("a step of ef.scan returns two things, the carry and what is stacked: return carry, y")
    return value[0], value[1]


def _changed(what: str, before: TensorType, value: Any) -> ShapeError:
    after = type_of(value)
    place = value.user_place if isinstance(value, Tracer) else None
    line = "" if place is None else f" (made at {line_of(place)})"
    instead = (
        f"Return it as .astype(np.{before.dtype.name}), or begin with one of {after.dtype.name}"
        if before.shape == after.shape
        else f"Return one of shape {before.shape}, or begin with one of shape {after.shape}"
    )
    kind = DtypeError if before.shape == after.shape else ShapeError
    return kind(f"the {what} is {before} before a step and {after} after it{line}: its type must not change. {instead}")
