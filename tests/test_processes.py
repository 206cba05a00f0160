"""Other processes compute the same bits with functions that were sent to them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from pickle_cases import LINEAR, TRANSFORMED, Case, X
from test_pickling import bits, called, local_cases

import fgrad
from fgrad import tree
from fgrad.errors import NonScalarGradError

ROOT = Path(__file__).parent
METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


def pulled(pullback: Any, ct: Any) -> Any:
    return bits(pullback(ct))


def failing(f: Any) -> Any:
    return f(X)


@pytest.fixture(params=METHODS)
def pool(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks with threads
        context = multiprocessing.get_context(request.param)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            yield pool


def test_multiprocessing(pool: ProcessPoolExecutor) -> None:
    expected = {name: called(case) for name, case in TRANSFORMED.items()}
    found = dict(zip(TRANSFORMED, pool.map(called, TRANSFORMED.values()), strict=True))
    assert {name for name in expected if found[name] != expected[name]} == set()

    made = {name: fgrad.vjp(*given) for name, given in LINEAR.items()}
    cts = {name: tree.map(np.ones_like, y) for name, (y, _) in made.items()}
    pullbacks = [pullback for _, pullback in made.values()]
    for name, bits_there in zip(made, pool.map(pulled, pullbacks, cts.values()), strict=True):
        assert bits_there == bits(made[name][1](cts[name])), name

    with pytest.raises(NonScalarGradError) as there:
        pool.submit(failing, fgrad.grad(np.sin)).result()
    with pytest.raises(NonScalarGradError) as here:
        failing(fgrad.grad(np.sin))
    assert str(there.value) == str(here.value)


def test_joblib() -> None:
    local = {f"local {name}": Case(f) for name, f in local_cases(X).items() if name != "vmap"}
    cases = {**TRANSFORMED, **local}
    expected = [called(case) for case in cases.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [joblib.delayed(result_of)(case) for case in cases.values()]
        found = joblib.Parallel(n_jobs=2)(calls)
    wrong = [n for n, a, b in zip(cases, expected, map(bits, found), strict=True) if a != b]
    assert wrong == []


def result_of(case: Any) -> Any:
    return case.function(*[x.copy() if isinstance(x, np.ndarray) else x for x in case.args])


SCRIPT = """
import pickle, sys
import cloudpickle, joblib, numpy as np, fgrad

@fgrad.grad
def slope(x):
    return np.sum(np.sin(x) * x)

@fgrad.jit
@fgrad.grad
def fast(x):
    return np.sum(np.sin(x) * x)

@fgrad.custom_jvp
def sine(x):
    return np.sin(x)

@sine.defjvp
def sine_jvp(primals, tangents):
    return sine(primals[0]), 3 * np.cos(primals[0]) * tangents[0]

@fgrad.primitive(out=lambda x: x)
def cube(x):
    return x**3

@cube.def_jvp
def cube_jvp(primals, tangents, out):
    return 3 * primals[0] ** 2 * tangents[0]

def product(x):
    return np.linalg.solve(np.eye(3), np.sort(sine(x) * cube(x)))

x = np.arange(3.0)
_, pullback = fgrad.vjp(product, x)
functions = [
    slope, fast, sine, cube, pullback, fgrad.jacrev(slope), fgrad.hessian(slope.__wrapped__),
    fgrad.jit(fgrad.jacfwd(product)),
]

if __name__ == "__main__":
    for f in functions:
        here = np.asarray(f(x)).tobytes()
        assert np.asarray(pickle.loads(pickle.dumps(f))(x)).tobytes() == here
        there, = joblib.Parallel(n_jobs=2)([joblib.delayed(f)(x)])
        assert np.asarray(there).tobytes() == here
        with open(sys.argv[1], "ab") as file:
            pickle.dump((cloudpickle.dumps(f), x, here), file)
"""

READER = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    for _ in range(8):
        data, x, here = pickle.load(file)
        found = pickle.loads(data)(x)
        assert getattr(found, "tobytes", lambda: found[0].tobytes())() == here
"""


def test_a_script_sends_its_functions_to_processes_without_it(tmp_path: Path) -> None:
    script, reader, data = tmp_path / "script.py", tmp_path / "reader.py", str(tmp_path / "data")
    script.write_text(SCRIPT)
    reader.write_text(READER)
    paths = os.pathsep.join([str(ROOT.parent), os.environ.get("PYTHONPATH", "")])
    for file in (script, reader):
        command = [sys.executable, str(file), data]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
        assert done.returncode == 0
