"""While a program is searched for, Python does not look for garbage in cycles; afterwards it does as before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError
from eqfuse.garbage import uncollected


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_wait_and_are_then_as_before(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_a_refused_search_does_not_leave_them_off() -> None:
    gc.enable()
    space = ef.saturate(ef.trace(np.tanh, ef.spec(3, np.float32)))
    with pytest.raises(EqfuseError, match="no extractor"):
        ef.extract(space, extractor="slow")
    assert gc.isenabled()


def test_of_several_threads_the_last_one_lets_them_go_on() -> None:
    gc.enable()
    entered, leave = threading.Event(), threading.Event()

    def search() -> None:
        with uncollected():
            entered.set()
            leave.wait()

    other = threading.Thread(target=search)
    with uncollected():
        other.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()
