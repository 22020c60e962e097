"""The lines around a block of columns of a softmax that is made block by block.

In: names of buffers and indices, extents. Out: lines of C. Next stop: `writer.py`. Names of buffers, by row: carried0,
carried1: maxima and sums so far; before: the maxima without this block; added: its sums; scale: what the sums before
are multiplied by; alive: does a mask leave anything? By column: nothing: 0 times what is passed over, which is NaN
where that is no finite number, as it is in the sums of a whole row.
"""

from __future__ import annotations

from eqfuse.emit.c.element import braced

C_LOWEST = "-__builtin_inff()"


def begun(rows: str, computed: str, sums: str, masked: bool) -> list[str]:
    """Before the first block. `sums`: the buffer of the second product."""
    return [
        *braced(f"for (long row = 0; row < {rows}; row++)", [f"carried0[row] = {C_LOWEST};", "carried1[row] = 0;"]),
        f"__builtin_memset({sums}, 0, sizeof {sums});",
        *([f"const {computed} zero = 0;", "__builtin_memset(nothing, 0, sizeof nothing);"] if masked else []),
    ]


def passed_over(rows: str, live: str, nothing: list[str]) -> list[str]:
    """Goes on to the next block where a mask leaves nothing of this one."""
    return [
        live,
        "int any = 0;",
        *braced(f"for (long row = 0; row < {rows}; row++)", ["any |= alive[row] != 0;"]),
        *braced("if (!any)", [*nothing, "continue;"]),
    ]


def weighted(rows: str, buffer: tuple[str, int], tops: str, weights: list[str]) -> list[str]:
    """Makes the weights of a block; scales the sums of those before it where a maximum has grown. `buffer`: that of the
    second product, and the elements of its rows."""
    sums, width = buffer
    column = f"for (long column = 0; column < {width}; column++)"
    scaled = braced(column, [f"{sums}[row * {width} + column] *= scale[row];"])
    return [
        f"__builtin_memcpy(before, carried0, {rows} * sizeof *before);",
        tops,
        *weights,
        *braced(
            f"for (long row = 0; row < {rows}; row++)",
            ["carried1[row] = carried1[row] * scale[row] + added[row];", *braced("if (scale[row] != 1)", scaled)],
        ),
    ]


def ended(rows: str, buffer: tuple[str, int], masked: bool) -> list[str]:
    """After the last block. Of a row of -infinity alone, distances from the maximum are NaN, and so are sums."""
    sums, width = buffer
    column = f"for (long column = 0; column < {width}; column++)"
    undefined = ['carried1[row] = __builtin_nanf("");']
    undefined += braced(column, [f"{sums}[row * {width} + column] = carried1[row];"])
    lines = braced(f"if (carried0[row] == {C_LOWEST})", undefined)
    if masked:
        lines += braced(column, [f"{sums}[row * {width} + column] += nothing[column];"])
    return braced(f"for (long row = 0; row < {rows}; row++)", lines)
