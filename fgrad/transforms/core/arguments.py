"""L4. Written arguments: the write reaches the caller's array, or a transform's copy of it.

    vmap(f, in_axes=(0, None))(xs, buf)     f writes buf: written; f writes x: a copy, and a warning

What a transform differentiates or batches is a copy.  All else is written as NumPy writes it, after
everything was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType, MethodType

import numpy as np

from fgrad import tree
from fgrad.base.closures import contents
from fgrad.base.containers import Edit, Watch, containers_in, put_contents
from fgrad.base.kinds import is_array, is_dict, is_series
from fgrad.base.pickling import Transformed
from fgrad.base.source import USERS, here, owner_of, resolve, warn_user
from fgrad.errors import ArgumentWriteError, InPlaceError, LostWriteWarning
from fgrad.trace import Tracer, Value
from fgrad.tracing.assign import immutable, keep_memory, layout_of, memory_of, root_of, writes_of
from fgrad.tracing.device_tracing import is_lifted, lift
from fgrad.tracing.layouts import in_c_order
from fgrad.tracing.on_device import OnDevice
from fgrad.tracing.overlap import overlap, overlaps_itself
from fgrad.tracing.writing import write_all
from fgrad.typing import PyTree

MOST_ITEMS = 1024  # of a container outside that is looked at

Names = Callable[[], Sequence[str]]


def is_writable(x: object) -> bool:
    """Whether a leaf is an array, which can be written, and not a number."""
    if isinstance(x, Tracer):
        return bool(x.shape) or x.memory is not None
    return isinstance(x, (np.ndarray, OnDevice))


def check_written(
    written: Sequence[int], given: Sequence[object], function: str, names: Names
) -> None:
    """Raise a card if an argument cannot be written, or shares memory with another one."""
    for k in written:
        refusal = _unwritable(given[k])
        if refusal is not None:
            raise unwritable(function, names()[k], *refusal)
        for j, other in enumerate(given):
            if j != k and overlap(given[k], other):
                raise shared(function, names()[k], names()[j])


def is_contiguous(x: object) -> bool:
    """Whether an array, or what a tracer stands for, lies in C order without gaps."""
    if isinstance(x, Tracer):
        return in_c_order(root_of(x)) and layout_of(x).flags.c_contiguous
    return not isinstance(x, np.ndarray) or x.flags.c_contiguous


def store(target: PyTree, new: PyTree) -> None:
    """Write a new value over an argument: an array, or what stands for one in a trace."""
    if isinstance(target, Tracer):
        write_all(target, new)
    elif isinstance(new, Tracer) and not is_lifted(new):
        raise _traced(new)
    elif new is not target:
        np.copyto(target, new.numpy() if isinstance(new, OnDevice) else new)


# --- what is refused ------------------------------------------------------------------------------


def _unwritable(x: object) -> tuple[str, str] | None:
    """Why an argument cannot be written, in words; or None."""
    if is_lifted(x) or isinstance(x, OnDevice):
        raise immutable(lift(x).aval)
    if isinstance(x, Tracer):
        return None
    if not is_array(x):
        return f"is a {type(x).__name__}", "what is written is an array that was made of it."
    if not x.flags.writeable:
        return "is read-only", "NumPy: assignment destination is read-only."
    if overlaps_itself(x):
        return "overlaps itself", "two of its elements are one place in memory."
    return None


def unwritable(function: str, name: str, what: str, why: str) -> ArgumentWriteError:
    """The card for an argument that cannot be written."""
    return ArgumentWriteError(
        f"{function} writes into an argument that cannot be written.",
        (
            ("value", f"{name} {what}"),
            ("why", why),
            ("write", f"{name} = np.array({name})     a copy, before it is written"),
        ),
    )


def shared(function: str, name: str, other: str) -> ArgumentWriteError:
    """The card for an argument that is written and shares memory with something else."""
    return ArgumentWriteError(
        f"{function} writes into an argument that shares memory with another one.",
        (
            ("value", f"{name} and {other}"),
            ("why", "the function was traced for arguments that share no memory: a write into"),
            ("why", "one would not change the other."),
            ("write", f"{other}.copy() in the call"),
        ),
    )


def one_array(function: str, name: str, other: str) -> ArgumentWriteError:
    """The card for arguments that share memory, of which the function asks whether they do."""
    return ArgumentWriteError(
        f"{function} asks whether two arguments are one array, and they share memory.",
        (
            ("value", f"{name} and {other}"),
            ("why", "the function was traced for arguments that share no memory."),
            ("write", f"{other}.copy() in the call"),
        ),
    )


def strided(function: str, name: str) -> ArgumentWriteError:
    """The card for a view that is none if the argument is not contiguous."""
    return ArgumentWriteError(
        f"{function} writes into a view of an argument that would be a copy in NumPy.",
        (
            ("value", f"{name} is not contiguous"),
            ("why", "whether a reshape is a view or a copy depends on the memory layout;"),
            ("why", "the function was traced for contiguous arrays."),
            ("write", f"{name}[...] = ...                     without a reshape"),
            ("write", f"np.ascontiguousarray({name})     in the call: a copy is written"),
        ),
    )


def _traced(new: Tracer) -> InPlaceError:
    used = resolve(here())
    return InPlaceError(
        "A jitted function would write a traced value into a plain NumPy array.",
        (
            ("value", f"{new.aval} of {new.builder.what}({new.builder.name})"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "a plain array holds numbers, and the trace would lose what they depend on."),
            ("write", "return the new value instead of writing it"),
        ),
    )


# --- transforms that call a function with values --------------------------------------------------


def check_shape(x: Tracer, shape: tuple[int, ...], function: str, name: str) -> None:
    """Raise a card if the shape of an argument was assigned."""
    if x.shape != shape:
        raise ArgumentWriteError(
            f"{function} assigns the shape of an argument.",
            (
                ("value", f"{name} had the shape {shape}, now {x.shape}"),
                ("why", "compiled code writes the elements of arrays, not their shapes."),
                ("write", f"{name} = {name}.reshape(shape)      a view with another shape"),
            ),
        )


def watched(trees: Sequence[object]) -> Watch | None:
    """The containers among the arguments that a function gets; None if there are none."""
    return None if all([type(x) is Tracer for x in trees]) else Watch(tuple(trees))


def warn_of_writes(
    transform: str, tracers: Sequence[Tracer], watch: Watch | None, results: object, names: Names
) -> None:
    """Warn of what a function wrote into arguments that are copies, if it is in no result."""
    written = [k for k, x in enumerate(tracers) if x.memory is not None and writes_of(x)]
    if watch is None and not written:
        return
    returned = {id(x) for x in tree.leaves(results)}
    for k in written:
        if id(tracers[k]) not in returned:
            warn_lost(transform, names()[k])
    if watch is None:
        return
    for edit in watch.edits():
        stored = tree.leaves(list(edit.contents.values()))
        if not all([id(x) in returned for x in stored]):
            warn_lost(transform, f"a {type(watch.containers[edit.container]).__name__}")


def refuse_writes(of: str, tracers: Sequence[Tracer], results: Sequence[object]) -> None:
    """Raise a card if a function that has arrays of its own for its arguments writes into one, and
    does not return it."""
    for k, x in enumerate(tracers):
        if x.memory is None or not writes_of(x) or any([x is y for y in results]):
            continue
        raise ArgumentWriteError(
            f"{of} writes into an argument that is a copy inside.",
            (
                ("value", f"array {k} of its arguments: {x.aval}"),
                ("why", "the function is recorded with copies of its arguments, to run again; its"),
                ("why", "writes into the copies would be lost."),
                ("write", "return the array, and use the result"),
                ("write", "y = y.copy()      in the function, before it is written"),
            ),
        )


def refuse_edits(of: str, watch: Watch | None, out: object) -> None:
    """Raise a card if a function that has containers of its own for its arguments changes one, and
    returns neither that nor what it stored there."""
    edits = () if watch is None else watch.edits()
    if not edits:
        return
    assert watch is not None
    kept = {id(x) for x in (*containers_in(out), *tree.leaves(out))}
    for edit in edits:
        changed, before = watch.containers[edit.container], watch.before[edit.container]
        old = {id(x) for x in before.values()}
        new = [x for key, x in edit.contents.items() if x is not before.get(key)]
        given_back = all([id(x) in kept and id(x) not in old for x in tree.leaves(new)])
        if id(changed) in kept or (given_back and before.keys() <= edit.contents.keys()):
            continue
        kind = type(changed).__name__
        raise ArgumentWriteError(
            f"{of} changes a container among its arguments that is a copy inside.",
            (
                ("value", f"a {kind} that holds something else afterwards"),
                (
                    "why",
                    "the function is recorded with copies of its containers, to run again; what it",
                ),
                ("why", "stores in them would be lost."),
                ("write", f"return the {kind}, and use the result"),
                ("write", "p = dict(p)      a copy of its own, before it is changed"),
            ),
        )


class Around:
    """The containers that the code of a loop or a branch names outside of it.

    It runs once, for all steps and also for a branch that is not taken: so it must not store in
    these what is traced.
    """

    def __init__(self, fun: Callable[..., PyTree]) -> None:
        self.watch = Watch(tuple(_named_containers(fun)))

    def check(self, of: str) -> None:
        """Raise a card if one of them holds other traced values now."""
        for edit in self.watch.edits():
            before = {id(x) for x in self.watch.before[edit.container].values()}
            new = [x for x in edit.contents.values() if id(x) not in before]
            if not any([isinstance(x, Tracer) for x in tree.leaves(new)]):
                continue
            kind = type(self.watch.containers[edit.container]).__name__
            raise ArgumentWriteError(
                f"{of} stores a traced value in a container outside of it.",
                (
                    ("value", f"a {kind}"),
                    ("why", "the function is traced once, for all steps and for every branch:"),
                    ("why", "the value would be stored once, at trace time."),
                    (
                        "write",
                        "return the value: as a carry, or as a result of each step of a scan",
                    ),
                ),
            )


def _named_containers(fun: Callable[..., PyTree]) -> list[PyTree]:
    """Dictionaries, lists and the like that the code of a function, and of those that it names,
    names outside of them."""
    found: dict[int, PyTree] = {}
    left: list[PyTree] = [fun]
    seen: set[int] = set()
    while left:
        x = left.pop()
        x = x.__func__ if isinstance(x, MethodType) else x
        x = x.fun if isinstance(x, Transformed) else x
        if id(x) in seen:
            continue
        seen.add(id(x))
        if is_dict(x) or is_series(x):
            if len(x) <= MOST_ITEMS:
                found[id(x)] = x
        elif isinstance(x, FunctionType):
            users = owner_of(x.__code__.co_filename) == USERS
            held = [contents(cell) for cell in x.__closure__ or ()]
            left += [y for y in held if users or isinstance(y, FunctionType)]
            if users:
                left += [x.__globals__[n] for n in x.__code__.co_names if n in x.__globals__]
    return list(found.values())


class Shared:
    """Arguments of a mapped function, some of which all examples share.

    Arguments:
        transform: its name and the function's.
        tracers: what the function gets for the leaves.
        leaves: what the caller gave.
        copied: which of them are mapped.
        trees: the containers of both.
        names: how the leaves are reached.
    """

    def __init__(
        self,
        transform: str,
        tracers: Sequence[Tracer],
        leaves: Sequence[object],
        copied: Sequence[bool],
        trees: tuple[Sequence[PyTree], Sequence[PyTree]],
        names: Names,
    ) -> None:
        self.transform, self.tracers, self.leaves = transform, tracers, leaves
        self.copied, self.given, self.names = copied, trees[1], names
        self.watch = watched(trees[0])
        for x, leaf, copy in zip(tracers, leaves, copied, strict=True):
            if not copy and is_writable(leaf):
                keep_memory(x)
                if not is_contiguous(leaf) and isinstance(leaf, np.ndarray):
                    memory_of(x).layout = leaf

    def after(self, results: Sequence[PyTree]) -> Callable[[], None] | None:
        """What is to be done when all else is computed, to write what all examples share; or None.

        It warns of what was written into mapped arguments and is in no result.
        """
        if self.watch is None and not any([x.memory is not None for x in self.tracers]):
            return None
        mapped = [k for k, copy in enumerate(self.copied) if copy]
        tracers = [self.tracers[k] for k in mapped]
        warn_of_writes(
            self.transform, tracers, None, results, lambda: [self.names()[k] for k in mapped]
        )
        own = [k for k, x in enumerate(self.tracers) if not self.copied[k] and writes_of(x)]
        edits = self.watch.edits() if self.watch is not None else ()
        if not (own or edits):
            return None
        for k in own:
            if not is_writable(self.leaves[k]):
                raise unwritable(self.transform, self.names()[k], "is a number", "numbers stay.")
            shape = getattr(self.leaves[k], "shape", ())
            check_shape(self.tracers[k], shape, self.transform, self.names()[k])
        check_written(own, self.leaves, self.transform, self.names)
        new = [self._known(self.tracers[k], self.names()[k]) for k in own]
        contents = [self._contents(edit, results) for edit in edits]

        def store_all() -> None:
            for k, value in zip(own, new, strict=True):
                store(self.leaves[k], value)
            for found in contents:
                if found is not None:
                    put_contents(*found)

        return store_all

    def _known(self, x: Value, name: str) -> Value:
        """A value that all examples share, as the caller sees it."""
        value = x.builder.lift(x).value if isinstance(x, Tracer) else x
        if value is None:
            raise ArgumentWriteError(
                f"{self.transform} stores a batched value in an unbatched argument.",
                (
                    ("value", name),
                    ("why", "an unbatched array cannot hold one number for each example."),
                    ("write", f"{name}.copy()       before it is written: one for each example"),
                    ("write", "in_axes=0           and an array with one for each example"),
                ),
            )
        return value

    def _contents(
        self, edit: Edit, results: Sequence[PyTree]
    ) -> tuple[PyTree, dict[Hashable, PyTree]] | None:
        """A container of the caller's, and what it holds afterwards; None if it is a copy."""
        assert self.watch is not None
        mine, yours = self.watch.containers, containers_in(tuple(self.given))
        places = {id(x): k for k, x in enumerate(self.tracers)}
        target = yours[edit.container]
        name = f"a {type(target).__name__}"
        before = tree.leaves(list(self.watch.before[edit.container].values()))
        if any([self.copied[places[id(x)]] for x in before if id(x) in places]):
            warn_lost(self.transform, name)
            return None
        same = {id(a): b for a, b in zip(mine, yours, strict=True)}

        def outer(x: PyTree) -> PyTree:
            if id(x) in same:
                return same[id(x)]
            k = places.get(id(x), -1)
            return self._known(x, name) if k < 0 or self.copied[k] else self.leaves[k]

        def is_mine(x: object) -> bool:
            return id(x) in same

        new = {key: tree.map(outer, x, is_leaf=is_mine) for key, x in edit.contents.items()}
        return target, new


def warn_lost(transform: str, name: str) -> None:
    """Warn, once for each line, that what was written into a copy is lost."""
    warn_user(
        f"{transform}: {name} is a copy inside, as it is differentiated or mapped, and what was "
        "written into it is lost; return it, or write into a copy of your own",
        LostWriteWarning,
    )
