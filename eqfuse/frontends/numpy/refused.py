"""NumPy's functions that cannot be traced: why, and what to write instead.

In: the name of a NumPy function or ufunc. Out: the error to raise. A name is here or in the tables of `registry`,
never both.
"""

from __future__ import annotations

from typing import NamedTuple

from eqfuse.errors import EqfuseError, TraceError, UnsupportedOp


class Refusal(NamedTuple):
    names: str
    why: str
    instead: str


REFUSALS = (
    Refusal("np.nonzero np.flatnonzero np.argwhere", "the shape of its result depends on data",
            "use np.where(mask, x, fill), or multiply by the mask before a reduction"),
    Refusal("np.unique np.unique_all np.unique_counts np.unique_inverse np.unique_values",
            "the shape of its result depends on data", "use np.sort, and compare neighbours"),
    Refusal("np.union1d np.intersect1d np.setdiff1d np.setxor1d", "the shape of its result depends on data",
            "use np.isin, which gives a mask"),
    Refusal("np.trim_zeros", "the shape of its result depends on data", "use slices with known bounds"),
    Refusal("np.polydiv np.polymul np.roots", "it drops leading zeros, so that the shape of its result depends on data",
            "use np.convolve and slices of known length"),
    Refusal("np.shares_memory np.may_share_memory", "it asks where arrays lie, and traced arrays lie nowhere",
            "ask it of the arrays outside of the traced function"),
    Refusal("np.array2string np.array_repr np.array_str", "it prints values, which are not known while tracing",
            "return the array and print it outside"),
    Refusal("np.save np.savez np.savez_compressed np.savetxt", "it writes values, which are not known while tracing",
            "return the array and save it outside"),
    Refusal("np.genfromtxt np.loadtxt np.fromfile",
            "what it reads would become a constant of the program",
            "read outside of the traced function, and pass the array as an argument"),
    Refusal("np.busday_count np.busday_offset np.is_busday np.datetime_as_string np.isnat",
            "dates are not tensors", "convert them to numbers by .astype(np.int64) outside of the traced function"),
    Refusal("np.frompyfunc.*", "it calls Python for one element after another",
            "call the function itself with whole arrays, which it may take as it is"),
    Refusal("np.lib.scimath.*", "real or complex, the dtype of its result depends on data",
            "use the function of the same name in np, of x or of x.astype(complex)"),
    Refusal("np.lib.recfunctions.*", "structured arrays are not tensors", "pass each field as an array of its own"),
    Refusal("np.strings.* np.char.*", "strings are not tensors",
            "encode them as numbers outside of the traced function"),
)  # fmt: skip
_BY_NAME = {name: refusal for refusal in REFUSALS for name in refusal.names.split()}


def refusal(name: str) -> Refusal | None:
    """The row of the function that its user knows as `name`, if it has one."""
    return _BY_NAME.get(name) or _BY_NAME.get(f"{name.rpartition('.')[0]}.*")


def error(name: str) -> EqfuseError:
    """What to raise when there is no implementation of a function."""
    row = refusal(name)
    if row is None:
        return UnsupportedOp(f"{name} cannot be traced: it is not in the tables of eqfuse/frontends/")
    return TraceError(f"{name} cannot be traced: {row.why}. Instead: {row.instead}")
