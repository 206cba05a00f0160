"""L8. `python -m fgrad`: the command line, see docs/command_line.md."""

from __future__ import annotations

from fgrad.command.main import main

if __name__ == "__main__":
    raise SystemExit(main())
