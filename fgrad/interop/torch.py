"""L7. A function of fgrad's as an operation of torch's: tensors in, tensors out, derivatives.

    as_torch(f)     f : arrays -> arrays     a function of tensors that torch differentiates

Each rule of torch's is the bridge of another function of fgrad's, and so has rules again:

    backward    (xs, cts) -> cts of the xs     vjp of f
    jvp         (xs, ts)  -> ts of the results jvp of f
    vmap        batches   -> batches           vmap of f
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.foreign import plain_array
from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.compile.jit.jitted import jit
from fgrad.interop.leaves import Arrays, float_part, of_trees
from fgrad.transforms.core.linearize import jvp, vjp
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree

__all__ = ["as_torch"]

torch: PyTree = importlib.import_module("torch")
ml_dtypes = lazy_module("ml_dtypes")  # of tensors of bfloat16 alone


def as_torch(f: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of torch's tensors that does what `f` does with arrays, compiled by fgrad.

    Arguments:
        f: a function of arrays, jitted or not; its arguments and results may be trees.

    Returns:
        A function that takes and returns tensors on the CPU in the places of arrays.  Torch
        differentiates it by `backward()` and by `torch.func`, forward, reverse, in batches, and as
        often as is asked for.  Tensors and arrays share memory where that can be.

    Raises:
        UnsupportedTypeError: a tensor is on a device, or sparse.

    Example:
        >>> import numpy as np, torch
        >>> from fgrad.interop.torch import as_torch
        >>> loss = as_torch(lambda w, x: np.sum(np.tanh(x @ w) ** 2))
        >>> w = torch.ones(2, dtype=torch.float64, requires_grad=True)
        >>> loss(w, torch.zeros((5, 2), dtype=torch.float64)).backward()
        >>> w.grad
        tensor([0., 0.], dtype=torch.float64)
    """
    return of_trees(f, (torch.Tensor,), Bridge)


class Bridge:
    """A function of arrays, the operation of torch's that it is, and those of its derivatives."""

    def __init__(self, fun: Arrays) -> None:
        self.fun = fun
        self._derived: dict[object, Bridge] = {}

    def __call__(self, *operands: PyTree) -> PyTree:
        """The results for tensors, arrays and numbers."""
        wanted = [isinstance(x, torch.Tensor) and x.requires_grad for x in operands]
        keeps = [k for k, w in enumerate(wanted) if w] if torch.is_grad_enabled() else []
        call = Call(self, keeps)
        outs = Operation.apply(call, *operands)
        return tree.unflatten(call.treedef, outs)

    def derived(self, key: object, make: Callable[[], Arrays]) -> Bridge:
        """A function that is made of this one, once."""
        if key not in self._derived:
            self._derived[key] = Bridge(jit(make()))
        return self._derived[key]

    def pulled(self, places: tuple[int, ...], count: int) -> Bridge:
        """(operands, cotangents of the results) -> cotangents of some operands."""

        def make() -> Arrays:
            def pull(*given: PyTree) -> PyTree:
                operands, cts = given[:count], given[count:]
                fun = float_part(self.fun, places, operands)
                pullback = vjp(fun, *[operands[k] for k in places], has_aux=True)[1]
                return conjugates(pullback(conjugates(cts)))

            return pull

        return self.derived(("vjp", places, count), make)

    def pushed(self, places: tuple[int, ...], count: int) -> Bridge:
        """(operands, tangents of some) -> tangents of the results."""

        def make() -> Arrays:
            def push(*given: PyTree) -> PyTree:
                operands, tangents = given[:count], given[count:]
                fun = float_part(self.fun, places, operands)
                primals = [operands[k] for k in places]
                return jvp(fun, primals, list(tangents), has_aux=True)[1]

            return push

        return self.derived(("jvp", places, count), make)

    def mapped(self, axes: tuple[int | None, ...]) -> Bridge:
        """The function of batches."""
        return self.derived(("vmap", axes), lambda: vmap(self.fun, axes))


