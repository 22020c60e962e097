"""The lattice of kinds: which bodies one kernel may have, and why others are refused."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

from eqfuse import kinds
from eqfuse.cost.profiles import DEVICES
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.kinds import KINDS, Kind, State, classify, kind_named, register
from eqfuse.ops.types import TensorType
from eqfuse.runtime import disk_cache

CPU, GPU = DEVICES["cpu"], DEVICES["a100"]
F32 = np.dtype(np.float32)
ROWS = ((-1,),)


def tensor(name: str, *shape: int) -> Node:
    return input_node(name, TensorType(F32, shape))


def op(name: str, *args: Node, attrs: tuple = ()) -> Node:
    return node(name, args, attrs)


def kernel(*outputs: Node) -> Graph:
    inputs: list[Node] = []
    stack = list(outputs)
    while stack:
        n = stack.pop()
        if n.op == "input" and n not in inputs:
            inputs.append(n)
        stack.extend(n.args)
    return Graph(tuple(inputs), outputs)


def kind(*outputs: Node, device=CPU) -> str:
    state = classify(kernel(*outputs), device)
    assert isinstance(state, State), state
    return state.kind


def refusal(*outputs: Node, device=CPU) -> str:
    reason = classify(kernel(*outputs), device)
    assert isinstance(reason, str), reason
    return reason


def softmax(x: Node) -> Node:
    e = op("exp", op("subtract", x, op("max", x, attrs=ROWS)))
    return op("divide", e, op("sum", e, attrs=ROWS))


X = tensor("x", 8, 16)


def test_elementwise_work_with_broadcasting_is_a_map():
    assert kind(op("multiply", op("exp", X), tensor("b", 16))) == "map"


def test_a_reshape_between_two_pointwise_operators_does_not_split_the_kernel():
    flat = op("reshape", op("exp", X), attrs=((128,),))
    assert kind(op("negative", flat)) == "map"


def test_a_reshape_of_broadcast_values_needs_them_stored():
    spread = op("add", X, tensor("b", 16))
    assert "reshape" in refusal(op("negative", op("reshape", spread, attrs=((128,),))))


def test_a_transpose_between_two_pointwise_operators_is_taken_on_the_leaves():
    assert kind(op("exp", op("transpose", op("exp", X), attrs=((1, 0),)))) == "map"


def test_a_pointwise_prologue_joins_a_reduction():
    assert kind(op("sum", op("square", X), attrs=ROWS)) == "reduce"


def test_softmax_is_one_row_kernel():
    assert kind(softmax(X)) == "row"


def test_two_softmaxes_over_the_same_rows_share_a_kernel():
    """G26"""
    assert kind(op("add", softmax(X), softmax(tensor("y", 8, 16)))) == "row"


def test_reductions_over_different_axes_do_not_share_a_kernel():
    assert "different axes" in refusal(op("sum", X, attrs=ROWS), op("sum", X, attrs=((-2,),)))


def test_sibling_reductions_of_the_same_rows_share_a_kernel():
    """G28"""
    assert kind(op("sum", X, attrs=ROWS), op("max", X, attrs=ROWS)) == "reduce"


def test_a_value_and_its_row_sum_can_leave_one_kernel():
    y = op("exp", X)
    assert kind(y, op("sum", y, attrs=ROWS)) == "row"


def test_bias_and_activation_join_a_product():
    product = op("matmul", X, tensor("w", 16, 4))
    assert kind(op("maximum", op("add", product, tensor("b", 4)), const(np.float32(0)))) == "contract"


def test_a_product_reads_a_transposed_operand_without_a_buffer():
    assert kind(op("matmul", op("transpose", X, attrs=((1, 0),)), tensor("w", 8, 4))) == "contract"


def test_work_on_the_right_operand_of_a_product_is_refused():
    assert "right operand" in refusal(op("matmul", X, op("exp", tensor("w", 16, 4))))


def test_two_products_do_not_share_a_kernel():
    a, b = (op("matmul", X, tensor(n, 16, 4)) for n in "ab")
    assert "two different products" in refusal(op("add", a, b))


def test_product_softmax_product_is_attention_and_keeps_the_square_on_chip():
    q, kt, v = tensor("q", 2, 8, 4), tensor("kt", 2, 4, 8), tensor("v", 2, 8, 4)
    assert kind(op("matmul", softmax(op("matmul", q, kt)), v)) == "back_to_back"


def test_attention_may_divide_by_the_row_sums_after_the_second_product():
    """G16"""
    q, kt, v = tensor("q", 2, 8, 4), tensor("kt", 2, 4, 8), tensor("v", 2, 8, 4)
    e = op("exp", op("matmul", q, kt))
    assert kind(op("divide", op("matmul", e, v), op("sum", e, attrs=ROWS))) == "back_to_back"


def test_on_a_gpu_a_product_takes_elementwise_work_on_both_sides():
    product = op("matmul", op("tanh", X), tensor("w", 16, 4))
    assert kind(op("maximum", op("add", product, tensor("b", 4)), const(np.float32(0))), device=GPU) == "contract"


def test_on_a_gpu_reductions_before_and_after_a_product_are_kernels_of_their_own():
    w, long = tensor("w", 16, 4), op("matmul", tensor("x", 8, 256), tensor("u", 256, 4))
    assert "kernel of its own" in refusal(op("sum", long, attrs=ROWS), device=GPU)
    assert "is stored before" in refusal(op("matmul", softmax(X), w), device=GPU)


def test_on_a_gpu_a_product_of_integers_is_a_library_call_that_nothing_joins():
    a, b = (input_node(n, TensorType(np.dtype(np.int32), (4, 4))) for n in "ab")
    product = op("matmul", a, b)
    assert kind(product, device=GPU) == "contract"
    assert "library call" in refusal(op("negative", product), device=GPU)
    assert "library call" in refusal(op("matmul", op("negative", a), b), device=GPU)


def test_a_convolution_takes_its_bias_and_relu():
    x, w = tensor("x", 2, 3, 8, 8), tensor("w", 4, 3, 3, 3)
    y = op("conv", x, w, attrs=((1, 1), ((1, 1), (1, 1)), (1, 1), 1))
    assert kind(op("maximum", op("add", y, tensor("b", 4, 1, 1)), const(np.float32(0)))) == "contract"


def test_relu_joins_the_pooling_after_it():
    """G18"""
    x = tensor("x", 2, 3, 8, 8)
    relu = op("maximum", x, const(np.float32(0)))
    assert kind(op("window_max", relu, attrs=((2, 2), (2, 2), ((0, 0), (0, 0))))) == "window"


def test_a_library_operator_stands_alone():
    assert kind(op("sort", X, attrs=(-1, False))) == "library"
    assert refusal(op("exp", op("sort", X, attrs=(-1, False)))) == "what exp reads is the result of a library call"
    assert refusal(op("sort", op("exp", X), attrs=(-1, False))) == "sort runs as one library call"


def test_a_view_moves_nothing():
    assert kind(op("transpose", X, attrs=((1, 0),))) == "view"


def test_a_reshape_that_numpy_would_copy_is_no_view():
    turned = op("transpose", X, attrs=((1, 0),))
    assert kind(op("reshape", turned, attrs=((128,),))) == "library"


@pytest.mark.parametrize("axes", [((-1,),), ((-2,),), ((-2, -1),)])
def test_a_second_pass_over_the_same_axes_stays_in_the_kernel(axes):
    """Two-pass variance (G14)."""
    count = const(np.float32(3))
    centred = op("subtract", X, op("divide", op("sum", X, attrs=axes), count))
    assert kind(op("divide", op("sum", op("square", centred), attrs=axes), count)) == "row"


def test_a_scalar_made_by_a_reshape_is_seen_through_any_view() -> None:
    scalar = op("reshape", tensor("x", 1), attrs=((),))
    for op_name, attrs in (("transpose", ((),)), ("reshape", ((1, 1),)), ("broadcast_to", ((3,),)), ("flip", ((),))):
        assert kind(op("exp", op(op_name, scalar, attrs=attrs))) == "map"


@pytest.mark.parametrize("joined", [
    op("concat", op("exp", X), X, attrs=(-2,)),
    op("pad", X, const(np.float32(0)), attrs=(((1, 1), (0, 0)),)),
    op("slice_scatter", op("exp", X), X, attrs=((((0, 8, 1), (0, 16, 1)),),)),
], ids=lambda n: n.op)  # fmt: skip
def test_no_kernel_scans_beside_arrays_that_are_joined_of_pieces(joined: Node) -> None:
    scanned = op("cumsum", tensor("y", *joined.shape), attrs=(-2,))
    for values in ((joined, scanned), (scanned, joined)):
        assert "what is joined of pieces is stored before" in refusal(op("add", *values), device=GPU)


def test_every_kind_that_has_a_file_is_asked() -> None:
    modules = (import_module(f"eqfuse.kinds.{m.name}") for m in iter_modules(kinds.__path__))
    assert {m.KIND.name for m in modules if hasattr(m, "KIND")} == KINDS.keys()


def test_every_kind_has_a_row_in_the_readme_of_kinds() -> None:
    text = (Path(kinds.__path__[0]) / "README.md").read_text()
    missing = [name for name in KINDS if f"| `{name}` |" not in text]
    assert not missing, f"the table of kinds in eqfuse/kinds/README.md has no row for {missing}"


def test_a_kind_must_have_a_name_of_its_own() -> None:
    with pytest.raises(EqfuseError, match="already"):
        register(Kind("map", lambda call: None))


def test_a_kernel_of_a_kind_that_is_not_registered_is_refused_by_name() -> None:
    with pytest.raises(EqfuseError, match=r"no kernel kind is named 'fold'.*register"):
        kind_named("fold")


def test_plans_made_with_a_registered_kind_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor("x", 3)
    graph = Graph((x,), (op("exp", x),))
    choices = (graph, CPU, "reassociate", (), "flow", None, None)
    plain = disk_cache.plan_key(*choices)
    monkeypatch.setattr(kinds, "_REGISTERED", [])
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    register(Kind("shy", lambda call: None))
    assert list(kinds.KINDS)[-2:] == ["shy", "library"]
    assert plain.path is not None and disk_cache.plan_key(*choices).path is None
    assert disk_cache.plan_key(*choices).values != plain.values
