"""The device and the libraries of tests/emulator, for machines without a GPU."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

StubDriver = importlib.import_module("emulator.driver").StubDriver
StubLibraries = importlib.import_module("emulator.libraries").StubLibraries
