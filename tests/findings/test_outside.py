"""Entry 1.7: what a jitted function reads from outside is as it is at the time of the call.

Each case is a little module with a function `f`, and statements that change what `f` reads.
After each of them, calls of `jit(f)` give what NumPy gives.
"""

from __future__ import annotations

import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import RetraceWarning
from fgrad.tracing.outside.world import world_of

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
    module = sys.modules["a_users_module"] = types.ModuleType("a_users_module")
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
    scope = run("s = 0\ndef f(x):\n  for k in range(s): x = x + 2.0\n  return x")
    jitted = fgrad.jit(scope["f"])
    with pytest.warns(RetraceWarning, match="last s: pass it to f as an argument"):
        for k in range(20):
            scope["s"] = k
            assert jitted(2.0) == 2.0 * (k + 1)


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


# A number `s` that changes at each call: code that calculates with it alone takes it as an input.
SWEPT: dict[str, tuple[str, str]] = {
    "global": ("s = 0.5\ndef f(x): return x * s", "s"),
    "closure": (
        "def make():\n  s = 0.5\n  def f(x): return x * s\n"
        "  def put(v):\n    nonlocal s\n    s = v\n  return f, put\nf, put = make()",
        "put",
    ),
    "dictionary": ("c = {'a': {'s': 0.5}}\ndef f(x): return x - c['a']['s'] * x", "c['a']['s']"),
    "attribute": ("c = types.SimpleNamespace(s=0.5)\ndef f(x): return x * c.s", "c.s"),
    "slot": (
        "class C: __slots__ = ('s',)\nc = C(); c.s = 0.5\ndef f(x): return x * c.s",
        "c.s",
    ),
    "class": ("class C: s = 0.5\ndef f(x): return x * C.s", "C.s"),
    "inherited": (
        "class C: s = 0.5\nclass D(C): pass\nd = D()\ndef f(x): return x * d.s",
        "C.s",
    ),
    "method": (
        "class C:\n  def __init__(self): self.s = 0.5\n  def half(self, x): return x * self.s\n"
        "  def __call__(self, x): return self.half(x) + self.s\nf = C()",
        "f.s",
    ),
    "property": (
        "class C:\n  s = 0.5\n  @property\n  def t(self): return 2 * self.s\n"
        "c = C()\ndef f(x): return x * c.t",
        "c.s",
    ),
    "module": ("m = types.ModuleType('m'); m.s = 0.5\ndef f(x): return x * m.s", "m.s"),
    "helper": (
        "s = 0.5\ndef h(x): return x * s\ndef g(x): return h(x)\ndef f(x): return g(x)",
        "s",
    ),
    "inner function": ("s = 0.5\ndef f(x):\n  def g(y): return y * s\n  return g(x)", "s"),
    "derived": ("s = 0.5\ndef f(x):\n  t = 1 - s\n  return x * t / (2 * s**2 + 1)", "s"),
    "function of numpy": ("s = 0.5\ndef f(x): return np.where(x > 0, x, np.exp(-s) * x)", "s"),
    "derivative": (
        "import fgrad\ns = 0.5\ndef loss(x): return np.sum(x * x * s)\nf = fgrad.grad(loss)",
        "s",
    ),
    "derivative inside": (
        "import fgrad\ns = 0.5\ndef loss(x): return np.sum(x * x * s)\n"
        "def f(x): return x - s * fgrad.grad(loss)(x)",
        "s",
    ),
    "vmap": ("import fgrad\ns = 0.5\ndef one(a): return a * s\nf = fgrad.vmap(one)", "s"),
    "jit inside": (
        "import fgrad\ns = 0.5\n@fgrad.jit\ndef h(x): return x * s\ndef f(x): return h(x) + s",
        "s",
    ),
    "derivative of jit": (
        "import fgrad\ns = 0.5\n@fgrad.jit\ndef loss(x): return np.sum(x * x * s)\n"
        "f = fgrad.grad(loss)",
        "s",
    ),
    "loop": (
        "import fgrad\ns = 0.5\n"
        "def f(x): return fgrad.lax.fori_loop(0, 3, lambda i, c: c * s + 1.0, x)",
        "s",
    ),
    "partial": (
        "s = 0.5\ndef h(a, x): return a * x * s\nq = functools.partial(h, 2.0)\n"
        "def f(x): return q(x)",
        "s",
    ),
    "counted": (
        "s = 0.5\nclass C: n = 0\nc = C()\ndef f(x):\n  c.n += 1\n  return x * s",
        "s",
    ),
}  # fmt: skip
KINDS = {
    "float": lambda k: 0.01 * k + 0.1,
    "int": lambda k: k + 3,
    "complex": lambda k: 0.5 + 0.1j * k,
    "float32": lambda k: np.float32(0.25 * k + 1.0),
    "int8": lambda k: np.int8(k % 4),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SWEPT)
