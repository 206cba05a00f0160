"""What cannot be captured is traced as it is, and says why; other errors surface."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.capture import branches, elements, loops
from fgrad.errors import MissingRuleError, ShapeError, TracedArrayError, TracedBoolError
from fgrad.scipy.integrate import odeint

X = np.arange(8.0)


def total(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v > 2.0:
            s += x[2]
    return s


def walks_a_guarded_loop(x: Any) -> Any:
    for v in x:
        try:
            v = v + 1
        finally:
            if x is None:
                break  # noqa: B012
    return total(x)


def has_no_value_in_a_branch(x: Any) -> Any:
    for v in x:
        if v > 3.0:
            y = v
    return y


@pytest.mark.parametrize(
    ("module", "name"), [(loops, "scanned"), (branches, "_chosen"), (loops, "finish")]
)
def test_a_defect_of_capture_surfaces(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_args: Any) -> None:
        raise AttributeError("a defect")

    # A defect is what fgrad's own files raise.
    code = defect.__code__.replace(co_filename=loops.__file__)
    monkeypatch.setattr(module, name, FunctionType(code, {}, "defect"))
    with pytest.raises(AttributeError, match="a defect"):
        fgrad.jit(total)(X)
    with pytest.raises(AttributeError, match="a defect"):
        fgrad.explain_capture(total)(X)


def test_an_error_of_the_user_is_raised_once() -> None:
    calls = []

    def wrong(x: Any) -> Any:
        calls.append(1)
        for v in x:
            x = x * v
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fgrad.jit(wrong)(X)
    assert len(calls) == 1


def test_a_missing_key_is_a_key_error() -> None:
    def read(x: Any) -> Any:
        table = {"a": 1.0}
        for v in x:
            x = x * v
        return x * table["b"]

    with pytest.raises(KeyError, match="b"):
        fgrad.jit(read)(X)
    assert elements.ACTS_FOR_USERS


def test_functions_that_stay_as_they_are_are_shown() -> None:
    text = fgrad.explain_capture(walks_a_guarded_loop)(X)
    assert "plain: its own loops and branches stay as they are; `break` stands" in text
    assert "rolled: one loop" in text


def test_a_refusal_is_shown() -> None:
    text = fgrad.explain_capture(has_no_value_in_a_branch)(X)
    assert "is traced as it is, as it cannot be captured: a variable may have no value" in text
    with pytest.raises(TracedBoolError, match="capture a variable may have no value"):
        fgrad.jit(has_no_value_in_a_branch)(X)


def test_shapes_in_a_loop_of_traced_length_are_told_with_the_line() -> None:
    """Plain tracing ends before the line, at `range(n)`: that is not what is wrong."""

    def product(x: Any, n: Any) -> Any:
        s = 0.0
        for _ in range(n):
            s += np.ones((2, 3)) @ x[:2]
        return s

    with pytest.raises(ShapeError, match=r"\(product\):  s \+= np.ones"):
        fgrad.jit(product)(X, 10)


def test_a_missing_derivative_is_told_and_not_where_plain_tracing_ends() -> None:
    def end(rate: Any) -> Any:  # np.array of traced numbers is for rewritten functions alone
        slope = lambda y, t: np.array([-rate * y[0], rate * y[0]])  # noqa: E731
        return odeint(slope, np.array([1.0, 0.0]), np.linspace(0.0, 1.0, 3))[-1]

    with pytest.raises(MissingRuleError, match="no forward derivative"):
        fgrad.jit(fgrad.jacfwd(end))(0.5)


def test_the_advice_of_a_refused_capture_comes_first() -> None:
    def counted(x: Any) -> Any:
        counts: dict[int, int] = {}
        for v in x:
            k = int(v)
            counts[k] = counts.get(k, 0) + 1
        return counts

    with pytest.raises(TracedArrayError) as caught:
        fgrad.jit(counted)(X)
    advice = [text for label, text in caught.value.rows if label == "write"]
    assert "counts = np.zeros(n)" in advice[0]
    assert len(set(advice)) == len(advice)


def test_explain_capture_without_arguments_says_how_to_call_it() -> None:
    def summed(x: Any, *rows: Any, step: Any, scale: Any = 2.0) -> Any:
        return sum(x) * scale + len(rows) * step

    text = repr(fgrad.explain_capture(summed))
    assert "summed is rewritten under jit" in text
    assert "print(fgrad.explain_capture(summed)(x, *rows, step=step))" in text
    assert "`break` stands" in repr(fgrad.explain_capture(walks_a_guarded_loop))
    assert "sin stays as it is: it has no Python code" in repr(fgrad.explain_capture(np.sin))
