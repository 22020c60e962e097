"""Device profiles: the published table, a roofline by hand, storage, and measuring this CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.datasheets import SHEETS
from eqfuse.cost.device import PRICED_AS, Device
from eqfuse.cost.profiles import DEVICES, datasheet, profile, recognised
from eqfuse.cost.roofline import work
from eqfuse.emit.numpy import calibrate, concurrency
from eqfuse.emit.numpy.calibrate import this_cpu
from eqfuse.errors import TargetUnavailable, UnsupportedOp
from eqfuse.machine.quiet import Look
from eqfuse.ops import TABLE, Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

PRICED = [name for name, op in TABLE.items() if op.role is not Role.CONTRACTION]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibrate, "look_together", lambda threads: Look(0.01, 1.0))  # whatever runs here
    yield tmp_path
    calibrate._load.cache_clear()


@pytest.fixture(scope="module")
def measured() -> Device:
    return calibrate.measure(quick=True)


ADVERTISED = {  # in tables on the web: memory GB, GB/s, fp32 and fp16 Tflop/s
    "a100": (80, 2039, 19.5, 312), "v100": (16, 900, 15.7, 125), "a6000": (48, 768, 38, 150),
    "3090ti": (24, 1008, 40, 160),
}  # fmt: skip
PUBLISHED = {  # cc, memory GB, GB/s, fp32, fp16, bf16 Tflop/s, L2 MB, SMs, shared KB per SM and per block
    "v100": (70, 16, 900, 15.7, 125, 0, 6, 80, 96, 96),
    "a6000": (86, 48, 768, 38.7, 155, 155, 6, 84, 100, 99),
    "3090ti": (86, 24, 1008, 40, 80, 80, 6, 84, 100, 99),
    "a100-40": (80, 40, 1555, 19.5, 312, 312, 40, 108, 164, 163),
    "a100": (80, 80, 2039, 19.5, 312, 312, 40, 108, 164, 163),
    "h100": (90, 80, 3350, 66.9, 989, 989, 50, 132, 228, 227),
    "h100-pcie": (90, 80, 2000, 51, 756, 756, 50, 114, 228, 227),
    "h200": (90, 141, 4800, 66.9, 989, 989, 50, 132, 228, 227),
    "l4": (89, 24, 300, 30.3, 121, 121, 48, 58, 100, 99),
    "4090": (89, 24, 1008, 82.6, 165, 165, 72, 128, 100, 99),
    "b200": (100, 180, 7670, 75, 2250, 2250, 126, 148, 228, 227),
}


def test_the_table_of_gpus_is_the_published_one() -> None:
    assert SHEETS == PUBLISHED
    for name, row in PUBLISHED.items():
        assert profile(name.upper()).arch == f"sm_{row[0]}"


def test_figures_are_the_advertised_ones_but_for_two_corrections() -> None:
    """GA102 computes fp16 with fp32 accumulation at half the advertised rate; the A6000 row is rounded."""
    ours = {name: (s.memory, s.bandwidth, s.fp32, s.fp16) for name, s in SHEETS.items()}
    differing = {name for name, row in ADVERTISED.items() if row != ours[name]}
    assert differing == {"a6000", "3090ti"}
    assert 2 * SHEETS["3090ti"].fp16 == ADVERTISED["3090ti"][3]


def test_adding_a_scalar_on_a_3090_ti_runs_at_126_giga_elements_per_second() -> None:
    """1008 GB/s / (4 read + 4 written) = 126e9 elements/s, 0.315 % of 40 Tflop/s."""
    sheet = datasheet("3090ti")
    seconds = max(8 / sheet.bandwidth(1 << 30), sheet.element_seconds("add", "float32"))
    assert 1 / seconds == pytest.approx(126e9, rel=0.005)
    assert 1 / seconds / sheet.scalar_rate("float32") == pytest.approx(0.00315, rel=0.005)


def test_the_datasheet_roofline_is_the_one_of_the_predictions() -> None:
    a100 = datasheet("a100")
    assert a100.launch_seconds == 1e-6
    assert a100.bandwidth(1) == a100.bandwidth(1 << 40) == 2039e9
    assert (a100.contraction_flops("float32"), a100.contraction_flops("float16")) == (19.5e12, 312e12)
    assert a100.element_seconds("exp", "float32") == a100.element_seconds("add", "float32") == 1 / 19.5e12


def test_model_constants_turn_the_sheet_into_what_is_reached() -> None:
    h200 = profile("h200")
    assert h200.memory_bytes_per_second == pytest.approx(4300e9, rel=0.01)  # measured copy on an H200
    assert 769e12 <= h200.contraction_flops("bfloat16") <= 798e12  # measured 8192^3 product on an H200
    assert h200.bandwidth(20 << 20) == 2.5 * h200.memory_bytes_per_second  # an intermediate that stays in L2
    assert profile("v100").contraction_flops("bfloat16") == profile("v100").contraction_flops("float32")


def test_devices_have_depth_limits() -> None:
    assert (profile("cpu").depth, profile("a100").depth, profile("mobile").depth) == ((3, 4), (4, 6), (2, 3))


@pytest.mark.parametrize("name", DEVICES)
def test_every_operator_has_a_price_on_every_device(name: str) -> None:
    figures = DEVICES[name]
    unpriced = [op for op in PRICED if op not in dict(figures.elements)]
    assert not unpriced, f"add the price classes of {unpriced} to USUAL_PRICES in eqfuse/cost/price_classes.py"
    assert figures.element_seconds("exp", "float32") > figures.element_seconds("add", "float32") > 0
    assert figures.element_seconds("reshape", "float32") == 0


@pytest.mark.parametrize("name", DEVICES)
def test_json_gives_the_same_device_back(name: str) -> None:
    again = Device.from_json(DEVICES[name].to_json())
    assert again == DEVICES[name]
    assert hash(again) == hash(DEVICES[name])


def test_one_thread_has_one_share_of_each_rate() -> None:
    whole, one = profile("cpu"), profile("cpu").one_thread()
    assert one.element_seconds("exp", "float64") == whole.threads * whole.element_seconds("exp", "float64")
    assert one.contraction_flops("float32") == whole.contraction_flops("float32") / whole.threads
    assert one.bandwidth(1 << 30) < whole.bandwidth(1 << 30)
    assert profile("h100").one_thread() == profile("h100")


def test_a_dtype_without_a_row_is_priced_by_its_width() -> None:
    cpu = profile("cpu")
    assert cpu.element_seconds("add", "int32") == cpu.element_seconds("add", "int64") / 2
    assert cpu.contraction_flops("complex64") == cpu.contraction_flops("float32")  # its flops are counted as real ones


def test_what_just_exceeds_a_cache_comes_from_it_for_the_most_part() -> None:
    gpu = profile("a100")
    (capacity, near), (_, far) = gpu.levels
    assert gpu.bandwidth(capacity) == near and gpu.bandwidth(2 * capacity) == far
    assert 1 / gpu.bandwidth(capacity * 3 // 2) == pytest.approx((1 / near + 1 / far) / 2)
    sizes = range(1 << 20, 4 * capacity, 1 << 20)
    taken = [size / gpu.bandwidth(size) for size in sizes]
    assert taken == sorted(taken)


@pytest.mark.parametrize(("name", "named"), [
    ("Tesla V100-SXM2-16GB", "v100"), ("NVIDIA RTX A6000", "a6000"), ("NVIDIA GeForce RTX 3090 Ti", "3090ti"),
    ("NVIDIA GeForce RTX 3090", None), ("NVIDIA A100-SXM4-40GB", "a100-40"), ("NVIDIA A100-PCIE-40GB", "a100-40"),
    ("NVIDIA A100 80GB PCIe", "a100"), ("NVIDIA A100-SXM4-80GB", "a100"), ("NVIDIA RTX A1000", None),
    ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H200", "h200"),
    ("NVIDIA GH200 480GB", "h200"), ("NVIDIA L4", "l4"), ("NVIDIA L40S", None), ("NVIDIA GeForce RTX 4090", "4090"),
    ("NVIDIA B200", "b200"), ("NVIDIA GB200", "b200"), ("NVIDIA GeForce RTX 5070 Ti", None),
])  # fmt: skip
def test_a_gpu_is_recognised_by_whole_words_of_its_name(name: str, named: str | None) -> None:
    """An L40S is no L4, and an RTX A1000 is no A100."""
    assert recognised(name) == (named and profile(named))


def test_every_data_sheet_is_recognised_by_its_own_name() -> None:
    for name in SHEETS:
        assert recognised(f"NVIDIA {name.upper()}") == profile(name)


def test_unknown_names_are_refused_by_name() -> None:
    with pytest.raises(TargetUnavailable, match=r"'k80'.*v100.*h100"):
        profile("k80")
    with pytest.raises(TargetUnavailable, match="data sheet"):
        datasheet("cpu")
    with pytest.raises(UnsupportedOp, match="'frobnicate'"):
        profile("cpu").element_seconds("frobnicate", "float32")
    with pytest.raises(UnsupportedOp, match="datetime64"):
        profile("cpu").element_seconds("add", "datetime64")
    with pytest.raises(ValueError, match="out of range"):
        replace(profile("cpu"), launch_seconds=-1.0)


@pytest.mark.slow
def test_a_quick_calibration_gives_sane_figures(measured: Device) -> None:
    assert not [op for op in PRICED if op not in dict(measured.elements)]
    assert measured.kind == "cpu"
    assert 1e-8 < measured.call_seconds < 1e-4
    assert 1e-9 < measured.launch_seconds < 1e-4
    assert 1e-7 < measured.dispatch_seconds < 1e-1
    for levels in (measured.levels, measured.thread_levels):
        assert [rate for _, rate in levels] == sorted((rate for _, rate in levels), reverse=True)
        assert all(1e8 < rate < 1e14 for _, rate in levels)
    one = measured.one_thread()
    assert all(1e-13 < one.element_seconds("add", dtype) < 1e-6 for dtype in calibrate.DTYPES)
    assert one.element_seconds("erf", "float32") > one.element_seconds("add", "float32")
    assert measured.contraction_flops("float32") > measured.contraction_flops("float16") > 0
    assert Device.from_json(measured.to_json()) == measured


@pytest.mark.slow
def test_a_full_calibration_takes_at_most_twenty_seconds() -> None:
    start = time.perf_counter()
    full = calibrate.measure(quick=False)
    assert time.perf_counter() - start < 20
    assert full.reads.startswith("full")
    assert not [op for op in PRICED if op not in dict(full.elements)]


@pytest.mark.slow
def test_parts_of_a_large_cache_have_their_own_bandwidth() -> None:
    one, every, _ = concurrency.memory_of(concurrency.Caches(32 << 10, 1 << 20, 32 << 20), 1, quick=False)
    assert [capacity >> 20 for capacity, _ in one][:3] == [capacity >> 20 for capacity, _ in every][:3] == [1, 8, 32]


@pytest.mark.parametrize("threads", [2, 16])
def test_what_it_takes_to_hand_work_to_threads_is_no_part_of_their_bandwidth(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, handed = 1e11, {0: 1e-5, 1: 8e-5}  # bytes a second of each thread; seconds: of nothing at all, of a copy

    def of_copies(copy: Any, part: slice) -> float:
        target, _, repeats = copy.args[:3]
        return 2 * target[part].nbytes * repeats / rate

    def taken(call: Any, _stop_after: float) -> float:
        if call.func is not concurrency._everywhere:
            return of_copies(call, call.args[-1])
        _, work, parts = call.args
        return handed[work is not int] + (0 if work is int else max(of_copies(work, part) for part in parts))

    monkeypatch.setattr(concurrency, "seconds_of", taken)
    sizes = concurrency.Caches(32 << 10, 1 << 20, 32 << 20)
    one, every, _ = concurrency.memory_of(sizes, threads, quick=True)
    for (_, alone), (_, together) in zip(one, every, strict=True):
        assert together == pytest.approx(threads * alone, rel=0.1)


@pytest.mark.slow
def test_what_threads_cost_each_other_is_measured_within_reason() -> None:
    assert 2e-6 <= concurrency.lasting_of(2) <= 1e-4
    assert 1 <= concurrency.lock_of(2, 5e-7) <= concurrency.MOST_LOCKED
    assert 1 <= concurrency.wake_of(2, 2e-5, naps=30) <= 20


def test_a_quick_profile_has_the_data_sheets_figure_for_calls_that_last_and_measures_what_threads_wait_for(
    measured: Device,
) -> None:
    assert measured.lasting_seconds == profile("cpu").lasting_seconds
    assert 1 <= measured.lock <= concurrency.MOST_LOCKED and 1 <= measured.wake <= 20


@pytest.mark.parametrize("part", ["float32", "float64"])
def test_functions_of_complex_numbers_have_figures_of_their_own(measured: Device, part: str) -> None:
    whole = f"{np.result_type(part, np.complex64)}"
    for op in ("exp", "log", "sqrt", "sin", "tanh", "power"):
        assert measured.element_seconds(op, whole) != PRICED_AS[whole][1] * measured.element_seconds(op, part)


@pytest.fixture
def readings(cache: Path, measured: Device, monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """What is measured, the last one first."""
    devices = [replace(measured, reads="again"), measured]
    monkeypatch.setattr(calibrate, "measure", lambda quick, look: devices.pop())
    return devices


def test_the_profile_is_measured_once_and_kept(cache: Path, readings: list[Device]) -> None:
    first = this_cpu()
    calibrate._load.cache_clear()  # as a new process
    assert this_cpu() == first and len(readings) == 1
    (stored,) = (cache / "devices").iterdir()
    assert Device.from_json(stored.read_text()) == first


def test_calibrating_again_replaces_the_profile(readings: list[Device]) -> None:
    first = this_cpu()
    assert first != calibrate.calibrate(quick=True) == this_cpu()


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"name": 3}'])
def test_a_damaged_profile_is_set_aside_with_a_warning(
    cache: Path, measured: Device, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "measure", lambda quick, look: measured)
    path = calibrate.profile_path()
    path.parent.mkdir()
    path.write_text(damage)
    with pytest.warns(UserWarning, match="damaged"):
        assert this_cpu() == measured
    assert path.with_suffix(".corrupt").read_text() == damage
    assert Device.from_json(path.read_text()) == measured


def test_another_process_that_stored_first_wins(cache: Path, measured: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = replace(measured, reads="theirs")

    def measure(quick: bool, look: Any) -> Device:
        calibrate.profile_path().parent.mkdir()
        calibrate.profile_path().write_text(theirs.to_json())
        return measured

    monkeypatch.setattr(calibrate, "measure", measure)
    assert this_cpu() == theirs


def test_a_cache_that_cannot_be_written_is_only_a_warning(
    tmp_path: Path, measured: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(calibrate, "look_together", lambda threads: Look(0.01, 1.0))
    monkeypatch.setattr(calibrate, "measure", lambda quick, look: measured)
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert this_cpu() == measured


def test_whole_powers_are_measured_on_numbers_of_both_signs() -> None:
    """`libm` raises a negative number to a whole power outside of its vector code."""
    x = calibrate._values("whole_power", np.dtype(np.float32))
    assert 0.4 < (x < 0).mean() < 0.6
    assert (calibrate._values("power", np.dtype(np.float32)) > 0).all()  # what is not whole has no other domain


@pytest.mark.parametrize("op", sorted(op for op in calibrate._measured_ops() if op in UFUNCS))
def test_an_operator_is_measured_on_numbers_for_which_it_is_defined(op: str) -> None:
    try:
        call = calibrate._call(op, np.dtype(np.float32))
    except TypeError:  # of integers
        call = calibrate._call(op, np.dtype(np.int64))
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        call()


@pytest.mark.parametrize("numerics", ["reassociate", "approximate"])
@pytest.mark.parametrize("written", ["products", "a power"])
def test_a_cube_of_numbers_of_both_signs_is_products(written: str, numerics: str) -> None:
    """As in GELU by tanh."""

    def gelu(x: Any) -> Any:
        cube = x**3 if written == "a power" else x * x * x
        return x / 2 * (1 + np.tanh(0.8 * (x + 0.045 * cube)))

    for shape in ((1024, 1024), (100,)):
        graph = ef.trace(gelu, ef.spec(shape, np.float32))
        plan = ef.extract(ef.saturate(graph, numerics=numerics), target=DEVICES["cpu"])
        assert "power" not in [n.op for k in plan.kernels for n in k.body.operators]


def test_a_whole_power_has_a_price_of_its_own_but_for_those_that_numpy_takes_otherwise() -> None:
    cpu, x = DEVICES["cpu"], TensorType(np.dtype(np.float32), (1000,))
    by = {e: work("power", (), x, [x, x], cpu, literal=Literal(np.float32(e))).seconds for e in (2, 2.5, 3, -2, 7)}
    assert by[2] == by[2.5] == work("power", (), x, [x, x], cpu).seconds
    assert by[3] == by[-2] == by[7] == 1000 * cpu.element_seconds("whole_power", "float32") > 10 * by[2]


def test_a_gpu_takes_longer_to_add_where_it_rounds_to_16_bits() -> None:
    for name in ("a100", "h100"):
        seconds = DEVICES[name].element_seconds
        assert seconds("add", "float16") == seconds("add", "bfloat16") > seconds("add", "float32")
        assert seconds("maximum", "float16") == seconds("maximum", "float32"), "there is nothing to round"
