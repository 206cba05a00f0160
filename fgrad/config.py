"""L0. Settings, read once from the environment; `override` changes them within a block.

FGRAD_CHECK=0..3        1: check programs after tracing and before emission (default)
                        2: after every pass; 3: also run before and after each pass and compare
FGRAD_SHOW=a,b          print stages: program, passes, kernel, llvm, asm, cuda, time
FGRAD_DUMP=dir          write every stage into files
FGRAD_DISABLE_JIT=1     evaluate jitted functions with NumPy
FGRAD_TRACEBACK=full    errors show fgrad's own frames too
FGRAD_CACHE_DIR=dir     the disk cache of compiled kernels;  FGRAD_CACHE=0 turns it off
FGRAD_NUM_THREADS=n     threads of compiled code
FGRAD_CPU=name          code for any x86-64-v2, x86-64-v3 or x86-64-v4, not for this processor
                        alone (native); of the whole process
FGRAD_NATIVE_CALLS=0    call jitted functions through Python only
FGRAD_RECYCLE=1         jitted functions may return a small array again that nobody refers to
FGRAD_ATOMICS=1         sums of floats at computed places on a GPU may be taken in any order
FGRAD_TF32=1            products of float32 matrices on a GPU may round their operands to TF32
FGRAD_EPILOGUES=1       products on a GPU may do relu and gelu too: NaN becomes 0, gelu is rounded
FGRAD_HOST_FALLBACK=1   operations that have no form on a GPU run on the CPU, amid a GPU's program
FGRAD_SHARED_KERNELS=0  machine code of a kernel is for its sizes alone
FGRAD_CAPTURE=0         loops and branches of Python are not rewritten: they run at trace time
FGRAD_CHECKS=0          no errors of Python from captured code: indices clip, 1 // 0 is 0
FGRAD_EAGER_COMPILE=1   gradients at the prompt compile themselves when it pays (docs/capture.md);
                        2: at the second call
FGRAD_CUDNN=0           no convolutions by cuDNN, also where it is installed
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.base.system import Shared, cache_folder, processors

_FREE = ("eager_compile",)  # settings on which compiled code does not depend


def _whole(name: str, default: int, least: int = 0) -> int:
    """A setting that is a whole number.

    Raises:
        ValueError: it is another text, or less than `least`.
    """
    text = os.environ.get(name) or str(default)
    try:
        if int(text) >= least:
            return int(text)
    except ValueError:
        pass
    raise ValueError(f"{name}={text} in the environment: a whole number from {least} on is meant")


class Config:
    """The settings; one instance, `config`, is shared by all threads."""

    check: int
    show: frozenset[str]
    dump: str
    traceback: str
    disable_jit: bool
    cache: bool
    cache_dir: str
    num_threads: int
    cpu: str  # read once: the code of a process is for one processor
    native_calls: bool
    recycle: bool
    atomics: bool
    tf32: bool
    epilogues: bool
    host_fallback: bool
    cudnn: bool
    capture: bool
    checks: bool
    eager_compile: int  # 0, 1 or 2, see above; compiled code does not depend on it
    shared_kernels: bool
    check_index: bool  # set by `fgrad.debug.check_index`: compiled code checks indices
    driver: int  # set by `fgrad.lower_cuda.device.driver.use`: code is compiled for one driver
    nans: bool  # set by `fgrad.debug.nans`: programs run equation by equation
    infs: bool  # set by it too: infinities that finite numbers make are errors
    epoch: int  # the number of the present combination of settings: part of every compilation key

    def __init__(self) -> None:
        env = os.environ.get
        self._combinations: dict[tuple[object, ...], int] = {}
        self.epoch_cell = ctypes.c_int64(0)  # the epoch, for native code
        vars(self)["cpu"] = env("FGRAD_CPU") or "native"
        settings = {
            "check": _whole("FGRAD_CHECK", 1),
            "show": frozenset(filter(None, env("FGRAD_SHOW", "").split(","))),
            "dump": env("FGRAD_DUMP", ""),
            "traceback": env("FGRAD_TRACEBACK", ""),
            "disable_jit": env("FGRAD_DISABLE_JIT", "0") not in ("", "0"),
            "cache": env("FGRAD_CACHE", "1") != "0",
            "cache_dir": env("FGRAD_CACHE_DIR", "") or os.path.join(cache_folder(), "fgrad"),
            "num_threads": _whole("FGRAD_NUM_THREADS", processors(), least=1),
            "native_calls": env("FGRAD_NATIVE_CALLS", "1") != "0",
            "recycle": env("FGRAD_RECYCLE", "0") not in ("", "0"),
            "atomics": env("FGRAD_ATOMICS", "0") not in ("", "0"),
            "tf32": env("FGRAD_TF32", "0") not in ("", "0"),
            "epilogues": env("FGRAD_EPILOGUES", "0") not in ("", "0"),
            "host_fallback": env("FGRAD_HOST_FALLBACK", "0") not in ("", "0"),
            "shared_kernels": env("FGRAD_SHARED_KERNELS", "1") != "0",
            "cudnn": env("FGRAD_CUDNN", "1") != "0",
            "capture": env("FGRAD_CAPTURE", "1") != "0",
            "checks": env("FGRAD_CHECKS", "1") != "0",
            "eager_compile": _whole("FGRAD_EAGER_COMPILE", 0),
            "check_index": False,
            "nans": False,
            "infs": False,
            "driver": 0,
        }
        self._names = tuple(settings)
        self._update(settings)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self).get("_names", ()):
            self._update({name: value})
        elif name == "cpu":
            raise AttributeError("config.cpu is set by FGRAD_CPU alone, before fgrad is imported")
        else:
            object.__setattr__(self, name, value)

    def _update(self, settings: dict[str, object]) -> None:
        """Change settings; what was compiled under the same ones before is valid again."""
        vars(self).update(settings)
        combination = tuple([vars(self)[name] for name in self._names if name not in _FREE])
        self.epoch = self._combinations.setdefault(combination, len(self._combinations))
        self.epoch_cell.value = self.epoch

    @contextmanager
    def override(self, **settings: object) -> Iterator[None]:
        """Change settings within a block.

        Example:
            >>> from fgrad.config import config
            >>> with config.override(disable_jit=True):
            ...     config.disable_jit
            True
        """
        unknown = set(settings) - set(self._names)
        if unknown:
            raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
        saved = {name: getattr(self, name) for name in settings}
        self._update(settings)
        try:
            yield
        finally:
            self._update(saved)


config = Config()

# Blocks in which jitted functions must run themselves, line by line.
without_jit = Shared(lambda: config.override(disable_jit=True))
