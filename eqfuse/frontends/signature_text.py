"""How arguments and results nest, as JSON and back: what saved programs and saved spaces hold of a signature.

In: a graph's `Signature`. Out: what JSON holds. A signature that needs code or classes of the user's is refused.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from eqfuse.errors import EqfuseError
from eqfuse.ir.arithmetic import Arithmetic, ScalarOperation
from eqfuse.ir.graph import Signature
from eqfuse.ir.pytree import BOOL_LEAF, LEAF, SCALAR, Static, Structure
from eqfuse.ir.signature import CallSignature, NamedSignature

CONTAINERS = {"tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict}
SCALARS = (str, int, float, bool, type(None))


def write_signature(signature: Signature | None) -> dict[str, Any]:
    """`signature` as what JSON holds. EqfuseError where it is of another class than these two, nests in a user's, or
    draws random numbers."""
    if not isinstance(signature, CallSignature | NamedSignature | None):
        raise EqfuseError(f"a program with a signature of class {type(signature).__name__} cannot be saved")
    return {
        "signature": _call(signature) if isinstance(signature, CallSignature) else None,
        "model": [signature.inputs, signature.outputs] if isinstance(signature, NamedSignature) else None,
    }


def read_signature(data: dict[str, Any]) -> Signature | None:
    """The signature that `write_signature` wrote."""
    names = data["model"]
    return NamedSignature(*map(tuple, names)) if names else _call_from(data["signature"])


def _call(signature: CallSignature) -> dict[str, Any]:
    parameters = signature.parameters
    if signature.draws:
        raise EqfuseError(
            "a program that draws random numbers cannot be saved (a saved program holds no generators): draw outside "
            "the function and pass the numbers"
        )
    return {
        "parameters": None if parameters is None else [
            (p.name, p.kind.name, p.default is not p.empty) for p in parameters.parameters.values()
        ],
        "static": sorted(signature.static),
        "arguments": _structure(signature.arguments),
        "results": _structure(signature.results),
        "sources": signature.sources,
        "written": signature.written,
        "layouts": signature.layouts,
        "apart": signature.apart,
        "steps": signature.arithmetic.steps,
        "inputs": signature.arithmetic.inputs,
    }  # fmt: skip


def _call_from(data: dict[str, Any] | None) -> CallSignature | None:
    if data is None:
        return None
    parameters = None
    if data["parameters"] is not None:
        parameters = inspect.Signature(
            [
                inspect.Parameter(
                    name, getattr(inspect.Parameter, kind), default=None if optional else inspect.Parameter.empty
                )
                for name, kind, optional in data["parameters"]
            ]
        )
    static = frozenset(data["static"])
    sources, written, apart, inputs = (tuple(map(int, data[n])) for n in ("sources", "written", "apart", "inputs"))
    layouts = tuple((int(i), None if s is None else tuple(map(int, s))) for i, s in data["layouts"])
    arguments, results = _tree(data["arguments"]), _tree(data["results"])
    arithmetic = Arithmetic(tuple(_step(*step) for step in data["steps"]), inputs)
    return CallSignature(parameters, static, arguments, results, sources, written, layouts, (), apart, arithmetic)


def _step(op: str, args: Sequence[int], attr: Any, kind: str) -> ScalarOperation:
    return ScalarOperation(str(op), tuple(map(int, args)), tuple(attr) if isinstance(attr, list) else attr, str(kind))


def _structure(s: Structure) -> Any:
    """`s` as JSON: null or what it is given back as for a leaf, [container, keys, children], or ["static", value]."""
    if s.kind is None:
        return s.keys[0] if s.keys else None
    if s.kind is Static and type(s.keys[0]) in SCALARS:
        return ["static", s.keys[0]]
    if s.kind in CONTAINERS.values() and all(type(k) in SCALARS for k in s.keys):
        return [s.kind.__name__, list(s.keys), [_structure(child) for child in s.children]]
    name = getattr(s.kind, "__qualname__", s.kind)
    raise EqfuseError(
        f"arguments or results nested in {name} cannot be saved (a saved program holds no classes): use tuples, lists "
        "and dicts with plain keys"
    )


def _tree(data: Any) -> Structure:
    if data is None or isinstance(data, str):
        return {None: LEAF, "scalar": SCALAR, "bool": BOOL_LEAF}[data]
    if data[0] == "static":
        return Structure.of_keys(Static, (data[1],))
    return Structure.of_keys(CONTAINERS[data[0]], tuple(data[1]), tuple(_tree(child) for child in data[2]))
