"""`eqfuse demo`: three real programs as plain NumPy, with the best greedy fusion, and by eqfuse.

In: the examples of `programs`. Out: a table on the terminal, and the same with drawings as HTML (`html`).
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eqfuse.demo.comparison import HEADINGS, LEGEND, DemoComparison, compare_example
from eqfuse.demo.html import page
from eqfuse.demo.programs import full_size_programs, small_programs
from eqfuse.machine.files import users_file, write_users_file
from eqfuse.show.progress import progress


def demo(html: Path | None = None, quick: bool = False) -> list[DemoComparison]:
    """Run the three programs, print the table, and write the page `html` if asked to."""
    console = Console()
    if html is not None:
        users_file(html)
    comparisons = []
    examples = small_programs() if quick else full_size_programs()
    with progress(len(examples)) as stage:
        for example in examples:
            stage.step(example.name)
            comparisons.append(compare_example(example, lambda step, name=example.name: stage.say(f"{name}: {step}")))  # type: ignore[misc]
    for comparison in comparisons:
        console.print(table(comparison))
    console.print(f"\n{LEGEND}", style="dim", highlight=False)
    if html is not None:
        write_users_file(html, page(comparisons).encode())
        console.print(f"drawings in {html}")
    return comparisons


def table(c: DemoComparison) -> Table:
    """One example; fits a terminal of 80 columns."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, title_justify="left")
    grid.title = Text(f"\n{c.example.name}: {c.example.summary}", style="bold")
    for i, heading in enumerate(HEADINGS):
        grid.add_column(heading, justify="right" if i else "left", no_wrap=True, min_width=0 if i else 20)
    for row in c.rows():
        grid.add_row(*row)
    return grid
