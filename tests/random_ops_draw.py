"""Random calls of the NumPy surface: arrays of all dtypes and layouts, keywords by their names.

What a function may be given is read from the signature of its traced form; `ARGUMENTS` says for
each name of a parameter what can stand there, right or wrong: what NumPy refuses is to be refused.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy
from fgrad.numpy.dispatch import TRACED

SHAPES = [
    (), (1,), (3,), (4,), (2, 3), (3, 4), (1, 4), (4, 1), (3, 3), (2, 3, 4), (2, 1, 3), (0,),
    (0, 3),
]  # fmt: skip
DTYPES = [
    *["f8"] * 9, *["f4"] * 4, *["i8"] * 3, *["c16"] * 2,
    "b1", "b1", "i4", "i1", "u1", "u4", "u8", "c8", "f2",
]  # fmt: skip
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-300, 1e30]
NUMBERS = [0, 1, 2, -1, 3, 0.5, -2.5, True, 1.5j]


class Ref(NamedTuple):
    """The value with a number in a program's pool."""

    number: int


class Call(NamedTuple):
    """A function, and its arguments, in which `Ref` stand for values of the pool."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Draw:
    """Random choices, and the pool of values that calls may take."""

    def __init__(self, rng: np.random.Generator, smooth: bool = False) -> None:
        self.rng, self.smooth = rng, smooth
        self.pool: list[Any] = []
        self.inputs: list[Any] = []
        self.last = ""  # the name of the function whose arguments are drawn

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def array(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Ref:
        """A new input of the program."""
        shape = self.pick(SHAPES) if shape is None else shape
        if self.smooth and dtype is None:
            dtype = "f8"
        x = self.laid_out(shape, np.dtype(self.pick(DTYPES) if dtype is None else dtype))
        self.inputs.append(x)
        self.pool.append(x)
        return Ref(len(self.pool) - 1)

    def laid_out(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Values in memory of a random order, with gaps, the other way round, or repeated."""
        kinds = ["C", "C", "F", "gaps", "back"] + ["repeated"] * (not self.smooth)  # no ties
        kind = self.pick(kinds) if shape else "C"
        if kind == "F":
            return self.values(shape[::-1], dtype).T
        if kind == "gaps":
            return self.values((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
        if kind == "back":
            return self.values(shape, dtype)[::-1]
        if kind == "repeated" and shape[0] > 1:
            return np.broadcast_to(self.values((1, *shape[1:]), dtype), shape)
        return self.values(shape, dtype)

    def values(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            return self.rng.integers(-5 if dtype.kind == "i" else 0, 9, shape).astype(dtype)
        x = self.rng.normal(size=shape) * 2
        if self.smooth:
            return x
        x = np.round(x * 8) / 8 if self.chance(0.5) else x
        if dtype.kind == "c":
            x = x + 1j * np.round(self.rng.normal(size=shape) * 4) / 4
        x = np.asarray(x)
        if self.chance(0.15) and x.size:
            x.reshape(-1)[int(self.rng.integers(x.size))] = self.pick(SPECIAL)
        with np.errstate(all="ignore"):
            return x.astype(dtype)

    def operand(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Any:
        """A value of the pool, of a shape if one is given, a new input, or a Python number."""
        fitting = [
            k
            for k, x in enumerate(self.pool)
            if (shape is None or np.shape(x) == shape)
            and (dtype is None or np.asarray(x).dtype.kind in dtype)
        ]
        if fitting and self.chance(0.6):
            return Ref(self.pick(fitting))
        if shape is None and dtype is None and self.chance(0.08):
            return self.pick(NUMBERS if not self.smooth else [2, 0.5])
        kinds = {"b": "b1", "i": "i8", "iu": "i8", "f": "f8"}
        return self.array(shape, None if dtype is None else kinds[dtype])

    def ascending(self, n: int) -> Ref:
        """A new input of ascending numbers, of which some may be equal."""
        self.inputs.append(np.sort(self.rng.integers(-4, 5, n) / 2.0))
        self.pool.append(self.inputs[-1])
        return Ref(len(self.pool) - 1)

    def shape_of(self, x: Any) -> tuple[int, ...]:
        return np.shape(self.pool[x.number]) if isinstance(x, Ref) else np.shape(x)

    def like(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with another one, mostly."""
        if self.chance(0.05):
            return self.pick(SHAPES)
        start = int(self.rng.integers(len(shape) + 1))
        return tuple([1 if self.chance(0.2) else n for n in shape[start:]])


# --- arguments by the names of their parameters ---------------------------------------------------

AXES = [
    None, 0, 0, -1, -1, 1, 1, -2, 2, (0, 1), (1, 0), (-1, 0), (2, 0), (0, 0), (), (0, 1, 2), 5,
]  # fmt: skip
TYPES = [None, int, bool, "f4", "f8", "c8", "c16", "i1", "u1", "f2", float, complex]
INDICES = [0, -1, 1, [0, 0], [1, 0], [[0, 1], [1, 0]], 7, [-1, 0, 2]]

ARGUMENTS: dict[str, Sequence[Any]] = {
    "axis": AXES,
    "dtype": TYPES,
    "keepdims": [True, False],
    "initial": [0, 1, 2.5, True, -1],
    "ddof": [0, 1, 2, 0.5],
    "correction": [0, 1],
    "returned": [True, False],
    "order": ["C", "F", "A", "K"],
    "n": [0, 1, 2, 3, -1],
    "k": [-2, -1, 0, 1, 2, 7],
    "offset": [-2, -1, 0, 1, 2, 7],
    "num": [0, 1, 2, 5],
    "endpoint": [True, False],
    "retstep": [True, False],
    "base": [2.0, 10.0],
    "decimals": [0, 1, -1, 2],
    "shift": [1, -1, 3, (1, 2), 0, [1, -1]],
    "repeats": [0, 1, 2, 3, [1, 0, 2]],
    "indices": INDICES,
    "obj": [
        0, -1, 1, [0, 2], [2, 0], [1, 1], slice(0, 2), slice(None, None, 2), [0, -1], [True, False],
    ],
    "mode": ["raise", "clip", "wrap"],
    "side": ["left", "right"],
    "indexing": ["ij", "xy"],
    "sparse": [True, False],
    "source": [0, -1, 1, (0, 1), (1, 0), [0]],
    "destination": [0, -1, 1, (0, 1), (1, 0), [-1]],
    "axis1": [0, 1, -1, 2],
    "axis2": [0, 1, -1, 2],
    "axisa": [0, -1, 1],
    "axisb": [0, -1, 1],
    "axisc": [0, -1, 1],
    "start": [0, 1, -1, 2],
    "reps": [2, (2, 1), (1, 2, 2), 0, ()],
    "N": [None, 0, 2, 4],
    "increasing": [True, False],
    "edge_order": [1, 2],
    "dx": [0.5, 2.0],
    "q": [0.3, 0.0, 1.0, [0.1, 0.9], 0.5],
    "method": ["linear", "lower", "higher", "nearest", "midpoint", "weibull", "hazen"],
    "bias": [True, False],
    "rowvar": [True, False],
    "include_initial": [True, False],
    "indices_or_sections": [1, 2, 3, [1], [1, 2], [2, 1], 0],
    "ord": [None, 1, 2, np.inf, -np.inf, 0, 3, "fro", "nuc"],
    "norm": [None, "ortho", "forward"],
    "axes": [
        None, (1, 0), (0, 1), (0, -1), (0, 2, 1), 0, 1, 2, ((0,), (0,)), ((1, 0), (0, 1)), (0, 0),
    ],
    "equal_nan": [True, False],
    "discont": [None, 4],
    "period": [6.28, 1.0],
    "fill_value": [0, 1.5, True],
    "right": [True, False],
    "new_shape": [(2, 3), 4, (0,), (3, 3)],
    "ax": [0, 1],
    "ndmin": [0, 2],
    "nan": [0.0, 1.5],
    "posinf": [None, 2.0],
    "neginf": [None, -2.0],
    "kind": ["stable"],
    "stable": [None],
    "pad_width": [1, (0, 2), ((1, 0),), 0, -1],
    "invert": [True, False],
    "window_shape": [1, 2, 3, (2, 2)],
    "M": [None, 2, 4],
}  # fmt: skip
LISTS = ("arys", "arrays", "tup", "xi")
_ARRAY_NAMES = (
    "a b x y m v ary arr array z f p A u w d values x1 x2 val condition element fp xp prepend "
    "append a_min a_max min max to_begin to_end test_elements ar1 ar2 "
)
ARRAY_NAMES = frozenset(_ARRAY_NAMES.split())
_OMITTED = (
    "out args kwargs subok copy like casting device signature extobj _args _ kw mean size sorter "
    "nan_result assume_unique overwrite_input writeable rtol atol period "
)
OMITTED = frozenset(_OMITTED.split())
# Functions that are called in other ways, or need values, or whose results NumPy leaves open, or
# that differ among its versions.
_LEFT_OUT = (
    "cov corrcoef correlate convolve digitize union1d polyint polyder polydiv "
    "lib.stride_tricks.sliding_window_view "
    "abs absolute array2string array_repr array_str save savetxt savez savez_compressed "
    "result_type can_cast shape ndim size common_type iscomplexobj isrealobj isscalar "
    "min_scalar_type copyto put place putmask put_along_axis fill_diagonal apply_along_axis "
    "apply_over_axes piecewise empty_like empty einsum_path broadcast_shapes may_share_memory "
    "shares_memory fromfunction vectorize frompyfunc linalg.cond linalg.pinv array_equal "
    "array_equiv linalg.matrix_rank linalg.lstsq linalg.eig linalg.eigvals linalg.eigh linalg.svd "
    "linalg.qr linalg.tensorsolve linalg.tensorinv linalg.inv linalg.det linalg.slogdet "
    "linalg.solve linalg.cholesky linalg.eigvalsh linalg.svdvals linalg.matrix_power roots "
    "bincount histogram histogram2d histogramdd histogram_bin_edges poly polyfit asmatrix mat "
    "bmat tril_indices triu_indices spacing nextafter require choose select full arange block "
    "einsum linalg.multi_dot clip partition argpartition argsort sort_complex unique_values "
    "unique_all unique_counts unique_inverse "
)
LEFT_OUT = frozenset(_LEFT_OUT.split())


UNDISPATCHED = (
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite"
)  # fmt: skip


@functools.cache
def functions() -> dict[str, tuple[Callable[..., Any], inspect.Signature]]:
    """The functions that are called, with the signatures of their traced forms."""
    for name in dir(fgrad.numpy):
        getattr(fgrad.numpy, name, None)
    found = {}
    for name, (target, traced) in sorted(TRACED.items()):
        parts = inspect.signature(traced).parameters
        if name in LEFT_OUT or isinstance(target, np.ufunc) or name.startswith("_"):
            continue
        first = next(iter(parts.values()), None)
        if first is not None and first.name in (*ARRAY_NAMES, *LISTS, "start"):
            function = getattr(fgrad.numpy, name) if name in UNDISPATCHED else target
            found[name] = (function, inspect.signature(traced))
    return found


@functools.cache
def ufuncs() -> list[np.ufunc]:
    """NumPy's ufuncs that take numbers; matrix products have signatures."""
    left_out = (np.isnat, np.frexp, np.ldexp, np.spacing, np.nextafter)
    named = {f.__name__: f for f in map(np.__dict__.get, dir(np)) if isinstance(f, np.ufunc)}
    return [f for _, f in sorted(named.items()) if f.signature is None and f not in left_out]


INT_AXIS = ("linspace", "logspace", "geomspace")  # whose axis is never None


def argument(draw: Draw, name: str, first: Any) -> Any:
    """Something for the parameter with this name."""
    if (name == "order" and "sort" in draw.last) or "partition" in draw.last:
        return None
    if name == "where":
        return draw.operand(draw.like(draw.shape_of(first)), "b")
    if name == "weights":
        shape = draw.shape_of(first)
        options = [shape, shape[:1], shape[-1:], shape[::-1][:2], shape[1:]]
        return draw.operand(draw.pick(options))
    if name == "shape":
        size = int(np.prod(draw.shape_of(first)))
        back = draw.shape_of(first)[::-1]
        return draw.pick([(-1,), size, (1, size), (size, 1), back, (2, -1), (3, -1, 1)])
    if name in ("left", "right") and draw.last == "interp":
        return draw.pick([None, 0.5])
    if name == "kind":
        return "stable" if "sort" in draw.last else None
    if name == "bins":
        return draw.ascending(4)
    if name == "m" and "poly" in draw.last:
        return draw.pick([0, 1, 2])
    if name == "axis" and draw.last in INT_AXIS:
        return draw.pick([0, -1, 1])
    if name == "order" and ("ravel" in draw.last or "reshape" in draw.last):
        return draw.pick(["C", "F"])  # of inputs, the layout is no part of the value
    if name == "xp":
        return draw.ascending(4)
    if name in ARGUMENTS:
        return draw.pick(ARGUMENTS[name])
    return draw.operand(draw.like(draw.shape_of(first)) if draw.chance(0.8) else None)


def numpy_call(draw: Draw) -> Call:
    """A function with keywords."""
    name = draw.last = draw.pick(list(functions()))
    target, signature = functions()[name]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    first: Any = None
    for parameter in signature.parameters.values():
        kind = parameter.kind
        if kind is kind.VAR_POSITIONAL and parameter.name in (*LISTS, "arys", "args") and not args:
            args += [draw.operand() for _ in range(int(draw.rng.integers(1, 4)))]
            first = args[0]
        if kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
            continue
        if parameter.name in LISTS:
            one = draw.operand()
            shape = draw.shape_of(one)
            args.append([one, *[draw.operand(shape) for _ in range(int(draw.rng.integers(0, 3)))]])
            first = one
            continue
        needed = parameter.default is parameter.empty
        if first is None:
            first = draw.ascending(4) if name == "searchsorted" else draw.operand()
            args.append(first)
        elif needed and kind is not kind.KEYWORD_ONLY:
            args.append(argument(draw, parameter.name, first))
        elif needed or (parameter.name not in OMITTED and draw.chance(0.35)):
            kwargs[parameter.name] = argument(draw, parameter.name, first)
    return Call(name, target, tuple(args), kwargs)


def ufunc_call(draw: Draw) -> Call:
    """A ufunc, rarely with keywords."""
    ufunc = draw.pick(ufuncs())
    args = [draw.operand()]
    shape = draw.shape_of(args[0])
    args += [
        draw.operand(draw.like(shape) if draw.chance(0.7) else shape) for _ in range(ufunc.nin - 1)
    ]
    kwargs = {"dtype": draw.pick(TYPES)} if draw.chance(0.08) else {}
    return Call(ufunc.__name__, ufunc, tuple(args), kwargs)


_BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge"
OPERATORS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name) for name in _BINARY.split()
} | {"divmod": divmod}


def operator_call(draw: Draw) -> Call:
    """Python's operators, on either side of which a Python number may stand."""
    if draw.chance(0.2):
        name = draw.pick(["neg", "pos", "invert", "abs"])
        return Call(name, getattr(operator, name), (draw.operand(),), {})
    name = draw.pick(list(OPERATORS))
    x = draw.operand()
    y = draw.pick(NUMBERS) if draw.chance(0.3) else draw.operand(draw.like(draw.shape_of(x)))
    args = (x, y) if draw.chance(0.7) else (y, x)
    return Call(name, OPERATORS[name], args, {})


_REDUCING = "sum prod mean std var max min argmax argmin any all cumsum cumprod"
METHODS = {name: ("axis", "keepdims") for name in _REDUCING.split()} | {
    "ravel": ("order",), "flatten": ("order",), "conj": (), "copy": (), "round": ("decimals",),
    "repeat": ("repeats", "axis"), "take": ("indices", "axis", "mode"), "squeeze": ("axis",),
    "swapaxes": ("axis1", "axis2"), "trace": ("offset", "axis1", "axis2", "dtype"),
    "diagonal": ("offset", "axis1", "axis2"), "astype": ("dtype",),
    "reshape": ("shape",), "transpose": (), "clip": ("a_min", "a_max"), "item": (),
}  # fmt: skip
POSITIONAL = ("repeat", "take", "swapaxes", "reshape", "clip", "astype")


def method_call(draw: Draw) -> Call:
    """A method of an array."""
    name = draw.pick([m for m in METHODS if m != "item"])
    x = draw.operand(draw.pick(SHAPES))
    draw.last = name
    given = [argument(draw, p, x) for p in METHODS[name]]
    if name in ("ravel", "flatten"):
        given = [draw.pick(["C", "F"])]
    if name == "reshape" and given[0] is None:
        given = [(-1,)]
    if name in POSITIONAL:
        count = len(given) if name in ("swapaxes", "clip") else 1
        return Call(f".{name}", operator.methodcaller, (name, x, *given[:count]), {})
    chosen = {p: v for p, v in zip(METHODS[name], given, strict=True) if draw.chance(0.5)}
    if "keepdims" in chosen and name in ("cumsum", "cumprod"):
        del chosen["keepdims"]
    return Call(f".{name}", operator.methodcaller, (name, x), chosen)


KEYS = [
    slice(None), slice(1, None), slice(None, None, -1), slice(-1, 0, -2), 0, -1, [0, -1],
    np.array([[0, 0]]), slice(5, 1), slice(None, 2), np.int64(-1), [], True,
]  # fmt: skip


def index_call(draw: Draw) -> Call:
    """x[...] with slices, integers, new axes, integer arrays and known masks."""
    x = draw.operand(draw.pick([s for s in SHAPES if s]))
    shape = draw.shape_of(x)
    key: list[Any] = []
    for n in shape[: int(draw.rng.integers(1, len(shape) + 1))]:
        mask = np.arange(n) % 2 == 0
        key.append(draw.pick([*KEYS, n, mask]))
    if draw.chance(0.25):
        key.insert(int(draw.rng.integers(len(key) + 1)), draw.pick([None, Ellipsis]))
    if draw.chance(0.15):
        key[0] = draw.operand(draw.pick([(), (2,), (1, 2)]), "iu")
    return Call("[]", operator.getitem, (x, tuple(key)), {})


def clip_call(draw: Draw) -> Call:
    """Limits on both sides, or one of them None."""
    x = draw.operand()
    low, high = [
        None if draw.chance(0.2) else draw.operand(draw.like(draw.shape_of(x))) for _ in "ab"
    ]
    low = 0 if low is None and high is None else low
    return Call("clip", np.clip, (x, low, high), {})


def chain_call(draw: Draw) -> Call:
    """The product of three matrices."""
    shapes = draw.pick([[(2, 3), (3, 4), (4, 1)], [(3,), (3, 4), (4, 4)], [(3, 3), (3, 3), (3,)]])
    dtype = "f8" if draw.smooth else draw.pick(["f8", "f4", "c16", "i8"])
    return Call("multi_dot", np.linalg.multi_dot, ([draw.array(s, dtype) for s in shapes],), {})


EINSUMS = [
    "ij->ji", "ij,jk->ik", "ii", "ii->i", "i,i", "i,j->ji", "ij,ij->i", "...i,...i->...", "ijk->k",
    "ij,kj",
]  # fmt: skip


def einsum_call(draw: Draw) -> Call:
    """A contraction."""
    spec = draw.pick(EINSUMS)
    terms = spec.split("->")[0].split(",")
    args = [draw.operand(tuple([3] * len(t.replace(".", "")))) for t in terms]
    return Call("einsum", np.einsum, (spec, *args), {})


def linear_call(draw: Draw) -> Call:
    """Linear algebra of well conditioned matrices."""
    a = np.eye(3) * 4 + draw.rng.normal(size=(3, 3)) * 0.3
    a = a @ a.T if draw.chance(0.5) else np.stack([a, a.T * 1.1 + 0.1])
    dtype = draw.pick(["f8", "f8", "f4", "c16"]) if not draw.smooth else "f8"
    draw.inputs.append(a.astype(dtype))
    draw.pool.append(draw.inputs[-1])
    x = Ref(len(draw.pool) - 1)
    name = draw.pick(["inv", "det", "slogdet", "solve", "svdvals", "matrix_power", "pinv"])
    if name == "solve":
        return Call(name, np.linalg.solve, (x, draw.array((3, 2), "f8")), {})
    if name == "matrix_power":
        return Call(name, np.linalg.matrix_power, (x, draw.pick([0, 1, 2, 3, -1])), {})
    return Call(name, getattr(np.linalg, name), (x,), {})


def invoke(call: Call, pool: Sequence[Any]) -> Any:
    """The result of a call on the values of a pool."""
    args = [_given(a, pool) for a in call.args]
    kwargs = {k: _given(a, pool) for k, a in call.kwargs.items()}
    if call.function is operator.methodcaller:
        return getattr(args[1], args[0])(*args[2:], **kwargs)
    return call.function(*args, **kwargs)


def _given(x: Any, pool: Sequence[Any]) -> Any:
    if isinstance(x, Ref):
        return pool[x.number]
    if isinstance(x, (list, tuple)) and any([isinstance(y, Ref) for y in x]):
        return type(x)([_given(y, pool) for y in x])
    return x
