"""Functions as one types them at a prompt, and what each transform makes of them.

The file is a program: it prints a line for each function and transform, `right` where the result
is that of differences (or of a loop), else the name of the error.
"""

import math

import numpy as np

import fgrad


def filled(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = x[i] * (i + 1.0) ** 2
    return out[0] * out[3] + out[1] * out[2]


def gathered(x):
    a = np.array([x[0] * x[1], x[2] ** 2])
    return a[0] * a[1]


def full(x):
    return np.sum(np.full(3, x[0] * x[1]) * np.arange(1.0, 4.0)) + np.full_like(x, x[2])[1]


def numbers(x):
    return math.sin(x[0]) * math.exp(x[1]) + math.sqrt(x[2]) * math.log(x[3])


def emptied(x):
    out = np.empty((2, 2))
    out[0] = x[:2] * x[2:]
    out[1] = np.ones(2) * x[0]
    return np.sum(out**2)


def counted(x):
    total = float(x[0]) * 2.0
    for v in x:
        total += v * abs(v) if v > 1.0 else max(v, 0.75)
    return total


POINT = np.array([0.6, 0.9, 1.3, 1.8])
STEP = np.array([0.3, -0.2, 0.5, 0.1])
FUNCTIONS = (filled, gathered, full, numbers, emptied, counted)


def slope(f, h=1e-5):
    return (f(POINT + h * STEP) - f(POINT - h * STEP)) / (2 * h)


def curvature(f, h=1e-3):
    return (f(POINT + h * STEP) - 2 * f(POINT) + f(POINT - h * STEP)) / h**2


def by_vjp(f):
    _, pull = fgrad.vjp(f, POINT)
    return pull(1.0)[0] @ STEP


TRANSFORMS = {
    "grad": (lambda f: fgrad.grad(f)(POINT) @ STEP, slope),
    "vjp": (by_vjp, slope),
    "jvp": (lambda f: fgrad.jvp(f, (POINT,), (STEP,))[1], slope),
    "jacfwd": (lambda f: fgrad.jacfwd(f)(POINT) @ STEP, slope),
    "hessian": (lambda f: STEP @ fgrad.hessian(f)(POINT) @ STEP, curvature),
    "vmap": (
        lambda f: fgrad.vmap(f)(np.array([POINT, POINT + STEP])),
        lambda f: np.array([f(POINT), f(POINT + STEP)]),
    ),
    "jit": (lambda f: fgrad.jit(f)(POINT), lambda f: f(POINT)),
}

for f in FUNCTIONS:
    for name, (by_transform, by_numpy) in TRANSFORMS.items():
        try:
            found = by_transform(f)
        except Exception as error:
            card = isinstance(error.__cause__ or error, fgrad.errors.FgradError)
            print("prompt:", f.__name__, name, "card" if card else repr(error))
        else:
            near = np.allclose(found, by_numpy(f), rtol=1e-4, atol=1e-5)
            print("prompt:", f.__name__, name, "right" if near else f"wrong {found}")
