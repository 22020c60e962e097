"""The command line: `eqfuse demo`, `optimize MODEL`, `laws [check] [NAME …]`, `calibrate`, `bench NAME …`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from eqfuse.errors import EqfuseError, TargetUnavailable

BENCHES = (
    "greedy", "speed", "cpu", "cuda", "compile", "laws", "kernels", "programs", "memory", "scale", "loops", "written",
    "replay", "vector_math", "operators", "training",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 when a law failed its check, or 2 after an error."""
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
        if sys.stdout is not None:  # closed
            sys.stdout.flush()
        return code
    except EqfuseError as error:
        said = str(error).removesuffix(f"\n  at {error.where}")  # which is where the command begins
        print(f"eqfuse: {said}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough: `eqfuse laws | head`
        _print_no_more()
        return 0
    except OSError as error:
        print(f"eqfuse: {error}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # a full disk, where what is printed goes
            _print_no_more()
        return 2


def _print_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="eqfuse", description="Fewer, cheaper kernels for array programs.")
    commands = parser.add_subparsers(required=True, metavar="command", title="commands")

    demo = commands.add_parser("demo", help="three real programs: plain NumPy, greedy fusion, eqfuse")
    demo.add_argument("--html", type=Path, metavar="FILE", help="write the tables and drawings of the graphs to FILE")
    demo.add_argument("--quick", action="store_true", help="small sizes: a few seconds")
    demo.set_defaults(run=_demo)

    optimize = commands.add_parser(
        "optimize", help="fuse an ONNX model",
        description="Compile an ONNX model for this CPU and print its kernels. With -o, write the fused model, in "
        "which every kernel is a local function: onnxruntime and other tools run it.",
    )  # fmt: skip
    optimize.add_argument("model", type=Path, metavar="MODEL.onnx")
    optimize.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the fused model to FILE, .onnx")
    optimize.add_argument("--explain", action="store_true", help="print why kernels were not fused, and the laws used")
    optimize.add_argument("--autotune", action="store_true", help="time what several searches choose; keep the fastest")
    optimize.add_argument(
        "--size", action="append", default=[], metavar="NAME=N",
        help="a number for a symbolic size of the model, or, N,M,…, the whole shape of an input; may be repeated",
    )  # fmt: skip
    optimize.set_defaults(run=_optimize)

    laws = commands.add_parser(
        "laws", help="the law book; `laws check` tests every law", usage="eqfuse laws [check] [NAME ...]",
        description="Without names: the book as a table. With names of laws or families: each law whole. `check` tests "
        "them, by default all, and exits with 1 when one is false.",
    )  # fmt: skip
    laws.add_argument("words", nargs="*", metavar="[check] NAME", help="a law, a family, or refuted")
    laws.set_defaults(run=_laws)

    calibrate = commands.add_parser("calibrate", help="measure this CPU, and products on an H100 or H200")
    calibrate.add_argument("--quick", action="store_true", help="a rough measurement, in less than a second, not 20 s")
    calibrate.set_defaults(run=_calibrate)

    bench = commands.add_parser("bench", help="the benchmarks, by name")
    bench.add_argument("name", choices=BENCHES)
    bench.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own options; --help lists them")
    bench.set_defaults(run=_bench)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from eqfuse.demo.demo import demo

    if options.html is not None and not options.html.absolute().parent.is_dir():
        raise EqfuseError(f"there is no folder {options.html.parent} to write {options.html.name} into")
    demo(html=options.html, quick=options.quick)
    return 0


def _optimize(options: argparse.Namespace) -> int:
    from eqfuse.frontends.onnx.model import from_onnx
    from eqfuse.machine.files import users_file
    from eqfuse.show.explain import explain
    from eqfuse.specialise.compile import compile

    if options.output is not None:
        if options.output.suffix != ".onnx":
            raise EqfuseError(f"the fused model is ONNX: give -o a name that ends in .onnx, not {options.output}")
        users_file(options.output)
    graph = from_onnx(options.model, **dict(map(_size, options.size)))
    program = compile(graph, autotune=options.autotune)
    brief = explain(program.report, program.plan, schedules=program.executable.schedules())
    shown = program.explain() if options.explain else replace(brief, not_fused=())
    print(shown, end="")
    if options.output is not None:
        try:
            program.to_onnx(options.output)
        except OSError as error:
            raise EqfuseError(f"{options.output} cannot be written: {error}") from error
        print(f"written to {options.output}")
    return 0


def _size(text: str) -> tuple[str, int | tuple[int, ...]]:
    """Name and number of ``batch=8``; of ``x=8,3,224,224`` the shape."""
    name, _, numbers = text.rpartition("=")
    try:
        sizes = tuple(int(n) for n in numbers.split(",") if n)
    except ValueError:
        sizes = ()
    if not name or not sizes:
        raise EqfuseError(f"--size takes NAME=N or NAME=N,M,…, not {text!r}")
    return name, sizes if "," in numbers else sizes[0]


def _laws(options: argparse.Namespace) -> int:
    from eqfuse.show import lawbook

    if options.words[:1] == ["check"]:
        return lawbook.check_laws(options.words[1:])
    return lawbook.show(options.words) if options.words else lawbook.print_laws()


def _calibrate(options: argparse.Namespace) -> int:
    from eqfuse.emit.numpy.calibrate import calibrate, profile_path
    from eqfuse.show.progress import progress

    with progress() as stage:
        stage.say("trying the C compiler")
        compiler = _c_compiler()
        stage.say("measuring this CPU")
        measured = calibrate(quick=options.quick)
        stage.say("measuring products on a GPU")
        gpu = _gpu()
    print(measured)
    print(compiler)
    if gpu:
        print(gpu)
    if profile_path().exists():
        print(f"kept in {profile_path()}")
    return 0


def _gpu() -> str:
    """What was measured of the GPU here, if there is one that can be measured."""
    from eqfuse.emit.cuda import recognised_profile
    from eqfuse.emit.cuda.calibrate import calibrate, has_wgmma
    from eqfuse.machine.gpu import cupy_gpu

    try:
        profile = recognised_profile()
    except TargetUnavailable:
        return ""
    return str(calibrate(cupy_gpu(), profile)) if has_wgmma(profile) else ""


def _c_compiler() -> str:
    """Which C compiler there is. That of ziglang takes seconds at its first use, now and not in a later call."""
    from eqfuse.machine.c_compiler import find_compiler

    try:
        return f"C compiler: {' '.join(find_compiler().command)}"
    except TargetUnavailable as error:
        return str(error)


def _bench(options: argparse.Namespace) -> int:
    return importlib.import_module(f"eqfuse.benches.{options.name}").main(options.rest) or 0
