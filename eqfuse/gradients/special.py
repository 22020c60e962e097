"""Derivatives of the special functions, where they are functions of the table.

A partial derivative is written of the result `y` and the arguments in SciPy's order. In an order, a degree or a number
of degrees of freedom mostly none is known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from eqfuse.gradients.expr import Expr, cast, complex_of, f, filled, imag, real, where
from eqfuse.gradients.row import DerivativeRow, NoDerivative, Partial, by_partials, refused, zero_derivative
from eqfuse.gradients.series import kolmogorov, reciprocal_gamma, trigamma
from eqfuse.ir.graph import Node

_CLOSED = "none is known in closed form in this argument"
_WHOLE = "it counts: pass it as a number that does not change"
_DEGREE = math.pi / 180
_FAR = math.inf


def _square(x: Expr) -> Expr:
    return f("square", x)


def _normal(x: Expr) -> Expr:
    """The normal density."""
    return f("exp", _square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))


def _log(x: Expr) -> Expr:
    return f("log", x)


def _digamma(x: Expr) -> Expr:
    return f("digamma", x)


def _one(partial: Partial, limits: Mapping[float, float] | None = None) -> DerivativeRow:
    """`limits`: what the derivative goes to at ends where `partial` has no value."""

    def limited(y: Expr, x: Expr) -> Expr | float:
        slope = partial(y, x)
        for end, limit in (limits or {}).items():
            slope = where(x.equals(end), limit, slope)
        return slope

    return by_partials(limited)


def _last(partial: Partial, others: int) -> DerivativeRow:
    """Of a function with a derivative in its last argument alone."""
    return by_partials(*[_CLOSED] * others, partial)


def _over(x: Expr, value: Expr, at_zero: float, slope: float = 0.0) -> Expr:
    """``value / x``; where `x` is zero what that goes to, and its derivative."""
    none = x.equals(0)
    return where(none, x * slope + at_zero if slope else at_zero, value / where(none, 1, x))


# ---- Bessel functions: by their neighbours in order


def _neighbours(name: str, above: float) -> Partial:
    """``(f(v - 1, z) + above * f(v + 1, z)) / 2``"""
    return lambda y, v, z: (f(name, v - 1, z) + f(name, v + 1, z) * above) * 0.5


def _real_only(partial: Partial) -> Partial:
    def checked(y: Expr, v: Expr, z: Expr) -> Expr | float:
        if z.dtype.kind == "c":
            raise NoDerivative("of complex numbers, whose scale is no holomorphic function")
        return partial(y, v, z)

    return checked


_I_NEAR, _K_NEAR = _neighbours("ive", 1), _neighbours("kve", 1)


def _kelvin(name: str, x: Expr, phase: float) -> Expr:
    """What Kelvin's functions are the parts of has this derivative: they are a Bessel function along a diagonal."""
    re, im = math.cos(math.pi * phase), math.sin(math.pi * phase)
    bessel = -f(name, filled(1, x.node.type), complex_of(x * re, x * im))
    return complex_of(real(bessel) * re - imag(bessel) * im, real(bessel) * im + imag(bessel) * re)


def _struve(name: str) -> DerivativeRow:
    return _last(lambda y, v, x: f(name, v - 1, x) - v / x * y, 1)


# ---- distributions


def _gamma_density(a: Expr, x: Expr) -> Expr:
    return f("exp", (a - 1) * _log(x) - x - f("gammaln", a))


def _beta_density(a: Expr, b: Expr, x: Expr) -> Expr:
    return f("exp", (a - 1) * _log(x) + (b - 1) * f("log1p", -x) - f("betaln", a, b))


def _student_density(v: Expr, t: Expr) -> Expr:
    """Of Student's distribution with `v` degrees of freedom."""
    logs = f("gammaln", (v + 1) * 0.5) - f("gammaln", v * 0.5) - _log(v * math.pi) * 0.5
    return f("exp", logs - (v + 1) * 0.5 * f("log1p", _square(t) / v))


def _f_density(a: Expr, b: Expr, x: Expr) -> Expr:
    z = a * x / (b + a * x)
    return _beta_density(a * 0.5, b * 0.5, z) * (a * b / _square(b + a * x))


def _chi_density(v: Expr, x: Expr) -> Expr:
    return _gamma_density(v * 0.5, x * 0.5) * 0.5


def _poisson(k: Expr, m: Expr) -> Expr:
    k = f("floor", k)
    return f("exp", k * _log(m) - m - f("gammaln", k + 1))


def _binomial(y: Expr, k: Expr, n: Expr, p: Expr) -> Expr:
    k, n = (f("floor", cast(x, p.dtype)) for x in (k, n))
    return _beta_density(n - k, k + 1, 1 - p)


