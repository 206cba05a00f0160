"""Results as Markdown, and as a picture of shares of what the machine can do.

    python benchmarks/report.py benchmarks/results/quick.json

writes quick.md and, with Matplotlib, quick.png beside it.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import Result, geometric_mean, pretty, ratio
from libraries import has
from rates import Rates, share
from workloads import COSTS

GROUPS = {
    "calls": "Calls of compiled functions",
    "eager": "Eager gradients, to autograd",
    "arrays": "Arrays",
    "models": "Models",
    "loops": "Loops",
    "linear algebra": "Linear algebra",
    "linear algebra, to NumPy": "Linear algebra, to NumPy",
    "starts": "Fresh processes",
    "memory": "Peak memory",
}
PEERS = {"eager": "autograd", "linear algebra, to NumPy": "numpy"}  # jax in all other groups
COLOURS = {"fgrad": "#1b6ca8", "jax": "#e08a1e", "torch": "#b3446c", "numba": "#5a9e4b"}


def against(result: Result) -> str:
    """The peer that a row's ratio refers to."""
    return PEERS.get(result.group, "jax")


def markdown(machine: dict[str, Any], rates: Rates, results: Sequence[Result]) -> str:
    """All tables and the summary."""
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    lines = ["# Benchmarks", "", f"Measured on: {facts}.", ""]
    lines += [
        f"Triad {rates.triad / 1e9:.1f} GB/s; products {rates.gemm_f32 / 1e9:.0f} (float32) and "
        f"{rates.gemm_f64 / 1e9:.0f} GFLOP/s (float64), by NumPy.",
        "",
        "`ratio`: fgrad's time to JAX's, or to that of the peer in the heading; `goal`: what is "
        "aimed at; `limit`: the share of the triad's bandwidth, or of the rate of products, that "
        "fgrad reaches, counting what must be moved and computed at least.  More than 100 % is "
        "what stays in the cache between calls, or a product better than NumPy's; "
        "[limits](limits.md) has the limits of all rows.",
    ]
    for group, title in GROUPS.items():
        rows = [r for r in results if r.group == group]
        if rows:
            lines += ["", f"## {title}", "", *_table(rows, rates)]
    return "\n".join([*lines, "", "## Summary", "", *_summary(results), ""])


def _table(rows: Sequence[Result], rates: Rates) -> list[str]:
    names = list(dict.fromkeys([name for r in rows for name in r.seconds]))
    lines = [
        "| workload | " + " | ".join(names) + " | ratio | goal | limit |",
        "|---|" + "---:|" * (len(names) + 3),
    ]
    for r in rows:
        cells = [pretty(r.seconds[n], r.unit).strip() if n in r.seconds else "" for n in names]
        found = ratio(r, against(r))
        reached = _share(r, rates)
        cells.append("" if found is None else f"{found:.3f}")
        met = found is not None and r.goal is not None and found <= r.goal
        cells.append("" if r.goal is None else f"{r.goal:g}{' met' if met else ''}")
        cells.append("" if reached is None else f"{reached:.0%}")
        note = f" ({r.note})" if r.note else ""
        lines.append(f"| {r.name}{note} | " + " | ".join(cells) + " |")
    return lines


def _share(result: Result, rates: Rates) -> float | None:
    if result.name not in COSTS or "fgrad" not in result.seconds:
        return None
    return share(COSTS[result.name], result.seconds["fgrad"], rates)


def _summary(results: Sequence[Result]) -> list[str]:
    ratios = [(r, q) for r in results if (q := ratio(r, against(r))) is not None]
    goals = [(r, q) for r, q in ratios if r.goal is not None]
    mean = geometric_mean([q for r, q in ratios if r.group != "loops"])
    return [
        f"- faster than the peer: {sum(q < 1 for _, q in ratios)} of {len(ratios)}",
        f"- goals met: {sum(q <= (r.goal or 0) for r, q in goals)} of {len(goals)}",
        f"- geometric mean of the ratios without loops: {mean:.3f}",
        f"- the same of loops: {geometric_mean([q for r, q in ratios if r.group == 'loops']):.3f}",
    ]


# --- the picture ----------------------------------------------------------------------------------


def draw(path: Path, rates: Rates, results: Sequence[Result]) -> None:
    """Achieved bandwidth and rate of operations of every library, against the machine's."""
    importlib.import_module("matplotlib").use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    by_name = {r.name: r for r in results if _share(r, rates) is not None}
    computing = [r for n, r in by_name.items() if COSTS[n].flops]
    moving = [r for n, r in by_name.items() if not COSTS[n].flops]
    heights = [max(len(moving), 1), max(len(computing), 1)]
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 2.2 + 0.34 * sum(heights)), height_ratios=heights, layout="constrained"
    )
    _panel(
        top,
        moving,
        lambda c: c.reads + c.writes,
        "bandwidth, counting compulsory bytes only [GB/s]",
    )
    top.axvline(rates.triad / 1e9, color="#444444", lw=1.2, ls="--", label="triad")
    _panel(bottom, computing, lambda c: c.flops, "operations of products [GFLOP/s]")
    bottom.axvline(rates.gemm_f32 / 1e9, color="#444444", lw=1.2, ls="--", label="product, f32")
    bottom.axvline(rates.gemm_f64 / 1e9, color="#444444", lw=1.2, ls=":", label="product, f64")
    for axes in (top, bottom):
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _panel(axes: Any, rows: Sequence[Result], amount: Any, label: str) -> None:
    """One dot for each library in each row, on a logarithmic axis."""
    for name, colour in COLOURS.items():
        found = [
            (amount(COSTS[r.name]) / r.seconds[name] / 1e9, k)
            for k, r in enumerate(rows)
            if name in r.seconds
        ]
        if found:
            size = 60 if name == "fgrad" else 30
            axes.scatter(*zip(*found, strict=True), s=size, color=colour, label=name, zorder=3)
    axes.set_yticks(range(len(rows)), [r.name for r in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xscale("log")
    for which in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        which(lambda value, _: f"{value:g}" if f"{value:g}".strip("0.")[:1] in "125" else "")
    axes.set_xlabel(label)
    axes.grid(axis="both", color="#dddddd", lw=0.6, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def write(path: Path) -> None:
    """The Markdown and the picture of a file of results."""
    stored = json.loads(path.read_text())
    results = [Result(**row) for row in stored["results"]]
    rates = Rates(**stored["rates"])
    path.with_suffix(".md").write_text(markdown(stored["machine"], rates, results))
    if has("matplotlib"):
        draw(path.with_suffix(".png"), rates, results)
    print("\n".join(_summary(results)))
    print(f"written: {path}, {path.with_suffix('.md').name}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
