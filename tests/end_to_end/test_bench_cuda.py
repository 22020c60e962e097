"""The comparison of GPU workloads with other libraries, at small sizes on the emulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eqfuse.benches import cuda
from eqfuse.benches.corpus.gpu_cases import DRY, FULL, cases
from eqfuse.testing import cudasim

pytestmark = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")


@pytest.fixture(autouse=True)
def timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of an emulator say nothing."""
    monkeypatch.setattr(cuda, "BATCH", 0.0)
    monkeypatch.setattr(cuda, "ROUNDS", 1)


@pytest.mark.slow
def test_a_dry_run_measures_and_judges_cases_and_shows_the_table_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.json"
    assert cuda.main(["--dry-run", "--json", str(path), "RMS"]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 and all(r["kernels"] == 1 and r["priced"] > 0 and r["seconds"]["CuPy"] > 0 for r in rows)
    shown = capsys.readouterr().out
    assert shown.startswith("the emulator: copy ") and shown.index("RMS norm") < shown.index("best peer")
    assert "GB/s" in shown


@pytest.mark.slow
def test_a_wrong_answer_fails_and_so_does_a_case_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = cuda._error
    monkeypatch.setattr(cuda, "_error", lambda results, exact: error(results, exact) + 1)
    monkeypatch.setitem(cuda.GPU_PEERS, "CuPy", lambda *_: 1 / 0)
    assert cuda.main(["--dry-run", "polynomial"]) == 1
    shown = capsys.readouterr().out
    assert "WRONG" in shown and "CuPy stands aside: ZeroDivisionError" in shown

    def refuses(*_: Any) -> Any:
        raise ValueError("out of memory")

    monkeypatch.setattr(cuda, "measure", refuses)
    assert cuda.main(["--dry-run", "polynomial"]) == 1
    assert "ValueError: out of memory" in capsys.readouterr().out


def test_cases_that_are_not_begun_in_time_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuda.main(["--dry-run", "--limit", "-1", "polynomial"]) == 0
    assert "not begun within" in capsys.readouterr().out


@pytest.mark.slow
def test_every_case_runs_dry(tmp_path: Path) -> None:
    assert cuda.main(["--dry-run"]) == 0


def test_the_cases_of_a_device_are_those_of_a_dry_run_at_other_sizes() -> None:
    assert {c.name for c in cases(FULL)} == {c.name for c in cases(DRY)}
