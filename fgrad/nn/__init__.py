"""L7. Functions of neural networks: activations, probabilities and losses, layers, initial weights.

All are pure functions of arrays, differentiable to any order; parameters are your own pytrees.

    hidden = fgrad.nn.relu(x @ w1 + b1)
    loss = np.mean(fgrad.nn.softmax_cross_entropy(hidden @ w2 + b2, labels))
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown
from fgrad.nn import initializers
from fgrad.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swish,
    tanh,
)
from fgrad.nn.attention import dot_product_attention
from fgrad.nn.layers import avg_pool, conv, dropout, layer_norm, max_pool, rms_norm, standardize
from fgrad.nn.probability import (
    log_softmax,
    logmeanexp,
    logsumexp,
    one_hot,
    sigmoid_cross_entropy,
    softmax,
    softmax_cross_entropy,
    softmax_cross_entropy_with_probabilities,
)
from fgrad.nn.structured_losses import ctc_loss, ctc_loss_with_forward_probs, ntxent
from fgrad.nn.weights import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)

__all__ = [
    "avg_pool",
    "celu",
    "conv",
    "ctc_loss",
    "ctc_loss_with_forward_probs",
    "dot_product_attention",
    "dropout",
    "elu",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "he_normal",
    "he_uniform",
    "identity",
    "initializers",
    "layer_norm",
    "leaky_relu",
    "lecun_normal",
    "lecun_uniform",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "max_pool",
    "mish",
    "ntxent",
    "one_hot",
    "relu",
    "relu6",
    "rms_norm",
    "selu",
    "sigmoid",
    "sigmoid_cross_entropy",
    "silu",
    "soft_sign",
    "softmax",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_probabilities",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]


__dir__ = names_shown(__name__)
