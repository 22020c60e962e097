"""What lies outside of a function that is traced: a trace leaves it as it was, or is refused.

In: what the function reaches (`reach`), before it runs. Out: the places that it has changed, by name; they can be put
back. A program does not repeat what a function does to globals, closures, objects and containers: arrays alone.
"""

from __future__ import annotations

import dis
import gc
import pickle
import random
import threading
import types
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from eqfuse.errors import TraceError, line_of, line_text
from eqfuse.frontends.numpy.converted import Constant
from eqfuse.frontends.numpy.number import Number
from eqfuse.frontends.numpy.placing import as_before, original, reached_from
from eqfuse.frontends.numpy.reach import GENERATORS, Builtin, attributes
from eqfuse.frontends.numpy.tracer import Tracer
from eqfuse.frontends.numpy.tracing import Trace

T = TypeVar("T")
Items = Mapping[Any, Any]
LOOKED_AT_WHOLE = 1 << 19  # arrays up to this size are looked at as a whole


class Holder(ABC):
    """Something whose items, attributes or contents can change. `path`: how the function comes there."""

    def __init__(self, path: str, value: Any) -> None:
        self.path, self.value = path, value
        self.before = self.read()

    @abstractmethod
    def read(self) -> Items:
        """What it holds, by key."""

    @abstractmethod
    def write(self, items: Items) -> None:
        """Let it hold `items` alone."""

    def name(self, key: Any) -> str:
        return f"{self.path}[{key!r}]"

    def changed(self) -> list[Any]:
        """The keys of what it did not hold before, or holds no more."""
        now = self.read()
        return [key for key in {**self.before, **now} if not _same(self.before.get(key, self), now.get(key, self))]

    def restore(self) -> None:
        if self.changed():
            self.write(self.before)


class Dict(Holder):
    def read(self) -> Items:
        return as_before(self.value, dict(self.value))

    def write(self, items: Items) -> None:
        self.value.clear()
        self.value.update(items)


class Sequence(Holder):
    def read(self) -> Items:
        return as_before(self.value, dict(enumerate(self.value)))

    def write(self, items: Items) -> None:
        self.value.clear()
        self.value.extend(items.values())


class Set(Holder):
    def read(self) -> Items:
        return {id(element): element for element in self.value}

    def write(self, items: Items) -> None:
        self.value.clear()
        self.value.update(items.values())

    def name(self, key: Any) -> str:
        return self.path


class Attributes(Holder):
    """Of an instance, a function or a class."""

    def read(self) -> Items:
        if isinstance(self.value, type):
            items = {name: v for name, v in vars(self.value).items() if name not in ("__dict__", "__weakref__")}
        else:
            items = attributes(self.value)
        return as_before(self.value, items)

    def write(self, items: Items) -> None:
        set_, delete = (setattr, delattr) if isinstance(self.value, type) else (object.__setattr__, object.__delattr__)
        for name in self.changed():
            if name in items:
                set_(self.value, name, items[name])
            else:
                delete(self.value, name)

    def name(self, key: Any) -> str:
        return f"{self.path}.{key}"


class Names(Holder):
    """Globals of a module, or what a closure has of a variable."""

    def __init__(self, path: str, value: Any, used: set[str]) -> None:
        self.used = used
        super().__init__(path, value)

    def read(self) -> Items:
        if isinstance(self.value, types.CellType):
            return {} if self.value == types.CellType() else {self.path: original(self.value, self.path)}
        originals = {name: original(self.value, name) for name in self.used if name in self.value}
        return {name: value for name, value in originals.items() if not isinstance(value, Builtin)}

    def write(self, items: Items) -> None:
        if isinstance(self.value, types.CellType):
            if items:
                self.value.cell_contents = items[self.path]
            else:
                del self.value.cell_contents
            return
        for name in self.used:
            if name in items:
                self.value[name] = items[name]
            else:
                self.value.pop(name, None)

    def name(self, key: Any) -> str:
        return str(key)


