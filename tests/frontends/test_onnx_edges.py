"""Edges of operators: bounds beyond an axis, nothing at all, infinities, ties, signs. The standard decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError, ShapeError

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
pytestmark = pytest.mark.outside

F = np.float32
NAN, INF = np.nan, np.inf
NUMBERS = np.arange(5, dtype=F)


def loaded(text: str, opset: int, known: dict[str, Any] | None = None) -> Any:
    return ef.from_onnx(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> main {text}'), known)


CASES: dict[str, tuple[int, str, list[Any], Any]] = {
    "the nearest element of a smaller image, before opset 11, is the one above": (
        10,
        """(float[2, 4] x) => (float[N, M] y) <float[2] scales = {0.6, 0.6}> { y = Resize (x, scales) }""",
        [np.arange(1, 9, dtype=F).reshape(2, 4)],
        np.array([[1, 3]], F),
    ),
    "the nearest element of a larger image, before opset 11, is the one below": (
        10,
        """(float[2] x) => (float[N] y) <float[1] scales = {2.5}> { y = Resize (x, scales) }""",
        [NUMBERS[:2]],
        np.array([0, 0, 0, 1, 1], F),
    ),
    "padding repeats what is left where elements are taken away": (
        19,
        """(float[5] x) => (float[N] y) <int64[2] widths = {3, -2}> { y = Pad <mode = "wrap"> (x, widths) }""",
        [NUMBERS],
        NUMBERS[[0, 1, 2, 0, 1, 2]],
    ),
    "a slice backwards from before the first element takes the first": (
        13,
        """(float[5] x) => (float[N] y)
        <int64[1] a = {-9}, int64[1] b = {-99}, int64[1] axis = {0}, int64[1] s = {-1}>
        { y = Slice (x, a, b, axis, s) }""",
        [NUMBERS],
        NUMBERS[:1],
    ),
    "a range of large integers has as many as there are": (
        11,
        """() => (int64[N] y) <int64 a = {9007199254740992}, int64 b = {9007199254740995}, int64 step = {1}>
        { y = Range (a, b, step) }""",
        [],
        np.arange(2**53, 2**53 + 3),
    ),
    "a product plus nothing times C asks not what C holds": (
        13,
        """(float[1, 2] x, float[2, 1] z, float[1] c) => (float[1, 1] y)
        { y = Gemm <beta = 0.0> (x, z, c) }""",
        [np.array([[2, 3]], F), np.array([[1], [1]], F), np.array([NAN], F)],
        np.array([[5]], F),
    ),
    "a slice backwards of nothing is nothing": (
        13,
        """(float[0] x) => (float[N] y)
        <int64[1] a = {-9}, int64[1] b = {-99}, int64[1] axis = {0}, int64[1] s = {-1}>
        { y = Slice (x, a, b, axis, s) }""",
        [NUMBERS[:0]],
        NUMBERS[:0],
    ),
    "the mean of integers is cut off towards zero": (
        18,
        "(int64[2] x) => (int64[1] y) { y = ReduceMean (x) }",
        [np.array([-3, 0])],
        np.array([-1]),
    ),
    "the logarithm of a sum keeps infinities": (
        18,
        "(float[4, 2] x) => (float[4] y) <int64[1] axis = {1}> { y = ReduceLogSumExp <keepdims = 0> (x, axis) }",
        [np.array([[INF, 1], [-INF, -INF], [-INF, 2], [INF, NAN]], F)],
        np.array([INF, -INF, 2, NAN], F),
    ),
    "the logarithm of a sum of one is the number": (
        18,
        "(float[1] x) => (float[1] y) { y = ReduceLogSumExp <noop_with_empty_axes = 1> (x) }",
        [np.array([949], F)],
        np.array([949], F),
    ),
    "an operator that is deprecated is what it was": (
        18,
        """(float[1, 4, 1] x, float[2] scale, float[2] shift) => (float[1, 4, 1] y)
        { y = GroupNormalization <num_groups = 2, epsilon = 0.0> (x, scale, shift) }""",
        [np.array([[[1], [3], [5], [1]]], F), np.array([1, 2], F), np.array([0, 1], F)],
        np.array([[[-1], [1], [3], [-1]]], F),
    ),
    "the place of a maximum is never in the padding": (
        12,
        """(int8[1, 2, 3] x) => (int8[1, 2, 3] m, int64[1, 2, 3] y)
        { m, y = MaxPool <kernel_shape = [3], pads = [1, 1]> (x) }""",
        [np.full((1, 2, 3), -128, np.int8)],
        np.array([[[0, 0, 1], [3, 3, 4]]]),
    ),
    "the place of minus infinity is not in the padding either": (
        12,
        """(float[1, 2, 2] x) => (float[1, 2, 2] m, int64[1, 2, 2] y)
        { m, y = MaxPool <kernel_shape = [2], pads = [1, 0]> (x) }""",
        [np.full((1, 2, 2), -INF, F)],
        np.array([[[0, 0], [2, 2]]]),
    ),
    "a place beyond the image is interpolated from border elements": (
        20,
        """(float[1, 1, 1, 3] x, float[1, 1, 1, 2] grid) => (float[1, 1, 1, 1] y)
        { y = GridSample <mode = "cubic", padding_mode = "border"> (x, grid) }""",
        [np.array([[[[0, 0, 8]]]], F), np.array([[[[0.8, 0]]]], F)],
        np.array([[[[8.768]]]], F),
    ),
    "what is sampled outside is zero beside an infinity": (
        20,
        """(float[1, 1, 1, 2] x, float[1, 1, 1, 2] grid) => (float[1, 1, 1, 1] y) { y = GridSample (x, grid) }""",
        [np.array([[[[INF, 1]]]], F), np.array([[[[-1, 0]]]], F)],
        np.array([[[[INF]]]], F),
    ),
    "a grid for one image": (
        20,
        """(float[1, 2, 3] theta) => (float[1, 1, 2, 2] y) <int64[4] size = {1, 1, 1, 2}>
        { y = AffineGrid (theta, size) }""",
        [np.array([[[1, 0, 0], [0, 1, 3]]], F)],
        np.array([[[[-0.5, 3], [0.5, 3]]]], F),
    ),
    "a NaN spoils the elements that are read beside it alone": (
        19,
        """(float[6] x) => (float[3] y) <int64[1] size = {3}> { y = Resize <mode = "linear"> (x, "", "", size) }""",
        [np.array([0, 1, 2, 3, NAN, 5], F)],
        np.array([0.5, 2.5, NAN], F),
    ),
    "one element that is left is the first": (
        19,
        """(float[3] x) => (float[1] y) <int64[1] size = {1}>
        { y = Resize <coordinate_transformation_mode = "pytorch_half_pixel", mode = "cubic"> (x, "", "", size) }""",
        [NUMBERS[1:4]],
        NUMBERS[1:2],
    ),
    "weights of nothing are nothing": (
        13,
        "(float[2, 0] x) => (float[2, 0] y) { y = Softmax (x) }",
        [np.zeros((2, 0), F)],
        np.zeros((2, 0), F),
    ),
    "rows of nothing are nothing": (
        11,
        "(float[0, 3] x) => (float[0, 3] y) { y = LogSoftmax (x) }",
        [np.zeros((0, 3), F)],
        np.zeros((0, 3), F),
    ),
    "the largest of nothing is nothing": (
        13,
        "(float[2, 0] x) => (float[2, 0] y) { y = Hardmax (x) }",
        [np.zeros((2, 0), F)],
        np.zeros((2, 0), F),
    ),
    "Celu with a negative slope": (
        12,
        "(float[2] x) => (float[2] y) { y = Celu <alpha = -1.0> (x) }",
        [np.array([1, -1], F)],
        np.array([1, 1 - np.e], F),
    ),
    "a float attribute left out has the bits of float32": (
        16,
        "(double[1] x) => (double[1] y) { y = LeakyRelu (x) }",
        [np.array([-1.0])],
        np.array([-float(F(0.01))]),
    ),
    "an integer too large for float8 is its largest number": (
        19,
        "(int64[2] x) => (float8e4m3fn[2] z, float[2] y) { z = Cast <to = 17> (x) y = Cast <to = 1> (z) }",
        [np.array([1000, -1000])],
        np.array([448, -448], F),
    ),
    "a loss that is ignored is zero, whatever it would be": (
        13,
        """(float[1, 2] x, int64[1] target) => (float y)
        { y = NegativeLogLikelihoodLoss <ignore_index = 0, reduction = "sum"> (x, target) }""",
        [np.array([[INF, 1]], F), np.array([0])],
        np.array(0, F),
    ),
    "the determinant of half floats": (
        22,
        "(float16[1, 1] x) => (float16 y) { y = Det (x) }",
        [np.array([[3]], np.float16)],
        np.array(3, np.float16),
    ),
    "a loop without a step puts out nothing, of the shape of a step": (
        13,
        """(float[2] x) => (float[2] last, float[K, 2] y) <int64 n = {0}> { last, y = Loop (n, "", x) <
        body = step (int64 i, bool c, float[2] h) => (bool d, float[2] after, float[2] shown)
        { d = Identity (c) after = Neg (h) shown = Exp (h) }> }""",
        [np.ones(2, F)],
        np.zeros((0, 2), F),
    ),
    "a scan of nothing puts out nothing, of the shape of a step": (
        13,
        """(float[2] h0, float[0, 2] x) => (float[2] last, float[2, K] y) { last, y = Scan <num_scan_inputs = 1,
        scan_output_axes = [-1], body = step (float[2] h, float[2] e) => (float[2] after, float[2] shown)
        { after = Add (h, e) shown = Mul (h, e) }> (h0, x) }""",
        [np.ones(2, F), np.zeros((0, 2), F)],
        np.zeros((2, 0), F),
    ),
    "a transform of frames takes the whole signal where no length is given": (
        17,
        "(float[1, 4, 1] x) => (float[1, 1, 3, 2] y) <int64 step = {1}> { y = STFT (x, step) }",
        [np.ones((1, 4, 1), F)],
        np.array([[[[4, 0], [0, 0], [0, 0]]]], F),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edge_is_what_the_standard_says(name: str) -> None:
    opset, text, arguments, wanted = CASES[name]
    graph = loaded(text, opset)
    with np.errstate(all="ignore"):
        got = ef.meaning(graph, *arguments)
    got = got[-1] if isinstance(got, tuple) else got
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-12 if wanted.dtype == np.float64 else 1e-5)


@pytest.mark.parametrize(
    "opset, text, message",
    [
        (
            13,
            "(float[1, 2] x, float[2, 3] z, float[4, 3] c) => (float[4, 3] y) { y = Gemm (x, z, c) }",
            "broadcast to A x B and never the other way",
        ),
        (
            11,
            """(float[1, 2, 5] x, float[2, 3, 2] w, float[1] b) => (float[1, 3, 10] y)
            { y = ConvTranspose <strides = [2]> (x, w, b) }""",
            "the bias has the shape",
        ),
        (
            11,
            """(float[4, 10] x) => (float[4, 10] y) <int64[2] sizes = {3, 3}>
            { s = SplitToSequence <axis = 1> (x, sizes) y = ConcatFromSequence <axis = 1> (s) }""",
            "do not make up the extent 10",
        ),
        *(
            (
                11,
                f"""(float[2] x) => (float[N] y) <int64 place = {{{place}}}>
                {{ s = SequenceConstruct (x, x) t = {step} y = ConcatFromSequence <axis = 0> (t) }}""",
                "out of range: the sequence has 2",
            )
            for place, step in [
                (3, "SequenceInsert (s, x, place)"),
                (-3, "SequenceInsert (s, x, place)"),
                (2, "SequenceErase (s, place)"),
            ]
        ),
        (13, "(float[5] x) => (float[N] a, float[N] b) { a, b = Split (x) }", "not evenly splittable"),
        (
            18,
            """(float[5] x) => (float[N] a, float[N] b, float[N] c, float[N] d)
     { a, b, c, d = Split <num_outputs = 4> (x) }""",
            "do not make up the extent 5",
        ),
        (11, "(float[5] x) => (float[N] a, int64[N] b) <int64[1] k = {6}> { a, b = TopK (x, k) }", "K is 6"),
        (
            13,
            """(float[5] x) => (float[N] y) <int64 i = {3}> { s = SequenceConstruct (x) t = SequenceErase (s, i)
     y = ConcatFromSequence <axis = 0> (t) }""",
            "out of range",
        ),
        (
            16,
            """(float[1, 1, 4, 4] x) => (float[N, 1, 1, 1] y)
     <float[1, 4] r = {0.0, 0.0, 2.0, 2.0}, float z = {0.0}, int64[1] b = {0}>
     { ends = Div (r, z) y = RoiAlign (x, ends, b) }""",
            "an end that is infinite or NaN",
        ),
    ],
)
def test_what_is_not_there_is_refused(opset: int, text: str, message: str) -> None:
    with pytest.raises(EqfuseError, match=message):
        loaded(text, opset)


def test_an_attribute_that_a_call_of_a_function_leaves_out_is_refused_where_it_is_needed() -> None:
    text = """<ir_version: 10, opset_import: ["": 18, "local": 1]>
    main (float[2] x) => (float[N] y) { y = local.part (x) }
    <opset_import: ["": 18], domain: "local"> part <axis> (a) => (b) { b = Concat <axis: int = @axis> (a, a) }"""
    with pytest.raises(EqfuseError, match="Required attribute 'axis' is missing"):
        ef.from_onnx(onnx.parser.parse_model(text))


SUM = '(float["n", 3] x, float["n", 3] z) => (float["n", 3] y) { y = Add (x, z) }'


@pytest.mark.parametrize(
    "known, sizes",
    [
        (None, {"x": (4, 3), "z": (1, 3)}),
        (None, {"x": (4, 3), "n": 5}),
        ({"z": np.ones((5, 3), F)}, {"n": 4}),
        ({"z": np.ones((5, 3), F), "x": np.ones((1, 3), F)}, {}),
    ],
)
def test_a_symbolic_size_has_one_value(known: dict[str, Any] | None, sizes: dict[str, Any]) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 13]> main {SUM}')
    with pytest.raises(ShapeError, match=r"the size 'n' is . by the shape .* and . by"):
        ef.from_onnx(model, known, **sizes)


def test_the_shape_of_one_input_tells_the_sizes_of_others() -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 13]> main {SUM}')
    assert ef.from_onnx(model, x=(4, 3)).inputs[1].shape == (4, 3)


def test_a_shape_within_a_shape_is_refused() -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 13]> main {SUM}')
    with pytest.raises(ShapeError, match="not a whole number"):
        ef.from_onnx(model, x=((4,), 3))
