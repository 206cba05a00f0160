"""L8. `python -m fgrad doctor`: what makes an installation slow or breaks it, and what to do.

A check returns what it found out, or raises `Found` with what is wrong and what to do about it; any
other error is a finding too.  The exit status is 1 if something was found.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import metadata

import numpy as np

import fgrad
from fgrad.base.system import processors
from fgrad.command.info import native_calls, version_of
from fgrad.compile.llvm.store import DiskStore
from fgrad.config import config

_PROBE = "t_" + "d" * 40  # the key of a file that is written, read and deleted
_SLOW_FILE = 0.05  # seconds for a file of the cache
_SLOW_COMPILE = 2.0  # seconds for a small function
_CALLS = 32  # after which calls are native


class Found(Exception):
    """Something is wrong: what, and what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.advice = advice


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(options: argparse.Namespace) -> int:
    """Make all checks; 1 if one of them found something."""
    found = 0
    for label, check in CHECKS.items():
        try:
            print(f"good  {label}: {check()}")
            continue
        except Found as error:
            what, advice = str(error), error.advice
        except Exception as error:  # whatever a broken installation does
            what, advice = f"{type(error).__name__}: {error}", _advice(error)
        found += 1
        print(f"FIX   {label}: {what}\n      -> {advice}")
    print(f"\n{found} of {len(CHECKS)} checks found something." if found else "\nAll is well.")
    return 1 if found else 0


def _advice(error: Exception) -> str:
    """What to do about an error that no check expects."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"pip install {error.name}"
    return "pip install --force-reinstall fgrad; if that does not help, report it with `info`"


def _packages() -> str:
    """Every package that fgrad requires, in the version that it requires."""
    told: list[str] = []
    wrong: dict[str, str] = {}  # by what is to be installed
    for requirement in _requirements():
        match = re.match(r"([\w.-]+)>=([\d.]+)$", requirement)
        if match is None:
            continue
        name, least = match[1], match[2]
        version = version_of(name)
        if not version:
            wrong[requirement] = f"{name} is not installed"
        elif _number(version) < _number(least):
            wrong[requirement] = f"{name} {version} is too old"
        told.append(f"{name} {version}")
    if wrong:
        asked = " ".join([f'"{requirement}"' for requirement in wrong])
        raise Found(f"{', '.join(wrong.values())}.", f"pip install {asked}")
    return ", ".join(told)


def _requirements() -> list[str]:
    """What `fgrad` requires, without its extras; nothing where it is not installed by pip."""
    try:
        listed = metadata.requires("fgrad") or []
    except metadata.PackageNotFoundError:
        listed = ["numpy>=2.0", "scipy>=1.14", "llvmlite>=0.45", "optree>=0.18", "opt_einsum>=3.3"]
    return [r.replace(" ", "") for r in listed if ";" not in r]


def _number(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    Example:
        >>> _number("2.10.0rc1") > _number("2.9")
        True
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _bytecode() -> str:
    """Python's own cache of modules: without it each start compiles all of fgrad's source."""
    code = "import sys, fgrad.numpy.promote as m; print(sys.dont_write_bytecode, m.__cached__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    off, _, cached = done.stdout.strip().partition(" ")
    if cached != "None" and os.path.exists(cached):
        return "fgrad's modules are kept as bytecode"
    if off == "True":
        raise Found(
            "PYTHONDONTWRITEBYTECODE is set: each import compiles fgrad anew, five times as slow.",
            "unset PYTHONDONTWRITEBYTECODE, or python -m compileall on fgrad's folder",
        )
    folder = os.path.dirname(fgrad.__file__)
    raise Found(
        f"Python cannot write bytecode below {folder}: each import compiles fgrad anew.",
        f"python -m compileall {folder}, as who may write there, or PYTHONPYCACHEPREFIX=folder",
    )


def _cache() -> str:
    """The cache of compiled code can be written and read again, fast enough."""
    if not config.cache:
        raise Found("FGRAD_CACHE=0: each process compiles anew.", "unset FGRAD_CACHE")
    store = DiskStore(config.cache_dir)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        store.put(_PROBE, b"probe")
        back = store.get(_PROBE)
    seconds = time.perf_counter() - start
    advice = "export FGRAD_CACHE_DIR=folder, one that is yours alone and on a local disk"
    if back != b"probe":
        raise Found(f"{_why_unusable(store, heard)}.", advice)
    store.remove([entry for entry in store.entries() if entry.name == _PROBE])
    if seconds > 2 * _SLOW_FILE:
        raise Found(f"{config.cache_dir} is slow: {seconds:.2f} s to write and read.", advice)
    return f"{config.cache_dir} can be written and read"


def _why_unusable(store: DiskStore, heard: list[warnings.WarningMessage]) -> str:
    """Why the cache does not give back what was written: as its warning says, or the system."""
    said = [line.split() for w in heard for line in str(w.message).splitlines()]
    why = [" ".join(words[1:]) for words in said if words[:1] == ["what"]]
    if why:
        return why[0]
    try:
        store.entries()
    except OSError as error:
        return f"{config.cache_dir} cannot be used: {error}"
    return f"{config.cache_dir}: what was written cannot be read again"


# Settings for debugging: by their names, when they slow things down, and how they do.
_DEBUGGING: dict[str, tuple[Callable[[], bool], str]] = {
    "FGRAD_DISABLE_JIT": (lambda: config.disable_jit, "nothing is compiled"),
    "FGRAD_NATIVE_CALLS": (lambda: not config.native_calls, "calls go through Python"),
    "FGRAD_CHECK": (lambda: config.check > 1, "programs are checked after every pass"),
    "FGRAD_SHOW": (lambda: bool(config.show), "stages are printed"),
    "FGRAD_DUMP": (lambda: bool(config.dump), "stages are written into files"),
    "FGRAD_SHARED_KERNELS": (lambda: not config.shared_kernels, "each size is compiled by itself"),
}


def _settings() -> str:
    """No setting for debugging is on."""
    slow = {name: why for name, (test, why) in _DEBUGGING.items() if test()}
    if slow:
        told = "; ".join([f"{n}={os.environ.get(n, '')}: {why}" for n, why in slow.items()])
        raise Found(f"{told}.", f"unset {' '.join(slow)}")
    return "none for debugging is on"


def _calls() -> str:
    """Repeated calls run without Python's interpreter."""
    if not native_calls():
        raise Found(
            f"Calls of compiled functions go through Python: {sys.version.split()[0]} on this"
            " system is not known to the native entry, or FGRAD_NATIVE_CALLS=0 is set.",
            "CPython 3.10 to 3.14 on x86-64 or ARM, 64 bits, without free threading",
        )
    return "native"


