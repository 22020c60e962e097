"""Kernels that compute alike over other extents: one function for all, which gets the integers that differ.

In: the texts of kernels, by name. Out: fewer texts. Next stop: `kernels.py`.
A loop that shrinks, or an update of blocks, makes dozens of kernels whose texts differ in extents and offsets alone;
gcc takes as long for each as for the first. The functions that Python calls stay, one for each kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from eqfuse.emit.c.writer import CHUNK_PARAMETERS, ENTRY_PARAMETERS

# Of type int, and no part of a name or of a float.
_INTEGER = re.compile(r"(?<![\w.])(?<![ep][-+])\d{1,9}(?![\w.])")
# Lines in which integers have to be known: directives, tables, attributes and builtin functions, cases, arrays.
_FIXED = re.compile(r"^.*(?:#|\bstatic\b|__|\bcase\b).*$|^ *\w[\w *]* \w+\[.*\];$", re.MULTILINE)


def with_alike_joined(sources: Mapping[str, str], brief: Collection[str]) -> dict[tuple[str, ...], str]:
    """The text of each kernel by its name, but of those of the `brief` ones that are alike one text, by their names."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, source in sources.items():
        groups.setdefault(_shape(name, source) if name in brief else (name,), []).append(name)
    return {(*names,): _joined(names, sources) if len(names) > 1 else sources[names[0]] for names in groups.values()}


def _head(name: str) -> str:
    return f"static void {name}_chunk({CHUNK_PARAMETERS}) {{\n"


def _parts(name: str, source: str) -> tuple[str, str]:
    """The inside of the function that computes, and the function that Python calls."""
    inside, entry, rest = source.removeprefix(_head(name)).partition(f"void *{name}({ENTRY_PARAMETERS})")
    return inside, entry + rest


def _shape(name: str, source: str) -> tuple[object, ...]:
    """What is the same of kernels that one function can run: all but some integers. A kernel of several functions, or
    of several chunks, is alike to none. Nor is one that adds or multiplies vectors: their order may depend on whether
    gcc knows how many there are, and the bits of a kernel do not depend on the others of its program."""
    inside, entry = _parts(name, source)
    has_one = source.startswith(_head(name)) and "\nstatic " not in inside and f" {name}_chunk(arrays, 0);" in entry
    if not has_one or re.search(r"reduction\([+*]", inside):
        return (name,)
    return _INTEGER.sub("0", _FIXED.sub("", inside)), tuple(_FIXED.findall(inside)), entry.replace(name, "")


def _joined(names: Sequence[str], sources: Mapping[str, str]) -> str:
    """One function for kernels of one shape, and for each the function that Python calls, with the integers that it
    passes on."""
    parts = [_parts(name, sources[name]) for name in names]
    first, (inside, _) = names[0], parts[0]
    columns = list(zip(*[_INTEGER.findall(each) for each, _ in parts], strict=True))
    numbers: dict[tuple[str, ...], str] = {}  # of the integers that differ, in each kernel
    texts = [c[0] if len({*c}) == 1 else numbers.setdefault(c, f"n{len(numbers)}") for c in columns]
    left = iter(texts)
    inside = _INTEGER.sub(lambda _: next(left), inside)
    fetched = "".join([f"    const int {n} = numbers[{i}];\n" for i, n in enumerate(numbers.values())])
    head = _head(first).replace(CHUNK_PARAMETERS, f"{CHUNK_PARAMETERS}, const int *numbers")
    source = f"__attribute__((noinline)) {head}{fetched}{inside}"
    for number, (name, (_, entry)) in enumerate(zip(names, parts, strict=True)):
        own = f"(const int[]){{{', '.join([column[number] for column in numbers])}}}"
        source += entry.replace(f" {name}_chunk(arrays, 0);", f" {first}_chunk(arrays, 0, {own});")
    return source
