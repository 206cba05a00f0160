"""L5. Sizes that change from call to call: a jitted function is traced with symbols in their place.

The first call of a kind is traced as it is.  When an axis has another length, it becomes a symbol
(`fgrad/base/sizes.py`): the function is traced once more, and what the trace and the compiler
decide by the symbol is noted.  Later lengths for which all of it is the same need no trace: the
numbers of the compiled program are computed anew (a *template*).  0 and 1 are never symbols, axes
that changed together are one, and whatever goes wrong means a trace for these lengths alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fgrad.base.gc_policy import collector_paused
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.sizes import LEAST, OPEN, NotShared, Size, Sizes
from fgrad.compile.backend import BACKENDS, Template, on_host
from fgrad.compile.jit.call import refuse_wide
from fgrad.compile.jit.entries import Entry
from fgrad.config import config
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.trace import Tracer
from fgrad.tracing.axes import open_axes
from fgrad.tracing.on_device import HOST, OnDevice
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile import pipeline
else:
    pipeline = lazy_module("fgrad.compile.pipeline")

MOST_TEMPLATES = 16  # of one kind of arguments
PATIENCE = 8  # traces with symbols that may serve no other size, before others were served

Place: TypeAlias = "tuple[int, int]"  # a leaf of the arguments, and its axis
Dynamic: TypeAlias = "bool | str | Mapping[str, int | Sequence[int]]"
CHANGED = "auto"  # the axes that have changed
Traced: TypeAlias = "Callable[[Sequence[Aval]], tuple[Entry, Sequence[Tracer]]]"


class _Made(NamedTuple):
    """A template, the symbols that it has, and the entry that it was traced as."""

    template: Template
    groups: tuple[tuple[Place, ...], ...]  # axes that are one symbol
    fixed: tuple[tuple[Place, int], ...]  # the lengths of all other axes
    entry: Entry
    serves_others: bool  # whether a symbol may have another value

    def entry_at(self, avals: Sequence[Aval], made_by: str = "template") -> Entry | None:
        """What is kept for arguments of these types; None if the template is not for them."""
        for (leaf, axis), length in self.fixed:
            if avals[leaf].shape[axis] != length:
                return None
        sizes: list[int] = []
        for (leaf, axis), *others in self.groups:
            size = avals[leaf].shape[axis]
            if size < LEAST or any([avals[k].shape[a] != size for k, a in others]):
                return None
            sizes.append(size)
        made = self.template.instance(sizes, made_by)
        if made is None:
            return None
        return self.entry.with_program(*made, avals)


class Family:
    """The kinds of arguments that differ in lengths alone."""

    def __init__(self, avals: Sequence[Aval]) -> None:
        self.last = tuple([aval.shape for aval in avals])
        self.kinds: dict[Place, int] = {}  # of axes that have changed: equal ones were always equal
        self.made: list[_Made] = []
        self.failures = self.hits = 0
        self.reasons: list[str] = []  # why traces are for some lengths alone

    def entry_of(self, avals: Sequence[Aval]) -> Entry | None:
        """What a template gives for arguments of these types."""
        for k, made in enumerate(self.made):
            if made.entry.watches.changed() is None:
                entry = made.entry_at(avals)
                if entry is not None:
                    self.hits += 1
                    self.made.insert(0, self.made.pop(k))
                    return entry
        return None

    def add(self, made: _Made) -> None:
        """Keep a template; the one that was not used for longest goes."""
        self.made.insert(0, made)
        del self.made[MOST_TEMPLATES:]

    def symbols(
        self, avals: Sequence[Aval], wanted: frozenset[Place] | None
    ) -> tuple[tuple[Place, ...], ...]:
        """The axes that have changed, or all that are wanted, those that were always equal
        together; none where a trace with symbols is not worth it."""
        shapes = tuple([aval.shape for aval in avals])
        kinds: dict[Place, Hashable] = {}
        for k, (before, now) in enumerate(zip(self.last, shapes, strict=True)):
            for axis, (m, n) in enumerate(zip(before, now, strict=True)):
                place = k, axis
                if place in wanted if wanted is not None else m != n or place in self.kinds:
                    kinds[k, axis] = self.kinds.get((k, axis)), m, n
        numbers = {kind: k for k, kind in enumerate(dict.fromkeys(kinds.values()))}
        self.last = shapes
        self.kinds = {place: numbers[kind] for place, kind in kinds.items()}
        if self.failures >= PATIENCE + 2 * self.hits:
            return ()
        groups: dict[int, list[Place]] = {}
        for place, kind in self.kinds.items():
            if shapes[place[0]][place[1]] >= LEAST:
                groups.setdefault(kind, []).append(place)
        return tuple(map(tuple, groups.values()))


class Families:
    """Those of one jitted function."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Family] = {}

    def entry_of(
        self,
        key: tuple[PyTree, ...],
        traced: Traced,
        wanted: frozenset[Place] | None,
    ) -> Entry | None:
        """The entry for arguments of a kind, without a trace or by one with symbols; None if they
        are to be traced as they are.

        Arguments:
            key: that of the entry; the avals are its third part.
            traced: the trace for other types of the arguments.
            wanted: the axes that are symbols; None for those that change.
        """
        setting, structure, avals, *rest = key
        kinds = tuple([(a.ndim, a.dtype, a.weak) for a in avals])
        key = (setting, structure, kinds, *rest)
        family = self.known.get(key)
        if family is None:
            family = self.known[key] = Family(avals)
            if wanted is None:
                return None
        entry = family.entry_of(avals)
        if entry is not None:
            return entry
        groups = family.symbols(avals, wanted)
        made = _made(avals, groups, traced, family.reasons) if groups else None
        family.failures += bool(groups)
        if made is None:
            return None
        if made.serves_others:
            family.add(made)
        return made.entry_at(avals, "symbols")

    def described(self) -> list[str]:
        """What became of lengths that changed, a line each."""
        lines: list[str] = []
        for family in self.known.values():
            if family.hits:
                lines.append(f"{family.hits} more lengths of axes needed no trace")
            lines += [f"traced for one length of an axis: {why}" for why in family.reasons]
        return list(dict.fromkeys(lines))


