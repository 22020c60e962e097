"""Compilers that crash, hang, print rubbish or are none: passed over by name, never a wrong object or a crash here."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

import eqfuse as ef
from eqfuse.machine import c_build, c_compiler, c_objects
from eqfuse.machine.c_build import C_FLAGS, WANTED, CompilerError
from eqfuse.machine.c_objects import load_all, loaded_library
from tests.runtime.disturbances import Interrupts
from tests.support.c_kernels import Saxpy, needs_compiler

pytestmark = needs_compiler
REAL = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "")
OUTPUT = 'for last; do case $before in -o) out=$last;; esac; before=$last; done'

# What a script does instead of compiling; `$out` is the file that it should write.
BAD = {
    "crashes": "kill -SEGV $$",
    "refuses all": "echo 'internal compiler error' >&2; exit 1",
    "prints rubbish": "head -c 100000 /dev/urandom; exit 1",
    "prints without end": "yes rubbish",
    "hangs": "sleep 100",
    "hangs after it has closed its output": "exec >&- 2>&-; sleep 100",
    "leaves others at work": "sleep 100 & exit 0",
    "writes nothing": "echo compiled",
    "writes an empty file": ": > $out",
    "writes text": "echo 'not an object' > $out",
    "writes the start of an object": f"{REAL} \"$@\" && head -c 9000 $out > part && mv part $out",
    "writes the head of an object": f"{REAL} \"$@\" && head -c 40 $out > part && mv part $out",
    "writes another object": f"echo 'int other;' > kernel.c; {REAL} \"$@\"",
    "writes a wrong object": f"sed 's/2 \\* x/4 * x/' kernel.c > new.c; mv new.c kernel.c; {REAL} \"$@\"",
    "writes an object that crashes": (
        f"echo 'void start(void) __attribute__((constructor)); void start(void) {{ *(volatile int *)8 = 0; }}'"
        f" >> kernel.c; {REAL} \"$@\""
    ),
    "writes an object that hangs": (
        f"echo 'int pause(void); void start(void) __attribute__((constructor));"
        f" void start(void) {{ for (;;) pause(); }}' >> kernel.c; {REAL} \"$@\""
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a process that has not looked for a compiler."""
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(c_compiler, "_compilers", {})
    monkeypatch.setattr(c_objects, "_loaded", {})
    monkeypatch.setattr(c_compiler, "COMPILER_PATIENCE", 0.7)
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def script(path: Path, body: str) -> Path:
    """A compiler that tells its version, and otherwise does as `body` says."""
    path.parent.mkdir(exist_ok=True)
    version = 'if [ "$1" = --version ]; then echo fake 1.0; exit 0; fi'
    path.write_text(f"#!/bin/sh\n{version}\n{OUTPUT}\n{body}\n")
    path.chmod(0o755)
    return path


def refused(match: str) -> None:
    started = time.monotonic()
    with pytest.raises(ef.TargetUnavailable, match=match) as error:
        loaded_library("int f;")
    assert "pip install 'eqfuse[cc]'" in str(error.value)
    assert re.fullmatch(r"[\n\t -~…]*", str(error.value))
    assert len(str(error.value)) < 8000
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_bad_compiler_is_refused_by_name(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(script(tmp_path / "bin" / "bad", body)))
    refused("there is no C compiler that works.*\n.*bad")


def test_a_bad_cc_is_passed_over_for_a_good_gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin" / "cc", BAD["writes an object that crashes"])
    good = script(tmp_path / "bin" / "gcc", f'{REAL} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert c_compiler.find_compiler().command == (str(good),)
    Saxpy(1).run().check()


ABSENT = {"a name": "no-such-compiler", "a folder": "/", "no program": "/dev/null", "an open quotation": "'gcc"}


@pytest.mark.parametrize("name", ABSENT.values(), ids=ABSENT)
def test_a_cc_that_is_no_program_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", name)
    refused("there is no C compiler that works.*\n.*cannot be run")


def test_a_compiler_may_have_arguments_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{script(tmp_path / 'bin' / 'a compiler', REAL + ' $@')} -DN=3".replace("a c", "a\\ c"))
    assert loaded_library("int n(void) { return N; }").n() == 3


def test_without_any_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(c_compiler, "find_spec", lambda name: None)
    refused("install gcc or clang")


def picky(folder: Path, flag: str) -> Path:
    """A compiler that does not take `flag`, and counts its calls in the file `calls`."""
    body = f'echo >> {folder}/calls; case "$*" in *{flag}*) echo unknown {flag} >&2; exit 1;; esac; {REAL} "$@"'
    return script(folder / "bin" / "picky", body)


@pytest.mark.parametrize("flag", ["-fopenmp-simd", "-march=native", "-mprefer-vector-width=512"])
def test_a_flag_that_a_compiler_does_not_take_is_left_out_and_remembered(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(picky(tmp_path, flag)))
    assert set(c_compiler.find_compiler().flags) == {*C_FLAGS, *WANTED} - {flag}
    calls = (tmp_path / "calls").read_text()
    monkeypatch.setattr(c_compiler, "_compilers", {})
    assert set(c_compiler.find_compiler().flags) == {*C_FLAGS, *WANTED} - {flag}
    assert (tmp_path / "calls").read_text() == calls
    Saxpy(1).run().check()


def test_flags_that_were_kept_are_never_others_than_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c_compiler.find_compiler()
    (path,) = (tmp_path / "cache" / "c").glob("*.flags")
    path.write_bytes(c_compiler.sealed(path.stem, b'["-fplugin=evil.so", "-march=native"]'))
    monkeypatch.setattr(c_compiler, "_compilers", {})
    assert c_compiler.find_compiler().flags == (*C_FLAGS, "-march=native")


def test_a_compiler_without_a_flag_that_results_depend_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(picky(tmp_path, "-ffp-contract=off")))
    refused("unknown -ffp-contract=off")


