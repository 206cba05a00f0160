"""The training step and the per-sample gradients of examples/digits.py, against jax.jit.

python benchmarks/digits.py [--json results.json]
"""

from __future__ import annotations

from digits_workloads import DIGITS
from harness import jax_library, parser, run, show_header, write_json


def main() -> None:
    """Print the table."""
    options = parser("The digits example against jax.jit").parse_args()
    peer = jax_library()
    show_header("digits", ["fgrad", peer.name, "ratio", "goal"] if peer else ["fgrad"])
    write_json(options.json, run(DIGITS, peer, options.only))


if __name__ == "__main__":
    main()
