"""What NumPy itself costs, beside memory and arithmetic: each figure with its unit, and where it was measured.

In: nothing. Out: figures by which `calls` and `tiles` price, and the schedules of `emit/numpy` decide.
Figures that differ from machine to machine stand in the profile of a `Device`; these are NumPy's (2.4) and OpenBLAS's,
measured on two cores of a Zen 5 (x86-64) unless another place is named. Tests beside them hold what they must predict.
"""

from __future__ import annotations

# Elementwise operators and reductions
ELEMENTWISE_ROWS = 140  # rows of an elementwise operator that NumPy begins in the time of a call: 3 ns each
SUM_ROWS = 40  # rows of a sum, likewise: 11 ns each
EXTREME_ROWS = 17  # rows of any other reduction, likewise: 25 ns each
NARROW = 4  # elements of a row up to which columns are computed one by one; a column costs about two calls
LEAST_ROWS = 256  # rows from which on columns pay, each of which is a call
NARROW_SUM, NARROW_EXTREME = 10, 16  # the same for rows that are summed, or reduced otherwise
NARROW_COPY = 8  # and for rows that are copied, or not, by one element of a mask: 7 ns to begin one
NUMBER = 6  # operations of arithmetic on NumPy's own numbers in the time of a call: 60 ns each
COPIED_RUNS = 75  # runs of neighbours that NumPy copies in the time of a call: 5.5 ns each
SLIDING = 30  # times as long as by panels: NumPy reduces windows one by one (2x2 max-pool of 51 MB: 195 ms)
UNPACKED = ("take", "take_along_axis", "cumsum", "searchsorted", "digitize")  # one element after another
GATHERED = 1.4  # times as long as alone do threads take that gather at once (two of an EPYC)
ALONE = 8  # times as long as by blocks: an array copied across the axis it lies along, beyond level 2 (2 within it)
# What an element is priced as that is moved by itself, by its bytes: fewer than two take as long as these.
WIDTHS = {1: "float16", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}

# Matrix products
BLAS = ("float32", "float64")  # dtypes that BLAS multiplies; the others go through NumPy's own loop
MICRO = 16, 8, 16  # rows, terms of a sum and columns that OpenBLAS computes at once, whether or not they are there
COPIED_OPERAND = 0.5  # times as long as a transposed copy, by OpenBLAS
SHORT_PRODUCT = 10**6  # multiplications up to which OpenBLAS may multiply without copying operands, on one thread
SHORT_ROWS = 4  # rows that it then computes at once, of as many columns as lie in LANES
LANES = 64  # bytes
VECTOR_ROWS = 350  # rows of a matrix times a vector that it begins in the time of a call: 1.4 ns each
STACKED_PRODUCTS = 40  # small matrices of a stack that are multiplied in the time of a call
SPINNING = 10e-3  # seconds that kernels behind a product may lose, as OpenBLAS's threads look for work for 2**28 cycles
OWN_OPERATIONS = 600  # operations on them in the time of a call, by NumPy's own loop
PRODUCT_ROWS = 128  # rows of a tile of a product, at least: of fewer, it spends its time repacking the right operand
DEEP = 256  # terms of a sum from which on it is twice that: the product, not the work around it, decides
PRODUCT_BYTES = 8 << 20  # bytes of a tile of that many rows, at most
PANEL_ROWS = 128  # rows of the first of two chained products that a tile computes at a time
SPILL = 1.2  # times as long where the rows between them overflow level 2: 4096x768x3072x768 took 216 ms, apart 186
DOT_FROM, DOT_TO = 32, 8192  # elements of a row that a tile sums as a dot product; OpenBLAS splits longer ones

# Linear algebra: LAPACK walks rows and columns; of short ones it spends most of its time on what surrounds them
SHORT_MATRIX = 15  # rows or columns of a matrix that takes twice what its operations do; of n, (15 / n)**2 times more
SHORT_MATRICES = {"eigh": 24, "eigvalsh": 28, "svdvals": 21, "cond": 21, "qr": 12}  # on two cores of a Xeon
FEWEST_ROWS = 3  # one and two rows are solved at once
# What BLAS takes for one triangle, of the time of a whole product, where that has so many rows
GRAM, GRAM_ROWS = 0.55, 256

# Library functions written in Python: calls that take as long as what one does before and after its work (Zen 5)
PYTHON_CALLS = {
    "median": 25, "nanmedian": 45, "quantile": 60, "percentile": 60, "nanquantile": 80, "nanpercentile": 80,
    "nanargmax": 18, "nanargmin": 18, "histogram": 60, "histogram_bin_edges": 30, "isin": 20, "digitize": 4,
    "searchsorted": 3, "interp": 3, "convolve": 3,
    "inv": 7, "solve": 7, "inv_triangular": 12, "inv_slogdet": 17, "det": 4, "slogdet": 10, "cholesky": 6, "eigh": 14,
    "eigvalsh": 8, "eig": 20, "eigvals": 14, "svd": 18, "svdvals": 12, "cond": 20, "qr": 28, "lstsq": 45,
    "pinv": 35, "cofactors": 15,
    "fft": 6, "ifft": 6, "rfft": 6, "irfft": 9,
}  # fmt: skip

# Tiles and threads
CLEARLY = 1.3  # predicted gain from which on tiles and threads are used: estimates are no better than that
PAIRS_OVER_TRAFFIC = 16  # times as large as all that a kernel reads and writes is an array of pairs
PAIRS_OVER_TILES = 64  # times as large as its tiles on all threads is the array of pairs that a kernel does without
SHORTER = 3  # times as short as gains from threads most may a call be for that: half as long costs some 5 %
# Arrays of a tile that are in cache at once, as the search estimates them: a partial body has no order of evaluation.
# A schedule counts them (`alive` in emit/numpy/tiling.py), and its price replaces the estimate of every kernel chosen.
LIVE = 4
