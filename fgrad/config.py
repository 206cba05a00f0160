"""L0. Settings, read once from the environment; `override` changes them within a block.

FGRAD_CHECK=0..3        1: check programs after tracing and before emission (default)
                        2: after every pass; 3: also run before and after each pass and compare
FGRAD_SHOW=a,b          print stages: program, passes, kernel, llvm, asm, cuda, time
FGRAD_DUMP=dir          write every stage into files
FGRAD_DISABLE_JIT=1     evaluate jitted functions with NumPy
FGRAD_CACHE_DIR=dir     the disk cache of compiled kernels;  FGRAD_CACHE=0 turns it off
FGRAD_NUM_THREADS=n     threads of compiled code
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Config:
    """The settings; one instance, `config`, is shared by all threads."""

    def __init__(self) -> None:
        env = os.environ.get
        self.check: int = int(env("FGRAD_CHECK") or 1)
        self.show: frozenset[str] = frozenset(filter(None, env("FGRAD_SHOW", "").split(",")))
        self.dump: str = env("FGRAD_DUMP", "")
        self.disable_jit: bool = env("FGRAD_DISABLE_JIT", "0") not in ("", "0")
        self.cache: bool = env("FGRAD_CACHE", "1") != "0"
        self.cache_dir: str = env("FGRAD_CACHE_DIR", "") or os.path.join(
            env("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache"), "fgrad"
        )
        self.num_threads: int = int(env("FGRAD_NUM_THREADS") or os.cpu_count() or 1)
        self.epoch: int = 0  # part of every compilation key: changes with each override

    @contextmanager
    def override(self, **settings: Any) -> Iterator[None]:
        """Change settings within a block.

        Example:
            >>> from fgrad.config import config
            >>> with config.override(disable_jit=True):
            ...     config.disable_jit
            True
        """
        unknown = set(settings) - set(vars(self))
        if unknown:
            raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
        saved = {name: getattr(self, name) for name in settings}
        vars(self).update(settings)
        self.epoch += 1
        try:
            yield
        finally:
            vars(self).update(saved)
            self.epoch += 1


config = Config()
