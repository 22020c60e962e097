"""Which kernels are compiled with care, which in little time and which not at all, where the budget is short.

In: C kernels, and the seconds that a compiler may take. Out: names of kernels. Next stop: `executable`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import numpy_side
from eqfuse.emit.c.kernels import CKernel
from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.machine.thread_limit import thread_count

PACE, QUICK_PACE = 2.5e-5, 1.5e-5  # seconds of gcc for a character of a kernel, with all optimisations and with fewer
LEAST = 2.0  # seconds that the compiler may take for a program, even where nothing is left of the budget


def hurried(kernels: Collection[CKernel], seconds: float) -> set[str]:
    """The names of those kernels that are compiled in little time though they are not quick, so that all are compiled
    within about `seconds`: where these do not suffice, those that take the longest are the ones compiled with care."""
    lengths = _lengths(kernels)
    left = seconds * thread_count() - QUICK_PACE * sum(lengths.values())
    names = set()
    for k in sorted(kernels, key=lambda k: -k.schedule.seconds):
        if not k.is_quick:
            left -= (PACE - QUICK_PACE) * lengths[k.name]
            if left < 0:
                names.add(k.name)
    return names


def are_too_many(kernels: Collection[CKernel], seconds: float) -> bool:
    """Can the `kernels` not all be compiled within about `seconds`, however quickly?"""
    return QUICK_PACE * sum(_lengths(kernels).values()) > seconds * thread_count()


def left_to_numpy(
    kernels: Sequence[CKernel], by_numpy: Mapping[str, NumpyKernel], device: Device, seconds: float
) -> set[str]:
    """The names of those of `kernels`, one for each of a program's calls, that run `by_numpy`, so that the others are
    compiled within about `seconds`: those for which the compiler's time gains least."""
    calls, side, lengths = Counter(k.name for k in kernels), numpy_side(device), _lengths(kernels)

    def gain(k: CKernel) -> float:
        """Seconds of a call, for one of the compiler's."""
        price = by_numpy[k.name].schedule.price(side)
        return calls[k.name] * (price.seconds - k.schedule.seconds) / lengths[k.name] if price else 0.0

    excess = QUICK_PACE * sum(lengths.values()) - seconds * thread_count()
    names: set[str] = set()
    for k in sorted({k.name: k for k in kernels if k.name in by_numpy}.values(), key=gain):
        if excess <= 0:
            break
        names.add(k.name)
        excess -= QUICK_PACE * lengths[k.name]
    return names


def _lengths(kernels: Collection[CKernel]) -> dict[str, int]:
    return {k.name: len(k.text.source) for k in kernels}
