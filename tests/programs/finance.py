"""Finance: options by formula, tree and simulation, the risk of a portfolio, a yield curve."""

from __future__ import annotations

from math import sqrt as scalar_sqrt
from typing import Any

import numpy as np
from numpy import exp, log, maximum, minimum, sqrt, where
from scipy.special import erf, ndtr

from tests.programs.program import ExampleProgram


def norm_cdf(x):
    return 0.5 * (1.0 + erf(x / scalar_sqrt(2.0)))


def implied_volatility(market, option, iterations=5):
    """Newton's steps on Black–Scholes prices given as a dictionary, kept in bounds."""
    S, K, T, r = (option[name] for name in ("spot", "strike", "years", "rate"))
    call = option["call"]
    sigma = np.full(S.shape, 0.3, dtype=S.dtype)
    for _ in range(iterations):
        d1 = (log(S / K) + (r + sigma**2 / 2) * T) / (sigma * sqrt(T))
        d2 = d1 - sigma * sqrt(T)
        price = where(
            call, S * norm_cdf(d1) - K * exp(-r * T) * norm_cdf(d2), K * exp(-r * T) * ndtr(-d2) - S * ndtr(-d1)
        )
        vega = S * exp(-0.5 * d1 * d1) / sqrt(2 * np.pi) * sqrt(T)
        step = (price - market) / maximum(vega, 1e-8)
        sigma -= np.clip(step, -0.2, 0.2)
        sigma[sigma < 1e-3] = 1e-3
        minimum(sigma, 4.0, out=sigma)
    return {"sigma": sigma, "error": abs(price - market).max(), "vega": vega}


def binomial_tree(spot, strike, rate, volatility, years, steps=50, american=True):
    """American or European puts on a Cox–Ross–Rubinstein tree, one row per option, rolled back in place."""
    dt = years / steps
    up = exp(volatility * sqrt(dt))
    down = 1 / up
    p = (exp(rate * dt) - down) / (up - down)
    discount = exp(-rate * dt)
    j = np.arange(steps + 1)
    prices = spot[:, None] * up[:, None] ** (2 * j - steps)
    values = maximum(strike[:, None] - prices, 0)
    early = np.zeros(spot.shape[0], dtype=np.int32)
    for i in range(steps - 1, -1, -1):
        values[:, : i + 1] = discount * (p[:, None] * values[:, 1 : i + 2] + (1 - p[:, None]) * values[:, : i + 1])
        if american:
            exercise = strike[:, None] - spot[:, None] * up[:, None] ** (2 * j[: i + 1] - i)
            early += (exercise > values[:, : i + 1]).any(axis=1)
            maximum(values[:, : i + 1], exercise, out=values[:, : i + 1])
    return values[:, 0], early


def heston(normals, *, s0=100.0, v0=0.04, kappa=2.0, theta=0.04, xi=0.3, rho=-0.7, rate=0.02, dt=1 / 50, strikes=None):
    """Full-truncation Euler paths from given normals; an up-and-out barrier, Asian and European payoffs."""
    steps, _, paths = normals.shape
    strikes = np.array([90.0, 100.0, 110.0]) if strikes is None else strikes
    z_v = normals[:, 0]
    z_s = rho * normals[:, 0] + np.sqrt(1 - rho**2) * normals[:, 1]
    s, v = np.empty((steps + 1, paths)), np.empty((steps + 1, paths))
    s[0], v[0] = s0, v0
    alive = np.ones(paths, dtype=bool)
    for t in range(steps):
        positive = maximum(v[t], 0)
        s[t + 1] = s[t] * exp((rate - 0.5 * positive) * dt + sqrt(positive * dt) * z_s[t])
        v[t + 1] = v[t] + kappa * (theta - positive) * dt + xi * sqrt(positive * dt) * z_v[t]
        alive &= s[t + 1] < 130
    discount = exp(-rate * dt * steps)
    payoff = maximum(s[-1][:, None] - strikes, 0)
    payoff[~alive] = 0
    asian = maximum(s[1:].mean(axis=0) - s0, 0)
    return discount * payoff.mean(0), discount * asian.mean(), payoff.std(axis=0, ddof=1) / np.sqrt(paths), alive.sum()


