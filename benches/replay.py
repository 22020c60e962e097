"""Process replay: do two versions of eqfuse choose the same plans and emit the same text?

Run: eqfuse bench replay --save FILE, and in the other version: eqfuse bench replay --against FILE. In: the suite and
its controls, the demo's programs and those of tests/programs, on fixed profiles of a CPU (for NumPy, and for C, which
needs a compiler) and of an A100, strict and by default; the rules of the law book. Out: a file with every plan and
every source; or the first line of each difference, and exit code 1. A change that only moves or renames changes no
kernel, and this shows it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.checkout import checkout_programs
from eqfuse.benches.corpus.controls import CONTROLS
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.cost.profiles import profile
from eqfuse.demo.programs import small_programs
from eqfuse.egraph.rules import compile_law
from eqfuse.emit.c.device import compiled_device
from eqfuse.ir.graph import Graph
from eqfuse.machine.files import write_atomically
from eqfuse.rewrites import book
from eqfuse.show.progress import progress

# fixed, not measured here
DEVICES = {"cpu": profile("cpu"), "c": compiled_device(profile("cpu"), 32), "a100": profile("a100")}
NUMERICS = ("strict", "reassociate")
LONG = ("N6", "N11")  # thousands of operators: minutes, and tests of their own

Texts = dict[str, str]  # by program and circumstances: the plan, then the source


def corpus() -> dict[str, Callable[[], Graph]]:
    """What is replayed: graphs by name, each traced when asked for."""
    graphs: dict[str, Callable[[], Graph]] = {}
    for id, case in {**GRAPHS, **CONTROLS}.items():
        if id not in LONG:
            graphs[f"suite {id}"] = partial(_typed, case)
    for example in small_programs():
        graphs[f"demo {example.name}"] = partial(_called, example.build)
    for program in checkout_programs():
        graphs[f"program {program.name}"] = partial(_program, program)
    return graphs


def _typed(case: Case) -> Graph:
    function, types = case.program(small=False)
    return ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])


def _called(build: Callable[..., tuple]) -> Graph:
    function, arguments = build(np.float32)
    return ef.trace(function, *arguments)


def _program(program: Any) -> Graph:
    positional, named = program.arguments(program.small)
    return ef.trace(program.function, *positional, static_argnames=program.static, **named)


def replay(name: str) -> Texts:
    """Plans and sources of one program; where there is none, the refusal."""
    texts = {}
    graph = corpus()[name]()
    for numerics in NUMERICS:
        space = ef.saturate(graph, numerics=numerics)
        for target, device in DEVICES.items():
            try:
                plan = ef.extract(space, target=device)
                text = f"{plan}\n\n{ef.emit(plan).source()}"
            except ef.EqfuseError as refusal:
                text = f"{type(refusal).__name__}: {refusal}"
            texts[f"{name}, {target}, {numerics}"] = text
    return texts


def rules() -> Texts:
    """The law book as the e-graph reads it."""
    return {f"law {law.name}": "\n".join([str(law), *(rule.text for rule in compile_law(law))]) for law in book()}


def run(names: Sequence[str], workers: int | None) -> Iterator[tuple[str, Texts]]:
    """Every program of `names` in processes of its own; what is slow comes when it is done."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(replay, name): name for name in names}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """One line for each text that is not the same, with the first line that differs."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            yield f"{key}: {'new' if old is None else 'gone'}"
        elif old != new:
            pairs = zip([*old.splitlines(), ""], [*new.splitlines(), ""], strict=False)
            was, now = next(((a, b) for a, b in pairs if a != b), ("", ""))
            yield f"{key}:\n  - {was[:400]}\n  + {now[:400]}"


def write(path: Path, texts: Texts) -> None:
    packed = {key: b85encode(zlib.compress(text.encode())).decode() for key, text in sorted(texts.items())}
    write_atomically(path, json.dumps(packed, indent=0).encode())


def read(path: Path) -> Texts:
    try:
        packed = json.loads(path.read_text())
        return {key: zlib.decompress(b85decode(text)).decode() for key, text in packed.items()}
    except (OSError, ValueError, zlib.error) as error:
        raise ef.EqfuseError(f"{path} holds no replay ({error}): make one with eqfuse bench replay --save") from None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="eqfuse bench replay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep plans and sources")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what was kept; 1 where they differ")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; by default one for each CPU")
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    options = parser.parse_args(arguments)
    before = read(options.against) if options.against else None
    names = [n for n in corpus() if not options.names or any(part in n for part in options.names)]
    texts = {} if options.names else rules()
    with progress(len(names)) as display:
        for name, program_texts in run(names, options.workers):
            texts |= program_texts
            display.ended(name)
    digest = hashlib.blake2b(json.dumps(sorted(texts.items())).encode(), digest_size=8).hexdigest()
    print(f"{len(texts)} texts of {len(names)} programs, digest {digest}")
    if options.save:
        write(options.save, texts)
    if before is None:
        return 0
    if options.names:
        before = {key: text for key, text in before.items() if key.partition(", ")[0] in names}
    differences = list(difference(before, texts))
    print("\n".join(differences) or "the same plans and sources")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
