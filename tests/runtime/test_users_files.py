"""Files that a user names: a link leads to its file, a pipe stays a pipe, and what is no file is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef


def _program_onnx(path: str | Path) -> None:
    pytest.importorskip("onnx", reason="writing ONNX models needs the package onnx")
    _program().to_onnx(path)


def _program() -> ef.Program:
    return ef.compile(lambda x: x + 1, np.ones(3, np.float32), target="numpy")


def _space(path: str | Path) -> None:
    ef.saturate(ef.trace(lambda x: x + 1, np.ones(3, np.float32))).save(path)


WRITERS: dict[str, Callable[[str | Path], None]] = {
    "a program": lambda path: _program().save(path),
    "an ONNX model": _program_onnx,
    "a space": _space,
}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.outside if "ONNX" in name else ()) for name in WRITERS]
)
def write(request: pytest.FixtureRequest) -> Callable[[str | Path], None]:
    return WRITERS[request.param]


def test_what_is_written_to_a_link_is_in_the_file_it_leads_to(write: Callable, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write(link)
    assert link.is_symlink()
    assert real.stat().st_size > 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_written_to_a_pipe_comes_out_of_it(write: Callable, tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(20)
    assert read[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["", ".", os.sep, "a\0b"])
def test_what_names_no_file_is_refused(
    write: Callable, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ef.EqfuseError, match=r"is a folder|no name of a file"):
        write(path)
    assert not [*tmp_path.iterdir()]


def test_none_names_no_file() -> None:
    for method in (_program().save, _program().to_onnx):
        with pytest.raises(ef.EqfuseError, match="None is no name of a file"):
            method(None)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", [["laws"], ["laws", "softmax"]], ids=["while it prints", "when it ends"])
def test_a_full_disk_is_a_message_and_not_a_traceback(command: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "eqfuse", *command], stdout=full, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "EQFUSE_CACHE_DIR": str(tmp_path)}, timeout=120,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr
