"""Binary programs: choose 0 or 1 for every variable at least cost under linear rows.

In: costs and rows. Out: the best choice found, and a bound that no choice can be cheaper than. OR-tools' CP-SAT where
the extra `exact` is installed, else HiGHS through scipy. CP-SAT runs on one thread and counts its work, so two runs
give the same answer; HiGHS knows only the clock, which matters where it does not finish.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

_UNITS = 10**9  # CP-SAT counts in integers: the cost of the hint, in units


@dataclass
class BinaryProgram:
    """`costs` by variable; `rows` are (coefficients by variable, lower limit, upper limit)."""

    costs: list[float]
    rows: list[tuple[dict[int, int], float, float]] = field(default_factory=list)


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
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return _highs(program, seconds)
    relaxed = _highs(program, seconds, integral=False)
    found = _cp_sat(cp_model, program, hint, seconds)
    return replace(found, bound=max(found.bound, relaxed.bound))


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
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    chosen = tuple(i for i, v in enumerate(variables) if solver.boolean_value(v)) if found else None
    slack = 0.5 * len(program.costs)  # of rounded costs
    bound = max(0.0, (solver.best_objective_bound - slack) / scale)
    return Solution(chosen, bound, solver.response_proto.deterministic_time)


def _highs(program: BinaryProgram, seconds: float, integral: bool = True) -> Solution:
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import, and seldom needed
    from scipy.sparse import csr_array

    scale = 1e3 / max([*program.costs, 1e-12])
    places = [(r, v, c) for r, (coefficients, _, _) in enumerate(program.rows) for v, c in coefficients.items()]
    at, variables, values = (np.array(column) for column in zip(*places, strict=True))
    matrix = csr_array((values, (at, variables)), shape=(len(program.rows), len(program.costs)))
    limits = LinearConstraint(matrix, [low for _, low, _ in program.rows], [high for _, _, high in program.rows])
    started = time.perf_counter()
    result = milp(
        np.array(program.costs) * scale, integrality=np.full(len(program.costs), integral), bounds=Bounds(0, 1),
        constraints=limits, options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )  # fmt: skip
    chosen = None if result.x is None or not integral else tuple(int(v) for v in np.flatnonzero(result.x > 0.5))
    bound = result.mip_dual_bound if integral else result.fun
    bound = 0.0 if bound is None else bound - 1e-6 * abs(bound)  # the solver's own tolerance
    return Solution(chosen, max(0.0, bound / scale), time.perf_counter() - started)
