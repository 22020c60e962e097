"""Contenders of `eqfuse bench cuda`: what else runs a case on the device, where it is installed.

In: a case and its arrays on the device, as float32 and in the dtype of the case. Out: a call that starts the work, and
one that waits for it. Beside `peers.py`, whose contenders take arrays of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqfuse.benches.corpus import workloads
from eqfuse.benches.corpus.gpu_cases import GpuCase
from eqfuse.benches.corpus.workloads import workload_in
from eqfuse.testing.emulated_gpu import EmulatedGpu


@dataclass(frozen=True)
class PeerRun:
    """`call` starts the work and returns its results, `finish` waits until all that was started is done."""

    call: Callable[[], Any]
    finish: Callable[[], Any]


def cupy(case: GpuCase, gpu: Any, arrays: Sequence[Any], wide: Sequence[Any]) -> PeerRun:
    run = cupy_function(case, gpu)
    return PeerRun(lambda: run(*arrays), gpu.finish)


def cupy_function(case: GpuCase, gpu: Any) -> Callable[..., Any]:
    """The function of the case, by calls of CuPy, or of NumPy where the device is emulated."""
    if isinstance(gpu, EmulatedGpu):

        def convolve(x: Any, w: Any) -> Any:  # NumPy's padding gives arrays of the host
            return gpu.upload(workloads.convolve(gpu.download(x), gpu.download(w)))

        return narrowed(workload_in(case.function, {"convolve": convolve}))
    windows = gpu.arrays.lib.stride_tricks.sliding_window_view
    names = {"np": _Words(gpu.arrays), "erf": gpu.special.erf, "sliding_window_view": windows}
    return narrowed(workload_in(case.function, names))


class _Words:
    """CuPy, with the one word of the array API standard that it may not have."""

    def __init__(self, arrays: Any) -> None:
        self._arrays, self.permute_dims = arrays, arrays.transpose

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arrays, name)


def narrowed(run: Callable[..., Any], like: Callable[[Any, Any], Any] = workloads.like) -> Callable[..., Any]:
    """`run`, with results in the dtype of its first argument."""

    def call(*arrays: Any) -> Any:
        results = run(*arrays)
        parts = results if isinstance(results, tuple) else (results,)
        return tuple([like(part, arrays[0]) for part in parts])

    return call


def jax(case: GpuCase, gpu: Any, arrays: Sequence[Any], wide: Sequence[Any]) -> PeerRun:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")  # float32, and not the TF32 of tensor cores
    names = {"np": jnp, "erf": jax.scipy.special.erf,
             "convolve": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")}  # fmt: skip
    compiled = jax.jit(narrowed(workload_in(case.function, names)))
    moved = [jnp.from_dlpack(a).astype(case.dtype) for a in wide]
    last: list[Any] = []

    def call() -> Any:
        last[:] = [compiled(*moved)]
        return last[0]

    return PeerRun(call, lambda: jax.block_until_ready(last))


def _torch(case: GpuCase, wide: Sequence[Any], compiled: bool) -> PeerRun:
    import array_api_compat.torch as xp
    import torch

    def like(x: Any, y: Any) -> Any:
        return x.to(y.dtype)

    names = {"np": xp, "erf": torch.special.erf, "like": like,
             "convolve": lambda x, w: torch.nn.functional.conv2d(x, w, padding=1)}  # fmt: skip
    run = narrowed(workload_in(case.function, names), like)
    if compiled:
        torch._dynamo.reset()  # or what was compiled for the shapes of other cases counts against this one
        run = torch.compile(run, dynamic=False)
    moved = [torch.from_dlpack(a).to(getattr(torch, case.dtype)) for a in wide]

    def call() -> Any:
        with torch.no_grad():
            return run(*moved)

    return PeerRun(call, torch.cuda.synchronize if torch.cuda.is_available() else lambda: None)


def torch_eager(case: GpuCase, gpu: Any, arrays: Sequence[Any], wide: Sequence[Any]) -> PeerRun:
    return _torch(case, wide, False)


def torch_compile(case: GpuCase, gpu: Any, arrays: Sequence[Any], wide: Sequence[Any]) -> PeerRun:
    return _torch(case, wide, True)


GPU_PEERS: dict[str, Callable[[GpuCase, Any, Sequence[Any], Sequence[Any]], PeerRun]] = {
    "CuPy": cupy, "torch": torch_eager, "JAX": jax,
}  # fmt: skip
SLOW_PEERS = {"torch.compile": torch_compile}  # that take seconds to compile each case
