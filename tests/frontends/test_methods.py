"""Every method and attribute of NumPy's arrays does in a trace what it does in NumPy, or is refused by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.tracer import Tracer
from tests.frontends.agreement import agrees
from tests.frontends.numpy_cases import Case


def changed(change: Case) -> Case:
    """What `change` leaves in the array, and gives."""
    return lambda x: (change(x), x)[::-1]


def advanced(flat: Any) -> Any:
    """What an iterator over elements gives that has come some way, and begins anew where an item is taken."""
    first, second, index, place = next(flat), next(flat), flat.index, flat.coords
    item = flat[3]
    return np.stack([first, second, index + item, place[0] + 2 * place[-1] + item, *flat])


MASK = np.array([True, False, True])
METHODS: dict[str, tuple[Case, ...]] = {
    "T": (lambda x: x.T,), "mT": (lambda x: x.mT,), "real": (lambda x: x.real,), "imag": (lambda x: x.imag,),
    "shape": (lambda x: x.shape,), "ndim": (lambda x: x.ndim,), "size": (lambda x: x.size,),
    "dtype": (lambda x: x.dtype,), "itemsize": (lambda x: x.itemsize,), "nbytes": (lambda x: x.nbytes,),
    "device": (lambda x: x * (x.device == "cpu"),), "to_device": (lambda x: x.to_device("cpu"),),
    "flat": (
        lambda x: x.flat[3], lambda x: x.flat[1:4], lambda x: x.flat[[0, -1]], lambda x: x.flat.copy(),
        lambda x: sum(v * sum(place) for place, v in np.ndenumerate(x.T)), lambda x: advanced(x.T.flat),
        lambda x: sum(x.flat), lambda x: len(x.flat), lambda x: np.stack(list(x.T.flat)), lambda x: x.T.flat[::2],
        changed(lambda x: x.flat.__setitem__(slice(1, 5), [7, 8])), changed(lambda x: setattr(x, "flat", [1, 2, 3])),
        changed(lambda x: x.T.flat.__setitem__(2, 9)), changed(lambda x: x.flat.__setitem__([0, 3], x[0, :2] + 0)),
    ),
    "all": (lambda x: x.all(), lambda x: x.all(0)), "any": (lambda x: x.any(), lambda x: x.any(-1, keepdims=True)),
    "argmax": (lambda x: x.argmax(), lambda x: x.argmax(1)), "argmin": (lambda x: x.argmin(), lambda x: x.argmin(0)),
    "argpartition": (lambda x: np.sort(np.take_along_axis(x, x.argpartition(1, 1), 1)[:, :1]),),
    "argsort": (lambda x: x.argsort(), lambda x: x.argsort(0, kind="stable")),
    "astype": (lambda x: x.astype("f4"), lambda x: x.astype(np.int64, copy=False)),
    "choose": (lambda x: (abs(x).astype(int) % 2).choose([x, 5]),
    lambda x: np.array([1, 0, 1, 0]).choose([x[0], x[1]])),
    "clip": (lambda x: x.clip(0, 1), lambda x: x.clip(max=1)),
    "compress": (lambda x: x.compress(MASK, 0), lambda x: x.compress([False, True])),
    "conj": (lambda x: x.conj(),), "conjugate": (lambda x: x.conjugate(),), "copy": (lambda x: x.copy("F"),),
    "cumprod": (lambda x: x.cumprod(), lambda x: x.cumprod(0)), "cumsum": (lambda x: x.cumsum(), lambda x: x.cumsum(1)),
    "diagonal": (lambda x: x.diagonal(), lambda x: x.diagonal(1)), "dot": (lambda x: x.dot(x.T), lambda x: x.dot(2)),
    "fill": (changed(lambda x: x.fill(3)), changed(lambda x: x[0].fill(x[1, 1]))),
    "flatten": (lambda x: x.flatten(), lambda x: x.flatten("F")), "item": (lambda x: np.arange(4).item(2) + x,),
    "max": (lambda x: x.max(), lambda x: x.max(0)), "mean": (lambda x: x.mean(), lambda x: x.mean((0, 1))),
    "min": (lambda x: x.min(), lambda x: x.min(1, initial=0)), "nonzero": (lambda x: np.arange(3).nonzero(),),
    "partition": (changed(lambda x: x.partition(1)), changed(lambda x: x.T.partition(1, axis=0))),
    "prod": (lambda x: x.prod(), lambda x: x.prod(0, dtype="f8")),
    "put": (changed(lambda x: x.put([0, -1], [3, 4])), changed(lambda x: x.put([9, 99], 1, mode="clip"))),
    "flags": (lambda x: x * x.flags.c_contiguous + x.T.flags.f_contiguous, lambda x: x[:, 0] * x[:, 0].flags.forc),
    "ravel": (lambda x: x.ravel(), lambda x: x.ravel("F"), lambda x: x.ravel(order="K")),
    "repeat": (lambda x: x.repeat(2), lambda x: x.repeat([1, 2, 0], 0)),
    "reshape": (lambda x: x.reshape(4, 3), lambda x: x.reshape((2, -1), order="F"), lambda x: x.reshape(-1)),
    "round": (lambda x: x.round(), lambda x: (x / 3).round(2)),
    "searchsorted": (lambda x: np.arange(4.0).searchsorted(x), lambda x: np.sort(x[0]).searchsorted(1, side="right")),
    "sort": (changed(lambda x: x.sort()), changed(lambda x: x.sort(0)), changed(lambda x: x[:, 0].sort())),
    "squeeze": (lambda x: x[None].squeeze(), lambda x: x[:1].squeeze(0)),
    "std": (lambda x: x.std(), lambda x: x.std(0, ddof=1)), "sum": (lambda x: x.sum(), lambda x: x.sum(1, "f8")),
    "swapaxes": (lambda x: x.swapaxes(0, 1),), "take": (lambda x: x.take([0, 2]), lambda x: x.take([1, 0], 1)),
    "tobytes": (lambda x: x + len(np.arange(3).tobytes()),), "tolist": (lambda x: x * np.arange(4).tolist(),),
    "trace": (lambda x: x.trace(), lambda x: x.trace(1)),
    "transpose": (
        lambda x: x.transpose(), lambda x: x.transpose(1, 0), lambda x: x.transpose((0, 1)),
        lambda x: x[0].transpose(0),
    ),
    "var": (lambda x: x.var(), lambda x: x.var(0)), "view": (lambda x: x.view(), lambda x: x.view(x.dtype)),
    "__contains__": (lambda x: x * (2 in np.arange(3)) + (5 in np.arange(3)),),
    "__copy__": (lambda x: x.__copy__(),), "__divmod__": (lambda x: divmod(x, 2), lambda x: divmod(7, x * x + 1)),
    "__len__": (lambda x: len(x),), "__iter__": (lambda x: [row + 1 for row in x],),
    "__imatmul__": (lambda x: x[:3, :3].__imatmul__(np.eye(3, dtype=x.dtype)),),
}  # fmt: skip
REFUSED = (
    "base", "ctypes", "data", "strides", "byteswap", "getfield", "setfield", "resize", "setflags", "dump", "dumps",
    "tofile",
)  # fmt: skip
X = np.array([[-1.5, 2, 1, 0.5], [2, 0.5, -2, 3], [1, -0.5, 0, 1]])


@pytest.mark.parametrize("name", [name for name in dir(np.ndarray) if not name.startswith("_")])
def test_every_method_has_a_case_or_is_refused_by_its_name(name: str) -> None:
    assert (name in METHODS) != (name in REFUSED)
    if name in REFUSED:
        with pytest.raises(ef.UnsupportedOp, match=rf"ndarray\.{name} cannot be traced"):
            ef.trace(lambda x: getattr(x, name), X)


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool", "complex64"])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_what_it_does_in_numpy(name: str, dtype: str) -> None:
    for case in METHODS[name]:
        agrees(lambda x, case=case: case(x + x.dtype.type(0)), X.astype(dtype))  # of an array that it may change


def test_every_operator_of_arrays_is_one_of_traced_arrays() -> None:
    other = {"__array_finalize__", "__array_interface__", "__array_struct__", "__array_wrap__", "__class_getitem__"}
    missing = {name for name in dir(np.ndarray) if name.startswith("__")} - set(dir(Tracer))
    assert missing == other | {"__delitem__", "__setstate__"}


def test_methods_of_another_argument_than_self_agree() -> None:
    """The method takes its arguments in another order than the function does."""

    def both(x: Any) -> Any:
        return x.compress([True, False, True], axis=0), x.compress(condition=[True, True], axis=1)

    agrees(both, X)