def _negative_binomial(y: Expr, k: Expr, n: Expr, p: Expr) -> Expr:
    k, n = (f("floor", cast(x, p.dtype)) for x in (k, n))
    return _beta_density(n, k + 1, p)


# ---- elliptic integrals


def _complete(m: Expr, first: Expr) -> Expr:
    """Of the first kind, from its value, in the parameter `m`."""
    none = m.equals(0)
    safe = where(none, 0.5, m)
    near = m * (math.pi * 9 / 64) + math.pi / 8
    return where(none, near, (f("ellipe", m) - (1 - m) * first) / (safe * (1 - safe) * 2))


def _root(phi: Expr, m: Expr) -> Expr:
    return f("sqrt", 1 - m * _square(f("sin", phi)))


def _first_in_parameter(y: Expr, phi: Expr, m: Expr) -> Expr:
    sine_term = f("sin", phi * 2) / ((1 - m) * 4 * _root(phi, m))
    return f("ellipeinc", phi, m) / (m * (1 - m) * 2) - y / (m * 2) - sine_term


def _symmetric_first(place: int) -> Partial:
    """Of Carlson's form, in the argument at `place`."""

    def partial(_y: Expr, *args: Expr) -> Expr:
        others = [a for i, a in enumerate(args) if i != place]
        return f("elliprd", *others, args[place]) * (-1 / 6)

    return partial


def _second(y: Expr, a: Expr, b: Expr, c: Expr) -> Expr:
    """Of the second form in one of its first two arguments, `a`."""
    return (y - f("elliprd", b, c, a)) / ((c - a) * 2)


def _third_by_others(n: Node) -> Node:
    a, b, c = map(Expr, n.args)
    form = c * f("elliprf", a, b, c) - (c - a) * (c - b) * f("elliprd", a, b, c) * (1 / 3)
    return ((form + f("sqrt", a * b / c)) * 0.5).node


def _mean(n: Node) -> Node:
    """The arithmetic-geometric mean, by the complete integral."""
    a, b = map(Expr, n.args)
    return ((a + b) * (math.pi / 4) / f("ellipk", f("square", (a - b) / (a + b)))).node


# ---- polynomials: those of one degree less


def _polynomial(lower: Callable[..., Expr]) -> Callable[..., Expr]:
    """The derivative of one of degree `n`, by `lower`, which takes the degree below and all else."""

    def partial(_y: Expr, n: Expr, *rest: Expr) -> Expr:
        return where(n.equals(0), 0, lower(n - 1, *rest))

    return partial


def _boxcox_in_power(base: Callable[[Expr], Expr]) -> Partial:
    def partial(y: Expr, x: Expr, power: Expr) -> Expr:
        logs = base(x)
        return _or_at_zero(power, lambda p: ((p * y + 1) * logs - y) / p, _square(logs) * 0.5)

    return partial


def _or_at_zero(x: Expr, value: Callable[[Expr], Expr], limit: Expr) -> Expr:
    none = x.equals(0)
    return where(none, limit, value(where(none, 1, x)))


def _inverse_boxcox_in_power(whole: Callable[[Expr], Expr]) -> Partial:
    def partial(y: Expr, a: Expr, power: Expr) -> Expr:
        def slope(p: Expr) -> Expr:
            inner = p * a + 1
            return whole(y) * (a / (p * inner) - _log(inner) / _square(p))

        return _or_at_zero(power, slope, whole(y) * _square(a) * -0.5)

    return partial


def _exprel(y: Expr, x: Expr) -> Expr:
    near = f("abs", x) < 1e-3
    series = (x * (1 / 30) + 0.125) * x * x + x * (1 / 3) + 0.5
    return where(near, series, (f("exp", x) - y) / where(near, 1, x))


