"""What a call of a traced function takes and gives: its arguments by name, which are static, what is written to.

In: a call's arguments. Out: the arrays that the graph takes, and of its outputs the function's results.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.lib.array_utils import byte_bounds

from eqfuse.errors import ShapeError, TraceError
from eqfuse.ir.arithmetic import Arithmetic
from eqfuse.ir.graph import CallArguments
from eqfuse.ir.parameters import CallForms, positional_parameters
from eqfuse.ir.pytree import LEAF, LEAVES, Structure, leaf_structures, paths, tree_leaves, unflatten
from eqfuse.ir.strides import Strides, strides_of
from eqfuse.machine.device_arrays import bounds, dlpack_device

if TYPE_CHECKING:
    from eqfuse.frontends.numpy.random import RandomCall


@dataclass(frozen=True)
class CallSignature:
    """How the traced function's arguments and results nest. `arguments` is the structure of (args, kwargs)."""

    parameters: inspect.Signature | None
    static: frozenset[str]
    arguments: Structure
    results: Structure
    sources: tuple[int, ...]  # where each result is, among the graph's outputs and behind these the numbers' values
    written: tuple[int, ...]  # inputs changed in place: the graph's last outputs are what they become
    layouts: tuple[tuple[int, Strides], ...]  # inputs whose layout in memory decides what the function does: their own
    draws: tuple[RandomCall, ...]  # random numbers that a call draws, in order: inputs after those of the arguments
    apart: tuple[int, ...]  # leaves of the arguments that are no inputs: random generators and Python numbers
    arithmetic: Arithmetic  # what a call computes with its Python numbers; some of it are the graph's last inputs
    rules: tuple[str, ...] = ()  # what the function calls that has a gradient of its own

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> list[Any]:
        """The leaves of the arguments. ShapeError when they nest otherwise than when traced."""
        if not kwargs and len(args) == self._arrays and LEAVES.issuperset(map(type, args)):
            return [*args]
        (positional, named), _ = self._forms.split(args, kwargs or {})
        leaves, structure = tree_leaves((positional, named))
        if structure != self.arguments:
            raise ShapeError(
                f"the arguments nest differently than when the program was traced: {_described(structure)} instead of "
                f"{_described(self.arguments)}; compile the function for these arguments, or call it through ef.jit"
            )
        return leaves

    @cached_property
    def _forms(self) -> CallForms:
        return CallForms(self.parameters, self.static)

    @cached_property
    def _arrays(self) -> int:
        """How many arguments there are, where all are leaves and none has a name; else -1."""
        positional, named = self.arguments.children
        all_leaves = not named.children and all(child is LEAF or child == LEAF for child in positional.children)
        return len(positional.children) if all_leaves and not self.static else -1

    @cached_property
    def pure(self) -> bool:
        """Does a call neither change its arguments, nor ask how they lie in memory, nor draw random numbers?"""
        return not (self.written or self.layouts or self.draws or self.apart or self.arithmetic.steps)

    def feed(self, leaves: Sequence[Any]) -> CallArguments:
        """What a call's `leaves` give the graph, random numbers drawn now. ShapeError for one that cannot change."""
        arrays = [leaf for i, leaf in enumerate(leaves) if i not in self.apart]
        for i, strides in self.layouts:
            if strides_of(arrays[i]) != strides:
                raise ShapeError(_other_layout(arrays[i], strides))
        for i in self.written:
            if isinstance(arrays[i], np.ndarray) and not arrays[i].flags.writeable:
                raise ShapeError(
                    f"the function changes the argument {self._name(i)} in place, which is read-only: pass a copy of it"
                )
        if self.written and len(arrays) > 1:
            self._lie_apart(arrays)
        drawn = [draw.now(leaves) for draw in self.draws]
        numbers = self.arithmetic.values(leaves, drawn)
        arrays += [array for i, array in enumerate(drawn) if i not in self.arithmetic.drawn]
        return CallArguments(arrays + [numbers[place] for place in self.arithmetic.inputs], numbers)

    def _lie_apart(self, arrays: Sequence[Any]) -> None:
        """ShapeError where an argument that is changed in place shares memory with another."""
        if _own_memory(arrays):
            return
        for pair in _sharing(arrays):
            written, other = sorted(pair, key=lambda i: i not in self.written)
            if written in self.written:
                raise ShapeError(
                    f"the function changes the argument {self._name(written)} in place, whose memory another argument "
                    f"shares: {self._name(other)}. Pass a copy of one of them"
                )

    def _name(self, place: int) -> str:
        """The argument that is the array at `place`, as the function's author would write it."""
        names = input_names(self.parameters, self.arguments)
        return repr([name for i, name in enumerate(names) if i not in self.apart][place])

    def select(self, fed: CallArguments, outputs: Sequence[Any]) -> list[Any]:
        """The results, as they follow each other in their structure."""
        values = [*outputs, *fed.numbers]
        return [values[i] for i in self.sources]

    def settle(self, fed: CallArguments, outputs: Sequence[Any]) -> list[Any]:
        """The results, after the arrays are changed as the function changes them. Such an array may be a result."""
        final = list(outputs)
        for i, place in zip(self.written, range(len(final) - len(self.written), len(final)), strict=True):
            array = fed.arrays[i]
            try:
                array[...] = final[place]
            except TypeError as error:  # of JAX's arrays
                raise TraceError(
                    f"the function changes the argument {self._name(i)} in place, which its library refuses: {error}"
                ) from None
            final[place] = array
        return self.select(fed, final)

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns, around `results`."""
        if self._is_one:
            return results[0]
        return tuple(results) if self._is_tuple else unflatten(self.results, results)

    @cached_property
    def result_leaves(self) -> Sequence[Structure]:
        """What each result is: an array, or a scalar."""
        return leaf_structures(self.results)

    @cached_property
    def _is_one(self) -> bool:
        """Is one array all that the function returns?"""
        return self.results == LEAF

    @cached_property
    def _is_tuple(self) -> bool:
        """Is a tuple of arrays all that the function returns?"""
        return self.results.kind is tuple and all(child == LEAF for child in self.results.children)


@dataclass(frozen=True)
class NamedSignature:
    """Arrays in and out by name, in this order: what a program read from a model or a text takes and gives."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pure = True
    written: ClassVar[tuple[int, ...]] = ()
    rules: ClassVar[tuple[str, ...]] = ()

    @property
    def parameters(self) -> inspect.Signature | None:
        """The inputs by name, where all names are Python's."""
        return positional_parameters(self.inputs)

    @property
    def result_leaves(self) -> Sequence[Structure]:
        """Each result is an array."""
        return (LEAF,) * len(self.outputs)

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        positional = dict(zip(self.inputs, args, strict=False))
        wrong = [name for name in kwargs if name in positional or name not in self.inputs]
        missing = [name for name in self.inputs if name not in positional and name not in kwargs]
        if wrong or missing or len(args) > len(self.inputs):
            raise ShapeError(
                f"the inputs are {', '.join(map(repr, self.inputs))}; {len(args)} arrays were given by "
                f"position, and {', '.join(map(repr, kwargs)) or 'none'} by name"
            )
        return [positional[name] if name in positional else kwargs[name] for name in self.inputs]

    def feed(self, leaves: Sequence[Any]) -> CallArguments:
        return CallArguments(leaves)

    def select(self, fed: CallArguments, outputs: Sequence[Any]) -> list[Any]:
        return list(outputs)

    settle = select

    def rebuild(self, results: Sequence[Any]) -> Any:
        """The one result, or a named tuple of several (``_0`` where a name is none of Python's)."""
        return results[0] if len(self.outputs) == 1 else self._several(*results)

    @cached_property
    def _several(self) -> Callable[..., Any]:
        return namedtuple("Outputs", self.outputs, rename=True)


