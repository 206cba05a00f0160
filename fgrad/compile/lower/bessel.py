"""L5. The modified Bessel functions I0 and I1, and e^-|x| of them, as operations of kernels.

    I0(x) = P((x / 2)^2),  I1(x) = x / 2 Q((x / 2)^2)           for |x| <= 8
    I(x)  = e^|x| / sqrt(|x|) R(1 / |x|)                        beyond

The errors are below 5 ulp.  Functions of one kernel share the exponential and the root.
Polynomials are written by benchmarks/derive_coefficients.py, constant term first: (float32,
float64), their errors above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.compile.kernel.builder import KernelBuilder

# fmt: off
# 2^-26.74, 2^-53.91
I0_NEAR = ((
    0.999999991136265, 1.0000002238478833, 0.24999918810965296, 0.02777880479573399,
    0.0017355041677215109, 6.963713871479128e-05, 1.8937857953964267e-06, 4.315921748286832e-08,
    3.811040788107806e-10, 1.4984851172089122e-11,
), (
    1.0, 0.9999999999999972, 0.2500000000000196, 0.027777777777725644, 0.0017361111111801994,
    6.944444439153816e-05, 1.9290123712233255e-06, 3.9367590679578624e-08,
    6.151205510558171e-10, 7.593775790514697e-12, 7.597160292761595e-14, 6.252234906388185e-16,
    4.483487859169203e-18, 2.1560332737546997e-20, 2.125949144913715e-22,
))

# 2^-26.79, 2^-52.95
I0_FAR = ((
    0.3989422769676835, 0.0498695861003774, 0.02789878697260919, 0.033785581648224414,
    -0.0138556180272883, 0.38798430077117607,
), (
    0.39894228040143265, 0.0498677850505227, 0.028050628664112724, 0.02921961548178911,
    0.044687479987200615, 0.09930480560706327, -0.6915795260545543, 69.05198152490023,
    -3705.108201742547, 150628.81085043648, -4665914.078970772, 111498332.36692671,
    -2068213074.6423192, 29828018101.87229, -333464464928.81195, 2866719153866.634,
    -18684277128238.523, 90252498532045.6, -311574086035701.8, 723056202221530.1,
    -1004016965944884.8, 624591641247471.5,
))

# 2^-28.85, 2^-56.54
I1_NEAR = ((
    0.9999999979390001, 0.5000000417361403, 0.08333320563925349, 0.006944585830058546,
    0.0003471470484040304, 1.1595995668821791e-05, 2.7183341157848105e-07,
    5.301306213992415e-09, 4.593393644845669e-11, 1.4420399943193014e-12,
), (
    1.0, 0.4999999999999996, 0.0833333333333357, 0.0069444444444387975, 0.00034722222222904913,
    1.1574074069236623e-05, 2.7557319442560787e-07, 4.920949197826064e-09,
    6.834666566839137e-11, 7.593850366044443e-13, 6.90588702255097e-15, 5.213736500940447e-17,
    3.4357508095821345e-19, 1.5683289053033739e-21, 1.3901176979810942e-23,
))

# 2^-26.56, 2^-52.85
I1_FAR = ((
    0.3989422844276611, -0.1496054478538911, -0.0465757314080218, -0.046157236046986336,
    0.009707441187326606, -0.45240590345272635,
), (
    0.3989422804014327, -0.14960335515090373, -0.04675104803111884, -0.040907390084806566,
    -0.05746789933626535, -0.11989948956623392, 0.6959453850169249, -72.3637991980042,
    3867.684401514571, -156802.46518661492, 4843147.487297237, -115390210.73427188,
    2133745131.8295674, -30670902473.129574, 341646904525.17004, -2925240036713.1016,
    18978403203754.816, -91184268043702.97, 312781145701612.6, -720126134650808.9,
    989764286723999.2, -607170715547181.5,
))
# fmt: on

NEAR = 8.0


def _polynomial(b: KernelBuilder, dtype: np.dtype, fits: Sequence[Sequence[float]], x: int) -> int:
    """The polynomial of this precision out of (float32, float64)."""
    *rest, last = fits[dtype == np.float64]
    total = b.const(last, dtype)
    for c in reversed(rest):
        total = b.op("muladd", dtype, total, x, b.const(c, dtype))
    return total


def _bessel(order: int, scaled: bool) -> Callable[..., int]:
    """I of an order, or e^-|x| I: P or x / 2 Q near 0, R / sqrt(|x|) beyond."""
    near_fit, far_fit = ((I0_NEAR, I0_FAR), (I1_NEAR, I1_FAR))[order]

    def value(b: KernelBuilder, dtype: np.dtype, x: int) -> int:
        def op(name: str, *ids: int) -> int:
            return b.op(name, dtype, *ids)

        edge, half, size = b.const(NEAR, dtype), b.const(0.5, dtype), op("abs", x)
        small, large = op("min", size, edge), op("max", size, edge)
        part = op("mul", small, half)
        near = _polynomial(b, dtype, near_fit, op("mul", part, part))
        near = op("mul", part, near) if order else near
        inverse = op("div", b.const(1.0, dtype), large)
        far = op("div", _polynomial(b, dtype, far_fit, inverse), op("sqrt", large))
        if scaled:
            near = op("mul", near, op("exp", op("neg", small)))
        else:  # e^|x| may be infinite where I is not
            root = op("exp", op("mul", large, half))
            far = op("mul", op("mul", root, far), root)
        found = op("select", b.op("le", np.dtype(np.bool_), size, edge), near, far)
        return op("copysign", found, x) if order else found

    def function(b: KernelBuilder, dtype: np.dtype, x: int) -> int:
        if dtype != np.float16:
            return value(b, dtype, x)
        single = np.dtype(np.float32)
        return b.op("convert", dtype, value(b, single, b.op("convert", single, x)))

    return function


BESSEL: dict[str, Callable[..., int]] = {
    "i0": _bessel(0, False),
    "i0e": _bessel(0, True),
    "i1": _bessel(1, False),
    "i1e": _bessel(1, True),
}
