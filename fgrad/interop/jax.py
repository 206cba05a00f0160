"""L7. A function of fgrad's as one that JAX traces, compiles, maps and differentiates.

    as_jax(f)     f : arrays -> arrays     a `jax.custom_vjp` function around `jax.pure_callback`

Its rule is the same bridge over the vjp of f, so that it has rules again.  Cotangents are those of
fgrad: both multiply by the transposed Jacobian, and neither conjugates.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.foreign import plain_array
from fgrad.base.lazy_import import names_shown
from fgrad.compile.jit.jitted import jit
from fgrad.interop.leaves import Arrays, float_part, is_float, of_trees
from fgrad.transforms.core.linearize import vjp
from fgrad.transforms.core.shapes import ShapeDtype, eval_shape
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree, Shape

jax: PyTree = importlib.import_module("jax")
__all__ = ["as_jax"]


def as_jax(f: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of JAX's arrays that does what `f` does with NumPy's, compiled by fgrad.

    Arguments:
        f: a function of arrays, jitted or not; its arguments and results may be trees.

    Returns:
        A function for use under `jax.jit`, `grad`, `vjp`, `vmap` and their compositions, of any
        order; under `jax.vmap` it is mapped by `fgrad.vmap`.  JAX has no forward mode for functions
        with a rule for reverse mode: `jvp` of it raises.  Without `jax_enable_x64` its results are
        of 32 bits.

    Example:
        >>> import numpy as np, jax
        >>> from fgrad.interop.jax import as_jax
        >>> f = as_jax(lambda x: np.sum(x**2))
        >>> jax.jit(jax.grad(f))(jax.numpy.ones(3)).tolist()
        [2.0, 2.0, 2.0]
    """
    return of_trees(f, (jax.Array,), Bridge)


class Bridge:
    """A function of arrays, and the function of JAX's that it is."""

    def __init__(self, fun: Arrays) -> None:
        self.fun = fun
        self.mapped = functools.cache(self._mapped)
        self.pulled = functools.cache(self._pulled)
        self.call = jax.custom_vjp(self._call)
        self.call.defvjp(self._forward, self._backward)

    def __call__(self, *operands: PyTree) -> PyTree:
        """The results in their containers."""
        operands = tuple(map(jax.numpy.asarray, operands))
        return tree.unflatten(self._types(operands)[1], self.call(*operands))

    def _types(self, operands: Sequence[PyTree]) -> tuple[list[ShapeDtype], tree.TreeDef]:
        given = [ShapeDtype(x.shape, x.dtype) for x in operands]
        return tree.flatten(eval_shape(self.fun, *given))

    def _call(self, *operands: PyTree) -> tuple[PyTree, ...]:
        types = [
            jax.ShapeDtypeStruct(t.shape, jax.dtypes.canonicalize_dtype(t.dtype))
            for t in self._types(operands)[0]
        ]
        shapes = tuple([x.shape for x in operands])

        def on_host(*given: PyTree) -> tuple[np.ndarray, ...]:
            arrays = [plain_array(x, "an operand") for x in given]
            outs = tree.leaves(self._batched(shapes, arrays))
            return tuple([np.asarray(y, t.dtype) for y, t in zip(outs, types, strict=True)])

        return jax.pure_callback(on_host, tuple(types), *operands, vmap_method="expand_dims")

    def _batched(self, shapes: Sequence[Shape], arrays: Sequence[np.ndarray]) -> PyTree:
        """The results; where JAX maps the call, the operands have axes in front, of length 1 if
        they are not mapped."""
        fronts = [x.shape[: x.ndim - len(s)] for x, s in zip(arrays, shapes, strict=True)]
        if not fronts or not fronts[0]:
            return self.fun(*arrays)
        alone = [all([n == 1 for n in level]) for level in zip(*fronts, strict=True)]
        axes = tuple(
            [
                tuple([n != 1 or one for n, one in zip(front, alone, strict=True)])
                for front in fronts
            ]
        )
        given = [
            x.reshape(tuple([n for n, m in zip(front, mapped, strict=True) if m]) + tuple(shape))
            for x, front, mapped, shape in zip(arrays, fronts, axes, shapes, strict=True)
        ]
        return self.mapped(axes)(*given)

    def _mapped(self, axes: tuple[tuple[bool, ...], ...]) -> Arrays:
        """The function of batches: for each operand, which of the axes in front it has."""
        fun = self.fun
        for level in reversed(range(len(axes[0]))):
            fun = vmap(fun, in_axes=tuple([0 if mapped[level] else None for mapped in axes]))
        return jit(fun)

    # The rule of JAX's.

    def _forward(self, *operands: PyTree) -> tuple[tuple[PyTree, ...], tuple[PyTree, ...]]:
        return self.call(*operands), operands

    def _backward(self, operands: tuple[PyTree, ...], cts: Sequence[PyTree]) -> tuple[PyTree, ...]:
        places = tuple([k for k, x in enumerate(operands) if is_float(x)])
        given = [c for c in cts if c.dtype != jax.dtypes.float0]
        found = dict(
            zip(places, self.pulled(places, len(operands))(*operands, *given), strict=True)
        )
        return tuple([found[k] if k in found else _no_tangent(x) for k, x in enumerate(operands)])

    def _pulled(self, places: tuple[int, ...], count: int) -> Bridge:
        """(operands, cotangents of the results) -> cotangents of some operands."""

        def pull(*given: PyTree) -> PyTree:
            operands, cts = given[:count], given[count:]

            fun = float_part(self.fun, places, operands)
            floats, pullback, _ = vjp(fun, *[operands[k] for k in places], has_aux=True)
            pairs = zip(cts, floats, strict=True)
            return pullback(tuple([c.astype(y.dtype) for c, y in pairs]))

        return Bridge(jit(pull))


def _no_tangent(x: PyTree) -> np.ndarray:
    """The cotangent of integers."""
    return np.zeros(x.shape, jax.dtypes.float0)


__dir__ = names_shown(__name__)
