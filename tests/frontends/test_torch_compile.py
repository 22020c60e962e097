"""torch.compile with our backend gives what eager torch gives: results, gradients, changes in place, shared memory."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import eqfuse as ef
from eqfuse.errors import OptionError

torch = pytest.importorskip("torch", reason="what is tested is a backend of torch.compile")

import tomllib  # noqa: E402

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.outside


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class CausalModel(nn.Module):
    """One block of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.into = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.out, self.head, self.drop = nn.Linear(8, 8), nn.Linear(8, 11), nn.Dropout(0.3)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        q, k, v = self.into(self.norm(x)).view(*tokens.shape, 3, 2, 4).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return self.head(self.drop(x + self.out(attended)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: Any) -> Any:
        h = c = torch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return h


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.mask = nn.Transformer.generate_square_subsequent_mask(5)

    def forward(self, x: Any) -> Any:
        return self.layer(x, self.mask)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "perceptron": (perceptron, lambda: torch.randn(6, 8)),
    "convolution": (convolutional, lambda: torch.randn(2, 3, 8, 8)),
    "encoder with a mask": (Encoder, lambda: torch.randn(2, 5, 8)),
    "LSTM cell": (Recurrent, lambda: torch.randn(2, 2, 3)),
    "language model with dropout": (CausalModel, lambda: torch.randint(0, 11, (2, 6))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_as_in_eager_mode(name: str) -> None:
    """Losses of three steps, parameters and buffers after them; dropout draws the same numbers."""
    make, draw = MODELS[name]
    eager = make()
    ours = copy.deepcopy(eager)
    inputs = [draw() for _ in range(3)]

    def losses(model: Any, call: Callable[..., Any]) -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        trajectory = []
        for x in inputs:
            y = call(x).flatten(0, -2)
            loss = F.cross_entropy(y, torch.arange(len(y)) % y.shape[-1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trajectory.append(loss.item())
        return trajectory

    wanted = losses(eager, eager)
    assert losses(ours, torch.compile(ours, backend=ef.torch_backend())) == pytest.approx(wanted, rel=1e-5)
    for (title, value), other in zip(ours.state_dict().items(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=lambda text, title=title: f"{title}: {text}")


def test_inference_is_one_program_and_its_results_share_no_memory() -> None:
    backend, model = ef.torch_backend(), perceptron().eval()
    compiled = torch.compile(model, backend=backend)
    x = torch.randn(6, 8)
    with torch.no_grad():
        first = compiled(x)
        kept = first.clone()
        first.add_(1)
        torch.testing.assert_close(compiled(x), kept, rtol=0, atol=0)
        torch.testing.assert_close(kept, model(x))
    assert len(backend.programs) == 1 and not backend.left_to_torch
    assert "1 program(s)" in repr(backend)


def test_a_batch_of_any_size_is_computed_by_a_program_for_it() -> None:
    model = perceptron()
    compiled = torch.compile(model, backend=ef.torch_backend(), dynamic=True)
    for n in (3, 5, 1, 3):
        x = torch.randn(n, 8, requires_grad=True)
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(*(torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, model)))


def test_changes_in_place_and_views_are_those_of_eager_mode() -> None:
    def changed(x: Any, table: Any) -> Any:
        x.add_(1)
        table[:, 1:3].mul_(2)
        return x.T, table[0], x.view(-1), x * 2, x.expand(2, 3, 4)

    eager, ours = ([torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)] for _ in range(2))
    wanted, results = changed(*eager), torch.compile(changed, backend=ef.torch_backend())(*ours)
    for result, want in zip((*results, *ours), (*wanted, *eager), strict=True):
        torch.testing.assert_close(result, want, rtol=0, atol=0)
        assert result.stride() == want.stride()
    results[0].zero_()
    assert not ours[0].any() and not results[2].any() and results[3].any()


def test_a_graph_break_on_a_value_leaves_two_programs() -> None:
    def branching(x: Any) -> Any:
        y = x.sin() + 1
        return y * 2 if y.sum() > 0 else y * 3

    backend, x = ef.torch_backend(), torch.randn(5)
    torch.testing.assert_close(torch.compile(branching, backend=backend)(x), branching(x))
    assert len(backend.programs) == 2


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "complex64", "int64", "bool"])
def test_tensors_of_each_dtype_go_in_and_out(dtype: str) -> None:
    def shuffled(x: Any, s: Any) -> Any:
        return torch.where(x != 0, x + s, x).T, x[1:0], x.sum(0), s

    x = torch.arange(24.0).reshape(4, 6)[:, ::2].to(getattr(torch, dtype))
    s = torch.tensor(3).to(x.dtype)
    results = torch.compile(shuffled, backend=ef.torch_backend())(x, s)
    for result, want in zip(results, shuffled(x, s), strict=True):
        torch.testing.assert_close(result, want)


def test_what_has_no_row_is_run_by_torch_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def special(x: Any) -> Any:
        return torch.special.polygamma(1, x * 2) + 1

    x, backend = torch.rand(3) + 1, ef.torch_backend()
    lines: list[str] = []
    monkeypatch.setattr(logging.getLogger("eqfuse"), "warning", lambda text, *args: lines.append(text % args))
    torch.testing.assert_close(torch.compile(special, backend=backend)(x), special(x))
    assert len(lines) == 1 and "aten.polygamma" in lines[0]
    (left,) = backend.left_to_torch
    assert left.operator == "aten.polygamma.default" and "polygamma(1, x * 2)" in left.place
    assert "polygamma" in repr(backend) and len(backend.programs) == 2


def test_a_case_that_a_row_refuses_is_run_by_torch() -> None:
    backend, x = ef.torch_backend(), torch.randn(1, 1, 5, 5)
    compiled = torch.compile(lambda x: F.adaptive_avg_pool2d(x * 2, 3) + 1, backend=backend)
    torch.testing.assert_close(compiled(x), F.adaptive_avg_pool2d(x * 2, 3) + 1)
    assert [left.reason for left in backend.left_to_torch] == ["windows of several sizes"]


def test_without_fallback_it_is_an_error_with_the_users_line() -> None:
    compiled = torch.compile(lambda x: torch.special.polygamma(1, x), backend=ef.torch_backend(fallback=False))
    with pytest.raises(ef.UnsupportedOp, match=r"aten\.polygamma.*test_torch_compile"):
        compiled(torch.rand(3))


def test_options_of_torch_compile_are_those_of_ef_compile() -> None:
    x, backend = torch.rand(3), ef.torch_backend()
    torch.compile(torch.sin, backend=backend, options={"target": "numpy"})(x)
    assert backend.programs[0].plan.device.name != ef.compile(ef.trace(abs, ef.spec(3)), target="c").plan.device.name
    with pytest.raises(ef.TargetUnavailable, match="no target"):
        torch.compile(torch.cos, backend=ef.torch_backend(target="abacus"))(x)


def test_the_name_is_registered_with_torch() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    group = "torch_dynamo_backends"
    ((name, home),) = project["entry-points"][group].items()
    torch._dynamo.register_backend(EntryPoint(name, home, group).load(), name=name)
    torch.testing.assert_close(torch.compile(torch.sin, backend="eqfuse")(torch.ones(3)), torch.ones(3).sin())


def test_a_tensor_made_within_the_function_is_a_constant_of_it() -> None:
    compiled = torch.compile(lambda x: x + torch.tensor([1.0, 2.0, 3.0]), backend=ef.torch_backend())
    torch.testing.assert_close(compiled(torch.ones(3)), torch.tensor([2.0, 3.0, 4.0]))


def test_a_mode_that_torch_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="mode='fastest' is none of"):
        ef.torch_backend()(None, [], mode="fastest")