def portfolio(returns, weights, confidence=0.95, half_life=20):
    """Risk contributions under an exponentially weighted covariance, value at risk, and drawdowns."""
    days, assets = returns.shape
    decay = 0.5 ** (np.arange(days)[::-1] / half_life)
    decay /= decay.sum()
    centred = returns - decay @ returns
    cov = (centred * decay[:, None]).T @ centred
    shrunk = 0.9 * cov + 0.1 * np.diag(np.diag(cov))
    std = np.sqrt(np.diag(shrunk))
    correlation = shrunk / np.outer(std, std)
    risk = np.sqrt(weights @ shrunk @ weights)
    contributions = weights * (shrunk @ weights) / risk
    inverse = np.linalg.inv(shrunk)
    minimum_variance = inverse.sum(axis=1) / inverse.sum()
    pnl = returns @ weights
    ordered = np.sort(pnl)
    tail = int((1 - confidence) * days) + 1
    wealth = np.cumprod(1 + pnl)
    peak = np.maximum.accumulate(wealth)
    drawdown = 1 - wealth / peak
    lower = np.linalg.cholesky(correlation)
    return {
        "risk": risk,
        "share": contributions / risk,
        "weights": minimum_variance,
        "var": -ordered[tail - 1],
        "shortfall": -ordered[:tail].mean(),
        "drawdown": drawdown.max(),
        "trough": drawdown.argmax(),
        "cholesky": lower,
        "beta": np.cov(returns[:, 0], pnl)[0, 1] / np.var(pnl, ddof=1),
        "assets": assets,
    }


def yield_curve(maturities, quotes, queries, frequency=2):
    """Bootstrap discount factors from par swap rates, then interpolate, shift and differentiate the zero curve."""
    n = len(maturities)
    discounts = np.zeros(n)
    annuity = 0.0
    for i in range(n):
        discounts[i] = (1 - quotes[i] * annuity) / (1 + quotes[i] / frequency)
        annuity += discounts[i] / frequency
    zeros = -np.log(discounts) / maturities
    rates = np.interp(queries, maturities, zeros)
    place = np.searchsorted(maturities, queries).clip(1, n - 1)
    forward = np.log(discounts[place - 1] / discounts[place]) / (maturities[place] - maturities[place - 1])
    bumped = rates[None, :] + np.array([-1e-4, 0, 1e-4])[:, None]
    prices = np.exp(-bumped * queries)
    duration = -(prices[2] - prices[0]) / (2e-4 * prices[1])
    convexity = (prices[2] - 2 * prices[1] + prices[0]) / (1e-8 * prices[1])
    table = np.column_stack((queries, rates, forward, duration))
    return table, np.round(convexity, 1), np.trapezoid(rates, queries)


def make_options(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    spot, strike = 80 + 40 * rng.random((2, n))
    option = {
        "spot": spot, "strike": strike, "years": 0.5 + rng.random(n), "rate": 0.02, "call": rng.random(n) > 0.5
    }  # fmt: skip
    return 10 + 15 * rng.random(n) + maximum(abs(spot - strike), 0), option


PROGRAMS = [
    ExampleProgram(implied_volatility, make_options, 10, 20_000, ("iterations",)),
    ExampleProgram(
        binomial_tree,
        lambda rng, n: (90 + 20 * rng.random(n), np.full(n, 100.0), 0.03, 0.1 + 0.2 * rng.random(n), 1.0),
        5,
        400,
        ("steps", "american"),
    ),
    ExampleProgram(heston, lambda rng, n: (rng.standard_normal((12, 2, n)),), 20, 10_000),
    ExampleProgram(
        portfolio,
        lambda rng, n: (0.01 * rng.standard_normal((n, 8)), rng.dirichlet(np.ones(8))),
        40,
        40_000,
        ("confidence", "half_life"),
    ),
    ExampleProgram(
        yield_curve,
        lambda rng, n: (
            np.arange(1, 21) / 2,
            0.02 + 0.01 * np.sort(rng.random(20)),
            np.sort(rng.random(n)) * 9.5 + 0.2,
        ),
        15,
        60_000,
    ),
]
