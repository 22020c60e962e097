"""The command line: what newcomers type first."""

from __future__ import annotations

import pytest

import eqfuse.calibrate
from eqfuse.cli import main
from eqfuse.errors import EqfuseError


def test_an_unknown_command_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["optimise"])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert all(name in message for name in ("demo", "laws", "calibrate"))


def test_no_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "usage: eqfuse" in capsys.readouterr().err


def test_an_error_is_a_message_and_not_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(quick: bool) -> None:
        raise EqfuseError("no clock here")

    monkeypatch.setattr(eqfuse.calibrate, "calibrate", refuse)
    assert main(["calibrate", "--quick"]) == 2
    assert capsys.readouterr().err.startswith("eqfuse: no clock here")


def test_laws_prints_every_law_under_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    from eqfuse.rewrites import book

    assert main(["laws"]) == 0
    printed = capsys.readouterr().out
    assert all(law.name in printed for law in book())
