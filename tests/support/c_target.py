"""Kernels of the C target made by hand, compiled together, and run; `C`: the device that they are made for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device
from eqfuse.emit.c.kernels import CKernel, Module, emit_kernel, loaded, module_text
from eqfuse.emit.c.product.schedule import product_schedule
from eqfuse.emit.c.product.writer import product_text
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Kernel
from tests.support.kernels import PRICE

C = compiled_device(DEVICES["cpu"], width=64)  # whatever CPU the tests run on
KINDS = ("map", "row", "reduce", "scan")


def emitted(kind: str, body: Graph, device: Device = C) -> CKernel:
    """The C kernel of `kind` that computes `body`."""
    kernel = emit_kernel(Kernel(kind, body, (), (), PRICE), device)
    assert isinstance(kernel, CKernel)
    return kernel


def product(body: Graph, device: Device = C, rounds: bool = True) -> CKernel:
    """Our own kernel of a body with products, be it cheaper than NumPy's or not."""
    name = f"product_{body.key}_{device.threads}"
    schedule = product_schedule(body, device)
    return CKernel(name, product_text(schedule, name, rounds), schedule)


def run_all(kernels: Sequence[CKernel], data: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """What each kernel writes for its arrays. All are compiled together; those that differ in their name alone, such as
    kernels with other constants, once."""
    texts = [k.text.source.replace(k.name, "") for k in kernels]
    different = dict(reversed([*zip(texts, kernels, strict=True)]))
    functions = loaded([Module(module_text(different.values()), [*different.values()])])
    results = []
    for k, text, arrays in zip(kernels, texts, data, strict=True):
        outs = [np.full(o.shape, 1, o.dtype) for o in k.text.parameters.body.outputs]
        k.called(functions[different[text].name], ()).run(outs, arrays)
        results.append(outs)
    return results


def judge(kernels: Sequence[CKernel], graphs: Sequence[Graph], data: Sequence[Sequence[np.ndarray]]) -> None:
    """Kernels compute what `graphs` mean: the same integers, and floats that are off by some roundings of the largest
    at most."""
    for graph, read, results in zip(graphs, data, run_all(kernels, data), strict=True):
        for got, want in zip(results, evaluate(graph, read), strict=True):
            if want.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want, str(graph))
                continue
            eps = float(ml_dtypes.finfo(want.dtype).eps)
            one, other = got.astype(np.float64), want.astype(np.float64)
            off = 64 * eps * np.abs(other[np.isfinite(other)]).max(initial=0)
            np.testing.assert_allclose(one, other, rtol=0, atol=off, err_msg=str(graph))


def with_address_sanitizer(module: str, call: str) -> None:
    """Calls what `module` has, with kernels, and the loops over them, under the sanitizer of addresses, which must be
    there before Python takes memory."""
    library = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not Path(library.strip()).is_absolute():
        pytest.skip("this compiler has no sanitizer of addresses")
    code = (
        "from eqfuse.emit.c import kernels\n"
        "from eqfuse.machine import c_loops\n"
        f"from {module} import *\n"
        "load_all = kernels.load_all\n"
        "kernels.load_all = lambda texts, quick: load_all(texts, '-O1', '-fsanitize=address')\n"
        "loaded = c_loops.loaded_library\n"
        "c_loops.loaded_library = lambda text: loaded(text, '-O1', '-fsanitize=address')\n"
        f"{call}\n"
    )
    names = {"LD_PRELOAD": library.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | names, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
