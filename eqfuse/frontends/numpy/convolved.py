"""A contraction of sliding windows with weights is a convolution: it takes the windows from the image, unstored.

In: two arrays and a letter for each axis. Out: the convolution and the letters of its axes, or None where it is none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.graph import Node, node

Letter = TypeVar("Letter", bound=Hashable)
MOST_TAPS = 64  # elements of a window: longer ones are as well stored for a product


@dataclass(frozen=True)
class ImageWindows:
    """`image`, whose `axes` windows slide along, by `strides`; `padding` of zeros, and `dilations`."""

    image: Node
    axes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]


def convolved(
    a: Tracer, letters_a: Sequence[Letter], b: Tracer, letters_b: Sequence[Letter], over: Collection[Letter]
) -> tuple[Tracer, list[Letter]] | None:
    """The contraction of `a` and `b` over the letters `over`, if one of them is windows and the other weights."""
    for x, letters, w, others in ((a, letters_a, b, letters_b), (b, letters_b, a, letters_a)):
        windows = window_view(x.node)
        if windows is not None and (product := _convolved(windows, list(letters), w, list(others), over)) is not None:
            return product
    return None


def window_view(n: Node) -> ImageWindows | None:
    """The windows that `n` is a view of, which may leave some of their elements and places out."""
    ranges = [(0, extent, 1) for extent in n.shape]
    if n.op == "slice":
        ranges, (n,) = list(n.attr("ranges")), n.args
    if n.op != "sliding_window":
        return None
    (image,) = n.args
    rank, windows = image.type.rank, n.attr("windows")
    axes = [rank + axis for axis, _ in windows]
    chosen = [ranges[axis] for axis in axes] + ranges[rank:]
    whole = all(r == (0, extent, 1) for a, (r, extent) in enumerate(zip(ranges[:rank], n.shape, strict=False))
                if a not in axes)  # fmt: skip
    ends = [(len(range(*r)) - 1) * r[2] + 1 for r in chosen[len(axes) :]]
    reaches = ends == [extent for _, extent in windows]
    begins = all(start == 0 for start, _, _ in chosen)
    stops = all(-(-n.shape[axis] // r[2]) == len(range(*r)) for axis, r in zip(axes, chosen, strict=False))
    is_long = math.prod(n.shape[rank:]) > MOST_TAPS
    if len(set(axes)) < len(axes) or is_long or not (whole and reaches and begins and stops):
        return None
    padding = ((0, 0),) * rank
    if image.op == "pad" and _is_zero(image.args[1]):
        widths = image.attr("widths")
        if all(pair == (0, 0) for a, pair in enumerate(widths) if a not in axes):
            padding, image = widths, image.args[0]
    steps = [step for _, _, step in chosen]
    count = len(axes)
    return ImageWindows(
        image, tuple(axes), tuple(steps[:count]), tuple([padding[a] for a in axes]), tuple(steps[count:])
    )


def _is_zero(n: Node) -> bool:
    return n.number is not None and not n.number


def _convolved(
    windows: ImageWindows, letters: list[Letter], w: Tracer, others: list[Letter], over: Collection[Letter]
) -> tuple[Tracer, list[Letter]] | None:
    image, rank = windows.image, windows.image.type.rank
    places, elements = [letters[a] for a in windows.axes], letters[rank:]
    channels = [x for x in letters[:rank] if x in over]
    images = [x for x in letters[:rank] if x not in over and x not in places]
    filters = [x for x in others if x not in over]
    is_convolution = set(elements) <= set(over) and not set(places) & set(over) and len(channels) <= 1
    if not is_convolution or {*channels, *elements} != set(over) or set(filters) & set(letters) or not image.type.size:
        return None
    extents = {**dict(zip(others, w.shape, strict=True)), **dict(zip(letters[:rank], image.shape, strict=True))}
    if any(w.shape[others.index(x)] != n for x, n in zip(channels, [extents[x] for x in channels], strict=True)):
        return None
    order = [letters.index(x) for x in (*images, *channels, *places)]
    count = math.prod(extents[x] for x in images), math.prod(extents[x] for x in channels)
    source = tidy.reshape(tidy.transpose(image, order), (*count, *[image.shape[a] for a in windows.axes]))
    turned = tidy.transpose(w.node, [others.index(x) for x in (*filters, *channels, *elements)])
    number = math.prod(extents[x] for x in filters)
    weights = tidy.reshape(turned, (number, count[1], *[w.shape[others.index(x)] for x in elements]))
    convolution = node("conv", (source, weights), (windows.strides, windows.padding, windows.dilations, 1))
    shape = (*[extents[x] for x in (*images, *filters)], *convolution.shape[2:])
    return wrap(tidy.reshape(convolution, shape)), [*images, *filters, *places]
