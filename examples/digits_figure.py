"""The figure of examples/digits.py: how it learned, who pulls hardest, which digits are hard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

INK, BLUE, RED, PALE = "#22303c", "#2f6db5", "#c8452f", "#b9cde6"
COLUMNS = 8


def draw(
    path: Path,
    data: Any,
    history: list[float],
    norms: np.ndarray,
    surprise: np.ndarray,
    answers: np.ndarray,
    clip: float,
) -> Path:
    """Write the figure and return its path.

    Arguments:
        path: the file to write.
        data: the four arrays of `digits.Data`.
        history: the loss of every training step.
        norms: the norms of per-sample gradients of test digits.
        surprise: the loss of every test digit.
        answers: what the network reads in every test digit.
        clip: the norm at which private learning clips.
    """
    style = {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "font.size": 9.5,
        "text.color": INK,
    }
    with rc_context(style):
        figure = Figure(figsize=(11, 7.4), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1))
        left, right = top.subplots(1, 2)
        loss_curve(left, np.asarray(history))
        norm_histogram(right, norms, clip)
        gallery(bottom, data, surprise, answers)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    return path


def loss_curve(axes: Any, history: np.ndarray) -> None:
    """Every step's loss, and a running mean of it."""
    window = max(1, len(history) // 40)
    smooth = np.convolve(history, np.full(window, 1.0 / window), mode="valid")
    axes.plot(history, color=PALE, linewidth=0.8, label="every step")
    axes.plot(
        np.arange(len(smooth)) + window - 1, smooth, color=BLUE, linewidth=1.8, label="running mean"
    )
    axes.set(yscale="log", xlabel="step", ylabel="loss [nats]", title="Training with Adam")
    axes.legend(frameon=False)


def norm_histogram(axes: Any, norms: np.ndarray, clip: float) -> None:
    """How strongly each test digit pulls at the parameters."""
    low = max(float(norms.min()), 1e-8)
    bins = np.geomspace(low, float(norms.max()) * 1.01, 40)
    axes.hist(np.maximum(norms, low), bins=bins, color=BLUE, edgecolor="white", linewidth=0.4)
    axes.axvline(clip, color=RED, linewidth=1.4)
    axes.text(clip, axes.get_ylim()[1], " clipped", color=RED, va="top", ha="left", fontsize=9.5)
    axes.set(
        xscale="log",
        xlabel="norm of the gradient of one digit's loss",
        ylabel="digits",
        title="Per-sample gradients: few digits pull hard",
    )


def gallery(figure: Any, data: Any, surprise: np.ndarray, answers: np.ndarray) -> None:
    """The digits that surprise the network most, and least."""
    order = np.argsort(surprise)
    side = round(data.x_test.shape[1] ** 0.5)
    rows = figure.subplots(2, COLUMNS)
    chosen = (order[::-1][:COLUMNS], order[:COLUMNS])
    for name, axes_row, indices in zip(("most", "least"), rows, chosen, strict=True):
        for axes, i in zip(axes_row, indices, strict=True):
            axes.imshow(data.x_test[i].reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            wrong = answers[i] != data.y_test[i]
            caption = f"{data.y_test[i]}, read as {answers[i]}" if wrong else f"{data.y_test[i]}"
            axes.set_title(caption, loc="center", fontsize=9, color=RED if wrong else INK)
            for spine in axes.spines.values():
                spine.set_visible(False)
        axes_row[0].set_ylabel(f"{name}\nsurprising", rotation=0, ha="right", va="center")
