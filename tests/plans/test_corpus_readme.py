"""The table of the adversarial suite in benches/corpus/README.md says what the suite's code says."""

from __future__ import annotations

import re
from pathlib import Path

from eqfuse.benches.corpus.controls import CONTROLS
from eqfuse.benches.corpus.suite import GRAPHS

README = Path(__file__).parents[2] / "benches" / "corpus" / "README.md"
ROW = re.compile(r"^\| ([GN]\d+)(?: \(h\))? \| .*?(?: \| (E\*?|R|A) \| ([\d., ]+))? \|$", re.MULTILINE)


def test_every_row_of_the_suite_stands_in_its_table_with_its_class_and_factors() -> None:
    cases = {id: [c for c in GRAPHS.values() if c.id.split()[0] == id] for id in (i.split()[0] for i in GRAPHS)}
    rows = {id: (exactness, factors) for id, exactness, factors in ROW.findall(README.read_text()) if id[0] == "G"}
    assert list(rows) == list(cases)
    for id, (exactness, factors) in rows.items():
        assert {exactness} == {c.exactness for c in cases[id]}, id
        assert sorted(map(float, factors.split(", "))) == sorted(c.factor for c in cases[id]), id


def test_every_control_stands_in_its_table() -> None:
    named = {id for id, *_ in ROW.findall(README.read_text()) if id[0] == "N"}
    assert named == CONTROLS.keys() | {"N6", "N7"}  # these two have no case of their own
