"""It fuses: kernels, then bytes, for programs written in NumPy. No laws here; fusion alone."""

import numpy as np
import pytest

from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.egraph.saturate import saturate
from eqfuse.extract import chosen_plan
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import conv, gelu, max_pool
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Kernel, Plan

CPU, GPU = DEVICES["cpu"], DEVICES["a100"]


def plan(fn, *shapes, device=CPU, extractor="flow", dtype=np.float32, laws="none") -> Plan:
    graph = fn if isinstance(fn, Graph) else trace(fn, *(spec(s, dtype) for s in shapes))
    return chosen_plan(saturate(graph, laws=laws), device, extractor)


def kernels(p: Plan) -> list[Kernel]:
    return [k for k in p.kernels if not k.is_view]


def kinds(p: Plan) -> list[str]:
    return [k.kind for k in kernels(p)]


def moved(p: Plan) -> int:
    return sum(k.price.bytes_read + k.price.bytes_written for k in p.kernels)


def flops(p: Plan) -> int:
    return sum(k.price.flops for k in p.kernels)


def seconds(p: Plan) -> float:
    return p.seconds


def chain(x):
    return np.tanh(np.sqrt(np.abs(x) + 1) * 2 - 0.5)


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


@pytest.mark.parametrize("device", [d for d in DEVICES.values() if d.kind == "gpu"], ids=lambda d: d.name)
def test_a_long_cheap_pointwise_chain_is_bound_by_memory(device):
    p = plan(lambda x: (np.abs(x) * 2 + 1) * x - 3, 2**24, device=device)
    assert [k.price.bound for k in kernels(p)] == ["memory"]


def test_fusing_bias_and_relu_into_a_product_saves_two_intermediates_written_and_read():
    shapes = ((512, 256), (256, 1024), (1024,))
    unfused, fused = (plan(layer, *shapes, extractor=e) for e in ("unfused", "greedy-materialise"))
    assert moved(unfused) - moved(fused) == 4 * 512 * 1024 * 4
    assert kinds(fused) == ["contract"]


def test_fusion_alone_does_not_change_the_arithmetic():
    assert flops(plan(chain, 2**20)) == flops(plan(chain, 2**20, extractor="unfused"))


def test_on_small_arrays_fusion_saves_launches():
    device = datasheet("a100")
    small = (1000,)
    saved = seconds(plan(chain, small, device=device, extractor="unfused")) - seconds(plan(chain, small, device=device))
    assert saved == pytest.approx(5 * device.launch_seconds, rel=0.1)
    assert kernels(plan(chain, small, device=device))[0].price.bound == "launch"


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_softmax_and_layer_norm_with_gelu_are_one_kernel_each(device):
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def norm_gelu(x, g, b):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
        return gelu(y)

    assert kinds(plan(softmax, (4096, 1024), device=device)) == ["row"]
    assert kinds(plan(norm_gelu, (4096, 1024), (1024,), (1024,), device=device)) == ["row"]


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, t: ((p - t) ** 2).mean(),
        lambda p, t: np.where(np.abs(p - t) < 1, 0.5 * (p - t) ** 2, np.abs(p - t) - 0.5).mean(),
        lambda p, t: -((1 - p) ** 2 * t * np.log(p)).sum(),
    ],
    ids=["mse", "huber", "focal"],
)
def test_a_whole_loss_is_one_kernel(loss):
    assert kinds(plan(loss, (1024, 1024), (1024, 1024), device=GPU, laws="all")) == ["reduce"]


def test_a_product_of_a_transposed_matrix_needs_no_transpose_kernel():
    assert kinds(plan(lambda x, y: x.T @ y, (256, 128), (256, 64))) == ["contract"]


def test_conv_bias_relu_then_pool_is_two_kernels():
    def network(x, w, b):
        return max_pool(np.maximum(conv(x, w, padding=1) + b, 0), 2)

    p = plan(network, (16, 32, 56, 56), (64, 32, 3, 3), (64, 1, 1))
    assert sorted(kinds(p)) == ["contract", "window"]


def test_a_group_that_would_need_its_own_result_through_an_opaque_operator_is_refused():
    """The control N3: A → B and A → sort → B"""

    def program(x):
        a = np.exp(x)
        return a + np.sort(a, axis=-1)

    for extractor in ("flow", "greedy-priority", "greedy-materialise", "greedy-duplicate", "greedy-depth"):
        p = plan(program, (64, 64), extractor=extractor)
        done = set(p.inputs)
        for k in p.kernels:
            assert set(k.reads) <= done, "a kernel reads what has not been written"
            done |= set(k.writes)


def test_a_cheap_producer_is_recomputed_and_a_costly_one_is_stored():
    def program(steps):
        def run(x):
            for _ in range(steps):
                x = x * 1.01 + 0.1
            return x.sum(1), x.sum(0), (x.T * 2).sum(1)

        return run

    device = datasheet("a100")
    cheap, costly = (plan(program(n), (4096, 4096), device=device) for n in (4, 30))
    # stored once when costly: some kernel writes the full matrix; recomputed when cheap: none does
    full = 4096 * 4096 * 4
    assert max(k.price.bytes_written for k in kernels(cheap)) < full
    assert max(k.price.bytes_written for k in kernels(costly)) >= full


def test_a_node_that_reaches_no_output_gets_no_kernel():
    def program(x):
        np.exp(x) + 1
        return x * 2

    assert [n.op for k in kernels(plan(program, 1000)) for n in k.body.operators] == ["multiply"]


def test_equal_subexpressions_are_computed_once():
    p = plan(lambda x: np.exp(x) + np.exp(x) * 2, 1000)
    assert [n.op for k in kernels(p) for n in k.body.operators].count("exp") == 1


def test_siblings_that_read_the_same_rows_share_a_kernel():
    """G28"""
    p = plan(lambda x: (x.mean(1), x.max(1), (x * x).sum(1)), (4096, 4096), device=GPU)
    assert kinds(p) == ["reduce"]


def test_a_value_that_an_opaque_operator_reads_as_well_leaves_the_fused_kernel_too():
    """G27: several outputs"""

    def program(x, y):
        p = np.exp(x) * 2
        return np.tanh(p) + y, np.sort(p, axis=-1)

    p = plan(program, (2048, 2048), (2048, 2048), device=GPU)
    assert sorted((k.kind, len(k.writes)) for k in kernels(p)) == [("library", 1), ("map", 2)]


def test_the_same_program_gives_the_same_plan_twice():
    """N10"""
    a, b = (plan(layer, (64, 32), (32, 16), (16,)) for _ in range(2))
    assert [(k.kind, str(k.body), k.reads, k.writes, k.price) for k in a.kernels] == [
        (k.kind, str(k.body), k.reads, k.writes, k.price) for k in b.kernels
    ]


def test_black_scholes_with_all_greeks_is_one_kernel_with_seven_outputs():
    from eqfuse.demo.programs import options

    function, arguments = options(count=1000).build(np.float32)
    graph = trace(function, *(spec((4_000_000,), np.float32) for _ in arguments))
    (kernel,) = kernels(plan(graph))
    assert kernel.kind == "map" and len(kernel.writes) == 7
