"""Elementary functions as C text that compilers vectorise: for the emitter to paste into its programs.

In: names of operators and dtypes. Out: definitions of `static inline float eqf_<name>_f32(float x)` or
`static inline double eqf_<name>_f64(double x)`, and of what they call. The files of this folder hold the text;
README.md says how accurate and how fast each is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources

# How many arguments each function takes. Those that are no operators stand for several.
ARGUMENTS = {
    "exp": 1, "exp2": 1, "expm1": 1, "sigmoid": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "power": 2,
    "sqrt": 1, "rsqrt": 1, "cbrt": 1, "hypot": 2, "erf": 1, "erfc": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2,
    "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
}  # fmt: skip
SUFFIXES = {"float32": "f32", "float64": "f64"}
_DEFINED = re.compile(r"^static (?:inline|const) [\w ]+?\b(eqf_\w+)", re.MULTILINE)
_NAME = re.compile(r"\beqf_\w+")


def symbol(name: str, dtype: str) -> str:
    """What the function of operator `name` is called in C."""
    return f"eqf_{name}_{SUFFIXES[dtype]}"


def definition_text(name: str, dtype: str) -> str | None:
    """The definition of `name` on `dtype`, without what it calls; None where there is none of ours."""
    return _definitions().get(symbol(name, dtype)) if dtype in SUFFIXES else None


def texts(names: Iterable[tuple[str, str]]) -> str:
    """Definitions of these (operator, dtype) and of all they call: each once, in an order that C accepts."""
    definitions = _definitions()
    wanted: dict[str, None] = {}

    def take(name: str) -> None:
        for called in _NAME.findall(definitions[name]):
            if called != name:
                take(called)
        wanted[name] = None

    for name, dtype in names:
        take(symbol(name, dtype))
    return "\n\n".join(definitions[name] for name in wanted) + "\n"


@cache
def _definitions() -> dict[str, str]:
    """The paragraph of each name."""
    paragraphs = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".c"):
            for paragraph in file.read_text().strip().split("\n\n"):
                if defined := _DEFINED.search(paragraph):
                    paragraphs[defined[1]] = paragraph
    return paragraphs
