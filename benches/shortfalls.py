"""Where the joint choice gains less than the suite's predicted factors, and why (`benches/corpus/README.md`).

In: what was predicted on the device of those factors, a textbook A100. Out: a verdict for every row of the suite.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqfuse.benches.ablations import Choices
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.summary import duration

# Milliseconds of the better plan, by the formula of benches/corpus/README.md. G29, G30 and G31 have none: their plans
# differ in less than that formula sees.
BETTER: Mapping[str, float] = {
    "G1": 0.2653, "G2": 0.1346, "G3 k=8": 0.1017, "G3 k=200": 0.2748, "G4 N=4096": 0.4754, "G4 N=64": 0.0352,
    "G5": 0.9324, "G6": 0.0113, "G7": 0.9077, "G8": 0.0679, "G8 transposed": 0.0679, "G9": 0.0571, "G10": 0.4428,
    "G11": 0.5745, "G12": 0.0423, "G13": 2.3687, "G14": 0.2643, "G15": 1.0542, "G16": 2.3184, "G17": 0.3811,
    "G18": 0.4129, "G19": 0.0689, "G20": 0.1357, "G21": 0.0668, "G22": 0.2643, "G23": 0.2587, "G24": 0.5153,
    "G25 M=1": 0.0362, "G25 M=65536": 112.84, "G25 constants": 0.00272, "G26": 1.5808,
    "G27": 0.5276, "G28": 0.1327,
}  # fmt: skip
ROUNDING = 1.03  # our price adds a twentieth of the shorter of memory and arithmetic; that formula does not

# Rows whose plan costs more than the better one. A test refuses a reason that is no longer needed.
REASONS: Mapping[str, str] = {
    "G18": "pooling is calls of CuPy, whose result is copied to its place",
}


def verdict(id: str, choices: Choices) -> str:
    """Whether a row of the suite gains what was predicted; if not, why. "UNEXPLAINED" where nobody has said."""
    if id not in GRAPHS:
        return ""
    wanted = GRAPHS[id].factor
    if choices.factor * ROUNDING >= wanted:
        return "met"
    if reached(id, choices):
        greedy = choices.ablation("greedy")
        name, took = greedy.extractor.removeprefix("greedy-"), duration(greedy.seconds)
        return f"the better plan ({duration(BETTER[id] / 1e3)}) or one as good; {name} has one of {took}"
    return REASONS.get(id, "UNEXPLAINED")


def reached(id: str, choices: Choices) -> bool:
    """Is the joint plan as cheap as the better one of the suite?"""
    return choices.ablation("joint").seconds * 1e3 <= ROUNDING * BETTER.get(id, 0.0)


def short(id: str, choices: Choices) -> bool:
    """Does a row miss the predicted factor with a plan that costs more than the suite's better one?"""
    return id in GRAPHS and choices.factor * ROUNDING < GRAPHS[id].factor and not reached(id, choices)
