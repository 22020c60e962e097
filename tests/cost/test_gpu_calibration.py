"""A GPU multiplies by wgmma in programs once it has been measured and was right, on the emulator: the measurement, what
is kept of it, and what is not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda import calibrate, recognised_profile
from eqfuse.emit.cuda.calibrate import calibrated, profile_path
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule
from eqfuse.errors import EqfuseError
from eqfuse.machine import nvrtc
from eqfuse.machine.gpu import cupy_gpu
from eqfuse.testing import cudasim
from eqfuse.testing.cudasim import CpuRawModule
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
SMALL = replace(profile("h100"), multiprocessors=2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty one for profiles; the emulator keeps its own."""
    monkeypatch.setattr(calibrate, "cache_dir", lambda: tmp_path)
    for name, value in (("TIMED_WAVES", 1), ("TIMED_DEPTH", 256), ("TIMED_LAUNCHES", 1)):
        monkeypatch.setattr(calibrate, name, value)
    yield tmp_path


class FaultyGpu(EmulatedGpu):
    """One on which bfloat16 is multiplied wrongly; or nothing is compiled for it at all, of which `error` says so."""

    def __init__(self, error: EqfuseError | None = None) -> None:
        self.error = error

    def module(self, source: str, strict: bool, specific: bool = False) -> CpuRawModule:
        if self.error:
            raise self.error
        return super().module(source.replace("eqf_wgmma<__nv_bfloat16", "eqf_wgmma<__half"), strict, specific)


@pytest.fixture
def timed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the products that are compared, the one that is timed."""
    monkeypatch.setattr(calibrate, "_checks", lambda forced, dtype: iter(()))


@emulated
@pytest.mark.slow
def test_all_that_is_tried_is_right_on_the_emulator() -> None:
    assert len(calibrate.calibrate(EmulatedGpu(), SMALL).wgmma_flops) == 2


@pytest.mark.slow
@emulated
@pytest.mark.usefixtures("timed_only")
def test_a_gpu_that_multiplies_rightly_has_rates_from_then_on() -> None:
    assert calibrated(SMALL) is SMALL
    measured = calibrate.calibrate(EmulatedGpu(), SMALL)
    assert [name for name, _ in measured.wgmma_flops] == ["float16", "bfloat16"]
    assert all(rate > 0 for _, rate in measured.wgmma_flops)
    assert calibrated(SMALL) == measured != SMALL
    assert replace(measured, wgmma_flops=(), tiled_flops=SMALL.tiled_flops, reads=SMALL.reads) == SMALL
    rates = dict(measured.tiled_flops)
    assert {d for d, rate in SMALL.tiled_flops if rate != rates[d]} == {"float16", "bfloat16"}


@emulated
@pytest.mark.usefixtures("timed_only")
def test_a_type_that_is_multiplied_wrongly_has_no_rate_and_a_warning_says_so() -> None:
    with pytest.warns(UserWarning, match=r"of bfloat16 by wgmma have no rate .*: product_bfloat16.* is wrong, at"):
        measured = calibrate.calibrate(FaultyGpu(), SMALL)
    assert [name for name, _ in measured.wgmma_flops] == ["float16"] and calibrated(SMALL) == measured


@pytest.mark.gpu
def test_the_gpu_here_multiplies_rightly_if_it_has_wgmma() -> None:
    pytest.importorskip("cupy")
    here = recognised_profile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # which says what is wrong
        rates = calibrate.calibrate(cupy_gpu(), here).wgmma_flops
    assert len(rates) == 2 * calibrate.has_wgmma(here)


def test_a_gpu_for_which_nothing_compiles_has_no_rates_not_even_old_ones() -> None:
    profile_path(SMALL).parent.mkdir()
    profile_path(SMALL).write_text(replace(SMALL, wgmma_flops=(("float16", 1e14),)).to_json())
    assert calibrated(SMALL).wgmma_flops
    with pytest.warns(UserWarning, match="have no rate that was measured here: no compiler") as said:
        measured = calibrate.calibrate(FaultyGpu(EqfuseError("no compiler")), SMALL)
    assert [" by wgmma " in str(warning.message) for warning in said] == [True, True, False, False]
    assert not measured.wgmma_flops and measured.tiled_flops == SMALL.tiled_flops
    assert not calibrated(SMALL).wgmma_flops


@pytest.mark.parametrize("name", ["a100", "b200", "v100"])
def test_other_architectures_are_neither_measured_nor_looked_up(name: str) -> None:
    assert calibrated(profile(name)) is profile(name)
    assert not calibrate.calibrate(FaultyGpu(EqfuseError("not to be asked")), profile(name)).wgmma_flops


def test_a_damaged_profile_is_set_aside(cache: Path) -> None:
    path = profile_path(SMALL)
    path.parent.mkdir()
    path.write_text("{")
    with pytest.warns(UserWarning, match="device profile"):
        assert calibrated(SMALL) is SMALL
    assert [p.suffix for p in path.parent.iterdir()] == [".corrupt"]


def test_what_was_measured_of_other_kernels_or_another_device_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {profile_path(SMALL), profile_path(profile("h100")), profile_path(profile("h200"))}
    monkeypatch.setattr(calibrate, "module_source", lambda sources: "another text")
    assert len(paths | {profile_path(SMALL)}) == 4


@compiled
def test_what_is_tried_compiles_for_the_architecture_without_spilling_a_register() -> None:
    on = calibrate._forced(profile("h200"), True)
    trials = [t for d in calibrate.MULTIPLIED for t in (*calibrate._checks(on, d), calibrate._timed(on, d))]
    binary = nvrtc.compile_cuda(calibrate.module_source([t.kernel.source for t in trials]), "sm_90a")
    assert len(binary.resources) == len(trials) == 12
    assert all(uses.spill_bytes == 0 and uses.registers <= 128 for uses in binary.resources.values())
    assert {t.kernel.grid[1] > 1 for t in trials} == {False, True}  # blocks share terms, or do not


@pytest.fixture(scope="module")
def measured() -> Device:
    return replace(profile("h100"), wgmma_flops=(("float16", 6e14), ("bfloat16", 6e14)))


@emulated
def test_programs_on_such_a_device_multiply_by_wgmma_beside_their_other_kernels(measured: Device) -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(x @ w + b, 0), np.sort(b)

    rng = np.random.default_rng(0)
    x, w, b = (rng.integers(0, 4, shape).astype(np.float16) for shape in ((136, 520), (520, 264), (264,)))
    slow = tuple((dtype, 1e12) for dtype, _ in measured.flops)  # all else, so that this product is large enough
    on = replace(measured, flops=slow, tiled_flops=slow)
    plan = ef.extract(ef.saturate(ef.trace(layer, x, w, b)), target=on)
    program = program_on(plan, EmulatedGpu())
    schedules = [f.schedule for f in program.executable.functions]
    assert [s.tile.by_wgmma for s in schedules if isinstance(s, ProductSchedule)] == [True]
    assert "on tensor cores by wgmma" in "\n".join(map(str, schedules))
    for got, wanted in zip(program(x, w, b), layer(x, w, b), strict=True):
        np.testing.assert_array_equal(got, wanted)  # whole numbers
