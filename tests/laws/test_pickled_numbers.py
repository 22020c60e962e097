"""While an e-graph runs, numbers are pickled without a pickler of cloudpickle, and otherwise nothing is changed."""

from __future__ import annotations

import sys
import threading
from typing import Any

import cloudpickle
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.pickled_numbers import numbers_pickled_soon

OBJECTS: list[Any] = [0, 7, -1, 1 << 40, 1 << 80, True, 2.5, "text", None, (1, 2), len, lambda x: x + 1]


def test_all_objects_have_the_bytes_that_cloudpickle_gives_them() -> None:
    theirs = cloudpickle.dumps
    wanted = [theirs(each) for each in OBJECTS] + [theirs(7, 2), theirs(7, protocol=2)]
    with numbers_pickled_soon():
        assert cloudpickle.dumps is not theirs
        given = [cloudpickle.dumps(each) for each in OBJECTS]
        given += [cloudpickle.dumps(7, 2), cloudpickle.dumps(7, protocol=2)]
    assert given == wanted
    assert cloudpickle.dumps is theirs


def test_cloudpickle_is_as_before_after_an_error_and_when_the_last_thread_leaves() -> None:
    theirs = cloudpickle.dumps
    entered, leave = threading.Event(), threading.Event()

    def run() -> None:
        with numbers_pickled_soon():
            entered.set()
            leave.wait()

    other = threading.Thread(target=run)
    with pytest.raises(ValueError), numbers_pickled_soon():
        other.start()
        entered.wait()
        raise ValueError
    assert cloudpickle.dumps is not theirs
    leave.set()
    other.join()
    assert cloudpickle.dumps is theirs


def test_what_others_put_in_its_place_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudpickle, "dumps", cloudpickle.dumps)
    with numbers_pickled_soon():
        cloudpickle.dumps = len
    assert cloudpickle.dumps is len


def test_what_others_make_of_it_meanwhile_calls_cloudpickle_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudpickle, "dumps", cloudpickle.dumps)
    wanted = cloudpickle.dumps("text")
    with numbers_pickled_soon():
        ours = cloudpickle.dumps
        cloudpickle.dumps = lambda obj: ours(obj)
    with numbers_pickled_soon():
        assert cloudpickle.dumps("text") == wanted


def test_it_is_no_matter_whether_cloudpickle_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cloudpickle")
    with numbers_pickled_soon():
        assert "cloudpickle" not in sys.modules


def test_no_answer_of_a_callback_is_pickled_by_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    ef.saturate(ef.trace(np.tanh, ef.spec(3, np.float32)))  # which imports it
    pickled: list[Any] = []
    theirs = cloudpickle.dumps
    monkeypatch.setattr(cloudpickle, "dumps", lambda obj: pickled.append(obj) or theirs(obj))
    space = ef.saturate(ef.trace(lambda x: x * 2 / 8 + x * 0.5, ef.spec(5, np.float32)))
    assert space.laws_fired
    assert not [each for each in pickled if type(each) is int]
