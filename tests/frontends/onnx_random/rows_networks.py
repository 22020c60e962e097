"""Normalisations, losses, attention and recurrent layers: how their nodes are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.frontends.onnx_random.draw import F32, I32, I64, Draw
from tests.frontends.onnx_random.numbers import ABSOLUTE, COARSE, SUMMED
from tests.frontends.onnx_random.rows_windows import image
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row

Options = dict[str, Any]


def vectors(d: Draw, x: DrawnValue, n: int, count: int) -> list[DrawnValue]:
    return [d.like(x, (n,)) for _ in range(count)]


def epsilon(d: Draw) -> Options:
    return d.optional(epsilon=d.pick((1e-5, 1e-3, 0.5)))


def trained(opset: int, *_: Any, **__: Any) -> str:
    """The reference takes old versions as training, onnxruntime trains half floats otherwise."""
    return "onnxruntime" if opset < 14 else "reference"


@row("BatchNormalization", finite=True, rounding=ABSOLUTE, judge=trained)
def batch_normalization(d: Draw) -> NodeSpec:
    x = image(d, least=0)
    scale, shift, mean = vectors(d, x, x.shape[1], 3)
    variance = d.value(dtype=x.dtype, shape=(x.shape[1],), low=0.5, ok=lambda v: (v.array > 0.2).all())
    training = d.opset >= 14 and d.chance(0.3)
    options = epsilon(d) | ({"training_mode": 1, **d.optional(momentum=d.real(0.1, 0.9))} if training else {})
    return NodeSpec([x, scale, shift, mean, variance], options, 3 if training else 1)


@row("InstanceNormalization", finite=True, rounding=ABSOLUTE, judge="reference")
def instance_normalization(d: Draw) -> NodeSpec:
    x = image(d)
    return NodeSpec([x, *vectors(d, x, x.shape[1], 2)], epsilon(d))


@row("LayerNormalization", finite=True, rounding=COARSE, judge="onnxruntime")
def layer_normalization(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4), ok=lambda v: v.size)
    axis = d.axis(x)
    shape = x.shape[axis % x.rank :]
    shift = d.like(x, shape) if d.chance(0.6) else None
    options = ({"axis": axis} if axis not in (-1, x.rank - 1) or d.chance(0.5) else {}) | epsilon(d)
    return NodeSpec([x, d.like(x, shape), shift], options, d.pick((1, 1, 3)))


@row("RMSNormalization", finite=True, rounding=COARSE)
def rms_normalization(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4), ok=lambda v: v.size)
    axis = d.axis(x)
    return NodeSpec([x, d.like(x, x.shape[axis % x.rank :])], {"axis": axis} | epsilon(d))


@row("GroupNormalization", finite=True, rounding=COARSE)
def group_normalization(d: Draw) -> NodeSpec:
    x = image(d)
    groups = d.pick([g for g in (1, 2, 3, 4) if x.shape[1] % g == 0])
    return NodeSpec([x, *vectors(d, x, groups if d.opset < 21 else x.shape[1], 2)], {"num_groups": groups} | epsilon(d))


def varies(x: np.ndarray, axes: Sequence[int] = (0, 2, 3)) -> bool:
    """Has every slice a variance? Of one that has none onnxruntime gives NaN."""
    return bool((x.astype(np.float64).std(tuple(axes)) > 0.05).all())


@row("MeanVarianceNormalization", finite=True, rounding=ABSOLUTE, domain=varies)
def mean_variance_normalization(d: Draw) -> NodeSpec:
    x = d.value(rank=4, ok=lambda v: v.size > 8)
    return NodeSpec([x], d.optional(axes=sorted(a % 4 for a in d.axes(x, 1))))


@row("LpNormalization", finite=True)
def lp_normalization(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    return NodeSpec([x], d.optional(axis=d.axis(x), p=d.integer(1, 2)))


@row("LRN", finite=True, rounding=ABSOLUTE, judge="onnxruntime")
def lrn(d: Draw) -> NodeSpec:
    x = image(d, least=2, most=2, dtype=F32)
    return NodeSpec(
        [x], {"size": d.pick((1, 3, 5)), **d.optional(alpha=d.real(0, 1), beta=d.real(0.2, 1), bias=d.real(0.5, 2))}
    )


@row("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", finite=True, rounding=ABSOLUTE, judge="onnxruntime")
def loss(d: Draw) -> NodeSpec:
    x = d.value(rank=(2, 3, 4), ok=lambda v: v.size)
    classes, shape = x.shape[1], (x.shape[0], *x.shape[2:])
    options = d.optional(reduction=d.pick(("none", "sum", "mean")))
    target = d.rng.integers(0, classes, shape)
    if d.chance(0.4):
        options["ignore_index"] = d.pick((-1, 0, classes - 1, classes))
        target = np.where(d.rng.random(shape) < 0.3, options["ignore_index"], target)
        target.reshape(-1)[0] = (options["ignore_index"] + 1) % classes  # so that the mean is one of something
    weight = d.value(dtype=x.dtype, shape=(classes,), low=0.5, high=2, ok=lambda v: (v.array > 0.2).all())
    labels = d.new(np.asarray(target).astype(d.pick((I64, I32))))
    outputs = d.integer(1, 2) if d.op == "SoftmaxCrossEntropyLoss" else 1
    return NodeSpec([x, labels, weight if d.chance(0.5) else None], options, outputs)


# ---- attention


@row("Attention", finite=True, rounding=COARSE, judge="reference")  # onnxruntime's causal mask passes over the past
def attention(d: Draw) -> NodeSpec:
    batch, kv, size, deep = d.integer(1, 2), d.integer(1, 2), d.integer(1, 4), d.integer(1, 3)
    heads, queries, keys = kv * d.integer(1, 2), d.integer(1, 3), d.integer(1, 4)
    dtype = d.dtype()
    flat = d.chance(0.4)

    def tensor(heads: int, length: int, size: int) -> DrawnValue:
        shape = (batch, length, heads * size) if flat else (batch, heads, length, size)
        return d.value(dtype=dtype, shape=shape)

    options: Options = {"q_num_heads": heads, "kv_num_heads": kv} if flat else {}
    options |= d.optional(is_causal=d.integer(0, 1), scale=d.real(0.2, 1.5), softcap=d.real(0.5, 3))
    if d.opset >= 25:
        options |= d.optional(0.3, left_window_size=d.integer(-1, 3), right_window_size=d.integer(-1, 3))
    past = d.integer(1, 3) if d.chance(0.3) else 0
    total = past + keys
    mask = None
    if d.chance(0.5):
        shape = d.pick(((queries, total), (batch, 1, queries, total), (1, heads, queries, total)))
        mask = d.value(dtype=d.pick((np.dtype(bool), dtype)), shape=shape)
    cache = [d.value(dtype=dtype, shape=(batch, kv, past, n)) for n in (size, deep)] if past else [None, None]
    lengths = None
    if d.opset >= 24 and not past and d.chance(0.3):
        lengths = d.new(d.rng.integers(1, keys + 1, batch))
    outputs = d.pick((1, 3, 4)) if lengths is None else 1
    if outputs == 4:  # the reference shows the first of which capped
        options.pop("softcap", None)
        options |= d.optional(qk_matmul_output_mode=d.integer(0, 3))
    inputs = [tensor(heads, queries, size), tensor(kv, keys, size), tensor(kv, keys, deep), mask, *cache, lengths]
    return NodeSpec(inputs, options, outputs)


@row("RotaryEmbedding")
def rotary_embedding(d: Draw) -> NodeSpec:
    batch, heads, length, half = d.integer(1, 2), d.integer(1, 3), d.integer(1, 4), d.integer(1, 3)
    turned = d.integer(1, half)
    dtype = d.dtype()
    flat = d.chance(0.5)
    options = {"num_heads": heads} if flat else {}
    options |= {"rotary_embedding_dim": 2 * turned} if turned != half or d.chance(0.3) else {}
    x = d.value(dtype=dtype, shape=(batch, length, heads * 2 * half) if flat else (batch, heads, length, 2 * half))
    by_place = d.chance(0.5)
    shape = (length + 2, turned) if by_place else (batch, length, turned)
    cos, sin = (d.value(dtype=dtype, shape=shape) for _ in range(2))
    places = d.new(d.rng.integers(0, length + 2, (batch, length))) if by_place else None
    return NodeSpec([x, cos, sin, places], options | d.optional(interleaved=d.integer(0, 1)))


@row("LinearAttention", finite=True, rounding=ABSOLUTE)
def linear_attention(d: Draw) -> NodeSpec:
    batch, length, kv, size, deep = d.integer(1, 2), d.integer(1, 3), d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)
    heads = kv * d.integer(1, 2)
    rule = d.pick(("linear", "gated", "delta", "gated_delta"))
    dtype = d.dtype()

    def tensor(n: int) -> DrawnValue:
        return d.value(dtype=dtype, shape=(batch, length, n), low=-1, high=1)

    past = d.value(dtype=dtype, shape=(batch, kv, size, deep)) if d.chance(0.5) else None
    decay = tensor(d.pick((kv, kv * size))) if "gated" in rule else None
    beta = tensor(d.pick((kv, 1))) if "delta" in rule else None
    options = {"q_num_heads": heads, "kv_num_heads": kv, "update_rule": rule} | d.optional(scale=d.real(0.2, 1.5))
    return NodeSpec([tensor(heads * size), tensor(kv * size), tensor(kv * deep), past, decay, beta], options, 2)


@row("CausalConvWithState", finite=True, rounding=ABSOLUTE)
def causal_conv(d: Draw) -> NodeSpec:
    batch, channels, length, k = d.integer(1, 2), d.integer(1, 3), d.integer(1, 5), d.integer(2, 4)
    dtype = d.dtype()
    x = d.value(dtype=dtype, shape=(batch, channels, length))
    bias = d.like(x, (channels,)) if d.chance(0.5) else None
    past = d.like(x, (batch, channels, k - 1)) if d.chance(0.5) else None
    activation = d.optional(activation=d.pick(("silu", "swish", "none")))
    return NodeSpec([x, d.like(x, (channels, 1, k)), bias, past], activation, 2)


# ---- recurrent layers


def beyond(opset: int, *inputs: Any, layout: int = 0, **attributes: Any) -> str | None:
    """The reference passes over most of the attributes, onnxruntime has no layout."""
    return None if layout else "onnxruntime"


@row("RNN", "GRU", "LSTM", finite=True, rounding=ABSOLUTE, judge=beyond)
def recurrent(d: Draw) -> NodeSpec:
    op = d.op
    gates, default = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[op]
    steps, batch, width, hidden = d.integer(1, 4), d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
    direction = d.pick(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    layout = int(d.opset >= 14 and direction == "forward" and d.chance(0.2))
    options: Options = {"hidden_size": hidden}
    options |= {"direction": direction} if direction != "forward" or d.chance(0.2) else {}
    options |= {"layout": 1} if layout else {}
    if not layout and d.chance(0.4):
        names = [d.pick(("Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu",
                       "ScaledTanh", "Affine", "ThresholdedRelu")) for _ in range(default * n)]  # fmt: skip
        options["activations"] = names
        takes = {"HardSigmoid": (1, 1), "Elu": (1, 0), "LeakyRelu": (1, 0), "ScaledTanh": (1, 1), "Affine": (1, 1),
                 "ThresholdedRelu": (1, 0)}  # fmt: skip
        counts = [sum(takes.get(name, (0, 0))[i] for name in names) for i in range(2)]
        options |= {"activation_alpha": [d.real(0.1, 1) for _ in range(counts[0])]} if counts[0] else {}
        options |= {"activation_beta": [d.real(0.1, 1) for _ in range(counts[1])]} if counts[1] else {}
    options |= {"clip": d.real(0.5, 3)} if not layout and d.chance(0.2) else {}
    dtype = d.dtype()

    def tensor(*shape: int) -> DrawnValue:
        return d.value(dtype=dtype, shape=shape, low=-2, high=2)

    def state() -> DrawnValue | None:
        return tensor(*((batch, n, hidden) if layout else (n, batch, hidden))) if d.chance(0.4) else None

    x = tensor(*((batch, steps, width) if layout else (steps, batch, width)))
    bias = tensor(n, 2 * gates * hidden) if d.chance(0.6) else None
    lengths = None
    if not layout and d.chance(0.3):
        given = d.rng.integers(1, steps + 1, batch).astype(np.int32)
        lengths = d.new(given)
    inputs = [x, tensor(n, gates * hidden, width), tensor(n, gates * hidden, hidden), bias, lengths, state()]
    if op == "GRU":
        options |= d.optional(0 if layout else 0.5, linear_before_reset=d.integer(0, 1))
    if op == "LSTM":
        inputs += [state(), tensor(n, 3 * hidden) if d.chance(0.3) else None]
        options |= d.optional(0 if layout else 0.3, input_forget=d.integer(0, 1))
    return NodeSpec(inputs, options, d.integer(1, 3 if op == "LSTM" else 2))


# ---- signals


@row("DFT", finite=True, rounding=SUMMED, judge="reference")
def dft(d: Draw) -> NodeSpec:
    x = d.value(
        dtype=d.dtype(0, [F32, np.dtype(np.float64)]),
        shape=(*d.shape(d.integer(1, 2)), d.integer(2, 6), d.integer(1, 2)),
    )
    onesided = int(x.shape[-1] == 1 and d.chance(0.5))
    inverse = int(not onesided and d.chance(0.4))
    axis = d.integer(-x.rank, x.rank - 1)
    if axis % x.rank == x.rank - 1:
        axis = -2
    length = d.const(np.int64(d.integer(1, 7))) if d.chance(0.4) else None
    options = d.optional(inverse=inverse) | ({"inverse": 1} if inverse else {}) | ({"onesided": 1} if onesided else {})
    if d.opset < 20:
        return NodeSpec([x, length], {**options, "axis": axis % x.rank})
    return NodeSpec([x, length, d.const(np.int64(axis)) if axis != -2 or d.chance(0.5) else None], options)


@row("STFT", finite=True, rounding=SUMMED, judge="reference")
def stft(d: Draw) -> NodeSpec:
    n, length = d.integer(4, 9), d.integer(2, 4)
    x = d.value(dtype=d.dtype(0, [F32, np.dtype(np.float64)]), shape=(d.integer(1, 2), n, 1))
    window = d.like(x, (length,)) if d.chance(0.6) else None
    given = d.const(np.int64(length)) if window is None or d.chance(0.5) else None
    return NodeSpec([x, d.const(np.int64(d.integer(1, 3))), window, given], d.optional(onesided=d.integer(0, 1)))


@row("MelWeightMatrix")
def mel_weight_matrix(d: Draw) -> NodeSpec:
    whole = [d.const(np.int64(n)) for n in (d.integer(1, 6), d.pick((16, 17, 32)), d.pick((8000, 16000)))]
    edges = [d.const(np.float32(n)) for n in (d.pick((0, 100)), d.pick((3000, 4000)))]
    return NodeSpec([*whole, *edges], d.optional(output_datatype=d.pick((1, 11))))


@row("BlackmanWindow", "HammingWindow", "HannWindow", rounding=COARSE)
def window(d: Draw) -> NodeSpec:
    return NodeSpec(
        [d.const(np.int64(d.integer(3, 9)))], d.optional(periodic=d.integer(0, 1), output_datatype=d.pick((1, 11)))
    )
