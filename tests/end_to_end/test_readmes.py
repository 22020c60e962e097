"""The code in READMEs and examples runs, in order, and prints what stands below it."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
OF_THIS_MACHINE = ("predicted", "plan priced")  # words of outputs that differ from machine to machine
MARK = "---- end of block"
TEXTS = ["README.md", "rewrites/README.md", "rewrites/example.md", "eqfuse/kinds/example.md"]


@pytest.mark.slow
@pytest.mark.parametrize("readme", TEXTS)
def test_every_block_of_python_runs_and_prints_what_is_shown(readme: str, tmp_path: Path) -> None:
    text = (ROOT / readme).read_text()
    blocks = [block for block in BLOCK.findall(text) if _installed(block[0])]
    assert blocks
    script = tmp_path / "blocks.py"
    script.write_text("".join(f"{code}\nprint({MARK!r})\n" for code, _ in blocks))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for (code, shown), printed in zip(blocks, done.stdout.split(f"{MARK}\n"), strict=False):
        if shown and not any(word in shown for word in OF_THIS_MACHINE):
            assert _alike(shown, printed), f"{code}\nprints\n{printed}\nand not\n{shown}"


def _installed(code: str) -> bool:
    """Are the extras here that `code` imports?"""
    return all(find_spec(extra) for extra in ("onnx", "torch") if f"import {extra}" in code)


def _alike(shown: str, printed: str) -> bool:
    """The same words, and numbers that are the same up to rounding."""
    pairs = list(zip(shown.split(), printed.split(), strict=False))
    return len(shown.split()) == len(printed.split()) and all(a == b or _close(a, b) for a, b in pairs)


def _close(a: str, b: str) -> bool:
    numbers = [re.search(r"-?\d+\.\d+(e-?\d+)?", word) for word in (a, b)]
    if None in numbers:
        return False
    first, second = (float(m.group()) for m in numbers if m)
    return math.isclose(first, second, rel_tol=1e-6)
