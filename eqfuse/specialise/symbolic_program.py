"""Programs for all sizes of some symbols: what `ef.compile` makes of specs such as ``ef.spec(("n", 64))``.

In: a `FunctionCall` with symbols. Out: `SymbolicProgram`, called like any other. Its plans come from `family`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from eqfuse.errors import EqfuseError, ShapeError
from eqfuse.frontends.numpy.trace import Spec, is_apart
from eqfuse.ir.symbolic import SymbolicSpec
from eqfuse.runtime.program import Program
from eqfuse.specialise.calls import FunctionCall
from eqfuse.specialise.family import Family
from eqfuse.specialise.symbolic import Pattern, Sizes
from eqfuse.specialise.versions import Version, Versions
from eqfuse.summary import Summary, count

if TYPE_CHECKING:
    from eqfuse.show.explain import Explanation

SIZES_KEPT = 64  # programs of single sizes


class SymbolicProgram(Program):
    """A program for every size of its symbols. `plan` and `report` are those of the sizes it was planned at first."""

    def __init__(self, call: FunctionCall, options: Mapping[str, Any]) -> None:
        specs = [_symbolic(leaf) for leaf in call.leaves]
        self._call = call
        self._apart = {i for i, leaf in enumerate(call.leaves) if is_apart(leaf)}
        self.pattern = Pattern(call.names, specs)
        self._family = Family(getattr(call.fn, "__name__", "the program"), self.pattern, call.trace, options)
        self._versions = Versions(SIZES_KEPT)
        self._lock = threading.RLock()
        self._first = self._family.plan_first()
        self.plan = self._first.plan
        self.peak_bytes = self._first.peak_bytes
        self.report = self._first.report
        self.laws = self._first.laws

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program_for(*args, **kwargs)(*args, **kwargs)

    def summary(self) -> Summary:
        f = self._family
        origins = f"{f.transferred} transferred, {f.anew} compiled anew"
        sizes = f"{count(len(f.plans), 'plan')}, {count(len(self._versions), 'size')}: {origins}"
        return self._summary(f"SymbolicProgram for {self.pattern}; {sizes}; planned first:")

    def at(self, **sizes: int) -> Program:
        """The program of these sizes of the symbols alone (to look at, or to save)."""
        if set(sizes) != set(self.pattern.symbols):
            raise ShapeError(f"the symbols are {', '.join(self.pattern.symbols)}; give each its size")
        program: Program = self._version(tuple(int(sizes[s]) for s in self.pattern.symbols)).program
        return program

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for `arrays`, one per graph input. ShapeError when they do not fit the pattern."""
        inputs = iter(arrays)
        leaves = [None if i in self._apart else next(inputs, None) for i in range(len(self.pattern.specs))]
        results: tuple[Any, ...] = self._version(self._sizes(leaves)).program.run(arrays)
        return results

    def call(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The traced function's results for the `leaves` of its arguments, which it may change in place."""
        return self._for_leaves(leaves).call(leaves)

    def source(self) -> str:
        """The emitted source of the kernels at the sizes that were planned first."""
        return self._first.source()

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why the program looks as it does where it was planned first; with arguments, why it does at their sizes."""
        program = self._program_for(*args, **kwargs) if args or kwargs else self._first
        return program.explain(*args, **kwargs).about(str(self._family))

    def kernel_seconds(self, *args: Any, **kwargs: Any) -> list[float]:
        """Median seconds of each kernel that is no view, in order, on these arguments."""
        return self._program_for(*args, **kwargs).kernel_seconds(*args, **kwargs)

    def save(self, path: str | Path) -> NoReturn:
        """Refused: another size needs the function itself, and a saved program holds no code."""
        sizes = ", ".join(f"{s}=…" for s in self.pattern.symbols)
        raise EqfuseError(
            f"a program with symbolic sizes ({self.pattern}) cannot be saved: it traces its function at every new "
            f"size. Save the program of one: program.at({sizes}).save(path)"
        )

    def _program_for(self, *args: Any, **kwargs: Any) -> Program:
        signature = self.plan.graph.signature
        assert signature is not None
        return self._for_leaves(signature.flatten(args, kwargs))

    def _for_leaves(self, leaves: Sequence[Any]) -> Program:
        program: Program = self._version(self._sizes(leaves), leaves).program
        return program

    def _sizes(self, leaves: Sequence[Any]) -> Sizes:
        return self.pattern.sizes([getattr(leaf, "shape", ()) for leaf in leaves])

    def _version(self, sizes: Sizes, leaves: Sequence[Any] | None = None) -> Version:
        version = self._versions.get(sizes)
        if version is None:
            with self._lock:
                version = self._versions.get(sizes)
                if version is None:
                    if leaves is not None:
                        self._call.take_numbers(leaves)
                    version = self._family.make(sizes)
                    self._versions.keep(sizes, version)
        return version


def _symbolic(leaf: Any) -> SymbolicSpec | None:
    if isinstance(leaf, Spec):
        return SymbolicSpec(leaf.shape, leaf.dtype)
    return leaf if isinstance(leaf, SymbolicSpec) else None
