"""Images: edges, blurs, bilateral and morphological filters, equalisation, thresholds, resampling."""

from __future__ import annotations

import numpy as xnp
from numpy import arange, exp, float32, pad, uint8, zeros

from tests.programs.program import ExampleProgram

RAMP = xnp.linspace(0, 1, 256, dtype=xnp.float32)
LUMA = xnp.array([0.299, 0.587, 0.114])


def sobel(rgb, threshold=0.4):
    """Edges of a colour picture with non-maximum suppression along the two axes."""
    grey = rgb.astype(float) @ LUMA / 255
    g = pad(grey, 1, mode="edge")
    gx = (g[:-2, 2:] + 2 * g[1:-1, 2:] + g[2:, 2:]) - (g[:-2, :-2] + 2 * g[1:-1, :-2] + g[2:, :-2])
    gy = (g[2:, :-2] + 2 * g[2:, 1:-1] + g[2:, 2:]) - (g[:-2, :-2] + 2 * g[:-2, 1:-1] + g[:-2, 2:])
    magnitude = xnp.hypot(gx, gy)
    angle = xnp.arctan2(gy, gx)
    horizontal = xnp.abs(xnp.cos(angle)) > xnp.abs(xnp.sin(angle))
    m = pad(magnitude, 1)
    across = xnp.where(horizontal, xnp.maximum(m[1:-1, :-2], m[1:-1, 2:]), xnp.maximum(m[:-2, 1:-1], m[2:, 1:-1]))
    edges = magnitude.copy()
    edges[magnitude < across] = 0
    edges[edges < threshold] = 0
    out = zeros((*edges.shape, 2), uint8)
    out[..., 0] = xnp.clip(edges * 64, 0, 255)
    out[..., 1][edges > 0] = 255
    return out, angle * (edges > 0)


def gaussian_blur(image, sigma=1.5, radius=3):
    """Separable, with reflecting borders, one tap at a time into one buffer."""
    x = arange(-radius, radius + 1)
    taps = exp(-0.5 * (x / sigma) ** 2)
    taps /= taps.sum()
    taps = taps.astype(float32)
    blurred = image
    for axis in (0, 1):
        width = [(0, 0)] * blurred.ndim
        width[axis] = (radius, radius)
        padded = pad(blurred, width, mode="reflect")
        result = zeros(blurred.shape, dtype=blurred.dtype)
        for k in range(2 * radius + 1):
            window = [slice(None)] * blurred.ndim
            window[axis] = slice(k, k + blurred.shape[axis])
            result += taps[k] * padded[tuple(window)]
        blurred = result
    sharpened = image + 0.7 * (image - blurred)
    xnp.clip(sharpened, 0, 1, out=sharpened)
    return blurred, sharpened


def bilateral(image, spatial=1.2, tonal=0.15, radius=2):
    padded = pad(image, radius, mode="symmetric")
    h, w = image.shape
    total = xnp.zeros_like(image)
    weights = xnp.zeros_like(image)
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            shifted = padded[radius + dy : radius + dy + h, radius + dx : radius + dx + w]
            weight = exp(-(dx * dx + dy * dy) / (2 * spatial**2) - (shifted - image) ** 2 / (2 * tonal**2))
            total += weight * shifted
            weights += weight
    total /= weights
    return total


def morphology(mask):
    """Opening and closing by a cross, the boundary, and the distance in steps to the background."""

    def neighbours(a, fill):
        p = pad(a, 1, constant_values=fill)
        return [p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]

    def erode(a):
        return xnp.logical_and.reduce(neighbours(a, True))

    def dilate(a, out=None):
        out = a.copy() if out is None else out
        for n in neighbours(a, False):
            xnp.logical_or(out, n, out=out)
        return out

    opened = dilate(erode(mask))
    closed = erode(dilate(opened))
    boundary = closed & ~erode(closed)
    depth = xnp.zeros(mask.shape, dtype=xnp.int16)
    layer = closed
    for _ in range(4):
        depth += layer
        layer = erode(layer)
    boundary |= mask ^ opened
    return opened, boundary, depth, (depth * boundary).max()


