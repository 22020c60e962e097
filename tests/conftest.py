"""A cache folder per run of pytest, and golden files: emitted text kept beside the tests that emit it.

The process that starts the run makes the folder; its workers inherit it, and so share what takes long to make (the
profile of the CPU, compiled emulator kernels). Libraries with threads of their own have one each: others would spin
while they wait, and the workers keep all cores busy. `pytest --update-golden` renews the golden files. Random examples
are the same in every run; with EQFUSE_EXPLORE=5 each run draws new ones, five times as many in the slow tests, which is
how new faults are found.
"""

from __future__ import annotations

import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # BLAS reads it when NumPy is imported, torch too

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from eqfuse.cost import targets
from eqfuse.egraph import pool
from eqfuse.emit.numpy.calibrate import this_cpu
from eqfuse.frontends.numpy import families as families  # fills the tables that cases are made from
from tests.support.drawing import EXPLORING

settings.register_profile("alike", derandomize=True, database=None)
if not EXPLORING:
    settings.load_profile("alike")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what is emitted now")


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()  # ten thousand tests, which no later collection need look at


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected
    targets.CPU[:] = ["numpy"]  # what needs no compiler; tests of C say so
    pool.TEXTS_READ = 8000  # of thousands of programs, which need all rules again and again
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.TemporaryDirectory(prefix="eqfuse-tests-", ignore_cleanup_errors=True)
    os.environ["EQFUSE_CACHE_DIR"] = folder.name
    config.add_cleanup(folder.cleanup)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other programs at work, which no test is about
        this_cpu()  # measured once for all workers


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with the file `golden/<name>` beside the test."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path.name}: run pytest --update-golden and read what it wrote"
        assert text == path.read_text(), f"{path.name} differs from what is emitted: see pytest --update-golden"

    return compare
