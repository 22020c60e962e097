"""Random ONNX models against onnxruntime and the reference evaluator: loaded; compiled; saved and loaded; exported.

A model that fails is printed as a program, made as small as it fails. With EQFUSE_EXPLORE=5 each run draws new ones,
and five times as many when slow.
"""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path

import pytest

from tests.support.drawing import EXPLORING, many

pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
pytest.importorskip("onnxruntime", reason="running ONNX models needs the package onnxruntime")

from eqfuse.frontends.onnx import families as families  # fills the table
from eqfuse.frontends.onnx.table import ONNX_OPERATORS
from tests.frontends.onnx_random.checks import wrong
from tests.frontends.onnx_random.models import random_model
from tests.frontends.onnx_random.reduce import program, reduced
from tests.frontends.onnx_random.table import TABLE as DRAWN

pytestmark = pytest.mark.outside

WAYS = (("reassociate", "all"), ("strict", "none"), ("strict", "all"), ("reassociate", "none"))
START = secrets.randbits(32) if EXPLORING else 0


def judge(seeds: range, folder: Path) -> None:
    for seed in seeds:
        model = random_model((START, seed))
        numerics, laws = WAYS[seed % len(WAYS)]
        check = partial(wrong, folder=folder, numerics=numerics, laws=laws)
        if check(model):
            smaller = reduced(model, check)
            pytest.fail(f"seed {(START, seed)}\n{program(smaller, check(smaller))}")


def test_every_operator_of_onnxs_own_domain_is_drawn() -> None:
    operators = {name for domain, name in ONNX_OPERATORS if not domain}
    assert operators and not operators - DRAWN.keys(), "a row of tests/frontends/onnx_random/ draws each"


@pytest.mark.parametrize("part", range(4))
def test_random_models_are_what_onnxruntime_and_the_reference_make_of_them(part: int, tmp_path: Path) -> None:
    judge(range(2 * part, 2 * part + 2), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_many_random_models_are_what_onnxruntime_and_the_reference_make_of_them(part: int, tmp_path: Path) -> None:
    judge(range(1000 + part, 1000 + part + 3 * many(5), 3), tmp_path)