def equalise(image, clip_limit=40):
    """Histogram equalisation of a uint8 picture with a clip limit, by a look-up table."""
    histogram = zeros(256, dtype=xnp.int64)
    xnp.add.at(histogram, image.ravel(), 1)
    excess = xnp.maximum(histogram - clip_limit, 0)
    histogram -= excess
    histogram += excess.sum() // 256
    cumulative = histogram.cumsum()
    first = cumulative[xnp.argmax(histogram > 0)]
    table = xnp.round((cumulative - first) / (cumulative[-1] - first) * 255)
    table = xnp.clip(table, 0, 255).astype(uint8)
    equalised = table[image]
    contrast = RAMP[equalised].std() / (RAMP[image].std() + float32(1e-6))
    return equalised, contrast


def otsu(image, bins):
    """Otsu's threshold over given bin edges, and the picture cut there."""
    place = xnp.digitize(image, bins) - 1
    counts = xnp.sum(place.reshape(-1, 1) == arange(len(bins) - 1), axis=0)
    centres = (bins[1:] + bins[:-1]) / 2
    below = xnp.cumsum(counts)
    above = xnp.cumsum(counts[::-1])[::-1]
    mass = xnp.cumsum(counts * centres)
    mean_below = xnp.divide(mass, below, out=zeros(len(centres)), where=below != 0)
    reversed_mass = xnp.cumsum((counts * centres)[::-1])
    mean_above = xnp.divide(reversed_mass[::-1], above, out=xnp.zeros_like(centres), where=above != 0)
    between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    threshold = centres[xnp.argmax(between)]
    cut = xnp.zeros(image.shape, bool)
    cut[image > threshold] = True
    return threshold, cut, image[None] * xnp.stack([cut, ~cut])


def resample(image, matrix, offset):
    """An affine warp with bilinear interpolation; what falls outside is grey."""
    h, w = image.shape[:2]
    yy, xx = xnp.mgrid[:h, :w]
    grid = xnp.stack((yy, xx), axis=-1).astype(image.dtype)
    source = grid @ matrix.T + offset
    y, x = source[..., 0], source[..., 1]
    y0, x0 = xnp.floor(y).astype(int), xnp.floor(x).astype(int)
    fy, fx = (y - y0)[..., None], (x - x0)[..., None]
    inside = (y >= 0) & (y <= h - 1) & (x >= 0) & (x <= w - 1)
    y0, x0 = y0.clip(0, h - 1), x0.clip(0, w - 1)
    y1, x1 = xnp.minimum(y0 + 1, h - 1), xnp.minimum(x0 + 1, w - 1)
    top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    warped = top * (1 - fy) + bottom * fy
    warped[~inside] = 0.5
    return warped, inside.mean(), xnp.flip(warped, axis=1)[::2, ::2]


def rotation(angle, dtype):
    c, s = xnp.cos(angle), xnp.sin(angle)
    return xnp.array([[c, -s], [s, c]], dtype)


PROGRAMS = [
    ExampleProgram(sobel, lambda rng, n: (rng.integers(0, 256, (n, n + 2, 3), dtype=uint8),), 12, 300),
    ExampleProgram(gaussian_blur, lambda rng, n: (rng.random((n, n, 3), float32),), 9, 500, ("radius",)),
    ExampleProgram(bilateral, lambda rng, n: (rng.random((n, n), float32),), 9, 300),
    ExampleProgram(morphology, lambda rng, n: (rng.random((n, n)) > 0.3,), 12, 600),
    ExampleProgram(equalise, lambda rng, n: ((rng.random((n, n)) ** 2 * 256).astype(uint8),), 16, 500),
    ExampleProgram(otsu, lambda rng, n: (rng.random((n, n)), xnp.linspace(0, 1.001, 33)), 12, 250),
    ExampleProgram(
        resample,
        lambda rng, n: (rng.random((n, n, 3), float32), rotation(0.3, float32), xnp.array([2, -1], float32)),
        8,
        250,
    ),
]
