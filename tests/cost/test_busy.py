"""A CPU that is measured while other programs run: noticed, used for now, measured again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.numpy import calibrate
from eqfuse.emit.numpy.calibrate import this_cpu
from eqfuse.machine.quiet import QUIET_SPREAD, WORKED, Look, Watch, look_together


class Machine:
    """A machine by its looks, on which `runs` measurements were made."""

    def __init__(self, device: Device) -> None:
        self.device, self.looks, self.runs = device, [Look(0.01, 1.0)], 0

    def look(self, threads: int) -> Look:
        self.looks.append(self.looks.pop(0))
        return self.looks[-1]

    def measure(self, quick: bool, look: object) -> Device:
        self.runs += 1
        for _ in range(4):
            look()  # type: ignore[operator]
        return self.device


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    stand_in = Machine(DEVICES["cpu"])
    monkeypatch.setattr(calibrate, "look_together", stand_in.look)
    monkeypatch.setattr(calibrate, "measure", stand_in.measure)
    yield stand_in
    calibrate._load.cache_clear()


WAITING, UNEVEN = [Look(0.02, WORKED - 0.1)], [Look(0.01, 1.0), *[Look(0.03 * QUIET_SPREAD, 1.0)] * 2]


def new_process() -> Device:
    calibrate._load.cache_clear()
    return this_cpu()


def test_a_quiet_machine_is_measured_once_and_for_all(machine: Machine) -> None:
    for _ in range(3):
        assert new_process() == machine.device
    assert machine.runs == 1 and calibrate.profile_path().exists()


@pytest.mark.parametrize("looks", [WAITING, UNEVEN], ids=["threads wait for a core", "the same work takes longer"])
def test_a_busy_machine_is_tried_twice_used_with_a_warning_and_measured_again(
    machine: Machine, looks: list[Look], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, machine.looks = machine.looks, list(looks)
    with pytest.warns(UserWarning, match=r"other programs ran .*eqfuse calibrate") as caught:
        assert new_process() == machine.device
    assert [w.filename for w in caught] == [__file__]
    assert machine.runs == 2 and not calibrate.profile_path().exists()
    machine.looks = quiet
    assert this_cpu() == new_process() == machine.device and machine.runs == 2  # plans stay the same for now
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + calibrate.AGAIN + 1)
    assert new_process() == machine.device
    assert machine.runs == 3 and calibrate.profile_path().exists()
    assert [p.name for p in calibrate.profile_path().parent.iterdir()] == [calibrate.profile_path().name]


def test_a_clock_that_was_set_back_makes_no_rough_profile_last(machine: Machine) -> None:
    machine.looks = list(WAITING)
    with pytest.warns(UserWarning, match="other programs ran"):
        new_process()
    (path,) = calibrate.profile_path().parent.iterdir()
    os.utime(path, (time.time() + 1e6,) * 2)
    machine.looks = [Look(0.01, 1.0)]
    new_process()
    assert calibrate.profile_path().exists()


def test_calibrating_a_busy_machine_leaves_the_profile_of_a_quiet_one(machine: Machine) -> None:
    kept = new_process()
    machine.device, machine.looks = machine.device.one_thread(), list(WAITING)
    with pytest.warns(UserWarning, match="other programs ran"):
        assert calibrate.calibrate() == kept == new_process()


def test_calibrating_a_busy_machine_that_has_no_profile_is_for_now(machine: Machine) -> None:
    machine.looks = list(WAITING)
    with pytest.warns(UserWarning, match="other programs ran"):
        assert calibrate.calibrate() == machine.device
    assert not calibrate.profile_path().exists()


def test_one_look_that_was_disturbed_is_no_trouble() -> None:
    looks = iter([Look(1.0, 0.1), *[Look(0.01, 1.0)] * 2, Look(0.05, 0.2), Look(0.01, 1.0)])
    watch = Watch(lambda: next(looks))
    for _ in range(4):
        watch.look()
    assert watch.trouble is None


@pytest.mark.parametrize("threads", [1, 3])
def test_a_look_tells_the_share_that_threads_had_a_core(threads: int) -> None:
    look = look_together(threads)
    assert look.seconds > 0 and 0 < look.worked < 1.05
