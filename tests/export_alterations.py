"""Exported files, altered: each must be refused, or load as a program that computes.

    python tests/export_alterations.py 10000        some minutes; prints what became of them

Alterations are made with the hash as it was (`raw`), and with a new one, as who wants to do harm
would (`sealed`).  Worker processes have a limit of memory and an audit hook: a crash, a process
that is started, a module that is unpickled or a file that is written to is a failure.  With trust
raw alterations are loaded too; sealed ones are not, since machine code of a stranger is what trust
is about.
"""

from __future__ import annotations

import collections
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, NoReturn

import numpy as np

import fgrad
from fgrad import lax
from fgrad.aot.files import FORMAT, HEAD, MAGIC, crc_of, made
from fgrad.errors import FgradError

MEMORY = 6 << 30
SECONDS = 1.0  # of a call
EACH = 500  # alterations in one worker
FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class",
             "socket.connect", "os.remove", "os.rename", "shutil.rmtree")  # fmt: skip
HOSTILE: list[Any] = [
    None, True, -1, 0, 1 << 62, 1 << 80, 1e308, "", "../../etc/passwd", "/etc/passwd", "os.system",
    "x" * 10_000, [], {}, [1 << 40, 1 << 40], [-1, 8], {"tuple": [0, 0]}, {"list": {}}, "|O", "V8",
    [["<f8", [1 << 60], False]], {"__reduce__": "os.system"},
]  # fmt: skip


