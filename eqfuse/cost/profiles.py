"""The devices that have a name: GPUs by their data sheets, and generic CPUs.

In: a name, such as "h100". Out: a `Device`. Figures of GPUs come from data sheets, never from this machine; this CPU is
measured (`eqfuse/emit/numpy/calibrate.py`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from eqfuse.cost.datasheets import DOUBLE, MMA, SHEETS
from eqfuse.cost.device import Device, Levels
from eqfuse.cost.price_classes import USUAL_BY_OPERATOR
from eqfuse.errors import TargetUnavailable
from eqfuse.ops import TABLE

GPU_ROUNDING = 4  # what it costs a GPU to round a result to 16 bits and widen it again: two instructions, as two FMA
ROUNDED = [op.name for op in TABLE.values() if op.is_arithmetic]  # dearer ones hide it


class Efficiency(NamedTuple):
    """What share of the published figures a kernel sees."""

    memory: float
    l2: float  # bandwidth of data that stays in half of L2, as a multiple of the memory's; 1: no such level
    tensor: float
    fp32: float
    tiled: float  # rate of a tiled float32 product of our own over the library's; 1: alike, for every type
    launch_seconds: float
    host_seconds: float  # per launch, where the host is the limit
    functions: bool  # whether an exp costs more than an add
    reads: str


def _gpu(name: str, reached: Efficiency) -> Device:
    """A GPU from its sheet."""
    sheet = SHEETS[name]
    double, double_product = DOUBLE[sheet.cc]
    fp32, memory = reached.fp32 * sheet.fp32 * 1e12, reached.memory * sheet.bandwidth * 1e9
    # Half types are computed in float32. CuPy's float32 product does not use TF32. int32 runs on half of the lanes.
    scalar = {"float32": 1, "float16": 1, "bfloat16": 1, "float64": double, "int32": 1 / 2, "int64": 1 / 4}
    product = {"float32": fp32, "float64": fp32 * double_product, "int32": fp32 / 2, "int64": fp32 / 4}
    product["float16"] = reached.tensor * sheet.fp16 * 1e12
    product["bfloat16"] = reached.tensor * sheet.bf16 * 1e12 or fp32
    tiled = {"float32": reached.tiled * fp32, "float64": reached.tiled * fp32 * double}
    for dtype in ("float16", "bfloat16"):  # without mma.m16n8k16, as float32
        share = MMA.get(sheet.cc, 0.0) if reached.tiled < 1 else float(sheet.cc in MMA)
        tiled[dtype] = share * product[dtype] or tiled["float32"]
    l2 = int(sheet.l2 * 1e6)
    levels: Levels = ((int(sheet.memory * 1e9), memory),)
    if reached.l2 > 1:
        levels = ((l2 // 2, reached.l2 * memory), *levels)
    costs = {op: u.gpu_flops if reached.functions else min(u.gpu_flops, 1) for op, u in USUAL_BY_OPERATOR.items()}
    rounding = {(op, d): GPU_ROUNDING for op in ROUNDED for d in ("float16", "bfloat16") if reached.functions}
    return Device(
        name=name, kind="gpu", target="cuda", arch=f"sm_{sheet.cc}", threads=1,
        launch_seconds=reached.launch_seconds, call_seconds=reached.host_seconds, dispatch_seconds=0.0,
        lock=0.0, lasting_seconds=0.0, wake=0.0,
        levels=levels, thread_levels=levels,
        flops=tuple(product.items()), tiled_flops=tuple(tiled.items()),
        scalar_flops=tuple((dtype, fp32 * share) for dtype, share in scalar.items()),
        elements=tuple((op, tuple((d, (n + rounding.get((op, d), 0)) / (fp32 * share)) for d, share in scalar.items()))
                       for op, n in costs.items()),
        l1_bytes=sheet.shared_sm * 1024, l2_bytes=l2, shared_bytes=sheet.shared_block * 1024,
        max_arguments=96,  # as XLA's MaxOperandsAndOutputsPerFusion; a launch takes 4 KB of parameters
        multiprocessors=sheet.sms if reached.tiled < 1 else 0,
        depth=(4, 6), reads=reached.reads,
    )  # fmt: skip


# What threads cost each other in Python, on two cores of a Zen 5: a call of a fifth of LASTING takes as long on two
# threads as on one; `eqfuse calibrate` measures the three (`emit/numpy/concurrency.py` says how).
LOCK, LASTING, WAKE = 2.0, 1.5e-5, 4.0


def _cpu(
    name: str, threads: int, gigahertz: float, gigabytes: tuple[float, float, float], depth: tuple[int, int]
) -> Device:
    """A generic SIMD CPU: clock relative to 4 GHz; GB/s of one core's L2, of L3, and of memory."""
    slow = 4 / gigahertz
    near, middle, far = (g * 1e9 for g in gigabytes)
    widths = {"float32": 1, "float64": 2, "int64": 2, "float16": 5, "bfloat16": 5}  # half types go through float32
    seconds = {dtype: 1e-9 * slow * width for dtype, width in widths.items()}
    product = {"float32": 50e9, "float64": 25e9, "float16": 1e9, "bfloat16": 1e9, "int64": 1e9}
    return Device(
        name=name, kind="cpu", target="numpy", arch="generic", threads=threads,
        launch_seconds=1e-6, call_seconds=1e-6, dispatch_seconds=2e-5, lock=LOCK, lasting_seconds=LASTING, wake=WAKE,
        levels=((threads << 20, near * threads), (16 << 20, middle), (8 << 30, far)),
        thread_levels=((1 << 20, near), (16 << 20, middle / 2), (8 << 30, far / 2)),
        flops=tuple((dtype, threads * rate / slow) for dtype, rate in product.items()), tiled_flops=(),
        scalar_flops=tuple((dtype, threads / (0.1 * ns)) for dtype, ns in seconds.items()),
        elements=tuple(
            (op, tuple((d, u.cpu_ns * s / threads) for d, s in seconds.items())) for op, u in USUAL_BY_OPERATOR.items()
        ),
        l1_bytes=32 << 10, l2_bytes=1 << 20, shared_bytes=32 << 10, max_arguments=128,
        multiprocessors=0, depth=depth,
        reads="round figures for a current core; `eqfuse calibrate` measures the real one",
    )  # fmt: skip


