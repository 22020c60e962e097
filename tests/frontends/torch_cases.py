"""A case, or several, for each row of the table of torch's operators: arguments by the name of the overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import arange, ones, tensor

from eqfuse.frontends.torch.table import TORCH_OPERATORS

Case = tuple[tuple[Any, ...], dict[str, Any]]

nan, inf = float("nan"), float("inf")
ODD = tensor([nan, inf, -inf, -0.0, 0.5, -1.5, 2.5, 3.0])
POSITIVE = tensor([0.1, 0.5, 0.9, 1.0])
WHOLE, OTHER = tensor([-7, -2, 0, 5, 7]), tensor([2, -3, 4, -5, 2])
YES = tensor([True, False, True, False])
MATRIX = torch.linspace(-2, 2, 12).reshape(3, 4)
IMAGE = torch.linspace(-1, 1, 96).sin().reshape(2, 3, 4, 4)
KERNEL = torch.linspace(-1, 1, 54).cos().reshape(2, 3, 3, 3)
QUERY, KEY, VALUE = (torch.linspace(a, 1, 48).sin().reshape(1, 2, 6, 4) for a in (-3, -5, -7))
PLACES = tensor([[0, 2, 1], [1, 1, 0]])
HALF = tensor([1.0, 0.3, -2.7], dtype=torch.bfloat16)
COMPLEX = torch.complex(POSITIVE, -POSITIVE)


def case(*args: Any, **kwargs: Any) -> Case:
    return args, kwargs


def _words(text: str) -> list[str]:
    return text.split()


def _unary(name: str) -> list[Case]:
    if name in ("acosh", "rsqrt", "log", "log10", "log2", "sqrt"):
        return [case(ODD), case(POSITIVE), case(tensor(3)), case(HALF.abs())]
    return [case(ODD), case(POSITIVE), case(tensor(1)), case(HALF), case(torch.empty(0))]


def _pairs() -> list[Case]:
    return [case(ODD, ODD.flip(0)), case(WHOLE, OTHER), case(MATRIX, tensor(2.5)), case(HALF, 0.1), case(WHOLE, 2.5)]


def _whole_pairs() -> list[Case]:
    return [case(WHOLE, OTHER), case(YES, YES.flip(0)), case(WHOLE.to(torch.uint8), tensor(3))]


def _along(*cases: Case) -> list[Case]:
    return [case(MATRIX, -1), case(MATRIX, 0, True), case(tensor(2.0), 0), *cases]


UNARY = _words(
    "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 neg reciprocal "
    "relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc abs isnan isinf logical_not signbit "
    "clone alias lift_fresh_copy"
)
PAIRS = _words(
    "add.Tensor sub.Tensor mul.Tensor div.Tensor maximum minimum fmax fmin atan2 hypot "
    "copysign.Tensor remainder.Tensor fmod.Tensor eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor"
)
NUMBERS = _words(
    "add.Scalar sub.Scalar mul.Scalar div.Scalar remainder.Scalar fmod.Scalar eq.Scalar ne.Scalar lt.Scalar le.Scalar "
    "gt.Scalar ge.Scalar pow.Tensor_Scalar"
)
BITS = _words("bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor logical_and logical_or logical_xor")
MODES: list[Case] = [
    case(a, b, rounding_mode=mode)
    for mode in (None, "trunc", "floor")
    for a, b in ((WHOLE, OTHER), (ODD, tensor(2.0)), (MATRIX, tensor(0.3)), (WHOLE.to(torch.uint8), tensor(2)))
]
CASES: dict[str, list[Case]] = {
    **{name: _unary(name) for name in UNARY},
    **{name: [c for c in _pairs() if isinstance(c[0][1], torch.Tensor)] for name in PAIRS},
    **{name: [case(ODD, 2.5), case(WHOLE, 3), case(HALF, 0.1), case(WHOLE, 2.5)] for name in NUMBERS},
    **{name: _whole_pairs() for name in BITS},
    **{f"bitwise_{name}.Scalar": [case(WHOLE, 3), case(YES, True)] for name in ("and", "or", "xor")},
    "add.Tensor": [*_pairs()[:3], case(MATRIX, MATRIX, alpha=2), case(YES, YES.flip(0)), case(YES, tensor(2))],
    "maximum": [case(ODD, ODD.flip(0)), case(ODD, tensor(1.0)), case(WHOLE, OTHER), case(YES, YES.flip(0))],
    "_conj": [case(COMPLEX)],
    "_conj_physical": [case(COMPLEX)],
    "abs": [*_unary("abs"), case(COMPLEX), case(WHOLE)],
    "sign": [*_unary("sign"), case(WHOLE), case(YES)],
    **{name: [case(ODD), case(HALF), case(MATRIX, 0.3)] for name in ("elu", "leaky_relu", "hardtanh")},
    "hypot": [case(ODD, ODD.flip(0)), case(MATRIX, tensor(2.5))],
    "bitwise_not": [case(WHOLE), case(YES)],
    "gelu": [case(MATRIX), case(HALF), case(MATRIX, approximate="tanh")],
    "clamp": [case(ODD, -1, 1), case(ODD, None, 0.5), case(WHOLE, -3, 3), case(ODD, 2, 1)],
    "clamp.Tensor": [case(ODD, tensor(-1.0), tensor(nan))],
    "div.Tensor_mode": MODES,
    "div.Scalar_mode": [case(WHOLE, 3, rounding_mode="trunc"), case(ODD, 0.3, rounding_mode="floor")],
    "pow.Tensor_Scalar": [case(ODD, 2), case(WHOLE, 3), case(POSITIVE, -0.5), case(WHOLE, 0.5), case(ODD, 0)],
    "pow.Tensor_Tensor": [case(ODD, ODD.flip(0)), case(POSITIVE, tensor(2))],
    "pow.Scalar": [case(2, ODD), case(0.5, WHOLE)],
    "where.self": [case(YES, POSITIVE, tensor(0)), case(YES, tensor(1), POSITIVE.double())],
    "_to_copy": [case(ODD, dtype=torch.float64), case(MATRIX, dtype=torch.int32), case(ODD, dtype=torch.bool)],
    "convert_element_type": [case(MATRIX, torch.bfloat16), case(ODD, torch.bool)],
    # ---- reductions and products
    "sum.dim_IntList": _along(case(MATRIX, []), case(HALF, [0]), case(WHOLE, None), case(ones(0, 3), [0])),
    "mean": [case(MATRIX), case(HALF)],
    "mean.dim": _along(case(HALF, [0])),
    "prod": [case(MATRIX), case(WHOLE)],
    "prod.dim_int": _along(case(WHOLE, 0)),
    **{name: [case(MATRIX, [1], True), case(ODD, []), case(WHOLE, [-1])] for name in ("amax", "amin")},
    **{name: [case(MATRIX), case(ODD), case(WHOLE)] for name in ("max", "min")},
    **{name: _along(case(ODD, 0)) for name in ("max.dim", "min.dim")},
    **{name: [*_along(case(ODD)), case(MATRIX, None, True)] for name in ("argmax", "argmin")},
    "any": [case(ODD), case(WHOLE), case(torch.empty(0))],
    "any.dim": _along(),
    "any.dims": [case(MATRIX, [0, 1]), case(MATRIX, [1], True)],
    "var.correction": [case(MATRIX, [1], correction=0), case(MATRIX), case(tensor([2.0]))],
    "var_mean.correction": [case(MATRIX, [0], correction=1, keepdim=True), case(MATRIX, [1], correction=0)],
    **{name: [case(MATRIX, 1), case(WHOLE, 0), case(tensor(2.0), 0)] for name in ("cumsum", "cumprod")},
    "sort": [case(MATRIX, 1, True), case(ODD), case(tensor(1.0))],
    "sort.stable": [case(WHOLE // 4, stable=True, descending=True), case(ODD, stable=True, dim=0)],
    "topk": [case(MATRIX, 2), case(MATRIX, 2, 0, False)],
    **{name: [case(MATRIX, 1, False), case(MATRIX, -2, False), case(ones(2, 0), 1, False)]
       for name in ("_softmax", "_log_softmax")},
    "mm": [case(MATRIX, MATRIX.T), case(MATRIX.bfloat16(), MATRIX.T.bfloat16())],
    "bmm": [case(QUERY[0], KEY[0].mT)],
    "addmm": [case(ones(3), MATRIX, MATRIX.T), case(tensor(nan), MATRIX, MATRIX.T, beta=0, alpha=0.5)],
    "addmv": [case(ones(3), MATRIX, POSITIVE, beta=2)],
    # ---- memory
    "scalar_tensor": [case(2, dtype=torch.float32), case(True)],
    "full": [case([2, 3], 1.5), case([], 2, dtype=torch.int64)],
    "full_like": [case(MATRIX, 2), case(WHOLE, 1.5, dtype=torch.float64)],
    "arange.start_step": [case(0, 5), case(1, 8, 3), case(7, 0, -2), case(0.0, 1.0, 0.3)],
    "iota": [case(4, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False)],
    "view": [case(MATRIX, [-1]), case(MATRIX, [2, 6])],
    "permute": [case(IMAGE, [0, -1, 1, 2])],
    "unsqueeze": [case(MATRIX, -1), case(MATRIX, 0)],
    "squeeze.dims": [case(ones(1, 3, 1), [0, 1]), case(ones(1, 3, 1), [-1])],
    "expand": [case(ones(3, 1), [2, -1, 4])],
    "repeat": [case(MATRIX, [2, 1, 2])],
    "flip": [case(MATRIX, [0, -1]), case(MATRIX, [])],
    "slice.Tensor": [case(MATRIX, 1, 1, 9223372036854775807, 2), case(MATRIX, -1, -3, -1), case(MATRIX, 0, 2, 1)],
    "select.int": [case(MATRIX, 1, -1)],
    "slice_scatter": [case(MATRIX, ones(3, 2), 1, 0, 4, 2)],
    "copy": [case(MATRIX, tensor(2.0)), case(WHOLE, ones(5))],
    "split_with_sizes": [case(MATRIX, [1, 3], 1)],
    "cat": [case([MATRIX, MATRIX], -1), case([WHOLE, ODD]), case([torch.empty(0), MATRIX], 1)],
    "constant_pad_nd": [case(MATRIX, [1, 2, -1, 0], 0.5), case(WHOLE, [2, -1])],
    "diagonal": [case(MATRIX, 1), case(IMAGE, 0, -1, 1)],
    # ---- places given by data
    "embedding": [case(MATRIX, PLACES)],
    "embedding_dense_backward": [case(ones(2, 3, 4), PLACES, 4, 1, False), case(ones(2, 3, 4), PLACES, 4, -1, False)],
    "index_select": [case(MATRIX, 1, tensor([3, 0, 3]))],
    "gather": [case(MATRIX, 0, PLACES), case(MATRIX, -1, PLACES)],
    "index.Tensor": [case(MATRIX, [None, tensor([-1, 0])]), case(IMAGE, [tensor([1]), None, tensor([[0], [2]])])],
    "index_put": [case(MATRIX, [tensor([0, 0])], ones(2, 4), True), case(MATRIX, [None, tensor([1])], ones(3, 1))],
    "scatter.src": [case(MATRIX, 1, PLACES, ones(3, 3))],
    "scatter.value": [case(MATRIX, 0, PLACES, 2)],
    "scatter_add": [case(MATRIX, 1, PLACES, ones(3, 3))],
    # ---- networks
    "convolution": [
        case(IMAGE, KERNEL, ones(2), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        case(IMAGE, KERNEL, None, [2, 1], [0, 1], [1, 1], False, [0, 0], 1),
        case(IMAGE, KERNEL[:, :1].repeat(3, 1, 1, 1), None, [1, 1], [2, 2], [2, 2], False, [0, 0], 3),
        case(IMAGE[:, :2], KERNEL, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ],
    "convolution_backward": [
        case(ones(2, 2, 4, 4), IMAGE, KERNEL, [2], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]),
        case(IMAGE[:, :2, :1, :2], IMAGE, KERNEL, [0], [2, 2], [0, 1], [1, 1], False, [0, 0], 1, [True] * 2 + [False]),
        case(IMAGE[..., :2, :2].repeat(1, 2, 1, 1), IMAGE, KERNEL[:, :1].repeat(3, 1, 1, 1), [0], [2, 2], [1, 1],
             [1, 1], False, [0, 0], 3, [True, True, False]),
    ],
    "max_pool2d_with_indices": [
        case(IMAGE, [2, 2]), case(IMAGE, [3, 2], [2, 1], [1, 1]), case(IMAGE, [3, 3], [2, 2], [0, 0], [1, 1], True),
        case(IMAGE[0], [2, 2]),
    ],
    "max_pool2d_with_indices_backward": [
        case(ones(2, 3, 2, 2), IMAGE, [3, 3], [1, 1], [0, 0], [1, 1], False,
             torch.nn.functional.max_pool2d(IMAGE, 3, 1, return_indices=True)[1]),
    ],
    "avg_pool2d": [
        case(IMAGE, [2, 2]), case(IMAGE, [3, 3], [1, 1], [1, 1]), case(IMAGE, [2], [2], [0], False, True, 3),
    ],
    "avg_pool2d_backward": [
        case(ones(2, 3, 2, 2), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None),
        case(IMAGE, IMAGE, [3, 3], [1, 1], [1, 1], False, True, None),
    ],
    "_adaptive_avg_pool2d": [case(IMAGE, [2, 1])],
    "_adaptive_avg_pool2d_backward": [case(IMAGE[..., :2, :1], IMAGE)],
    "_scaled_dot_product_flash_attention_for_cpu": [
        case(QUERY, KEY, VALUE), case(QUERY, KEY, VALUE, 0.0, True, scale=0.3),
        case(QUERY, KEY, VALUE, attn_mask=ones(6, 6).tril()), case(QUERY.double(), KEY.double(), VALUE.double()),
    ],
    "_scaled_dot_product_flash_attention_for_cpu_backward": [],
}  # fmt: skip


def _attention_gradient(**kwargs: Any) -> Case:
    forward: Callable[..., Any] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    causal = bool(kwargs.pop("causal", False))
    out, total = forward(QUERY, KEY, VALUE, 0.0, causal, **kwargs)
    return case(VALUE.cos(), QUERY, KEY, VALUE, out, total, 0.0, causal, **kwargs)


CASES["_scaled_dot_product_flash_attention_for_cpu_backward"] = [
    _attention_gradient(), _attention_gradient(causal=True), _attention_gradient(attn_mask=arange(6.0).expand(6, 6)),
]  # fmt: skip
NAMES = {name: name.split(".", 1)[1].removesuffix(".default") for name in TORCH_OPERATORS}
UNWRITTEN = ("empty.memory_format",)  # its numbers are anything
