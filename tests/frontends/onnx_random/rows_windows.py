"""Convolutions, pooling, resizing and sampling: how their nodes are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse import dtypes
from tests.frontends.onnx_random.draw import F32, F64, Draw
from tests.frontends.onnx_random.numbers import ABSOLUTE, EXACT
from tests.frontends.onnx_random.rows_manipulation import vector
from tests.frontends.onnx_random.rows_reductions import small
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row

Options = dict[str, Any]


def image(d: Draw, place: int = 0, channels: int | None = None, most: int = 3, least: int = 1, **kw: Any) -> DrawnValue:
    """[batch, channels, *spatial]"""
    ok = lambda v: v.size and (channels is None or v.shape[1] == channels)  # noqa: E731
    if d.chance(0.6):
        return d.value(place, rank=range(2 + least, 3 + most), ok=ok, **kw)
    rank = d.integer(least, most)
    spatial = tuple(d.integer(2, {1: 9, 2: 6, 3: 4}[rank]) for _ in range(rank))
    dtype = kw.pop("dtype", None) or d.dtype(place)
    return d.new(d.numbers(dtype, (d.integer(1, 2), channels or d.integer(1, 4), *spatial), **kw))


def windows(
    d: Draw, extents: tuple[int, ...], kernel: list[int], dilations: list[int], dilated: bool, pooled: bool
) -> Options:
    """Strides, dilations and padding under which a window fits."""
    rank = len(extents)
    options: Options = {}
    if d.chance(0.5):
        options["strides"] = [d.integer(1, 3) for _ in range(rank)]
    if dilations != [1] * rank or d.chance(0.2):
        options |= {"dilations": dilations} if dilated else {}
    choice = d.pick(("none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"), (3, 5, 1, 1, 1, 1))
    if choice in ("pads", "NOTSET"):
        most = [k - 1 if pooled else 2 for k in kernel]
        options["pads"] = [d.integer(0, m) for m in most + most]
    strides = options.get("strides", [1] * rank)
    needed = [(-(-n // s) - 1) * s + k - n for n, s, k in zip(extents, strides, kernel, strict=True)]
    if choice in ("VALID", "NOTSET") or (choice.startswith("SAME") and dilations == [1] * rank and min(needed) >= 0):
        options["auto_pad"] = choice  # with "SAME_…" the judges leave dilations out, and differ where nothing is to pad
    return options


def fits(extents: tuple[int, ...], kernel: list[int], dilations: list[int], options: Options) -> bool:
    if options.get("auto_pad", "").startswith("SAME"):
        return True
    pads = options.get("pads", [0] * (2 * len(extents)))
    return all(
        n + a + b >= (k - 1) * g + 1
        for n, k, g, a, b in zip(extents, kernel, dilations, pads, pads[len(extents) :], strict=False)
    )


def window(d: Draw, x: DrawnValue, dilated: bool, pooled: bool = False) -> tuple[list[int], Options] | None:
    extents = x.shape[2:]
    kernel = [d.integer(1, min(3, n + 1)) for n in extents]
    dilations = [d.pick((1, 1, 1, 2)) if dilated and n > 2 else 1 for n in extents]
    options = windows(d, extents, kernel, dilations, dilated, pooled)
    return (kernel, options) if fits(extents, kernel, dilations, options) else None


@row("Conv", finite=True)
def conv(d: Draw) -> NodeSpec | None:
    x = image(d)
    choice = window(d, x, True)
    if choice is None:
        return None
    kernel, options = choice
    group = d.pick([g for g in (1, 2, 3, 4) if x.shape[1] % g == 0])
    filters = group * d.integer(1, 2)
    w = d.like(x, (filters, x.shape[1] // group, *kernel))
    options |= {"group": group} if group > 1 or d.chance(0.2) else {}
    options |= d.optional(kernel_shape=kernel)
    return NodeSpec([x, w, d.like(x, (filters,)) if d.chance(0.5) else None], options)


@row("ConvTranspose", finite=True, judge=lambda *_, group=1, **__: "onnxruntime" if group > 1 else None)
def conv_transpose(d: Draw) -> NodeSpec | None:
    x = image(d, most=2)
    rank = x.rank - 2
    group = d.pick([g for g in (1, 2, 3, 4) if x.shape[1] % g == 0])
    kernel, strides = [d.integer(1, 3) for _ in range(rank)], [d.integer(1, 3) for _ in range(rank)]
    dilations = [d.pick((1, 1, 2)) for _ in range(rank)]
    full = [(n - 1) * s + (k - 1) * g + 1 for n, s, k, g in zip(x.shape[2:], strides, kernel, dilations, strict=True)]
    options: Options = {"strides": strides, "dilations": dilations}
    choice = d.pick(("none", "pads", "output_shape", "SAME_UPPER", "SAME_LOWER"))
    if choice == "pads":
        options["pads"] = [d.integer(0, min(2, (m - 1) // 2)) for m in full + full]
    elif choice == "output_shape":
        options["output_shape"] = [d.integer(max(1, m - 2), m) for m in full]
    elif choice != "none" and all((k - 1) * g + 1 >= s for k, g, s in zip(kernel, dilations, strides, strict=True)):
        options["auto_pad"] = choice
    if choice in ("none", "pads") and d.chance(0.4):
        options["output_padding"] = [d.integer(0, max(s, g) - 1) for s, g in zip(strides, dilations, strict=True)]
    options |= {"group": group} if group > 1 or d.chance(0.2) else {}
    options |= d.optional(kernel_shape=kernel)
    filters = d.integer(1, 2)
    w = d.like(x, (x.shape[1], filters, *kernel))
    return NodeSpec([x, w, d.like(x, (filters * group,)) if d.chance(0.5) else None], options)


# ---- pooling


def pooling(d: Draw, dilated: int, ceiling: int) -> tuple[DrawnValue, Options] | None:
    """An image and options of a pooling operator that has dilations and ceil_mode since these opsets."""
    x = image(d)
    choice = window(d, x, d.opset >= dilated, pooled=True)
    if choice is None:
        return None
    kernel, options = choice
    options |= d.optional(0.4, ceil_mode=d.integer(0, 1)) if d.opset >= ceiling else {}
    return x, {"kernel_shape": kernel, **options}


@row("MaxPool", rounding=EXACT, finite=True, judge="onnxruntime")  # the indices of the reference count one image
def max_pool(d: Draw) -> NodeSpec | None:
    choice = pooling(d, dilated=10, ceiling=10)
    if choice is None:
        return None
    x, options = choice
    outputs = d.pick((1, 1, 2))
    options |= d.optional(0.3, storage_order=d.integer(0, 1))
    return NodeSpec([x], options, outputs)


@row("AveragePool", finite=True, judge="onnxruntime")  # the reference loses dilations
def average_pool(d: Draw) -> NodeSpec | None:
    choice = pooling(d, dilated=19, ceiling=10)
    if choice is None:
        return None
    x, options = choice
    return NodeSpec([x], options | d.optional(count_include_pad=d.integer(0, 1)))


@row("LpPool", finite=True, judge=lambda *_, ceil_mode=0, **__: "onnxruntime" if ceil_mode else None)
def lp_pool(d: Draw) -> NodeSpec | None:
    choice = pooling(d, dilated=18, ceiling=18)
    if choice is None:
        return None
    x, options = choice
    return NodeSpec([x], options | d.optional(p=d.integer(1, 3)))


@row("GlobalAveragePool")
@row("GlobalMaxPool", rounding=EXACT, finite=True, judge="onnxruntime")  # the reference drops axes
def global_pool(d: Draw) -> NodeSpec:
    return NodeSpec([image(d)], {})


@row("GlobalLpPool")
def global_lp_pool(d: Draw) -> NodeSpec:
    return NodeSpec([image(d)], d.optional(p=d.integer(1, 3)))


@row("MaxUnpool", rounding=EXACT)
def max_unpool(d: Draw) -> NodeSpec:
    x = image(d, dtype=F32, most=2)
    rank = x.rank - 2
    kernel, strides = [d.integer(1, 3) for _ in range(rank)], [d.integer(1, 3) for _ in range(rank)]
    strides = strides if d.chance(0.7) else [1] * rank
    shape = (*x.shape[:2], *((n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)))
    places = d.rng.permutation(math.prod(shape))[: x.size].reshape(x.shape)
    options: Options = {"kernel_shape": kernel}
    options |= {"strides": strides} if strides != [1] * rank or d.chance(0.3) else {}
    return NodeSpec([x, d.new(places.astype(np.int64))], options)


@row("Col2Im", judge="reference")
def col2im(d: Draw) -> NodeSpec | None:
    rank = d.integer(1, 2)
    extents, block = [d.integer(2, 5) for _ in range(rank)], [d.integer(1, 3) for _ in range(rank)]
    dilations, strides = [d.pick((1, 1, 2)) for _ in range(rank)], [d.integer(1, 2) for _ in range(rank)]
    pads = [d.integer(0, 1) for _ in range(2 * rank)]
    counts = [
        (n + a + b - (k - 1) * g - 1) // s + 1
        for n, k, g, s, a, b in zip(extents, block, dilations, strides, pads, pads[rank:], strict=False)
    ]
    if min(counts) < 1:
        return None
    x = d.value(dtype=d.dtype(), shape=(d.integer(1, 2), d.integer(1, 2) * math.prod(block), math.prod(counts)))
    options = {"dilations": dilations, "strides": strides, "pads": pads}
    return NodeSpec([x, vector(d, extents), vector(d, block)], options)


# ---- resizing and sampling


def resizer(opset: int, x: np.ndarray, *_: Any, coordinate_transformation_mode: str = "", **__: Any) -> str:
    """onnxruntime cuts off the fraction of a result, and that of a length whose corners are aligned; the reference has
    another place for "pytorch_half_pixel" where one element is left."""
    return "reference" if x.dtype.kind in "iu" or coordinate_transformation_mode == "align_corners" else "onnxruntime"


@row("Resize", finite=True, rounding=ABSOLUTE, domain=lambda x, *_, **__: small(x), judge=resizer)
def resize(d: Draw) -> NodeSpec | None:
    x = image(d, most=2) if d.chance(0.7) else d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    if dtypes.kind(x.dtype) not in "iuf":
        return None
    mode = d.pick(("nearest", "linear", "cubic") if d.opset >= 11 else ("nearest", "linear"))
    if (mode == "cubic" and x.rank != 4) or (mode != "nearest" and dtypes.kind(x.dtype) != "f"):
        return None
    spatial = range(2, x.rank) if mode != "nearest" and x.rank > 2 else range(x.rank)
    new = [d.integer(1, 7) if a in spatial else n for a, n in enumerate(x.shape)]
    factors = [d.pick((0.5, 0.75, 1.5, 2.0, 2.5, 0.6, 3.0)) if a in spatial else 1.0 for a in range(x.rank)]
    if any(int(np.float32(f) * n) < 1 for f, n in zip(factors, x.shape, strict=True)):
        return None
    scales = d.const(np.array(factors, np.float32))
    if d.opset < 11:
        return NodeSpec([x, scales], {"mode": mode})
    options: Options = {"mode": mode}
    transforms = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    transforms += ["half_pixel_symmetric"] if d.opset >= 19 else []
    options |= d.optional(0.7, coordinate_transformation_mode=d.pick(transforms))
    if mode == "nearest":
        options |= d.optional(nearest_mode=d.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    elif mode == "cubic":
        options |= d.optional(0.3, cubic_coeff_a=d.pick((-0.5, -0.75)), exclude_outside=1)
    roi = d.const(np.zeros(0, np.float32)) if d.opset < 13 else None
    by_size = d.chance(0.4)
    if d.opset >= 18:
        options |= d.optional(0.2, antialias=1) if mode != "nearest" else {}
        if by_size and d.chance(0.3):
            options["keep_aspect_ratio_policy"] = d.pick(("stretch", "not_larger", "not_smaller"))
        if d.chance(0.3):
            axes = [a for a in range(x.rank) if a in spatial]
            options["axes"] = axes
            new, scales = [new[a] for a in axes], d.const(np.array([factors[a] for a in axes], np.float32))
    if by_size:
        nothing = None if d.opset >= 13 else d.const(np.zeros(0, np.float32))
        return NodeSpec([x, roi, nothing, vector(d, new)], options)
    return NodeSpec([x, roi, scales], options)


@row("Upsample", until=9)
def upsample(d: Draw) -> NodeSpec:
    x = image(d, most=2)
    factors = [1.0, 1.0, *(d.pick((1.0, 1.5, 2.0, 3.0)) for _ in x.shape[2:])]
    return NodeSpec([x, d.const(np.array(factors, np.float32))], d.optional(mode=d.pick(("nearest", "linear"))))


@row("GridSample", finite=True, rounding=ABSOLUTE, judge="onnxruntime")  # the reference pads the grid, not the image
def grid_sample(d: Draw) -> NodeSpec:
    x = image(d, most=3 if d.opset >= 20 else 2, least=2, dtype=d.dtype(0, [F32]))
    rank = x.rank - 2
    out = tuple(d.integer(1, 3) for _ in range(rank))
    grid = d.new(d.numbers(F32, (x.shape[0], *out, rank), -1.6, 1.6, special=False))
    modes = ["nearest", "linear"] if d.opset >= 20 else ["nearest", "bilinear"]
    modes += [] if rank > 2 else ["cubic" if d.opset >= 20 else "bicubic"]
    paddings = ("zeros", "border", "reflection")
    return NodeSpec(
        [x, grid], d.optional(0.8, mode=d.pick(modes), padding_mode=d.pick(paddings), align_corners=d.integer(0, 1))
    )


@row("AffineGrid", finite=True, rounding=ABSOLUTE)
def affine_grid(d: Draw) -> NodeSpec:
    rank = d.integer(2, 3)
    batch = d.integer(1, 2)
    theta = d.value(dtype=F32, shape=(batch, rank, rank + 1))
    size = vector(d, [batch, d.integer(1, 3), *(d.integer(2, 3) for _ in range(rank))])
    return NodeSpec([theta, size], d.optional(align_corners=d.integer(0, 1)))


def aligner(opset: int, *_: Any, **__: Any) -> str | None:
    """The reference shifts by half an element before version 16 already."""
    return "onnxruntime" if opset < 16 else None


@row("RoiAlign", finite=True, rounding=ABSOLUTE, judge=aligner)
def roi_align(d: Draw) -> NodeSpec:
    x = image(d, most=2, least=2, dtype=d.dtype(0, [F32, F64]))
    scale = d.pick((1.0, 0.5))
    corners = d.rng.uniform(-0.9, 0.9, (d.integer(1, 3), 2, 2)) + [n / 2 for n in reversed(x.shape[2:])]
    rois = (np.sort(corners, 1) / scale).reshape(-1, 4).round(3).astype(x.dtype)
    images = np.asarray(d.rng.integers(0, x.shape[0], len(rois)))
    options: Options = {"output_height": d.integer(1, 3), "output_width": d.integer(1, 3), "spatial_scale": scale}
    options |= d.optional(0.7, sampling_ratio=d.integer(1, 2)) | d.optional(mode=d.pick(("avg", "max")))
    if d.opset >= 16:
        options |= d.optional(coordinate_transformation_mode=d.pick(("half_pixel", "output_half_pixel")))
    known = not options.get("sampling_ratio")  # how many points there are is then told by the regions
    return NodeSpec([x, d.const(rois) if known else d.new(rois), d.new(images)], options)
