"""Compilations that last say so where somebody reads it, and to `logging`; else they are silent."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest

import fgrad
from fgrad.base import waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def compiled(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, seconds: float) -> str:
    """What a compilation writes when it may take so many seconds."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(waiting, "SECONDS", seconds)
    monkeypatch.setattr(waiting.Waiting, "_watch", lambda self: None)

    def loss(x: np.ndarray) -> np.ndarray:
        return np.sum(np.sin(x) * x)

    fgrad.inspect(fgrad.grad(loss))(np.ones(3))
    return stream.getvalue()


def test_what_lasts_is_told_with_its_name_and_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    text = compiled(Terminal(), monkeypatch, 0.0)
    assert text.startswith("fgrad compiled grad(loss) in 0.") and text.count("%") == 3
    assert text.endswith("%\n")


def test_what_does_not_last_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(Terminal(), monkeypatch, 1e6) == ""


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(io.StringIO(), monkeypatch, 0.0) == ""


def test_a_notebooks_stream_is_watched() -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    assert waiting.is_watched(stream)
    assert not waiting.is_watched(io.StringIO()) and not waiting.is_watched(None)


def test_lines_are_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    told = waiting.Waiting("grad(loss)")
    told.stage = "loop_fission"
    told.tell()
    told.stage = "plan"
    told.tell()
    told.done([("plan", 3.0), ("build", 1.0)])
    first, second, blank, last = stream.getvalue().split("\r")[1:]
    assert first.endswith("s: loop_fission") and second.rstrip().endswith("s: plan")
    assert len(second) == len(first) == len(blank) and not blank.strip() and last == ""


@pytest.mark.parametrize(("seconds", "level"), [(0.0, logging.INFO), (1e6, logging.DEBUG)])
def test_logging_has_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, level: int
) -> None:
    caplog.set_level(logging.DEBUG, "fgrad")
    compiled(io.StringIO(), monkeypatch, seconds)
    records = [r for r in caplog.records if r.name == "fgrad.compile"]
    assert [r.levelno for r in records] == [level]
    assert "compiled grad(loss) in " in records[0].getMessage()
