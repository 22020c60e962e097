"""The wheel holds what the checkout holds: every tracked source file, under its installed name, and no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("eqfuse", "benches", "extract", "rewrites")
SHIPPED = (".py", ".pyi", ".hpp", ".c", "py.typed")


def _tracked() -> list[Path]:
    """The packages' files that git tracks, or would track once added."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES]
    lines = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [Path(line) for line in sorted(set(lines)) if (ROOT / line).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in the wheel, built from a copy so that no build/ is left in the checkout, without touching the network."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in [*_tracked(), *map(Path, ("pyproject.toml", "LICENSE", "README.md", "MANIFEST.in"))]:
        if (ROOT / path).exists():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, source / path)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


def test_the_wheel_holds_exactly_the_tracked_sources(wheel: set[str]) -> None:
    tracked = {
        path.as_posix() if path.parts[0] == "eqfuse" else f"eqfuse/{path.as_posix()}"
        for path in _tracked()
        if path.name.endswith(SHIPPED)
    }
    assert {name for name in wheel if name.endswith(SHIPPED)} == tracked, "pyproject.toml lists the packages"


def test_the_wheel_adds_one_name_to_site_packages(wheel: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"eqfuse"}


def test_the_wheel_is_typed_and_licensed(wheel: set[str]) -> None:
    assert "eqfuse/py.typed" in wheel
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
