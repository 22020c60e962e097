"""A program of others, at work beside us: whatever it does, it ends in time, and what it prints stays short."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

PRINTED = 1 << 16  # bytes of its output that are kept
GRACE = 5.0  # seconds for a killed program to be gone


class ForeignProcess:
    """Starts `command` in `folder`, with all it prints in one stream. OSError where it cannot be run at all.

    It is a process group of its own: no Ctrl-C of ours ends it halfway, and `end` ends all that it has started.
    """

    def __init__(self, command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]) -> None:
        self._ends = time.monotonic() + seconds
        self._printed = b""
        self._process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "LC_ALL": "C", **environment}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
        )  # fmt: skip
        self._reader = Thread(target=self._read, daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:
            self.end()
            raise OSError(str(error)) from None

    @property
    def ended(self) -> bool:
        """Whether it is done, or its time over."""
        return not (self._reader.is_alive() and self._left)

    def result(self) -> tuple[int | None, str]:
        """Waits for it: its status, None where its time is over, and what it has printed."""
        self._reader.join(self._left)  # its output ends with it, which is noticed sooner than by asking for its status
        status = None
        if not self._reader.is_alive():
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(self._left)
        self.end()
        self._reader.join(GRACE)
        return status, self._printed.decode(errors="replace")

    def end(self) -> None:
        """Kill it, if it still runs, and what it has started."""
        if self._process.returncode is not None:
            return  # waited for: its number may be another's by now
        with suppress(OSError):  # all gone
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # not even a kill ends a process that waits for a dead disk
            self._process.wait(GRACE)

    @property
    def _left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while piece := stream.read(PRINTED):
                self._printed += piece[: PRINTED - len(self._printed)]
