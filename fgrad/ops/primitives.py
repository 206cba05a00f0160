"""L3. The primitives as objects, for passes: `eqn.prim is prims.convert`.

A pass asks what a primitive is (ir/traits.py), or has a rule for this one: its table is then keyed
by these objects, of which a misspelled one is an error when the table is made.  Special functions
are not among them, as no pass knows any by itself.
"""

from __future__ import annotations

from fgrad.ops import elementwise as ew
from fgrad.ops import erf_gamma as eg
from fgrad.ops.checked import checked_p as checked
from fgrad.ops.checked import in_range_p as in_range
from fgrad.ops.checked import required_p as required
from fgrad.ops.collectives import all_gather_p as all_gather
from fgrad.ops.collectives import axis_index_p as axis_index
from fgrad.ops.collectives import pmax_p as pmax
from fgrad.ops.collectives import pmin_p as pmin
from fgrad.ops.collectives import psum_p as psum
from fgrad.ops.collectives import psum_scatter_p as psum_scatter
from fgrad.ops.complex import complex_p as complex
from fgrad.ops.complex import conj_p as conj
from fgrad.ops.complex import imag_p as imag
from fgrad.ops.complex import real_p as real
from fgrad.ops.control import scan_p as scan
from fgrad.ops.control import switch_p as switch
from fgrad.ops.control import while_p as while_
from fgrad.ops.decompositions import eig_p as eig
from fgrad.ops.decompositions import eigh_p as eigh
from fgrad.ops.decompositions import eigvals_p as eigvals
from fgrad.ops.decompositions import eigvalsh_p as eigvalsh
from fgrad.ops.decompositions import pinv_p as pinv
from fgrad.ops.decompositions import qr_p as qr
from fgrad.ops.decompositions import svd_p as svd
from fgrad.ops.decompositions import svdvals_p as svdvals
from fgrad.ops.determinants import cofactor_p as cofactor
from fgrad.ops.determinants import det_p as det
from fgrad.ops.determinants import slogdet_p as slogdet
from fgrad.ops.dot import dot_general_p as dot_general
from fgrad.ops.elementwise import abs_p as abs
from fgrad.ops.elementwise import atan2_p as atan2
from fgrad.ops.elementwise import bitcast_p as bitcast
from fgrad.ops.elementwise import clip_p as clip
from fgrad.ops.elementwise import convert_p as convert
from fgrad.ops.elementwise import copysign_p as copysign
from fgrad.ops.elementwise import div_p as div
from fgrad.ops.elementwise import fmod_p as fmod
from fgrad.ops.elementwise import masked_div_p as masked_div
from fgrad.ops.elementwise import masked_mul_p as masked_mul
from fgrad.ops.elementwise import max_p as max
from fgrad.ops.elementwise import min_p as min
from fgrad.ops.elementwise import mul_p as mul
from fgrad.ops.elementwise import neg_p as neg
from fgrad.ops.elementwise import nextafter_p as nextafter
from fgrad.ops.elementwise import pow_p as pow
from fgrad.ops.elementwise import reciprocal_p as reciprocal
from fgrad.ops.elementwise import remainder_p as remainder
from fgrad.ops.elementwise import stop_gradient_p as stop_gradient
from fgrad.ops.elementwise import sub_p as sub
from fgrad.ops.families import BROADCAST as broadcast
from fgrad.ops.families import PERMUTE as permute
from fgrad.ops.families import bound_by
from fgrad.ops.fft import fft_p as fft
from fgrad.ops.index import dynamic_slice_p as dynamic_slice
from fgrad.ops.index import dynamic_update_p as dynamic_update
from fgrad.ops.index import gather_p as gather
from fgrad.ops.index import scatter_p as scatter
from fgrad.ops.index import sort_p as sort
from fgrad.ops.linalg import cholesky_p as cholesky
from fgrad.ops.linalg import factor_p as factor
from fgrad.ops.linalg import lu_p as lu
from fgrad.ops.linalg import lu_solve_p as lu_solve
from fgrad.ops.linalg import pivots_order_p as pivots_order
from fgrad.ops.linalg import solve_p as solve
from fgrad.ops.linalg import triangular_solve_p as triangular_solve
from fgrad.ops.matrix_functions import frechet_p as frechet
from fgrad.ops.matrix_functions import matrix_function_p as matrix_function
from fgrad.ops.matrix_functions import solve_sylvester_p as solve_sylvester
from fgrad.ops.matrix_functions import sqrtm_p as sqrtm
from fgrad.ops.product import product_p as product
from fgrad.ops.random_bits import random_bits_p as random_bits
from fgrad.ops.reduce import argmax_p as argmax
from fgrad.ops.reduce import argmin_p as argmin
from fgrad.ops.reduce import cummax_p as cummax
from fgrad.ops.reduce import cummin_p as cummin
from fgrad.ops.reduce import cumprod_p as cumprod
from fgrad.ops.reduce import cumsum_p as cumsum
from fgrad.ops.reduce import reduce_all_p as reduce_all
from fgrad.ops.reduce import reduce_any_p as reduce_any
from fgrad.ops.reduce import reduce_max_p as reduce_max
from fgrad.ops.reduce import reduce_min_p as reduce_min
from fgrad.ops.reduce import reduce_prod_p as reduce_prod
from fgrad.ops.selected import ADD as add
from fgrad.ops.selected import SELECT as select
from fgrad.ops.shape import REDUCE_SUM as reduce_sum
from fgrad.ops.shape import concatenate_p as concatenate
from fgrad.ops.shape import index_p as index
from fgrad.ops.shape import iota_p as iota
from fgrad.ops.shape import pad_p as pad
from fgrad.ops.shape import reshape_p as reshape
from fgrad.ops.shape import reverse_p as reverse
from fgrad.ops.shape import slice_p as slice
from fgrad.ops.shape import unset_p as unset
from fgrad.ops.size import size_p as size
from fgrad.ops.sort import searchsorted_p as searchsorted
from fgrad.ops.sort import top_k_p as top_k
from fgrad.ops.window import conv_p as conv
from fgrad.ops.window import fold_p as fold
from fgrad.ops.window import windows_p as windows

