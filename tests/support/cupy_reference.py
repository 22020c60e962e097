"""The table of what CuPy has, read from the installed one. `python -m tests.support.cupy_reference` writes it anew.

In: an installed CuPy (no GPU is needed). Out: what `eqfuse.emit.cuda.scheduling.cupy_names.json` holds.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from typing import Any

from eqfuse.emit.cuda import calls, library
from eqfuse.emit.cuda.scheduling import cupy_names, host

_NAMED = re.compile(r"\b((?:cupy|special)(?:\.\w+)+)")
# NumPy's functions that meanings written for both call, and that CuPy's arrays pass on
DISPATCHED = ("cupy.pad", "cupy.lib.stride_tricks.sliding_window_view", "cupy.moveaxis", "cupy.concatenate",
              "cupy.empty_like")  # fmt: skip


def named() -> tuple[set[str], set[str]]:
    """The ufuncs and the functions of CuPy that a program may name."""
    ufuncs = set(host.UFUNC_NAMES.values())
    texts = [*calls.CUPY_CALLS.values(), inspect.getsource(library)]
    functions = {name.removesuffix(".at") for text in texts for name in _NAMED.findall(text)}
    return ufuncs, {*functions, *DISPATCHED} - ufuncs


def read() -> dict[str, Any]:
    """The table of the CuPy that is installed here. ImportError where none is."""
    import cupy

    special = importlib.import_module("cupyx.scipy.special")
    roots = {"cupy": cupy, "special": special}
    ufuncs, functions = named()
    objects = {name: f for name in sorted(ufuncs) if (f := _get(roots, name)) is not None}
    present = {name: f for name in sorted(functions) if callable(f := _get(roots, name))}
    return {
        "version": cupy.__version__,
        "ufuncs": {name: " ".join(f.types) for name, f in objects.items()},
        "at": [name for name, f in objects.items() if f._scatter_op],
        "functions": {name: _signature(f) for name, f in present.items()},
    }


def _get(roots: dict[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    member = roots[first]
    for part in rest:
        member = getattr(member, part, None)
    return member


def _signature(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
        plain = [p.replace(annotation=p.empty, default=p.default if p.default is p.empty else None) for p in parameters]
        return str(inspect.Signature(plain))
    except (TypeError, ValueError):  # a class, or compiled code that does not say
        return "(*args, **kwargs)"


def main() -> None:
    cupy_names.NAMES_FILE.write_text(json.dumps(read(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
