"""`ef.disable` and EQFUSE_DISABLE: functions of `ef.jit` run as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from runpy import run_path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.specialise import disabled

X = np.arange(6.0)


@ef.jit
def halved(x):
    """What only runs as it is written: its branch depends on data."""
    return x / 2 if x.sum() > 0 else x


def test_a_call_runs_the_function_itself():
    with ef.disable():
        np.testing.assert_array_equal(halved(X), X / 2)
    with pytest.raises(ef.TraceError):
        halved(X)


def test_it_decorates_functions_and_ends_with_them_even_by_an_error():
    @ef.disable()
    def fails():
        halved(X)
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fails()
    with pytest.raises(ef.TraceError):
        halved(X)


def test_other_threads_go_on_with_programs():
    with ef.disable(), ThreadPoolExecutor(1) as other, pytest.raises(ef.TraceError):
        other.submit(halved, X).result()


@pytest.mark.slow
def test_the_environment_says_it_for_a_process():
    text = "import numpy as np, eqfuse as ef; print(ef.jit(lambda x: x if x.any() else -x)(np.ones(3)))"
    process = subprocess.run([sys.executable, "-c", text], env=os.environ | {"EQFUSE_DISABLE": "1"}, text=True,
                           capture_output=True, check=True)  # fmt: skip
    assert process.stdout == "[1. 1. 1.]\n"


@pytest.mark.parametrize("value, plain", [("1", True), ("0", False), ("", False)])
def test_the_environment_is_read_when_the_process_begins(value, plain, monkeypatch):
    monkeypatch.setenv("EQFUSE_DISABLE", value)
    assert run_path(disabled.__file__)["is_disabled"]() is plain
