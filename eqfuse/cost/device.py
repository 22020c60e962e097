"""Device profiles: what one kernel costs on one machine, in seconds, bytes and operations per second.

In: a name (`device("h100")`), a measured JSON profile, or this machine (`this_cpu()`). Out: a frozen `Device`.
Next stop: `roofline`, which prices kernels with it. GPU figures come from data sheets, never from this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from eqfuse.errors import TargetUnavailable, UnsupportedOp

Rates = tuple[tuple[str, float], ...]
Levels = tuple[tuple[int, float], ...]
Elements = tuple[tuple[str, Rates], ...]

# dtypes without a row of their own: the row they are priced by, and how much dearer they are (by SIMD width).
PRICED_AS: dict[str, tuple[str, float]] = {
    "bool": ("int64", 1 / 8), "int8": ("int64", 1 / 8), "uint8": ("int64", 1 / 8),
    "int16": ("int64", 1 / 4), "uint16": ("int64", 1 / 4), "int32": ("int64", 1 / 2), "uint32": ("int64", 1 / 2),
    "uint64": ("int64", 1), "complex64": ("float32", 4), "complex128": ("float64", 4),
    "float8_e4m3fn": ("bfloat16", 1), "float8_e5m2": ("bfloat16", 1),
}  # fmt: skip
_PART = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Device:
    """One machine. Times in seconds, sizes in bytes, rates per second with all `threads` at work.

    A GPU counts as one thread: it is always whole.
    """

    name: str
    kind: str  # "cpu" | "gpu"
    arch: str  # "sm_80", "x86_64"
    threads: int
    launch_seconds: float  # per kernel, on top of its calls
    call_seconds: float  # host time of one NumPy call (GPU: of one launch, where the host is the limit)
    dispatch_seconds: float  # handing one kernel's tiles to the thread pool and waiting for them
    levels: Levels  # (capacity, bytes/s read + written) from near to far; the last one is main memory
    thread_levels: Levels  # the same for one thread
    flops: Rates  # contractions, by dtype
    tiled_flops: Rates  # those that a kernel of our own computes with other work around them (GPU)
    scalar_flops: Rates  # elementwise multiply or add, by dtype
    elements: Elements  # seconds per element in cache, by operator, then by dtype of the values it works on
    l1_bytes: int  # per core (GPU: shared memory per SM)
    l2_bytes: int  # per core (GPU: of the device)
    shared_bytes: int  # fast memory one kernel may claim: shared memory per block; level-1 cache of a core
    max_arguments: int  # arrays of one fused kernel, results included
    multiprocessors: int  # of a GPU, for waves of blocks; 0: waves and tiles are not modelled
    depth: tuple[int, int]  # customary range for a fusion-depth limit; used by the depth-limited baseline only
    reads: str  # sources and date of the figures

    def __post_init__(self) -> None:
        numbers = [self.launch_seconds, self.call_seconds, *_rates(self.levels), *_rates(self.flops)]
        numbers += _rates(self.tiled_flops)
        numbers += [*_rates(self.scalar_flops), *(s for _, row in self.elements for s in _rates(row))]
        sound = all(isinstance(n, (int, float)) and 0 <= n < float("inf") for n in numbers)
        if self.kind not in ("cpu", "gpu") or self.threads < 1 or not self.levels or not sound:
            raise ValueError(f"device {self.name!r}: kind, threads, levels or a rate is out of range")

    @cached_property
    def _tables(self) -> dict[str, dict[str, float]]:
        tables = {op: dict(row) for op, row in self.elements}
        rates = {"<flops>": self.flops, "<tiled_flops>": self.tiled_flops, "<scalar_flops>": self.scalar_flops}
        return tables | {name: dict(row) for name, row in rates.items()}

    def element_seconds(self, op: str, dtype: str) -> float:
        """Seconds per element of an operator running out of cache, all threads at work. 0 for views and leaves.

        `dtype` is that of the values worked on: the arguments of a comparison, the source of a cast.
        """
        return self._look_up(op, dtype, 1)

    def contraction_flops(self, dtype: str) -> float:
        """Multiplications + additions of real numbers per second of a large matrix product, which may be complex."""
        return self._look_up("<flops>", _PART.get(dtype, dtype), -1)

    def tiled_rate(self, dtype: str) -> float:
        """The same for a large product that shares its kernel with elementwise work."""
        return self._look_up("<tiled_flops>", dtype, -1)

    def scalar_rate(self, dtype: str) -> float:
        """Elementwise additions or multiplications per second, operands in cache."""
        return self._look_up("<scalar_flops>", dtype, -1)

    def _look_up(self, table: str, dtype: str, sense: int) -> float:
        row = self._tables.get(table)
        if row is None:
            raise UnsupportedOp(f"the profile of {self.name} (cost/device.py) has no price for operator {table!r}")
        if dtype in row:
            return row[dtype]
        base, factor = PRICED_AS.get(dtype, (dtype, 1))
        if base not in row:
            raise UnsupportedOp(f"the profile of {self.name} has no price for operator {table!r} on {dtype}")
        return row[base] * (factor if sense > 0 else 1 / factor)

    def bandwidth(self, working_set: int) -> float:
        """Bytes per second, read plus written, over data of `working_set` bytes that is used again and again.

        Between the capacity of a level and twice that, ever more of it comes from the next.
        """
        for capacity, end, rate, pace, slope in self._bands:
            if working_set <= capacity:
                return rate
            if working_set < end:
                return 1 / (pace + (working_set / capacity - 1) * slope)
        return self.levels[-1][1]

    @cached_property
    def _bands(self) -> list[tuple[int, int, float, float, float]]:
        """Of each level but the last: its capacity, how far it is still felt, its rate, seconds a byte, and how these
        grow with each capacity more."""
        return [
            (capacity, min(2 * capacity, beyond), rate, 1 / rate, 1 / farther - 1 / rate)
            for (capacity, rate), (beyond, farther) in pairwise(self.levels)
        ]

    @property
    def memory_bytes_per_second(self) -> float:
        return self.levels[-1][1]

    @property
    def tile_bytes(self) -> int:
        """What the live arrays of one tile may occupy: 70 % of the level-2 cache of a core."""
        return int(0.7 * self.l2_bytes)

    @property
    def intensity_target(self) -> int:
        """Operations per byte below which a fused group is still starved by memory (customary: GPU 10, CPU 5)."""
        return 10 if self.kind == "gpu" else 5

    @cached_property
    def single(self) -> Device:
        """`one_thread()`, made once."""
        return self.one_thread()

    def one_thread(self) -> Device:
        """This device with one thread at work: what an untiled kernel runs on."""
        return replace(
            self,
            threads=1,
            dispatch_seconds=0.0,
            levels=self.thread_levels,
            flops=_scaled(self.flops, 1 / self.threads),
            scalar_flops=_scaled(self.scalar_flops, 1 / self.threads),
            elements=tuple((op, _scaled(row, self.threads)) for op, row in self.elements),
        )

    def to_json(self) -> str:
        return self._json

    @cached_property
    def _json(self) -> str:  # made once: it names every plan in the cache, and has a number for each operator and dtype
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Device:
        """The device that `to_json` wrote; TargetUnavailable when the text is something else."""
        try:
            values = {key: _tuples(value) for key, value in json.loads(text).items()}
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TargetUnavailable(f"this is no device profile ({type(error).__name__}: {error})") from None

    def __str__(self) -> str:
        def giga(rates: Rates) -> str:
            return ", ".join(f"{dtype} {rate / 1e9:,.1f}" for dtype, rate in rates)

        levels = ", ".join(f"{rate / 1e9:,.0f} up to {size / 2**20:,.1f} MiB" for size, rate in self.levels)
        costs = ", ".join(
            f"{op} {self.element_seconds(op, 'float32') * 1e9:.3g}" for op in ("add", "divide", "exp", "erf")
        )
        overheads = (self.launch_seconds, self.call_seconds, self.dispatch_seconds)
        limits = (self.l2_bytes, self.shared_bytes)
        return "\n  ".join(
            (
                f"{self.name}: {self.kind}, {self.arch}, threads {self.threads}",
                "µs: launch {:.3g}, call {:.3g}, dispatch {:.3g}".format(*(s * 1e6 for s in overheads)),
                f"GB/s: {levels}",
                f"contraction Gflop/s: {giga(self.flops)}",
                f"ns per float32 element: {costs}",
                "bytes: L2 {:,}, shared {:,}".format(*limits) + f"; arguments {self.max_arguments}",
                f"from {self.reads}",
            )
        )


def _rates(row: Iterable[tuple[Any, float]]) -> list[float]:
    return [rate for _, rate in row]


def _scaled(row: Rates, factor: float) -> Rates:
    return tuple((dtype, rate * factor) for dtype, rate in row)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


class Group(NamedTuple):
    """Operators of about equal price, for devices nobody has measured here."""

    ops: str
    gpu_flops: float  # cost in flops: a special-function unit is 16 times slower than the FMA lanes (gpu.md 5)
    cpu_ns: float  # float32, one core with NumPy's SIMD loops (measured on Zen 5, rounded)


GROUPS = (
    Group("input const reshape broadcast_to slice flip sliding_window", 0, 0),
    Group("transpose", 0, 0.6),  # where the array is copied
    Group("vecdot", 1, 0.06),  # where a sum over rows is one
    Group("add subtract multiply negative abs square sign floor ceil trunc round copysign signbit", 1, 0.1),
    Group("maximum minimum fmax fmin where cast real imag complex conj concat pad slice_scatter bitcast", 1, 0.1),
    Group("window_max window_sum", 1, 0.1),
    Group("equal not_equal less less_equal greater greater_equal isnan isinf isfinite", 1, 0.1),
    Group("logical_and logical_or logical_xor logical_not", 1, 0.5),
    Group(
        "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift bitwise_count", 1, 0.1
    ),
    Group("sum prod max min any all argmax argmin", 1, 0.15),
    Group("take take_along_axis scatter cumsum nextafter ldexp", 2, 1.5),
    Group("divide reciprocal sqrt", 24, 0.3),
    Group("exp exp2 expm1 log log2 log10 log1p", 24, 0.4),
    Group("tanh sin cos tan atan sinh cosh asinh cbrt", 44, 0.4),
    Group("erf erfc", 66, 7.0),  # about 25 FMA + 1 special function (gpu.md 5)
    Group("asin acos acosh atanh hypot", 66, 4.0),
    Group("power atan2 logaddexp", 110, 1.0),
    Group("whole_power", 110, 48.0),  # x**3 and the like of numbers of both signs (NumPy 2.4 on Zen 5)
    Group("floor_divide remainder", 40, 6.0),
    Group("gcd lcm", 200, 20.0),
    Group("sort argsort partition argpartition lexsort searchsorted digitize isin", 200, 10.0),
    Group("quantile percentile nanquantile nanpercentile median nanmedian", 400, 20.0),
    Group("histogram histogram_bin_edges bincount nanargmax nanargmin interp", 100, 5.0),
    Group("cumprod accumulate reduceat fold", 2, 1.5),
    Group("solve inv cholesky det slogdet qr svd svdvals eigh eigvalsh eig eigvals lstsq cond full_rank", 4, 0.05),
    Group("fft ifft rfft irfft convolve correlate", 4, 0.1),  # per operation, as the line above
    Group(
        "log_expit log_ndtr entr rel_entr kl_div xlog1py exp10 cosm1 huber pseudo_huber sindg cosdg tandg cotdg "
        "radian gammasgn exprel",
        128,
        8.0,
    ),
    Group(
        "i0 i0e i1 i1e j0 j1 y0 y1 k0 k0e k1 k1e erfcx erfi dawsn erfinv erfcinv ndtri digamma gamma gammaln "
        "rgamma spence ellipk ellipkm1 ellipe expi exp1 boxcox boxcox1p inv_boxcox inv_boxcox1p powm1 agm "
        "kolmogorov kolmogi ndtri_exp bei ber kei ker",
        320,
        20.0,
    ),
    Group(
        "beta betaln poch binom gammainc gammaincc owens_t stdtr chdtr chdtrc pdtr pdtrc pdtri gdtr gdtrc fdtr "
        "fdtrc bdtr bdtrc nbdtr nbdtrc smirnov smirnovi ellipkinc ellipeinc voigt_profile struve modstruve",
        960,
        60.0,
    ),
    Group(
        "jv jve yv yve iv ive kv kve gammaincinv gammainccinv betainc betaincc betaincinv betainccinv chdtri "
        "stdtrit fdtri nctdtr ncfdtr chndtr hyp0f1 hyp1f1 hyp2f1 hyperu elliprc elliprd elliprf elliprg elliprj "
        "eval_legendre eval_chebyt eval_chebyu eval_hermite eval_hermitenorm eval_laguerre eval_genlaguerre "
        "eval_gegenbauer eval_jacobi",
        3200,
        200.0,
    ),
)


ROUNDING = 4  # what it costs a GPU to round a result to 16 bits and widen it again: two instructions, as two FMA
ROUNDED = ("add", "subtract", "multiply", "square", "divide", "reciprocal", "sqrt")  # dearer ones hide it


class Sheet(NamedTuple):
    """One row of published figures: dense, in GB, GB/s, Tflop/s, MB, KB. 0 = the device has no such unit."""

    cc: int
    memory: int
    bandwidth: float
    fp32: float
    tf32: float
    fp16: float  # fp32 accumulation
    bf16: float
    fp8: float
    l2: float
    sms: int
    shared_sm: int
    shared_block: int
    warps: int


# Sources: NVIDIA data sheets and whitepapers; V100, A6000, 3090 Ti and A100 80 GB after Mu Li's transformers-benchmarks
# as the operator-fusion tuning article quotes it; L2, SMs and shared memory of V100, A100, H100: PMC10448217 table 3;
# B200 as read off a device: pytorch/ao PR 4002. The fp16 rate of 3090 Ti and 4090 is the one with fp32 accumulation,
# half of the advertised one.
SHEETS = {
    "v100": Sheet(70, 16, 900, 15.7, 0, 125, 0, 0, 6, 80, 96, 96, 64),
    "a6000": Sheet(86, 48, 768, 38.7, 77, 155, 155, 0, 6, 84, 100, 99, 48),
    "3090ti": Sheet(86, 24, 1008, 40, 40, 80, 80, 0, 6, 84, 100, 99, 48),
    "a100-40": Sheet(80, 40, 1555, 19.5, 156, 312, 312, 0, 40, 108, 164, 163, 64),
    "a100": Sheet(80, 80, 2039, 19.5, 156, 312, 312, 0, 40, 108, 164, 163, 64),
    "h100": Sheet(90, 80, 3350, 66.9, 495, 989, 989, 1979, 50, 132, 228, 227, 64),
    "h100-pcie": Sheet(90, 80, 2000, 51, 378, 756, 756, 1513, 50, 114, 228, 227, 64),
    "h200": Sheet(90, 141, 4800, 66.9, 495, 989, 989, 1979, 50, 132, 228, 227, 64),
    "l4": Sheet(89, 24, 300, 30.3, 60, 121, 121, 242, 48, 58, 100, 99, 48),
    "4090": Sheet(89, 24, 1008, 82.6, 82.6, 165, 165, 330, 72, 128, 100, 99, 48),
    "b200": Sheet(100, 180, 7670, 75, 1100, 2250, 2250, 4500, 126, 148, 228, 227, 64),
}

# The tuning article's own table, word for word: memory GB, GB/s, fp32 and fp16 Tflop/s. Its GA102 rows are rounded, and
# its 3090 Ti row is the fp16-accumulate rate; SHEETS has the corrected figures.
ARTICLE = {
    "a100": (80, 2039, 19.5, 312),
    "v100": (16, 900, 15.7, 125),
    "a6000": (48, 768, 38, 150),
    "3090ti": (24, 1008, 40, 160),
}

# float64 rate over fp32 rate: (elementwise, matrix product). CUDA programming guide, table of arithmetic throughput.
_DOUBLE: dict[int, tuple[float, float]] = {
    70: (1 / 2, 1 / 2), 80: (1 / 2, 1), 86: (1 / 64, 1 / 64), 89: (1 / 64, 1 / 64), 90: (1 / 2, 1), 100: (1 / 2, 1 / 2),
}  # fmt: skip


# The rate of our own tiled product over the library's where both use tensor cores, by compute capability; the sources
# are in kinds/product.py. Not measured: lower where mma.sync, operands staged in registers, lags behind the hardware.
_MMA = {80: 0.6, 86: 0.7, 89: 0.7, 90: 0.4, 100: 0.2}


class Reached(NamedTuple):
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


def _gpu(name: str, reached: Reached) -> Device:
    """A GPU from its sheet."""
    sheet = SHEETS[name]
    double, double_product = _DOUBLE[sheet.cc]
    fp32, memory = reached.fp32 * sheet.fp32 * 1e12, reached.memory * sheet.bandwidth * 1e9
    # Half types are computed in float32. CuPy's float32 product does not use TF32. int32 runs on half of the lanes.
    scalar = {"float32": 1, "float16": 1, "bfloat16": 1, "float64": double, "int32": 1 / 2, "int64": 1 / 4}
    product = {"float32": fp32, "float64": fp32 * double_product, "int32": fp32 / 2, "int64": fp32 / 4}
    product["float16"] = reached.tensor * sheet.fp16 * 1e12
    product["bfloat16"] = reached.tensor * sheet.bf16 * 1e12 or fp32
    tiled = {"float32": reached.tiled * fp32, "float64": reached.tiled * fp32 * double}
    for dtype in ("float16", "bfloat16"):  # without mma.m16n8k16, as float32
        share = _MMA.get(sheet.cc, 0.0) if reached.tiled < 1 else float(sheet.cc in _MMA)
        tiled[dtype] = share * product[dtype] or tiled["float32"]
    l2 = int(sheet.l2 * 1e6)
    levels: Levels = ((int(sheet.memory * 1e9), memory),)
    if reached.l2 > 1:
        levels = ((l2 // 2, reached.l2 * memory), *levels)
    costs = {op: g.gpu_flops if reached.functions else min(g.gpu_flops, 1) for g in GROUPS for op in g.ops.split()}
    rounding = {(op, d): ROUNDING for op in ROUNDED for d in ("float16", "bfloat16") if reached.functions}
    return Device(
        name=name, kind="gpu", arch=f"sm_{sheet.cc}", threads=1,
        launch_seconds=reached.launch_seconds, call_seconds=reached.host_seconds, dispatch_seconds=0.0,
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
        name=name, kind="cpu", arch="generic", threads=threads,
        launch_seconds=1e-6, call_seconds=1e-6, dispatch_seconds=2e-5,
        levels=((threads << 20, near * threads), (16 << 20, middle), (8 << 30, far)),
        thread_levels=((1 << 20, near), (16 << 20, middle / 2), (8 << 30, far / 2)),
        flops=tuple((dtype, threads * rate / slow) for dtype, rate in product.items()), tiled_flops=(),
        scalar_flops=tuple((dtype, threads / (0.1 * ns)) for dtype, ns in seconds.items()),
        elements=tuple(
            (op, tuple((d, g.cpu_ns * s / threads) for d, s in seconds.items())) for g in GROUPS for op in g.ops.split()
        ),
        l1_bytes=32 << 10, l2_bytes=1 << 20, shared_bytes=32 << 10, max_arguments=128,
        multiprocessors=0, depth=depth,
        reads="round figures for a current core; `eqfuse calibrate` measures the real one",
    )  # fmt: skip


# Memory: H200 copy 0.896, QuACK 0.897 of the published bandwidth. The rest: gpu.md 4.7 and 5, "Model constants".
USUAL = Reached(0.90, 2.5, 0.80, 0.70, 0.80, 2.5e-6, 5e-6, True, "data sheets times usual efficiencies, 2026-11")
TEXTBOOK = Reached(1.0, 1.0, 1.0, 1.0, 1.0, 1e-6, 1e-6, False, "data sheets, 2026-11")


def datasheet(name: str) -> Device:
    """The textbook roofline of a GPU: published peaks, 1 µs a launch, every elementwise operator one operation."""
    if name not in SHEETS:
        raise TargetUnavailable(f"no data sheet for {name!r}; there is one for {', '.join(SHEETS)}")
    return _gpu(name, TEXTBOOK)


DEVICES: dict[str, Device] = {name: _gpu(name, USUAL) for name in SHEETS} | {
    "cpu": _cpu("cpu", 4, 4.0, (60, 60, 30), (3, 4)),
    "mobile": _cpu("mobile", 4, 2.5, (30, 30, 15), (2, 3)),
}


def device(name: str) -> Device:
    """The profile in the table under `name`, in any case."""
    try:
        return DEVICES[name.lower()]
    except KeyError:
        raise TargetUnavailable(f"no device profile is named {name!r}; there are {', '.join(DEVICES)}") from None


def this_cpu() -> Device:
    """The profile of the CPU this process runs on: calibrated, or estimated at first use and then kept."""
    from eqfuse.cost.calibrate import load  # calibrate builds on this file

    return load()
