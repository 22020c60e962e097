"""Statistics: bootstrap, regression, principal components, k-means, a Kalman filter, hidden Markov models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
import numpy as np
from numpy import linalg

from tests.programs.program import ExampleProgram, Named


def bootstrap(sample, indices, *, level=0.9, statistics=("mean", "median", "trimmed")):
    """Confidence intervals from resamples whose indices are given."""
    resampled = sample[indices]
    draws, n = resampled.shape
    lower, upper = int((1 - level) / 2 * draws), int((1 + level) / 2 * draws) - 1
    intervals = {}
    for name in statistics:
        if name == "mean":
            values = resampled.mean(axis=1)
        elif name == "median":
            values = np.median(resampled, axis=1)
        else:
            ordered = np.sort(resampled, axis=1)
            cut = n // 10
            values = ordered[:, cut : n - cut].mean(axis=1)
        values = np.sort(values)
        intervals[name] = (values[lower], values[upper], values.std(ddof=1))
    return intervals


@dataclass
class Fit:
    coefficients: Any
    errors: Any
    r_squared: Any
    residuals: Any = field(default=None)


def regression(X, y, weights=None, ridge=0.0):
    """Least squares with an intercept, standard errors and leverages."""
    n, k = X.shape
    design = numpy.empty((n, k + 1), dtype=X.dtype)
    design[:, 0] = 1
    design[:, 1:] = X
    w = numpy.ones(n) if weights is None else weights / weights.mean()
    gram = design.T @ (design * w[:, None])
    penalty = ridge * numpy.eye(k + 1)
    penalty[0, 0] = 0
    beta = linalg.solve(gram + penalty, design.T @ (w * y))
    fitted = design @ beta
    residuals = y - fitted
    dof = n - k - 1
    variance = (w * residuals**2).sum() / dof
    inverse = linalg.inv(gram + penalty)
    errors = numpy.sqrt(numpy.diag(inverse) * variance)
    leverage = numpy.einsum("ni,ij,nj->n", design, inverse, design)
    cook = residuals**2 / ((k + 1) * variance) * leverage / (1 - leverage) ** 2
    total = (w * (y - numpy.average(y, weights=w)) ** 2).sum()
    return Fit(beta, errors, 1 - (w * residuals**2).sum() / total), {"t": beta / errors, "cook": cook.max()}


def principal_components(data, keep=2):
    """Centre, scale (constant columns stay), and project on the leading singular vectors; signs are made unique."""
    X = np.asarray(data, dtype=np.float64)
    X = X - X.mean(0)
    scale = X.std(axis=0, ddof=1)
    scale[scale == 0] = 1
    X /= scale
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    strongest = np.argmax(np.abs(Vt), axis=1)
    signs = np.sign(Vt[np.arange(Vt.shape[0]), strongest])
    Vt *= signs[:, None]
    U *= signs
    explained = s**2 / (len(X) - 1)
    ratio = explained / explained.sum()
    scores = U[:, :keep] * s[:keep]
    reconstruction = scores @ Vt[:keep]
    return scores, Vt[:keep], ratio.cumsum(), np.sqrt(np.mean((X - reconstruction) ** 2))


def k_means(points, centres, rounds=3):
    """Lloyd's rounds; a cluster without points keeps its centre."""
    k = len(centres)
    centres = centres.copy()
    for _ in range(rounds):
        distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        labels = distances.argmin(axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        counts = np.zeros(k, dtype=np.intp)
        np.add.at(counts, labels, 1)
        filled = counts > 0
        np.divide(sums, counts[:, None], out=centres, where=filled[:, None])
    inertia = np.take_along_axis(distances, labels[:, None], axis=1).sum()
    onehot = labels[:, None] == np.arange(k)
    return centres, labels, inertia, onehot.sum(0), counts


def kalman(observations, *, F, H, Q, R, x0, P0):
    """Filter with gaps (NaN observations are skipped), log-likelihood and Rauch–Tung–Striebel smoothing."""
    steps = observations.shape[0]
    n = F.shape[0]
    means, covariances = np.empty((steps, n)), np.empty((steps, n, n))
    predicted_means, predicted_covariances = np.empty_like(means), np.empty_like(covariances)
    x, P = x0, P0
    likelihood = 0.0
    for t, z in enumerate(observations):
        x = F @ x
        P = F @ P @ F.T + Q
        predicted_means[t], predicted_covariances[t] = x, P
        S = H @ P @ H.T + R
        K = np.linalg.solve(S.T, (P @ H.T).T).T
        innovation = z - H @ x
        seen = np.isfinite(innovation).all()
        innovation = np.where(seen, innovation, 0.0)
        x = x + K @ innovation
        P = np.where(seen, (np.eye(n) - K @ H) @ P, P)
        likelihood -= 0.5 * (innovation @ np.linalg.solve(S, innovation) + np.log(np.linalg.det(2 * np.pi * S)))
        means[t], covariances[t] = x, P
    smooth = means.copy()
    for t in range(steps - 2, -1, -1):
        gain = covariances[t] @ F.T @ np.linalg.inv(predicted_covariances[t + 1])
        smooth[t] += gain @ (smooth[t + 1] - predicted_means[t + 1])
    return means, smooth, np.diagonal(covariances, axis1=1, axis2=2), likelihood


def markov_chain(log_emission, transition, initial, symbols):
    """Forward and backward passes with scaling, then Viterbi's path, for a batch of symbol sequences."""
    batch, length = symbols.shape
    states = initial.shape[0]
    emission = np.exp(log_emission)
    alpha = np.zeros((length, batch, states))
    scale = np.zeros((length, batch))
    alpha[0] = initial * emission[:, symbols[:, 0]].T
    scale[0] = alpha[0].sum(-1)
    alpha[0] /= scale[0, :, None]
    for t in range(1, length):
        alpha[t] = (alpha[t - 1] @ transition) * emission[:, symbols[:, t]].T
        scale[t] = alpha[t].sum(axis=-1)
        alpha[t] /= scale[t][:, None]
    beta = np.ones_like(alpha)
    for t in reversed(range(length - 1)):
        beta[t] = (emission[:, symbols[:, t + 1]].T * beta[t + 1]) @ transition.T / scale[t + 1, :, None]
    posterior = alpha * beta
    score = np.log(initial) + log_emission[:, symbols[:, 0]].T
    pointers = np.empty((length, batch, states), dtype=int)
    for t in range(1, length):
        candidates = score[:, :, None] + np.log(transition)
        pointers[t] = candidates.argmax(axis=1)
        score = candidates.max(axis=1) + log_emission[:, symbols[:, t]].T
    path = np.empty((batch, length), dtype=int)
    path[:, -1] = score.argmax(-1)
    for t in range(length - 1, 0, -1):
        path[:, t - 1] = np.take_along_axis(pointers[t], path[:, t, None], axis=1)[:, 0]
    return np.log(scale).sum(axis=0), posterior.transpose(1, 0, 2), path


def viterbi(transition, emission, initial, observed):
    """The likeliest states behind symbols, state by state as textbooks have it, and back along the choices."""
    steps, states = len(observed), len(initial)
    log_transition, log_emission = np.log(transition), np.log(emission)
    score = np.zeros((steps, states))
    choice = np.zeros((steps, states), dtype=int)
    score[0] = np.log(initial) + log_emission[:, observed[0]]
    for t in range(1, steps):
        for j in range(states):
            ways = score[t - 1] + log_transition[:, j]
            choice[t, j] = np.argmax(ways)
            score[t, j] = ways[choice[t, j]] + log_emission[j, observed[t]]
    path = np.zeros(steps, dtype=int)
    path[-1] = np.argmax(score[-1])
    for t in range(steps - 2, -1, -1):
        path[t] = choice[t + 1, path[t + 1]]
    return path, score[-1].max()


def make_kalman(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    z = np.cumsum(rng.standard_normal((n, 2)), 0)
    z[n // 2] = np.nan
    F = np.eye(4) + np.diag([0.1, 0.1], 2)
    named = Named(F=F, H=np.eye(2, 4), Q=0.01 * np.eye(4), R=0.5 * np.eye(2), x0=np.zeros(4), P0=np.eye(4))
    return (z,), named


def make_chain(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    transition, emission = rng.random((4, 4)) + 0.1, rng.random((4, 5)) + 0.1
    transition /= transition.sum(1, keepdims=True)
    emission /= emission.sum(1, keepdims=True)
    return np.log(emission), transition, np.full(4, 0.25), rng.integers(0, 5, (n, 12))


def make_hidden(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(6), 4), rng.dirichlet(np.ones(4)), rng.integers(0, 6, n)


PROGRAMS = [
    ExampleProgram(
        bootstrap,
        lambda rng, n: (rng.standard_normal(20 + n // 10), rng.integers(0, 20 + n // 10, (n, 20 + n // 10))),
        30,
        1000,
    ),
    ExampleProgram(
        regression, lambda rng, n: (rng.standard_normal((n, 5)), rng.random(n), rng.random(n) + 0.1), 20, 20_000
    ),
    ExampleProgram(
        principal_components, lambda rng, n: (rng.standard_normal((n, 6)).astype(np.float32),), 12, 20_000, ("keep",)
    ),
    ExampleProgram(k_means, lambda rng, n: (rng.random((n, 3)), rng.random((5, 3))), 20, 10_000, ("rounds",)),
    ExampleProgram(kalman, make_kalman, 5, 40),
    ExampleProgram(markov_chain, make_chain, 3, 1000),
    ExampleProgram(viterbi, make_hidden, 24, 300),
]
