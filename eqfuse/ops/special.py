"""The special functions: ufuncs of scipy.special with one result, under SciPy's names, by price class.

They join the elementwise rows (`elementwise.ROWS`).
"""

from __future__ import annotations

import numpy as np
import scipy.special

from eqfuse.ops.row import PriceClass

_NAMES = {
    PriceClass.SPECIAL_SHORT: (
        "log_expit log_ndtr entr rel_entr kl_div xlog1py exp10 cosm1 huber pseudo_huber sindg cosdg tandg cotdg "
        "radian gammasgn exprel"
    ),
    PriceClass.SPECIAL: (
        "i0 i0e i1 i1e j0 j1 y0 y1 k0 k0e k1 k1e erfcx erfi dawsn erfinv erfcinv ndtri digamma gamma gammaln "
        "rgamma spence ellipk ellipkm1 ellipe expi exp1 boxcox boxcox1p inv_boxcox inv_boxcox1p powm1 agm "
        "kolmogorov kolmogi ndtri_exp bei ber kei ker"
    ),
    PriceClass.SPECIAL_LONG: (
        "beta betaln poch binom gammainc gammaincc owens_t stdtr chdtr chdtrc pdtr pdtrc pdtri gdtr gdtrc fdtr "
        "fdtrc bdtr bdtrc nbdtr nbdtrc smirnov smirnovi ellipkinc ellipeinc voigt_profile struve modstruve"
    ),
    PriceClass.SPECIAL_ITERATED: (
        "jv jve yv yve iv ive kv kve gammaincinv gammainccinv betainc betaincc betaincinv betainccinv chdtri "
        "stdtrit fdtri nctdtr ncfdtr chndtr hyp0f1 hyp1f1 hyp2f1 hyperu elliprc elliprd elliprf elliprg elliprj "
        "eval_legendre eval_chebyt eval_chebyu eval_hermite eval_hermitenorm eval_laguerre eval_genlaguerre "
        "eval_gegenbauer eval_jacobi"
    ),
}
SPECIAL_BY_PRICE: dict[PriceClass, dict[str, np.ufunc]] = {
    price: {name: getattr(scipy.special, name) for name in names.split()} for price, names in _NAMES.items()
}
SPECIAL_UFUNCS: dict[str, np.ufunc] = {
    name: ufunc for ufuncs in SPECIAL_BY_PRICE.values() for name, ufunc in ufuncs.items()
}
COMMUTATIVE_SPECIAL = frozenset({"agm", "betaln"})
