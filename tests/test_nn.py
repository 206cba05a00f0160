"""Neural networks: values against torch and SciPy, derivatives, masked and extreme inputs."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import special

import fgrad
from fgrad import nn, random, testing
from fgrad.errors import ArgumentError, DtypeError, ShapeError

RNG = np.random.default_rng(0)
X = np.array([-3.1, -1.2, -0.4, 0.3, 0.9, 2.5])
EXTREMES = np.array([-np.inf, -1e300, -800.0, -50.0, 0.0, 50.0, 800.0, 1e300, np.inf])
INF = np.inf

ACTIVATIONS = {
    "relu": (nn.relu, lambda F, x: F.relu(x)),
    "relu6": (nn.relu6, lambda F, x: F.relu6(x)),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.1), lambda F, x: F.leaky_relu(x, 0.1)),
    "hard_tanh": (nn.hard_tanh, lambda F, x: F.hardtanh(x)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda F, x: F.hardsigmoid(x)),
    "elu": (nn.elu, lambda F, x: F.elu(x)),
    "selu": (nn.selu, lambda F, x: F.selu(x)),
    "celu": (lambda x: nn.celu(x, 0.7), lambda F, x: F.celu(x, 0.7)),
    "sigmoid": (nn.sigmoid, lambda F, x: F.sigmoid(x)),
    "tanh": (nn.tanh, lambda F, x: F.tanh(x)),
    "soft_sign": (nn.soft_sign, lambda F, x: F.softsign(x)),
    "softplus": (nn.softplus, lambda F, x: F.softplus(x, threshold=1e9)),
    "log_sigmoid": (nn.log_sigmoid, lambda F, x: F.logsigmoid(x)),
    "silu": (nn.silu, lambda F, x: F.silu(x)),
    "mish": (nn.mish, lambda F, x: F.mish(x)),
    "gelu_tanh": (nn.gelu, lambda F, x: F.gelu(x, approximate="tanh")),
    "gelu_erf": (lambda x: nn.gelu(x, approximate=False), lambda F, x: F.gelu(x)),
    "glu": (nn.glu, lambda F, x: F.glu(x)),
}
SMOOTH_TAILS = [name for name in ACTIVATIONS if name != "glu"]


def torch_functional():
    return pytest.importorskip("torch"), pytest.importorskip("torch.nn.functional")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_against_torch(name):
    torch, functional = torch_functional()
    ours, theirs = ACTIVATIONS[name]
    x = torch.tensor(X, requires_grad=True)
    y = theirs(functional, x)
    y.sum().backward()
    np.testing.assert_allclose(ours(X), y.detach().numpy(), rtol=1e-13, atol=1e-15)
    slope = fgrad.grad(lambda x: np.sum(ours(x)))(X)
    rtol = 1e-7 if name in ("celu", "hard_sigmoid") else 1e-12  # torch's constants are float32
    np.testing.assert_allclose(slope, x.grad.numpy(), rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_derivatives(name):
    testing.check_grads(ACTIVATIONS[name][0], (X,), order=2)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_under_jit_and_vmap(name):
    f = ACTIVATIONS[name][0]
    testing.check_jit(f, (X,), rtol=1e-13)
    testing.check_jit(fgrad.grad(lambda x: np.sum(f(x))), (X,), rtol=1e-12, atol=1e-15)
    testing.check_vmap(f, (np.stack([X, 2 * X]),))


@pytest.mark.parametrize("name", SMOOTH_TAILS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_activation_at_extremes(name, dtype):
    f = ACTIVATIONS[name][0]
    x = EXTREMES.astype(dtype) if dtype == np.float64 else np.clip(EXTREMES, -1e30, 1e30)
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        y = f(x)
        first, second = np.zeros_like(x), np.zeros_like(x)
        for i, v in enumerate(x):
            first[i] = fgrad.grad(f)(v)
            second[i] = fgrad.grad(fgrad.grad(f))(v)
        tangent = fgrad.jvp(f, (x,), (np.ones_like(x),))[1]
    assert y.dtype == dtype
    assert not np.any(np.isnan(y))
    assert np.all(np.isfinite(first)) and np.all(np.isfinite(second))
    np.testing.assert_allclose(tangent, first, rtol=1e-6)
    assert np.isnan(f(dtype(np.nan)))


def test_relu_conventions():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    slope = fgrad.vmap(fgrad.grad(nn.relu))(x)
    np.testing.assert_array_equal(slope, [0, 0, 0, 1, 1])
    slope = fgrad.vmap(fgrad.grad(nn.relu6))(np.array([0.0, 3.0, 6.0, 7.0]))
    np.testing.assert_array_equal(slope, [0, 1, 0, 0])


@pytest.mark.parametrize("x", [-700.0, -40.0, -3.0, 0.0, 1e-9, 2.0, 30.0, 500.0])
def test_softplus_family_is_accurate(x):
    with mpmath.workdps(400):
        softplus = mpmath.log1p(mpmath.exp(x))
        first = 1 / (1 + mpmath.exp(-mpmath.mpf(x)))
        second = first * (1 - first)
        np.testing.assert_allclose(nn.softplus(x), float(softplus), rtol=4e-16)
        np.testing.assert_allclose(nn.log_sigmoid(-x), -float(softplus), rtol=4e-16)
        np.testing.assert_allclose(fgrad.grad(nn.softplus)(x), float(first), rtol=1e-15)
        np.testing.assert_allclose(
            fgrad.grad(fgrad.grad(nn.softplus))(x), float(second), rtol=1e-14, atol=1e-300
        )


@pytest.mark.parametrize("x", [-30.0, -8.0, -1.0, 0.0, 1.0, 5.0])
def test_gelu_is_accurate(x):
    with mpmath.workdps(60):
        exact = mpmath.mpf(x) * mpmath.ncdf(x)
        np.testing.assert_allclose(nn.gelu(x, approximate=False), float(exact), rtol=1e-13)


# --- probabilities ------------------------------------------------------------------------------

LOGITS = RNG.normal(size=(3, 4, 5))
MASKED = np.array([[1.0, -INF, 2.0], [0.0, 0.0, -INF], [-INF, 3.0, -INF]])


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_softmax_values(axis):
    np.testing.assert_allclose(nn.softmax(LOGITS, axis), special.softmax(LOGITS, axis), rtol=1e-13)
    expected = special.log_softmax(LOGITS, axis)
    np.testing.assert_allclose(nn.log_softmax(LOGITS, axis), expected, rtol=1e-13)
    expected = special.logsumexp(LOGITS, axis)
    np.testing.assert_allclose(nn.logsumexp(LOGITS, axis), expected, rtol=1e-13)
    kept = nn.logsumexp(LOGITS, axis, keepdims=True)
    np.testing.assert_allclose(kept, special.logsumexp(LOGITS, axis, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax, nn.logsumexp])
def test_softmax_derivatives(f):
    testing.check_grads(f, (LOGITS[0],), order=2)
    testing.check_vmap(f, (LOGITS,))
    testing.check_jit(f, (LOGITS,))
    testing.check_transpose(f, (LOGITS,))


def test_softmax_jacobian():
    s = nn.softmax(X)
    np.testing.assert_allclose(fgrad.jacrev(nn.softmax)(X), np.diag(s) - np.outer(s, s), atol=1e-16)
    np.testing.assert_allclose(fgrad.jacfwd(nn.softmax)(X), np.diag(s) - np.outer(s, s), atol=1e-16)


def test_softmax_of_large_numbers():
    x = np.array([1e4, 1e4 - 1.0, -1e4])
    np.testing.assert_allclose(nn.softmax(x), special.softmax(x), rtol=1e-15)
    assert np.all(np.isfinite(fgrad.jacrev(nn.softmax)(x)))


def test_masked_elements():
    np.testing.assert_allclose(nn.softmax(MASKED), special.softmax(MASKED, -1), rtol=1e-15)
    weights = RNG.normal(size=MASKED.shape)
    gradient = fgrad.grad(lambda x: np.sum(nn.softmax(x) * weights))(MASKED)
    assert np.all(np.isfinite(gradient)) and np.all(gradient[np.isinf(MASKED)] == 0)
    gradient = fgrad.grad(lambda x: np.sum(nn.logsumexp(x, -1)))(MASKED)
    np.testing.assert_allclose(gradient, special.softmax(MASKED, -1), rtol=1e-15)
    hessian = fgrad.hessian(lambda x: np.sum(nn.logsumexp(x, -1)))(MASKED)
    assert np.all(np.isfinite(hessian))
    gradient = fgrad.grad(lambda x: np.sum(nn.log_softmax(x)[:, 1:2]))(MASKED[1:2])
    np.testing.assert_allclose(gradient, [[-0.5, 0.5, 0.0]])


def test_where():
    mask = np.array([[True, False, True], [False, False, False]])
    x = RNG.normal(size=(2, 3))
    y = nn.softmax(x, where=mask)
    np.testing.assert_allclose(y[0], special.softmax(np.where(mask[0], x[0], -INF)))
    np.testing.assert_array_equal(y[1], 0)
    gradient = fgrad.grad(lambda x: np.sum(nn.softmax(x, where=mask) ** 2))(x)
    assert np.all(np.isfinite(gradient)) and np.all(gradient[~mask] == 0)
    assert nn.logsumexp(x[1], where=mask[1]) == -INF


def test_logsumexp_of_nothing():
    x = np.array([[-INF, -INF], [0.0, 1.0]])
    np.testing.assert_array_equal(nn.logsumexp(x, 1)[0], -INF)
    gradient = fgrad.grad(lambda x: np.sum(nn.logsumexp(x, 1)[1:]))(x)
    assert np.all(np.isfinite(gradient))
    gradient = fgrad.grad(lambda x: nn.logsumexp(x[0]))(x)
    np.testing.assert_array_equal(gradient, 0)
    assert nn.logsumexp(np.zeros(0)) == -INF
    assert nn.logsumexp(np.array([INF, 0.0])) == INF


def test_logsumexp_weights():
    b = np.array([0.5, 0.0, -0.2, 2.0, 1.0, 0.3])
    np.testing.assert_allclose(nn.logsumexp(X, b=b), special.logsumexp(X, b=b), rtol=1e-14)
    log, sign = nn.logsumexp(X, b=-b, return_sign=True)
    expected = special.logsumexp(X, b=-b, return_sign=True)
    np.testing.assert_allclose([log, sign], expected, rtol=1e-14)
    testing.check_grads(lambda x, b: nn.logsumexp(x, b=b), (X, b), order=2)
    x = np.array([1.0, INF, 900.0])
    b = np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(nn.logsumexp(x, b=b), 1.0)
    np.testing.assert_array_equal(fgrad.grad(lambda x: nn.logsumexp(x, b=b))(x), [1, 0, 0])
    by_weight = fgrad.grad(lambda b: nn.logsumexp(np.array([1.0, 3.0]), b=b))(np.array([1.0, 0.0]))
    np.testing.assert_allclose(by_weight, [1.0, math.exp(2)])
    assert np.isnan(nn.logsumexp(np.zeros(2), b=np.array([1.0, -2.0])))


def test_one_hot():
    x = np.array([[0, 3], [2, -1]], np.int32)
    expected = (x[..., None] == np.arange(4)).astype(np.float32)
    y = nn.one_hot(x, 4, np.float32)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(nn.one_hot(x, 4, axis=0), np.moveaxis(expected, -1, 0))
    with pytest.raises(DtypeError):
        nn.one_hot(np.ones(2), 3)


# --- losses -------------------------------------------------------------------------------------

LABELS = np.array([[0, 4, 2, 1], [3, 3, 0, 2], [1, 0, 4, 4]])


def test_cross_entropy_against_torch():
    torch, functional = torch_functional()
    x = torch.tensor(LOGITS, requires_grad=True)
    loss = functional.cross_entropy(x.permute(0, 2, 1), torch.tensor(LABELS), reduction="none")
    loss.sum().backward()
    np.testing.assert_allclose(
        nn.softmax_cross_entropy(LOGITS, LABELS), loss.detach().numpy(), rtol=1e-13
    )
    slope = fgrad.grad(lambda x: np.sum(nn.softmax_cross_entropy(x, LABELS)))(LOGITS)
    np.testing.assert_allclose(slope, x.grad.numpy(), rtol=1e-12, atol=1e-16)
    first_axis = nn.softmax_cross_entropy(np.moveaxis(LOGITS, -1, 0), LABELS, axis=0)
    np.testing.assert_allclose(first_axis, loss.detach().numpy(), rtol=1e-13)


def test_cross_entropies_agree():
    hot = nn.one_hot(LABELS, 5)
    ours = nn.softmax_cross_entropy_with_probabilities(LOGITS, hot)
    np.testing.assert_allclose(nn.softmax_cross_entropy(LOGITS, LABELS), ours, rtol=1e-14)
    testing.check_grads(lambda x: nn.softmax_cross_entropy(x, LABELS), (LOGITS,), order=2)
    testing.check_grads(
        nn.softmax_cross_entropy_with_probabilities, (LOGITS, nn.softmax(LOGITS)), order=2
    )
    testing.check_vmap(nn.softmax_cross_entropy, (LOGITS, LABELS))
    testing.check_jit(nn.softmax_cross_entropy, (LOGITS, LABELS))


def test_cross_entropy_with_masked_classes():
    labels = np.array([2, 0, 1])
    loss = nn.softmax_cross_entropy(MASKED, labels)
    np.testing.assert_allclose(loss, [math.log1p(math.exp(-1)), math.log(2), 0.0])
    hot = nn.one_hot(labels, 3)
    np.testing.assert_allclose(nn.softmax_cross_entropy_with_probabilities(MASKED, hot), loss)
    for f, target in (
        (nn.softmax_cross_entropy, labels),
        (nn.softmax_cross_entropy_with_probabilities, hot),
    ):
        gradient = fgrad.grad(lambda x, f=f, t=target: np.sum(f(x, t)))(MASKED)
        np.testing.assert_allclose(gradient, special.softmax(MASKED, -1) - hot, atol=1e-15)


def test_cross_entropy_keeps_small_losses():
    loss = nn.softmax_cross_entropy(np.array([30.0, 0.0]), np.array(0))
    np.testing.assert_allclose(loss, math.exp(-30), rtol=0.2)
    assert nn.softmax_cross_entropy(np.array([800.0, 0.0]), np.array(0)) == 0


def test_cross_entropy_labels():
    with pytest.raises(ShapeError, match="run from"):
        nn.softmax_cross_entropy(np.zeros((2, 3)), np.array([0, 3]))
    with pytest.raises(DtypeError, match="integer labels"):
        nn.softmax_cross_entropy(np.zeros((2, 3)), np.array([0.0, 1.0]))
    with pytest.raises(ShapeError, match="labels have shape"):
        nn.softmax_cross_entropy(np.zeros((2, 3)), np.array([0]))
    loss = fgrad.vmap(nn.softmax_cross_entropy)(np.zeros((2, 3)), np.array([0, 3]))
    np.testing.assert_allclose(loss, [math.log(3), np.nan])


def test_sigmoid_cross_entropy():
    torch, functional = torch_functional()
    y = np.array([0.0, 1.0, 0.3, 1.0, 0.0, 0.8])
    expected = functional.binary_cross_entropy_with_logits(
        torch.tensor(X), torch.tensor(y), reduction="none"
    )
    np.testing.assert_allclose(nn.sigmoid_cross_entropy(X, y), expected.numpy(), rtol=1e-13)
    testing.check_grads(nn.sigmoid_cross_entropy, (X, y), order=2)
    extreme = nn.sigmoid_cross_entropy(np.array([INF, -INF, 40.0, 0.0]), np.array([1, 0, 1, 0]))
    np.testing.assert_allclose(extreme, [0, 0, math.exp(-40), math.log(2)], rtol=1e-14)
    slope = fgrad.vmap(fgrad.grad(nn.sigmoid_cross_entropy))
    found = slope(np.array([INF, -INF, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(found, [0, 0, 0.5, -0.5])


# --- layers -------------------------------------------------------------------------------------


def test_layer_norm_against_torch():
    torch, functional = torch_functional()
    scale, bias = RNG.normal(size=(2, 5))
    arrays = [torch.tensor(v, requires_grad=True) for v in (LOGITS, scale, bias)]
    y = functional.layer_norm(arrays[0], (5,), arrays[1], arrays[2])
    weights = RNG.normal(size=LOGITS.shape)
    (y * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(
        nn.layer_norm(LOGITS, scale, bias), y.detach().numpy(), rtol=1e-12, atol=1e-14
    )
    slopes = fgrad.grad(lambda *a: np.sum(nn.layer_norm(*a) * weights), (0, 1, 2))(
        LOGITS, scale, bias
    )
    for ours, theirs in zip(slopes, arrays, strict=True):
        np.testing.assert_allclose(ours, theirs.grad.numpy(), rtol=1e-11, atol=1e-13)


def test_norms():
    testing.check_grads(nn.layer_norm, (LOGITS[0],), order=2)
    testing.check_grads(nn.rms_norm, (LOGITS[0], X[:5]), order=2)
    testing.check_jit(nn.layer_norm, (LOGITS,), rtol=1e-11, atol=1e-14)
    two = nn.layer_norm(LOGITS, axis=(1, 2), eps=0.0)
    np.testing.assert_allclose(two.mean((1, 2)), 0, atol=1e-15)
    np.testing.assert_allclose(two.var((1, 2)), 1)
    assert np.all(np.isfinite(fgrad.grad(lambda x: np.sum(nn.layer_norm(x) ** 2))(np.ones(4))))
    assert nn.layer_norm(LOGITS.astype(np.float32)).dtype == np.float32
    with pytest.raises(ShapeError):
        nn.layer_norm(LOGITS, np.ones(3))


def test_attention_against_torch():
    torch, functional = torch_functional()
    q, k, v = (
        RNG.normal(size=(2, 4, 3, 6)),
        RNG.normal(size=(2, 5, 3, 6)),
        RNG.normal(size=(2, 5, 3, 2)),
    )
    mask = RNG.random((4, 5)) < 0.6
    mask[:, 0] = True
    bias = RNG.normal(size=(4, 5))
    tensors = [torch.tensor(np.swapaxes(x, 1, 2)) for x in (q, k, v)]
    attention = functional.scaled_dot_product_attention
    for ours, theirs in (
        ({}, {}),
        ({"mask": mask}, {"attn_mask": torch.tensor(mask)}),
        ({"bias": bias, "scale": 0.3}, {"attn_mask": torch.tensor(bias), "scale": 0.3}),
        ({"is_causal": True}, {"is_causal": True}),
    ):
        expected = attention(*tensors, **theirs).numpy()
        np.testing.assert_allclose(
            np.swapaxes(nn.dot_product_attention(q, k, v, **ours), 1, 2),
            expected,
            rtol=1e-11,
            atol=1e-14,
        )


def attention_by_loops(q, k, v, bias, seen):
    """One head and query after the other; `seen(b, n, t, s)` says what is seen."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, t, n in np.ndindex(*q.shape[:-1]):
        head = n * k.shape[2] // q.shape[2]
        keys = [s for s in range(k.shape[1]) if seen(b, n, t, s)]
        logits = [q[b, t, n] @ k[b, s, head] / np.sqrt(q.shape[-1]) + bias[n, t, s] for s in keys]
        powers = np.exp(logits)
        for s, p in zip(keys, powers / powers.sum(), strict=True):
            out[b, t, n] += p * v[b, s, head]
    return out


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, lambda b, n, t, s: True),
        ({"is_causal": True}, lambda b, n, t, s: s <= t),
        ({"local_window_size": 2}, lambda b, n, t, s: abs(t - s) <= 2),
        ({"local_window_size": (1, 3)}, lambda b, n, t, s: -1 <= s - t <= 3),
        (
            {"local_window_size": (2, 3), "is_causal": True},
            lambda b, n, t, s: -2 <= s - t <= 0,
        ),
        (
            {"query_seq_lengths": [2, 5], "key_value_seq_lengths": [4, 1]},
            lambda b, n, t, s: t < (2, 5)[b] and s < (4, 1)[b],
        ),
    ],
    ids=["all", "causal", "window", "two sides", "causal window", "lengths"],
)
def test_attention_has_the_layout_of_jax(groups, options, seen):
    q = RNG.normal(size=(2, 5, 4, 3))
    k, v = RNG.normal(size=(2, 6, groups, 3)), RNG.normal(size=(2, 6, groups, 2))
    bias = RNG.normal(size=(4, 5, 6))
    with np.errstate(invalid="ignore"):
        expected = attention_by_loops(q, k, v, bias, seen)
    found = nn.dot_product_attention(q, k, v, bias, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    mask = np.array([[[seen(0, n, t, s) for s in range(6)] for t in range(5)] for n in range(4)])
    np.testing.assert_allclose(
        nn.dot_product_attention(q[0], k[0], v[0], bias, mask), expected[0], rtol=1e-12, atol=1e-14
    )


def test_attention_derivatives():
    q, k, v = RNG.normal(size=(3, 1, 2)), RNG.normal(size=(4, 1, 2)), RNG.normal(size=(4, 1, 2))
    mask = np.array([[True] * 4, [False, True, False, True], [False] * 4])

    def masked(q, k, v):
        return nn.dot_product_attention(q, k, v, mask=mask)

    np.testing.assert_array_equal(masked(q, k, v)[2], 0)
    testing.check_grads(masked, (q, k, v), order=2)
    testing.check_vmap(masked, (np.stack([q, 2 * q]), k, v), in_axes=(0, None, None), rtol=1e-11)
    testing.check_jit(masked, (q, k, v), rtol=1e-12)
    for wrong in ((q, q, v), (q[0], k[0], v[0]), (q, np.ones((4, 2, 2)), np.ones((4, 2, 2)))):
        with pytest.raises(ShapeError, match="do not fit"):
            nn.dot_product_attention(*wrong)


def test_dropout():
    key, x = random.key(3), np.ones((100, 100))
    y = nn.dropout(key, x, 0.3)
    np.testing.assert_allclose(np.unique(y), [0, 1 / 0.7])
    assert abs(y.mean() - 1) < 0.03
    gradient = fgrad.grad(lambda x: np.sum(nn.dropout(key, x, 0.3)))(x)
    np.testing.assert_array_equal(gradient, y)
    np.testing.assert_array_equal(nn.dropout(key, x, 0.0), x)
    np.testing.assert_array_equal(nn.dropout(key, x, 1.0), 0 * x)
    with pytest.raises(ArgumentError):
        nn.dropout(key, x, 1.5)
    with pytest.raises(ArgumentError):
        nn.dropout(x, key, 0.5)


IMAGES = RNG.normal(size=(2, 4, 7, 6))
CONVOLUTIONS = [
    {},
    {"strides": 2, "padding": 1},
    {"strides": (2, 1), "padding": (2, 0), "dilation": (1, 2)},
    {"groups": 2, "padding": 1},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv_against_torch(options):
    torch, functional = torch_functional()
    w = RNG.normal(size=(6, 4 // options.get("groups", 1), 3, 2))
    names = {"strides": "stride"}
    theirs = {names.get(k, k): v for k, v in options.items()}
    tensors = torch.tensor(IMAGES, requires_grad=True), torch.tensor(w, requires_grad=True)
    y = functional.conv2d(*tensors, **theirs)
    (y**2).sum().backward()
    np.testing.assert_allclose(nn.conv(IMAGES, w, **options), y.detach().numpy(), rtol=1e-11)
    slopes = fgrad.grad(lambda x, w: np.sum(nn.conv(x, w, **options) ** 2), (0, 1))(IMAGES, w)
    for ours, tensor in zip(slopes, tensors, strict=True):
        np.testing.assert_allclose(ours, tensor.grad.numpy(), rtol=1e-10, atol=1e-11)
    last = nn.conv(np.moveaxis(IMAGES, 1, -1), w.transpose(2, 3, 1, 0), layout="NHWC", **options)
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), y.detach().numpy(), rtol=1e-11)


def test_conv_same_padding():
    for size, window, stride in [(7, 3, 2), (8, 3, 2), (5, 4, 1), (6, 1, 3)]:
        x, w = np.ones((1, 1, size)), np.ones((1, 1, window))
        y = nn.conv(x, w, stride, "SAME", layout="NCW")
        assert y.shape[2] == -(-size // stride)


@pytest.mark.parametrize("options", [{}, {"strides": 1}, {"padding": 1, "strides": 2}], ids=str)
def test_pools_against_torch(options):
    torch, functional = torch_functional()
    theirs = {"stride": options.get("strides"), "padding": options.get("padding", 0)}
    x = torch.tensor(IMAGES)
    expected = functional.max_pool2d(x, (3, 2), **theirs).numpy()
    np.testing.assert_array_equal(nn.max_pool(IMAGES, (3, 2), **options), expected)
    for include in (True, False):
        expected = functional.avg_pool2d(x, (3, 2), count_include_pad=include, **theirs).numpy()
        ours = nn.avg_pool(IMAGES, (3, 2), count_include_pad=include, **options)
        np.testing.assert_allclose(ours, expected, rtol=1e-13)
    testing.check_grads(lambda x: nn.max_pool(x, (3, 2), **options), (IMAGES[:1],), order=1)
    testing.check_grads(lambda x: nn.avg_pool(x, (3, 2), **options), (IMAGES[:1],), order=1)
    last = nn.max_pool(np.moveaxis(IMAGES, 1, -1), (3, 2), layout="NHWC", **options)
    np.testing.assert_array_equal(last, np.moveaxis(nn.max_pool(IMAGES, (3, 2), **options), 1, -1))


def test_layer_refusals():
    x, w = np.ones((1, 1, 4, 4)), np.ones((1, 1, 2, 2))
    with pytest.raises(ShapeError, match="layout"):
        nn.conv(x, w, layout="NCH")
    with pytest.raises(ArgumentError, match="padding"):
        nn.conv(x, w, padding="FULL")
    with pytest.raises(ArgumentError, match="strides"):
        nn.conv(x, w, strides=(1, 1, 1))
    with pytest.raises(ShapeError, match="channels"):
        nn.conv(np.ones((1, 2, 4, 4)), w)


INITIALIZERS = {
    "glorot_normal": 2 / 250, "glorot_uniform": 2 / 250, "he_normal": 2 / 100,
    "he_uniform": 2 / 100, "lecun_normal": 1 / 100, "lecun_uniform": 1 / 100,
}  # fmt: skip


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(name):
    w = getattr(nn, name)(random.key(1), (100, 150), np.float32)
    assert w.dtype == np.float32
    np.testing.assert_allclose(w.var(), INITIALIZERS[name], rtol=0.05)
    filters = getattr(nn, name)(random.key(1), (15, 10, 5, 2), in_axis=1, out_axis=0)
    np.testing.assert_allclose(filters.var(), INITIALIZERS[name], rtol=0.15)
    with pytest.raises(ShapeError):
        getattr(nn, name)(random.key(1), (3,))
