"""What the system tells a function, the time and random bits: others at each call, for which a program would not ask.

In: functions and classes of Python's own. Out: what stands in for them while a function is traced, and refuses to tell
the user's code. Libraries are told, of which some keep the time. Used by `stand_ins.py`.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
import types
import uuid
from collections.abc import Callable
from typing import Any

from eqfuse.errors import TraceError, is_users
from eqfuse.frontends.numpy.converted import ClassStandIn, StandIn
from eqfuse.frontends.numpy.tracing import current

_TIME = "pass the time as an argument. How long a program takes is measured around its calls"
_BITS = "draw from a generator, np.random.default_rng(), or pass the value as an argument"


def _refusing(original: Callable[..., Any], name: str, instead: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if current() is None or not is_users(sys._getframe(2)):
            return original(*args, **kwargs)
        raise TraceError(
            f"{name}() would be read once, while the function is traced, and be the same at every call of its program: "
            f"{instead}"
        )

    return call


def _refused(module: types.ModuleType, names: str, instead: str) -> dict[str, StandIn]:
    """Stand-ins for the functions of `module`, by those of the `names` that it has here."""
    originals = {name: getattr(module, name) for name in names.split() if hasattr(module, name)}
    return {
        name: StandIn(original, _refusing(original, f"{module.__name__}.{name}", instead))
        for name, original in originals.items()
    }


class _Calendar(ClassStandIn):
    """A class of dates, whose methods that ask for the time are refused."""

    def __init__(self, original: type) -> None:
        super().__init__(original, original)
        for name in ("now", "utcnow", "today"):
            if hasattr(original, name):
                asking = getattr(original, name)
                told = _refusing(asking, f"{original.__name__}.{name}", _TIME)
                setattr(self, name, StandIn(asking, told))


_CLOCKS = (
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time "
    "thread_time_ns"
)
ASKED: dict[types.ModuleType, dict[str, Any]] = {
    time: _refused(time, _CLOCKS, _TIME),
    os: _refused(os, "urandom getrandom", _BITS),
    uuid: _refused(uuid, "uuid1 uuid4 uuid6 uuid7", _BITS),
}
_CALENDARS = {name: _Calendar(getattr(datetime, name)) for name in ("datetime", "date")}
_DATETIME = types.ModuleType("datetime")
vars(_DATETIME).update(vars(datetime) | _CALENDARS)

# By the identity of what they stand for. Those of dates stand under the user's names alone: what pickles a date finds
# its class by name.
READINGS: dict[int, Any] = {
    id(getattr(module, name)): stand_in for module, names in ASKED.items() for name, stand_in in names.items()
}
READINGS |= {id(getattr(datetime, name)): stand_in for name, stand_in in _CALENDARS.items()} | {id(datetime): _DATETIME}
