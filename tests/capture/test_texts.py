"""The text of a traced value in a loop or a branch: Python's text, or a card; never the trace's."""

from __future__ import annotations

import logging
import pdb
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import TracedTextError

X = np.arange(1.0, 7.0)
NUMBERS = {f"k{k}": 1.0 + k * k for k in range(6)}


class Named:
    def __init__(self, number: Any) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"number {self.number}"


def letters(text: str) -> float:
    return float(sum(map(ord, text)))


def in_a_helper(i: Any) -> float:
    return letters(f"{i}")


TEXTS: dict[str, Callable[[Any], str]] = {
    "f-string": lambda i: f"k{i}",
    "f-string with !r": lambda i: f"k{i!r}",
    "f-string with a width": lambda i: f"{i:03d}",
    "str": lambda i: str(i),
    "repr": lambda i: repr(i),
    "ascii": lambda i: ascii(i),
    "format": lambda i: format(i),
    "format with a width": lambda i: format(i, "03d"),
    "%d": lambda i: "%d" % i,  # noqa: UP031
    "%s": lambda i: "%s" % i,  # noqa: UP031
    "% of a dictionary": lambda i: "%(i)s" % {"i": i},  # noqa: UP031
    "str.format": lambda i: "{} {}".format(i, 1),  # noqa: UP032
    "of a list": lambda i: str([i, 1]),
    "of a tuple": lambda i: f"{(i, 1)}",
    "joined": lambda i: ",".join(map(str, [i, 1])),
    "of an object": lambda i: f"{Named(i)}",
    "of an array": lambda i: np.array2string(np.array([i, 1])),
    "hexadecimal": lambda i: hex(i) + bin(i) + chr(65 + i),
    "a key": lambda i: f"{NUMBERS[f'k{i}']}",
    "a key with another value for none": lambda i: f"{NUMBERS.get(f'k{i}', 9.0)}",
    "printed and used": lambda i: (print(f"{i}"), f"{i}")[1],
    "used within what is printed": lambda i: (print(f"{in_a_helper(i)}"), f"{i}")[1],
}


def in_a_for(x: Any, text: Callable[[Any], str]) -> Any:
    s = 0.0
    for i in range(6):
        s += x[i] * letters(text(i))
    return s


def in_a_nested_for(x: Any, text: Callable[[Any], str]) -> Any:
    s = 0.0
    for i in range(6):
        for j in range(5):
            s += x[i] * letters(text(i)) + j
    return s


def in_a_while(x: Any, text: Callable[[Any], str]) -> Any:
    s, i = 0.0, 0
    while i < 6:
        s += x[i] * letters(text(i))
        i += 1
    return s


def in_a_branch(x: Any, text: Callable[[Any], str]) -> Any:
    s = 0.0
    for i in range(6):
        if x[i] > 2.5:
            s += x[i] * letters(text(i))
    return s


@pytest.mark.parametrize("program", [in_a_for, in_a_nested_for, in_a_while, in_a_branch])
@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_counter_is_that_of_its_number(
    program: Callable[..., Any], text: str
) -> None:
    run = fgrad.jit(lambda x: program(x, TEXTS[text]))
    np.testing.assert_allclose(run(X), program(X, TEXTS[text]))


def of_an_element(x: Any, n: Any) -> Any:
    s = 0.0
    for i in range(6):
        s += x[i] * letters(f"{x[i]}")
    return s


def of_a_sum(x: Any, n: Any) -> Any:
    s = x[0]
    while s < 9.0:
        s += 1.0 + len(str(s))
    return s


def in_one_branch(x: Any, n: Any) -> Any:
    s = 0.0
    if x[0] > 0.0:
        s = x[0] * len(str(x[1]))
    return s


def in_many_steps(x: Any, n: Any) -> Any:
    s = 0.0
    for i in range(3000):
        s += x[i % 6] * letters(f"{i}")
    return s


@pytest.mark.parametrize("program", [of_an_element, of_a_sum, in_one_branch])
@pytest.mark.parametrize("transform", [fgrad.jit, lambda f: fgrad.jit(fgrad.grad(f))])
def test_a_text_that_nobody_knows_is_refused(program: Callable[..., Any], transform: Any) -> None:
    with pytest.raises(TracedTextError, match="The text of a traced value"):
        transform(program)(X, 6)


def test_a_long_loop_whose_counter_becomes_a_text_is_written_out() -> None:
    assert np.isclose(fgrad.jit(in_many_steps)(X, 6), in_many_steps(X, 6))


def test_what_is_shown_has_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    def shows(x: Any) -> Any:
        s = 0.0
        for i in range(6):
            print("the number", i)
            print(f"{x[i]}", str(x[i]), [f"{x[k]}" for k in range(2)], f"{Named(x[i])}")
            logging.getLogger("shows").error(f"{x[i]}")
            logging.getLogger("shows").error("%s", x[i])
            if i > 10:
                raise ValueError(f"{x[i]}")
            s += x[i]
        return s

    assert fgrad.jit(shows)(X) == np.sum(X)
    assert [f"the number {k}" for k in range(6)] == [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("the number")
    ]


def test_a_debugger_shows_traced_values() -> None:
    seen: list[str] = []

    def looks(x: Any) -> Any:
        s = 0.0
        for i in range(6):
            exec_as_pdb(i)
            s += x[i]
        return s

    def exec_as_pdb(i: Any) -> None:
        seen.append(eval("repr(i)", {"i": i, "__name__": pdb.__name__}))

    assert fgrad.jit(looks)(X) == np.sum(X)
    assert "Tracer" in seen[0]
