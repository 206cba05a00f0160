"""L6. Complete elliptic integrals on the device, by arithmetic-geometric means.

    a, b -> (a + b) / 2, sqrt(a b)  from 1, sqrt(1 - m)
    K = pi / 2 a                    E = K (1 - sum 2^(n - 1) c^2)

with c = sqrt(m), then (a - b) / 2 (dlmf.nist.gov, 19.8.5 and 19.8.6).
"""

from __future__ import annotations

import math

from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes

_STEPS = 14  # from the smallest number on


def _first(v: Lanes, p: str) -> str:
    """K for p = 1 - m > 0."""
    a, b = v.number(1.0), v.sqrt(p)
    for _ in range(_STEPS):
        a, b = v.mul(v.add(a, b), 0.5), v.sqrt(v.mul(a, b))
    return v.div(math.pi / 2, a)


def ellipkm1(v: Lanes, p: str) -> str:
    """K(1 - p)."""
    zero, endless = v.compare("oeq", p, 0.0), v.compare("oeq", p, INF)
    value = _first(v, v.select(v.compare("ogt", p, 0.0), v.select(endless, 1.0, p), 1.0))
    value = v.select(zero, INF, v.select(endless, 0.0, value))
    return v.select(v.compare("oge", p, 0.0), value, NAN)


def ellipk(v: Lanes, m: str) -> str:
    """K(m)."""
    return ellipkm1(v, v.sub(1.0, m))


def ellipe(v: Lanes, m: str) -> str:
    """E(m); sqrt(1 - m) E(m / (m - 1)) for m < 0."""
    negative, endless = v.compare("olt", m, 0.0), v.compare("oeq", m, -INF)
    given = v.select(v.compare("olt", m, 1.0), v.select(endless, 0.0, m), 0.0)
    p = v.sub(1.0, given)
    part = v.select(negative, v.div(v.sub(0.0, given), p), given)
    rest = v.select(negative, v.div(1.0, p), p)
    a, b = v.number(1.0), v.sqrt(rest)
    total, weight = v.mul(part, 0.5), 0.5
    for _ in range(_STEPS):
        weight *= 2
        c = v.mul(v.sub(a, b), 0.5)
        total = v.add(total, v.mul(v.mul(c, c), weight))
        a, b = v.mul(v.add(a, b), 0.5), v.sqrt(v.mul(a, b))
    value = v.mul(v.div(math.pi / 2, a), v.sub(1.0, total))
    value = v.mul(value, v.select(negative, v.sqrt(p), 1.0))
    value = v.select(endless, INF, v.select(v.compare("oeq", m, 1.0), 1.0, value))
    return v.select(v.compare("ole", m, 1.0), value, NAN)
