"""All tests run with full checks, a private kernel cache, and seeds made from their names."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

# The settings are read when fgrad is imported, which happens after this file.
_CACHE = tempfile.TemporaryDirectory(prefix="fgrad-test-cache-", ignore_cleanup_errors=True)
os.environ["FGRAD_CACHE_DIR"] = _CACHE.name
os.environ.setdefault("FGRAD_CHECK", "2")
os.environ.setdefault("MPLBACKEND", "Agg")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's in the background; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites expected texts; the change is then reviewed as a diff."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_collection_finish() -> None:
    """What stands for 20,000 tests is not looked at by the garbage collector, which tests call:
    a quarter of a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def entry() -> None:
    """The native entry is there: in an empty cache the first function waits some calls for it."""
    double = pytest.importorskip("fgrad").jit(lambda x: x * 2)
    for _ in range(16):
        double(1.0)


@pytest.fixture(autouse=True, scope="module")
def young() -> None:
    """Nor is what the tests of other files have left."""
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """NumPy's legacy generator, for code that uses it, starts from the test's name."""
    np.random.seed(zlib.adler32(request.node.nodeid.encode()))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Iterator[np.random.Generator]:
    """A generator seeded from the test's name: the same numbers in every run and order."""
    yield np.random.default_rng(zlib.adler32(request.node.nodeid.encode()))
