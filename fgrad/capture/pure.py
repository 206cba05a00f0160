"""L5. Whether calls of a function do nothing but compute: what gradients at the prompt ask before
they compile themselves (`compile/prompt/`).

A function qualifies by its source: its statements are of kinds that change nothing outside, all
that it names and calls is known, and so are the functions of the user's that it calls.  What it
names is then a number, an array, a container of these, a module or function of the lists here, or a
function that qualifies; these are looked at in each call, as they may change.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import functools
import math
import operator
import types
from collections.abc import Iterator
from types import CodeType, FunctionType

import numpy as np

from fgrad import numpy as fnp
from fgrad.base.closures import contents
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import USERS, owner_of
from fgrad.capture.entry import global_names
from fgrad.capture.source import Unconvertible, codes_in, node_of

_NODES = (
    ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign,
    ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr, ast.Pass, ast.Break, ast.Continue,
    ast.Assert, ast.Raise, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.List,
    ast.Tuple, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Compare,
    ast.Call, ast.keyword, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred,
    ast.Name, ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop,
)  # fmt: skip
_WORDS = {
    ast.With: "a `with` block", ast.Try: "a `try` block", ast.Global: "`global`",
    ast.Nonlocal: "`nonlocal`", ast.Yield: "`yield`", ast.YieldFrom: "`yield from`",
    ast.Await: "`await`", ast.Import: "`import`", ast.ImportFrom: "`import`",
    ast.ClassDef: "a class", ast.JoinedStr: "a formatted string", ast.Delete: "`del`",
    ast.Set: "a set", ast.SetComp: "a set",
}  # fmt: skip

# Attributes of arrays, numbers and plain containers that change nothing.
_ATTRIBUTES = frozenset({
    "T", "all", "any", "argmax", "argmin", "astype", "clip", "conj", "conjugate", "copy", "count",
    "cumprod", "cumsum", "diagonal", "dot", "dtype", "flatten", "get", "imag", "index", "items",
    "keys", "mT", "max", "mean", "min", "ndim", "prod", "ravel", "real", "repeat", "reshape",
    "round", "shape", "size", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose",
    "values", "var",
})  # fmt: skip
_GROWING = frozenset({"append", "extend"})  # what a list that the function made may do

_BUILTINS = frozenset({
    abs, all, any, bool, complex, dict, enumerate, filter, float, int, isinstance, len, list, map,
    max, min, pow, range, reversed, round, slice, sorted, sum, tuple, zip,
})  # fmt: skip
_CHANGING = frozenset({
    "copyto", "errstate", "fill_diagonal", "frombuffer", "fromfile", "fromiter", "load",
    "loadtxt", "place", "put", "put_along_axis", "putmask", "save", "savetxt", "savez", "seterr",
    "setbufsize", "shares_memory", "may_share_memory", "show_config", "vectorize",
})  # fmt: skip
_PLACES = ("", "linalg", "fft")  # of NumPy
_MODULES = frozenset({"math", "cmath", "operator"})
_FUNCTIONS_OF_MODULES = (types.BuiltinFunctionType, type(operator.add))
_STATIC = (int, float, complex, str, bytes, type(None), np.dtype)


Place = tuple[str, tuple[str, ...], object]  # ("np", ("linalg", "norm")), and what is found there


class Reads(NamedTuple):
    """What the functions of one code object read by name, and why it does not qualify."""

    code: CodeType
    names: tuple[str, ...]  # globals, builtins among them
    modules: dict[str, types.ModuleType]  # what names stood for when the code was looked at
    paths: tuple[Place, ...]
    builtins: dict[str, object]  # Python's functions without effects
    why: str  # nothing, if the function qualifies


_KNOWN: dict[int, Reads] = {}
MOST_KNOWN = 4096


def pure_reads(fun: FunctionType) -> Reads:
    """What a function reads, looked at once for each code object."""
    code = fun.__code__
    found = _KNOWN.get(id(code))
    if found is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[id(code)] = _reads_of(fun)
    return found


def _reads_of(fun: FunctionType) -> Reads:
    code = fun.__code__
    names = tuple(sorted(set().union(*[global_names(part) for part in codes_in(code)])))
    modules = {name: x for name, x in _values(fun, names) if isinstance(x, types.ModuleType)}
    found = {name: getattr(builtins, name, _UNKNOWN) for name in names}
    harmless = {name: x for name, x in found.items() if is_known(x)}
    look = _Look(code, modules)
    why = "it is a function of a library"
    if owner_of(code.co_filename) == USERS:
        try:
            why = next(look.reasons(node_of(fun)), "")
        except Unconvertible as reason:
            why = str(reason)
    paths = tuple([(*path, held) for path, held in look.paths.items()])
    return Reads(code, names, modules, paths, harmless, why)


def _values(fun: FunctionType, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """What a function finds under names of globals and of its free variables."""
    for name in names:
        if name in fun.__globals__:
            yield name, fun.__globals__[name]
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        yield name, contents(cell)


class _Look:
    """Looks for what keeps a function from qualifying."""

    def __init__(self, code: CodeType, modules: dict[str, types.ModuleType]) -> None:
        self.modules = modules
        self.paths: dict[tuple[str, tuple[str, ...]], object] = {}
        inner = list(codes_in(code))
        self.local = {n for part in inner for n in (*part.co_varnames, *part.co_cellvars)}

    def reasons(self, function: ast.AST) -> Iterator[str]:
        """Why a function does not qualify, with the lines."""
        parts = list(_parts(function))
        self.made = _made_functions(function)
        self.lists = _made_lists(parts)
        for node in parts:
            why = self.reason(node)
            if why:
                line = getattr(node, "lineno", None)
                yield f"{why}, line {line}" if line else why

    def reason(self, node: ast.AST) -> str:
        """Why one part of the source does not qualify."""
        for kind, words in _WORDS.items():
            if isinstance(node, kind):
                return f"it has {words}"
        if not isinstance(node, _NODES):
            return f"it has what is not looked into ({type(node).__name__})"
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node.func)
        if isinstance(node, ast.Compare):
            return _identity(node)
        return ""

    def attribute(self, node: ast.Attribute) -> str:
        text = ast.unparse(node)
        if not isinstance(node.ctx, ast.Load):
            return f"it writes {text}"
        path = _path(node)
        if path and path[0] in self.modules and path[0] not in self.local:
            names, held = _held(self.modules[path[0]], path[1:])
            self.paths[path[0], names] = held
            known = isinstance(held, types.ModuleType) or is_known(held)
            return "" if known else f"{text} is not known to be without effects"
        if node.attr in _GROWING and path and path[0] in self.lists and len(path) == 2:
            return ""
        return "" if node.attr in _ATTRIBUTES else f"{text} is not known to be without effects"

    def call(self, called: ast.expr) -> str:
        if isinstance(called, (ast.Attribute, ast.Lambda)):
            return ""
        if not isinstance(called, ast.Name):
            return f"it calls {ast.unparse(called)}"
        if called.id in self.local and called.id not in self.made:
            return f"it calls {called.id}, a variable"
        return ""


def _parts(function: ast.AST) -> Iterator[ast.AST]:
    """All of a function's source that runs in a call: no annotations, decorators and defaults of
    its own; nothing of the texts of errors, which raise."""
    if isinstance(function, (ast.FunctionDef, ast.Lambda)):
        body = function.body if isinstance(function.body, list) else [function.body]
        waiting: list[ast.AST] = [*body]
    else:
        waiting = [function]
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.Assert):
            waiting.append(node.test)
            continue
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.AnnAssign):
            children = [c for c in children if c is not node.annotation]
        if isinstance(node, ast.FunctionDef):
            children = [*node.decorator_list, *node.args.defaults, *node.body]
            children += [d for d in node.args.kw_defaults if d is not None]
        waiting += children


def _made_functions(function: ast.AST) -> set[str]:
    """The local names that stand for functions that are made there, and for nothing else."""
    made: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef) and node is not function:
            made.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            made |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            other |= _bound(*[t for t in node.targets if not isinstance(t, ast.Name)])
        elif isinstance(node, ast.Assign):
            other |= _bound(*node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension)):
            other |= _bound(node.target)
        elif isinstance(node, ast.arg):
            other.add(node.arg)
    return made - other


def _made_lists(parts: list[ast.AST]) -> set[str]:
    """The names that stand for new lists alone."""
    made: set[str] = set()
    other: set[str] = set()
    for node in parts:
        if isinstance(node, ast.Assign):
            plain = isinstance(node.value, (ast.List, ast.ListComp)) and len(node.targets) == 1
            (made if plain and isinstance(node.targets[0], ast.Name) else other).update(
                _bound(*node.targets)
            )
        elif isinstance(node, (ast.AnnAssign, ast.For, ast.comprehension)):
            other |= _bound(node.target)
    return made - other


def _bound(*targets: ast.AST) -> set[str]:
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


def _identity(node: ast.Compare) -> str:
    operands = [node.left, *node.comparators]
    for k, op in enumerate(node.ops):
        sides = operands[k : k + 2]
        constant = any([isinstance(x, ast.Constant) for x in sides])
        if isinstance(op, (ast.Is, ast.IsNot)) and not constant:
            return "it compares identities"
    return ""


def _path(node: ast.expr) -> list[str]:
    """The names of `a.b.c`; nothing for other expressions."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _held(module: object, names: list[str]) -> tuple[tuple[str, ...], object]:
    """What is found in a module, by the first of some names."""
    for k, name in enumerate(names):
        module = getattr(module, name, _UNKNOWN)
        if not isinstance(module, types.ModuleType):
            return tuple(names[: k + 1]), module
    return tuple(names), module


