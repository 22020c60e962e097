"""Random tensor contractions (`opt_einsum.testing.rand_equation`) and every shape of einsum's notation."""

from __future__ import annotations

import numpy as np
import pytest
from opt_einsum.testing import rand_equation

import eqfuse as ef
from eqfuse.ir.evaluate import meaning
from tests.frontends.agreement import agrees
from tests.support.drawing import many


def contraction(seed: int, **sizes: int) -> tuple[str, list[np.ndarray]]:
    equation, shapes = rand_equation(seed=seed, d_max=4, **sizes)
    rng = np.random.default_rng(seed)
    return equation, [rng.standard_normal(shape) for shape in shapes]


def same(got: np.ndarray, equation: str, arrays: list[np.ndarray]) -> None:
    """Against NumPy in longdouble, relative to the sum of absolute terms, which bounds what rounding may do."""
    got = np.asarray(got)
    wanted = np.einsum(equation, *[a.astype(np.longdouble) for a in arrays], optimize=True)
    bound = np.einsum(equation, *[np.abs(a) for a in arrays], optimize=True)
    assert (got.dtype, got.shape) == (arrays[0].dtype, wanted.shape), equation
    assert (np.abs(got - wanted) <= 64 * np.finfo(got.dtype).eps * bound).all(), equation


@pytest.mark.parametrize("operands", range(2, 8))
def test_a_random_contraction_gives_numpys_tensor(operands: int) -> None:
    for seed in range(8):
        sizes = {"n": operands, "regularity": 2 + seed % 2, "n_out": seed % 4}
        equation, arrays = contraction(seed, **sizes, global_dim=seed == 7)
        for dtype in (np.float64, np.float32):
            given = [a.astype(dtype) for a in arrays]
            same(meaning(ef.trace(lambda *xs, e=equation: np.einsum(e, *xs), *given), *given), equation, given)


@pytest.mark.parametrize("operands", (2, 3, 5))
def test_a_compiled_random_contraction_gives_numpys_tensor(operands: int) -> None:
    equation, arrays = contraction(operands, n=operands, regularity=3, n_out=2)
    same(ef.jit(lambda *xs: np.einsum(equation, *xs))(*arrays), equation, arrays)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(many(14)))
def test_many_compiled_random_contractions_give_numpys_tensors(seed: int) -> None:
    equation, arrays = contraction(100 + seed, n=2 + seed % 7, regularity=2 + seed % 3, n_out=seed % 5)
    arrays = [a.astype(np.float32 if seed % 2 else np.float64) for a in arrays]
    same(ef.jit(lambda *xs: np.einsum(equation, *xs))(*arrays), equation, arrays)


NOTATION = {
    "trace": ("ii", (3, 3)),
    "diagonal": ("ii->i", (3, 3)),
    "diagonal of a stack": ("...ii->...i", (2, 3, 3)),
    "diagonal of three axes": ("iii->i", (3, 3, 3)),
    "row sums": ("ij->i", (3, 4)),
    "transpose": ("ba", (3, 4)),
    "implied output in alphabetical order": ("cab", (2, 3, 4)),
    "product": ("ij,jk", (2, 3), (3, 4)),
    "batches by ellipsis": ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    "batches that broadcast": ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)),
    "ellipsis in the middle": ("i...j,j->i...", (2, 3, 4), (4,)),
    "ellipsis summed away": ("...i->...", (2, 3, 4)),
    "outer": ("i,j->ij", (2,), (3,)),
    "extent one against many": ("ij,ij->ij", (1, 3), (2, 3)),
    "all axes": ("ij,ij->", (2, 3), (2, 3)),
    "scalars": (",->", (), ()),
    "three with a shared axis": ("ia,ja,ka->ijk", (2, 4), (3, 4), (2, 4)),
    "no elements": ("ij,jk->ik", (2, 0), (0, 3)),
    "diagonal within a product": ("iij,jk->ik", (2, 2, 3), (3, 4)),
    "spaces": (" ij , jk -> ki ", (2, 3), (3, 4)),
    "capitals before lower case": ("aB,bB", (2, 3), (4, 3)),
}


@pytest.mark.parametrize("dtype", ("int64", "float32", "float64"))
@pytest.mark.parametrize("case", NOTATION)
def test_einsum_notation_means_what_it_means_in_numpy(case: str, dtype: str) -> None:
    equation, *shapes = NOTATION[case]
    rng = np.random.default_rng(0)
    agrees(lambda *xs: np.einsum(equation, *xs), *[rng.integers(-3, 4, shape).astype(dtype) for shape in shapes])


def test_einsum_takes_lists_of_axes_instead_of_letters() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    agrees(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), x, y)
    agrees(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), x, y)
    agrees(lambda a: np.einsum(a, [Ellipsis, 0], [0, Ellipsis]), x)
    agrees(lambda a, b: np.einsum("ij,jk", a, b, optimize="optimal", dtype="float64"), x, y)


@pytest.mark.parametrize("equation", ("ij->ji", "ii->i", "ij", "ijj->ji"))
def test_an_einsum_that_only_arranges_one_array_is_a_view_of_it(equation: str) -> None:
    def program(x):
        np.einsum(equation, x)[..., 0] = 7
        return x

    x = np.arange(9.0 if equation.count("j") < 2 else 18.0).reshape((-1, 3, 3)[equation.count("j") < 2 :])
    agrees(program, x.copy())
