"""The functions of `scipy.special` that have a row in a table: their operands, and what is refused.

A row is a name and a letter for each operand, which says where it is drawn from:

    c  a count, 0 1 2 3 4          u  in (0.15, 0.9)        p  in (0.45, 2.7)
    i  the same as integers, I from 5 on, 0 all zero
    C  a count from 1 on           s  in (-0.9, 0.9)        b  in (3, 6)
    r  real, in (-2.7, 2.7)        f  a number that is no operand of a derivative, in (0.2, 0.6)
    F  the same, above 1
    B  in (10, 12)                 o  above 1
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

COUNT = 5
ROWS = """
jve fp  yve fp  struve fp  modstruve fp  ber p  bei p  ker p  kei p  berp p  beip p  kerp p
keip p  itstruve0 r  it2struve0 p  itmodstruve0 r  besselpoly pff
airy r  airye p  itj0y0 p  iti0k0 p  it2j0y0 p  it2i0k0 p  shichi p  kelvin p
elliprf ppp  elliprd ppp  elliprj pppp  elliprg ppp  elliprc pp  ellipkinc ru  ellipeinc ru
agm pp  ellipj ru
bdtr cIu  bdtrc cIu  nbdtr cCu  nbdtrc cCu  bdtri cIu  bdtrik uBu  bdtrin pbu  nbdtri cCu
nbdtrik ubu  nbdtrin puu  pdtri cu  pdtrik ub  chdtri pu  chdtriv up  gdtria upp  gdtrib pup
gdtrix ppu  btdtria upu  btdtrib puu  betainccinv ppu  fdtri ppu  nrdtrimn upp  nrdtrisd pup
kolmogorov p  kolmogi u  smirnov Cu  smirnovi Cu  tklmbda su
chndtr ppp  chndtrix upp  chndtridf pup  chndtrinc ppu  ncfdtr ppup  ncfdtri ppuu  ncfdtridfn uppb
ncfdtridfd pupp  ncfdtrinc ppuo  nctdtr pur  nctdtrit pru  nctdtridf uup  nctdtrinc pub
wrightomega r  wright_bessel ffp  log_wright_bessel ffp  voigt_profile rpp  powm1 pr  zetac b
cosdg r  sindg r  tandg r  cotdg p  radian rrr  round r
eval_jacobi iffs  eval_sh_jacobi iFfu  eval_gegenbauer ifs  eval_genlaguerre ifs
eval_laguerre is  eval_legendre is  eval_sh_legendre iu  eval_chebyt is  eval_chebyu is
eval_chebyc is  eval_chebys is  eval_sh_chebyt iu  eval_sh_chebyu iu  eval_hermite ir
eval_hermitenorm ir  lpmv cfs  diric rC
mathieu_a cp  mathieu_b Cp  mathieu_cem cfr  mathieu_sem Cfr  mathieu_modcem1 cfp
mathieu_modcem2 cfp  mathieu_modsem1 Cfp  mathieu_modsem2 Cfp
pro_cv 0cp  obl_cv 0cp  pro_ang1 0cfs  obl_ang1 0cfs  pro_rad1 0cfo  obl_rad1 0cfp
pbdv fr  pbvv fr  pbwa fr
spherical_jn ip  spherical_yn ip  spherical_in ip  spherical_kn ip
"""
words = ROWS.split()
OPERANDS = dict(zip(words[::2], words[1::2], strict=True))
FIXED = "cCiIfF0"  # counts, and operands that have no derivative

# A function of one array of real numbers, of the module that it is given.
ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "jvp": lambda s, x: s.jvp(0.7, x, 2), "yvp": lambda s, x: s.yvp(1, x, 3),
    "ivp": lambda s, x: s.ivp(2, x), "kvp": lambda s, x: s.kvp(0.5, x, 3),
    "h1vp": lambda s, x: s.h1vp(1, x), "h2vp": lambda s, x: s.h2vp(1, x, 0),
    "hankel1": lambda s, x: s.hankel1(1.5, x), "hankel2e": lambda s, x: s.hankel2e(0, x),
    "kelvin": lambda s, x: s.kelvin(x), "modfresnelp": lambda s, x: s.modfresnelp(x),
    "modfresnelm": lambda s, x: s.modfresnelm(x), "lambertw": lambda s, x: s.lambertw(x),
    "lambertw -1": lambda s, x: s.lambertw(-x / 5, -1), "wofz": lambda s, x: s.wofz(x),
    "diric": lambda s, x: s.diric(x, 5), "spherical_jn": lambda s, x: s.spherical_jn(2, x, True),
    "spherical_kn": lambda s, x: s.spherical_kn(np.arange(3), x, derivative=True),
    "assoc_laguerre": lambda s, x: s.assoc_laguerre(x, 3, 0.5),
    "legendre_p": lambda s, x: s.legendre_p(3, x / 2, diff_n=2),
    "legendre_p_all": lambda s, x: s.legendre_p_all(3, x / 2, diff_n=1),
    "assoc_legendre_p": lambda s, x: s.assoc_legendre_p(3, -1, x / 2, norm=True, diff_n=2),
    "assoc_legendre_p 3": lambda s, x: s.assoc_legendre_p(3, 1, x + 1, branch_cut=3),
    "assoc_legendre_p_all": lambda s, x: s.assoc_legendre_p_all(2, 1, x / 2, diff_n=1),
    "sph_legendre_p": lambda s, x: s.sph_legendre_p(3, 2, x * 2, diff_n=2),
    "sph_legendre_p_all": lambda s, x: s.sph_legendre_p_all(3, 2, -x, diff_n=1),
    "sph_harm_y": lambda s, x: s.sph_harm_y(3, -2, x, 2 * x),
    "sph_harm_y 2": lambda s, x: s.sph_harm_y(3, 2, x, 2 * x, diff_n=2),
    "sph_harm_y_all": lambda s, x: s.sph_harm_y_all(2, 2, x, 2 * x, diff_n=1),
    "lqn": lambda s, x: s.lqn(3, x / 2), "lqmn": lambda s, x: s.lqmn(1, 2, x / 2),
    "riccati_jn": lambda s, x: s.riccati_jn(3, x[0]), "lmbda": lambda s, x: s.lmbda(2.5, x[1]),
    "riccati_yn": lambda s, x: s.riccati_yn(3, x[0]),
    "pbdv_seq": lambda s, x: s.pbdv_seq(2.5, x[1]),
    "pbvv_seq": lambda s, x: s.pbvv_seq(2.5, x[1]), "pbdn_seq": lambda s, x: s.pbdn_seq(3, x[1]),
    "itairy": lambda s, x: s.itairy(x),
}  # fmt: skip


def operand(name: str, k: int, kind: str) -> np.ndarray:
    """Numbers of a kind, by the name of the function and the place of the operand."""
    rng = np.random.default_rng(zlib.crc32(f"{name}{k}".encode()))
    u = rng.uniform(0.15, 0.9, COUNT)
    counts = np.arange(COUNT)
    drawn = {
        "c": counts + 0.0, "C": counts + 1.0, "i": counts, "I": counts + 5, "0": counts * 0.0,
        "u": u, "p": 3 * u, "s": 2.4 * (u - 0.525), "r": 7.2 * (u - 0.525), "b": 3 + 3 * u,
        "B": 10 + 2 * u, "o": 1 + 2 * u, "f": 0.2 + 0.4 * u, "F": 1 + 2 * u,
    }  # fmt: skip
    return drawn[kind]


def operands(name: str) -> list[np.ndarray]:
    """The operands of a function of the table."""
    return [operand(name, k, kind) for k, kind in enumerate(OPERANDS[name])]
