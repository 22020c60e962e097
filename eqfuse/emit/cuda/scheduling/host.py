"""Which operators CuPy does not compute, or with other results than NumPy: they run on the host.

In: an operator of a body. Out: whether it runs there, and what that takes: copies both ways, and NumPy's time.
"""

from __future__ import annotations

from eqfuse.cost.profiles import DEVICES
from eqfuse.cost.roofline import work
from eqfuse.emit.cuda.scheduling.cupy_names import CUPY_LOOPS
from eqfuse.ir.graph import Node
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.special import SPECIAL_UFUNCS

# Bytes per second between the memories, either way. No figure of a device: 16 lanes of PCIe 3.0, the slowest link of
# the data sheets, carry 15.75 GB/s, but pageable memory, as NumPy's, is copied once more by the driver on the host, and
# sees 6 to 12 (NVIDIA's bandwidthTest over PCIe 4.0, where pinned memory sees about 25).
PAGEABLE = 10e9
SYNCHRONISE = 2e-5  # seconds: the host waits for the stream before it copies

# CuPy's names of the ufuncs
UFUNC_NAMES = {op: f"special.{op}" if op in ("erf", "erfc", *SPECIAL_UFUNCS) else f"cupy.{ufunc.__name__}"
               for op, ufunc in UFUNCS.items()}  # fmt: skip
HOST = (
    "accumulate", "reduceat", "fold", "lexsort", "quantile", "percentile", "nanquantile", "nanpercentile", "nanargmax",
    "nanargmin", "histogram", "histogram_bin_edges", "bincount", "interp", "cholesky", "cholesky_change",
    "cholesky_cotangent", "cofactors", "cond", "lstsq", "full_rank", "eig", "eigvals", "pure_callback",
)  # fmt: skip
# Of `ufunc.at`: what CuPy computes by atomic operations, exactly. Its maximum of float64 rounds to float32.
_SUMMED = ("int32", "int64", "uint32", "uint64", "float16", "float32", "float64")
_COMPARED = ("int32", "uint32", "uint64")
ATOMIC = {"add": _SUMMED, "subtract": _SUMMED, "maximum": _COMPARED, "minimum": _COMPARED}


def on_host(n: Node) -> bool:
    """Does `n` run on the host?"""
    if n.op in UFUNCS:
        loop = f"{''.join(a.dtype.char for a in n.args)}->{n.dtype.char}"
        return loop not in CUPY_LOOPS.get(UFUNC_NAMES[n.op], ())
    if n.op in HOST or uncounted(n):
        return True
    if n.op == "scatter" and n.attr("mode") != "set":
        x, _, values = n.args
        return x.dtype != values.dtype or x.dtype.name not in ATOMIC.get(n.attr("mode"), ())
    return False


def uncounted(n: Node) -> bool:
    """Has `n` places that CuPy, which counts them in 32 bits, does not find?"""
    return n.op in ("take", "scatter") and max(a.type.size for a in (n, *n.args)) >= 2**31


def host_seconds(n: Node) -> float:
    """The time of `n` on the host: its arguments come over the link and its result goes back, NumPy between."""
    types = [a.type for a in n.args]
    copied = sum(t.nbytes for t in types) + n.type.nbytes
    return SYNCHRONISE + copied / PAGEABLE + work(n.op, n.attrs, n.type, types, DEVICES["cpu"]).whole
