"""What CuPy has of what library calls may name, as one version had it: CuPy need not be here to know.

In: nothing. Out: `CUPY_LOOPS` of its ufuncs, `SIGNATURES` of its functions, by name; "special" is cupyx.scipy.special.
The table is written, and compared with an installed CuPy, by `tests.support.cupy_reference`. Next stop: `calls.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAMES_FILE = Path(__file__).with_name("cupy_names.json")
_READ: dict[str, Any] = json.loads(NAMES_FILE.read_text("utf-8"))

VERSION: str = _READ["version"]
CUPY_LOOPS: dict[str, frozenset[str]] = {name: frozenset(types.split()) for name, types in _READ["ufuncs"].items()}
SIGNATURES: dict[str, str] = _READ["functions"]
AT = frozenset(_READ["at"])  # ufuncs with a method `at`