class Call:
    """One call of a bridge: the structure of its results, and its pullback if torch will ask for a
    derivative by the operands `keeps`."""

    treedef: tree.TreeDef
    pullback: Callable[[PyTree], PyTree] | None = None

    def __init__(self, bridge: Bridge, keeps: Sequence[int]) -> None:
        self.bridge = bridge
        self.keeps = keeps

    def run(self, operands: Sequence[PyTree]) -> tuple[PyTree, ...]:
        """The results; what their derivatives need is kept."""
        arrays = [as_array(x) for x in operands]
        if self.keeps:
            fun = float_part(self.bridge.fun, self.keeps, arrays)
            chosen = [arrays[k] for k in self.keeps]
            _, self.pullback, outs = vjp(fun, *chosen, has_aux=True)
        else:
            outs = self.bridge.fun(*arrays)
        leaves, self.treedef = tree.flatten(outs)
        return tuple([as_tensor(y, arrays) for y in leaves])


class Operation(torch.autograd.Function):
    """What torch records for a call."""

    @staticmethod
    def forward(call: Call, *operands: PyTree) -> tuple[PyTree, ...]:
        """The results."""
        return call.run(operands)

    @staticmethod
    def setup_context(ctx: PyTree, inputs: tuple[PyTree, ...], output: tuple[PyTree, ...]) -> None:
        """Keep the operands for the derivatives."""
        ctx.call, *operands = inputs
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in operands]
        tensors = [x for x in operands if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.floats = [y.is_floating_point() or y.is_complex() for y in output]
        kept = zip(output, ctx.floats, strict=True)
        ctx.mark_non_differentiable(*[y for y, is_kept in kept if not is_kept])

    @staticmethod
    def backward(ctx: PyTree, *cts: PyTree) -> tuple[PyTree, ...]:
        """The cotangents of the operands, which can be differentiated if torch asks for it."""
        operands = _operands(ctx)  # which raises if one was written into
        places = tuple([k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed])
        given = [c for c, is_kept in zip(cts, ctx.floats, strict=True) if is_kept]
        call: Call = ctx.call
        if call.pullback is None or torch.is_grad_enabled():
            found = call.bridge.pulled(places, len(operands))(*operands, *given)
        else:
            pulled = conjugates(call.pullback(conjugates([as_array(c) for c in given])))
            arrays = dict(zip(call.keeps, pulled, strict=True))
            found = [as_tensor(arrays[k], ()) for k in places]
        of_place = dict(zip(places, found, strict=True))
        return None, *[of_place.get(k) for k in range(len(operands))]

    @staticmethod
    def jvp(ctx: PyTree, _call: None, *tangents: PyTree) -> tuple[PyTree, ...]:
        """The tangents of the results."""
        operands = _operands(ctx)
        places = tuple([k for k, t in enumerate(tangents) if t is not None])
        given = [t for t in tangents if t is not None]
        found = iter(ctx.call.bridge.pushed(places, len(operands))(*operands, *given))
        return tuple([next(found) if is_kept else None for is_kept in ctx.floats])

    @staticmethod
    def vmap(_info: PyTree, in_dims: PyTree, call: Call, *operands: PyTree) -> PyTree:
        """The results of batches."""
        mapped = Call(call.bridge.mapped(tuple(in_dims[1:])), call.keeps)
        outs = Operation.apply(mapped, *operands)
        call.treedef = mapped.treedef
        return outs, (0,) * len(outs)


def _operands(ctx: PyTree) -> list[PyTree]:
    """The operands of a call."""
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if x is None else x for x in ctx.others]


def conjugates(cts: Sequence[PyTree]) -> tuple[PyTree, ...]:
    """Cotangents of fgrad's as those of torch, or back: torch's are of `Re(conj(ct) t)`."""
    return tuple([np.conj(c) if c.dtype.kind == "c" else c for c in cts])


# --- tensors and arrays ---------------------------------------------------------------------------


def as_array(x: PyTree) -> PyTree:
    """A tensor as an array over the same memory."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().resolve_conj().resolve_neg()
    if x.dtype is torch.bfloat16:
        return plain_array(x.view(torch.int16), "an argument").view(ml_dtypes.bfloat16)
    return plain_array(x, "an argument")


def as_tensor(x: PyTree, others: Sequence[PyTree]) -> PyTree:
    """An array as a tensor over the same memory, if nobody else writes into that."""
    array = np.asarray(x, order="C")
    shared = any([np.may_share_memory(array, y) for y in others])
    array = array if array.flags.writeable and not shared else array.copy()
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


__dir__ = names_shown(__name__)