_ELEMENTARY: dict[str, DerivativeRow] = {
    "log_expit": _one(lambda y, x: -f("expm1", y)),
    "log_ndtr": _one(lambda y, x: f("exp", _square(x) * -0.5 - y) * (1 / math.sqrt(2 * math.pi)), {-_FAR: _FAR}),
    "entr": _one(lambda y, x: -_log(x) - 1),
    "rel_entr": by_partials(lambda y, a, b: _log(a / b) + 1, lambda y, a, b: -(a / b)),
    "kl_div": by_partials(lambda y, a, b: _log(a / b), lambda y, a, b: 1 - a / b),
    "xlog1py": by_partials(lambda y, a, b: f("log1p", b), lambda y, a, b: where(f("equal", a, 0), 0, a / (b + 1))),
    "exp10": _one(lambda y, x: y * math.log(10)),
    "cosm1": _one(lambda y, x: -f("sin", x)),
    "huber": by_partials(
        lambda y, d, r: f("maximum", f("abs", r) - d, 0), lambda y, d, r: f("minimum", f("maximum", r, -d), d)
    ),
    "pseudo_huber": by_partials(
        lambda y, d, r: (y / d) * 2 - _square(r) / (d * f("sqrt", _square(r / d) + 1)),
        lambda y, d, r: r / f("sqrt", _square(r / d) + 1),
    ),
    "sindg": _one(lambda y, x: f("cosdg", x) * _DEGREE),
    "cosdg": _one(lambda y, x: f("sindg", x) * -_DEGREE),
    "tandg": _one(lambda y, x: (_square(y) + 1) * _DEGREE),
    "cotdg": _one(lambda y, x: (_square(y) + 1) * -_DEGREE),
    "radian": by_partials(
        lambda y, d, m, s: _DEGREE, lambda y, d, m, s: _DEGREE / 60, lambda y, d, m, s: _DEGREE / 3600
    ),
    "exprel": _one(_exprel),
    "boxcox": by_partials(lambda y, x, p: f("power", x, p - 1), _boxcox_in_power(_log)),
    "boxcox1p": by_partials(
        lambda y, x, p: f("power", x + 1, p - 1), _boxcox_in_power(lambda x: f("log1p", x))
    ),
    "inv_boxcox": by_partials(lambda y, a, p: y / (p * a + 1), _inverse_boxcox_in_power(lambda y: y)),
    "inv_boxcox1p": by_partials(lambda y, a, p: (y + 1) / (p * a + 1), _inverse_boxcox_in_power(lambda y: y + 1)),
    "powm1": by_partials(lambda y, a, b: (y + 1) * b / a, lambda y, a, b: (y + 1) * _log(a)),
}
_OF_ERRORS: dict[str, DerivativeRow] = {
    "erfcx": _one(lambda y, x: x * y * 2 - 2 / math.sqrt(math.pi), {_FAR: 0}),
    "erfi": _one(lambda y, x: f("exp", _square(x)) * (2 / math.sqrt(math.pi))),
    "dawsn": _one(lambda y, x: 1 - x * y * 2, {_FAR: 0, -_FAR: 0}),
    "erfinv": _one(lambda y, x: f("exp", _square(y)) * (math.sqrt(math.pi) / 2)),
    "erfcinv": _one(lambda y, x: f("exp", _square(y)) * (-math.sqrt(math.pi) / 2)),
    "ndtri": _one(lambda y, x: f("exp", _square(y) * 0.5) * math.sqrt(2 * math.pi)),
    "ndtri_exp": _one(lambda y, x: f("exp", _square(y) * 0.5 + x) * math.sqrt(2 * math.pi)),
    "expi": _one(lambda y, x: f("exp", x) / x),
    "exp1": _one(lambda y, x: -(f("exp", -x) / x)),
    "spence": _one(lambda y, x: _over(1 - x, _log(x), -1, -0.5)),
    "owens_t": by_partials(
        lambda y, a, b: _normal(a) * f("erf", a * b * math.sqrt(0.5)) * -0.5,
        lambda y, a, b: f("exp", _square(a) * (_square(b) + 1) * -0.5) / ((_square(b) + 1) * (2 * math.pi)),
    ),
}
_BESSEL: dict[str, DerivativeRow] = {
    "i0": _one(lambda y, x: f("i1", x)),
    "i0e": _one(lambda y, x: f("i1e", x) - f("sign", x) * y),
    "i1": _one(lambda y, x: f("i0", x) - _over(x, y, 0.5)),
    "i1e": _one(lambda y, x: f("i0e", x) - _over(x, y, 0.5) - f("sign", x) * y),
    "j0": _one(lambda y, x: -f("j1", x)),
    "j1": _one(lambda y, x: f("j0", x) - _over(x, y, 0.5)),
    "y0": _one(lambda y, x: -f("y1", x)),
    "y1": _one(lambda y, x: f("y0", x) - y / x, {0: _FAR}),
    "k0": _one(lambda y, x: -f("k1", x)),
    "k0e": _one(lambda y, x: y - f("k1e", x), {0: -_FAR}),
    "k1": _one(lambda y, x: -f("k0", x) - y / x),
    "k1e": _one(lambda y, x: y - f("k0e", x) - y / x, {0: -_FAR}),
    "jv": _last(_neighbours("jv", -1), 1),
    "jve": _last(_real_only(_neighbours("jve", -1)), 1),
    "yv": _last(_neighbours("yv", -1), 1),
    "yve": _last(_real_only(_neighbours("yve", -1)), 1),
    "iv": _last(_neighbours("iv", 1), 1),
    "ive": _last(_real_only(lambda y, v, z: _I_NEAR(y, v, z) - f("sign", z) * y), 1),
    "kv": _last(lambda y, v, z: -(f("kv", v - 1, z) + f("kv", v + 1, z)) * 0.5, 1),
    "kve": _last(lambda y, v, z: y - _K_NEAR(y, v, z), 1),
    "struve": _struve("struve"),
    "modstruve": _struve("modstruve"),
    "ber": _one(lambda y, x: real(_kelvin("jv", x, 0.75))),
    "bei": _one(lambda y, x: imag(_kelvin("jv", x, 0.75))),
    "ker": _one(lambda y, x: real(_kelvin("kv", x, 0.25)), {0: -_FAR, _FAR: 0}),
    "kei": _one(lambda y, x: imag(_kelvin("kv", x, 0.25)), {0: 0, _FAR: 0}),
}
_OF_GAMMA: dict[str, DerivativeRow] = {
    "digamma": _one(trigamma),
    "gamma": _one(lambda y, x: y * _digamma(x)),
    "gammaln": _one(lambda y, x: _digamma(x)),
    "rgamma": _one(reciprocal_gamma, {_FAR: 0}),
    "gammasgn": zero_derivative(),
    "beta": by_partials(
        lambda y, a, b: y * (_digamma(a) - _digamma(a + b)), lambda y, a, b: y * (_digamma(b) - _digamma(a + b))
    ),
    "betaln": by_partials(
        lambda y, a, b: _digamma(a) - _digamma(a + b), lambda y, a, b: _digamma(b) - _digamma(a + b)
    ),
    "poch": by_partials(lambda y, a, m: y * (_digamma(a + m) - _digamma(a)), lambda y, a, m: y * _digamma(a + m)),
    "binom": by_partials(
        lambda y, n, k: y * (_digamma(n + 1) - _digamma(n - k + 1)),
        lambda y, n, k: y * (_digamma(n - k + 1) - _digamma(k + 1)),
    ),
}
_DISTRIBUTIONS: dict[str, DerivativeRow] = {
    "gammainc": _last(lambda y, a, x: _gamma_density(a, x), 1),
    "gammaincc": _last(lambda y, a, x: -_gamma_density(a, x), 1),
    "gammaincinv": _last(lambda y, a, p: 1 / _gamma_density(a, y), 1),
    "gammainccinv": _last(lambda y, a, p: -1 / _gamma_density(a, y), 1),
    "gdtr": by_partials(
        lambda y, a, b, x: x * _gamma_density(b, a * x), _CLOSED, lambda y, a, b, x: a * _gamma_density(b, a * x)
    ),
    "gdtrc": by_partials(
        lambda y, a, b, x: -(x * _gamma_density(b, a * x)), _CLOSED, lambda y, a, b, x: -(a * _gamma_density(b, a * x))
    ),
    "betainc": _last(lambda y, a, b, x: _beta_density(a, b, x), 2),
    "betaincc": _last(lambda y, a, b, x: -_beta_density(a, b, x), 2),
    "betaincinv": _last(lambda y, a, b, p: 1 / _beta_density(a, b, y), 2),
    "betainccinv": _last(lambda y, a, b, p: -1 / _beta_density(a, b, y), 2),
    "chdtr": _last(lambda y, v, x: _chi_density(v, x), 1),
    "chdtrc": _last(lambda y, v, x: -_chi_density(v, x), 1),
    "chdtri": _last(lambda y, v, p: -1 / _chi_density(v, y), 1),
    "chndtr": by_partials(
        "the density is no operator", _CLOSED, lambda y, x, v, c: (f("chndtr", x, v + 2, c) - y) * 0.5
    ),
    "stdtr": _last(lambda y, v, t: _student_density(v, t), 1),
    "stdtrit": _last(lambda y, v, p: 1 / _student_density(v, y), 1),
    "nctdtr": _last(
        lambda y, v, c, t: v / t * (f("nctdtr", v + 2, c, t * f("sqrt", 2 / v + 1)) - y), 2
    ),
    "fdtr": _last(lambda y, a, b, x: _f_density(a, b, x), 2),
    "fdtrc": _last(lambda y, a, b, x: -_f_density(a, b, x), 2),
    "fdtri": _last(lambda y, a, b, p: 1 / _f_density(a, b, y), 2),
    "pdtr": by_partials(None, lambda y, k, m: -_poisson(k, m)),
    "pdtrc": by_partials(None, lambda y, k, m: _poisson(k, m)),
    "pdtri": by_partials(_WHOLE, lambda y, k, p: -1 / _poisson(k, y)),
    "bdtr": by_partials(None, _WHOLE, lambda *a: -_binomial(*a)),
    "bdtrc": by_partials(None, _WHOLE, _binomial),
    "nbdtr": by_partials(_WHOLE, _WHOLE, _negative_binomial),
    "nbdtrc": by_partials(_WHOLE, _WHOLE, lambda *a: -_negative_binomial(*a)),
    **{name: refused("the density is no operator")
       for name in ("smirnov", "smirnovi", "ncfdtr")},
    "kolmogorov": _one(kolmogorov),
    "kolmogi": _one(lambda y, p: 1 / kolmogorov(p, y), {0: -_FAR, 1: -_FAR}),
    "voigt_profile": refused("Faddeeva's function is no operator"),
}
_ELLIPTIC: dict[str, DerivativeRow] = {
    "agm": DerivativeRow(formula=_mean),
    "ellipk": _one(lambda y, m: _complete(m, y), {1: _FAR, -_FAR: 0}),
    "ellipkm1": _one(lambda y, p: -_complete(1 - p, y), {0: -_FAR, _FAR: 0}),
    "ellipe": _one(lambda y, m: _over(m, (y - f("ellipk", m)) * 0.5, -math.pi / 8, -math.pi * 3 / 64)),
    "ellipkinc": by_partials(lambda y, phi, m: 1 / _root(phi, m), _first_in_parameter),
    "ellipeinc": by_partials(
        lambda y, phi, m: _root(phi, m), lambda y, phi, m: (y - f("ellipkinc", phi, m)) / (m * 2)
    ),
    "elliprf": by_partials(*map(_symmetric_first, range(3))),
    "elliprc": by_partials(
        lambda y, a, b: f("elliprd", b, b, a) * (-1 / 6), lambda y, a, b: f("elliprd", a, b, b) * (-1 / 3)
    ),
    "elliprd": by_partials(
        lambda y, a, b, c: _second(y, a, b, c), lambda y, a, b, c: _second(y, b, a, c),
        lambda y, a, b, c: -(y * 1.5 + a * _second(y, a, b, c) + b * _second(y, b, a, c)) / c,
    ),
    "elliprg": DerivativeRow(formula=_third_by_others),
    "elliprj": refused("of the other forms it is known"),
}
_SERIES: dict[str, DerivativeRow] = {
    "hyp0f1": _last(lambda y, b, z: f("hyp0f1", b + 1, z) / b, 1),
    "hyp1f1": _last(lambda y, a, b, z: a / b * f("hyp1f1", a + 1, b + 1, z), 2),
    "hyp2f1": _last(lambda y, a, b, c, z: a * b / c * f("hyp2f1", a + 1, b + 1, c + 1, z), 3),
    "hyperu": _last(lambda y, a, b, x: -(a * f("hyperu", a + 1, b + 1, x)), 2),
    "eval_legendre": _last(_polynomial(lambda n, x: f("eval_gegenbauer", n, 1.5, x)), 1),
    "eval_chebyt": _last(_polynomial(lambda n, x: f("eval_chebyu", n, x) * (n + 1)), 1),
    "eval_chebyu": _last(_polynomial(lambda n, x: f("eval_gegenbauer", n, 2.0, x) * 2), 1),
    "eval_hermite": _last(_polynomial(lambda n, x: f("eval_hermite", n, x) * (n + 1) * 2), 1),
    "eval_hermitenorm": _last(_polynomial(lambda n, x: f("eval_hermitenorm", n, x) * (n + 1)), 1),
    "eval_laguerre": _last(_polynomial(lambda n, x: -f("eval_genlaguerre", n, 1.0, x)), 1),
    "eval_genlaguerre": _last(_polynomial(lambda n, a, x: -f("eval_genlaguerre", n, a + 1, x)), 2),
    "eval_gegenbauer": _last(_polynomial(lambda n, a, x: a * f("eval_gegenbauer", n, a + 1, x) * 2), 2),
    "eval_jacobi": _last(
        _polynomial(lambda n, a, b, x: (n + a + b + 2) * f("eval_jacobi", n, a + 1, b + 1, x) * 0.5), 3
    ),
}
ROWS: dict[str, DerivativeRow] = {
    **_ELEMENTARY, **_OF_ERRORS, **_BESSEL, **_OF_GAMMA, **_DISTRIBUTIONS, **_ELLIPTIC, **_SERIES,
}  # fmt: skip
