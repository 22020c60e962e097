"""Geometry: rotations, rays and spheres, quaternions, polygons, fractals, hulls and meshes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numpy import cross, dot, newaxis

from tests.programs.program import ExampleProgram, Named

Scene = namedtuple("Scene", "centres radii colours")
LIGHT = np.array([1.0, 2.0, -1.0]) / np.sqrt(6.0)


def rotations(axes, angles, points):
    """Rodrigues' matrices, applied, composed, checked for orthogonality and turned back into angles."""
    k = axes / np.linalg.norm(axes, axis=1)[:, None]
    n = len(angles)
    K = np.zeros((n, 3, 3))
    K[:, 0, 1], K[:, 0, 2], K[:, 1, 2] = -k[:, 2], k[:, 1], -k[:, 0]
    K -= K.transpose(0, 2, 1).copy()
    R = np.eye(3) + np.sin(angles)[:, newaxis, newaxis] * K + (1 - np.cos(angles))[:, newaxis, newaxis] * (K @ K)
    turned = np.einsum("nij,pj->npi", R, points)
    product = R[0]
    for matrix in R[1:4]:
        product = dot(matrix, product)
    defect = np.abs(R @ R.mT - np.identity(3)).max(axis=(-2, -1))
    trace = np.trace(R, axis1=1, axis2=2)
    back = np.arccos(np.clip((trace - 1) / 2, -1, 1))
    euler = np.empty((n, 3))
    euler[:, 0] = np.arctan2(R[:, 2, 1], R[:, 2, 2])
    euler[:, 1] = -np.arcsin(R[:, 2, 0].clip(-1, 1))
    euler[:, 2] = np.arctan2(R[:, 1, 0], R[:, 0, 0])
    return turned, product, defect < 1e-12, back, np.degrees(euler)


def ray_trace(origin, width, height, scene: Scene, ambient=0.1):
    """Rays of a pinhole camera against spheres, with shading and shadows."""
    xs, ys = np.linspace(-1, 1, width), np.linspace(-1, 1, height)
    directions = np.ones((height, width, 3))
    directions[..., 0] = xs
    directions[..., 1] = ys[:, None]
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)

    def hit(o, d):
        """Distances to the spheres, infinite where there is no hit in front."""
        oc = o[..., None, :] - scene.centres
        b = (oc * d[..., None, :]).sum(-1)
        c = (oc**2).sum(-1) - scene.radii**2
        disc = b * b - c
        root = np.sqrt(np.maximum(disc, 0))
        t = np.where(-b - root > 1e-6, -b - root, -b + root)
        t[(disc < 0) | (t < 1e-6)] = np.inf
        return t

    t = hit(origin, directions)
    nearest, distance = t.argmin(axis=-1), t.min(axis=-1)
    seen = np.isfinite(distance)
    where_hit = origin + np.where(seen, distance, 0)[..., None] * directions
    normals = (where_hit - scene.centres[nearest]) / scene.radii[nearest][..., None]
    shadow = np.isfinite(hit(where_hit + 1e-4 * normals, np.broadcast_to(LIGHT, where_hit.shape))).any(-1)
    lambert = np.maximum(np.einsum("hwi,i->hw", normals, LIGHT), 0)
    lambert[shadow] = 0
    picture = np.zeros((height, width, 3))
    picture += (ambient + (1 - ambient) * lambert)[..., None] * scene.colours[nearest]
    picture[~seen] = (0.2, 0.3, 0.5)
    return (picture.clip(0, 1) * 255).astype(np.uint8), np.where(seen, distance, -1.0)


def quaternions(p, q, t):
    """Hamilton products, spherical interpolation (linear where nearly parallel) and rotation of a vector."""

    def multiply(a, b):
        w1, x1, y1, z1 = np.moveaxis(a, -1, 0)
        w2, x2, y2, z2 = np.moveaxis(b, -1, 0)
        return np.stack(
            [
                w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
                w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
                w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
                w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
            ],
            axis=-1,
        )

    def conjugate(a):
        result = a.copy()
        result[..., 1:] *= -1
        return result

    p, q = (a / np.sqrt((a * a).sum(-1, keepdims=True)) for a in (p, q))
    cosine = (p * q).sum(axis=-1)
    q = np.where((cosine < 0)[:, None], -q, q)
    cosine = np.abs(cosine)
    theta = np.arccos(np.minimum(cosine, 1))
    sine = np.sin(theta)
    close = sine < 1e-6
    a, b = np.array(1 - t) * np.ones_like(theta), t * np.ones_like(theta)
    np.divide(np.sin((1 - t) * theta), sine, out=a, where=~close)
    np.divide(np.sin(t * theta), sine, out=b, where=~close)
    between = a[:, None] * p + b[:, None] * q
    between /= np.linalg.norm(between, axis=-1, keepdims=True)
    vector = np.zeros_like(p)
    vector[:, 1] = 1
    turned = multiply(multiply(between, vector), conjugate(between))[:, 1:]
    return between, turned, 2 * np.arctan2(np.linalg.norm(between[:, 1:], axis=1), between[:, 0])


