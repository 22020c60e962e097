"""ONNX's own tests of its operators: what loads gives the expected outputs, and what does not is refused by name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError
from eqfuse.frontends.onnx.table import UnknownValue

onnx = pytest.importorskip("onnx", reason="the tests of ONNX's operators are part of the package onnx")
pytestmark = pytest.mark.outside

from tests.support.onnx_cases import OnnxTest, arguments, assert_expected, load, node_cases  # noqa: E402

# why a test cannot be loaded: what the error says, and of how many of onnx 1.23.2's 1,884 tests it says so
REASONS = {
    "a dtype that no tensor has": (r"which is not a tensor's", 148),
    "a sequence or an option goes in or out": (r"is an? (sequence|optional)", 29),
    "its shape depends on data": (r"the shape of its result depends on data", 18),
    "random numbers": (r"random numbers", 10),
    "files, strings and trees": (r"it decodes files|strings are not tensors|ai\.onnx\.ml\.", 20),
    "training steps": (r"ai\.onnx\.preview\.training", 7),
    "sampling of regions": (r"DeformConv", 4),
    "an older version": (r"convert the model by onnx\.version_converter", 1),
}

PASSES = 1647

# fused, a product of half floats is summed in another order than the tests' tolerance of 0.001 allows for
ROUNDED_OTHERWISE = {
    "test_attention_4d_fp16",
    "test_attention_4d_gqa_with_past_and_present_fp16",
    "test_attention_4d_gqa_with_past_and_present_fp16_expanded",
}


def verdict(case: OnnxTest, run: Any) -> str:
    """"passes", or why `case` was refused. AssertionError when its outputs are not the expected ones."""
    try:
        graph, known = load(case)
    except EqfuseError as error:
        return next((why for why, (says, _) in REASONS.items() if re.search(says, str(error))), str(error))
    with np.errstate(all="ignore"):
        assert_expected(case, run(graph)(*arguments(case, known)))
    return "passes"


def compiled(case: OnnxTest) -> None:
    numerics = "strict" if case.name in ROUNDED_OTHERWISE else "reassociate"
    verdict(case, lambda graph: ef.compile(graph, numerics=numerics))


def test_every_node_test_passes_or_is_refused_for_a_reason_of_the_table_and_one_in_a_hundred_when_compiled() -> None:
    verdicts = Counter()
    wrong = []
    for i, case in enumerate(node_cases().values()):
        try:
            verdicts[verdict(case, lambda graph: lambda *args: ef.meaning(graph, *args))] += 1
            if i % 100 == 0:
                compiled(case)
        except AssertionError as error:
            wrong.append(f"{case.name}: {error}")
    assert not wrong, "\n".join(wrong)
    if onnx.__version__ == "1.23.2":
        assert verdicts == {"passes": PASSES, **{why: count for why, (_, count) in REASONS.items()}}, "REASONS above"
    else:
        assert verdicts["passes"] >= 0.85 * verdicts.total()


def test_the_readme_says_how_many_pass() -> None:
    text = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    every = PASSES + sum(count for _, count in REASONS.values())
    assert f"Of ONNX 1.23's own {every:,} tests of operators, {PASSES:,} load and give the expected outputs" in text


# ---- the models that come with the package

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def tensors(folder: Path, kind: str) -> list[np.ndarray]:
    arrays = []
    for i in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = onnx.TensorProto()
        proto.ParseFromString((folder / f"{kind}_{i}.pb").read_bytes())
        arrays.append(onnx.numpy_helper.to_array(proto))
    return arrays


@pytest.mark.parametrize("kind, passing", [("simple", 14), ("pytorch-operator", 35), ("pytorch-converted", 81)])
def test_models_of_several_nodes_give_their_outputs(kind: str, passing: int) -> None:
    refused = []
    folders = sorted(folder for folder in (DATA / kind).iterdir() if folder.is_dir())
    for folder in folders:
        known: dict[str, Any] = {}
        try:
            names = [i.name for i in onnx.load(folder / "model.onnx").graph.input]
            given = dict(zip(names, tensors(folder / "test_data_set_0", "input"), strict=False))
            while True:
                try:
                    graph = ef.from_onnx(folder / "model.onnx", known)
                    break
                except UnknownValue as error:
                    known.update({name: given[name] for name in error.inputs})
        except EqfuseError:
            refused.append(folder.name)
            continue
        got = ef.meaning(graph, *(x for name, x in given.items() if name not in known))
        wanted = tensors(folder / "test_data_set_0", "output")
        for g, w in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-5)
    assert len(folders) - len(refused) >= passing, refused


# resnet50 has no other operators than these; squeezenet's weights, all equal, make logits of millions, whose rounding
# its softmax magnifies
@pytest.mark.slow
@pytest.mark.parametrize("net", ["inception_v1", "shufflenet"])
def test_a_whole_network_gives_its_output(net: str) -> None:
    graph = ef.from_onnx(DATA / "light" / f"light_{net}.onnx")
    (image,) = graph.inputs
    size = int(np.prod(image.shape))
    x = (np.arange(size).astype(np.float32) / size).reshape(image.shape)
    proto = onnx.TensorProto()
    proto.ParseFromString((DATA / "light" / f"light_{net}_output_0.pb").read_bytes())
    np.testing.assert_allclose(ef.meaning(graph, x), onnx.numpy_helper.to_array(proto), rtol=1e-3, atol=1e-5)
