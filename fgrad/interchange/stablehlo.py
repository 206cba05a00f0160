"""L7. `stablehlo`: a function of arrays as StableHLO text, which JAX's compiler and others read.

    %0 = stablehlo.sine %arg0 : tensor<3xf64>
    %1 = stablehlo.multiply %0, %arg0 : tensor<3xf64>

The types are those of fgrad; functions that StableHLO has not are those of CHLO, its library.
[S] The StableHLO specification, version 1.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.base.keywords import also_takes
from fgrad.base.pickling import pickles_as_call
from fgrad.interchange.stablehlo_rules import EXPANSIONS, RULES, UNCHECKED
from fgrad.interchange.stablehlo_writer import Writer
from fgrad.interchange.traced import Format, traced
from fgrad.transforms.core.wrap import named_like
from fgrad.typing import PyTree


@pickles_as_call
@also_takes()
def stablehlo(f: Callable[..., PyTree], checks: bool = True) -> Callable[..., str]:
    """A function that writes `f` for its arguments as the text of a StableHLO module.

    The inputs of its function `main` are the arrays and numbers among the arguments, in the order
    of `fgrad.tree.leaves`, the results those of `f`. Arrays that `f` reads from outside are
    constants. A factorisation that fails gives NaN, where fgrad raises.

    Arguments:
        f: a function of arrays, jitted or not, a gradient or a batch of one.
        checks: whether checks that may fail when the program runs, as of an index or a divisor, are
            refused; if not they are left out: then an index counts as the nearest that is in
            bounds, and integers by zero are 0.

    Returns:
        A function of arguments, of which `ShapeDtype`s may stand for arrays.

    Raises:
        UnsupportedFormatError: StableHLO has no form of an operation: factorisations other than
            Cholesky's, functions of `scipy.special` beyond those of CHLO, callbacks.
        ArgumentError: `f` writes into its arguments.

    Example:
        >>> import numpy as np, fgrad
        >>> print(fgrad.stablehlo(lambda x: np.sin(x) * x)(np.ones(3)))
        module @lambda {
          func.func public @main(%arg0: tensor<3xf64>) -> (tensor<3xf64>) {
            %0 = stablehlo.sine %arg0 : tensor<3xf64>
            %1 = stablehlo.multiply %0, %arg0 : tensor<3xf64>
            return %1 : tensor<3xf64>
          }
        }
    """
    form = Format("StableHLO", EXPANSIONS if checks else {**EXPANSIONS, **UNCHECKED})

    def text(*args: PyTree, **kwargs: PyTree) -> str:
        return Writer(form, RULES).module(traced(f, args, kwargs, form))

    return named_like(text, f, "stablehlo")
