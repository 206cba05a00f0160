"""The figure of times beside JAX's, from the committed results.

python benchmarks/figure.py      reads benchmarks/results/quick.md, writes docs/speed.png
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
ROWS = {  # the names in the results, and in the figure
    "call, a tree of 20 arrays": "call with 20 arrays",
    "sort, 1M f32": "sort a million numbers",
    "gradient through 1,000 RK4 steps": "gradient through 1,000 RK4 steps",
    "per-sample gradients of that MLP": "per-sample gradients of an MLP",
    "first result: 12-layer transformer value_and_grad": "first result, 12-layer transformer",
    "Black-Scholes, five Greeks, 1M f64": "five Greeks of a million options",
    "LeNet train step, batch 64": "LeNet, a training step",
    "layernorm gradient 4096x768 f32": "gradient of a layer norm",
    "softmax 4096x1024 f32": "softmax 4096 x 1024",
    "transformer block train step, 8x128x256": "transformer block, a training step",
    "matmul 1024, f32": "product of 1024 x 1024 matrices",
    "eigh, 512x512": "eigenvectors, 512 x 512",
}


def ratios(text: str) -> dict[str, float]:
    """The ratio to JAX's time of each row: the first number without a unit."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        plain = [cell for cell in cells[1:] if re.fullmatch(r"\d+\.\d+", cell)]
        if plain:
            found.setdefault(cells[0], float(plain[0]))
    return found


def main() -> None:
    """Draw a bar for each row."""
    mpl.use("Agg")
    found = ratios((ROOT / "benchmarks/results/quick.md").read_text(encoding="utf-8"))
    pairs = sorted([(found[row], name) for row, name in ROWS.items()], reverse=True)
    figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained", dpi=110)
    axis.barh([n for _, n in pairs], [r for r, _ in pairs], color="C0", height=0.65)
    for ratio, name in pairs:
        axis.text(ratio * 1.06, name, f"{ratio:.2g}", va="center", fontsize=8)
    axis.axvline(1.0, color="0.4", lw=0.8)
    axis.set(xscale="log", xlim=(0.01, 2.5), xlabel="time of fgrad / time of jax.jit, two cores")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs/speed.png")


if __name__ == "__main__":
    main()
