"""L8. The arguments of `python -m fgrad`, and which module does what.

Each command is a module with `add_arguments(parser)` and `run(options) -> status`, loaded when it
is asked for: `doctor` must run where the compiler cannot be loaded.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from fgrad import __version__
from fgrad.command.texts import CommandError

COMMANDS = {
    "info": "versions, processor, cache and devices, for reports of errors",
    "doctor": "what makes this installation slow, and what to do",
    "explain": "an error: why it is raised, and what to write instead",
    "cache": "the compiled code on disk: its size, what is in it, clearing it",
    "show": "what a function becomes: its loops and branches, its program, its kernels",
    "profile": "a script: where tracing, compiling and running go, with your lines",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0, 1 if it failed or found something, 2 for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    first = next((a for a in given if not a.startswith("-")), "")
    parser = argparse.ArgumentParser(
        prog="python -m fgrad",
        description="Tools of fgrad; `python -m fgrad COMMAND --help` says more of each.",
    )
    parser.add_argument("--version", action="version", version=f"fgrad {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        part = commands.add_parser(name, help=text, description=f"{name}: {text}.")
        if name == first:
            try:
                module = importlib.import_module(f"fgrad.command.{name}")
            except ImportError as error:
                told = f"{error}; `{parser.prog} doctor` says what is missing"
                print(f"{parser.prog} {name}: {told}", file=sys.stderr)
                return 1
            module.add_arguments(part)
            part.set_defaults(run=module.run)
    options = parser.parse_args(given)
    try:
        status = options.run(options)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"{parser.prog} {options.command}: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:  # of `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
