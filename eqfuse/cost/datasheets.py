"""Published figures of GPUs, with their sources."""

from __future__ import annotations

from typing import NamedTuple


class Sheet(NamedTuple):
    """One row of published figures: dense, in GB, GB/s, Tflop/s, MB, KB. 0 = the device has no such unit."""

    cc: int
    memory: int
    bandwidth: float
    fp32: float
    fp16: float  # fp32 accumulation
    bf16: float
    l2: float
    sms: int
    shared_sm: int
    shared_block: int


# Sources: NVIDIA data sheets and whitepapers; V100, A6000, 3090 Ti and A100 80 GB after Mu Li's table in
# transformers-benchmarks, corrected; L2, SMs and shared memory of V100, A100, H100: PMC10448217 table 3; B200 as read
# off a device: pytorch/ao PR 4002. The fp16 rate of 3090 Ti and 4090 is the one with fp32 accumulation, half of the
# advertised one.
SHEETS = {
    "v100": Sheet(70, 16, 900, 15.7, 125, 0, 6, 80, 96, 96),
    "a6000": Sheet(86, 48, 768, 38.7, 155, 155, 6, 84, 100, 99),
    "3090ti": Sheet(86, 24, 1008, 40, 80, 80, 6, 84, 100, 99),
    "a100-40": Sheet(80, 40, 1555, 19.5, 312, 312, 40, 108, 164, 163),
    "a100": Sheet(80, 80, 2039, 19.5, 312, 312, 40, 108, 164, 163),
    "h100": Sheet(90, 80, 3350, 66.9, 989, 989, 50, 132, 228, 227),
    "h100-pcie": Sheet(90, 80, 2000, 51, 756, 756, 50, 114, 228, 227),
    "h200": Sheet(90, 141, 4800, 66.9, 989, 989, 50, 132, 228, 227),
    "l4": Sheet(89, 24, 300, 30.3, 121, 121, 48, 58, 100, 99),
    "4090": Sheet(89, 24, 1008, 82.6, 165, 165, 72, 128, 100, 99),
    "b200": Sheet(100, 180, 7670, 75, 2250, 2250, 126, 148, 228, 227),
}

# float64 rate over fp32 rate: (elementwise, matrix product). CUDA programming guide, table of arithmetic throughput.
DOUBLE: dict[int, tuple[float, float]] = {
    70: (1 / 2, 1 / 2), 80: (1 / 2, 1), 86: (1 / 64, 1 / 64), 89: (1 / 64, 1 / 64), 90: (1 / 2, 1), 100: (1 / 2, 1 / 2),
}  # fmt: skip


# The rate of our own tiled product over the library's where both use tensor cores, by compute capability; the sources
# are in kinds/product.py. 90 is measured; the others are not: lower where mma.sync, operands staged in registers, lags
# behind the hardware.
MMA = {80: 0.6, 86: 0.7, 89: 0.7, 90: 0.28, 100: 0.2}