def _compiler() -> str:
    """A small function is compiled, gives the right numbers, and is compiled in time."""
    with tempfile.TemporaryDirectory() as folder, config.override(cache_dir=folder):
        x = np.linspace(0.0, 1.0, 1000)
        f = fgrad.jit(lambda x: np.sum(np.sin(x) * x))
        start = time.perf_counter()
        got = f(x)
        seconds = time.perf_counter() - start
        for _ in range(_CALLS):
            f(x)
    if not np.allclose(got, np.sum(np.sin(x) * x), rtol=1e-12):
        raise Found("Compiled code gives wrong numbers.", "report it with `python -m fgrad info`")
    if seconds > _SLOW_COMPILE:
        raise Found(
            f"Compiling a small function took {seconds:.1f} s.",
            "look for other work on this machine; the second process takes it from the cache",
        )
    return f"a small function compiles in {seconds:.2f} s"


def _threads() -> str:
    """Compiled code has no more threads than cores, and the libraries of products neither."""
    many, mine = config.num_threads, processors()
    wrong: dict[str, str] = {}  # by the setting that is to be changed
    if many > mine:
        wrong["FGRAD_NUM_THREADS"] = f"compiled code starts {many} threads"
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > mine:
            wrong[name] = f"{name}={value}"
    if wrong:
        what = f"For {mine} cores that this process may use: {', '.join(wrong.values())}."
        raise Found(what, f"export {' '.join([f'{name}={mine}' for name in wrong])}")
    return f"{many} in compiled code, {mine} cores"


def _blas() -> str:
    """Small products can take one thread of OpenBLAS: on a busy machine many take 100 times as
    long."""
    if not version_of("scipy"):
        raise Found("SciPy is not installed, whose OpenBLAS is used.", 'pip install "scipy>=1.14"')
    if importlib.import_module("fgrad.compile.cpu.blas_threads").thread_control() is None:
        raise Found(
            "SciPy's BLAS is not an OpenBLAS whose threads fgrad can set: small products and"
            " factorisations wait for each other's threads.",
            "export OMP_NUM_THREADS=1, or pip install scipy in place of the system's",
        )
    return "SciPy's OpenBLAS is known"


def _gpu() -> str:
    """A GPU has what compiles for it."""
    device = importlib.import_module("fgrad.lower_cuda.device.driver")
    try:
        name = device.driver().name
    except fgrad.errors.DeviceError as error:
        return f"none: {error.headline}"
    if not version_of("numba-cuda"):
        raise Found(f"{name} cannot be used: numba-cuda is missing.", 'pip install "fgrad[cuda]"')
    return name


CHECKS: dict[str, Callable[[], str]] = {
    "packages": _packages,
    "bytecode": _bytecode,
    "cache": _cache,
    "settings": _settings,
    "calls": _calls,
    "compiler": _compiler,
    "threads": _threads,
    "BLAS": _blas,
    "GPU": _gpu,
}
