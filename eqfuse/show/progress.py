"""Where a long command is, on stderr: a bar on a terminal; elsewhere a line every few seconds.

In: the steps of the command, told as they begin. Nothing is written by a command that ends within the first interval.
"""

from __future__ import annotations

import logging
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread, local

INTERVAL = 5.0  # seconds between lines
QUIET_SECONDS = 1.0  # seconds that a compile may take before it says where it is
REFRESHED = 0.1  # seconds between two looks at where it is
_shown: list[Progress] = []  # while a command shows one, compiles within it show none of their own
_telling = local()  # `to`: who is told what this thread is doing


class Progress:
    """The step that a command is in. `total`: how many steps there are, where that is known."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.done = 0
        self.doing = "starting"
        self._begun = False

    def step(self, doing: str) -> None:
        """The next step begins, and so the one before has ended."""
        self.done += self._begun
        self._begun = True
        self.say(doing)

    def ended(self, step: str) -> None:
        """A step has ended of which no beginning was told."""
        self.done += 1
        self.say(f"{step} is done")

    def say(self, doing: str) -> None:
        """What is being done within the present step."""
        self.doing = doing


@contextmanager
def progress(total: int | None = None) -> Iterator[Progress]:
    """Shows the `Progress` that it gives until its block ends."""
    with _bar(total) if sys.stderr.isatty() else _lines(total) as shown:
        _shown.append(shown)
        try:
            yield shown
        finally:
            _shown.remove(shown)


@contextmanager
def patiently() -> Iterator[Callable[[str], None]]:
    """A function to be told what is being done. After a second, in the middle of a long step too, that is shown on a
    terminal; elsewhere one line is written to the log "eqfuse". Within another one of this thread it is that one."""
    if outer := getattr(_telling, "to", None):
        yield outer
        return
    # Bare locks: a second interrupt in the middle of an Event of Python's ends in its RuntimeError.
    bar, going, shown = Progress(), Lock(), Lock()
    going.acquire()
    shown.acquire()
    try:
        start_new_thread(_show, (bar, going, shown))
        _telling.to = bar.say
        yield bar.say
    finally:
        _telling.to = None
        going.release()
        shown.acquire(timeout=QUIET_SECONDS)  # until the bar is gone


def _show(stage: Progress, going: Lock, shown: Lock) -> None:
    """Show where `stage` is until `going` is free, and set `shown` free."""
    try:
        if going.acquire(timeout=QUIET_SECONDS):
            return
        if _shown or not sys.stderr.isatty():
            logging.getLogger("eqfuse").info("compiling takes long: %s", stage.doing)
            return
        with progress() as bar:
            while not going.acquire(timeout=REFRESHED):
                bar.say(stage.doing)
    finally:
        shown.release()


@contextmanager
def _lines(total: int | None) -> Iterator[Progress]:
    shown, over, started = Progress(total), Event(), time.monotonic()

    def write() -> None:
        while not over.wait(INTERVAL):
            place = "" if total is None else f"{shown.done}/{total}  "
            print(f"{place}{time.monotonic() - started:5.0f} s  {shown.doing}", file=sys.stderr, flush=True)

    thread = Thread(target=write, name="eqfuse progress", daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        over.set()
        thread.join()


@contextmanager
def _bar(total: int | None) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    counted = () if total is None else (BarColumn(), MofNCompleteColumn())
    columns = (SpinnerColumn(), *counted, TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    console = Console(stderr=True)  # rows that a command prints stay on stdout, also where that is a file
    with Bar(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("starting", total=total)

        class ProgressBar(Progress):
            def say(self, doing: str) -> None:
                super().say(doing)
                bar.update(task, completed=self.done, description=doing)

        yield ProgressBar(total)