class ArrayElements(Holder):
    """Of an array: of a large one, some of them along each axis."""

    def read(self) -> Items:
        if self.value.dtype.hasobject or not self.value.flags.writeable:
            return {}
        return {"": self._seen().tobytes()}

    def write(self, items: Items) -> None:
        seen = self._seen()
        seen[...] = np.frombuffer(items[""], seen.dtype).reshape(seen.shape)

    def name(self, key: Any) -> str:
        return self.path

    def _seen(self) -> np.ndarray:
        array: np.ndarray = self.value
        if array.nbytes <= LOOKED_AT_WHOLE:
            return array
        along = int((LOOKED_AT_WHOLE / array.itemsize) ** (1 / array.ndim))
        return array[tuple([slice(None, None, max(1, n // along)) for n in array.shape])]


class Generator(Holder):
    """The state of a random generator. While other threads run, which may draw from it too, nobody knows who changed
    it: it is left alone."""

    def __init__(self, path: str, value: Any) -> None:
        self.shared = _others_run()
        super().__init__(path, value)

    def changed(self) -> list[Any]:
        return [] if self.shared or _others_run() else super().changed()

    def read(self) -> Items:
        if isinstance(self.value, random.Random):
            return {"": pickle.dumps(self.value.getstate())}
        state = self.value.bit_generator.state if self.new else self.value.get_state(legacy=False)
        return {"": pickle.dumps(state)}

    def write(self, items: Items) -> None:
        state = pickle.loads(items[""])
        if isinstance(self.value, random.Random):
            self.value.setstate(state)
        elif self.new:
            self.value.bit_generator.state = state
        else:
            self.value.set_state(state)

    @property
    def new(self) -> bool:
        return isinstance(self.value, np.random.Generator)

    def name(self, key: Any) -> str:
        return self.path


_KINDS: tuple[tuple[Any, type[Holder]], ...] = (
    (dict, Dict), ((list, deque), Sequence), (set, Set), (np.ndarray, ArrayElements), (GENERATORS, Generator),
    (object, Attributes),
)  # fmt: skip


class OutsideState:
    """All that a function can change beside its arguments, as it is now."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.reached = reached_from(roots)
        self.places: list[Holder] = [Names("", *both) for both in self.reached.used.values()]
        for path, value in self.reached.objects:
            if isinstance(value, types.CellType):
                self.places.append(Names(path, value, {path}))
            else:
                self.places.append(_place(path, value))

    def changed(self) -> list[tuple[Holder, list[Any]]]:
        """The places that have changed, each with the keys of its changes."""
        return [(place, keys) for place in self.places if (keys := place.changed())]

    def restore(self) -> None:
        for place in self.places:
            place.restore()

    def settle(self) -> None:
        """Let what was put where nothing was be real arrays. TraceError where anything else has changed."""
        memo: dict[int, Any] = {}
        for place, keys in self.changed():
            now = dict(place.read())
            for key in keys:
                if place.before.get(key) is not None or key not in now:
                    raise self.refusal(place, key)
                now[key] = _settled(now[key], place.name(key), memo)
            place.write(now)

    def refusal(self, place: Holder, key: Any) -> TraceError:
        line = _line_that_stores(key, place.name(key), self.reached.code)
        return TraceError(
            f"the function changes {place.name(key)}, which lies outside of it"
            + (f" ({line})" if line else "")
            + ": its program would not do so again at every call. Return what is new, and store it where the function "
            "is called; an array among the arguments can be changed in place"
        )


def leaving_alone(roots: Mapping[str, Any], attempt: Callable[[OutsideState], tuple[T, Trace]]) -> T:
    """What `attempt` makes, which traces a function. What lies outside stays as it was, or is refused by name.

    A cache may be filled: nothing was there before, no argument decides what is put there, and the function leaves it
    alone when it runs once more.
    """
    first = OutsideState(roots)
    result = _during(first, attempt)
    if first.changed():
        again = OutsideState(roots)
        try:
            result = _during(again, attempt)
            for place, keys in again.changed():
                raise again.refusal(place, keys[0])
        except BaseException:
            again.restore()
            first.restore()
            raise
    return result


def _during(outside: OutsideState, attempt: Callable[[OutsideState], tuple[T, Trace]]) -> T:
    try:
        result, trace = attempt(outside)
        traced = trace.leaked()
        if traced is not None:
            raise _leak(traced)
        return result
    except BaseException:
        outside.restore()
        raise


def _others_run() -> bool:
    own = threading.current_thread()
    return any(thread is not own and not thread.name.startswith("eqfuse") for thread in threading.enumerate())


def _settled(value: Any, path: str, memo: dict[int, Any]) -> Any:
    """`value` with real arrays in place of traced ones, which no argument may decide."""
    if isinstance(value, Tracer):
        real = value.real_array(memo)
        if real is None:
            raise _leak(value, f"as {path}")
        return real
    if isinstance(value, Number):
        raise _leak(value, f"as {path}")
    if isinstance(value, Constant):
        return np.asarray(value) if value.original is None else value.original
    if isinstance(value, tuple):
        parts = [_settled(part, f"{path}[{i}]", memo) for i, part in enumerate(value)]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)
    if id(value) not in memo and (isinstance(value, (list, dict, deque)) or _is_object(value)):
        memo[id(value)] = value
        place = _place(path, value)
        place.write({key: _settled(child, place.name(key), memo) for key, child in place.before.items()})
    return value


def _place(path: str, value: Any) -> Holder:
    return next(place for kind, place in _KINDS if isinstance(value, kind))(path, value)


def _is_object(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, types.FunctionType))


def _leak(traced: Tracer | Number, path: str = "") -> TraceError:
    line = "" if traced.user_place is None else f", made at {line_of(traced.user_place)},"
    return TraceError(
        f"a traced {traced.tensor_type}{line} is kept {path or _holder(traced)}, outside of the traced function, where "
        "it would stand for no number: each call computes another. Return it from the function instead"
    )


def _holder(traced: Tracer | Number) -> str:
    """Who still holds `traced`."""
    for holder in gc.get_referrers(traced):
        if isinstance(holder, types.CellType):
            return "in a closure"
        if isinstance(holder, (types.GeneratorType, list, tuple, dict, set)):
            return f"in a {type(holder).__name__}"
        if not isinstance(holder, types.FrameType):
            return f"by a {type(holder).__name__}"
    return "by somebody"


def _line_that_stores(name: Any, path: str, code: Iterable[types.CodeType]) -> str:
    """The line of `code` that assigns to a global, a variable of a closure or an attribute of that name."""
    lines = [
        line_text(c, step.positions.lineno or c.co_firstlineno)
        for c in code
        for step in dis.get_instructions(c)
        if step.opname.startswith(("STORE_", "DELETE_")) and step.argval == name and step.positions is not None
    ]
    return max(lines, key=lambda line: ".".join(path.split(".")[-2:]) in line, default="")


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return issubclass(type(a), (bytes, str, int, float, np.generic)) and bool(a == b)
