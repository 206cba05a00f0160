"""Entry 1.7: what a jitted function reads from outside is as it is at the time of the call.

Each case is a little module with a function `f`, and statements that change what `f` reads.
After each of them, calls of `jit(f)` give what NumPy gives.
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import RetraceWarning
from fgrad.outside.hidden import COUNTS

HEAD = """
import functools, math, types
import numpy as np
X = np.arange(1.0, 9.0)
"""

CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "array written in place": (
        "def f(x): return np.sum(X * x)",
        ("X[:] = 1", "X += 2", "X[3] = np.nan", "X[3] = 0"),
    ),
    "array bound anew": (
        "def f(x): return np.sum(X * x)",
        ("X = X + 1", "X = np.ones(8, np.float32)", "X = np.arange(8)"),
    ),
    "view of an array": (
        "V = X[::2]\ndef f(x): return np.sum(V * x[::2]) + np.sum(X[1:3])",
        ("X[:] = 1", "V[:] = 7", "X[2] = -3"),
    ),
    "array that NumPy reads itself": (
        "def f(x): return x * X.mean() + len(np.nonzero(X > 2)[0]) if X[0] > 0 else x",
        ("X[:] = 5", "X[0] = -1", "X[:] = 0.5"),
    ),
    "integers and masks": (
        "I = np.array([1, 2]); K = np.array([True, False] * 4)\n"
        "def f(x): return x[I] @ x[I] + np.sum(np.where(K, x, 0.0))",
        ("I[0] = 5", "K[:] = False", "I = np.array([0, 0, 0])"),
    ),
    "number": ("s = 2.0\ndef f(x): return x * s", ("s = 3.0", "s = 3", "s = -0.0", "s = 0.0")),
    "dictionary": (
        'cfg = {"lr": 0.1, "net": {"k": 2}}\ndef f(x): return x * cfg["lr"] + cfg["net"]["k"]',
        ('cfg["lr"] = 0.2', 'cfg["net"]["k"] = 5', 'cfg["net"] = {"k": 6}',
         'cfg = {"lr": 1.0, "net": {"k": 0}}'),
    ),
    "dictionary as a whole": (
        "p = {'a': 1.0, 'b': X}\ndef f(x):\n"
        "  for v in p.values(): x = x * 2 + v\n  return x",
        ("p['a'] = 3.0", "p['c'] = 4.0", "p['b'][0] = 9", "p.pop('a')", "p['a'] = 1.0",
         "del p['c']"),
    ),
    "list": (
        "Ws = [np.ones(8), 2.0]\ndef f(x): return sum([w * x for w in Ws])",
        ("Ws[1] = 3.0", "Ws.append(4.0)", "Ws[0][:] = 5", "Ws.pop()", "Ws[:] = []", "Ws = [1.0]"),
    ),
    "closure": (
        "def make():\n  s = 1.0\n  def f(x): return x * s\n"
        "  def put(v):\n    nonlocal s\n    s = v\n"
        "  return f, put\nf, put = make()",
        ("put(2.0)", "put(np.arange(8.0))", "put(3)"),
    ),
    "inner function": (
        "s = 1.0\ndef f(x):\n  def g(y): return y * s + np.sum(X)\n"
        "  return g(x) + (lambda z: z + s)(x)",
        ("s = 2.0", "X[:] = 0"),
    ),
    "helper": (
        "s = 2.0\ndef h(x): return x * s\ndef g(x): return h(x) + 1\ndef f(x): return g(x)",
        ("s = 3.0", "def h(x): return x - s", "s = 5.0", "h.__code__ = (lambda x: x / s).__code__"),
    ),
    "helper in a table": (
        "s = 2.0\nops = {'a': lambda x: x * s, 'b': [abs]}\n"
        "def f(x): return ops['a'](ops['b'][0](x))",
        ("s = 3.0", "ops['b'][0] = np.negative", "ops['a'] = lambda x: x + s", "s = 7.0"),
    ),
    "partial": (
        "s = 2.0\ndef h(a, x, b=1.0): return a * x * s + b\nq = functools.partial(h, 3.0)\n"
        "def f(x): return q(x)",
        ("s = 1.5", "q = functools.partial(h, 4.0, b=2.0)"),
    ),
    "default": (
        "D = np.ones(8)\ndef f(x, w=D): return x * w",
        ("D[:] = 3",),
    ),
    "object": (
        "class M:\n  scale = 1.0\n  def __init__(self): self.w = np.ones(8); self.b = 1.0\n"
        "  def __call__(self, x): return self.predict(x) * self.scale\n"
        "  def predict(self, x): return self.w * x + self.b\n"
        "m = M()\ndef f(x): return m(x)",
        ("m.w *= 2", "m.b = 5.0", "m.w = np.zeros(8)", "m.scale = 2.0", "del m.scale",
         "M.scale = 4.0",
         "M.predict = lambda self, x: x - self.b", "m.b = -1.0", "m = M()",
         "m.__dict__ = {'w': X, 'b': 0.5}", "m.b = 0.25"),
    ),
    "objects in a list": (
        "class L:\n  def __init__(self, w): self.w = w\n  def forward(self, x): return self.w * x\n"
        "net = [L(2.0), L(np.ones(8))]\n"
        "def f(x):\n  for layer in net: x = layer.forward(x)\n  return x",
        ("net[0].w = 3.0", "net[1].w[:] = 4", "net.append(L(5.0))", "net[2].w = 6.0"),
    ),
    "slots and properties": (
        "class P:\n  __slots__ = ('a', 'c')\n  @property\n  def twice(self): return 2 * self.a\n"
        "p = P(); p.a = 1.0\ndef f(x): return x * p.twice + getattr(p, 'c', 0.0)",
        ("p.a = 3.0", "p.c = 2.0", "del p.c"),
    ),
    "class attributes": (
        "class C:\n  lr = 0.1\nclass E(C): pass\ndef f(x): return x * E.lr",
        ("C.lr = 0.5", "E.lr = 2.0", "del E.lr"),
    ),
    "module": (
        "settings = types.ModuleType('settings')\nsettings.k = 2.0\n"
        "def f(x): return x * settings.k",
        ("settings.k = 3.0",),
    ),
    "transforms": (
        "import fgrad\ns = 2.0\ndef loss(x): return np.sum(x * x * s * X)\n"
        "g = fgrad.grad(loss)\nj = fgrad.jit(loss)\ndef f(x): return g(x) + j(x)",
        ("s = 3.0", "X[:] = 1", "def loss2(x): return np.sum(x)", "g = fgrad.grad(loss2)"),
    ),
    "two slots with one value": (
        "class P: __slots__ = ('a', 'b')\np = P(); p.a = p.b = 1.0\n"
        "def f(x): return x * p.b + p.a",
        ("p.b = 3.0", "p.a = 2.0"),
    ),
    "super": (
        "class A:\n  k = 1.0\n  def g(self, x): return x * self.k\n"
        "class B(A):\n  def g(self, x): return super().g(x) - 1\n"
        "b = B()\ndef f(x): return b.g(x)",
        ("A.k = 2.0", "b.k = 3.0", "A.g = lambda self, x: x / self.k"),
    ),
    "defaults bound anew": (
        "def h(x, a=1.0, *, b=2.0): return x * a + b\ndef f(x): return h(x)",
        ("h.__defaults__ = (3.0,)", "h.__kwdefaults__ = {'b': 5.0}", "h.__kwdefaults__['b'] = 6.0"),
    ),
    "a name of Python": (
        "def f(x): return sum([x, x]) * max(1.0, 2.0)",
        ("def sum(xs): return xs[0]", "max = min"),
    ),
}  # fmt: skip


def run(source: str) -> dict[str, Any]:
    module = types.ModuleType("a_users_module")
    exec(HEAD + source, vars(module))
    return vars(module)


@pytest.mark.parametrize("case", CASES)
def test_1_7_the_world_is_as_it_is_at_each_call(case: str) -> None:
    source, changes = CASES[case]
    scope = run(source)
    f = scope["f"]
    jitted = fgrad.jit(f)
    x = np.linspace(-1.0, 2.0, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for change in ("", *changes):
            exec(change, scope)
            for _ in range(4):
                np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12, err_msg=change)


def test_1_7_methods_see_the_weights_of_their_object() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = np.ones(3)
            self.b = 0.0

        @fgrad.jit(static_argnames="self")
        def predict(self, x: Any) -> Any:
            return x * self.w + self.b

        def loss(self, x: Any) -> Any:
            return np.sum(x * self.w) + self.b

    one, two = Model(), Model()
    x = np.arange(3.0)
    bound = fgrad.jit(one.loss)
    for step in range(3):
        one.w += 1.0
        two.b = float(step)
        for _ in range(3):
            np.testing.assert_array_equal(one.predict(x), x * one.w + one.b)
            np.testing.assert_array_equal(two.predict(x), x * two.w + two.b)
            np.testing.assert_array_equal(bound(x), np.sum(x * one.w) + one.b)


def test_1_7_a_name_that_changes_often_warns() -> None:
    scope = run("s = 0.0\ndef f(x): return x * s")
    jitted = fgrad.jit(scope["f"])
    with pytest.warns(RetraceWarning, match="last s: pass it to f as an argument"):
        for k in range(20):
            scope["s"] = float(k)
            assert jitted(2.0) == 2.0 * k


def test_1_7_what_did_not_change_is_not_traced_again() -> None:
    traced: list[int] = []

    def f(x: Any) -> Any:
        traced.append(1)
        return x * scope["s"]

    scope = {"s": 2.0, "other": 0}
    jitted = fgrad.jit(f)
    for k in range(5):
        scope["s"] = float("2.0")
        scope["other"] = k
        assert jitted(3.0) == 6.0
    assert len(traced) == 1


def inputs_of(jitted: Any) -> int:
    """How many arrays from outside the latest trace takes as inputs."""
    return len(list(jitted.entries.values())[-1].captured)


@pytest.mark.skipif(not COUNTS, reason="runs of instructions cannot be counted")
@pytest.mark.skipif(sys.gettrace() is not None, reason="another tool traces this thread")
def test_1_7_large_arrays_that_are_calculated_with_are_read_at_each_call() -> None:
    A, b = np.ones((100, 10)), np.zeros(100)

    def loss(w: Any) -> Any:
        r = A @ w - b
        return np.sum(r * r)

    jitted, gradient = fgrad.jit(loss), fgrad.jit(fgrad.grad(loss))
    for k in range(30):  # no warning: nothing is traced again but once, for the small array
        A[:] = np.arange(1000.0).reshape(100, 10) % (k + 3)
        b[:] = k
        w = np.linspace(0.0, 1.0, 10)
        np.testing.assert_allclose(jitted(w), loss(w))
        np.testing.assert_allclose(gradient(w), 2 * A.T @ (A @ w - b))
    assert inputs_of(jitted) == inputs_of(gradient) == 2


PLAIN_READS: dict[str, str] = {
    "first plainly, then traced": (
        "a = 1.0\nfor k in range(3): a = B * a + (x if k else 0.5)\nout = a"
    ),
    "a branch": "out = B * x if B[0] > 0 else x",
    "a reduction": "out = B * x + B.max()",
    "an alias": "c = B\nout = B * x + c * 2.0",
    "a converted operand": "out = B * x.astype(np.float32).astype(np.float16) + B",
}


@pytest.mark.parametrize("case", PLAIN_READS)
def test_1_7_arrays_whose_numbers_were_read_are_compared(case: str) -> None:
    body = "\n".join(["  " + line for line in PLAIN_READS[case].split("\n")])
    scope = run(f"B = np.ones(1000)\ndef f(x):\n{body}\n  return out")
    jitted, x = fgrad.jit(scope["f"]), np.linspace(-1.0, 2.0, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for value in (1.0, -2.0, 3.0, 0.5):
            for place in (0, 500, slice(None)):
                scope["B"][place] = value
                for _ in range(3):
                    np.testing.assert_allclose(jitted(x), scope["f"](x), rtol=1e-3)
