"""L8. `python -m fgrad info`: what a report of an error should say of the machine.

--json prints the same for programs.  What cannot be found out is told as such, never an error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata

import numpy as np

import fgrad
from fgrad.base.system import processors
from fgrad.command.texts import size_text, table
from fgrad.compile.llvm.store import DiskStore
from fgrad.config import config
from fgrad.errors import FgradError

PACKAGES = (
    "numpy", "scipy", "llvmlite", "optree", "opt_einsum", "numba", "numba-cuda", "mpi4py",
    "jax", "torch",
)  # fmt: skip
# The features of processors that change how fast compiled code is.
FEATURES = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "avx512fp16", "amx-tile",
    "neon", "fullfp16", "bf16", "sve",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(options: argparse.Namespace) -> int:
    """Print what is known."""
    found = {label: _attempt(ask) for label, ask in QUESTIONS.items()}
    print(json.dumps(found, indent=2) if options.json else table(found.items()))
    return 0


def _attempt(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except FgradError as error:
        return f"none: {error.headline}"
    except Exception as error:  # a report of a broken installation is what this is for
        return f"unknown: {type(error).__name__}: {error}"


def version_of(package: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _fgrad() -> str:
    return f"{fgrad.__version__} in {os.path.dirname(fgrad.__file__)}"


def _python() -> str:
    return f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"


def _packages() -> str:
    return ", ".join([f"{p} {version_of(p) or 'is missing'}" for p in PACKAGES if _is_told(p)])


def _is_told(package: str) -> bool:
    """Optional packages are told where they are installed."""
    needed = ("numpy", "scipy", "llvmlite", "optree", "opt_einsum", "numba")
    return package in needed or bool(version_of(package))


def _processor() -> str:
    target = importlib.import_module("fgrad.compile.llvm.runtime").target()
    has = {f[1:] for f in target.features.split(",") if f.startswith("+")}
    found = [f for f in FEATURES if f in has]
    return f"{target.cpu} ({target.triple}): {' '.join(found) or 'no vector features'}"


def _threads() -> str:
    may_be_used = f"{processors()} of {os.cpu_count()} cores may be used"
    return f"{config.num_threads} in compiled code; {may_be_used}"


def _blas() -> str:
    built = np.show_config("dicts")["Build Dependencies"]["blas"]  # type: ignore[index]
    control = importlib.import_module("fgrad.compile.cpu.blas_threads").thread_control()
    found = "SciPy's OpenBLAS is used" if control else "SciPy brings no OpenBLAS"
    return f"NumPy's is {built.get('name')} {built.get('version', '')}; {found}"


def native_calls() -> bool:
    """Whether repeated calls run without Python's interpreter."""
    abi = importlib.import_module("fgrad.compile.llvm.abi")
    return abi.LAYOUT is not None and config.native_calls


def _calls() -> str:
    return "native" if native_calls() else "through Python"


def _cache() -> str:
    entries = DiskStore(config.cache_dir).entries() if os.path.isdir(config.cache_dir) else []
    used = "" if config.cache else ", which is turned off"
    size = size_text(sum([entry.size for entry in entries]))
    return f"{config.cache_dir}{used}: {size} in {len(entries)} files"


def _gpu() -> str:
    driver = importlib.import_module("fgrad.lower_cuda.device.driver").driver()
    return f"{driver.name}, {driver.arch}, {size_text(driver.memory_bytes)}"


def _settings() -> str:
    found = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("FGRAD_")]
    return " ".join(found) or "none"


QUESTIONS: dict[str, Callable[[], str]] = {
    "fgrad": _fgrad,
    "Python": _python,
    "system": platform.platform,
    "packages": _packages,
    "processor": _processor,
    "threads": _threads,
    "BLAS": _blas,
    "calls": _calls,
    "cache": _cache,
    "GPU": _gpu,
    "settings": _settings,
}
