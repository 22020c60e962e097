"""What the system tells at each call anew, the time and random bits, is refused in a traced function, with the line."""

from __future__ import annotations

import datetime
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime as moment
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.arange(3.0)


def imported_inside() -> float:
    import time as clock

    return clock.monotonic()


@pytest.mark.parametrize("told", [
    lambda: time.time(), lambda: time.perf_counter_ns(), lambda: perf_counter(), imported_inside,
    lambda: datetime.datetime.now().microsecond, lambda: moment.now().microsecond, lambda: datetime.date.today().day,
    lambda: os.urandom(1)[0], lambda: uuid.uuid4().int % 7,
])  # fmt: skip
def test_the_time_and_random_bits_are_refused_with_the_line_that_asks(told: Callable[[], Any]) -> None:
    def moved(x: Any) -> Any:
        return x + told()

    before = told()
    with pytest.raises(ef.TraceError, match="read once, while the function is traced") as raised:
        ef.trace(moved, X)
    assert "test_readings.py" in str(raised.value.where)
    assert type(told()) is type(before)


def test_dates_that_are_written_down_may_be_computed_with() -> None:
    def aged(x: Any) -> Any:
        day = datetime.date(2024, 2, 29) + datetime.timedelta(days=1)
        late = moment.fromisoformat("2024-03-01T12:00") - moment(2024, 3, 1)
        assert isinstance(day, datetime.date) and issubclass(moment, datetime.date)
        return x + day.month + late.seconds

    assert np.array_equal(ef.jit(aged)(X), aged(X))


def test_secrets_draw_at_each_call() -> None:
    def noisy(x: Any) -> Any:
        return x + secrets.randbelow(10**9) + secrets.randbits(40)

    program = ef.jit(noisy)
    assert len({program(X)[0] for _ in range(3)}) == 3


def test_another_thread_and_libraries_are_told_the_time_meanwhile() -> None:
    library = eval(compile("lambda: clock()", os.__file__, "eval"), {"clock": time.time})

    def waiting(x: Any) -> Any:
        told: list[float] = []
        thread = threading.Thread(target=lambda: told.append(time.time()))
        thread.start()
        thread.join()
        assert told[0] <= library()
        return x + 1

    ef.trace(waiting, X)