def test_a_text_is_begun_as_soon_as_another_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when those before it are: here the first waits for the last."""
    waits = f"while [ ! -e {tmp_path}/begun ]; do sleep 0.01; done"
    body = f'if grep -q LAST kernel.c; then : > {tmp_path}/begun; elif grep -q FIRST kernel.c; then {waits}; fi'
    monkeypatch.setattr(c_build, "thread_count", lambda: 2)
    compiler = c_build.Compiler((str(script(tmp_path / "bin" / "slow", f'{body}; {REAL} "$@"')),), "1", seconds=20.0)
    assert len([*compiler.build_all([f"int {name};" for name in ("FIRST", "SECOND", "LAST")])]) == 3


def test_a_text_that_is_no_c_is_an_error_with_the_first_lines() -> None:
    with pytest.raises(CompilerError, match=r"failed \(status 1\): .*kernel.c:1:.*error") as error:
        loaded_library("\n".join(["no C;"] * 100))
    assert len(str(error.value).splitlines()) < 20
    assert loaded_library("int n(void) { return 8; }").n() == 8


def test_an_error_of_one_text_leaves_the_others_to_later_calls() -> None:
    texts = [f"int n(void) {{ return {n}; }}" for n in range(3)]
    with pytest.raises(CompilerError):
        load_all([*texts, "no C"])
    assert [library.n() for library in load_all(texts)] == [0, 1, 2]


LATER: dict[str, tuple[str, str]] = {
    "crashes": ("kill -SEGV $$", "failed .signal 11"),
    "hangs": ("sleep 100", "failed .not done in time"),
    "writes nothing": ("exit 0", "wrote no object"),
    "writes half": (f'{REAL} "$@" && head -c 9000 $out > part && mv part $out', "no whole object"),
    "colours": ("printf '\\033[31mred\\033[0m'; exit 1", "failed .status 1.: ?"),
}


@pytest.mark.parametrize(("body", "match"), LATER.values(), ids=LATER)
def test_a_compiler_that_fails_at_one_text_ends_in_an_error(
    body: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "bin" / "cc", f'if grep -q BAD kernel.c; then {body}; else {REAL} "$@"; fi')
    monkeypatch.setenv("CC", str(path))
    compiler = replace(c_compiler.find_compiler(), seconds=0.7)
    monkeypatch.setattr(c_objects, "find_compiler", lambda: compiler)
    with pytest.raises(CompilerError, match=match) as error:
        loaded_library("int BAD;")
    assert "\x1b" not in str(error.value)
    Saxpy(1).run().check()


def test_a_full_folder_for_temporary_files_gives_way_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    body = f'case $PWD in */full/*) echo "write error: No space left on device" >&2; exit 1;; esac; {REAL} "$@"'
    monkeypatch.setenv("CC", str(script(tmp_path / "bin" / "cc", body)))
    Saxpy(1).run().check()
    assert not [*(tmp_path / "full").iterdir()]


def test_an_interrupt_ends_the_compilers_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f'if grep -q SLOW kernel.c; then echo $$ >> {tmp_path}/running; sleep 100; fi; {REAL} "$@"'
    monkeypatch.setenv("CC", str(script(tmp_path / "bin" / "cc", body)))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    c_compiler.find_compiler()
    finished = []
    Interrupts().during(lambda: finished.append(load_all([f"int SLOW{n};" for n in range(2)])), 0.5, 0, 1)
    assert not finished
    running = (tmp_path / "running").read_text().split()
    assert running
    assert not [pid for pid in running if is_running(int(pid))]
    assert not [*(tmp_path / "temporary").iterdir()]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_that_embeds_python_is_not_started_to_try_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_compiler.sys, "executable", "/bin/false")
    Saxpy(1).run().check()


@pytest.mark.slow
@pytest.mark.parametrize("named", ["", f"{sys.executable} -m ziglang cc"], ids=["found", "in $CC"])
def test_the_compiler_of_the_wheel_ziglang_will_do(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang", reason="the extra `cc` (ziglang) is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", named)
    monkeypatch.setattr(c_compiler, "COMPILER_PATIENCE", 20.0)
    assert c_build.is_zig(c_compiler.find_compiler().command)
    Saxpy(1).run().check()


@pytest.mark.slow
def test_ziglang_will_do_where_nobody_may_write_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang", reason="the extra `cc` (ziglang) is not installed")
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(c_compiler, "COMPILER_PATIENCE", 20.0)
    with pytest.warns(UserWarning, match="not kept across processes"):
        Saxpy(1).run().check()
