"""One run of a user's function on tracers: what it has made and relied on, and which run this thread is in.

In: tracers and traced numbers as they are made. Out: what `trace.trace` asks when the function has returned.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.ndarray import Operators
from eqfuse.frontends.numpy.recorder import Recorder
from eqfuse.ir.graph import Node, node

MAX_NODES = 100_000  # values of one trace
LOOP_BODY = "the body of a loop or a branch"
_state = threading.local()


class Trace:
    """One run of a user's function on tracers. Tracers live only while it is the innermost `with` of their thread, or
    while the body of a loop within it is traced: see `within`."""

    around: Trace | None = None  # of a function within the traced one: the trace that it is part of
    what = "a function that is traced"
    places: dict[Node, Any] | None = None  # where values were made first, for those who ask for it
    # of a function that is differentiated: what makes of the outputs of a graph that is called there such as are too
    differentiated: Callable[[Sequence[Node]], Sequence[Node]] | None = None

    def __init__(self) -> None:
        self.values: list[weakref.ref[Operators]] = []  # all traced arrays and numbers
        self.written: set[int] = set()  # arguments changed in place
        self.layouts: set[int] = set()  # arguments whose layout in memory the trace relies on
        self.constants: dict[Node, np.ndarray | None] = {}
        self.draws: list[tuple[Node | None, Any]] = []  # inputs that a call fills with random numbers, and how
        self.numbers = Recorder()
        self.rules: dict[str, None] = {}  # functions called that have a gradient of their own
        self.again: dict[Node, None] = {}  # values that a backward pass may not keep
        self.captured: dict[Node, None] = {}  # what it reads of the traces around it

    def within(self, what: str = LOOP_BODY) -> Trace:
        """The trace of a loop's body, or of another function: `what`. It may read what this one has made, and write to
        what it makes itself alone."""
        inner = Trace()
        inner.what = what
        inner.around, inner.values, inner.written, inner.layouts = self, self.values, self.written, self.layouts
        inner.constants, inner.draws, inner.numbers = self.constants, self.draws, self.numbers
        inner.rules, inner.places = self.rules, self.places
        return inner

    @property
    def in_loop(self) -> bool:
        """Is this the body of a loop or a branch, or a function within one?"""
        return self.what == LOOP_BODY or (self.around is not None and self.around.in_loop)

    @staticmethod
    def reads(value: Node, source: Trace | None) -> None:
        """Note in which bodies `value` is read, which is of the trace `source` around them."""
        trace = current()
        while trace is not source and trace is not None:
            trace.captured[value] = None
            trace = trace.around

    def may_write(self, memory: Trace | None, shape: tuple[int, ...]) -> None:
        """TraceError unless the `memory` of an array of this trace is of it too, and it is the innermost one."""
        if memory is not self or self is not current():
            raise TraceError(
                f"{(current() or self).what} writes to an array of shape {shape} from outside of it, which it must "
                "leave as it is. Make the array a carry of the loop, or an argument: return it, changed"
            )

    def enter(self, value: Operators) -> None:
        """One traced array or number more."""
        self.values.append(weakref.ref(value))
        if len(self.values) > MAX_NODES:
            raise TraceError(
                f"the function makes more than {MAX_NODES} operations: a Python loop over elements is unrolled when it "
                "is traced. Replace the loop by array operations, or by ef.fori_loop or ef.scan, whose step is traced "
                "once"
            )

    def require(self, value: Any) -> None:
        """TraceError unless this is the innermost trace or one around it, whose values may read `value`."""
        trace = current()
        while trace is not self and trace is not None:
            trace = trace.around
        if trace is None and self.around is not None:
            raise TraceError(
                f"a traced {value.tensor_type} of {self.what} is used outside of it, where it stands for no value: "
                "return it from there (in a loop as a carry, or as what ef.scan stacks)"
            )
        if trace is None:
            raise TraceError(
                f"a traced {value.tensor_type} is used outside the call that made it: it leaked through a global, a "
                "closure or an attribute. Return it from the traced function instead"
            )

    def __enter__(self) -> Trace:
        self._outer = getattr(_state, "trace", None)
        _state.trace = self
        return self

    def __exit__(self, *_: object) -> None:
        _state.trace = self._outer

    def leaked(self) -> Any:
        """A traced array or number that somebody still holds, or None."""
        if all(reference() is None for reference in self.values):
            return None
        gc.collect()  # of those that hold each other nobody may hold one
        return next((t for reference in self.values if (t := reference()) is not None), None)


def differentiated() -> Trace | None:
    """The innermost trace of this thread that is of a function that is differentiated."""
    trace = current()
    while trace is not None and trace.differentiated is None:
        trace = trace.around
    return trace


def held_constant(value: Node) -> Node:
    """`value`; in a function that is differentiated, and in its loops, as one that counts as a constant."""
    return value if differentiated() is None or value.op == "const" else node("stopped", (value,))


@contextmanager
def untraced() -> Iterator[None]:
    """As if nothing were traced in this thread."""
    trace, _state.trace = current(), None
    try:
        yield
    finally:
        _state.trace = trace


def current() -> Trace | None:
    """The innermost trace of this thread."""
    return getattr(_state, "trace", None)
