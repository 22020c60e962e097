"""Law usage: the kept table is what the plans say, and is not read for another book."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from eqfuse.benches import laws as bench
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.demo.programs import small_programs
from eqfuse.rewrites import FAMILIES, book, law_usage
from eqfuse.show import lawbook

QUICK = ["G7", "G19", "G25 constants"]
OTHERS = [name for name in [*GRAPHS, *(example.name for example in small_programs())] if name not in QUICK]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law_usage, "_TABLE", tmp_path / "law_usage.json")


@pytest.mark.usefixtures("elsewhere")
def test_a_law_counts_once_for_each_program_that_has_a_plan_resting_on_it() -> None:
    law_usage.keep_usage({"P": {"a": ["double"], "b": ["double", "lerp"]}, "Q": {"a": ["double"], "b": []}})
    counts = law_usage.counts()
    assert counts is not None
    assert (counts["double"], counts["lerp"], counts["times_one"]) == (2, 1, 0)
    assert set(counts) == {law.name for law in book()}


@pytest.mark.usefixtures("elsewhere")
def test_the_table_of_another_book_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    law_usage.keep_usage({"P": {"a": ["double"]}})
    monkeypatch.setattr(law_usage, "book", lambda: book()[1:])
    assert law_usage.counts() is None


@pytest.mark.usefixtures("elsewhere")
def test_the_table_of_laws_has_the_counts_and_says_when_there_are_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    law_usage.keep_usage({"P": {"a": ["double", "lerp"]}})
    family = next(law.family for law in book() if law.name == "double")
    monkeypatch.setattr(lawbook, "FAMILIES", {family: FAMILIES[family]})  # the lines of one are enough
    lawbook.print_laws()
    printed = " ".join(capsys.readouterr().out.split())
    assert f"on {len(book()) - 2} no plan rests; they serve other programs" in printed
    monkeypatch.setattr(law_usage, "book_digest", lambda: "of another book")
    lawbook.print_laws()
    assert "not counted for this book" in " ".join(capsys.readouterr().out.split())


def test_the_kept_table_is_about_laws_and_the_benchmark_programs() -> None:
    table = kept_table()
    names = {law.name for law in book()}
    circumstances = {f"{target}, {numerics}" for target in bench.DEVICES for numerics in bench.NUMERICS}
    assert set(table) == set(bench.programs())
    assert all(set(by_circumstances) == circumstances for by_circumstances in table.values())
    assert {law for by_circumstances in table.values() for laws in by_circumstances.values() for law in laws} <= names


@pytest.mark.parametrize("name", QUICK)
def test_the_kept_table_says_what_a_plan_rests_on(name: str) -> None:
    usage = bench.usage_of(bench.programs()[name])
    assert kept_table()[name] == {circumstances: list(laws) for circumstances, laws in usage.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name, numerics", list(zip(OTHERS[3::4], cycle(bench.NUMERICS), strict=False)))
def test_the_kept_table_says_under_some_numerics_what_a_plan_rests_on(name: str, numerics: str) -> None:
    """Of a quarter of the programs, the numerics taken in turn: a table that is out of date is so in many places."""
    usage = bench.usage_of(bench.programs()[name], [numerics])
    assert usage and all(kept_table()[name][circumstances] == list(laws) for circumstances, laws in usage.items())


def kept_table() -> dict[str, dict[str, list[str]]]:
    table = law_usage.kept_usage()
    assert table is not None, "the book has changed since the table was kept: eqfuse bench laws --keep"
    return table
