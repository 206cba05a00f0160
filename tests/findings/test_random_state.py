"""Entry 1.10: a draw from a generator's state is one for all calls and examples: refused."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import ROOT

import fgrad
from fgrad.errors import RandomStateError

rng = np.random.default_rng(7)
legacy = np.random.RandomState(7)
own = random.Random(7)


class Sampler:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def noisy(self, x: Any) -> Any:
        return x + self.rng.normal()


sampler = Sampler()
kept = [{"rng": np.random.default_rng(5)}]


def through_a_helper(x: Any) -> Any:
    return sampler.noisy(x)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "np.random.rand": lambda x: x + np.random.rand(),
    "np.random.randn": lambda x: x + np.random.randn(),
    "np.random.shuffle": lambda x: x + np.random.permutation(3)[0],
    "Generator": lambda x: x + rng.normal(),
    "RandomState": lambda x: x + legacy.normal(),
    "random": lambda x: x + random.random(),
    "random.gauss": lambda x: x + random.gauss(0.0, 1.0),
    "Random": lambda x: x + own.uniform(0.0, 1.0),
    "method": sampler.noisy,
    "helper": through_a_helper,
    "in a container": lambda x: x + kept[0]["rng"].normal(),
}

TRACES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: fgrad.jit(f)(1.0),
    "vmap": lambda f: fgrad.vmap(f)(np.ones(3)),
    "jit of grad": lambda f: fgrad.jit(fgrad.grad(f))(1.0),
    "vmap of grad": lambda f: fgrad.vmap(fgrad.grad(f))(np.ones(3)),
    "fori_loop": lambda f: fgrad.lax.fori_loop(0, 3, lambda _, x: f(x), 1.0),
    "scan": lambda f: fgrad.lax.scan(lambda c, x: (f(c), x), 1.0, np.ones(3)),
}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("draw", DRAWS)
def test_1_10_a_draw_in_a_trace_is_refused(draw: str, trace: str) -> None:
    for _ in range(2):  # the second normal number of a pair changes no position
        with pytest.raises(RandomStateError, match="draws random numbers"):
            TRACES[trace](DRAWS[draw])


def test_1_10_a_draw_at_the_prompt_is_the_users_own() -> None:
    for draw in DRAWS.values():
        assert fgrad.grad(draw)(1.0) == 1.0


def test_1_10_a_generator_made_in_the_function_gives_what_its_seed_gives() -> None:
    def f(x: Any) -> Any:
        return x + np.random.default_rng(0).normal()

    expected = np.ones(3) + np.random.default_rng(0).normal()
    np.testing.assert_array_equal(fgrad.vmap(f)(np.ones(3)), expected)
    np.testing.assert_array_equal(fgrad.jit(f)(np.ones(3)), expected)


def test_1_10_what_the_card_says_works() -> None:
    def f(key: Any, x: Any) -> Any:
        return x + fgrad.random.normal(key, x.shape)

    keys = fgrad.random.split(fgrad.random.key(0), 3)
    out = fgrad.jit(fgrad.vmap(f))(keys, np.zeros(3))
    assert len(set(out.tolist())) == 3


NUMPY = "import numpy as np\ndraw = lambda: "
FIRST_DRAWS = {
    "np.random": NUMPY + "np.random.normal()",
    "np.random, whole blocks": NUMPY + "np.random.rand(312)[0]",
    "np.random, seeded": NUMPY + "np.random.seed(0) or np.random.rand()",
    "random, loaded by the function": "def draw():\n    import random\n    return random.random()",
    "random without np.random": "import random\nr = random.Random(0)\ndraw = lambda: r.random()",
}


@pytest.mark.parametrize("how", FIRST_DRAWS)
@pytest.mark.parametrize("trace", ["jit(f)(1.0)", "vmap(f)(fgrad.numpy.ones(2))"])
def test_the_first_draw_of_a_process_raises(how: str, trace: str, tmp_path: Path) -> None:
    """NumPy loads `numpy.random` when it is first read, which may be within the function."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import sys, fgrad\nsys.modules.pop('random', None)\n{FIRST_DRAWS[how]}\n"
        f"def f(x):\n    return x + draw()\nfgrad.{trace}\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True)
    assert "RandomStateError" in done.stderr, done.stderr


def test_loading_the_modules_is_no_draw(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, fgrad\nimport numpy as np\nsys.modules.pop('random', None)\n"
        "def f(x):\n    import random\n    np.random\n    return 2.0 * x\n"
        "assert fgrad.jit(f)(1.0) == 2.0\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, program], env=env, check=True)
