"""L7. Loops: `scan`, `fori_loop`, `while_loop`, `map`, `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.keywords import also_takes
from fgrad.base.progress import Progress, Told
from fgrad.base.size_functions import truncated
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import INT64, Aval
from fgrad.lax.bodies import (
    Body,
    Leaves,
    body_of,
    check_leaves,
    check_structure,
    leaves_of,
    own_results,
    yielded,
)
from fgrad.lax.branches import cond
from fgrad.lax.unchanged import split_carry
from fgrad.lax.whole import places
from fgrad.numpy.promote import as_array, convert, normalize_axis, weakened
from fgrad.ops.control import scan as bind_scan
from fgrad.ops.control import while_loop as bind_while
from fgrad.trace import Value, concrete
from fgrad.tracing.axes import settled
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lowered
from fgrad.transforms.checkpoint.scan import lengths_of, saving_scan
from fgrad.transforms.custom.callback import debug_callback
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, PyTree


def _carry_body(
    fun: Callable[..., PyTree],
    init: Leaves,
    rest: Sequence[tuple[Sequence[Aval], tree.TreeDef]],
    what: str,
    carry_of: Callable[[PyTree], PyTree] = lambda out: out,
) -> tuple[Body, Leaves]:
    """The traced body and its first carry; `carry_of` finds it in the structure of the results.

    Python's numbers in the carry are what they are in a Python loop: they yield to the dtypes that
    they meet, and take the one that the body gives them.
    """

    def traced(avals: Sequence[Aval]) -> Body:
        given = [(avals, init.treedef), *rest]
        return body_of(fun, given, what, [a.dtype for a in avals])

    while True:
        body = settled(init.avals, traced, lambda body: body.program.out_avals)
        carry_tree = carry_of(body.out_tree)
        check_structure(what, "carry", init.treedef, carry_tree)
        after = body.program.out_avals[: len(init.values)]
        met = [
            yielded(x, weak, b, out_weak)
            for x, weak, b, out_weak in zip(init.values, init.weak, after, body.weak, strict=False)
        ]
        values, weak = [x for x, _ in met], [w for _, w in met]
        same = weak == init.weak and [x.dtype for x in values] == [x.dtype for x in init.values]
        if same:
            check_leaves(what, "carry", init.treedef, init.avals, after)
            return body, init
        init = init._replace(values=values, weak=weak)


def _pair(treedef: tree.TreeDef) -> tuple[tree.TreeDef, tree.TreeDef]:
    """The structures of the carry and of what is stacked."""
    parts = treedef.children()
    if treedef.type is not tuple or len(parts) != 2:
        raise ArgumentError(
            f"lax.scan: the function must return a pair (carry, y), not {treedef}.",
        )
    return parts[0], parts[1]


@hides_own_frames
@lowered
@also_takes("_split_transpose")
def scan(
    f: Callable[[PyTree, PyTree], PyTree],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    checkpoint: int | str | bool = False,
    *,
    progress: bool | Progress = False,
) -> tuple[PyTree, PyTree]:
    """Carry a value along an axis: `carry, y = f(carry, x)` for each item x of `xs`.

    Arguments:
        f: a function of a carry and an item, pytrees of arrays; the carry keeps its types, where a
            Python number takes the dtype that the first step gives it.
        init: the first carry.
        xs: a pytree of arrays, whose first axes are walked together; None for no items.
        length: the number of steps, needed if there are no items.
        reverse: whether to begin with the last item; the ys keep the order of the xs.
        unroll: accepted for JAX's sake; the compiler decides.
        checkpoint: for derivatives in reverse, keep the carry every so many steps only, and
            compute the steps between again; True or "sqrt" chooses the number, "log" nests.
        progress: whether to tell on stderr how many steps are done, or a function of (done, all);
            about a hundred times, also in compiled code. The examples of a batch count once, steps
            that a checkpoint computes again are told again.

    Returns:
        `(carry, ys)`: the last carry, and each y stacked along a new first axis.

    Raises:
        ArgumentError: if the length is not known, or a structure changes.
        ShapeError: if lengths differ, or the shape of a carry changes.
        DtypeError: if the dtype of a carry changes.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.scan(lambda c, x: (c + x, c * x), 0.0, np.arange(4.0))
        (np.float64(6.0), array([0., 0., 2., 9.]))
    """
    carry = leaves_of(init, "the carry of scan")
    items = leaves_of(xs, "an item of scan")
    steps = _length(items, length)
    if progress:
        order = np.arange(steps)[:: -1 if reverse else 1]
        f = _telling(f, progress, "scan", steps)
        items = leaves_of((order, xs), "an item of scan")
    shapes = [a.like(tuple(a.shape[1:])) for a in items.avals]
    body, carry = _carry_body(
        f, carry, [(shapes, items.treedef)], "scan", lambda treedef: _pair(treedef)[0]
    )
    between = lengths_of(checkpoint, steps) if checkpoint else ()
    parts = split_carry(body, carry.values)
    program, consts = parts.body(body.program, len(body.captured)), parts.consts(body.captured)
    outs = saving_scan(program, steps, bool(reverse), consts, parts.carry, items.values, between)
    results, n = parts.results(outs), len(carry.values)
    given = [*carry.values, *items.values]
    last, ys = own_results(results[:n], given), list(results[n:])
    return tree.unflatten(carry.treedef, last), tree.unflatten(_pair(body.out_tree)[1], ys)


def _telling(
    f: Callable[..., PyTree], progress: bool | Progress, what: str, steps: int
) -> Callable[[PyTree, PyTree], PyTree]:
    """The body of a scan over (number of the step, item), which tells about a hundred times."""
    told, every = Told(progress, what), max(1, steps // 100)

    def tell(k: Value) -> None:
        debug_callback(lambda k: told(int(k) + 1, steps), k)

    def body(carry: PyTree, item: PyTree) -> PyTree:
        k, x = item
        found = user_form(f)(carry, x)
        cond(((k + 1) % every == 0) | (k + 1 == steps), tell, lambda _: None, k)
        return found

    return body


def _length(items: Leaves, length: int | None) -> int:
    found: list[int] = []
    for x in items.values:
        if not x.shape:
            raise ShapeError("lax.scan: an item of xs is a scalar; there is no axis to walk.")
        found.append(x.shape[0])
    if length is not None:
        found.append(truncated(length))
    if not found:
        raise ArgumentError("lax.scan: without xs, length= must be given.")
    if any([x != found[0] for x in found]):
        raise ShapeError(f"lax.scan: the lengths {sorted(set(found))} differ.")
    return found[0]


@hides_own_frames
@lowered
def while_loop(
    cond_fun: Callable[[PyTree], PyTree],
    body_fun: Callable[[PyTree], PyTree],
    init_val: PyTree,
    max_steps: int | None = None,
) -> PyTree:
    """`while cond_fun(val): val = body_fun(val)`.

    Arguments:
        cond_fun: a function of the value that returns a boolean scalar.
        body_fun: a function of the value that returns the next one, of the same types.
        init_val: the first value, a pytree of arrays.
        max_steps: the loop ends after so many steps at the latest, all of which a derivative in
            reverse then takes and keeps.

    Returns:
        The value for which the condition no longer holds.

    A derivative in reverse needs no `max_steps`: a compiled loop keeps at most 255 states (fewer
    of more than 256 kB, 64 MB in all, 15 at least), and computes the others again, so that a step
    costs two or three evaluations of `body_fun` besides its derivative.  Printing in it happens
    once; an `io_callback` whose result it needs raises.

    Raises:
        ArgumentError: if the condition is not a boolean scalar, or the structure changes.
        ShapeError, DtypeError: if a leaf changes its type.

    Example:
        >>> import fgrad
        >>> fgrad.lax.while_loop(lambda x: x < 10.0, lambda x: 2 * x, 1.0)
        np.float64(16.0)
    """
    if max_steps is not None:
        return _bounded(cond_fun, body_fun, init_val, int(max_steps))
    return _while("while_loop", cond_fun, body_fun, init_val, None)


def _bounded(
    cond_fun: Callable[[PyTree], PyTree],
    body_fun: Callable[[PyTree], PyTree],
    init: PyTree,
    most: int,
) -> PyTree:
    """A loop that counts its steps."""
    start = (INT64.type(0), init)
    _, last = _while(
        "while_loop",
        lambda s: np.logical_and(s[0] < most, user_form(cond_fun)(s[1])),
        lambda s: (s[0] + 1, user_form(body_fun)(s[1])),
        start,
        most,
    )
    return last


def _while(
    what: str,
    cond_fun: Callable[[PyTree], PyTree],
    body_fun: Callable[[PyTree], PyTree],
    init_val: PyTree,
    max_steps: int | None,
) -> PyTree:
    init = leaves_of(init_val, f"the value of {what}")
    body, init = _carry_body(body_fun, init, [], what)
    carried = body.program.in_avals[len(body.captured) :]
    test = body_of(cond_fun, [(carried, init.treedef)], what)
    if [(a.shape, a.dtype) for a in test.program.out_avals] != [((), np.dtype(bool))]:
        found = ", ".join(str(a) for a in test.program.out_avals)
        raise ArgumentError(f"lax.{what}: the condition is {found}; it must be one boolean.")
    parts = split_carry(body, init.values)
    outs = bind_while(
        parts.program(test.program, len(test.captured)),
        parts.body(body.program, len(body.captured)),
        parts.consts(test.captured),
        parts.consts(body.captured),
        parts.carry,
        max_steps,
    )
    results = parts.results(outs)
    return tree.unflatten(init.treedef, own_results(results, init.values))


@hides_own_frames
@lowered
@also_takes("unroll")
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[PyTree, PyTree], PyTree],
    init_val: PyTree,
    *,
    progress: bool | Progress = False,
) -> PyTree:
    """`for i in range(lower, upper): val = body_fun(i, val)`.

    Arguments:
        lower: the first index, an integer.
        upper: the index after the last one.  If both are known, a derivative in reverse keeps what
            it needs of all steps, else of some (see `while_loop`).
        body_fun: a function of the index and the value. The index is one of Python's integers,
            as in `range`: it widens no array that it meets.
        init_val: the first value, a pytree of arrays.
        progress: as for `scan`, where the number of steps is known.

    Returns:
        The last value.

    Example:
        >>> import fgrad
        >>> fgrad.lax.fori_loop(0, 5, lambda i, x: x + i, 0)
        np.int64(10)
    """
    lower, upper = places(lower, "fori_loop"), places(upper, "fori_loop")
    first, last = concrete(lower), concrete(upper)
    if progress and first is not None and last is not None:
        return _told_steps(int(first), int(last), body_fun, init_val, progress)
    if first is None or last is None:
        counted = weakened(convert(lower, INT64)) if first is None else int(first)
        start = (counted, convert(upper, INT64), init_val)
        return _while(
            "fori_loop",
            lambda s: s[0] < s[1],
            lambda s: (s[0] + 1, s[1], user_form(body_fun)(s[0], s[2])),
            start,
            None,
        )[2]
    count = max(int(last) - int(first), 0)
    init = leaves_of((int(first), init_val), "the value of fori_loop")
    body, init = _carry_body(
        lambda s: (s[0] + 1, user_form(body_fun)(s[0], s[1])), init, [], "fori_loop"
    )
    parts = split_carry(body, init.values)
    program, consts = parts.body(body.program, len(body.captured)), parts.consts(body.captured)
    results = parts.results(bind_scan(program, count, False, consts, parts.carry, []))
    return tree.unflatten(init.treedef, own_results(results, init.values))[1]


def _told_steps(
    first: int, last: int, body: Callable[..., PyTree], init: PyTree, progress: bool | Progress
) -> PyTree:
    """`fori_loop` that tells how far it is."""

    def step(state: PyTree, _: None) -> PyTree:
        i, val = state
        return (i + 1, user_form(body)(i, val)), None

    steps = max(last - first, 0)
    return scan(step, (first, init), None, steps, progress=progress)[0][1]


@hides_own_frames
def map(
    f: Callable[[PyTree], PyTree],
    xs: PyTree,
    batch_size: int | None = None,
    *,
    progress: bool | Progress = False,
) -> PyTree:
    """`f` of each item of `xs` in turn, the results stacked.

    Arguments:
        f: a function of an item, a pytree of arrays.
        xs: a pytree of arrays, whose first axes are walked together.
        batch_size: how many items are computed at once, by `vmap`.
        progress: as for `scan`; with `batch_size` it counts batches, of that size.

    Raises:
        ArgumentError: if `batch_size` is not positive.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.map(lambda x: x**2, np.arange(3.0))
        array([0., 1., 4.])
    """
    if batch_size is None:
        return scan(lambda _, x: (None, user_form(f)(x)), None, xs, progress=progress)[1]
    length, size = _length(leaves_of(xs, "an item of map"), None), int(batch_size)
    if size < 1:
        raise ArgumentError(f"lax.map: batch_size={batch_size}; it must be positive.")
    whole = length - length % size
    many = vmap(f)
    parts = []
    if whole:
        blocks = tree.map(lambda x: np.reshape(x[:whole], (whole // size, size, *x.shape[1:])), xs)
        done = scan(lambda _, x: (None, many(x)), None, blocks, progress=progress)[1]
        parts.append(tree.map(lambda y: np.reshape(y, (whole, *y.shape[2:])), done))
    if whole < length or not parts:
        parts.append(many(tree.map(lambda x: x[whole:], xs)))
    return parts[0] if len(parts) == 1 else tree.map(lambda *ys: np.concatenate(ys), *parts)


@hides_own_frames
@lowered
def associative_scan(
    fn: Callable[[PyTree, PyTree], PyTree], elems: PyTree, reverse: bool = False, axis: int = 0
) -> PyTree:
    """All partial results of an associative function along an axis, in log2(n) parallel steps.

    Arguments:
        fn: a function of two pytrees of arrays, applied to many pairs at once.
        elems: a pytree of arrays.
        reverse: whether to combine from the end.
        axis: the axis to walk.

    Raises:
        ShapeError: if the arrays have different lengths along the axis.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.associative_scan(np.add, np.arange(4))
        array([0, 1, 3, 6])
    """
    leaves, treedef = tree.flatten(elems)
    arrays: list[Any] = [as_array(x) for x in leaves]
    lengths = {x.shape[normalize_axis(axis, len(x.shape))] for x in arrays}
    if len(lengths) != 1:
        raise ShapeError(f"lax.associative_scan: the lengths {sorted(lengths)} differ.")
    arrays = [np.moveaxis(x, axis, 0) for x in arrays]
    arrays = [np.flip(x, 0) for x in arrays] if reverse else arrays
    length, step = lengths.pop(), 1
    while step < length:
        before = tree.unflatten(treedef, [x[:-step] for x in arrays])
        after = tree.unflatten(treedef, [x[step:] for x in arrays])
        joined = tree.leaves(user_form(fn)(before, after))
        arrays = [np.concatenate([x[:step], y]) for x, y in zip(arrays, joined, strict=True)]
        step *= 2
    arrays = [np.flip(x, 0) for x in arrays] if reverse else arrays
    return tree.unflatten(treedef, [np.moveaxis(x, 0, axis) for x in arrays])