def _other_layout(array: Any, strides: Strides) -> str:
    wanted = "in C order" if strides is None else f"with strides {strides}"
    return (
        "what the function does depends on how an argument lies in memory: it was traced for one "
        f"{wanted}, this one has strides {array.strides}. Pass a copy of it (np.ascontiguousarray(x)), compile for an "
        "example that lies so, or call the function through ef.jit, which does"
    )


def _own_memory(arrays: Sequence[Any]) -> bool:
    """Has each array memory of its own, or part of what is NumPy's own and no other's? (To ask takes a tenth of the
    time that their bounds take.)"""
    owners = set()
    for array in arrays:
        while type(array) is np.ndarray and array.base is not None:
            array = array.base
        if type(array) is not np.ndarray or not array.flags.owndata:
            return False
        owners.add(id(array))
    return len(owners) == len(arrays)


def _sharing(arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The pairs of arrays that share memory, by their places."""
    spans = sorted((*_bounds(a), i) for i, a in enumerate(arrays) if _lies_somewhere(a))
    before: list[tuple[int, int]] = []  # where an array ends, and which it is
    for start, stop, i in spans:
        before = [(end, j) for end, j in before if end > start]
        for _, j in before:
            if _overlap(arrays[i], arrays[j]):
                yield i, j
        before.append((stop, i))


def _lies_somewhere(array: Any) -> bool:
    return isinstance(array, np.ndarray) or dlpack_device(array) is not None


def _bounds(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one behind its last, here or on a GPU."""
    return byte_bounds(array) if isinstance(array, np.ndarray) else bounds(array)


def _overlap(a: Any, b: Any) -> bool:
    """Do two arrays share memory? Where that is too hard to tell: yes."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return True  # on a GPU, where their bounds overlap
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _described(structure: Structure) -> str:
    positional, named = structure.children
    return f"{len(positional.children) + len(named.children)} arguments with {len(paths(structure))} arrays"


def input_names(parameters: inspect.Signature | None, structure: Structure) -> list[str]:
    """A distinct name per leaf, as the user would write it: ``x``, ``params['w']``."""
    positional, named = structure.children
    names = list(parameters.parameters.values()) if parameters is not None else []
    leaf_names: list[str] = []
    for i, child in enumerate(positional.children):
        if i < len(names) and names[i].kind in (names[i].POSITIONAL_ONLY, names[i].POSITIONAL_OR_KEYWORD):
            leaf_names += paths(child, names[i].name)
        else:
            leaf_names += paths(child, f"args[{i}]")
    for key, child in zip(named.keys, named.children, strict=True):
        leaf_names += paths(child, str(key))
    return leaf_names
