"""Contenders of `eqfuse bench cpu`: what runs a workload here, each on the same number of threads.

In: a workload and its NumPy arguments. Out: a call that returns when the results are there, and a function that makes
NumPy arrays of them. A contender that is not installed, or that cannot run a workload, says why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.benches.corpus.workloads import Workload, workload_in
from eqfuse.ir.pytree import tree_leaves

PeerCall = Callable[[], Any]
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+")


def limit_threads(count: int) -> None:
    """In this process, before any contender is imported: XLA has no setting but the CPUs it may run on."""
    for variable in ("OMP", "OPENBLAS", "MKL", "NUMBA", "EQFUSE", "NUMEXPR"):
        os.environ[f"{variable}_NUM_THREADS"] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def numpy(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    return lambda: workload.function(*arrays)


def eqfuse(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    import eqfuse as ef

    program = ef.compile(workload.function, *arrays)
    return lambda: program(*arrays)


def tiles(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    import eqfuse as ef

    program = ef.compile(workload.function, *arrays, target="numpy")
    return lambda: program(*arrays)


def jax(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    names = {
        "np": jnp, "erf": jax.scipy.special.erf,
        "convolve": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
    }  # fmt: skip
    run = jax.jit(workload_in(workload.function, names))
    moved = [jnp.asarray(a) for a in arrays]
    return lambda: jax.block_until_ready(run(*moved))


def _torch(workload: Workload, arrays: Sequence[np.ndarray], compiled: bool) -> PeerCall:
    import array_api_compat.torch as xp
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    names = {
        "np": xp, "erf": torch.special.erf, "pool": lambda x: torch.nn.functional.max_pool2d(x, 2),
        "convolve": lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
    }  # fmt: skip
    run = workload_in(workload.function, names)
    if compiled:
        run = torch.compile(run)
    moved = [torch.from_numpy(a) for a in arrays]

    def call() -> Any:
        with torch.no_grad():
            return run(*moved)

    return call


def torch_eager(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    return _torch(workload, arrays, False)


def torch_compile(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    return _torch(workload, arrays, True)


def numba(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    from numba import njit

    run = workload_in(workload.function, {}, njit(parallel=True))
    return lambda: run(*arrays)


def numexpr(workload: Workload, arrays: Sequence[np.ndarray]) -> PeerCall:
    import numexpr

    if not workload.numexpr:
        raise NotImplementedError("not one expression")
    named: dict[str, Any] = {f"x{i}": a for i, a in enumerate(arrays)}

    def number(match: re.Match[str]) -> str:  # as written it were a float64, and so all that is computed with it
        name = f"c{len(named)}"
        named[name] = arrays[0].dtype.type(match[0])
        return name

    text = _NUMBER.sub(number, workload.numexpr)
    if text.startswith("sum("):
        return lambda: numexpr.evaluate(text, named) / arrays[0].size
    return lambda: numexpr.evaluate(text, named)


OURS, PLAIN = "eqfuse", "NumPy"
CONTENDERS: dict[str, Callable[[Workload, Sequence[np.ndarray]], PeerCall]] = {
    PLAIN: numpy, OURS: eqfuse, "tiles": tiles, "JAX": jax, "torch": torch_eager, "torch.compile": torch_compile,
    "numba": numba, "numexpr": numexpr,
}  # fmt: skip
PEERS = [name for name in CONTENDERS if name not in (OURS, "tiles")]


def results(returned: Any) -> list[np.ndarray]:
    """As NumPy arrays, in order."""
    if hasattr(returned, "numpy"):
        return [returned.numpy()]
    return [np.asarray(part) for part in tree_leaves(returned)[0]]
