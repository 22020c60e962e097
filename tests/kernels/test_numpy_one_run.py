"""NumPy's own faults: a ufunc that writes wrong answers into arrays with gaps is given none."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.numpy.ops import ONE_RUN
from eqfuse.ops.elementwise import UFUNCS

STEPS = (1, 2, 3, 4, 8, 16)  # elements between those that are read, or written


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, f in UFUNCS.items() if name not in ONE_RUN and f.nout == 1])
def test_other_ufuncs_write_right_answers_between_gaps(name: str) -> None:
    ufunc, rng = UFUNCS[name], np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.int16, np.int32, np.int64):
        for step in STEPS:
            arrays = [rng.integers(1, 4, (67, step)).astype(dtype)[:, 0] for _ in range(ufunc.nin)]
            with np.errstate(all="ignore"):
                try:
                    wanted = ufunc(*[a.copy() for a in arrays])
                except TypeError:
                    break
                places = [np.zeros((67, gap), wanted.dtype)[:, 0] for gap in STEPS]
                for place in places:
                    ufunc(*arrays, place)
            np.testing.assert_allclose(places, [wanted] * len(places), rtol=1e-3, err_msg=f"{dtype} {step}")