def test_1_7_a_number_that_changes_becomes_an_input(case: str, kind: str) -> None:
    source, place = SWEPT[case]
    scope = run(source)
    plain = scope["f"]
    if kind == "complex" and ("deriv" in case or case == "loop"):
        pytest.skip("NumPy's result is complex, or there is none")
    jitted = fgrad.jit(plain)
    x = np.linspace(-1.0, 2.0, 8)
    for k in range(12):
        scope["new"] = KINDS[kind](k)
        exec("put(new)" if place == "put" else f"{place} = new", scope)
        for _ in range(2):
            found, expected = jitted(x), plain(x)
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=f"{k}")
            assert found.dtype == expected.dtype
    assert jitted.changes <= 2


# Where the trace needs the number, it stays what is compared.
NEEDED = {
    "branch": "x * s if s > 3 else x",
    "range": "sum([x for _ in range(int(s))])",
    "index": "x[s % 8] * x",
    "shape": "x + np.ones((s, 8)).sum(axis=0)",
    "text": "x * len('1' * s)",
    "formatted": "x * len(f'{s}')",
    "class": "x * (1.0 if isinstance(s, int) else 2.0) * s",
    "identity": "x * s if type(s) is int else x",
    "attribute": "x * s.bit_length()",
    "caught": "swallow(x)",
    "matched": "cases(x)",
    "a list of it": "functools.reduce(lambda a, b: a * b, [s, s], x)",
    "stored": "(log.append(s) or x) * s",
    "derived and stored": "(log.append(s * 2) or x) * s",
}


