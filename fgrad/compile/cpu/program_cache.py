"""L5. Compiled programs on disk: a second process traces a function and runs it.

An entry is what `Executable` is made of, as plain data: the steps over slots, with each address
replaced by the name of a kernel or by the parameters of a library routine.  Machine code stays in
the cache of kernels, to which an entry refers; if a kernel is gone, the program is compiled anew.

    key      the identity of the traced program, the settings, and what the compiler itself is
    entry    (arena bytes, constants, literals, given slots, reuse, routines, steps)
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.base.digest import digest
from fgrad.base.lazy_import import lazy_module
from fgrad.compile.cpu.executable import Executable, Image
from fgrad.compile.cpu.native_routines import NativeTask, native_routine, task_of
from fgrad.compile.cpu.structural_hash import identity
from fgrad.compile.host import program as host
from fgrad.compile.llvm import runtime
from fgrad.compile.llvm.store import contents, python_files
from fgrad.compile.llvm.target import version_in
from fgrad.compile.tasks.runnable import Runnable
from fgrad.config import config
from fgrad.ir.program import Lit, Program
from fgrad.ir.walk import subprograms
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile.tasks.plan import Donation

scipy = lazy_module("scipy")

CONSTANT_LIMIT = 16 << 20  # bytes of computed constants in one entry
_FLAT = (host.Call, host.Share, host.PointAt, host.Advance, host.Swap, host.Copy, host.Fill)
_ADDRESSED = (host.Call, host.Share)
_LOOPS = (host.Repeat, host.While, host.Branch)


def program_key(program: Program, donated: Sequence[Donation] = ()) -> str | None:
    """The name of a program's entry; None if it has none, or if its passes are to be seen."""
    if not config.cache or config.check >= 2 or config.show or config.dump:
        return None
    name = identity(program)
    if name is None:
        return None
    words = (name, compiler_digest(), runtime.identity(), config.num_threads, tuple(donated))
    words += (config.shared_kernels,)
    return "p_" + digest(repr(words).encode())[:40]