def _made(
    avals: Sequence[Aval],
    groups: tuple[tuple[Place, ...], ...],
    traced: Traced,
    reasons: list[str],
) -> _Made | None:
    """A trace with symbols, compiled; None, and a reason, if it is for these lengths alone."""
    sizes, symbolic = with_symbols(avals, groups)
    try:
        with opened(sizes):
            template, entry = _compiled(sizes, symbolic, traced, reasons)
    except Exception as error:
        if isinstance(error, NotShared) and "\n" not in str(error):
            reasons.append(str(error))
        return None
    if template is None:
        return None
    symbols = {place for group in groups for place in group}
    fixed = tuple(
        [
            ((k, axis), n)
            for k, aval in enumerate(avals)
            for axis, n in enumerate(aval.shape)
            if (k, axis) not in symbols
        ]
    )
    return _Made(template, groups, fixed, entry, sizes.varies())


def with_symbols(
    avals: Sequence[Aval], groups: Sequence[Sequence[Place]]
) -> tuple[Sizes, list[Aval]]:
    """The sizes of a trace, and types with these symbols: the axes of a group are one."""
    sizes = Sizes({k: avals[g[0][0]].shape[g[0][1]] for k, g in enumerate(groups)})
    symbols: dict[Place, Size] = {
        place: sizes.symbol(k) for k, group in enumerate(groups) for place in group
    }
    symbolic = [
        aval.like(
            tuple([symbols.get((k, axis), n) for axis, n in enumerate(aval.shape)]), aval.weak
        )
        for k, aval in enumerate(avals)
    ]
    return sizes, symbolic


@contextlib.contextmanager
def opened(sizes: Sizes) -> Iterator[None]:
    """While a trace with sizes goes on; what is left of it are plain numbers."""
    OPEN.traces.add(id(sizes))
    try:
        yield
    finally:
        OPEN.traces.discard(id(sizes))
        sizes.sealed = True


def equal_axes(avals: Sequence[Aval], wanted: Iterable[Place]) -> tuple[tuple[Place, ...], ...]:
    """The wanted axes that can be symbols, those of one length together."""
    groups: dict[int, list[Place]] = {}
    for k, axis in sorted(wanted):
        if avals[k].shape[axis] >= LEAST:
            groups.setdefault(avals[k].shape[axis], []).append((k, axis))
    return tuple(map(tuple, groups.values()))


def _compiled(
    sizes: Sizes, symbolic: Sequence[Aval], traced: Traced, reasons: list[str]
) -> tuple[Template | None, Entry]:
    try:
        entry, captured = traced(symbolic)
    finally:
        reasons += map(str, sizes.fixed)  # by the user's code; those of passes have no line
    program = entry.program
    if captured or not on_host(entry.device) or has_symbols(sizes, entry):
        return None, entry
    refuse_wide(program)
    with collector_paused():
        made = pipeline.compile_program(program, None, HOST, entry.donated).executable
        return BACKENDS[HOST].template(program, made, sizes), entry


def has_symbols(sizes: Sizes, entry: Entry) -> bool:
    """Whether a size stands in the static parts of what a call returns or stores."""
    before = sizes.texts
    trees = [entry.out_tree]
    if entry.effects is not None:
        trees += [t for s in entry.effects.stores for t, _ in s.contents.values()]
    for each in trees:
        hash(each)
        repr(each)
    return sizes.texts != before


def checked(dynamic: Dynamic) -> Dynamic:
    """What `jit(f, dynamic=...)` is given; an ArgumentError for a word that names no axes."""
    if isinstance(dynamic, str) and dynamic != CHANGED:
        raise ArgumentError(
            f"dynamic={dynamic!r}: which axes are meant?",
            (("write", 'dynamic="auto"      axes that have changed, or True, False, {"x": 0}'),),
        )
    return dynamic


def wanted_axes(
    dynamic: Dynamic, avals: Sequence[Aval], names: Callable[[], Sequence[str]]
) -> frozenset[Place] | None:
    """The axes that `jit(f, dynamic=...)` names; None if those that change are meant.

    Raises:
        ArgumentError: there is no such argument or axis.
    """
    if isinstance(dynamic, str):
        return None
    if isinstance(dynamic, bool):
        return frozenset([(k, axis) for k, aval in enumerate(avals) for axis in range(aval.ndim)])
    paths = [name.partition("[")[0].partition(".")[0] for name in names()]
    found: set[Place] = set()
    for name, axes in dynamic.items():
        leaves = [k for k, path in enumerate(paths) if path == name]
        asked = (axes,) if isinstance(axes, int) else tuple(axes)
        good = all([-avals[k].ndim <= a < avals[k].ndim for k in leaves for a in asked])
        if not leaves or not good:
            raise ArgumentError(
                f"dynamic={dict(dynamic)!r}: no argument {name!r} has such axes.",
                (("value", f"the arguments are {', '.join(paths)}"),),
            )
        found.update([(k, a % avals[k].ndim) for k in leaves for a in asked])
    return frozenset(found)


def takes_symbols(leaves: Sequence[object]) -> bool:
    """Whether arguments, in the state that Python is in, may be traced with symbols."""
    plain = config.shared_kernels and not config.nans
    if not plain or open_axes() or THREAD.state.builder is not None:
        return False
    return not any([isinstance(x, (Tracer, OnDevice)) for x in leaves])
