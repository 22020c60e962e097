"""Device profiles: what one kernel costs on one machine, in seconds, bytes and operations per second.

In: figures, or the JSON that a profile was kept as. Out: a frozen `Device`. Next stop: `roofline`, which prices kernels
with it. `profiles` has those that have a name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from eqfuse.errors import TargetUnavailable, UnsupportedOp
from eqfuse.summary import SummarisedValue, Summary, duration, quantity

Rates = tuple[tuple[str, float], ...]
Levels = tuple[tuple[int, float], ...]
ElementSeconds = tuple[tuple[str, Rates], ...]

# dtypes without a row of their own: the row they are priced by, and how much dearer they are (by SIMD width).
PRICED_AS: dict[str, tuple[str, float]] = {
    "bool": ("int64", 1 / 8), "int8": ("int64", 1 / 8), "uint8": ("int64", 1 / 8),
    "int16": ("int64", 1 / 4), "uint16": ("int64", 1 / 4), "int32": ("int64", 1 / 2), "uint32": ("int64", 1 / 2),
    "uint64": ("int64", 1), "complex64": ("float32", 4), "complex128": ("float64", 4),
    "float8_e4m3fn": ("bfloat16", 1), "float8_e5m2": ("bfloat16", 1),
}  # fmt: skip
REAL_PART = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True, repr=False)
class Device(SummarisedValue):
    """One machine. Times in seconds, sizes in bytes, rates per second with all `threads` at work.

    A GPU counts as one thread: it is always whole.
    """

    name: str
    kind: str  # "cpu" | "gpu"
    target: str  # what emits for it: a row of `eqfuse/cost/targets.py`
    arch: str  # "sm_80", "x86_64"
    threads: int
    launch_seconds: float  # per kernel, on top of its calls
    call_seconds: float  # host time of one NumPy call (GPU: of one launch, where the host is the limit)
    dispatch_seconds: float  # handing one kernel's tiles to the thread pool and waiting for them
    lock: float  # times call_seconds that a call in a tile takes beside its work: threads wait for Python's lock
    lasting_seconds: float  # of a call, alone, from which on threads gain: shorter ones wait more than they work
    wake: float  # times dispatch_seconds that threads take which sleep, as those of a program called now and then do
    levels: Levels  # (capacity, bytes/s read + written) from near to far; the last one is main memory
    thread_levels: Levels  # the same for one thread
    flops: Rates  # contractions, by dtype
    tiled_flops: Rates  # those that a kernel of our own computes with other work around them (GPU)
    scalar_flops: Rates  # elementwise multiply or add, by dtype
    elements: ElementSeconds  # seconds per element in cache, by operator, then by dtype of the values it works on
    l1_bytes: int  # per core (GPU: shared memory per SM)
    l2_bytes: int  # per core (GPU: of the device)
    shared_bytes: int  # fast memory one kernel may claim: shared memory per block; level-1 cache of a core
    max_arguments: int  # arrays of one fused kernel, results included
    multiprocessors: int  # of a GPU, for waves of blocks; 0: waves and tiles are not modelled
    depth: tuple[int, int]  # customary range for a fusion-depth limit; used by the depth-limited baseline only
    reads: str  # sources and date of the figures
    wgmma_flops: Rates = ()  # as `tiled_flops`, by `wgmma`, of a GPU that has been measured and gave the right results

    def __post_init__(self) -> None:
        numbers = [self.launch_seconds, self.call_seconds, *_rates(self.levels), *_rates(self.flops)]
        numbers += [*_rates(self.tiled_flops), *_rates(self.wgmma_flops), self.lock, self.lasting_seconds, self.wake]
        numbers += [*_rates(self.scalar_flops), *(s for _, row in self.elements for s in _rates(row))]
        sound = all(isinstance(n, (int, float)) and 0 <= n < float("inf") for n in numbers)
        if self.kind not in ("cpu", "gpu") or self.threads < 1 or not self.levels or not sound:
            raise ValueError(f"device {self.name!r}: kind, threads, levels or a rate is out of range")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple([getattr(self, f.name) for f in fields(self)]))

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
        return self._look_up("<flops>", REAL_PART.get(dtype, dtype), -1)

    def tiled_rate(self, dtype: str) -> float:
        """The same for a large product that shares its kernel with elementwise work."""
        return self._look_up("<tiled_flops>", dtype, -1)

    def wgmma_rate(self, dtype: str) -> float:
        """The same by `wgmma`; 0 where that has not been measured."""
        return dict(self.wgmma_flops).get(dtype, 0.0)

    def scalar_rate(self, dtype: str) -> float:
        """Elementwise additions or multiplications per second, operands in cache."""
        return self._look_up("<scalar_flops>", dtype, -1)

    def _look_up(self, table: str, dtype: str, sense: int) -> float:
        row = self._tables.get(table)
        if row is None:
            where = f"the profile of {self.name} (cost/price_classes.py)"
            raise UnsupportedOp(f"{where} has no price for operator {table!r}")
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

    def memory_seconds(self, traffic: int, held: int | None = None) -> float:
        """What it takes to move the bytes of a kernel; `held`: those that pass through the caches, where `traffic`
        counts some of them as fewer or more. Between the kernel that writes a value and the one that reads it lies the
        traffic of both: hence the level that twice as much fits in."""
        return traffic / self.bandwidth(2 * (traffic if held is None else held))

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
        """Of main memory, read and written together, all threads at work."""
        return self.levels[-1][1]

    @property
    def tile_bytes(self) -> int:
        """What the live arrays of one tile may occupy: 70 % of the level-2 cache of a core."""
        return int(0.7 * self.l2_bytes)

    @property
    def compute_capability(self) -> int:
        """Of a GPU of NVIDIA's, as 80 of sm_80; 0 of what is none."""
        return int(self.arch.removeprefix("sm_")) if self.arch.startswith("sm_") else 0

    @property
    def tiles_products(self) -> bool:
        """Do tiled kernels of our own compute products, with elementwise work around them? Else BLAS, by panels."""
        return bool(self.tiled_flops)

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

    def with_tiles(self, smaller: int) -> Device:
        """This device with tiles that are so many times as small."""
        return replace(self, l2_bytes=self.l2_bytes // smaller, lasting_seconds=self.lasting_seconds / smaller)

    def to_json(self) -> str:
        """All figures, as `from_json` reads them."""
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)}, indent=1)

    @cached_property
    def digest(self) -> str:
        """Names these figures in every process."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Device:
        """The device that `to_json` wrote; TargetUnavailable when the text is something else."""
        try:
            values = {key: _tuples(value) for key, value in json.loads(text).items()}
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TargetUnavailable(f"this is no device profile ({type(error).__name__}: {error})") from None

    def summary(self) -> Summary:
        memory, flops = self.levels[-1][1], dict(self.flops).get("float32", 0.0)
        return Summary(
            f"Device: {self.name}, {self.kind} {self.arch}, {quantity(memory, 'B/s')}, float32 products at "
            f"{quantity(flops, 'flop/s')}, {duration(self.launch_seconds)} a launch"
        )

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
                *([f"of our own by wgmma: {giga(self.wgmma_flops)}"] if self.wgmma_flops else []),
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
