"""Imports of fgrad in other orders and with interrupts, each in a process of its own; for tests.

    python tests/import_faults.py order SEED      all modules, in a random order
    python tests/import_faults.py lines SEED      each module is interrupted at two of its lines
    python tests/import_faults.py ends SEED       each module is interrupted after its last line
    python tests/import_faults.py alarm SEED      what is loaded when first used, under an alarm

After that the programs in `check` are run, and the names of all namespaces printed.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import signal
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ABSENT = [
    f"fgrad.interop.{name}" for name in ("torch", "jax") if importlib.util.find_spec(name) is None
]
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
NAMESPACES = (
    "fgrad", "fgrad.numpy", "fgrad.numpy.linalg", "fgrad.numpy.fft", "fgrad.scipy.special",
    "fgrad.scipy.linalg", "fgrad.scipy.stats", "fgrad.lax", "fgrad.nn", "fgrad.optim",
)  # fmt: skip
FIRST_USES = (
    "jit", "nn", "optim", "lax", "custom_vjp", "checkpoint", "sparse", "numpy.linalg.norm",
    "numpy.einsum", "numpy.r_", "numpy.fft.fft", "scipy.linalg.expm", "scipy.stats.norm",
    "scipy.special.erf", "tree.flatten", "view",
)  # fmt: skip


def modules() -> list[str]:
    """All modules that need no device."""
    paths = [p.relative_to(ROOT).with_suffix("") for p in sorted((ROOT / "fgrad").rglob("*.py"))]
    names = [".".join(p.parts).removesuffix(".__init__") for p in paths]
    return [name for name in names if "lower_cuda" not in name and name not in ABSENT]


def until_done(action: Callable[[], Any]) -> None:
    """Repeat what is interrupted."""
    for _ in range(5000):
        try:
            action()
            return
        except KeyboardInterrupt:
            pass
    raise SystemExit("interrupted without end")


def interrupted_imports(rng: random.Random, at_end: bool) -> int:
    """Import all modules, each of which is interrupted; how many interrupts there were."""
    done: dict[str, int] = {}
    plain = SourceFileLoader.exec_module

    def exec_module(self: Any, module: Any) -> None:
        name = module.__name__
        if not name.startswith("fgrad") or done.get(name, 0) > (not at_end):
            return plain(self, module)
        done[name] = done.get(name, 0) + 1
        if at_end:
            plain(self, module)
            raise KeyboardInterrupt
        with_interrupt(rng, self.get_code(name), lambda: plain(self, module))
        return None

    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign]
    until_done(lambda: importlib.import_module("fgrad"))
    names = modules()
    rng.shuffle(names)
    for name in names:
        until_done(lambda name=name: importlib.import_module(name))
    SourceFileLoader.exec_module = plain  # type: ignore[method-assign]
    return sum(done.values())


def with_interrupt(rng: random.Random, code: CodeType, run: Callable[[], Any]) -> None:
    """Run the code of a module up to one of its lines, chosen at random."""
    stop = rng.choice(sorted({line for _, _, line in code.co_lines() if line}))

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_lineno >= stop:
            raise KeyboardInterrupt
        return local

    def begin(frame: Any, event: str, arg: Any) -> Any:
        same = frame.f_code.co_filename == code.co_filename
        return local if same and frame.f_code.co_name == "<module>" else None

    sys.settrace(begin)
    try:
        run()
    finally:
        sys.settrace(None)


def alarmed_uses(rng: random.Random) -> int:
    """Use what is loaded lazily while an alarm rings at random times; how often it rang."""
    fgrad = importlib.import_module("fgrad")
    rung = 0

    def ring(*_: Any) -> None:
        nonlocal rung
        rung += 1
        raise KeyboardInterrupt

    def use(name: str, pause: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, pause)
        found: Any = fgrad
        for part in name.split("."):
            found = getattr(found, part)
        signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, ring)
    for name in rng.sample(FIRST_USES, len(FIRST_USES)):
        tries = iter(range(5000))
        until_done(lambda n=name, t=tries: use(n, rng.uniform(5e-5, 2e-3) * 2 ** (next(t) / 8)))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return rung


def check() -> None:
    """Programs that go through all tables."""
    import_ = importlib.import_module
    np, fgrad, special = import_("numpy"), import_("fgrad"), import_("scipy.special")
    fnp = fgrad.numpy
    assert fgrad.grad(lambda x: fnp.linalg.norm([x, x + 2]))(0.0) == 1.0
    assert fnp.linalg.norm([3.0, 4.0]) == 5.0

    def smooth(x: Any) -> Any:
        return np.sum(np.sin(x) * special.erf(x) * fnp.fft.fft(x).real)

    def in_place(x: Any) -> Any:
        y = x.copy()
        y[1:] *= 2
        y.reshape(-1)[::2] += 1
        np.add.at(y, [0, 0], 1.0)
        return np.sum(np.real(y) * y)

    def looped(x: Any) -> Any:
        return fgrad.lax.scan(lambda c, v: (c * np.tanh(v), c), 1.0, x)[1].sum()

    x = np.arange(4.0)
    for f in (smooth, in_place, looped):
        step = 1e-6
        slope = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(4)]
        for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f))):
            assert np.allclose(g(x), slope, atol=1e-6), f.__name__
    with fgrad.debug.nans():
        fgrad.grad(looped)(x)
    double = fgrad.custom_jvp(lambda x: x * x)
    double.defjvp(lambda p, t: (p[0] ** 2, t[0] * 5.0))
    assert fgrad.jit(fgrad.grad(double))(1.0) == 5.0


def names() -> str:
    """What each name of the public namespaces is."""
    rows = []
    for space in NAMESPACES:
        module = importlib.import_module(space)
        for name in dir(module):
            value = None if name.startswith("_") else getattr(module, name)
            if value is not None and not isinstance(value, ModuleType):
                kind = type(value)
                code = getattr(getattr(value, "__code__", None), "co_filename", "")
                rows.append(f"{space}.{name} {kind.__module__}.{kind.__qualname__} {code}")
    return "\n".join(sorted(rows))


def main(mode: str, seed: int) -> None:
    """One process."""
    rng, count = random.Random(seed), 0
    if mode == "order":
        order = rng.sample(modules(), len(modules()))
        for name in order:
            importlib.import_module(name)
    elif mode == "alarm":
        count = alarmed_uses(rng)
    else:
        for name in ("optree", "scipy.special", "scipy.linalg", "scipy.optimize", "llvmlite"):
            importlib.import_module(name)  # others' compiled modules cannot begin twice
        count = interrupted_imports(rng, mode == "ends")
    check()
    for name in modules():
        importlib.import_module(name)
    print(f"{count} interrupts")
    print(names())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
