"""L8. `python -m fgrad`: the command line, see docs/command_line.md."""

from __future__ import annotations

try:
    from fgrad.command.main import main
except ModuleNotFoundError as error:  # of NumPy, which `doctor` needs too
    raise SystemExit(f"fgrad needs {error.name}: pip install {error.name}") from None

if __name__ == "__main__":
    raise SystemExit(main())
