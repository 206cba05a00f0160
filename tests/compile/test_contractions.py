"""Convolutions and products, compiled: equal to the interpreter on random shapes, odd ones too."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad.compile import pipeline
from fgrad.compile.backend import BACKENDS
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.jit.jitted import jit
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.factor_contractions import factor_contractions
from fgrad.compile.passes.simplify import simplify
from fgrad.compile.schedule.order import schedule
from fgrad.config import config
from fgrad.ops.dot import dot_general
from fgrad.ops.window import conv
from fgrad.trace import run

SEEDS = range(40)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def agree(fun, *args):
    """The compiled function and the interpreted program give the same numbers."""
    program = make_program(fun)(*args)
    leaves = fgrad.tree.leaves(args)
    expected = run(program, leaves)
    found = fgrad.tree.leaves(jit(fun)(*args))
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        scale = float(np.max(np.abs(b), initial=1e-30)) if b.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE.get(str(b.dtype), 0) * scale)


def random_conv(rng):
    """Operands and parameters of a convolution that has a result."""
    rank = int(rng.integers(1, 4)) if rng.random() < 0.3 else 2
    dtype = rng.choice([np.float32, np.float64])
    groups, batches = ((1, 1), (3, 1), (1, 2), (4, 1), (2, 2))[rng.integers(5)]
    c, o, n = rng.integers(1, 5), rng.integers(1, 12), rng.integers(1, 5)
    window = [int(rng.integers(1, 5)) for _ in range(rank)]
    wide = [int(rng.integers(1, 3)) for _ in range(rank)]
    spread = [int(rng.choice([1, 1, 1, 2])) for _ in range(rank)]
    strides = [int(rng.choice([1, 1, 2, 3])) for _ in range(rank)]
    lengths = [(k - 1) * d + int(rng.integers(1, 21 if rank < 3 else 6))
               for k, d in zip(window, wide, strict=True)]  # fmt: skip
    padding = [tuple(map(int, rng.integers(-1, 4, 2))) for _ in range(rank)]
    if rng.random() < 0.4:
        padding = [(0, 0)] * rank
    x = rng.standard_normal((n * batches, groups * c, *lengths)).astype(dtype)
    w = rng.standard_normal((groups * batches * o, c, *window)).astype(dtype)
    return x, w, tuple(strides), tuple(padding), tuple(spread), tuple(wide), groups, batches


@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions(seed):
    x, w, *params = random_conv(np.random.default_rng(seed))
    agree(lambda x, w: conv(x, w, *params), x, w)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_of_convolutions(seed):
    x, w, *params = random_conv(np.random.default_rng(seed))
    agree(fgrad.grad(lambda x, w: (conv(x, w, *params) ** 2).sum(), argnums=(0, 1)), x, w)


@pytest.mark.parametrize("seed", SEEDS[:12])
def test_gradients_of_each_sample(seed):
    rng = np.random.default_rng(seed)
    n, c, o, h, k = 5, rng.integers(1, 4), rng.integers(1, 19), rng.integers(7, 20), 3
    x = rng.standard_normal((n, c, h, h)).astype(np.float32)
    w = rng.standard_normal((o, c, k, k)).astype(np.float32)

    def loss(w, x):
        return np.tanh(conv(x[None], w, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))).sum()

    agree(fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0)), w, x)


def test_a_convolution_between_elementwise_functions():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3, 17, 19)).astype(np.float32)
    w = rng.standard_normal((9, 3, 3, 4)).astype(np.float32)

    def f(x, w):
        y = conv(np.exp(-x), w * 2, (1, 1), ((1, 1), (0, 2)), (1, 1), (1, 1))
        return np.maximum(y, 0).reshape(4, 9, -1).max(2), y > 0

    agree(f, x, w)


@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_computed_operands(seed):
    """Products in kernels: operands are broadcast and shifted sums, as no BLAS reads them."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice([np.float32, np.float64])
    m, n, k, batch = (int(rng.integers(1, high)) for high in (40, 70, 30, 4))
    a = rng.standard_normal((batch, m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)

    def f(a, b):
        p = dot_general(a, b, ((2,), (0,)), ((), ()))
        return p, p * 2 + 1, dot_general(b, a, ((0,), (2,)), ((), ()))

    agree(f, a, b)


def names(fun, *args):
    """The primitives of the program after the pass `factor_contractions`."""
    program = factor_contractions(simplify(make_program(fun)(*args)))
    return [eqn.prim.name for eqn in dce(program).eqns]


def test_norms_of_outer_products_are_products_of_norms():
    """sum_ij (x_bi d_bj)^2 = (sum_i x_bi^2) (sum_j d_bj^2)"""
    x, d = np.ones((5, 40), np.float32), np.ones((5, 30), np.float32)

    def f(x, d):
        return np.sum((x[:, :, None] * d[:, None, :]) ** 2, axis=(1, 2))

    found = names(f, x, d)
    assert found.count("reduce_sum") == 2
    agree(f, np.random.default_rng(0).standard_normal(x.shape).astype(np.float32), d)


def test_the_norm_of_an_outer_product_overflows_no_earlier():
    x, d = np.full((2, 30), 1e25, np.float32), np.full((2, 40), 1e-25, np.float32)
    f = jit(lambda x, d: np.sum((x[:, :, None] * d[:, None, :]) ** 2, axis=(1, 2)))
    np.testing.assert_allclose(f(x, d), 1200.0, rtol=1e-5)


def test_a_weighted_sum_of_outer_products_is_a_matrix_product():
    """sum_b c_b x_bi d_bj = x' diag(c) d"""
    rng = np.random.default_rng(0)
    x, d, c = rng.standard_normal((6, 20)), rng.standard_normal((6, 30)), rng.standard_normal(6)

    def f(x, d, c):
        return np.sum(-x[:, :, None] * d[:, None, :] * c[:, None, None], axis=0)

    assert "dot_general" in names(f, x, d, c)
    agree(f, x, d, c)


def test_a_jacobian_is_not_multiplied_by_the_identity():
    rng = np.random.default_rng(0)
    x, v, w = rng.standard_normal(9), rng.standard_normal((9, 8)), rng.standard_normal((8, 7))

    def f(x, v, w):
        return np.tanh(np.tanh(x @ v) @ w)

    for jacobian in (fgrad.jacrev(f), fgrad.jacfwd(f), fgrad.hessian(f)):
        agree(jacobian, x, v, w)
    assert names(fgrad.jacrev(f), x, v, w).count("dot_general") == 3
    assert names(fgrad.jacfwd(f), x, v, w).count("dot_general") == 3


EINSUMS = (
    "bi,bj->b", "bi,bj,b->ij", "bi,bi,bj->", "ij,jk->ik", "a,b,c->abc", "a,b,c->", "ab,bc,cd->ad",
    "bi,bj,bk->b", "bij,bj,b->i", "abc,cd,a->bd", "ab,c->a", "ab,ab,b->a",
)  # fmt: skip


@pytest.mark.parametrize("formula", EINSUMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_products_of_broadcasts(formula, dtype):
    """Any product of broadcasts, summed over any axes."""
    rng = np.random.default_rng(len(formula))
    inputs, output = formula.split("->")
    letters = sorted(set(formula) - set(",->"))
    sizes = dict(zip(letters, rng.permutation([1, 9, 11, 16, 17, 8][: max(len(letters), 3)]),
                     strict=False))  # fmt: skip
    terms = inputs.split(",")
    args = [rng.standard_normal([sizes[k] for k in t]).astype(dtype) for t in terms]

    def f(*args):
        product = 1.0
        for term, x in zip(terms, args, strict=True):
            order = sorted(range(len(term)), key=term.__getitem__)
            x = np.transpose(x, order)
            product = product * x[tuple(slice(None) if k in term else None for k in letters)]
        axes = tuple(k for k, letter in enumerate(letters) if letter not in output)
        return np.sum(product, axis=axes) if axes else product

    agree(f, *args)


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_machines_with_fewer_registers(seed, monkeypatch):
    """Smaller tiles give the same numbers."""
    backend = BACKENDS["cpu"]._replace(schedule=lambda kernel: schedule(kernel, 8))
    monkeypatch.setattr(pipeline, "BACKENDS", {"cpu": backend})
    monkeypatch.setattr(config, "cache", False)
    x, w, *params = random_conv(np.random.default_rng(1000 + seed))
    agree(fgrad.grad(lambda x, w: (conv(x, w, *params) ** 2).sum(), argnums=(0, 1)), x, w)
    agree(lambda x, y: x @ y + 1, np.ones((30 + seed, 20)), np.ones((20, 48)))
