"""What runs a plan, bound to memory and lent to one call at a time.

In: what binds it to an arena. Out: `BoundMemory`. Memory of a call that ends by an error is not used again: workers may
still write there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from eqfuse.plan.memory import Arena, arenas

OWN_ARENA = 1 << 20  # an arena up to this size stays with its program

Bound = TypeVar("Bound")


class BoundMemory(Generic[Bound]):
    """What is bound to arenas of `nbytes`."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._ready: list[Bound] = []  # bound to small arenas, while no call uses them

    def take(self, bind: Callable[[Arena], Bound]) -> tuple[Bound, Arena | None]:
        """What `bind` makes, until it is given back; and the arena that it is bound to, if that is not its own."""
        if self._nbytes <= OWN_ARENA:
            try:
                return self._ready.pop(), None
            except IndexError:
                return bind(Arena(self._nbytes)), None
        arena = arenas.take(self._nbytes)
        bound: Bound | None = arena.laid.get(self)
        if bound is None:
            bound = arena.laid[self] = bind(arena)
        return bound, arena

    def give(self, bound: Bound, arena: Arena | None) -> None:
        """Take back what was taken."""
        if arena is None:
            self._ready.append(bound)
        else:
            arenas.give(arena)
