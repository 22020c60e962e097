"""Where windows find the elements of an image that is copied: every so many rows and columns apart, as windows move.

In: an `Axis`. Out: `Phase`s, and the phase and place of each element of a window. Next stop: `parts.py`.
Of a window that moves by s, element t of the window at place p is the element p + t // s of phase t % s.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.emit.c.sliding.axes import Axis


@dataclass(frozen=True)
class Phase:
    """The elements `first`, `first` + `step`, … of an image, `count` of them, of which the first is number `start`
    among those that windows find, counted from the padding on."""

    number: int
    first: int
    step: int
    count: int
    start: int

    @property
    def stop(self) -> int:
        return self.first + (self.count - 1) * self.step + 1 if self.count else self.first


def phases(axis: Axis) -> list[Phase]:
    """Those that any element of a window is in."""
    phases_used = []
    for number in sorted({tap * axis.dilation % axis.stride for tap in range(axis.window)}):
        shifts = [shift for phase, shift in taps(axis) if phase == number]
        low = -(-max(0, axis.before - number) // axis.stride)
        last = axis.places - 1 + max(shifts)
        high = min(last, (axis.extent - 1 + axis.before - number) // axis.stride)
        first = low * axis.stride + number - axis.before
        phases_used.append(Phase(number, first, axis.stride, max(0, high - low + 1), low))
    return phases_used


def taps(axis: Axis) -> list[tuple[int, int]]:
    """Of each element of a window its phase, and how many places further it lies there."""
    return [divmod(tap * axis.dilation, axis.stride)[::-1] for tap in range(axis.window)]


def farthest_place(axis: Axis) -> int:
    """How many places further than its window the last element lies, at most."""
    return (axis.reach - 1) // axis.stride
