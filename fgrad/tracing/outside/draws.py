"""L2. Random numbers drawn from a generator's state while a function is traced: refused.

A trace runs once, for all calls and all examples of a batch, and so would such a draw be one number
for all of them.  The states of NumPy's and Python's global generators, and of all generators that
the code of the function reads, are compared before and after.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from fgrad.base.kinds import is_array, is_dict
from fgrad.errors import RandomStateError
from fgrad.tracing.outside.installed import Noting
from fgrad.tracing.outside.reads import LOCAL, reads_of
from fgrad.tracing.outside.world import World, world_of

T = TypeVar("T")
WORD = 8
_HEADER = object.__basicsize__
_MT_BYTES = 2500  # 624 words, and the position among them


def generators() -> tuple[type, ...]:
    """The classes of generators, of the modules that are loaded."""
    numpy_random, python_random = _modules()
    of_numpy = () if numpy_random is None else (numpy_random.Generator, numpy_random.RandomState)
    return of_numpy if python_random is None else (*of_numpy, python_random.Random)


def _modules() -> tuple[Any, Any]:
    """`numpy.random`, which NumPy loads when it is first read, and `random`; None if not loaded."""
    return sys.modules.get("numpy.random"), sys.modules.get("random")


def _reads_nothing(fun: object) -> bool:
    """Whether a function has its arguments alone."""
    if type(fun) is not FunctionType or fun.__closure__ or fun.__defaults__:
        return False
    reads = reads_of(fun.__code__)
    return not reads.inner and all([path.source == LOCAL for path in reads.paths])


class Draws(Noting):
    """The generators that a function may draw from, and their states before it is traced; open it
    around the trace.

    Arguments:
        fun: the function.
        world: what it reads from outside, among it objects of `generators`, if that is known.
    """

    def __init__(self, fun: object, world: World | None = None) -> None:
        numpy_random, python_random = self.modules = _modules()
        found: list[tuple[str, object]] = []
        if python_random is not None:
            found.append(("random", python_random._inst))
        if numpy_random is not None:
            found.append(("np.random", numpy_random.mtrand._rand))
        self.fun = fun
        if world is None and found and not _reads_nothing(fun):
            world = world_of(fun, {}, kinds=generators())
        super().__init__(world is not None and world.skips)
        if found and world is not None:
            found += world.found
        self.states = [(name, x, _state(x)) for name, x in found]

    def missed(self) -> bool:
        """Whether functions of installed packages ran for the first time, and may have drawn from
        generators that nobody has looked at: then the function has to run again."""
        if not self.more:
            return False
        known = {id(x) for _, x, _ in self.states}
        found = world_of(self.fun, {}, kinds=generators()).found
        return any([id(x) not in known for _, x in found])

    def _loaded(self) -> list[tuple[str, object, object]]:
        """The global generators of modules that were loaded meanwhile, and their first states."""
        found: list[tuple[str, object, object]] = []
        (numpy_before, python_before), (numpy_random, python_random) = self.modules, _modules()
        if numpy_random is not None and numpy_before is None:
            x = numpy_random.mtrand._rand
            seed = x._bit_generator.seed_seq
            first = seed and numpy_random.RandomState(numpy_random.MT19937(seed))
            found.append(("np.random", x, first and _state(first)))
        if python_random is not None and python_before is None:
            x = python_random._inst
            words = x.getstate()[1]
            first = (3, (*words[:-1], len(words) - 1), None)  # no word was taken
            found.append(("random", x, _state(x) if x.getstate() == first else first))
        return found

    def check(self, fun: str) -> None:
        """Raise a card if the state of a generator has changed."""
        loaded = [] if self.modules == _modules() else self._loaded()
        for name, x, state in [*self.states, *loaded]:
            if _state(x) != state:
                raise refused_draw(fun, f"{name}, a {type(x).__name__}")


def undrawn(fun: object, name: str, run: Callable[[], T]) -> T:
    """What a trace of a function returns, which may draw nothing."""
    while True:
        draws = Draws(fun)
        with draws:
            found = run()
        draws.check(name)
        if not draws.missed():
            return found


def refused_draw(fun: str, generator: str) -> RandomStateError:
    """The card for a draw while a function is traced."""
    return RandomStateError(
        f"{fun} draws random numbers from a generator with a state.",
        (
            ("value", generator),
            ("why", "the function is traced once: one draw would serve all calls,"),
            ("why", "and all examples of a batch."),
            ("write", "def f(key, x): ... fgrad.random.normal(key, x.shape)"),
            ("write", "    with a key for each call, and each example:"),
            ("write", "    fgrad.random.split(fgrad.random.key(0), n)"),
            ("write", "or draw before the call, and pass the numbers"),
        ),
    )


def _state(x: Any) -> object:
    """A value that changes with each draw."""
    if hasattr(x, "getstate"):
        return _python_state(x)
    if not hasattr(x, "get_state"):
        return _plain(x.bit_generator.state)
    bits = x._bit_generator
    offset = _offset_of_gauss() if type(bits).__name__ == "MT19937" else 0
    if offset:  # 40 us less than get_state
        at = bits.ctypes.state_address
        return ctypes.string_at(at, _MT_BYTES), ctypes.string_at(id(x) + offset, 2 * WORD)
    return _plain(x.get_state(legacy=False))


def _python_state(x: Any) -> object:
    if _python_words_are_known():
        return ctypes.string_at(id(x) + _HEADER, _MT_BYTES), x.gauss_next
    return x.getstate()


@functools.cache
def _offset_of_gauss() -> int:
    """Where a `RandomState` keeps the normal number that is left of a pair, behind its flag."""
    x = sys.modules["numpy.random"].RandomState(0)
    x.normal()
    left = struct.pack("d", x.get_state()[4])
    found = ctypes.string_at(id(x), type(x).__basicsize__).find(left)
    return max(found - WORD, 0)


@functools.cache
def _python_words_are_known() -> bool:
    """Whether a `random.Random` has its position and words behind the header."""
    x = sys.modules["random"].Random(0)
    before = x.getstate()[1]
    words = struct.unpack_from("i2I", ctypes.string_at(id(x) + _HEADER, 12))
    known = words == (before[-1], before[0], before[1])
    x.random()
    (position,) = struct.unpack_from("i", ctypes.string_at(id(x) + _HEADER, 4))
    return known and position == x.getstate()[1][-1] != before[-1]


def _plain(state: object) -> object:
    """A state without arrays, which compare element by element."""
    if is_dict(state):
        return {key: _plain(value) for key, value in state.items()}
    return state.tobytes() if is_array(state) else state
