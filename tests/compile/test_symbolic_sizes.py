"""Sizes as symbols: what a template computes is what a trace for that size computes, to the bit."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES
from resized import compared, over_sizes, same

import fgrad
from fgrad import explain_retrace, grad, lax, value_and_grad, vmap
from fgrad.base.size_code import Formula, listed
from fgrad.base.size_data import Writer, evaluated
from fgrad.base.size_functions import chosen, least, length_of, most, slice_of, truncated
from fgrad.base.size_words import BadNumbers, checked, failing
from fgrad.base.sizes import Num, Sizes
from fgrad.errors import ArgumentError, RetraceWarning

Program = Callable[..., Any]
jit = functools.partial(fgrad.jit, dynamic="auto")


def _served(function: Any) -> int:
    return sum([e.is_instance for e in {id(e): e for e in function.entries.values()}.values()])


# --- numbers


def _value(kind: int, a: Any, b: Any) -> Any:
    functions = [
        lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // 7, lambda: a % 5,
        lambda: -(-a // 8), lambda: (a * b) // 4, lambda: least(a, b, 40), lambda: most(a, b),
        lambda: chosen(a, b, a, b), lambda: truncated(a * 1.5), lambda: length_of(2, a, 3),
        lambda: slice_of(slice(1, -1, 2), a)[1], lambda: a * 12 // 3, lambda: max(a, 3) % 4,
    ]  # fmt: skip
    return functions[kind % len(functions)]()


def _decisions(kinds: list[int], n: Any, m: Any) -> tuple[list[Any], list[bool]]:
    numbers, found = [n, m, 3], []
    for k, kind in enumerate(kinds):
        a, b = numbers[kind % len(numbers)], numbers[(kind // 7) % len(numbers)]
        if abs(a) > 1 << 40:
            break
        numbers.append(_value(kind // 3, a, b))
        if k % 3 == 0:
            found.append(bool(numbers[-1] < b))
            found.append(bool(numbers[-1] == a))
    return numbers, found


def _drawn(rng: np.random.Generator) -> tuple[list[int], Sizes, list[Any], Callable[..., Any]]:
    """Kinds of decisions, sizes, the numbers that are made of them, and what evaluates those."""
    kinds = [int(k) for k in rng.integers(0, 1000, 14)]
    sizes = Sizes({0: 33, 1: 12})
    numbers, _ = _decisions(kinds, sizes.symbol(0), sizes.symbol(1))
    formula = Formula(sizes)
    formula.guards()
    return kinds, sizes, numbers, formula.compiled(listed([formula.text(x) for x in numbers]))


@pytest.mark.parametrize("seed", range(40))
def test_where_guards_hold_numbers_and_decisions_are_those_of_the_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds, _, _, at = _drawn(rng)
    assert at(33, 12) is not None
    expected = _decisions(kinds, 33, 12)[1]
    for n, m in rng.integers(2, 300, (60, 2)):
        found = at(int(n), int(m))
        if found is not None:
            assert _decisions(kinds, int(n), int(m)) == (list(found), expected)


class _Three(enum.IntEnum):
    """A number of a class of its own."""

    N = 3


OTHERS = [np.float32(2), np.float64(2), np.int8(2), np.int64(2), np.bool_(True), _Three.N,
          np.ones(1, np.float32), np.array(2.0, np.float32), np.arange(1, 3)]  # fmt: skip
OPERATIONS: dict[str, Program] = {
    "a + b": lambda a, b: a + b, "a - b": lambda a, b: a - b, "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b, "a // b": lambda a, b: a // b, "a % b": lambda a, b: a % b,
    "a ** b": lambda a, b: a**b, "divmod": lambda a, b: divmod(a, b)[1],
    "a < b": lambda a, b: a < b, "a >= b": lambda a, b: a >= b, "a == b": lambda a, b: a == b,
    "multiply": np.multiply,
    "maximum": np.maximum, "power": np.power, "arctan2": np.arctan2, "less": np.less,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("k", range(len(OTHERS)))
def test_sizes_with_numbers_that_are_not_python_s(name: str, k: int) -> None:
    """Their types decide the dtype of the result, which sizes as numbers of Python do not."""
    other, op = OTHERS[k], OPERATIONS[name]
    for f in (lambda x: x * op(x.shape[0], other), lambda x: x * op(other, x.shape[0])):
        shared = fgrad.jit(f, dynamic=True)
        for n in (9, 20, 9):
            x = np.ones((n, 1), np.float32)
            expected, found = f(x), shared(x)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def _deep(n: Any) -> Any:
    x = n
    for _ in range(3000):
        x = x * 0.5 + 1.0
    return x


def test_numbers_are_thousands_of_operations_deep() -> None:
    sizes = Sizes({0: 33})
    number = _deep(sizes.symbol(0))
    formula = Formula(sizes)
    at = formula.compiled(listed([formula.text(number)]))
    writer = Writer(sizes)
    place = writer.place(number.terms)
    for n in (2, 40):
        assert at(n) == (_deep(n),)
        assert evaluated(writer.numbers, [n])[place] == _deep(n)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_and_guards_leave_as_data(seed: int) -> None:
    """What is evaluated from data has the values and the guards of the numbers themselves."""
    rng = np.random.default_rng(seed)
    _, sizes, numbers, at = _drawn(rng)
    writer = Writer(sizes)
    places = [writer.operand(x) for x in numbers]
    written = writer.written()
    checked(2, *json.loads(json.dumps(written)))
    for n, m in [(33, 12), *rng.integers(2, 300, (60, 2)).tolist()]:
        try:
            values = evaluated(written.numbers, [n, m])
        except BadNumbers:
            assert at(n, m) is None
            continue
        found = at(n, m)
        assert (failing(written.guards, values) is None) == (found is not None)
        if found is not None:
            assert [p[0] if isinstance(p, list) else values[p] for p in places] == list(found)


USES: list[Callable[[Any], Any]] = [
    int, float, hash, str, repr, range, bool, round, complex, np.float64, np.asarray, np.sqrt,
    np.ones, lambda n: f"{n}", lambda n: f"{n:5d}", lambda n: f"{n}", lambda n: [0] * n,
    lambda n: n & 3, lambda n: n >> 1, lambda n: 1 << (n % 5), lambda n: n**0.5, lambda n: 1 / n,
    lambda n: {9: "nine"}.get(n), lambda n: n in {9, 64}, lambda n: "abcdefghij"[n % 9],
    lambda n: divmod(n, 4), lambda n: n.bit_length(), lambda n: isinstance(n, int),
    lambda n: n == 9, lambda n: max(n, 9), lambda n: np.arange(3) * n, lambda n: (n, 1) < (9, 2),
    lambda n: sum(range(n)), lambda n: np.int64(4) + n, lambda n: int(n**0.5), lambda n: ~n,
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(USES)))
def test_what_is_used_as_a_number_is_noted(k: int) -> None:
    """Where the guards of a use hold, it has the result that it has for the plain number."""
    use = USES[k]
    for now in (9, 16, 64):
        sizes = Sizes({0: now})
        found = use(sizes.symbol(0))
        assert np.array_equal(found, use(now))
        formula = Formula(sizes)
        formula.guards()
        inside = found if isinstance(found, Num) else None
        at = formula.compiled("()" if inside is None else listed([formula.text(inside)]))
        for n in range(2, 80):
            values = at(n)
            if values is not None and not isinstance(found, (np.ndarray, tuple)):
                assert (values[0] if inside is not None else found) == use(n)


# --- programs


def _mlp(p: Any, x: Any) -> Any:
    for w in p[:-1]:
        x = np.tanh(x @ w)
    return np.mean((x @ p[-1]) ** 2)


def _recurrence(xs: Any) -> Any:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = np.tanh(0.5 * h + x)
        return h, h * x

    h, ys = lax.scan(step, np.zeros(3), xs)
    return np.sum(ys) + np.sum(h)


def _plain_loop(x: Any) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


def _written(x: Any) -> Any:
    y = x.copy()
    y[1:] += x[:-1]
    y[0] = 0.0
    return y


RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(6, 8)), RNG.normal(size=(8, 2))]
PROGRAMS: dict[str, tuple[Program, Callable[[int], list[Any]]]] = {
    "chain": (lambda x: np.sin(x) * 2.0 + np.exp(-x * x), lambda n: [RNG.normal(size=n)]),
    "mean": (lambda x: np.mean(x), lambda n: [RNG.normal(size=n)]),
    "variance": (lambda x: np.std(x, axis=1), lambda n: [RNG.normal(size=(3, n))]),
    "float32": (lambda x: np.mean(x * x, 0), lambda n: [np.ones((n, 3), np.float32)]),
    "mlp": (value_and_grad(_mlp), lambda n: [WEIGHTS, RNG.normal(size=(n, 6))]),
    "scan": (_recurrence, lambda n: [RNG.normal(size=(n, 3))]),
    "grad scan": (grad(_recurrence), lambda n: [RNG.normal(size=(n, 3))]),
    "plain loop": (_plain_loop, lambda n: [RNG.normal(size=n)]),
    "grad plain loop": (grad(_plain_loop), lambda n: [RNG.normal(size=n)]),
    "pairs": (
        lambda x, y: np.sum(np.exp(-((x[:, None] - y[None]) ** 2)), 1),
        lambda n: [RNG.normal(size=n), RNG.normal(size=n)],
    ),
    "softmax": (
        lambda x: np.exp(x - np.max(x, 1, keepdims=True)), lambda n: [RNG.normal(size=(4, n))]
    ),
    "vmap": (vmap(grad(lambda v: np.sum(np.sin(v) * v))), lambda n: [RNG.normal(size=(n, 5))]),
    "second": (grad(lambda x: np.sum(grad(_mlp_of)(x) ** 2)), lambda n: [RNG.normal(size=(n, 6))]),
    "slices": (lambda x: x[1:] - x[:-1] + x[::-1][1:], lambda n: [RNG.normal(size=n)]),
    "written": (_written, lambda n: [RNG.normal(size=n)]),
    "size as a number": (lambda x: x / x.shape[0] + x.size * 2.0, lambda n: [RNG.normal(size=n)]),
    "length": (lambda x: np.sum(x) / len(x), lambda n: [RNG.normal(size=n)]),
    "branch": (lambda x: x * 2 if x.shape[0] > 50 else x * 3, lambda n: [RNG.normal(size=n)]),
    "key": (lambda x: x * {7: 2.0}.get(x.shape[0], 3.0), lambda n: [RNG.normal(size=n)]),
    "format": (lambda x: x * float(f"{x.shape[0]}"), lambda n: [RNG.normal(size=n)]),
    "isinstance": (lambda x: x * isinstance(x.shape[0], int), lambda n: [RNG.normal(size=n)]),
    "class": (
        lambda x: x * (2.0 if type(x.shape[0]) is int else 3.0), lambda n: [RNG.normal(size=n)]
    ),
    "static part": (lambda x: {"n": x.shape[0] * 1.0, "y": x}, lambda n: [RNG.normal(size=n)]),
    "two axes": (lambda x: x @ x.T, lambda n: [RNG.normal(size=(n, 2 * n))]),
    "matrix and vector": (lambda x, y: x @ y, lambda n: [np.ones((n, n)), RNG.normal(size=n)]),
    "integers": (lambda x: np.cumsum(x) % 7, lambda n: [RNG.integers(0, 99, n)]),
    "complex": (lambda x: np.abs(x * 1j + x), lambda n: [RNG.normal(size=n) + 1j]),
}  # fmt: skip


def _mlp_of(x: Any) -> Any:
    return _mlp(WEIGHTS, x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_size_has_the_bits_of_a_trace_for_it(name: str) -> None:
    function, data = PROGRAMS[name]
    sizes = (5, 33, 0, 47, 1, 90, 34, 2, 70, 48, 7, 128, 3)
    outcome = compared(function, (data(n) for n in sizes))
    assert not outcome.wrong


@pytest.mark.parametrize("name", ["chain", "mean", "mlp", "scan", "grad scan", "vmap", "written"])
def test_most_sizes_need_no_trace(name: str) -> None:
    function, data = PROGRAMS[name]
    outcome = compared(function, (data(n) for n in (300, 331, 333, 345, 349, 353)))
    assert outcome.templates >= 5, outcome.reasons


CASES = [case for case in OP_CASES if not case.known][::29]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_operations_over_sizes(case: Any) -> None:
    for outcome in over_sizes(case, case.fun):
        assert not outcome.wrong


# --- arguments


def test_axes_that_were_equal_and_no_longer_are() -> None:
    f = jit(lambda x, y: np.sum(x) * y)
    for m, n in ((9, 9), (20, 20), (31, 31), (31, 12), (8, 40)):
        x, y = np.arange(float(m)), np.arange(float(n))
        assert same(f(x, y), np.sum(x) * y)


def test_ranks_and_dtypes_that_change() -> None:
    f = jit(lambda x: x + x)
    for shape in ((4,), (5,), (5, 2), (6, 2), (7,), ()):
        for dtype in (np.float64, np.float32, np.int64):
            x = np.ones(shape, dtype)
            assert same(f(x), x + x)


def test_shapes_that_do_not_fit_raise_as_for_any_size() -> None:
    f = jit(lambda x, y: x + y)
    for n in (4, 5, 6):
        f(np.ones(n), np.ones(n))
    with pytest.raises(fgrad.errors.ShapeError):
        f(np.ones(4), np.ones(7))


def test_other_transforms_around_a_size_that_was_served() -> None:
    f = jit(lambda x: np.mean(np.sin(x)))
    for n in (40, 50, 60):
        f(np.ones(n))
    assert _served(f) == 2
    x = np.linspace(0.0, 1.0, 60)
    assert np.allclose(grad(f)(x), np.cos(x) / 60)
    assert np.allclose(vmap(f)(np.stack([x, x])), np.mean(np.sin(x)))
    assert same(f(x), jit(f.fun, dynamic=False)(x))


def test_donated_and_written_arguments() -> None:
    f = jit(lambda x: x * 2.0, donate_argnums=0)
    g = jit(_add_one)
    for n in (20_000, 30_000, 30_001, 41_003):
        assert same(f(np.ones(n)), np.full(n, 2.0))
        x = np.zeros(n)
        g(x)
        assert same(x, np.ones(n))


def _add_one(x: Any) -> None:
    x += 1.0


SCALE = 2.0


def test_a_world_that_changes_is_seen() -> None:
    global SCALE
    f = jit(lambda x: x * SCALE)
    for n, scale in ((5, 2.0), (6, 2.0), (7, 2.0), (8, 3.0), (9, 3.0), (7, 2.0), (10, 2.0)):
        SCALE = scale
        assert same(f(np.ones(n)), np.ones(n) * scale)


def test_stored_sizes_are_those_of_the_call() -> None:
    def f(x: Any, d: dict[str, Any]) -> Any:
        d["n"] = x.shape[0]
        return x * 2

    g = jit(f)
    for n in (5, 6, 7, 8):
        d: dict[str, Any] = {"n": 0}
        g(np.ones(n), d)
        assert d["n"] == n


# --- what users say and hear


def test_dynamic_says_which_lengths_are_symbols() -> None:
    x, y = np.ones((30, 6)), np.ones(6)
    first = jit(lambda x, y: np.tanh(x) * y, dynamic={"x": 0})
    first(x, y)
    first(np.ones((41, 6)), y)
    assert [e.is_traced for e in first.entries.values()].count(False) >= 1  # type: ignore[attr-defined]
    never = fgrad.jit(lambda x: x)
    for n in (4, 5, 6):
        never(np.ones(n))
    assert _served(never) == 0
    with pytest.raises(ArgumentError, match="no argument 'z'"):
        jit(lambda x: x, dynamic={"z": 0})(y)
    with pytest.raises(ArgumentError):
        jit(lambda x: x, dynamic="all")


def test_explain_retrace_names_the_line_that_needs_a_number() -> None:
    f = jit(lambda x: x * float(str(x.shape[0])), max_traces=2)
    with pytest.warns(RetraceWarning, match="n0 = 6 at test_symbolic_sizes.py"):
        for n in (5, 6, 7, 8):
            f(np.ones(n))
    g = jit(lambda x: x * 2.0)
    for n in (5, 6, 7):
        g(np.ones(n))
    assert "1 more lengths of axes needed no trace" in explain_retrace(g)
