"""The command line: what newcomers type first."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from eqfuse import rewrites
from eqfuse.cli import BENCHES, main
from eqfuse.cost.profiles import profile
from eqfuse.emit import cuda
from eqfuse.emit.cuda import calibrate as cuda_calibrate
from eqfuse.emit.numpy import calibrate
from eqfuse.errors import EqfuseError
from eqfuse.machine import c_compiler
from eqfuse.machine import gpu as machine_gpu
from eqfuse.machine.c_build import Compiler
from eqfuse.rewrites.checking import checked
from eqfuse.show import lawbook
from eqfuse.testing.emulated_gpu import EmulatedGpu


def test_an_unknown_command_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["optimise"])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert all(name in message for name in ("demo", "laws", "calibrate"))


def test_bench_without_a_name_lists_the_benchmarks_which_have_their_own_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    helps = [(["bench", name, "--help"], 0, f"usage: eqfuse bench {name} ") for name in BENCHES]
    for arguments, code, told in ((["bench"], 2, "greedy,speed,cpu"), *helps):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == code
        printed = capsys.readouterr()
        assert told in printed.out + printed.err


def test_every_benchmark_is_a_command_and_stands_in_the_readme() -> None:
    folder = Path(__file__).parents[2] / "benches"
    modules = {p.stem for p in folder.glob("*.py") if "\ndef main(" in p.read_text()}
    assert modules == set(BENCHES), "modules of benches/ with a function `main`, and BENCHES of eqfuse/cli.py"
    rows = (folder / "README.md").read_text()
    assert not [name for name in BENCHES if f"| `eqfuse bench {name}" not in rows], "no row in benches/README.md"


@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_says_where_it_is(name: str) -> None:
    assert "with progress(" in (Path(__file__).parents[2] / "benches" / f"{name}.py").read_text()


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

    monkeypatch.setattr(calibrate, "calibrate", refuse)
    assert main(["calibrate", "--quick"]) == 2
    assert capsys.readouterr().err.startswith("eqfuse: no clock here")


def test_a_page_that_cannot_be_written_is_refused_before_the_demo_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--html", str(tmp_path / "none" / "page.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"eqfuse: there is no folder {tmp_path / 'none'} to write page.html into"


def test_calibrate_tries_the_c_compiler_and_says_which_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "calibrate", lambda quick: calibrate.this_cpu())
    gcc = Compiler(("/bin/cc", "-m64"), "")
    for compiler, said in ((gcc, "C compiler: /bin/cc -m64"), ("install gcc", "install gcc")):
        monkeypatch.setattr(c_compiler, "_search", lambda compiler=compiler: compiler)
        monkeypatch.setattr(c_compiler, "_compilers", {})
        assert main(["calibrate", "--quick"]) == 0
        assert said in capsys.readouterr().out


def test_calibrate_measures_products_of_a_gpu_that_may_multiply_by_wgmma(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "calibrate", lambda quick: calibrate.this_cpu())
    monkeypatch.setattr(cuda_calibrate, "_seconds", lambda gpu, trial, times: 1e-3)
    monkeypatch.setattr(machine_gpu, "cupy_gpu", EmulatedGpu)
    for name, measures in (("h200", True), ("a100", False)):
        monkeypatch.setattr(cuda, "recognised_profile", lambda name=name: profile(name))
        assert main(["calibrate", "--quick"]) == 0
        assert ("of our own by wgmma: float16 " in capsys.readouterr().out) == measures
    assert cuda_calibrate.calibrated(profile("h200")).wgmma_flops


@pytest.mark.slow
def test_laws_prints_every_law_under_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    from eqfuse.rewrites import book

    assert main(["laws"]) == 0
    printed = capsys.readouterr().out
    assert all(law.name in printed for law in book())


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


@pytest.fixture
def unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))


@pytest.mark.slow
def test_a_checked_law_is_shown_as_such(capsys: pytest.CaptureFixture[str], unchecked: None) -> None:
    assert "not checked: eqfuse laws check cast_of_widened" in run(capsys, "laws", "cast_of_widened")[1]
    code, printed = run(capsys, "laws", "check", "cast_of_widened")
    assert code == 0
    assert "cast_of_widened: cast(cast(x, d), e) -> cast(x, e)" in printed
    assert "1 law checked in" in printed and "1 hold (0 of them proved over the reals)" in printed
    (line,) = [line for line in run(capsys, "laws")[1].splitlines() if "cast_of_widened" in line]
    assert line.split()[:3] == ["casts", "exact", "holds"] and "cast_of_widened: cast(cast(x, d), e)" in line
    assert line.rstrip().endswith("when d holds every x, and e what d rounds to integers")
    shown = run(capsys, "laws", "cast_of_widened")[1]
    assert "guard d holds every x, and e what d rounds to integers: needed" in shown
    assert "EXACT; over complex numbers EXACT" in shown


def test_a_false_law_is_printed_with_its_counterexample_and_the_exit_code_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    (times_one,) = rewrites.laws_named("times_one")
    false = replace(times_one, rhs=times_one.lhs + 1.0, grows=True)
    monkeypatch.setattr(checked, "book", lambda: (false,))
    code, printed = run(capsys, "laws", "check", "times_one")
    assert code == 1
    assert "is false:\n  x = float64[] 0.0\n  left side  0.0\n  right side 1.0" in printed
    assert "1 law checked" in printed and "1 false" in printed


@pytest.mark.slow
def test_a_refuted_law_that_turns_out_true_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    assert run(capsys, "laws", "check", "exp_of_sum")[0] == 0
    assert "tempting and false: x = y = 0" in run(capsys, "laws", "exp_of_sum")[1]
    (times_one,) = rewrites.laws_named("times_one")
    monkeypatch.setattr(checked, "REFUTED", [(replace(times_one, name="true"), "it was thought false")])
    code, printed = run(capsys, "laws", "check", "true")
    assert code == 1 and "it stands among the refuted laws" in printed


def test_an_unknown_law_is_an_error_that_names_the_families(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["laws", "csts"], ["laws", "check", "csts"]):
        assert main(arguments) == 2
        assert "no law or family is named 'csts'; families: algebra" in capsys.readouterr().err


@pytest.mark.slow
def test_without_names_the_book_is_checked_and_every_refuted_law_is_refuted_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unchecked: None
) -> None:
    laws, refuted = rewrites.book()[::300], checked.REFUTED[::20]  # .ci/run checks them all
    monkeypatch.setattr(checked, "book", lambda: laws)
    monkeypatch.setattr(checked, "REFUTED", refuted)
    monkeypatch.setattr(lawbook, "book", lambda: laws)
    code, printed = run(capsys, "laws", "check")
    assert code == 0, printed
    assert f"{len(laws) + len(refuted)} laws checked in" in printed and f"{len(refuted)} refuted as before" in printed
    table = run(capsys, "laws")[1].splitlines()
    assert sum(line.split()[2:3] in (["holds"], ["proved"]) for line in table) == len(laws)


@pytest.mark.slow
def test_a_command_runs_where_its_output_is_closed() -> None:
    for streams in (">&-", "2>&-"):
        command = f"{sys.executable} -m eqfuse laws algebra {streams}"
        assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
