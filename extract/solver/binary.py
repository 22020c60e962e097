"""Binary programs: choose 0 or 1 for every variable at least cost under linear rows.

In: costs and rows. Out: the best choice found, and a bound that no choice can be cheaper than. OR-tools' CP-SAT where
the extra `exact` is installed, else HiGHS through scipy. CP-SAT runs on one thread and counts its work, so two runs
give the same answer; HiGHS knows only the clock, which matters where it does not finish.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_UNITS = 10**9  # CP-SAT counts in integers: the cost of the hint, in units


@dataclass
class BinaryProgram:
    """`costs` by variable; `rows` are (coefficients by variable, lower limit, upper limit)."""

    costs: list[float]
    rows: list[tuple[dict[int, int], float, float]] = field(default_factory=list)

    def allows(self, chosen: Sequence[int]) -> bool:
        """Does the choice keep within every row?"""
        ones = set(chosen)
        return all(low <= sum(c for v, c in row.items() if v in ones) <= high for row, low, high in self.rows)


@dataclass(frozen=True)
class Solution:
    """`chosen` are the variables that are 1, None where nothing was found in time; `bound` in the unit of the costs;
    `spent` in seconds, or in CP-SAT's units of work, which are about as long."""

    chosen: tuple[int, ...] | None
    bound: float
    spent: float


def minimise(program: BinaryProgram, hint: Sequence[int], seconds: float) -> Solution:
    """The cheapest choice, or the best found in about `seconds` of one core. `hint`: variables of a good choice."""
    if not program.rows:
        return Solution((), 0.0, 0.0)
    relaxation = relaxed(program, seconds)
    incumbent = sum(program.costs[v] for v in hint) if program.allows(hint) else math.inf
    kept = _worth_trying(program, hint, relaxation, incumbent)
    smaller, number = _only(program, kept), {v: i for i, v in enumerate(kept)}
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        solution = _highs(smaller, seconds)
    else:
        solution = _cp_sat(cp_model, smaller, [number[v] for v in hint], seconds)
    chosen = None if solution.chosen is None else tuple(kept[i] for i in solution.chosen)
    if incumbent < math.inf and (chosen is None or sum(program.costs[v] for v in chosen) > incumbent):
        chosen = tuple(sorted(hint))
    return Solution(chosen, max(min(solution.bound, incumbent), relaxation.bound), solution.spent + relaxation.spent)


def _worth_trying(program: BinaryProgram, hint: Sequence[int], relaxation: Relaxation, incumbent: float) -> list[int]:
    """The variables that may be 1 in a choice cheaper than `incumbent`: what one adds to the relaxation is its cost
    less what the rows pay for it (fixing by reduced cost, after Dantzig, Fulkerson and Johnson)."""
    if relaxation.prices is None:
        return list(range(len(program.costs)))
    adds = list(program.costs)
    for (coefficients, _, _), price in zip(program.rows, relaxation.prices, strict=True):
        for v, c in coefficients.items():
            adds[v] -= c * price
    needed = set(hint)
    return [v for v, more in enumerate(adds) if v in needed or relaxation.bound + more <= incumbent]


def _only(program: BinaryProgram, kept: Sequence[int]) -> BinaryProgram:
    """The program of the variables `kept`, all others being 0."""
    number = {v: i for i, v in enumerate(kept)}
    rows = [({number[v]: c for v, c in row.items() if v in number}, low, high) for row, low, high in program.rows]
    return BinaryProgram([program.costs[v] for v in kept], [(r, low, high) for r, low, high in rows if r])


@dataclass(frozen=True)
class Relaxation:
    """The optimum over fractions: a bound, and what each row pays for one more of its limit (negative: charges), None
    where it was not found in time; `spent` as in `Solution`."""

    bound: float
    prices: tuple[float, ...] | None
    spent: float


def relaxed(program: BinaryProgram, seconds: float) -> Relaxation:
    """The linear relaxation, by HiGHS through scipy."""
    if not program.rows:
        return Relaxation(0.0, (), 0.0)
    from scipy.optimize import linprog  # slow to import, and seldom needed

    scale = 1e3 / max([*program.costs, 1e-12])
    signs = np.array([-1.0 if low > -math.inf else 1.0 for _, low, _ in program.rows])
    limits = [-low if low > -math.inf else high for _, low, high in program.rows]
    result = linprog(
        np.array(program.costs) * scale, _matrix(program) * signs[:, None], limits, method="highs-ds",
        options={"time_limit": max(seconds, 0.1)},
    )  # fmt: skip
    spent = 1e-8 * result.nit * (len(program.costs) + len(program.rows))
    if result.status != 0:
        return Relaxation(0.0, None, spent)
    prices = tuple(float(p) for p in result.ineqlin.marginals * signs / scale)
    return Relaxation(max(0.0, (result.fun - 1e-6 * abs(result.fun)) / scale), prices, spent)  # the solver's tolerance


def _cp_sat(cp_model: Any, program: BinaryProgram, hint: Sequence[int], seconds: float) -> Solution:
    scale = _UNITS / max(sum(program.costs[v] for v in hint), max(program.costs, default=1.0), 1e-12)
    model = cp_model.CpModel()
    variables = [model.new_bool_var(f"v{i}") for i in range(len(program.costs))]
    for coefficients, low, high in program.rows:
        total = sum(c * variables[v] for v, c in coefficients.items())
        if low > -math.inf:
            model.add(total >= math.ceil(low))
        if high < math.inf:
            model.add(total <= math.floor(high))
    model.minimize(sum(round(c * scale) * v for c, v in zip(program.costs, variables, strict=True)))
    hinted = set(hint)
    for i, v in enumerate(variables):
        model.add_hint(v, i in hinted)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2  # without every row in its relaxation it proves next to nothing here
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    feasible = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    chosen = tuple(i for i, v in enumerate(variables) if solver.boolean_value(v)) if feasible else None
    slack = 0.5 * len(program.costs)  # of rounded costs
    bound = max(0.0, (solver.best_objective_bound - slack) / scale)
    return Solution(chosen, bound, solver.response_proto.deterministic_time)


def _matrix(program: BinaryProgram) -> Any:
    from scipy.sparse import csr_array

    places = [(r, v, c) for r, (coefficients, _, _) in enumerate(program.rows) for v, c in coefficients.items()]
    rows, variables, values = (np.array(column) for column in zip(*places, strict=True))
    return csr_array((values, (rows, variables)), shape=(len(program.rows), len(program.costs)))


def _highs(program: BinaryProgram, seconds: float) -> Solution:
    from scipy.optimize import Bounds, LinearConstraint, milp

    scale = 1e3 / max([*program.costs, 1e-12])
    matrix = _matrix(program)
    limits = LinearConstraint(matrix, [low for _, low, _ in program.rows], [high for _, _, high in program.rows])
    started = time.perf_counter()
    result = milp(
        np.array(program.costs) * scale, integrality=np.ones(len(program.costs)), bounds=Bounds(0, 1),
        constraints=limits, options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )  # fmt: skip
    chosen = None if result.x is None else tuple(int(v) for v in np.flatnonzero(result.x > 0.5))
    bound = result.mip_dual_bound
    bound = 0.0 if bound is None else bound - 1e-6 * abs(bound)  # the solver's own tolerance
    return Solution(chosen, max(0.0, bound / scale), time.perf_counter() - started)
