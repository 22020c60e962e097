"""The demo's page: its tables, a chart of memory traffic, and each program drawn before and after, as one HTML file.

In: the `DemoComparison`s of a demo run. Out: HTML text without scripts or outside links.
"""

from __future__ import annotations

from html import escape

from eqfuse.demo.comparison import HEADINGS, LEGEND, DemoComparison
from eqfuse.show.draw import colours, draw_graph, draw_plan
from eqfuse.summary import count, duration, quantity

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1500px; padding: 0 1rem; color: #1d232b }
h2 { margin-top: 3rem } table { border-collapse: collapse } th, td { padding: .25rem .8rem; text-align: right }
th:first-child, td:first-child { text-align: left } tr + tr { border-top: 1px solid #dde1e6 }
tr:last-child { font-weight: 600 } th { font-weight: 500; color: #5b6470 }
.bar { display: grid; grid-template-columns: 16rem 1fr; gap: .2rem .8rem; max-width: 900px }
.bar i { background: #7aa6f9; height: 1.1rem; border-radius: 3px; display: block; min-width: 2px }
.pair { display: grid; grid-template-columns: 2fr 3fr; gap: 2rem; align-items: start }
.pair div { overflow-x: auto } svg { max-width: 100%; height: auto }
.key span { display: inline-block; padding: 0 .6rem; margin-right: .5rem; border-radius: 4px }
"""


def page(comparisons: list[DemoComparison]) -> str:
    """The whole page."""
    key = "".join(f'<span style="background:{c}">{escape(k)}</span>' for k, c in colours().items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>eqfuse demo</title><style>{STYLE}</style>'
        f'<h1>eqfuse demo</h1><p>{escape(LEGEND)}</p><p class="key">{key}</p>'
        f"{''.join(map(_section, comparisons))}</html>\n"
    )


def _section(c: DemoComparison) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in HEADINGS)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in c.rows())
    return (
        f"<h2>{escape(c.example.name)}</h2><p>{escape(c.example.summary)}. Compiled in "
        f"{escape(duration(c.compile_seconds))}.</p><table><tr>{head}</tr>{body}</table>"
        f"<h3>Memory traffic</h3>{_bars(c)}"
        f'<div class="pair"><div><h3>Before: {c.versions[0].kernels} operators that move data</h3>{draw_graph(c.graph)}'
        f"</div><div><h3>After: {count(c.versions[-1].kernels, 'kernel')}</h3>{draw_plan(c.plan)}</div></div>"
    )


def _bars(c: DemoComparison) -> str:
    most = max(v.bytes_moved for v in c.versions) or 1
    rows = (
        f"<span>{escape(v.name)}, {quantity(v.bytes_moved, 'B')}</span>"
        f'<i style="width:{100 * v.bytes_moved / most:.1f}%"></i>'
        for v in c.versions
    )
    return f'<div class="bar">{"".join(rows)}</div>'
