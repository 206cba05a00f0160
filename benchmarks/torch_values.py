"""Write tests/golden/torch_steps.json: parameters after steps of tests/torch_cases.py by PyTorch.

Run it with a Python that has torch: `python benchmarks/torch_values.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from optax_cases import STEPS, gradient, params  # noqa: E402
from torch_cases import CASES, DTYPES  # noqa: E402


def trained(name: str, dtype: str) -> list[float]:
    """The parameters after some steps; parts of complex ones one after the other."""
    tree = params(dtype)
    leaves = [torch.nn.Parameter(torch.tensor(x)) for x in (*tree["b"], tree["w"])]
    optimizer: Any = CASES[name][0](torch.optim, leaves)
    for step in range(STEPS):
        for p in leaves:
            p.grad = torch.tensor(gradient(p.detach().numpy(), step))
        optimizer.step()
    flat = np.concatenate([np.ravel(p.detach().numpy()) for p in leaves])
    return [float(x) for x in flat.view(flat.real.dtype)]


def main() -> None:
    """Run all cases."""
    found: dict[str, Any] = {"torch": torch.__version__}
    for name in CASES:
        for dtype in DTYPES:
            found[f"{name} {dtype}"] = trained(name, dtype)
    path = ROOT / "tests" / "golden" / "torch_steps.json"
    path.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
