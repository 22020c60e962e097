"""The ladder EQFUSE_DEBUG=1…5: each rung prints what it promises, and the rungs below."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef

RUNGS = ("stopped: ", "  law ", "plan for ", "def ", "segment 0: roots c")


def program(x: np.ndarray) -> np.ndarray:
    return np.tanh(x * np.sin(x) + x * np.cos(x)) + 1


@pytest.mark.parametrize("level", range(6))
def test_each_rung_prints_its_part_and_those_below(
    level: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EQFUSE_DEBUG", str(level))
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    ef.compile(program, ef.spec(1000 + level, np.float32))
    printed = capsys.readouterr().err
    assert [part in printed for part in RUNGS] == [i < level for i in range(5)]


def test_the_second_rung_has_the_matches_and_the_time_of_each_law(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EQFUSE_DEBUG", "2")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    ef.compile(program, ef.spec(3000, np.float32))
    printed = capsys.readouterr().err
    assert re.search("law factor_of_sum", printed)
    told = [line for line in printed.splitlines() if line.startswith("eqfuse:   law ")]
    assert told and all(re.fullmatch(r"eqfuse:   law \w+ ×\d+, [\d.]+ (µs|ms|s)", line) for line in told)
    assert re.search(r"  laws that never matched, [\d.]+ (µs|ms|s)", printed)


LOGGING = """
import logging
import numpy as np
logging.basicConfig(level=logging.INFO)
import eqfuse as ef
ef.extract(ef.saturate(ef.trace(lambda x: np.exp(x) * 2 + 1, np.ones(8))), target="cuda:h100")
"""


@pytest.mark.slow
def test_the_log_of_a_program_holds_nothing_of_the_search_engine() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True)
    assert "egglog" not in done.stderr + done.stdout


def test_a_level_that_is_no_number_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQFUSE_DEBUG", "verbose")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    with pytest.raises(ef.EqfuseError, match="EQFUSE_DEBUG is 'verbose'"):
        ef.compile(program, ef.spec(2000, np.float32))
