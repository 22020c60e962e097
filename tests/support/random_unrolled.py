"""Random functions with Python's `for`, which tracing unrolls: text over rows of arrays, and arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WIDTH = 4
ONE = ("np.tanh({a})", "np.sin({a})", "{a} * 0.5", "-{a}", "np.abs({a})", "{a}[::-1]", "{a} - np.mean({a})")
TWO = ("{a} + {b}", "{a} * {b}", "np.maximum({a}, {b})", "np.where({a} > {b}, {a}, {b} * 2)", "{a} @ m - {b}")
READ = (
    "x[i]", "x[n - 1 - i]", "x[i + 3]", "x[2 * i + 1]", "y[:, i]", "x[i : i + 3].sum(0)", "x[4 * i : 4 * i + 4, 1]",
    "0.01 * i", "v[i]", "x[i] * np.cos(i)", "z", "y[0:4, i]", "np.array([i, 1.0, 2.0, -i])",
    "x[n - i : n - i + 2].max(0)",
)  # fmt: skip
MOVED = ("g[i]", "g[i : i + 2].sum(0)", "g[:4, i % 2]", "g[n - i, ::-1]", "g[2 * i + 1]", "g[i + 1, 1] * z")
WRITTEN = (
    "g[i + 1] = a", "g[i, 1:3] = a[:2]", "g = np.minimum(g, g[i] + a)", "g[2 * i : 2 * i + 2] *= 0.5", "g[n - i] += a",
    "g[i, 0] = a[1]; g[-1] = a", "g = np.tanh(g + g[i + 2])",
)  # fmt: skip
UPDATE = ("np.tanh({a})", "0.5 * {c} + {a}", "{c} + {a}", "{a} - 0.1 * {c}", "np.maximum({c}, {a})")


def random_unrolled(seed: int) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Text, function and arguments."""
    rng = random.Random(seed)
    steps = rng.randint(16, 24)
    text = "\n".join(_lines(rng, steps))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    draws = np.random.default_rng(seed)
    shapes = (5 * steps, WIDTH), (WIDTH, 2 * steps), (WIDTH, WIDTH), (WIDTH,), (2 * steps,)
    return text, scope["fn"], tuple(draws.normal(size=shape) for shape in shapes)


def _lines(rng: random.Random, steps: int) -> list[str]:
    carries = [f"c{k}" for k in range(rng.randint(0, 3))]
    late = [f"{c}_{back}" for c in carries for back in range(1, rng.choice((1, 1, 2, 3)))]
    lines = ["def fn(x, y, m, z, v):", f"    n = {steps}", "    stacked, out, total = [], np.zeros((n, 4)), 0.0"]
    lines += [f"    {c} = {rng.choice(('z', 'np.zeros(4)', 'x[0] * z', '-z'))}" for c in carries]
    lines += [f"    {c} = {rng.choice(('z * 2', 'np.ones(4)'))}" for c in late]
    moving = rng.random() < 0.4
    lines += ["    g = np.outer(np.arange(2 * n + 2.0), z) * 0.01"] * moving
    lines.append(f"    for i in range({rng.choice(('n', 'n', 'n - 1', 'n - 1, -1, -1'))}):")
    body = ["        a = " + _value(rng, [*carries, *late], 2) + f" + {rng.choice(MOVED)}" * moving]
    for c in carries:
        update = rng.choice(UPDATE).format(a=_value(rng, ["a", *carries, *late], 1), c=c)
        older = [name for name in late if name.startswith(f"{c}_")]
        body += [f"        {to} = {source}" for to, source in reversed(list(zip(older, [c, *older], strict=False)))]
        body.append(f"        {c} = {update}")
    body += rng.sample(
        ["        stacked.append(a * 2 + z)", "        out[i] = a", "        total = total + np.tanh(a)",
         "        stacked.append(np.mean(a) + z)", "        out[n - 1 - i] += z - a"], rng.randint(not carries, 2),
    )  # fmt: skip
    if rng.random() < 0.2:
        changed = carries[0] if carries else "z"
        body += [f"        if i == {rng.randint(0, steps - 1)}:"]
        body += [f"            a = {changed} = np.sin(a) + np.zeros(4)"]
    body += [f"        {line}" for line in rng.sample(WRITTEN, rng.randint(1, 2)) if moving]
    if rng.random() < 0.3:
        order = rng.choice(("", "[::-1]"))
        body += ["        earlier.append(a * 0.5)"]
        lines.insert(2, "    earlier, b = [], z")
        body += [f"    for e in earlier{order}:", f"        b = {rng.choice(('np.tanh(b + e)', 'b * 0.5 + e * z'))}"]
        late = [*late, "b"]
    late = [*late, *["g"] * moving]
    results = [*carries, *late, "out", "total", "np.stack(stacked) if stacked else a"]
    return [*lines, *body, f"    return {', '.join(results)}"]


def _value(rng: random.Random, names: Sequence[str], depth: int) -> str:
    if not depth or rng.random() < 0.1:
        return rng.choice([*names, rng.choice(READ)] if names else READ)
    a, b = (_value(rng, names, depth - 1) for _ in range(2))
    if rng.random() < 0.4:
        return f"({rng.choice(ONE[:4]).format(a=a)})"
    return f"({rng.choice(TWO[:4]).format(a=a, b=b)})" if rng.random() < 0.8 else f"({a} + z @ m)"