acos = bound_by(ew.acos)
acosh = bound_by(ew.acosh)
add_fits = bound_by(ew.add_fits)
and_ = bound_by(ew.and_)
asin = bound_by(ew.asin)
asinh = bound_by(ew.asinh)
atan = bound_by(ew.atan)
atanh = bound_by(ew.atanh)
cbrt = bound_by(ew.cbrt)
ceil = bound_by(ew.ceil)
cos = bound_by(ew.cos)
cosh = bound_by(ew.cosh)
digamma = bound_by(eg.digamma)
eq = bound_by(ew.eq)
erf = bound_by(eg.erf)
erfc = bound_by(eg.erfc)
erfinv = bound_by(eg.erfinv)
exp = bound_by(ew.exp)
exp2 = bound_by(ew.exp2)
expm1 = bound_by(ew.expm1)
floor = bound_by(ew.floor)
floor_divide = bound_by(ew.floor_divide)
ge = bound_by(ew.ge)
gt = bound_by(ew.gt)
isfinite = bound_by(ew.isfinite)
isinf = bound_by(ew.isinf)
isnan = bound_by(ew.isnan)
le = bound_by(ew.le)
lgamma = bound_by(eg.lgamma)
log = bound_by(ew.log)
log10 = bound_by(ew.log10)
log1p = bound_by(ew.log1p)
log2 = bound_by(ew.log2)
logistic = bound_by(ew.logistic)
lt = bound_by(ew.lt)
mul_fits = bound_by(ew.mul_fits)
ne = bound_by(ew.ne)
not_ = bound_by(ew.not_)
or_ = bound_by(ew.or_)
rint = bound_by(ew.rint)
shift_left = bound_by(ew.shift_left)
shift_right = bound_by(ew.shift_right)
sign = bound_by(ew.sign)
signbit = bound_by(ew.signbit)
sin = bound_by(ew.sin)
sinh = bound_by(ew.sinh)
sqrt = bound_by(ew.sqrt)
sub_fits = bound_by(ew.sub_fits)
tan = bound_by(ew.tan)
tanh = bound_by(ew.tanh)
trunc = bound_by(ew.trunc)
xor = bound_by(ew.xor)

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "add_fits",
    "all_gather",
    "and_",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "axis_index",
    "bitcast",
    "broadcast",
    "cbrt",
    "ceil",
    "checked",
    "cholesky",
    "clip",
    "cofactor",
    "complex",
    "concatenate",
    "conj",
    "conv",
    "convert",
    "copysign",
    "cos",
    "cosh",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "det",
    "digamma",
    "div",
    "dot_general",
    "dynamic_slice",
    "dynamic_update",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "factor",
    "fft",
    "floor",
    "floor_divide",
    "fmod",
    "fold",
    "frechet",
    "gather",
    "ge",
    "gt",
    "imag",
    "in_range",
    "index",
    "iota",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logistic",
    "lt",
    "lu",
    "lu_solve",
    "masked_div",
    "masked_mul",
    "matrix_function",
    "max",
    "min",
    "mul",
    "mul_fits",
    "ne",
    "neg",
    "nextafter",
    "not_",
    "or_",
    "pad",
    "permute",
    "pinv",
    "pivots_order",
    "pmax",
    "pmin",
    "pow",
    "product",
    "psum",
    "psum_scatter",
    "qr",
    "random_bits",
    "real",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "remainder",
    "required",
    "reshape",
    "reverse",
    "rint",
    "scan",
    "scatter",
    "searchsorted",
    "select",
    "shift_left",
    "shift_right",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "size",
    "slice",
    "slogdet",
    "solve",
    "solve_sylvester",
    "sort",
    "sqrt",
    "sqrtm",
    "stop_gradient",
    "sub",
    "sub_fits",
    "svd",
    "svdvals",
    "switch",
    "tan",
    "tanh",
    "top_k",
    "triangular_solve",
    "trunc",
    "unset",
    "while_",
    "windows",
    "xor",
]
