"""NumPy's names over torch's autograd, as far as the programs of `random_differentiable.py` need them.

In: the text of a program. Out: its gradient by torch. `torch._numpy` is what torch.compile reads NumPy programs with;
what it lacks, or has no derivative of, is written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch._numpy as tnp
from torch.autograd.graph import saved_tensors_hooks

from tests.support.random_differentiable import DifferentiableProgram


class _Names:
    """The module `torch._numpy` with `others` first."""

    def __init__(self, module: Any, **others: Any) -> None:
        self.__dict__.update(others)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _scan(f: Any, init: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    rows = range(len(xs))
    ys = {}
    for i in reversed(rows) if reverse else rows:
        init, ys[i] = f(init, xs[i])
    return init, tnp.stack([ys[i] for i in rows])


def _fori_loop(lower: int, upper: int, step: Any, value: Any) -> Any:
    for i in range(lower, upper):
        value = step(i, value)
    return value


def _softmax(x: Any, axis: int) -> Any:
    e = tnp.exp(x - tnp.max(x, axis=axis, keepdims=True))
    return e / tnp.sum(e, axis=axis, keepdims=True)


def _of_tensors(function: Any) -> Any:
    return lambda *args, **options: tnp.ndarray(function(*(tnp.asarray(x).tensor for x in args), **options))


FUNCTIONS = SimpleNamespace(
    softmax=_softmax,
    gelu=_of_tensors(torch.nn.functional.gelu),
    sigmoid=_of_tensors(torch.sigmoid),
    scan=_scan,
    fori_loop=_fori_loop,
    cond=lambda chosen, yes, no, *operands: yes(*operands) if chosen else no(*operands),
)
NUMPY = _Names(tnp)


def torch_value_and_gradient(program: DifferentiableProgram, arguments: Sequence[np.ndarray]) -> tuple[Any, list[Any]]:
    """The number that `program` gives, and its gradient in every argument."""
    leaves = [torch.tensor(x, requires_grad=True) for x in arguments]
    with saved_tensors_hooks(torch.clone, lambda saved: saved):  # what is written to later is kept as it was
        value = program.build(NUMPY, FUNCTIONS)(*(tnp.ndarray(leaf * 1) for leaf in leaves)).tensor
        if not value.requires_grad:
            return value.numpy(), [np.zeros(x.shape) for x in arguments]
        grads = torch.autograd.grad(value, leaves, allow_unused=True)
    gradients = [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(grads, arguments, strict=True)]
    return value.detach().numpy(), gradients