@pytest.mark.parametrize("use", NEEDED)
def test_1_7_numbers_that_the_trace_needs_are_compared(use: str) -> None:
    scope = run(
        "s, log = 1, []\n"
        "def swallow(x):\n  try: return x * float(s)\n  except Exception: return -x\n"
        "def cases(x):\n  match s:\n    case int(): return x * s\n  return -x\n"
        f"def f(x): return {NEEDED[use]}"
    )
    jitted, x = fgrad.jit(scope["f"]), np.linspace(-1.0, 2.0, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for k in (1, 2, 5, 3, 4, 9, 2, 1):
            scope["s"] = k
            for _ in range(3):
                np.testing.assert_allclose(jitted(x), scope["f"](x))
    assert all([type(n) is int for n in scope["log"]])


# The number is also reached in a way that only the running code knows: it must not be taken for an
# input of one of them alone.
UNSEEN: dict[str, str] = {
    "rule": (
        "import fgrad\n@fgrad.custom_vjp\ndef h(x): return x * 2.0\n"
        "h.defvjp(lambda x: (h(x), None), lambda _, ct: (ct * s,))\n"
        "def f(x): return fgrad.grad(lambda y: np.sum(h(y) * s))(x)"
    ),
    "weak reference": (
        "import weakref\nclass C: s = 0.0\nc = C(); c.s = 1; r = weakref.ref(c)\n"
        "def f(x): return x * c.s + r().s"
    ),
    "iterator": (
        "import itertools\nclass C: s = 0.0\nc = C(); c.s = 1; r = itertools.cycle([c])\n"
        "def f(x): return x * c.s + next(r).s"
    ),
    "set": (
        "class C: s = 0.0\nc = C(); c.s = 1; r = {c}\n"
        "def f(x): return x * c.s + sum([k.s for k in r])"
    ),
    "context": (
        "import contextvars\nclass C: s = 0.0\nc = C(); c.s = 1\n"
        "r = contextvars.ContextVar('r', default=c)\ndef f(x): return x * c.s + r.get().s"
    ),
    "computed name": (
        "class C:\n  def __init__(self): self.s = 1; self.kind = 'a'\n"
        "  def go_a(self, x): return x * self.s\n"
        "  def __call__(self, x): return getattr(self, 'go_' + self.kind)(x) + self.s\n"
        "c = C()\ndef f(x): return c(x)"
    ),
    "table": ("t = {'a': lambda x: x * s, 'b': abs}\ndef f(x): return t['ab'[len(x) > 99]](x) + s"),
    "argument": "def h(x, k): return x * k['s']\nk = {'s': 1}\ndef f(x): return h(x, k) * k['s']",
}


@pytest.mark.parametrize("case", UNSEEN)
def test_1_7_numbers_with_ways_that_are_not_known_are_compared(case: str) -> None:
    scope = run("s = 1\n" + UNSEEN[case])
    jitted, x = fgrad.jit(scope["f"]), np.linspace(-1.0, 2.0, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for k in (0.5, 0.25, 1.5, 2.5, 3.5, 0.75):
            scope["s"] = k
            if "c" in scope:
                scope["c"].s = k
            if "k" in scope:
                scope["k"]["s"] = k
            for _ in range(3):
                np.testing.assert_allclose(jitted(x), scope["f"](x))


def test_1_7_a_small_integer_type_refuses_large_numbers_that_are_read() -> None:
    scope = run("s = 1\ndef f(x): return x.astype(np.int8) * s")
    jitted, x = fgrad.jit(scope["f"]), np.arange(3.0)
    for k in (1, 2, 3):
        scope["s"] = k
        np.testing.assert_array_equal(jitted(x), scope["f"](x))
    scope["s"] = 1000
    with pytest.raises(OverflowError):
        jitted(x)


def test_1_7_functions_that_count_their_calls_do_not_trace_each_other_again() -> None:
    scope = run(
        "n, made = 0, []\nclass C: k = 0\nc, d = C(), {'n': 0}\n"
        "def count():\n  global n\n  n += 1\n  c.k += 1\n  d['n'] += 1\n  made.append(1)\n"
        "def f(x): count(); return x + 1\ndef g(x): count(); return x - 1"
    )
    f, g = fgrad.jit(scope["f"]), fgrad.jit(scope["g"])
    for _ in range(10):
        f(1.0), g(1.0)
    assert scope["n"] == scope["c"].k == scope["d"]["n"] == len(scope["made"]) == 2


def test_1_7_threads_that_change_a_number_get_a_result_of_one_of_its_values() -> None:
    scope = run("c = {'s': 1.0}\ndef f(x): return x * c['s'] + np.cumsum(x) * c['s']")
    jitted, x = fgrad.jit(scope["f"]), np.ones(4)
    wanted = {s: x * s + np.cumsum(x) * s for s in (1.0, 2.0, 3.0)}
    wrong: list[Any] = []

    def work(s: float) -> None:
        for _ in range(300):
            scope["c"]["s"] = s
            found = jitted(x)
            if not any([np.array_equal(found, w) for w in wanted.values()]):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(s,)) for s in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Uses of an array `B` that changes, each an input: where it is, and how it is read.
TAKEN = {
    "global": ("B = np.ones(1000)", "B", "B * x"),
    "dictionary": ("d = {'B': np.ones(1000)}", "d['B']", "d['B'] * x"),
    "list": ("d = [1, np.ones(1000)]", "d[1]", "d[1] * x"),
    "attribute": ("d = types.SimpleNamespace(B=np.ones(1000))", "d.B", "d.B * x"),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n  B: object\nd = D(np.ones(1000))",
        "d.B",
        "d.B * x",
    ),
    "alias": ("B = np.ones(1000)", "B", "(lambda c: c * x + c)(B)"),
    "dot": ("B = np.ones((1000, 1000))", "B", "np.dot(B, x)"),
    "transposed": ("B = np.ones((1000, 1000))", "B", "B.T @ x"),
    "first plainly": (
        "B = np.ones(1000)\ndef fold(x):\n  a = 1.0\n"
        "  for k in range(3): a = B * a + (x if k else 0.5)\n  return a",
        "B",
        "fold(x)",
    ),
    "reduced": ("B = np.ones(1000)", "B", "B * x + B.sum()"),
    "part": ("B = np.ones((3, 1000))", "B", "B[1] * x + B[0, 3]"),
    "shape": ("B = np.ones(1000)", "B", "B * x * len(B) * B.shape[0]"),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_1_7_arrays_are_inputs_however_they_are_reached(case: str) -> None:
    source, place, use = TAKEN[case]
    scope = run(f"{source}\ndef f(x): return {use}")
    jitted, x = fgrad.jit(scope["f"]), np.linspace(-1.0, 2.0, 1000)
    for k in range(12):
        exec(f"{place}[...] = np.arange({place}.size).reshape({place}.shape) % {k + 3}", scope)
        for _ in range(2):
            np.testing.assert_allclose(jitted(x), scope["f"](x))
    assert jitted.changes == 0
    assert inputs_of(jitted) == 1


PLAIN_READS: dict[str, str] = {
    "a branch": "out = B * x if B[0] > 0 else x",
    "a reduction": "out = B * x + B.max()",
    "a list of numbers": "out = B * x + B.tolist()[500]",
    "written": "B[0] = 1.0\nout = B * x",
    "seen as another class": "out = B * x if isinstance(B, np.ndarray) else x",
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


def test_1_7_long_chains_of_functions_are_looked_through() -> None:
    lines = [f"def f{k}(x): return f{k + 1}(x) if x.shape else f{k + 9}(x)" for k in range(400)]
    scope: dict[str, Any] = {"factor": 2.0}
    exec("\n".join([*lines, "def f400(x): return x * factor"]), scope)
    world = world_of(scope["f0"], {})
    assert all([id(scope[f"f{k}"]) in world.links for k in range(401)])
    assert (id(scope), "factor") in world.links


def test_1_7_objects_that_make_up_attributes_are_looked_at() -> None:
    class Library:
        """Has every attribute, as libraries that are loaded by name."""

        __slots__ = ()

        def __getattr__(self, name: str) -> Callable[..., float]:
            return lambda *_: 2.0

    library = Library()

    def scaled(x: np.ndarray) -> Any:
        return x * library.factor()

    assert fgrad.jit(scaled)(np.ones(2)).tolist() == [2.0, 2.0]


def test_what_the_trace_itself_changed_is_looked_at() -> None:
    """The world is walked again after a trace where that has changed something."""
    frozen, cache, x = np.ones(3), {}, np.arange(3.0)
    frozen.flags.writeable = False

    def thaws(x: Any) -> Any:
        frozen.flags.writeable = True
        return x * frozen

    def fills(x: Any) -> Any:
        return x * cache.setdefault("k", 2.0)

    for fun, change in ((thaws, lambda: frozen.fill(5.0)), (fills, lambda: cache.update(k=5.0))):
        ours = fgrad.jit(fun)
        for _ in range(3):
            np.testing.assert_array_equal(ours(x), fun(x))
        change()
        np.testing.assert_array_equal(ours(x), 5.0 * x)
