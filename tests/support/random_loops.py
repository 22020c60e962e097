"""Random functions of loops in loops: text over vectors of 4, and arguments. On plain arrays Python runs them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eqfuse as ef

ONE = ("np.tanh({a})", "np.sin({a})", "{a} * 0.5", "-{a}", "np.abs({a})", "{a}[::-1]", "{a} - {a}.mean()")
TWO = ("{a} + {b}", "{a} * {b}", "np.maximum({a}, {b})", "np.where({a} > {b}, {a}, {b} * 2)", "m @ {a} - {b}")
BOUNDS = (("0", "3"), ("1", "4"), ("0", "0"), ("2", "1"), ("-1", "2"), ("0", "n"))


def random_loops(seed: int) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Text, function and arguments."""
    program = _Program(random.Random(seed))
    names = ["x", "z"]
    for _ in range(program.rng.randint(1, 3)):
        names.append(program.loop(1, names, []))
    text = "\n".join(["def fn(x, z, m, xs, n):", *program.lines, f"    return {', '.join(names[2:])}"])
    scope: dict[str, Any] = {"np": np, "ef": ef}
    exec(text, scope)
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in (4, 4, (4, 4), (3, 4))]
    return text, scope["fn"], (*arrays, program.rng.randint(0, 3))


class _Program:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def value(self, names: Sequence[str], indices: Sequence[str], depth: int = 2) -> str:
        """An expression of a vector; `indices` are those of the loops around it."""
        kind = self.rng.random()
        if not depth or kind < 0.2:
            return self.rng.choice(names)
        a, b = (self.value(names, indices, depth - 1) for _ in range(2))
        if indices and kind < 0.4:
            i = self.rng.choice(indices)
            return self.rng.choice((f"m[{i}]", f"({a} * np.cos({i}))"))
        return f"({self.rng.choice(ONE if kind < 0.7 else TWO).format(a=a, b=b)})"

    def loop(self, depth: int, names: list[str], indices: list[str]) -> str:
        """Lines that make a vector by a loop or a choice; its name."""
        self.count += 1
        u = self.count
        carries = [f"c{u}_{i}" for i in range(self.rng.randint(1, 3))]
        whole = f"({', '.join(carries)},)"
        init = f"({', '.join(self.value(names, indices, 1) for _ in carries)},)"
        kind = self.rng.choice((self.fori, self.until, self.scan, self.choice))
        kind(depth, u, names, indices, carries, whole, init)
        self.line(depth, f"v{u} = {' + '.join(f'r{u}[{i}]' for i in range(len(carries)))}")
        return f"v{u}"

    def step(self, depth: int, names: list[str], indices: list[str], carries: list[str], last: str = "{}") -> None:
        """The body of a function that returns new carries."""
        known = [*names, *carries]
        if depth < 4 and self.rng.random() < 0.4:
            known.append(self.loop(depth, known, indices))
        if self.rng.random() < 0.3:
            self.line(depth, f"w = {carries[0]} * 1.0")
            self.line(depth, f"w[1:3] = {self.value(known, indices, 1)}[:2]")
            known.append("w")
        after = [f"np.tanh({self.value(known, indices)})" for _ in carries]
        kept = [self.rng.choice((*carries, a, a, a, a)) for a in after]
        self.line(depth, "return " + last.format(f"({', '.join(kept)},)"))

    def fori(self, depth: int, u: int, names: list[str], indices: list[str], carries: list[str], whole: str,
             init: str) -> None:  # fmt: skip
        self.line(depth, f"def f{u}(i{u}, c):")
        self.line(depth + 1, f"{whole} = c")
        self.step(depth + 1, names, [*indices, f"i{u}"], carries)
        lower, upper = self.rng.choice(BOUNDS)
        self.line(depth, f"r{u} = ef.fori_loop({lower}, {upper}, f{u}, {init})")

    def until(self, depth: int, u: int, names: list[str], indices: list[str], carries: list[str], whole: str,
              init: str) -> None:  # fmt: skip
        self.line(depth, f"def f{u}(c):")
        self.line(depth + 1, f"i{u}, {whole} = c")
        self.step(depth + 1, names, [*indices, f"i{u}"], carries, f"i{u} + 1, {{}}")
        end = self.rng.choice(("n", "2", "0"))
        goes_on = f"lambda c: (c[0] < {end}) & (c[1][0].sum() < 100)"
        self.line(depth, f"r{u} = ef.while_loop({goes_on}, f{u}, (0, {init}))[1]")

    def scan(self, depth: int, u: int, names: list[str], indices: list[str], carries: list[str], whole: str,
             init: str) -> None:  # fmt: skip
        row = f"x{u}"
        y = self.rng.choice((f"{row} * {carries[0]}", carries[-1], f"np.tanh(m @ {row})", row))
        self.line(depth, f"def f{u}(c, {row}):")
        self.line(depth + 1, f"{whole} = c")
        self.step(depth + 1, [*names, row, f"({row} @ m)", f"(m @ {row}[::-1] + x)"], indices, carries, f"{{}}, {y}")
        xs, reverse = self.rng.choice(("xs", "xs[1:]", "xs * 2")), self.rng.random() < 0.4
        self.line(depth, f"r{u}, y{u} = ef.scan(f{u}, {init}, {xs}, reverse={reverse})")
        self.line(depth, f"r{u} = (r{u}[0] + y{u}.sum(0), *r{u}[1:])")

    def choice(self, depth: int, u: int, names: list[str], indices: list[str], carries: list[str], whole: str,
               init: str) -> None:  # fmt: skip
        for branch in ("t", "e"):
            self.line(depth, f"def {branch}{u}({', '.join(carries)}):")
            self.step(depth + 1, names, indices, carries)
        bound = self.rng.choice(("0.0", "n", "1.0"))
        self.line(depth, f"r{u} = ef.cond({self.rng.choice(names)}.sum() > {bound}, t{u}, e{u}, *{init})")
