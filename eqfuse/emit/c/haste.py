"""Which kernels are compiled with care, which in little time and which not at all, where the budget is short.

In: C kernels, and the seconds that a compiler may take. Out: names of kernels. Next stop: `executable`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import numpy_side
from eqfuse.emit.c.kernels import CKernel, kernel_texts
from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.machine.thread_limit import thread_count

PACE, QUICK_PACE = 2.5e-5, 1.5e-5  # seconds of gcc for a character of a kernel, with all optimisations and with fewer
LEAST = 3.0  # seconds that the compiler may take for a program, even where nothing is left of the budget


def hurried(kernels: Collection[CKernel], seconds: float) -> set[str]:
    """The names of those kernels that are compiled in little time though they are not quick, so that all are compiled
    within about `seconds`: where these do not suffice, those that take the longest are the ones compiled with care."""
    careful = [k for k in kernels if not k.is_quick]
    if not careful:
        return set()
    left = seconds * thread_count() - _quick_seconds(kernels)
    names = set()
    for k in sorted(careful, key=lambda k: -k.schedule.seconds):
        left -= (PACE - QUICK_PACE) * len(k.text.source)
        if left < 0:
            names.add(k.name)
    return names


def are_too_many(kernels: Collection[CKernel], seconds: float) -> bool:
    """Can the `kernels` not all be compiled within about `seconds`, however quickly?"""
    return _quick_seconds(kernels) > seconds * thread_count()


def left_to_numpy(
    kernels: Sequence[CKernel], by_numpy: Mapping[str, NumpyKernel], device: Device, seconds: float
) -> set[str]:
    """The names of those of `kernels`, one for each of a program's calls, that run `by_numpy`, so that the others are
    compiled within about `seconds`: those for which the compiler's time gains least."""
    calls, side, each = Counter(k.name for k in kernels), numpy_side(device), {k.name: k for k in kernels}
    texts = kernel_texts(each.values())

    def gain(alike: tuple[str, ...]) -> float:
        """Seconds of a call, for one of the compiler's."""
        prices = {name: by_numpy[name].schedule.price(side) for name in alike}
        saved = [calls[n] * (price.seconds - each[n].schedule.seconds) for n, price in prices.items() if price]
        return sum(saved) / len(texts[alike])

    excess = QUICK_PACE * sum(map(len, texts.values())) - seconds * thread_count()
    names: set[str] = set()
    for alike in sorted([alike for alike in texts if by_numpy.keys() >= {*alike}], key=gain):
        if excess <= 0:
            break
        names |= {*alike}
        excess -= QUICK_PACE * len(texts[alike])
    return names


def _quick_seconds(kernels: Collection[CKernel]) -> float:
    """That one core takes to compile `kernels`, all of them quickly."""
    return QUICK_PACE * sum(map(len, kernel_texts(kernels).values()))
