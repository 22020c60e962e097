"""The 141 expressions of numexpr's own tests (numexpr 2.14.2, numexpr/tests/test_numexpr.py).

Copyright (c) 2007,2008 David M. Cooke; (c) 2009,2010 Francesc Alted; (c) 2011- the numexpr authors. MIT licence:

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

from __future__ import annotations

SECTIONS: dict[str, list[str]] = {
    "miscellaneous": [
        "b*c+d*e", "2*a+3*b", "-a", "sinh(a)", "2*a + (cos(3)+5)*sinh(cos(b))", "2*a + arctan2(a, b)", "arcsin(0.5)",
        "where(a != 0.0, 2, a)", "where(a > 10, b < a, b > a)", "where((a-10).real != 0.0, a, 2)",
        "0.25 * (a < 5) + 0.33 * (a >= 5)", "cos(1+1)", "1+1", "1", "cos(a2)",
    ],
    "operations": [
        text
        for op in ("+", "-", "*", "/", "%", "**")
        for text in (
            f"(a+1) {op} (b+3)", f"3 {op} (b+3)", f"(a+1) {op} 4", f"2 {op} (b+3)", f"(a+1) {op} 2", f"(a+1) {op} -1",
            f"(a+1) {op} 0.5", f"(a+1) {op} 0",
        )
    ],
    "comparisons": [
        text
        for op in ("<", "<=", "==", ">=", ">", "!=")
        for text in (f"a/2+5 {op} b", f"a/2+5 {op} 7", f"7 {op} b", f"7.0 {op} 5")
    ],
    "functions of one argument": [
        f"a + {name}(b+c)"
        for name in (
            "copy", "ones_like", "sqrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
            "arcsinh", "arccosh", "arctanh", "log", "log1p", "log10", "log2", "exp", "expm1", "abs", "conj", "ceil",
            "floor", "round", "trunc", "sign",
        )
    ],
    "functions of two arguments": [
        text
        for name in ("arctan2", "fmod", "hypot", "nextafter", "copysign")
        for text in (f"a + {name}(b+c, d+1)", f"a + {name}(b+c, 1)", f"a + {name}(1, d+1)")
    ],
    "powers": [f"(a+1)**{n}" for n in (-7, -2.5, -1.5, -1.3, -0.5, 0, 0.0, 1, 2.3, 2.5, 3)],
}  # fmt: skip
