"""The price of kernels that reduce rows on a GPU: what the emitted text reads, and blocks too few for the device."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.cost.roofline import DRAWN
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.plan.plan import Kernel
from tests.support.gpu import program_on
from tests.support.kernels import PRICE, add, layer_norm, mul, read, reduced, softmax

H100 = profile("h100")


def softmax_backward(x: Node, axis: int) -> Node:
    gradient, s = read(1, x.shape, x.dtype), softmax(x, axis)
    return mul(s, node("subtract", (gradient, reduced("sum", mul(gradient, s), axis))))


ROWS: dict[str, Callable[[Node, int], Node]] = {
    "softmax": lambda x, axis: softmax(x, axis),
    "softmax, backward": softmax_backward,
    "logarithm of a sum": lambda x, axis: node("log", (reduced("sum", softmax(x, axis), axis),)),
    "norm": layer_norm,
    "norm of a sum": lambda x, axis: layer_norm(add(x, read(1, x.shape, x.dtype)), axis),
    "one pass": lambda x, axis: mul(x, reduced("max", x, axis)),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_a_kernel_reads_as_often_as_it_is_priced(name: str, dtype: Any) -> None:
    for axis, lengths in ((-1, (5, 1024, 4096, 20_000, 32_768, 49_152, 50_257, 131_072)), (-2, (5, 500, 520, 3000))):
        for n in lengths:
            with np.errstate(over="ignore"):  # float16 has no 131072
                output = ROWS[name](read(0, (256, n) if axis == -1 else (n, 4096), dtype), axis)
            body = Graph(tuple(i for i in Graph((), (output,)).nodes if i.op == "input"), (output,))
            answer = priced(body, H100)
            assert not isinstance(answer, str), answer
            text = emit_kernel(Kernel("row", body, (), (), PRICE), H100).source
            ends = re.compile(r"\n    for \(int k = [1-9].*?\n    }\n", re.DOTALL)  # of the same rows
            text = ends.sub("", text)
            loads = [len(re.findall(rf"\br{i}(\[| \+ )", text)) for i in range(len(body.inputs))]  # of vectors too
            wanted = sum(count * x.type.nbytes for count, x in zip(loads, body.inputs, strict=True))
            assert answer[1].bytes_read == wanted, (axis, n, text)


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)


def squares_and_their_sum(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x * x, (x * x).sum(-1)


@pytest.mark.parametrize("function, counts", [
    (softmax_of, (1, 4, 64, 1 << 14)), (standardised, (1, 16, 1 << 14)), (squares_and_their_sum, (1, 2, 256, 1 << 14)),
])  # fmt: skip
def test_long_work_has_blocks_enough_for_the_bandwidth(
    function: Callable[[np.ndarray], Any], counts: tuple[int, ...]
) -> None:
    for rows in counts:
        x = ef.spec((rows, (1 << 24) // rows), np.float32)
        program = program_on(ef.compile(function, x, target="cuda:h100").plan)
        for kernel, emitted in zip(program.plan.kernels, program.executable.functions, strict=True):
            if isinstance(emitted, CudaKernel) and kernel.price.bytes_read > 1e6:
                assert emitted.grid[0] * emitted.grid[1] >= H100.multiprocessors / DRAWN - 2, (rows, str(kernel))


def test_a_block_alone_draws_a_small_part_of_the_bandwidth() -> None:
    def seconds(*shape: int) -> float:
        answer = priced(Graph((x := read(0, shape),), (softmax(x),)), H100)
        assert not isinstance(answer, str), answer
        return answer[1].seconds - H100.launch_seconds

    assert seconds(1, 1 << 22) > seconds(1 << 10, 1 << 12) * H100.multiprocessors / DRAWN
    assert seconds(4, 1 << 20) < seconds(1, 1 << 22) / 3
