"""Exported programs: sizes of files, times to load and to call, against `jit`.

    python benchmarks/exported.py
    python benchmarks/exported.py lengths       programs whose lengths may change

Load times are CPU milliseconds of a process that has imported fgrad, which other processes disturb
less than wall time; `import` is that of `import fgrad` beyond `import numpy`.  A ratio of calls is
the median of A B C A B C in one process, in CPU time of the thread, `jit` the denominator.
Of lengths that may change: the bytes of the file; CPU milliseconds of a process that loads it and
calls it with twice the lengths of the example, by its machine code, by the compiler with the disk
cache, and without; in a process without trust those of the first call with a new length and of the
second, the median of forty lengths, and how often the compiler worked.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from export_programs import DYNAMIC, PROGRAMS
from resized import resized

import fgrad

FIRST = """import sys, time
import numpy as np, pickle, fgrad
with open(sys.argv[1] + ".args", "rb") as file:
    args = pickle.load(file)
start = time.process_time()
f = fgrad.load(sys.argv[1], trust=sys.argv[2] == "1")
f(*args)
print(1e3 * (time.process_time() - start))
"""
LOAD = """import sys, time
import numpy
a = time.process_time()
import fgrad
b = time.process_time()
f = fgrad.load(sys.argv[1], trust=sys.argv[2] == "1")
c = time.process_time()
print(1e3 * (b - a), 1e3 * (c - b))
"""
ROUNDS = 15
NEAR = 2  # of a new length: how many times the example's


def loaded_ms(path: str, trust: bool, cache: bool) -> tuple[float, float]:
    """The times of the import and of `load`: the least of several processes."""
    found = []
    environment = {**os.environ, "FGRAD_CACHE": str(int(cache))}
    for _ in range(7 if trust else 3):
        command = [sys.executable, "-c", LOAD, path, str(int(trust))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found.append([float(x) for x in done.stdout.split()])
    return min(x for x, _ in found), min(x for _, x in found)


def first_ms(path: str, trust: bool, args: Any, cache: bool) -> float:
    """The time to load a file and call it once with a new length: the least of five processes."""
    with open(f"{path}.args", "wb") as file:
        pickle.dump(args, file)
    environment = {**os.environ, "FGRAD_CACHE": str(int(cache))}
    command = [sys.executable, "-c", FIRST, path, str(int(trust))]
    found = []
    for _ in range(5):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found.append(float(done.stdout))
    return min(found)


def seconds(f: Any, args: Any, calls: int) -> float:
    """The time of a call."""
    start = time.thread_time()
    for _ in range(calls):
        f(*args)
    return (time.thread_time() - start) / calls


def ratios(path: str, jitted: Any, args: Any) -> tuple[float, float, float]:
    """Microseconds of `jit`, and the times of both loaded forms over it."""
    forms = [jitted, fgrad.load(path, trust=True), fgrad.load(path)]
    for f in forms:
        for _ in range(12):
            f(*args)
    calls = max(1, int(2e-3 / seconds(jitted, args, 100)))
    times = [[seconds(f, args, calls) for f in forms] for _ in range(ROUNDS)]
    over = [statistics.median([t[k] / t[0] for t in times]) for k in (1, 2)]
    return 1e6 * min(t[0] for t in times), over[0], over[1]


def bits(a: Any, b: Any) -> bool:
    """Whether two trees have the same bits."""
    pairs = zip(fgrad.tree.leaves(a), fgrad.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def row(name: str, folder: str) -> dict[str, Any]:
    """The figures of a program."""
    f, make = PROGRAMS[name]
    args = make(np.random.default_rng(0))
    jitted = fgrad.jit(f)
    expected = jitted(*args)
    path = os.path.join(folder, name)
    size = fgrad.export(jitted, *args, path=path)
    small = fgrad.export(jitted, *args, path=path + ".text", targets=())
    start = time.process_time()
    fgrad.export_c(jitted, *args, path=path, name=name)
    written = 1e3 * (time.process_time() - start)
    imported, trusted = loaded_ms(path, True, cache=True)
    _, compiled = loaded_ms(path, False, cache=False)
    us, fast, slow = ratios(path, jitted, args)
    same = [bits(fgrad.load(path, trust=t)(*args), expected) for t in (True, False)]
    return {
        "program": name, "bytes": size, "without code": small,
        "object": os.path.getsize(path + ".o"), "import": imported, "trusted ms": trusted,
        "compiled ms": compiled, "bits": all(same), "jit us": us, "trusted": fast, "compiled": slow,
        "export_c ms": written,
    }  # fmt: skip


def lengths_row(name: str, folder: str) -> dict[str, Any]:
    """The figures of a program whose lengths may change."""
    (f, make), (dynamic, lengths) = PROGRAMS[name], DYNAMIC[name]
    args = make(np.random.default_rng(0))
    path = os.path.join(folder, name)
    small = fgrad.export(f, *args, path=path, dynamic=dynamic, targets=())
    start = time.process_time()
    size = fgrad.export(f, *args, path=path, dynamic=dynamic)
    written = 1e3 * (time.process_time() - start)
    near: Any = list(args)
    for length in lengths:
        near = resized(near, length, NEAR * length)
    trusted = first_ms(path, True, near, cache=True)
    warm, cold = first_ms(path, False, near, cache=True), first_ms(path, False, near, cache=False)
    loaded: Any = fgrad.load(path)
    times = []
    for n in range(150, 190):
        given: Any = list(args)
        for k, length in enumerate(lengths):
            given = resized(given, length, n + 200 * k)
        for _ in range(2):
            start = time.process_time()
            loaded(*given)
            times.append(1e3 * (time.process_time() - start))
    first, again = statistics.median(times[::2]), statistics.median(times[1::2])
    made = len(loaded._changing.compiled.templates)
    return {
        "program": name, "bytes": size, "without code": small, "written ms": written,
        "load and new length, trusted ms": trusted, "compiled, cache": warm, "compiled": cold,
        "new length ms": first, "again ms": again, "templates": made,
    }  # fmt: skip


def main() -> None:
    """Print a row for each program."""
    print(f"load of the machine: {os.getloadavg()}")
    with tempfile.TemporaryDirectory() as folder:
        for name in DYNAMIC if "lengths" in sys.argv[1:] else ():
            found = lengths_row(name, folder)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
            print(json.dumps(shown), flush=True)
        if "lengths" in sys.argv[1:]:
            return
        for name in PROGRAMS:
            found = row(name, folder)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
            print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