def point_in_polygon(points, polygon):
    """Crossing numbers, signed area, centroid, and the distance from each point to the nearest edge."""
    x, y = points.T
    inside = np.zeros(len(points), dtype=bool)
    nearest = np.full(len(points), np.inf)
    n = len(polygon)
    for i in range(n):
        (x1, y1), (x2, y2) = polygon[i], polygon[(i + 1) % n]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
        inside ^= crossing
        edge = polygon[(i + 1) % n] - polygon[i]
        s = np.clip((points - polygon[i]) @ edge / (edge @ edge), 0, 1)
        foot = polygon[i] + s[:, None] * edge
        np.minimum(nearest, np.hypot(*(points - foot).T), out=nearest)
    rolled = np.roll(polygon, -1, axis=0)
    cross_terms = polygon[:, 0] * rolled[:, 1] - rolled[:, 0] * polygon[:, 1]
    area = cross_terms.sum() / 2
    centroid = ((polygon + rolled) * cross_terms[:, None]).sum(0) / (6 * area)
    return inside, np.where(inside, -nearest, nearest), area, centroid


def mandelbrot(c, iterations=20):
    """Escape counts with smooth colouring, and the distance estimate from the derivative."""
    z = np.zeros_like(c)
    derivative = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.uint16)
    for _ in range(iterations):
        inside = z.real * z.real + z.imag * z.imag <= 16
        derivative = np.where(inside, 2 * z * derivative + 1, derivative)
        z = np.where(inside, z * z + c, z)
        count += inside
    magnitude = np.abs(z)
    escaped = count < iterations
    smooth = count.astype(float)
    smooth[escaped] += 1
    smooth -= np.where(escaped, np.log2(np.log(np.maximum(magnitude, 1.1))), 0)
    distance = np.zeros_like(magnitude)
    np.divide(magnitude * np.log(np.maximum(magnitude, 1.1)), np.abs(derivative), out=distance, where=escaped)
    return count, smooth, distance


def convex_distance(points, normals, offsets, *, iterations=6, relaxation=1.0):
    """Projection on an intersection of half-spaces by Dykstra's rounds, signed slack and active constraints."""
    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    scaled = offsets / np.linalg.norm(normals, axis=1)
    x = points.copy()
    corrections = np.zeros((len(unit), *points.shape))
    for _ in range(iterations):
        for j, (normal, offset) in enumerate(zip(unit, scaled, strict=True)):
            moved = x + corrections[j]
            slack = moved @ normal - offset
            projected = moved - relaxation * np.maximum(slack, 0)[:, None] * normal
            corrections[j] = moved - projected
            x = projected
    slack = x @ unit.T - scaled
    active = np.abs(slack) < 1e-6
    return x, np.sqrt(((x - points) ** 2).sum(1)), active.sum(axis=1), slack.max(axis=1)


def mesh(vertices, faces):
    """Areas, normals at faces and vertices, volume, and one step of Laplacian smoothing in place."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    face_normals = cross(b - a, c - a)
    areas = 0.5 * np.sqrt((face_normals**2).sum(-1))
    vertex_normals = np.zeros_like(vertices)
    for corner in range(3):
        np.add.at(vertex_normals, faces[:, corner], face_normals)
    lengths = np.linalg.norm(vertex_normals, axis=1, keepdims=True)
    vertex_normals = np.divide(vertex_normals, lengths, out=np.zeros_like(vertex_normals), where=lengths > 0)
    volume = np.einsum("fi,fi->", a, cross(b, c)) / 6
    sums, counts = np.zeros_like(vertices), np.zeros((len(vertices), 1), dtype=int)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        np.add.at(sums, faces[:, i], vertices[faces[:, j]])
        np.add.at(counts, faces[:, i], 1)
    vertices += 0.5 * (sums / np.maximum(counts, 1) - vertices) * (counts > 0)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    return areas, vertex_normals, abs(volume), np.stack((low, high)), np.prod(high - low)


def make_scene(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    scene = Scene(rng.random((4, 3)) * 4 - 2 + np.array([0, 0, 5.0]), 0.5 + rng.random(4), rng.random((4, 3)))
    return np.zeros(3), n, n - 2, scene


def make_plane(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (np.linspace(-2, 1, n) + 1j * np.linspace(-1.2, 1.2, n)[:, None],)


PROGRAMS = [
    ExampleProgram(
        rotations, lambda rng, n: (rng.standard_normal((n, 3)), rng.random(n) * 3, rng.random((5, 3))), 6, 3000
    ),
    ExampleProgram(ray_trace, make_scene, 10, 150, ("width", "height")),
    ExampleProgram(quaternions, lambda rng, n: (*rng.standard_normal((2, n, 4)), 0.3), 7, 10_000),
    ExampleProgram(
        point_in_polygon,
        lambda rng, n: (
            rng.random((n, 2)) * 2 - 1,
            np.stack([np.cos(t := np.arange(9) * 0.7), np.sin(t)], -1) * rng.random((9, 1)),
        ),
        12,
        20_000,
    ),
    ExampleProgram(mandelbrot, make_plane, 9, 150, ("iterations",)),
    ExampleProgram(
        convex_distance,
        lambda rng, n: (
            (rng.standard_normal((n, 3)), rng.standard_normal((5, 3)), rng.random(5)),
            Named(relaxation=0.9),
        ),
        6,
        5000,
    ),
    ExampleProgram(mesh, lambda rng, n: (rng.random((n, 3)), rng.integers(0, n, (2 * n, 3))), 12, 10_000),
]
