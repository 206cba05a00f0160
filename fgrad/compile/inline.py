"""L5. Pass `inline`: call[program=P] a -> the equations of P, at any depth.

Requires nothing.  Ensures that no `call` equation is left, so that later passes see across calls.
Primitives that are compositions of others (`EXPANSIONS`) are replaced by theirs in the same walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from fgrad.compile.lower_linalg import vectors_are_native
from fgrad.ir.aval import INT32, Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import resolve_atom, substitute
from fgrad.ops.complex import complex_, imag, is_complex, real
from fgrad.ops.elementwise import add, convert, isnan, mul
from fgrad.ops.linalg_compositions import COMPOSITIONS
from fgrad.ops.random_bits import random_bits_elementwise
from fgrad.ops.shape import move_axis
from fgrad.ops.sort import sort
from fgrad.trace import Value, trace


@lru_cache(maxsize=256)
def _random_bits(key: Aval, shape: tuple[int, ...]) -> Program:
    return trace(lambda k: [random_bits_elementwise(k, shape)], [key], "random_bits").program


@lru_cache(maxsize=256)
def _sort(avals: tuple[Aval, ...], axis: int, num_keys: int) -> Program | None:
    """Sorts of rows by one key: the axis last, and the keys stably from the last to the first."""
    last = avals[0].ndim - 1
    if any([x.dtype.kind == "c" for x in avals]):
        return _sort_of_parts(avals, axis, num_keys)
    if axis == last and num_keys == 1:
        return None

    def rows(*operands: Value) -> list[Value]:
        moved = [move_axis(x, axis, last) for x in operands]
        for k in reversed(range(num_keys)):
            others = [j for j in range(len(moved)) if j != k]
            found = dict(
                zip([k, *others], sort([moved[j] for j in (k, *others)], last), strict=True)
            )
            moved = [found[j] for j in range(len(moved))]
        return [move_axis(x, last, axis) for x in moved]

    return trace(rows, avals, "sort").program


def _sort_of_parts(avals: tuple[Aval, ...], axis: int, num_keys: int) -> Program:
    """Complex keys ascend by real, then by imaginary part; after all others those with NaN in the
    imaginary, the real, both parts."""

    def parts(*operands: Value) -> list[Value]:
        flat: list[Value] = []
        for k, x in enumerate(operands):
            if k < num_keys and is_complex(x):
                re, im = isnan(real(x)), isnan(imag(x))
                flat.append(add(mul(convert(re, INT32), INT32.type(2)), convert(im, INT32)))
            flat += [real(x), imag(x)] if is_complex(x) else [x]
        keys = num_keys + 2 * sum([is_complex(x) for x in operands[:num_keys]])
        found = iter(sort(flat, axis, keys))
        outs: list[Value] = []
        for k, x in enumerate(operands):
            if k < num_keys and is_complex(x):
                next(found)
            outs.append(complex_(next(found), next(found)) if is_complex(x) else next(found))
        return outs

    return trace(parts, avals, "sort").program


_FACTORED = frozenset({"det", "slogdet", "solve"})


def _by_factors(eqn: Eqn) -> Program | None:
    """A composition of linear algebra, where its parts are native steps."""
    a = eqn.inputs[0].aval
    suits = a.dtype.kind == "f" if eqn.prim.name in _FACTORED else vectors_are_native(a)
    if not suits or not a.size:
        return None
    avals = tuple([x.aval.strong() for x in eqn.inputs])
    return _composition(COMPOSITIONS[eqn.prim.name], eqn.prim.name, avals, eqn.params)


@lru_cache(maxsize=256)
def _composition(
    function: Callable[..., Sequence[Value]], name: str, avals: tuple[Aval, ...], params: Params
) -> Program:
    return trace(lambda *xs: function(*xs, **params), avals, name).program


EXPANSIONS: dict[str, Callable[[Eqn], Program | None]] = {
    **dict.fromkeys(
        ("call", "custom_jvp", "custom_vjp", "custom_vmap", "checkpoint"),
        lambda eqn: eqn.params["program"],
    ),
    **dict.fromkeys(COMPOSITIONS, _by_factors),
    "random_bits": lambda eqn: _random_bits(eqn.inputs[0].aval, eqn.params["shape"]),
    "sort": lambda eqn: _sort(
        tuple([x.aval.strong() for x in eqn.inputs]), eqn.params["axis"], eqn.params["num_keys"]
    ),
}


def inline_calls(program: Program) -> Program:
    """The program with every nested call and composition replaced by its equations."""
    if not any(eqn.prim.name in EXPANSIONS for eqn in program.eqns):
        return program
    eqns: list[Eqn] = []
    consts = list(program.consts)
    env: dict[Var, Atom] = {}
    pending: list[
        tuple[Iterator[Eqn], dict[Var, Atom], Eqn | None, Sequence[Atom], dict[Var, Atom]]
    ]
    pending = [(iter(program.eqns), env, None, (), env)]
    while pending:
        rest, env, call, results, outer = pending[-1]
        eqn = next(rest, None)
        if eqn is None:
            pending.pop()
            if call is not None:
                outs = [resolve_atom(a, env) for a in results]
                outer.update(zip(call.outputs, outs, strict=True))
        elif (body := _expansion(eqn)) is not None:
            actual = [resolve_atom(a, env) for a in eqn.inputs]
            inner: dict[Var, Atom] = dict(zip(body.inputs, actual, strict=True))
            for var, array in body.consts:
                inner[var] = fresh = Var(var.aval)
                consts.append((fresh, array))
            pending.append((iter(body.eqns), inner, eqn, body.outputs, env))
        else:
            eqn = substitute(eqn, env)
            if len(pending) > 1:
                eqn = _renamed(eqn, env, pending[-1][2])
            eqns.append(eqn)
    top: dict[Var, Atom] = env
    outputs = tuple([resolve_atom(a, top) for a in program.outputs])
    return program.replace(
        consts=tuple(consts), eqns=tuple(eqns), outputs=outputs, made_by="inline"
    )


def _expansion(eqn: Eqn) -> Program | None:
    expand = EXPANSIONS.get(eqn.prim.name)
    return None if expand is None else expand(eqn)


def _renamed(eqn: Eqn, env: dict[Var, Atom], call: Eqn | None) -> Eqn:
    """A copy that binds fresh variables, since a program may be called more than once."""
    fresh = tuple([Var(v.aval) for v in eqn.outputs])
    env.update(zip(eqn.outputs, fresh, strict=True))
    loc = eqn.loc if eqn.loc is not None or call is None else call.loc
    return eqn._replace(outputs=fresh, loc=loc)
