"""ONNX's operators and their definitions: a node test `X` and its `X_expanded`, written by others, are one program.

Both are loaded, put into one e-graph and saturated: their outputs end in one class, or, where the book does not reach
that far, the two programs cost the same. What still differs is in the table, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

import eqfuse as ef
from eqfuse.budget import Budget
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.errors import EqfuseError
from eqfuse.frontends.onnx.table import ONNX_OPERATORS
from eqfuse.ir.graph import Graph
from eqfuse.rewrites import admitted, laws_named

onnx = pytest.importorskip("onnx", reason="the pairs are among the tests of the package onnx")
pytestmark = pytest.mark.outside

from tests.support.onnx_cases import load, node_cases  # noqa: E402

# by the name of the test: why the two are neither one class nor of one price
DIFFERENT = {
    "affine_grid": "the definition takes places of an image for places of a volume",
    "celu_bfloat16": "the definition rounds to bfloat16 after each step",
    "center_crop_pad": "padded before it is cropped, or after",
    "dynamicquantizelinear": "the definition divides by zero for an array of zeros, and reads the rounded zero point",
    "gelu_tanh": "the definition rounds √(2/π) twice: the constants differ by one unit in the last place",
    "nllloss_.*_ii": "what the ignored index picks is multiplied by zero here, replaced by zero there",
    "sce_mean_.*_ii": "the search ends before the two orders of summation meet",
    "rotary_embedding": "where pairs of neighbours turn, the definition joins them in another order",
    "reduce_log_sum_exp": "the definition takes no maximum off, and so overflows",
    "attention.*(padded_kv|_fp16|float16_mask|rank4_mask|softmax_precision)": "masks of lengths, rounded in between",
}


def pairs() -> list[str]:
    """The tests whose expansion is a test too."""
    cases = node_cases()
    return [name for name in cases if f"{name}_expanded" in cases]


def both(name: str) -> tuple[Graph, Graph] | None:
    """The graphs of a pair, over the same inputs; None where one is refused."""
    case, expanded = node_cases()[name], node_cases()[f"{name}_expanded"]
    known: dict = {}
    try:
        while True:
            graph, needed = load(case, known)
            other, more = load(expanded, needed)
            if more == known or more.keys() == known.keys():
                return graph, other
            known = more
    except EqfuseError:
        return None


def verdict(name: str) -> str:
    """"same", "proved", "proved, approximately", "same price" or "different"."""
    graph, other = both(name) or pytest.fail(f"{name} does not load")
    if graph.outputs == other.outputs:
        return "same"
    inputs = tuple({n.attr("name"): n for n in (*graph.inputs, *other.inputs)}.values())
    together = Graph(inputs, (*graph.outputs, *other.outputs))
    for numerics, answer in (("reassociate", "proved"), ("approximate", "proved, approximately")):
        segment = saturate_segment(together, admitted(laws_named("all"), numerics), Budget(seconds=10))
        half = len(graph.outputs)
        if segment.roots[:half] == segment.roots[half:]:
            return answer
    prices = [ef.compile(g).report.predicted_seconds for g in (graph, other)]
    return "same price" if prices[0] == pytest.approx(prices[1], rel=1e-6) else "different"


def has_row(name: str) -> bool:
    """Is there a row for the test's operator? Without one its definition is inlined, and the two are trivially one."""
    return ("", node_cases()[name].operator) in ONNX_OPERATORS


def judge(names: list[str]) -> Counter[str]:
    """How often each verdict was reached. Fails for a difference without a reason."""
    verdicts = {name: verdict(name) for name in names}
    wrong = [n for n, v in verdicts.items() if v == "different" and not any(re.search(p, n) for p in DIFFERENT)]
    assert not wrong, f"these differ from their definition: {', '.join(wrong)}"
    return Counter(v if has_row(n) else "definition inlined" for n, v in verdicts.items())


def test_the_first_pair_of_every_operator_is_one_program() -> None:
    first: dict[str, str] = {}
    for name in pairs():
        operator = node_cases()[name].operator
        if operator not in first and both(name) is not None:
            first[operator] = name
    counts = judge([name for name in first.values() if has_row(name)])
    assert counts.total() > 30 and counts["different"] <= 5, counts


@pytest.mark.parametrize(
    "name", ["softmax_example", "logsoftmax_example_1", "rms_normalization_2d_axis0", "hardswish",
             "mish", "attention_4d", "attention_4d_gqa_causal", "attention_3d_with_past_and_present", "sce_mean_3d"],
)  # fmt: skip
def test_well_known_pairs_are_proved(name: str) -> None:
    assert verdict(f"test_{name}") in ("same", "proved")


def test_a_quotient_by_a_number_and_the_product_with_its_rounded_reciprocal_are_one_by_approximation() -> None:
    assert verdict("test_gelu_default_1") == "proved, approximately"  # x / sqrt(2), and x * 0.7071


@pytest.mark.slow
def test_one_in_thirty_two_of_the_pairs_is_one_program_or_differs_for_a_reason_of_the_table() -> None:
    counts = judge([name for name in pairs()[::32] if both(name) is not None])
    assert counts["different"] <= 4 and counts["same price"] <= 3, counts