def bases(folder: str) -> list[bytes]:
    """The files that are altered."""

    def loss(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(w @ h + x)
            return h, np.sum(h)

        return np.sum(lax.scan(step, np.zeros(4), xs)[1])

    table = np.arange(40.0)

    def swapped(x: Any) -> Any:
        halves = x[: x.shape[0] // 2], x[x.shape[0] // 2 :]
        return np.concatenate([halves[1], halves[0]]) / x.shape[0] ** 0.5, x[1:] - x[:-1]

    programs: list[tuple[Any, tuple[Any, ...], Any]] = [
        (lambda x: np.sin(x) * 2.0 + np.sum(x), (np.ones(20),), False),
        (fgrad.value_and_grad(loss), (np.ones((4, 4)), np.ones((6, 4))), False),
        (lambda x, n: {"y": table[n] * x, "z": (x, 2.0)}, (np.ones(3), np.arange(3)), False),
        (lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: y * 2, x), (np.ones(4),), False),
        (fgrad.value_and_grad(loss), (np.ones((4, 4)), np.ones((6, 4))), {"xs": 0}),
        (swapped, (np.ones(7),), True),
    ]  # fmt: skip
    found = []
    for k, (f, args, dynamic) in enumerate(programs):
        path = os.path.join(folder, f"base{k}.fgx")
        fgrad.export(f, *args, path=path, dynamic=dynamic)
        with open(path, "rb") as file:
            found.append(file.read())
    return found


def sealed(head: bytes, body: bytes) -> bytes:
    """A file of these parts with the right hash."""
    head += b" " * (-(HEAD.size + len(head)) % 64)
    return HEAD.pack(MAGIC, FORMAT, len(head), crc_of(len(head), head + body)) + head + body


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The head and the rest of a sound file."""
    size = HEAD.unpack_from(data)[2]
    return json.loads(data[HEAD.size : HEAD.size + size]), data[HEAD.size + size :]


def altered(files: list[bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """The kind of an alteration, and the file."""
    data = files[rng.integers(len(files))]
    kind = KINDS[rng.integers(len(KINDS))]
    return kind, ALTER[kind](data, files, rng)


def _flip(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    out = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _truncate(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def _version(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    return data[:8] + struct.pack("<I", rng.integers(1 << 32)) + data[12:]


def _lengths(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    return data[:12] + struct.pack("<I", rng.integers(1 << 32)) + data[16:]


def _shifted(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    """A head that ends among its last spaces: what follows would begin elsewhere."""
    size = HEAD.unpack_from(data)[2] + int(rng.integers(-8, 9) or 1)
    return data[:12] + struct.pack("<I", size) + data[16:]


def _swapped(data: bytes, files: list[bytes], rng: np.random.Generator) -> bytes:
    """The head of one file before the body of another."""
    head, _ = parts(data)
    _, body = parts(files[rng.integers(len(files))])
    return sealed(json.dumps(head).encode(), body)


def _hostile(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    """One value of the head replaced."""
    head, body = parts(data)
    if rng.random() < 0.9:  # what is said of machine code is long, and not looked at without trust
        del head["machine"][:]
    at: Any = head
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[rng.integers(len(keys))]
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        if rng.random() < 0.1:
            del at[key]
        else:
            at[key] = HOSTILE[rng.integers(len(HOSTILE))]
        return sealed(json.dumps(head).encode(), body)


def _sizes(data: bytes, files: list[bytes], rng: np.random.Generator) -> bytes:
    """Numbers, guards and axes of sizes altered, exchanged, left out."""
    sized = [file for file in files if "sizes" in parts(file)[0]]
    head, body = parts(data if data in sized else sized[rng.integers(len(sized))])
    for _ in range(rng.integers(1, 4)):
        kind, other = ["axes", "numbers", "guards"][rng.integers(3)], _copy(SIZES, rng)
        at: Any = head["sizes"][kind]
        while at and isinstance(at[key := rng.integers(len(at))], list) and rng.random() < 0.8:
            at = at[key]
        if not at:
            at.append(other)
        elif rng.random() < 0.2:
            del at[key]
        elif rng.random() < 0.2:
            at.insert(key, _copy(at, rng))
        else:
            at[key] = other
    return sealed(json.dumps(head).encode(), body)


def _copy(words: list[Any], rng: np.random.Generator) -> Any:
    return json.loads(json.dumps(words[rng.integers(len(words))]))


SIZES: list[Any] = [
    0, 1, 2, 3, -1, 7, 1 << 62, 1 << 70, 0.5, 1e308, [0], [1], [-1], [1 << 62], [0.5], ["d"], "add",
    "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "int", "bits", "ones", "min", "max",
    "chosen", "float", "sum", "le", "eq", "__import__", True, False, None, ["add", 0, 0],
    ["mul", 0, 0], ["pow", 0, [60]], ["pow", 0, 0], ["floordiv", 0, [0]], ["sum", [1, 0], [-5]],
    ["sub", [0], 0], ["min", 0, [3]], ["truediv", 0, [3]], ["eq", 0, [7], True],
    ["lt", 0, 1, False],
    [0, 0], [0, 1], [[0, 0]], [[1, 0], [0, 0]], {}, [[]],
]  # fmt: skip


def _deep(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    """A head of many brackets."""
    _, body = parts(data)
    count = int(rng.integers(1, 200_000))
    return sealed(b'{"name":' + b"[" * count + b"]" * count + b"}", body)


def _text(data: bytes, _files: list[bytes], rng: np.random.Generator) -> bytes:
    """Words of the program replaced, repeated, left out."""
    head, body = parts(data)
    start, size = head["program"]
    lines = body[start : start + size].decode().split("\n")
    for _ in range(rng.integers(1, 4)):
        k = rng.integers(len(lines))
        words = lines[k].split(" ")
        w = rng.integers(len(words))
        change = rng.integers(7)
        if change == 0:
            words[w] = WORDS[rng.integers(len(WORDS))]
        elif change == 6:
            words[w] = words[w].replace("{0}", "{1}").replace("{2}", "{0}").replace("{1}", "{3}")
        elif change == 1:
            words[w] = words[w].replace("[4", "[4000000000").replace("2", "-7").replace("0", "99")
        elif change == 2:
            del words[w]
        elif change == 3:
            words.insert(w, words[w])
        elif change == 4:
            words[w] = words[w].translate(str.maketrans("abcde", "bcdea"))
        else:
            lines.insert(k, lines[rng.integers(len(lines))])
        lines[k] = " ".join(words)
    text = "\n".join(lines).encode()
    head["program"] = [len(body), len(text)]
    return sealed(json.dumps(head).encode(), body + text)


WORDS = [
    "sin", "gather[axes=(0,) mode='promise']", "io_callback", "pure_callback", "f64[99999999999]",
    "@1", "@0", "9" * 400, "((((((", "<function>", "__import__('os')", "a", "b", "nan", "scan",
    "while", "call[program=@1 name='f']", "i64[]", "f64[0]", "const", "return", "program", "",
    "length=1000000000000", "axes=(7,)", "digest:00", "1e999", "-1", "iota[shape=(99999999999,)]",
]  # fmt: skip
ALTER = {
    "raw flip": _flip, "raw truncate": _truncate, "raw version": _version, "raw length": _lengths,
    "raw shift": _shifted,
    "sealed swap": _swapped, "sealed head": _hostile, "sealed brackets": _deep,
    "sealed text": _text, "sealed text again": _text, "sealed head again": _hostile,
    "sealed sizes": _sizes, "sealed sizes again": _sizes,
}  # fmt: skip
KINDS = list(ALTER)


def outcome(path: str, kind: str) -> str:
    """What loading an altered file comes to."""
    trusts = (False, True) if kind.startswith("raw") else (False,)
    for trust in trusts:
        try:
            loaded = fgrad.load(path, trust=trust)
        except FgradError as error:
            result = f"refused, {type(error).__name__}"
        else:
            assert not kind.startswith("raw"), "an altered file was loaded"
            result = called(loaded)
    return result


class OutOfTimeError(Exception):
    """A call takes long, as loops of altered programs may."""


def _end(_signal: int, _frame: Any) -> NoReturn:
    raise OutOfTimeError


def called(loaded: Any) -> str:
    """What calls of an altered program come to, also with other lengths where it takes these."""
    avals = [v.aval for v in loaded.program.inputs]
    if sum([a.size for a in avals]) > 1 << 20:
        return "loaded"
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        for length in (None, 3, 40, 33):
            shapes = [[length or n if n in (6, 7) else n for n in a.shape] for a in avals]
            leaves = [np.ones(s, a.dtype) for s, a in zip(shapes, avals, strict=True)]
            if length is None or loaded._changing is not None:
                loaded(*made(loaded.arguments, leaves))
    except (FgradError, OutOfTimeError, MemoryError, ArithmeticError, ValueError) as error:
        return f"loaded, {type(error).__name__} when called"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "loaded and called"


def work(folder: str, seed: int, count: int) -> None:
    """Load altered files, and print what became of them."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("base"):
            with open(os.path.join(folder, name), "rb") as file:
                files.append(file.read())
    path = os.path.join(folder, f"altered{seed}.fgx")
    loading = False

    def watch(event: str, args: Any) -> None:
        writes = event == "open" and loading and isinstance(args[1], str) and "w" in args[1]
        if loading and (event.startswith(FORBIDDEN) or writes):
            print(f"FORBIDDEN {event} {str(args)[:200]}", flush=True)
            os._exit(3)

    fgrad.jit(np.sin)(np.ones(3))
    signal.signal(signal.SIGALRM, _end)
    sys.addaudithook(watch)
    found: collections.Counter[str] = collections.Counter()
    for k in range(count):
        kind, data = altered(files, np.random.default_rng([seed, k]))
        with open(path, "wb") as file:
            file.write(data)
        loading = True
        try:
            result = outcome(path, kind)
        except BaseException as error:
            print(f"seed {seed}, {k}: {kind}: {type(error).__name__}: {error}", flush=True)
            raise
        finally:
            loading = False
        found[f"{kind}: {result}"] += 1
    print(json.dumps(found))


def run(count: int, show: bool = False) -> collections.Counter[str]:
    """Load so many altered files, in workers.

    Raises:
        RuntimeError: one ended otherwise than it should.
    """
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        bases(folder)
        for seed in range(-(-count // EACH)):
            size = min(EACH, count - seed * EACH)
            command = [sys.executable, __file__, "work", folder, str(seed), str(size)]
            environment = {**os.environ, "FGRAD_CACHE": "0", "FGRAD_CHECK": "0"}
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
            start = time.perf_counter()
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=900, env=environment, check=False
            )
            if done.returncode:
                raise RuntimeError(f"worker {seed}: {done.returncode}\n{done.stdout}{done.stderr}")
            found.update(json.loads(done.stdout.splitlines()[-1]))
            if show:
                print(seed, f"{time.perf_counter() - start:.1f} s", flush=True)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        for name, times in sorted(run(int(sys.argv[1]), show=True).items()):
            print(f"{times:>6}  {name}")