_UNKNOWN = object()


@functools.cache
def _functions() -> frozenset[object]:
    """The functions without effects: Python's, those of `math` and its kin, NumPy's."""
    found: set[object] = set(_BUILTINS)
    for module in (math, cmath, operator):
        found |= {f for f in vars(module).values() if isinstance(f, _FUNCTIONS_OF_MODULES)}
    changing = {getattr(np, name, None) for name in _CHANGING}
    for place in _PLACES:
        held, own = (getattr(m, place) if place else m for m in (np, fnp))
        traced = set(dir(own))
        for name in traced - _CHANGING:
            for f in (getattr(held, name, None), getattr(own, name, None)):
                if callable(f) and f not in changing:
                    found.add(f)
    return frozenset(found)


def is_known(x: object) -> bool:
    """Whether a value that code names may be used as it is: it is a function without effects, a
    constant, or a class of numbers."""
    if isinstance(x, (np.ufunc, *_STATIC)):
        return True
    if isinstance(x, type) and issubclass(x, np.generic):
        return True
    if isinstance(x, type) and issubclass(x, Exception):
        return isinstance(x.__init__, types.WrapperDescriptorType)
    try:
        return x in _functions()
    except TypeError:  # it cannot be hashed
        return False


def is_known_module(x: types.ModuleType) -> bool:
    """Whether what code reads of a module is looked up when the code is."""
    return x.__name__ in _MODULES or x in (np, np.linalg, np.fft, fnp, fnp.linalg, fnp.fft)
