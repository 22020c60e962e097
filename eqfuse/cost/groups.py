"""What an operator costs on devices that nobody has measured here: one row per group of about equal price."""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """Operators of about equal price, for devices nobody has measured here."""

    ops: str
    gpu_flops: float  # cost in flops: a special-function unit is 16 times slower than the FMA lanes (gpu.md 5)
    cpu_ns: float  # float32, one core with NumPy's SIMD loops (measured on Zen 5, rounded)


GROUPS = (
    Group("input const reshape broadcast_to slice flip sliding_window", 0, 0),
    Group("transpose", 0, 0.6),  # where the array is copied
    Group("vecdot", 1, 0.06),  # where a sum over rows is one
    Group("add subtract multiply negative abs square sign floor ceil trunc round copysign signbit", 1, 0.1),
    Group("maximum minimum fmax fmin where cast real imag complex conj concat pad slice_scatter bitcast", 1, 0.1),
    Group("window_max window_sum", 1, 0.1),
    Group("equal not_equal less less_equal greater greater_equal isnan isinf isfinite", 1, 0.1),
    Group("logical_and logical_or logical_xor logical_not", 1, 0.5),
    Group(
        "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift bitwise_count", 1, 0.1
    ),
    Group("sum prod max min any all argmax argmin", 1, 0.15),
    Group("take take_along_axis scatter cumsum nextafter ldexp", 2, 1.5),
    Group("divide reciprocal sqrt", 24, 0.3),
    Group("exp exp2 expm1 log log2 log10 log1p", 24, 0.4),
    Group("tanh sin cos tan atan sinh cosh asinh cbrt", 44, 0.4),
    Group("erf erfc", 66, 7.0),  # about 25 FMA + 1 special function (gpu.md 5)
    Group("asin acos acosh atanh hypot", 66, 4.0),
    Group("power atan2 logaddexp", 110, 1.0),
    Group("whole_power", 110, 48.0),  # x**3 and the like of numbers of both signs (NumPy 2.4 on Zen 5)
    Group("floor_divide remainder", 40, 6.0),
    Group("gcd lcm", 200, 20.0),
    Group("sort argsort partition argpartition lexsort searchsorted digitize isin", 200, 10.0),
    Group("quantile percentile nanquantile nanpercentile median nanmedian", 400, 20.0),
    Group("histogram histogram_bin_edges bincount nanargmax nanargmin interp", 100, 5.0),
    Group("cumprod accumulate reduceat fold", 2, 1.5),
    Group("solve inv cholesky det slogdet qr svd svdvals eigh eigvalsh eig eigvals lstsq cond full_rank", 4, 0.05),
    Group("fft ifft rfft irfft convolve correlate", 4, 0.1),  # per operation, as the line above
    Group(
        "log_expit log_ndtr entr rel_entr kl_div xlog1py exp10 cosm1 huber pseudo_huber sindg cosdg tandg cotdg "
        "radian gammasgn exprel",
        128,
        8.0,
    ),
    Group(
        "i0 i0e i1 i1e j0 j1 y0 y1 k0 k0e k1 k1e erfcx erfi dawsn erfinv erfcinv ndtri digamma gamma gammaln "
        "rgamma spence ellipk ellipkm1 ellipe expi exp1 boxcox boxcox1p inv_boxcox inv_boxcox1p powm1 agm "
        "kolmogorov kolmogi ndtri_exp bei ber kei ker",
        320,
        20.0,
    ),
    Group(
        "beta betaln poch binom gammainc gammaincc owens_t stdtr chdtr chdtrc pdtr pdtrc pdtri gdtr gdtrc fdtr "
        "fdtrc bdtr bdtrc nbdtr nbdtrc smirnov smirnovi ellipkinc ellipeinc voigt_profile struve modstruve",
        960,
        60.0,
    ),
    Group(
        "jv jve yv yve iv ive kv kve gammaincinv gammainccinv betainc betaincc betaincinv betainccinv chdtri "
        "stdtrit fdtri nctdtr ncfdtr chndtr hyp0f1 hyp1f1 hyp2f1 hyperu elliprc elliprd elliprf elliprg elliprj "
        "eval_legendre eval_chebyt eval_chebyu eval_hermite eval_hermitenorm eval_laguerre eval_genlaguerre "
        "eval_gegenbauer eval_jacobi",
        3200,
        200.0,
    ),
)
