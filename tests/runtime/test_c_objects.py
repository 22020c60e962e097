"""C texts become libraries: compiled once, kept across processes, and right whatever happened to what was kept."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest

from eqfuse.machine import c_build, c_compiler, c_objects, cpu
from eqfuse.machine.c_objects import load_all, loaded_library
from tests.support.c_kernels import Saxpy, needs_compiler

pytestmark = needs_compiler
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    compiler = c_compiler.find_compiler()
    monkeypatch.setattr(c_objects, "find_compiler", lambda: compiler)  # tried once for all tests
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "cache"))
    return forgetting(tmp_path / "cache" / "c", monkeypatch)


def forgetting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a process that has loaded nothing."""
    monkeypatch.setattr(c_objects, "_loaded", {})
    c_objects._warn_unwritable.cache_clear()
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled during a test."""
    texts: list[str] = []
    build_all = c_build.Compiler.build_all

    def noted(
        self: c_build.Compiler, more: Sequence[str], *flags: str, quick: Collection[str] = ()
    ) -> Iterator[bytes]:
        texts.extend(more)
        return build_all(self, more, *flags, quick=quick)

    monkeypatch.setattr(c_build.Compiler, "build_all", noted)
    return texts


def number(n: int) -> str:
    return f"int number(void) {{ return {n}; }}"


def only_object(folder: Path) -> Path:
    (path,) = folder.glob("*.object")
    return path


def test_saxpy_is_right() -> None:
    Saxpy(3).run().check()


SQUARES = """void squares(double *restrict a, long n) {
_Pragma("omp simd")
for (long i = 0; i < n; i++) a[i] *= a[i]; }"""
VZEROUPPER = b"\xc5\xf8\x77"


@pytest.mark.skipif(" avx " not in cpu.cpu_features(), reason="an x86 processor with AVX")
@pytest.mark.parametrize("quick", [False, True])
def test_code_for_sse_behind_a_kernel_is_as_fast_as_before_it(quick: bool) -> None:
    """A kernel that uses the upper halves of vector registers clears them."""
    (data,) = c_compiler.find_compiler().build_all([SQUARES], quick=[SQUARES] * quick)
    assert VZEROUPPER in data


def test_a_text_is_compiled_once_and_found_by_later_processes(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded_library(number(1)) is loaded_library(number(1))
    forgetting(folder, monkeypatch)
    assert loaded_library(number(1)).number() == 1
    assert compiled == [number(1)]


def test_texts_are_compiled_side_by_side_and_equal_ones_once(compiled: list[str]) -> None:
    libraries = load_all([number(n) for n in (1, 2, 3, 2, 1)])
    assert [library.number() for library in libraries] == [1, 2, 3, 2, 1]
    assert compiled == [number(n) for n in (1, 2, 3)]
    assert load_all([]) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_longest_text_is_compiled_first_and_objects_come_in_order(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    class Build:
        ended = True

        def __init__(self, command: Sequence[str], text: str, seconds: float) -> None:
            begun.append(text)
            self.text = text

        def result(self) -> bytes:
            return self.text.encode()

        def end(self) -> None: ...

    monkeypatch.setattr(c_build, "_Build", Build)
    monkeypatch.setattr(c_build, "thread_count", lambda: threads)
    compiler = c_build.Compiler(("cc",), "")
    assert [*compiler.build_all(["2.", "1", "3..", "4..."])] == [b"2.", b"1", b"3..", b"4..."]
    assert begun == ["4...", "3..", "2.", "1"]


def test_a_function_is_that_of_its_own_text_whatever_names_the_process_has() -> None:
    assert ctypes.pythonapi.Py_IsInitialized() == 1
    text = "int Py_IsInitialized(void) { return 7; } int f(void) { return Py_IsInitialized(); }"
    assert loaded_library(text).f() == 7
    assert load_all([number(1), number(2)])[1].number() == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "one bit changed": lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
    "longer": lambda data: data + b"\0",
    "foreign": lambda data: b"\x7fELF" * 1000,
    "a bare object": lambda data: data.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_object_is_set_aside_and_made_anew(
    damage: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Saxpy(1)
    path = only_object(folder)
    path.write_bytes(damage(path.read_bytes()))
    forgetting(folder, monkeypatch)
    with pytest.warns(UserWarning, match=r"the compiled kernel .* is damaged .*: moved to .*\.corrupt, made anew"):
        Saxpy(1).run().check()
    forgetting(folder, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Saxpy(1).run().check()


def test_an_object_of_another_name_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_library(number(1))
    first = only_object(folder)
    content = first.read_bytes()
    first.unlink()
    loaded_library(number(2))
    only_object(folder).write_bytes(content)
    forgetting(folder, monkeypatch)
    with pytest.warns(UserWarning, match="damaged"):
        assert loaded_library(number(2)).number() == 2


def test_an_object_of_another_cpu_is_never_loaded(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_library(number(1))
    forgetting(folder, monkeypatch)
    monkeypatch.setattr(c_build, "cpu_features", lambda: cpu.cpu_features() + "flags: avx1024")
    assert loaded_library(number(1)).number() == 1
    assert compiled == [number(1)] * 2


def test_other_flags_make_another_object(compiled: list[str]) -> None:
    text = "int number(void) { return N; }"
    assert (loaded_library(text, "-DN=1").number(), loaded_library(text, "-DN=2").number()) == (1, 2)


def test_the_folder_is_private_even_where_it_was_open_to_all(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    loaded_library(number(1))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert only_object(folder).stat().st_mode & 0o777 == 0o600


def assert_works_without_keeping(folder: Path) -> None:
    with pytest.warns(UserWarning, match="compiled kernels are not kept across processes: .*EQFUSE_CACHE_DIR"):
        Saxpy(1).run().check()
    assert not [*folder.glob("*.object")]


def test_a_folder_that_is_another_users_is_not_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert_works_without_keeping(folder)


def test_an_object_that_another_user_has_put_there_is_not_loaded(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_library(number(1))
    os_fstat = os.fstat
    forgetting(folder, monkeypatch)

    def foreign(descriptor: int) -> os.stat_result:
        fields = [*os_fstat(descriptor)]
        fields[4] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", foreign)
    assert loaded_library(number(1)).number() == 1
    assert compiled == [number(1)] * 2


def test_a_folder_behind_a_link_is_not_trusted(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(parents=True)
    folder.symlink_to(folder.parent / "elsewhere")
    assert_works_without_keeping(folder)


def test_a_cache_that_cannot_be_made_costs_only_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert_works_without_keeping(tmp_path)


def test_a_full_disk_costs_only_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(c_objects, "write_atomically", full)
    assert_works_without_keeping(folder)


def test_without_a_folder_for_temporary_files_others_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    Saxpy(1).run().check()


def test_nothing_is_left_among_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    load_all([number(n) for n in range(3)])
    with pytest.raises(c_build.CompilerError):
        loaded_library("no C")
    assert not [*(tmp_path / "temporary").iterdir()]


def test_the_oldest_objects_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_objects, "OBJECTS_KEPT", 2)
    for n in range(4):
        loaded_library(number(n))
        for path in folder.glob("*.object"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 100))
    assert len([*folder.glob("*.object")]) == 2
    monkeypatch.setattr(c_objects, "OBJECTS_BYTES", 1)
    loaded_library(number(9))
    assert not [*folder.glob("*.object")]


@pytest.mark.slow
def test_processes_may_build_the_same_at_once(folder: Path) -> None:
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "from tests.support.c_kernels import Saxpy\n"
        "for chunks in range(1, 4):\n    Saxpy(chunks).run().check()"
    )
    running = [subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    for process in running:
        assert process.communicate(timeout=PATIENCE)[1] == b""
        assert process.returncode == 0
    only_object(folder)


def test_threads_may_load_the_same_at_once() -> None:
    numbers: list[int] = []
    threads = [threading.Thread(target=lambda: numbers.append(loaded_library(number(5)).number())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert numbers == [5] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_may_compile() -> None:
    loaded_library(number(1))
    child = os.fork()
    if not child:
        os._exit(loaded_library(number(7)).number() if loaded_library(number(1)).number() == 1 else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


DISKS = {
    "nobody may run what lies among temporary files": ("TMPDIR", "noexec", ""),
    "there is no room for temporary files": ("TMPDIR", "size=8k", ""),
    "there is no room in the cache": ("EQFUSE_CACHE_DIR", "size=8k", "No space left on device"),
    "nobody may write to the cache": ("EQFUSE_CACHE_DIR", "ro", "Read-only file system"),
    "nobody may run what lies in the cache": ("EQFUSE_CACHE_DIR", "noexec", ""),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs mounts of its own")
@pytest.mark.parametrize(("variable", "options", "warning"), DISKS.values(), ids=DISKS)
def test_a_kernel_is_right_on_a_bad_disk(variable: str, options: str, warning: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    in_namespace = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} none {disk} && exec "$@"', "sh"]
    if subprocess.run([*in_namespace, "true"], capture_output=True).returncode:
        pytest.skip("only the system's administrator mounts")
    program = "from tests.support.c_kernels import Saxpy; Saxpy(1).run().check()"
    done = subprocess.run(
        [*in_namespace, sys.executable, "-c", program], cwd=ROOT, env=os.environ | {variable: str(disk)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("not kept across processes" in done.stderr) == bool(warning)
    assert warning in done.stderr
