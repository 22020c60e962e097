"""Every row of the table of torch's operators gives what torch gives: on cases of its own, and on OpInfo's samples."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

torch = pytest.importorskip("torch", reason="what is tested are torch's operators")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from eqfuse.frontends.torch.nodes import NodeError, graph_of, obstacle  # noqa: E402
from eqfuse.frontends.torch.table import TORCH_OPERATORS  # noqa: E402
from eqfuse.frontends.torch.tensors import array_of_tensor, tensor_of  # noqa: E402
from eqfuse.specialise.torch_backend import _decompositions  # noqa: E402
from tests.frontends.torch_cases import CASES, NAMES, UNWRITTEN  # noqa: E402

pytestmark = pytest.mark.outside


def overload(name: str) -> Any:
    namespace, packet, variant = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), variant)


def captured(function: Any, tensors: list[Any], decomposed: bool) -> Any:
    """The graph of a function of tensors alone."""
    table = _decompositions() if decomposed else None
    traced = make_fx(function, decomposition_table=table, tracing_mode="fake")(*tensors)
    traced.graph.eliminate_dead_code()
    return traced


def of_tensors(function: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """A call as a function of the tensors among its arguments alone, and these."""
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: Any) -> list[Any]:
        filled = list(leaves)
        for i, tensor in zip(places, tensors, strict=True):
            filled[i] = tensor
        args, kwargs = _pytree.tree_unflatten(filled, structure)
        results = _pytree.tree_leaves(function(*args, **kwargs))
        return [result for result in results if isinstance(result, torch.Tensor)]

    return call, [leaves[i].detach() for i in places]


def means_the_same(graph: ef.Graph, tensors: list[Any], wanted: list[Any]) -> None:
    """The graph's results have torch's dtypes and shapes, and its numbers up to rounding."""
    with np.errstate(all="ignore"):
        results = ef.meaning(graph, *map(array_of_tensor, tensors))
    results = results if isinstance(results, tuple) else (results,)
    for result, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(tensor_of(np.array(result)), want.resolve_conj(), equal_nan=True, check_stride=False)


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert {*CASES, *UNWRITTEN} == {*NAMES.values()}


def test_no_row_is_of_an_operator_that_torch_decomposes() -> None:
    assert [name for name in TORCH_OPERATORS if overload(name) in _decompositions()] == []


@pytest.mark.parametrize("name", [name for name in TORCH_OPERATORS if NAMES[name] not in UNWRITTEN])
def test_a_row_gives_what_torch_gives(name: str) -> None:
    for args, kwargs in CASES[NAMES[name]]:
        call, tensors = of_tensors(overload(name), args, kwargs)
        graph = captured(call, tensors, decomposed=False)
        assert name in {str(n.target) for n in graph.graph.nodes}
        means_the_same(graph_of(graph, tensors), tensors, call(*tensors))


UNDETERMINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")


@pytest.fixture(scope="module")
def opinfo() -> Iterator[list[Any]]:
    pytest.importorskip("expecttest", reason="torch's test tables import expecttest")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core

        # else torch looks for a test case of its own around every operator, and reads the source of every frame for it
        for module in (core, common_utils):
            patch.setattr(module, "extract_test_fn", lambda: None)
        patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        yield [op for op in op_db if torch.float32 in op.dtypes and op.name not in UNDETERMINED]


def test_samples_of_opinfo_give_what_torch_gives_or_are_refused(opinfo: list[Any]) -> None:
    """The second sample of each operator, broken down as torch.compile does it."""
    agreeing, wrong = 0, []
    for op in opinfo:
        sample = next(itertools.islice(op.sample_inputs("cpu", torch.float32), 1, None), None)
        if sample is None:
            continue
        call, tensors = of_tensors(op.op, (sample.input, *sample.args), sample.kwargs)
        try:
            wanted = call(*(tensor.clone() for tensor in tensors))
            graph = captured(torch.func.functionalize(call), tensors, decomposed=True)
        except Exception:  # torch itself cannot capture it
            continue
        if any(obstacle(n) for n in graph.graph.nodes if n.op not in ("placeholder", "output")):
            continue
        try:
            means_the_same(graph_of(graph, tensors), tensors, wanted)
            agreeing += 1
        except NodeError as refused:
            if not isinstance(refused.error, ef.EqfuseError):
                wrong.append(f"{op.name}: {refused.error!r}")
        except AssertionError as error:
            wrong.append(f"{op.name}: {error}")
    assert not wrong, "\n".join(wrong)
    assert agreeing > 250
