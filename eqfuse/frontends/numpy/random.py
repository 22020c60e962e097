"""Random numbers inside a traced function: drawn when the program is called, in the order the function draws them.

In: methods of a generator. Out: tracers for further inputs of the graph, and the `RandomCall`s that fill them at each
call. No law and no kernel ever sees the generator, so a draw is never repeated, dropped or moved.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from eqfuse.errors import ArgumentError, ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy.dispatch import on_values, tracers
from eqfuse.frontends.numpy.number import Number, is_number, number_kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.reach import GENERATORS as GENERATORS
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.tracing import current, untraced
from eqfuse.ir.graph import input_node
from eqfuse.ops.types import TensorType


def _normal(z: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return loc + scale * z


def _uniform(u: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    return low + (high - low) * u


def _exponential(e: Any, scale: Any = 1.0) -> Any:
    return scale * e


# methods whose parameters may be traced: the parameters, the standard method, and NumPy's own step from there
_STANDARD: dict[str, tuple[tuple[str, ...], str, Callable[..., Any]]] = {
    "normal": (("loc", "scale"), "standard_normal", _normal),
    "uniform": (("low", "high"), "random", _uniform),
    "exponential": (("scale",), "standard_exponential", _exponential),
}


# methods of Python's generators that draw something other than a number, or change what is drawn later
_NO_NUMBERS = {"choice", "choices", "sample", "shuffle", "randbytes", "seed", "getstate", "setstate"}


class RandomCall(NamedTuple):
    """One call of a generator's method. `source`: the generator, or its place among the leaves of the arguments."""

    source: Any
    method: str
    args: tuple
    kwargs: dict[str, Any]

    def now(self, leaves: Sequence[Any]) -> np.ndarray:
        generator = leaves[self.source] if isinstance(self.source, int) else self.source
        return np.asarray(getattr(generator, self.method)(*self.args, **self.kwargs))


