"""Long commands say where they are: lines on stderr, a bar on a terminal, and nothing of it on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from eqfuse.benches import greedy
from eqfuse.benches.subjects import SUBJECTS
from eqfuse.show import progress as module
from eqfuse.show.progress import progress

COMMAND = """
import time
from eqfuse.show import progress

progress.INTERVAL = 0.05
with progress.progress(2) as display:
    display.step("first")
    print("a row", flush=True)
    time.sleep(0.3)
    display.step("second [b]")
    time.sleep(0.3)
"""


def test_a_line_tells_step_and_seconds_where_stderr_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.02)
    with progress(2) as display:
        display.step("measuring G1")
        time.sleep(0.2)
        display.step("measuring G2")
        time.sleep(0.2)
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.err.splitlines()]
    assert ["0/2", "0", "s", "measuring", "G1"] in lines and ["1/2", "0", "s", "measuring", "G2"] in lines
    assert printed.out == ""


def test_a_step_that_is_told_at_its_end_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.02)
    with progress(3) as display:
        display.ended("exp_of_sum")
        time.sleep(0.2)
    assert "1/3      0 s  exp_of_sum is done" in capsys.readouterr().err


def test_a_short_command_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as display:
        display.say("adding")
    assert capsys.readouterr() == ("", "")


def test_an_error_inside_ends_the_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.02)
    with pytest.raises(ValueError, match="no"), progress() as display:
        display.say("refusing")
        raise ValueError("no")
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")
def test_a_terminal_shows_a_bar_and_rows_stay_on_stdout() -> None:
    import pty

    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    done = subprocess.run([sys.executable, "-c", COMMAND], env=environment, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0 and done.stdout == b"a row\n"
    assert "1/2" in shown and "first" in shown and "second [b]" in shown and "a row" not in shown


def test_the_quick_comparison_has_a_graph_of_every_group() -> None:
    assert {SUBJECTS[id].group for id in greedy.QUICK} == {subject.group for subject in SUBJECTS.values()}
