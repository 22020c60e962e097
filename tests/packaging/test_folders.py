"""Every folder of the product says on one screen what flows in and out of it, what always holds, how to add to it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.packaging.test_layers import MODULES, ROOT

SCREEN = 60  # lines
LONGER = {  # and why
    "benches/README.md": "tables of what was measured",
    "benches/corpus/README.md": "the table of the adversarial suite",
    "eqfuse/README.md": "the newcomer's page: every folder, and what to touch to add something",
    "eqfuse/emit/c/vector_math/README.md": "the table that `eqfuse bench vector_math` prints",
}
FOLDERS = sorted(Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES.values()).items())
READMES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("eqfuse", "rewrites", "extract", "benches", "tests")
    for path in (ROOT / folder).rglob("README.md")
)


def test_every_folder_of_several_modules_has_a_readme() -> None:
    assert len(FOLDERS) > 40
    assert [folder for folder, modules in FOLDERS if modules > 1 and f"{folder}/README.md" not in READMES] == []


def test_every_module_stands_in_the_readme_of_its_folder() -> None:
    """Files of rows, one for each family, stand there together; benchmarks by their commands."""
    missing = []
    for path in MODULES.values():
        own, folder = path.relative_to(ROOT), path.parent / "README.md"
        if path.stem.startswith("__") or own.parts[0] == "benches" or not folder.exists():
            continue
        if "\nROWS" not in path.read_text() and not re.search(rf"`([\w/]+/)?{path.stem}(\.py)?`", folder.read_text()):
            missing.append(str(own))
    assert missing == []


def test_every_folder_of_tests_stands_in_the_readme_of_tests() -> None:
    text, tests = (ROOT / "tests" / "README.md").read_text(), ROOT / "tests"
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("*/*.py")}
    assert [folder for folder in sorted(folders) if f"`{folder}/`" not in text] == []


@pytest.mark.parametrize("readme", READMES)
def test_a_readme_is_one_screen_and_names_the_tests_that_catch_a_slip(readme: str) -> None:
    text = (ROOT / readme).read_text()
    assert (len(text.splitlines()) > SCREEN) == (readme in LONGER), f"{readme}: {SCREEN} lines, or a reason in LONGER"
    assert "tests/" in text
