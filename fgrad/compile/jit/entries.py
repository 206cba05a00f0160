"""L5. Cache entries of `jit`, one for each argument type, and native calls on a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit.call import keep_executable
from fgrad.compile.jit.effects import Effects
from fgrad.compile.jit.flatten_codegen import Take, taker
from fgrad.compile.jit.recent import Use
from fgrad.compile.jit.static_arguments import Static
from fgrad.config import config
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.trace import Tracer
from fgrad.tracing.on_device import DEVICES, HOST, OnDevice
from fgrad.tracing.outside.watches import Number, Watches
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile.tasks.plan import Donation
    from fgrad.compile.tasks.runnable import Runnable

DONATED_BYTES = 1 << 16  # less memory is not worth a look at all arguments
MOST_DEVICE_CALLS = 64  # of one function


class Arguments(NamedTuple):
    """What arguments were traced, and the static ones."""

    treedef: tree.TreeDef
    avals: Sequence[Aval]
    statics: Sequence[tuple[Hashable, Static]]


class Entry(NamedTuple):
    """The cache entry for one type of arguments."""

    program: Program
    out_tree: tree.TreeDef
    single: bool  # the result is one array, not a container
    arguments: Arguments  # for explain_retrace
    donated: tuple[Donation, ...]  # inputs whose memory may be given to results
    fits: dict[int, set[np.dtype]]  # leaves that are Python integers, and what they must fit
    captured: tuple[OnDevice | np.ndarray | Number, ...]  # what it closes over: the first inputs
    device: str | None  # None: where the arguments are
    effects: Effects | None  # what calls do to their arguments; None: nothing
    watches: Watches  # what it depends on besides the arguments
    use: Use  # how it is kept

    @property
    def is_instance(self) -> bool:
        """Whether the equations of its program are not known: a template made it."""
        return self.program.made_by in ("symbols", "template")

    @property
    def is_traced(self) -> bool:
        """Whether a trace was made for it, and not for other sizes before."""
        return self.program.made_by != "template"

    def with_program(self, program: Program, executable: Runnable, avals: Sequence[Aval]) -> Entry:
        """The same for other sizes."""
        keep_executable(program, executable, self.device or HOST, self.donated)
        arguments = self.arguments._replace(avals=avals)
        owner = self.use.owner()
        assert owner is not None
        return self._replace(program=program, arguments=arguments, use=Use(owner, program))

    def whole(self) -> Program:
        """The program with the arguments that are returned among its results, in their places."""
        if self.effects is None:
            return self.program
        program, first = self.program, len(self.captured)
        outs = [
            program.outputs[k] if k >= 0 else program.inputs[first + ~k]
            for k in self.effects.leaves
        ]
        written = program.outputs[len(program.outputs) - len(self.effects.writes) :]
        return program.replace(outputs=(*outs, *written))

    def outside(self) -> list[object]:
        """The first inputs of the program, as they are now."""
        return [x.now() if type(x) is Number else x for x in self.captured]

    def result(self, outs: Sequence[object]) -> PyTree:
        """What a call returns: its leaves in their containers."""
        return outs[0] if self.single else tree.unflatten(self.out_tree, outs)


class DeviceCall(NamedTuple):
    """A call on a device that needs no Python: `call(leaves)` gives the results, a code for
    `failed`, or None if the call is of another kind.  `take` gives the leaves of arguments."""

    entry: Entry
    call: Callable[[tuple[object, ...]], list[object] | int | None]
    failed: Callable[[int], NoReturn]
    take: Take | None  # None: the arguments are the leaves
    kept: object  # what `call` reads

    def outs(self, leaves: tuple[object, ...]) -> list[object] | None:
        """The results; None if the call is of another kind."""
        found = self.call(leaves)
        if isinstance(found, int):
            self.failed(found)
        return found


class DeviceCalls:
    """Those of one function; `last` was made most recently."""

    def __init__(self) -> None:
        self.last: DeviceCall | None = None
        self.known: dict[tuple[int, int], DeviceCall | None] = {}  # by entry and thread

    def learn(self, entry: Entry, device: str, treedef: tree.TreeDef | None = None) -> None:
        """Make calls like one that was made so from now on; `treedef` is of the arguments if these
        are not the leaves."""
        key = id(entry), get_ident()
        if key not in self.known and len(self.known) < MOST_DEVICE_CALLS:
            executable = entry.program.known(device)
            if executable is None:
                self.last = None  # it was dropped since it ran: the next call makes another
                return
            native = executable.native_call()
            count = len(entry.program.inputs)
            take = None
            if treedef is not None:
                take = taker(tree.unflatten(treedef, range(count))[0], count)
            failed = executable.failed
            self.known[key] = native and DeviceCall(entry, native.call, failed, take, native)
        self.last = self.known.get(key)


class Given(NamedTuple):
    """The arguments of a call, and their leaves, as the caller gave them."""

    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    leaves: Sequence[object]


class Signature(NamedTuple):
    """Flat dynamic arguments, and the key of all else."""

    leaves: list[object]
    treedef: tree.TreeDef
    statics: tuple[tuple[Hashable, Static], ...]


class Short(NamedTuple):
    """The key of arguments that are known by dtypes and shapes alone, and their leaves; `treedef`
    is None where these are the arguments."""

    key: tuple[Hashable, ...]
    leaves: Sequence[object]
    treedef: tree.TreeDef | None


def short_of(args: tuple[object, ...], on_device: bool) -> Short | None:
    """The short key of arguments that are arrays, or containers of arrays on a device, if it may
    run there."""
    key: list[Hashable] = [config.epoch]
    for x in args:
        if type(x) is not np.ndarray and not isinstance(x, OnDevice):
            break
        key.append(x.dtype)
        key.append(x.shape)
    else:
        return Short(tuple(key), args, None)
    if not (DEVICES and on_device):
        return None
    leaves, treedef = tree.flatten((args, {}))
    if not leaves or not all([isinstance(x, OnDevice) for x in leaves]):
        return None
    types = [part for x in leaves for part in (x.dtype, x.shape)]
    return Short((config.epoch, tree.exact(treedef), *types), leaves, treedef)


class Traceable(NamedTuple):
    """A function and the types of its arguments: `traced(avals)` is its entry, and what it closes
    over if that are tracers; `avals` with symbols in place of sizes, or None for these."""

    avals: Sequence[Aval]
    names: Callable[[], Sequence[str]]
    traced: Callable[[Sequence[Aval] | None], tuple[Entry, Sequence[Tracer]]]


class Call(NamedTuple):
    """A call whose program is known: what `Jitted._answer` makes its results of.

    `leaves` are the arguments as the program takes them, `given` as the caller gave them;
    `captured` are tracers that the function closes over; `short` is the key that it was found by.
    """

    entry: Entry
    leaves: Sequence[object]
    captured: Sequence[Tracer]
    given: Given
    short: Short | None


def donated_leaves(
    numbers: Sequence[int], treedef: tree.TreeDef, avals: Sequence[Aval]
) -> tuple[int, ...]:
    """The leaves of donated arguments, if they are large enough to be worth it."""
    if not numbers:
        return ()
    args, _ = tree.unflatten(treedef, range(len(avals)))
    found = {leaf for k in numbers for leaf in tree.leaves(args[k : k + 1 or None])}
    size = sum([avals[leaf].size * avals[leaf].dtype.itemsize for leaf in found])
    return tuple(sorted(found)) if size >= DONATED_BYTES else ()