@lru_cache
def compiler_digest() -> str:
    """A hash of all that a compiled program depends on: our sources, and those of NumPy by
    version."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    parts = [os.path.join(root, name) for name in ("ir", "ops", "compile")]
    files = [file for part in parts for file in python_files(part, runtime.EMITTERS)]
    ours = contents(files, runtime.store())
    of_scipy = version_in("scipy", "version.py") or scipy.__version__
    return repr((ours, sys.version, np.__version__, of_scipy))


def stored(
    program: Program, donated: Sequence[Donation], compiled: Callable[[], Runnable]
) -> Runnable:
    """The program from disk, or compiled and written there."""
    key = program_key(program, donated)
    found = None if key is None else recall(key, program)
    if found is not None:
        return found
    made = compiled()
    if key is not None:
        keep(key, program, made)
    return made


def keep(key: str, program: Program, executable: Runnable) -> None:
    """Write the entry of a compiled program, if all of it is plain data."""
    image = executable.image
    assert isinstance(image, Image)
    entry = _entry(program, image)
    if entry is not None:
        runtime.store().put(key, marshal.dumps(entry))


def recall(key: str, program: Program) -> Executable | None:
    """The compiled program of an entry; None if there is none, or if its code is gone."""
    payload = runtime.store().get(key)
    if payload is None:
        return None
    arena, consts, literals, given, reuse, routines, steps = marshal.loads(payload)
    names = [routine for routine in routines if isinstance(routine, str)]
    known = runtime.recalled(names)
    if known is None:
        return None
    kernels = dict(zip(names, known, strict=True))
    origins: dict[int, str | NativeTask] = {}
    callbacks: list[host.Callback] = []
    numbered: list[int] = []
    for routine in routines:
        if isinstance(routine, str):
            address, origin = kernels[routine], routine
        else:
            name, fields = routine
            origin = task_of(name, [_decoded(field) for field in fields])
            native = native_routine(origin)
            address = native.address
            callbacks += [native.callback] if native.callback is not None else []
        origins[address] = origin
        numbered.append(address)
    image = Image(
        program.in_avals,
        program.out_avals,
        [_array(c, program) for c in consts],
        [(k, Lit(_array(x, program)[0])) for k, x in literals],
        arena,
        given,
        tuple([_step(words, numbered) for words in steps]),
        origins,
        tuple(callbacks),
        reuse,
    )
    return Executable(image)


def _entry(program: Program, image: Image) -> tuple[Any, ...] | None:
    """An image as plain data; None if it holds what is of this process alone."""
    given = _given_arrays(program)
    consts = []
    for array in image.consts:
        place = given.get(id(array))
        consts.append(place if place is not None else _plain(array))
    size = sum([len(c[2]) for c in consts if len(c) == 3])
    if size > CONSTANT_LIMIT:
        return None
    number: dict[int, int] = {}
    routines: list[object] = []
    for address, origin in image.origins.items():
        number[address] = len(routines)
        if isinstance(origin, str):
            routines.append(origin)
            continue
        fields = tuple(map(_encoded, origin))
        if any([v is _FOREIGN for v in fields]):
            return None
        routines.append((type(origin).__name__, fields))
    literals = tuple([(k, _plain(np.asarray(lit.value).reshape(1))) for k, lit in image.literals])
    try:
        steps = tuple([_words(s, number) for s in image.steps])
    except KeyError:
        return None  # an address of this process
    sizes = (image.arena_bytes, tuple(consts), literals, image.given, image.reuse)
    return (*sizes, tuple(routines), steps)


def _given_arrays(program: Program) -> dict[int, tuple[int, int]]:
    """The constants of a program and of those in its parameters: where each stands."""
    return {
        id(array): (k, j)
        for k, each in enumerate(subprograms(program))
        for j, (_, array) in enumerate(each.consts)
    }


def _plain(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


def _array(words: tuple[PyTree, ...], program: Program) -> np.ndarray:
    if len(words) == 2:
        return np.ascontiguousarray(subprograms(program)[words[0]].consts[words[1]][1])
    dtype, shape, data = words
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


_FOREIGN = object()


def _encoded(value: object) -> object:
    """A parameter as plain data."""
    if isinstance(value, np.dtype):
        return "dtype", value.str
    if type(value) is tuple:
        items = [_encoded(v) for v in value]
        return _FOREIGN if any([v is _FOREIGN for v in items]) else ("tuple", tuple(items))
    plain = type(value) in (int, float, bool, str, type(None))
    return value if plain else _FOREIGN


def _decoded(value: PyTree) -> PyTree:
    if type(value) is not tuple:
        return value
    kind, items = value
    return np.dtype(items) if kind == "dtype" else tuple([_decoded(v) for v in items])


def _words(step: Any, number: dict[int, int]) -> tuple[object, ...]:
    """A step as the name of its kind and its fields, the address numbered; bodies are marked."""
    kind = type(step)
    if kind in _ADDRESSED:
        return kind.__name__, number[step.address], *step[1:]
    if kind in _LOOPS:
        return kind.__name__, *[_body_words(field, number) for field in step]
    return kind.__name__, *step


def _body_words(field: object, number: dict[int, int]) -> object:
    """A field of a loop: a number, a body, or several bodies."""
    if type(field) is not tuple:
        return field
    return tuple([_body_words(s, number) if type(s) is tuple else _words(s, number) for s in field])


def _step(words: tuple[PyTree, ...], addresses: list[int]) -> host.Step:
    kind = _KINDS[words[0]]
    if kind in _ADDRESSED:
        return kind(addresses[words[1]], *words[2:])
    if kind in _LOOPS:
        return kind(*[_body(field, addresses) for field in words[1:]])
    return kind(*words[1:])


def _body(field: PyTree, addresses: list[int]) -> PyTree:
    if type(field) is not tuple:
        return field
    return tuple(
        [_step(s, addresses) if s and type(s[0]) is str else _body(s, addresses) for s in field]
    )


_KINDS = {kind.__name__: kind for kind in (*_FLAT, *_LOOPS)}
