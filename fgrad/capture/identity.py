"""L5. `a is b` of what a branch or a loop has bound: whether that is one object may not be known.

    if p: y = u        y is u where p is true
    y is u             a card: in the trace y is an object of its own, and plain `is` says False

What cannot be the same object by its shape or dtype, or was made since, is two objects.
"""

from __future__ import annotations

from fgrad.capture.aliases import roots_of
from fgrad.capture.containers import is_shared
from fgrad.capture.values import aval_of_value, has_memory, is_number, is_unknown
from fgrad.errors import CaptureError
from fgrad.trace import Tracer
from fgrad.tracing.assign import View, told_apart
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.carried import Body
from fgrad.tracing.thread_state import THREAD

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for


def is_(a: object, b: object) -> bool:
    """`a is b`.

    Raises:
        CaptureError: what a and b are, depends on traced values.
    """
    if a is b:
        return True
    for x, y in ((a, b), (b, a)):
        if isinstance(y, bool) and isinstance(x, Tracer) and x.dtype == bool and not x.shape:
            if is_unknown(x):
                raise _final("`is True` or `is False` of a traced value; write `x` or `not x`")
            return x.weak and bool(x) is y
    if may_be_one(a, b):
        raise _final("`is` of two names that a branch or a loop may have given to one object")
    told_apart(a, b)
    return False


def is_not(a: object, b: object) -> bool:
    """`a is not b`."""
    return not is_(a, b)


def id_(x: object, /) -> int:
    """`id`."""
    if may_be_another(x):
        raise _final("id() of what a branch or a loop has bound")
    return id(x)


def may_be_one(a: object, b: object) -> bool:
    """Whether two values that are two objects in the trace may be one where the program runs."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) > 0 and all([x is y or may_be_one(x, y) for x, y in pairs])
    if isinstance(a, (list, dict)) and type(a) is type(b):
        given = [body for body in THREAD.state.bodies if {id(a), id(b)} & body.given]
        return is_shared(a) or is_shared(b) or any([not _made_in(body, a, b) for body in given])
    if not (isinstance(a, Tracer) or isinstance(b, Tracer)) or not (is_number(a) and is_number(b)):
        return False
    if has_memory(a) and has_memory(b):
        return aval_of_value(a) == aval_of_value(b) and _may_be_one_array(a, b)
    return not (has_memory(a) or has_memory(b)) and (is_unknown(a) or is_unknown(b))


def may_be_another(x: object) -> bool:
    """Whether a value may be an object that was there before the branch or loop that bound it."""
    if isinstance(x, (list, dict)):
        return is_shared(x) or any([id(x) in body.given for body in THREAD.state.bodies])
    if isinstance(x, tuple):
        return any([may_be_another(y) for y in x])
    if not isinstance(x, Tracer):
        return False
    return _is_chosen(x) if has_memory(x) else is_unknown(x)


def _is_chosen(x: object) -> bool:
    """Whether a branch or a loop has chosen which array a name means."""
    if not isinstance(x, Tracer):
        return False
    chosen = isinstance(x.memory, View) and x.memory.chosen
    return chosen or any([id(x) in body.given for body in THREAD.state.bodies])


def _may_be_one_array(a: object, b: object) -> bool:
    if not (_is_chosen(a) or _is_chosen(b)):
        return False
    if not (isinstance(a, Tracer) and isinstance(b, Tracer)):
        return True
    if _is_part(a, b) or _is_part(b, a):
        return False
    own = {id(root) for root in roots_of(a)}
    if any([id(root) in own for root in roots_of(b)]):
        return True
    given = [body for body in THREAD.state.bodies if {id(a), id(b)} & body.given]
    return any([not _is_new(body, b if id(a) in body.given else a) for body in given])


def _is_part(x: Tracer, whole: Tracer) -> bool:
    """Whether an array was made as a view of another one."""
    while isinstance(x.memory, View) and not x.memory.chosen:
        x = x.memory.base
        if x is whole:
            return True
    return False


def _is_new(body: Body, x: Tracer) -> bool:
    """Whether an array was made in a step, or in one of a loop or branch in it."""
    if id(x) in body.given:
        return False
    roots = roots_of(x)
    return all([r.builder is body.builder and not body.carries(r) for r in roots]) and not any(
        [id(r) in body.given for r in roots]
    )


def _made_in(body: Body, a: object, b: object) -> bool:
    """Whether one of two lists was made in a step."""
    return any([id(x) in body.made and id(x) not in body.given for x in (a, b)])


def _final(why: str) -> CaptureError:
    card = not_recorded(why)
    card.final = True  # plain Python finds that a tracer is another object
    return card
