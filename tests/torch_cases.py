"""Optimisers that PyTorch and `fgrad.optim` both have, by name, and what makes them there.

`python benchmarks/torch_values.py` runs them by PyTorch and writes tests/golden/torch_steps.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fgrad.typing import PyTree

RATE = 0.1
DTYPES = ("float64", "float32", "complex128")
Make: TypeAlias = Callable[..., PyTree]
# For each name: of `torch.optim` and parameters, and of `fgrad.optim`.
CASES: dict[str, tuple[Make, Make]] = {
    "sgd": (
        lambda t, ps: t.SGD(ps, lr=RATE, momentum=0.9, nesterov=True),
        lambda o: o.sgd(RATE, 0.9, True),
    ),
    "adam": (lambda t, ps: t.Adam(ps, lr=RATE), lambda o: o.adam(RATE)),
    "adamw": (
        lambda t, ps: t.AdamW(ps, lr=RATE, weight_decay=0.1),
        lambda o: o.adamw(RATE, weight_decay=0.1),
    ),
    "adamax": (lambda t, ps: t.Adamax(ps, lr=RATE), lambda o: o.adamax(RATE)),
    "adagrad": (lambda t, ps: t.Adagrad(ps, lr=RATE), lambda o: o.adagrad(RATE)),
    "adadelta": (lambda t, ps: t.Adadelta(ps, lr=RATE), lambda o: o.adadelta(RATE)),
    "radam": (lambda t, ps: t.RAdam(ps, lr=RATE), lambda o: o.radam(RATE)),
    "rmsprop": (
        lambda t, ps: t.RMSprop(ps, lr=RATE, alpha=0.9, momentum=0.5, centered=True),
        lambda o: o.rmsprop(RATE, 0.9, centered=True, momentum=0.5),
    ),
    "rprop": (lambda t, ps: t.Rprop(ps, lr=RATE), lambda o: o.rprop(RATE)),
}