# Shares of what is published. Memory: an H200 copies at 0.896, QuACK's kernels run at 0.897. Tensor cores: an H200
# reaches 769 to 798 of 989 Tflop/s. Host: a launch takes the driver 4 to 6 µs (version 580, on an RTX 5070 Ti). L2,
# float32, our own tiled product and the gap between launches are estimates.
USUAL = Efficiency(0.90, 2.5, 0.80, 0.70, 0.80, 2.5e-6, 5e-6, True, "data sheets times usual efficiencies, 2026-11")
TEXTBOOK = Efficiency(1.0, 1.0, 1.0, 1.0, 1.0, 1e-6, 1e-6, False, "data sheets, 2026-11")


def datasheet(name: str) -> Device:
    """The textbook roofline of a GPU: published peaks, 1 µs a launch, every elementwise operator one operation."""
    if name not in SHEETS:
        raise TargetUnavailable(f"no data sheet for {name!r}; there is one for {', '.join(SHEETS)}")
    return _gpu(name, TEXTBOOK)


DEVICES: dict[str, Device] = {name: _gpu(name, USUAL) for name in SHEETS} | {
    "cpu": _cpu("cpu", 4, 4.0, (60, 60, 30), (3, 4)),
    "mobile": _cpu("mobile", 4, 2.5, (30, 30, 15), (2, 3)),
}


def profile(name: str) -> Device:
    """The profile in the table under `name`, in any case."""
    try:
        return DEVICES[name.lower()]
    except KeyError:
        raise TargetUnavailable(f"no device profile is named {name!r}; there are {', '.join(DEVICES)}") from None


def recognised(name: str) -> Device | None:
    """The profile whose name is made of whole words of a GPU's `name`: "NVIDIA A100-SXM4-40GB" has those of a100-40.
    In a GH200 or GB200 a CPU, Grace, stands beside the chip."""
    words = name.lower().replace("-", " ").split()
    said = {*words, *map("".join, pairwise(words))}  # as one word, too: 3090 Ti
    said |= {word.removesuffix("gb") for word in said} | {word.removeprefix("g") for word in said}
    fitting = [sheet for sheet in SHEETS if said.issuperset(sheet.split("-"))]
    return DEVICES[max(fitting, key=len)] if fitting else None