class TracedGenerator:
    """Stands for a random generator while a function is traced; elsewhere it is the generator `real` itself."""

    def __init__(self, source: Any, real: Any) -> None:
        self._source, self._real = source, real
        self._python = isinstance(real, random.Random)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._real)

    def __eq__(self, other: Any) -> bool:
        return self._real is (other._real if issubclass(type(other), TracedGenerator) else other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __getattr__(self, name: str) -> Any:
        if current() is None:
            return getattr(self._real, name)
        if self._python and name in _NO_NUMBERS:
            return self.refuse(name, "draw from a NumPy generator, np.random.default_rng()")
        if name in ("choice", "permutation", "shuffle"):
            return self._of_elements(name)
        if not callable(getattr(self._real, name)):
            self.refuse(name)()
        if name in ("seed", "set_state", "spawn", "permuted"):
            return self.refuse(name)
        return lambda *args, **kwargs: self._draw(name, args, kwargs)

    def refuse(
        self, name: str, instead: str = "set the generator up outside the traced function"
    ) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> NoReturn:
            raise UnsupportedOp(f"{type(self._real).__name__}.{name} cannot be traced: {instead}")

        return call

    def _draw(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Tracer:
        if kwargs.pop("out", None) is not None:
            raise TraceError(f"{method} with out=: assign the drawn numbers instead, x[...] = rng.{method}(...)")
        if all(t.constant_value() is not None for t in tracers((args, kwargs))):
            return on_values(method, lambda *a, **k: self._drawn(method, a, k), args, kwargs)
        if self._python:
            raise TraceError(
                f"{method} with traced parameters: Python's generators take known ones alone. Transform what random() "
                "draws, as in a + (b - a) * random()"
            )
        if method not in _STANDARD:
            raise TraceError(
                f"{method} with traced parameters: only normal, uniform and exponential can take them. Draw standard "
                "numbers and transform them"
            )
        return self._transformed(method, args, kwargs)

    def _drawn(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Tracer | Number:
        """A new input of the graph, of the type that `method` gives, or a new Python number."""
        makes = np.random.default_rng if isinstance(self._real, np.random.Generator) else np.random.RandomState
        with untraced():
            stand_in = (random.Random if self._python else makes)(0)
            example = getattr(stand_in, method)(*args, **kwargs)
        trace = current()
        assert trace is not None
        if trace.in_loop:
            raise drawn_in_loop(method)
        draw, place = RandomCall(self._source, method, args, kwargs), len(trace.draws)
        if number_kind(example) is not None:
            trace.draws.append((None, draw))
            return Number(trace.numbers.argument("drawn", place, example))
        array = np.asarray(example)
        sample = input_node(f"{method} #{place}", TensorType(array.dtype, array.shape))
        trace.draws.append((sample, draw))
        return wrap(sample, Rights.WRITABLE if isinstance(example, np.ndarray) else None)

    def _transformed(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Tracer:
        """`method` with traced parameters: standard numbers of the result's shape, transformed as NumPy does."""
        names, standard, transform = _STANDARD[method]
        arguments = dict(zip((*names, "size"), args, strict=False)) | kwargs
        size = arguments.pop("size", None)
        if size is None and not all(map(is_number, arguments.values())):
            size = np.broadcast_shapes(*(lift(p).shape for p in arguments.values()))
        sample: Tracer = transform(self._drawn(standard, (), {"size": size}), **arguments)
        return sample

    def _of_elements(self, name: str) -> Callable[..., Any]:
        """The method `name`, which draws elements of an array. RandomState's know no axes."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if "axis" in kwargs and isinstance(self._real, np.random.RandomState):
                raise ArgumentError(f"RandomState.{name} takes no axis: Generator.{name} does")
            return getattr(self, f"_{name}")(*args, **kwargs)

        return call

    def _choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, **rest: Any) -> Any:
        array = a if np.ndim(a) else None
        if array is not None and np.ndim(a) > 1 and isinstance(self._real, np.random.RandomState):
            raise ShapeError("RandomState.choice takes an array of one axis: Generator.choice takes others")
        count = a if array is None else lift(array).shape[axis]
        chosen = self._draw("choice", (count, size, replace, p), rest)
        return chosen if array is None else lazy.take(lift(array), chosen, axis)

    def _permutation(self, x: Any, axis: int = 0) -> Any:
        if not np.ndim(x):
            return self._draw("permutation", (x,), {})
        array = lift(x)
        return lazy.take(array, self._draw("permutation", (array.shape[axis],), {}), axis)

    def _shuffle(self, x: Any, axis: int = 0) -> None:
        if not isinstance(x, Tracer):
            raise TraceError("shuffle of an array made outside the traced function: use permutation")
        x.assign(self._permutation(x, axis))


class SeededGenerator(TracedGenerator):
    """A generator that the traced function makes with a known seed: what it draws is known too, and the same at each
    call."""

    def __init__(self, real: Any) -> None:
        super().__init__(real, real)
        self._made_in = current()

    def __getattr__(self, name: str) -> Any:
        trace = current()
        if trace is None or not callable(getattr(self._real, name)):
            return getattr(self._real, name)
        if trace.in_loop and trace is not self._made_in:
            raise drawn_in_loop(name)
        if name in ("choice", "permutation", "shuffle"):
            return self._of_elements(name)
        return lambda *args, **kwargs: self._draw(name, args, kwargs)

    def _shuffle(self, x: Any, axis: int = 0) -> None:
        if isinstance(x, list):
            self._real.shuffle(x)
        else:
            super()._shuffle(x, axis)

    def _drawn(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        with untraced():
            return getattr(self._real, method)(*args, **kwargs)


def drawn_in_loop(method: str) -> TraceError:
    return TraceError(
        f"{method} is drawn in the body of a loop or a branch, which is traced once for all steps. Draw all "
        "numbers before the loop, as z = rng.normal(size=(steps, n)), and take z[i], or give z to ef.scan as xs"
    )


def legacy(method: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for ``np.random.<method>`` or ``random.<method>`` while tracing, a method of one global generator."""
    name = method.__name__
    generator = TracedGenerator(method.__self__, method.__self__)  # type: ignore[attr-defined]

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(generator, name)(*args, **kwargs)

    return call
