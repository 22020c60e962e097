"""A program that runs while a faster one is made, in a thread of its own.

In: a program, and what makes the other. Out: `PendingProgram`, which becomes the other when that is there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import Thread

from eqfuse.runtime.program import Program


class PendingProgram(Program):
    """It runs, and reports, as `program` until `make` has given another, and from then on as that one. A process does
    not end before `make` does."""

    def __init__(self, program: Program, make: Callable[[], Program]) -> None:
        vars(self).update(vars(program))
        self._maker = Thread(target=self._replaced, args=(make,), name="eqfuse-compile")
        self._maker.start()

    def wait(self, seconds: float | None = None) -> bool:
        self._maker.join(seconds)
        return not self._maker.is_alive()

    def _replaced(self, make: Callable[[], Program]) -> None:
        try:
            program = make()
        except Exception as error:  # it runs in nobody's call, so nobody can catch it
            target = self.plan.device.name
            warnings.warn(f"no faster program was made, and the one for {target} goes on: {error}", stacklevel=2)
        else:
            self.__dict__ = vars(program) | {"_maker": self._maker}  # at once: other threads are calling
