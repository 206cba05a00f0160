"""Short programs as somebody writes them who knows NumPy and has not read a page of fgrad's.

Each one takes a vector of four numbers and gives a number. `A` is a matrix of three rows.
"""

from __future__ import annotations

PROGRAMS = """
def f(x):
    e = np.exp(x - x.max())
    return e / e.sum() @ np.arange(4.0)

def f(x):
    return np.sum(np.eye(4)[np.argsort(x)] @ x)

def f(x):
    r = 0.0
    for c in [1.0, 2.0, 3.0]:
        r = r * x[0] + c
    return r

def f(x):
    return np.linalg.norm(x) + np.linalg.norm(np.outer(x, x), 'fro') + np.linalg.norm(x, 1)

def f(x):
    return np.cumprod(x)[-1] + np.cumsum(x[::-1]) @ x

def f(x):
    d = x[:, None] - x[None, :]
    return np.sum(np.where(d > 0, d ** 2, 0.0))

def f(x):
    return np.sum(np.triu(np.outer(x, x), 1))

def f(x):
    return sum((i * t ** 2 for i, t in enumerate(x)))

def f(x):
    return sum((a * b for a, b in zip(x, x[1:])))

def f(x):
    return max(x[0], x[1]) + min(x) + abs(-x[2]) + sum(x) + round(2.6) * x[0]

def f(x):
    return x[0] if x.shape[0] > 3 else x[1]

def f(x):
    return np.concatenate([x, [1.0, 2.0], [x[0]]]).sum()

def f(x):
    return np.interp(x * 0.5, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]).sum()

def f(x):
    return np.einsum('i,ij,j->', x[:3], A, x[:3])

def f(x):
    return np.polyval(x, 0.5) + np.polyfit(np.arange(4.0), x, 1)[0]

def f(x):
    return x.var(ddof=1) + np.std(x) + np.median(x) + np.percentile(x, 30)

def f(x):
    return np.sum(np.diff(x, n=2) ** 2) + np.trapezoid(x) + np.gradient(x)[0]

def f(x):
    return np.clip(x, 1.5, 3.5).sum() + np.maximum(x, 2).sum()

def f(x):
    y = x.copy()
    y[0] = 5.0
    y[1:] *= 2
    y[-1] += x[0]
    return y.sum()

def f(x):
    d = {'a': x, 'b': 2 * x}
    return sum((np.sum(t) for t in d.values()))

def f(x):
    return x[::2].sum() + x[-2:].prod() + x[[0, -1]].sum()

def f(x):
    return np.logaddexp.reduce(x) + np.log(np.sum(np.exp(x)))

def f(x):
    return np.abs(np.fft.fft(x))[1] + np.real(np.exp(1j * x[0]))

def f(x):
    return np.linalg.solve(A, x[:3]).sum() + np.linalg.inv(A + np.diag(x[:3]))[0, 0]

def f(x):
    return np.linalg.eigvalsh(np.outer(x, x) + np.diag(x))[-1]

def f(x):
    return np.sort(x)[::-1] @ np.arange(4.0) + x[np.argmax(x)]

def f(x):
    return x[x > 2].sum() + np.sum(x * (x > 2))

def f(x):
    return np.sum(x) if np.any(x > 3) else np.prod(x)

def f(x):
    s = x[0]
    while s < 10:
        s = s * 2
    return s

def f(x):
    X, Y = np.meshgrid(x, x)
    return np.sum(X * Y ** 2)

def f(x):
    return np.convolve(x, [1.0, 0.5], 'same').sum()

def f(x):
    return np.tile(x, (2, 1)).sum() + np.repeat(x, 2).mean()

def f(x):
    y = np.zeros_like(x)
    np.add.at(y, [0, 0, 1], x[:3])
    return y @ x

def f(x):
    return np.kron(x[:2], x[2:]).sum()

def f(x):
    return np.nansum(np.where(np.isnan(x), 0, x)) + np.nan_to_num(x).sum()

def f(x):
    return (np.roll(x, 1) * x).sum() + np.flip(x) @ x

def f(x):
    return np.cross(x[:3], x[1:]).sum()

def f(x):
    return np.digitize(x, [1.5, 2.5]).sum() * x[0]

def f(x):
    return np.select([x < 2, x < 3], [x, x ** 2], 0.0).sum()

def f(x):
    return np.piecewise(x, [x < 2, x >= 2], [lambda t: t, lambda t: t ** 2]).sum()

def f(x):
    return np.squeeze(x[None]).sum() + np.expand_dims(x, 1).sum() + np.atleast_2d(x).T.sum()

def f(x):
    return np.average(x, weights=x) + np.ptp(x) + np.cov(x, x)[0, 1] + np.corrcoef(x, x ** 2)[0, 1]

def f(x):
    return np.linalg.matrix_power(np.diag(x), 3).sum() + np.linalg.multi_dot([np.diag(x), x]).sum()

def f(x):
    return (x.astype(int) * x).sum() + x.round().sum() * 0

def f(x):
    q, r = np.divmod(x, 1.5)
    return r.sum() + np.modf(x)[0].sum()

def f(x):
    return np.choose([0, 1, 0, 1], [x, x ** 2]).sum() + np.take(x, [1, 2]).sum()

def f(x):
    return grad(lambda t: np.sum(t ** 3))(x).sum()

def f(x):
    def fac(n):
        return 1.0 if n == 0 else n * fac(n - 1)
    return fac(3) * x[0]

def f(x):
    a, b, *c = x
    return a * b + sum(c)

def f(x):
    return x[0] * (x[1] > 1) + True * x[0] + (not False) * x[1]

def f(x):
    return np.sum(2 ** x + x ** 2 + x ** (-1) + x ** x + np.power(x, 3) + np.sqrt(x) + np.cbrt(x))

def f(x):
    return x[np.argmin(np.abs(x - 2.2))] ** 2

def f(x):
    return np.block([[x[:2], x[2:]], [x[:2] * 2, x[2:]]]).sum()

def f(x):
    return np.pad(x, 2, mode='reflect').sum() + np.pad(x, 1).sum()
""".strip().split("\n\n")
