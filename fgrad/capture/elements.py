"""L5. `x[i]`, `x[i] = v`, `x += v` and attributes, in code that runs once for all steps of a loop.

What a body does to lists, dictionaries, objects and plain arrays from outside it would do once, at
trace time: it is refused before it is done, and the loop runs step by step.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from fgrad.capture.aliases import is_some
from fgrad.capture.containers import refuse_shared
from fgrad.capture.ragged import Ragged, ragged
from fgrad.capture.state import PlainWritten
from fgrad.capture.values import as_tracer, is_unknown
from fgrad.capture.windows import window
from fgrad.numpy.adopting import adopted
from fgrad.numpy.at_indexing import at
from fgrad.numpy.masked import Masked
from fgrad.numpy.masked_places import chosen
from fgrad.numpy.promote import weakened
from fgrad.numpy.rebinding import is_owner, sole_references
from fgrad.numpy.views import is_basic
from fgrad.trace import Tracer, concrete
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.carried import innermost_body

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for

IN_PLACE: dict[str, Callable[[object, object], object]] = {
    "Add": operator.iadd, "Sub": operator.isub, "Mult": operator.imul, "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv, "Mod": operator.imod, "Pow": operator.ipow,
    "MatMult": operator.imatmul, "BitAnd": operator.iand, "BitOr": operator.ior,
    "BitXor": operator.ixor, "LShift": operator.ilshift, "RShift": operator.irshift,
}  # fmt: skip


def made(x: Any) -> Any:
    """A list or the like that is made here: the body that is being traced may change it."""
    body = innermost_body()
    if body is not None:
        body.made[id(x)] = x
    return x


def changes(x: Any) -> None:
    """Refuse a change of an object from outside of the body that is being traced."""
    body = innermost_body()
    if body is not None and id(x) not in body.made:
        raise not_recorded(f"the body changes a {type(x).__name__}")
    refuse_shared(x)


def made_cell(variable: FunctionType) -> None:
    """A variable of a function that is called here, which functions in it bind."""
    for cell in variable.__closure__ or ():
        made(cell)


def changes_cell(name: str, variable: FunctionType) -> None:
    """Refuse a call that binds a variable of a function from outside of the body."""
    body = innermost_body()
    if body is not None and any([id(cell) not in body.made for cell in variable.__closure__ or ()]):
        raise not_recorded(f"the body calls what changes {name}, which is nonlocal")


def effect(what: str) -> None:
    """Refuse what a body would do once, at trace time."""
    if innermost_body() is not None:
        raise not_recorded(f"the body changes {what}")


def has_unknown(index: Any) -> bool:
    """Whether an index has a part that is not known."""
    if isinstance(index, tuple):
        return any([has_unknown(part) for part in index])
    if isinstance(index, slice):
        return any([is_unknown(part) for part in (index.start, index.stop, index.step)])
    return is_unknown(index) or isinstance(index, (Masked, Ragged))


def _settled(index: Any) -> Any:
    """An index whose known tracers are numbers, where Python or NumPy would ask for them."""
    if isinstance(index, tuple):
        return tuple([_settled(part) for part in index])
    if isinstance(index, slice):
        return slice(*[_number(part) for part in (index.start, index.stop, index.step)])
    return index


def _number(x: Any) -> Any:
    known = concrete(x) if isinstance(x, Tracer) else None
    return operator.index(known) if known is not None else x


def item(x: Any, index: Any) -> Any:
    """`x[index]`."""
    if isinstance(index, (tuple, slice)):
        index = _settled(index)
    if not has_unknown(index):
        return x[index]
    if isinstance(x, (list, tuple)):
        return _listed(x, index)
    is_array = isinstance(x, (Tracer, np.ndarray))
    block = window(x, index) if is_array else None
    if block is not None:
        out = block[0][block[1]]
        return out if isinstance(x, Tracer) else own_part(out, block[1])
    part = ragged(x, index) if is_array else None
    if part is not None:
        return part
    if not isinstance(x, np.ndarray):
        return x[index]
    if chosen(index) is not None:
        return as_tracer(x)[index]
    return own_part(at(x)[index].get(), index)


def own_part(out: Any, index: Any) -> Any:
    """A part of a plain array, into which no traced values can be written."""
    if isinstance(out, Tracer) and out.shape and is_basic(index):
        is_some(out, [out.handle()], "the element of an array from outside")
    return out


def _listed(items: list[Any] | tuple[Any, ...], index: Any) -> Any:
    """An element of a list at a traced place."""
    if isinstance(index, slice):
        raise not_recorded("a list is cut at a traced place")
    kinds = {type(x) for x in items}
    if not items or kinds - {int, float, complex, bool, Tracer, np.ndarray, np.float64, np.int64}:
        raise not_recorded("a list of objects is read at a traced place")
    if len({np.shape(x) for x in items}) > 1 or (len(kinds) > 1 and kinds & {int, float, complex}):
        raise not_recorded("a list of unlike items is read at a traced place")
    traced = Tracer in kinds
    whole: Any = np.stack(list(items)) if traced else np.asarray(items)
    out = whole[index] if traced else at(whole)[index].get()
    if out.shape:  # it is one of them, and which one is not known
        olds = [x for x in items if isinstance(x, Tracer)]
        is_some(out, olds or [as_tracer(whole)], "the element of a list")
    return weakened(out) if kinds <= {int, float, complex} else out


def set_item(value: Any, x: Any, index: Any) -> None:
    """`x[index] = value`, of which Python computes the value first."""
    if isinstance(index, (tuple, slice)):
        index = _settled(index)
    if isinstance(x, (Tracer, Masked, Ragged)):
        _set_traced(x, index, value)
        return
    changes(x)
    if isinstance(x, (list, dict)) and has_unknown(index):
        raise not_recorded(f"a {type(x).__name__} is written at a traced place")
    x[index] = value


def _set_traced(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` of an array of the trace."""
    unknown = isinstance(x, Tracer) and has_unknown(index)
    block = window(x, index) if unknown else None
    part = ragged(x, index) if unknown and block is None else None
    if block is not None:
        block[0][block[1]] = value
    elif part is not None:
        part[...] = value
    else:
        x[index] = value


def change_item(x: object, index: object, op: str, value: Callable[[], object]) -> None:
    """`x[index] op= value()`."""
    old = item(x, index)
    if not isinstance(x, (Tracer, Masked, Ragged)):
        changes(x)
    new = IN_PLACE[op](old, value())
    if not isinstance(new, Ragged) or new is not old:  # else it is written
        set_item(new, x, index)


def changed(x: object, op: str, value: Callable[[], object]) -> object:
    """`x op= value()`: what `x` is afterwards."""
    by = value()
    if isinstance(by, Tracer) and is_owner(x):
        count = sys.getrefcount(x)
        x = _written(x, count)
    elif isinstance(x, (list, dict, set, np.ndarray)):
        changes(x)
    return IN_PLACE[op](x, by)


def _written(x: np.ndarray, count: int) -> Tracer | np.ndarray:
    """A plain array that is to be written, as one of the trace if one variable alone refers to it.

    Arguments:
        count: how many references there are.
    """
    if count <= sole_references():
        return adopted(x)
    if innermost_body() is not None:
        raise PlainWritten
    return x


def set_attribute(value: object, x: object, name: str) -> None:
    """`x.name = value`, of which Python computes the value first."""
    if not isinstance(x, Tracer):
        changes(x)
    setattr(x, name, value)


def change_attribute(x: object, name: str, op: str, value: Callable[[], object]) -> None:
    """`x.name op= value()`."""
    set_attribute(changed(getattr(x, name), op, value), x, name)
