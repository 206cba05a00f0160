"""L1. Programs: immutable, closed lists of equations in A-normal form.

Every equation carries the user's location and the transforms that made it; neither changes meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar, cast, final

import numpy as np

from fgrad.base.kinds import is_tuple
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive


@final
class Var:
    """A value of a program, bound once; compared by identity.  Names are the printer's business."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval


@final
class Lit:
    """A scalar constant written in place: a NumPy scalar of the operand's dtype, shape ()."""

    __slots__ = ("value", "aval")

    def __init__(self, value: Any) -> None:  # np.generic, whose stubs have no arithmetic
        self.value = value
        self.aval = Aval((), value.dtype)


Atom: TypeAlias = Var | Lit
T = TypeVar("T")
_NOT_YET = object()


class Params(dict[str, Any]):
    """The static parameters of an equation: hashable by content, in the primitive's order.

    They never change once the equation is made.
    """

    __slots__ = ("_content",)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    @property
    def content(self) -> str:
        """A text that is equal for equal parameters, while they live: 1, 1.0 and True are told
        apart, as are 0.0 and -0.0; what is not plain data is itself alone."""
        try:
            return self._content
        except AttributeError:
            text = ",".join([f"{k}={_word(v)}" for k, v in self.items()])
            if "<" not in text:
                self._content = text
            return text

    @property
    def is_plain(self) -> bool:
        """Whether the content says all: no parameter is itself alone."""
        return "<" not in self.content


_PLAIN = frozenset({int, float, bool, str, type(None)})


def _word(value: object) -> str:
    if type(value) in _PLAIN:
        return repr(value)
    if is_tuple(value):
        if _PLAIN.issuperset(map(type, value)):
            return repr(value)
        return f"({','.join(map(_word, value))})"
    return f"dtype {value.char}" if isinstance(value, np.dtype) else f"<{id(value)}>"


class Eqn(NamedTuple):
    """`outputs = prim[params] inputs`, with where it came from."""

    prim: Primitive
    inputs: tuple[Atom, ...]
    params: Params
    outputs: tuple[Var, ...]
    loc: Loc | None = None
    via: tuple[str, ...] = ()


class Program:
    """A closed function of arrays.

    `inputs` are bound at each call, `consts` are captured arrays (rank >= 1), `outputs` may be
    inputs, constants, results or literals.  `made_by` says which step made it.
    """

    __slots__ = (
        "name",
        "inputs",
        "consts",
        "eqns",
        "outputs",
        "made_by",
        "_derived",
        "__weakref__",
    )

    def __init__(
        self,
        name: str,
        inputs: tuple[Var, ...],
        consts: tuple[tuple[Var, np.ndarray], ...],
        eqns: tuple[Eqn, ...],
        outputs: tuple[Atom, ...],
        made_by: str = "trace",
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.consts = consts
        self.eqns = eqns
        self.outputs = outputs
        self.made_by = made_by
        self._derived: dict[Hashable, object] = {}  # see `derived`

    def __reduce__(self) -> tuple[object, ...]:
        return Program, tuple([getattr(self, name) for name in self.__slots__[:6]])

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` derives from this program and the key alone, made once.

        Of threads that make it at once, all get what the first has made.  No result may depend on
        whether it was made before: derivatives, batched and compiled forms, facts about it.
        """
        found = self._derived.get(key, _NOT_YET)
        if found is _NOT_YET:
            found = self._derived.setdefault(key, make())
        return cast(T, found)

    def known(self, key: Hashable) -> Any:
        """What was derived for a key; None if nothing was."""
        return self._derived.get(key)

    def replace(
        self,
        name: str | None = None,
        inputs: tuple[Var, ...] | None = None,
        consts: tuple[tuple[Var, np.ndarray], ...] | None = None,
        eqns: tuple[Eqn, ...] | None = None,
        outputs: tuple[Atom, ...] | None = None,
        made_by: str | None = None,
    ) -> Program:
        """A copy with some fields changed, of which nothing is derived yet."""
        return Program(
            self.name if name is None else name,
            self.inputs if inputs is None else inputs,
            self.consts if consts is None else consts,
            self.eqns if eqns is None else eqns,
            self.outputs if outputs is None else outputs,
            self.made_by if made_by is None else made_by,
        )

    @property
    def in_avals(self) -> tuple[Aval, ...]:
        """The avals of the inputs."""
        return tuple(v.aval for v in self.inputs)

    @property
    def out_avals(self) -> tuple[Aval, ...]:
        """The avals of the outputs."""
        return tuple(a.aval for a in self.outputs)
