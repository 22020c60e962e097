"""Cells and particles: Conway's life, gravity, a Lennard-Jones fluid, Ising spins, a random walk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.program import ExampleProgram

SOFTENING = np.float64(1e-3)


def life(world: np.ndarray, generations: int = 4):
    """The game of life on the caller's board; its rim stays dead."""
    history = np.zeros(generations + 1, dtype=np.int64)
    history[0] = world.sum()
    for g in range(generations):
        neighbours = (
            world[0:-2, 0:-2] + world[0:-2, 1:-1] + world[0:-2, 2:]
            + world[1:-1, 0:-2] + world[1:-1, 2:]
            + world[2:, 0:-2] + world[2:, 1:-1] + world[2:, 2:]
        )  # fmt: skip
        birth = (neighbours == 3) & (world[1:-1, 1:-1] == 0)
        survive = ((neighbours == 2) | (neighbours == 3)) & (world[1:-1, 1:-1] == 1)
        world[...] = 0
        world[1:-1, 1:-1][birth | survive] = 1
        history[g + 1] = np.count_nonzero(world)
    return history, birth.any()


class Bodies(NamedTuple):
    position: Any
    velocity: Any
    mass: Any


def accelerations(position, mass, G=1.0):
    separation = position[None, :, :] - position[:, None, :]
    squared = np.einsum("ijk,ijk->ij", separation, separation) + SOFTENING
    inverse_cube = squared**-1.5
    np.fill_diagonal(inverse_cube, 0.0)
    return G * np.einsum("ijk,ij,j->ik", separation, inverse_cube, mass)


def energy(bodies: Bodies):
    kinetic = 0.5 * np.sum(bodies.mass * np.sum(bodies.velocity**2, axis=1))
    rows, columns = np.triu_indices(len(bodies.mass), k=1)
    distance = np.linalg.norm(bodies.position[rows] - bodies.position[columns], axis=-1)
    return kinetic - (bodies.mass[rows] * bodies.mass[columns] / np.sqrt(distance**2 + SOFTENING)).sum()


def n_body(bodies: Bodies, dt=0.01):
    """Kick, drift, kick; returns the bodies after some steps, and what happened to the energy."""
    before = energy(bodies)
    x, v, m = bodies
    x, v = x - np.average(x, axis=0, weights=m), v - (m[:, None] * v).sum(0) / m.sum()
    a = accelerations(x, m)
    for _ in range(3):
        v += 0.5 * dt * a
        x += dt * v
        a = accelerations(x, m)
        v += 0.5 * dt * a
    after = Bodies(x, v, m)
    return after, energy(after) - before


def lennard_jones(x, v, box, cutoff=2.5, dt=0.002):
    """Velocity Verlet in a periodic box, with forces cut off; positions and velocities change in place."""
    n = x.shape[0]
    off_diagonal = ~np.eye(n, dtype=bool)

    def forces(x):
        d = x[:, np.newaxis] - x
        d -= box * np.rint(d / box)
        r2 = (d**2).sum(axis=-1)
        r2[~off_diagonal] = np.inf
        near = r2 < cutoff**2
        inv2 = np.zeros_like(r2)
        np.divide(1.0, r2, out=inv2, where=near)
        inv6 = inv2 * inv2 * inv2
        pair = 24 * inv2 * (2 * inv6**2 - inv6)
        potential = 2 * np.where(near, inv6 * (inv6 - 1), 0).sum()
        virial = np.sum(pair * np.where(near, r2, 0))
        return np.sum(pair[..., None] * d, axis=1), potential, virial

    f, _, _ = forces(x)
    for _ in range(2):
        v += 0.5 * dt * f
        x += dt * v
        x %= box
        f, potential, virial = forces(x)
        v += 0.5 * dt * f
    temperature = (v * v).sum() / (3 * n - 3)
    pressure = (n * temperature + virial / 3) / np.prod(box)
    return float_summary(temperature, pressure, potential)


def float_summary(*values):
    return np.stack([np.asarray(value, dtype=np.float64) for value in values])


def ising(spins, uniforms, beta=0.4, field=0.1):
    """Metropolis sweeps over a checkerboard of int8 spins, by given random numbers."""
    rows, columns = np.indices(spins.shape)
    magnetisation = []
    for sweep, u in enumerate(uniforms):
        colour = (rows + columns) % 2 == sweep % 2
        around = (
            np.roll(spins, 1, axis=0)
            + np.roll(spins, -1, axis=0)
            + np.roll(spins, 1, axis=1)
            + np.roll(spins, -1, axis=1)
        )
        change = 2 * spins * (around + field)
        flip = colour & ((change <= 0) | (u < np.exp(-beta * change)))
        np.negative(spins, out=spins, where=flip)
        magnetisation.append(spins.mean())
    return np.array(magnetisation), np.abs(np.asarray(magnetisation)).max()


def polymer(steps, stiffness):
    """A chain from random bond vectors: persistence, gyration tensor, contacts."""
    bonds = steps / np.linalg.norm(steps, axis=-1, keepdims=True)
    for k in range(1, bonds.shape[1]):
        bonds[:, k] = stiffness * bonds[:, k - 1] + (1 - stiffness) * bonds[:, k]
        bonds[:, k] /= np.sqrt((bonds[:, k] ** 2).sum(-1))[:, None]
    chain = np.zeros((bonds.shape[0], bonds.shape[1] + 1, 3))
    np.cumsum(bonds, axis=1, out=chain[:, 1:])
    centred = chain - chain.mean(axis=1, keepdims=True)
    gyration = np.einsum("cni,cnj->cij", centred, centred) / chain.shape[1]
    moments = np.linalg.eigvalsh(gyration)
    end_to_end = np.linalg.norm(chain[:, -1] - chain[:, 0], axis=1)
    correlation = np.array([np.mean(np.sum(bonds[:, k:] * bonds[:, : bonds.shape[1] - k], -1)) for k in range(4)])
    return (
        {"rg": np.sqrt(moments.sum(-1)), "asphericity": moments[:, 2] - moments[:, :2].mean(1)},
        end_to_end,
        correlation,
    )


def make_fluid(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    side = np.arange(n) * 1.2
    x = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3) + 0.1 * rng.random((n**3, 3))
    return x, rng.standard_normal((n**3, 3)), np.full(3, 1.2 * n)


PROGRAMS = [
    ExampleProgram(life, lambda rng, n: (rng.integers(0, 2, (n, n + 1), dtype=np.uint8),), 10, 1000, ("generations",)),
    ExampleProgram(
        n_body,
        lambda rng, n: (Bodies(rng.standard_normal((n, 3)), rng.standard_normal((n, 3)) / 9, rng.random(n) + 0.5),),
        7,
        250,
    ),
    ExampleProgram(lennard_jones, make_fluid, 2, 6),
    ExampleProgram(
        ising,
        lambda rng, n: (rng.choice(np.array([-1, 1], np.int8), (n, n)), rng.random((4, n, n))),
        8,
        300,
    ),
    ExampleProgram(polymer, lambda rng, n: (rng.standard_normal((n, 24, 3)), 0.7), 4, 2000),
]
