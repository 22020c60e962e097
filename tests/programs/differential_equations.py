"""Explicit steps of partial differential equations: heat, waves, advection, reaction–diffusion, a flow, light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.programs.program import ExampleProgram, Named

STENCIL = np.array([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]])


def heat(u, alpha=0.1, *, steps=4, source=None):
    """Explicit Euler on the caller's grid, with fixed edges on two sides and insulated ones on the others."""
    for _ in range(steps):
        lap = np.zeros_like(u)
        lap[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u += alpha * lap
        if source is not None:
            u[1:-1, 1:-1] += source
        u[0, :] = 0
        u[-1, :] = 1.0
        u[:, 0] = u[:, 1]
        u[:, -1] = u[:, -2]
    return u.mean(), np.abs(u).max()


def wave(u0, v0, c, dt=0.4, steps=6):
    """The wave equation by leapfrog: three buffers that change places, and an absorbing rim."""
    previous, current, following = u0.copy(), np.empty_like(u0), np.empty_like(u0)
    courant = (c * dt) ** 2
    n, m = u0.shape

    def laplacian(f, out):
        out[...] = -4.0 * f
        out[1:] += f[:-1]
        out[:-1] += f[1:]
        out[:, 1:] += f[:, :-1]
        out[:, :-1] += f[:, 1:]
        return out

    scratch = np.empty((n, m), dtype=u0.dtype)
    current[:] = u0 + dt * v0 + 0.5 * courant * laplacian(u0, scratch)
    energy = np.empty(steps)
    for k in range(steps):
        laplacian(current, out=scratch)
        np.multiply(scratch, courant, out=following)
        following += 2 * current
        following -= previous
        for edge in (np.s_[0, :], np.s_[-1, :], np.s_[:, 0], np.s_[:, -1]):
            following[edge] *= 0.9
        energy[k] = 0.5 * np.sum((following - current) ** 2) / dt**2
        previous, current, following = current, following, previous
    return current, energy


@dataclass
class Flow:
    """Settings of the advection scheme: the velocity is positive where `u` is."""

    u: Any
    dx: float = 0.1
    dt: float = 0.02
    limiter: str = "superbee"


def advection(q, flow: Flow, steps=5):
    """A periodic flux-limited upwind scheme."""
    cfl = flow.u * flow.dt / flow.dx

    def phi(r):
        if flow.limiter == "minmod":
            return np.clip(r, 0, 1)
        if flow.limiter == "superbee":
            return np.maximum(0, np.maximum(np.minimum(2 * r, 1), np.minimum(r, 2)))
        return (r + np.abs(r)) / (1 + np.abs(r))

    q = np.array(q, dtype=float)
    total = q.sum()
    for _ in range(steps):
        jump = q - np.roll(q, 1)
        upwind = np.where(cfl > 0, np.roll(jump, 1), np.roll(jump, -1))
        ratio = np.zeros_like(q)
        np.divide(upwind, jump, out=ratio, where=np.abs(jump) > 1e-12)
        donor = np.where(cfl > 0, np.roll(q, 1), q)
        flux = cfl * donor + 0.5 * np.abs(cfl) * (1 - np.abs(cfl)) * phi(ratio) * jump
        q[:-1] -= flux[1:] - flux[:-1]
        q[-1] -= flux[0] - flux[-1]
    return q, np.isclose(q.sum(), total)


class GrayScott:
    """Reaction and diffusion of two species on a torus."""

    weights = STENCIL

    def __init__(self, feed=0.037, kill=0.06, diffusion=(0.16, 0.08)):
        self.feed, self.kill = feed, kill
        self.diffusion = diffusion

    def laplacian(self, field):
        total = np.zeros_like(field)
        for i in range(3):
            for j in range(3):
                if (w := self.weights[i, j]) != 0:
                    total += w * np.roll(field, (i - 1, j - 1), axis=(0, 1))
        return total

    def step(self, u, v, dt):
        uvv = u * v * v
        du = self.diffusion[0] * self.laplacian(u) - uvv + self.feed * (1 - u)
        dv = self.diffusion[1] * self.laplacian(v) + uvv - (self.feed + self.kill) * v
        u += dt * du
        v += dt * dv
        np.clip(u, 0, 1, out=u)
        np.clip(v, 0, 1, out=v)


def reaction_diffusion(u, v, dt=1.0):
    model = GrayScott(feed=0.03)
    for _ in range(3):
        model.step(u, v, dt)
    return {"contrast": u.max() - u.min(), "ratio": v.sum() / u.sum()}


def cavity(u, v, p, *, dt=0.001, rho=1.0, nu=0.1, sweeps=5):
    """One step of the lid-driven cavity flow: pressure by sweeps of Jacobi, then the momentum equations in place."""
    ny, nx = p.shape
    dx, dy = 2 / (nx - 1), 2 / (ny - 1)
    b = np.zeros((ny, nx))
    ux = (u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx)
    vy = (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy)
    b[1:-1, 1:-1] = rho * (
        1 / dt * (ux + vy)
        - ux**2
        - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
        - vy**2
    )
    for _ in range(sweeps):
        pn = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    un = u.copy()
    vn = v.copy()

    def transported(f):
        return (
            f[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (f[1:-1, 1:-1] - f[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (f[1:-1, 1:-1] - f[0:-2, 1:-1])
            + nu * dt / dx**2 * (f[1:-1, 2:] - 2 * f[1:-1, 1:-1] + f[1:-1, 0:-2])
            + nu * dt / dy**2 * (f[2:, 1:-1] - 2 * f[1:-1, 1:-1] + f[0:-2, 1:-1])
        )

    u[1:-1, 1:-1] = transported(un) - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
    v[1:-1, 1:-1] = transported(vn) - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
    for field in (u, v):
        field[0, :] = field[:, 0] = field[:, -1] = 0
    u[-1, :] = 1  # the lid
    v[-1, :] = 0


def electromagnetic(steps, ex, ey, hz, pulse):
    """Yee's scheme for a field in a plane, which a pulse enters along one edge: three grids, changed in place."""
    for t in range(steps):
        ey[0, :] = pulse[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        hz[:-1, :-1] -= 0.7 * curl


PROGRAMS = [
    ExampleProgram(
        heat, lambda rng, n: ((rng.random((n, n + 3)),), Named(source=0.01 * rng.random((n - 2, n + 1)))), 9, 500
    ),
    ExampleProgram(
        wave,
        lambda rng, n: (rng.random((n, n), np.float32), rng.random((n, n), np.float32), 0.5 + rng.random((n, n)) / 2),
        10,
        400,
        ("steps",),
    ),
    ExampleProgram(advection, lambda rng, n: (rng.random(n), Flow(rng.random(n) - 0.5)), 40, 60_000, ("steps",)),
    ExampleProgram(reaction_diffusion, lambda rng, n: (rng.random((n, n)), rng.random((n, n)) / 4), 12, 300),
    ExampleProgram(cavity, lambda rng, n: tuple(rng.random((3, n, n + 2)) / 10), 11, 300),
    ExampleProgram(
        electromagnetic, lambda rng, n: (6, *rng.random((3, n, n + 1)), np.arange(6.0)), 8, 400, ("steps",)
    ),
]
