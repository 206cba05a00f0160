"""Numbers: division, overflow, rounding, NaN, precision, and the functions of Python on them."""

# ruff: noqa

import cmath
import math
import operator

import numpy as np
from case import case

A = np.array


@case(7, 2)
@case(-7, 2)
@case(7, -2)
def integer_division(a, b):
    return a // b, a % b, a / b, divmod(a, b)


@case(7, 0)
def integer_division_by_zero(a, b):
    return a // b


@case(7, 0)
def integer_remainder_of_zero(a, b):
    return a % b


@case(7, 3)
def integer_division_by_zero_in_a_loop(a, n):
    s = 0
    for i in range(n):
        s += a // (i - 2)
    return s


@case(7, 3)
def integer_division_in_a_loop(a, n):
    s = 0
    for i in range(n):
        s += -a // (i + 1) + (a % -(i + 2))
    return s


@case(A([7, -7, 5]), A([2, 2, -3]))
def integer_arrays_divided(a, b):
    return a // b, a % b, a / b, np.divmod(a, b)


@case(1.0, 0.0)
@case(-1.0, 4.0)
def float_division_by_zero(x, y):
    return x / y


@case(A([1.0, -1.0, 0.0]), A([0.0]), smooth=False)
def float_division_by_zero_in_arrays(x, y):
    return x / y, x[0] / y[0], x[2] % y[0]


@case(7.5, 2.0)
@case(-7.5, 2.0)
@case(7.5, -2.0)
def float_floor_and_remainder(x, y):
    return x // y, x % y, divmod(x, y), math.fmod(x, y)


@case(2, 10)
@case(2, -2)
@case(-3, 3)
@case(0, 0)
def integer_powers(a, b):
    return a**b


@case(2.5, 3)
@case(2.5, -2)
@case(2.5, 0)
def float_to_an_integer_power(x, n):
    return x**n


@case(-2.0, 0.5)
@case(4.0, 0.5)
def power_of_a_negative(x, y):
    return x**y


@case(0.0, 0.0)
def zero_to_the_zero(x, y):
    return x**y, x**0


@case(3_000_000_000, 4)
@case(3, 4)
def integers_have_no_bound(a, n):
    for _ in range(n):
        a = a * a
    return a


@case(62)
@case(64)
@case(3)
def shifts(n):
    return 1 << n


@case(12, 10)
@case(-12, 10)
def bits(a, b):
    return a & b, a | b, a ^ b, ~a, a >> 1, a << 2


@case(True, False)
@case(True, True)
def arithmetic_of_truth_values(a, b):
    return a + b, a * b, a & b, a | b, a ^ b, a - b, -a


@case(A([True, False, True]))
def arithmetic_of_arrays_of_truth_values(a):
    return a + a, a * 2, a.sum(), ~a, a & True


@case(2.5, smooth=False)
@case(-2.5, smooth=False)
@case(3.5, smooth=False)
@case(0.49999999999999994, smooth=False)
def rounding(x):
    return round(x), int(x), math.floor(x), math.ceil(x), math.trunc(x), np.rint(x)


@case(2.675, smooth=False)
def rounding_to_digits(x):
    return round(x, 1), round(x, 2)


@case(1234)
def rounding_of_integers(n):
    return round(n), round(n, -2)


@case(2.7, 3)
def conversions(x, n):
    return int(x), float(n), bool(x), complex(x, n), int(x) + n, float(x) * 2


@case(float("nan"), 1.0, smooth=False)
@case(1.0, float("nan"), smooth=False)
@case(2.0, 1.0, smooth=False)
def min_and_max_of_nan(x, y):
    return max(x, y), min(x, y), np.maximum(x, y), x < y, x != x


@case(A([1.0, np.nan, 3.0]), smooth=False)
def largest_of_a_loop_with_nan(x):
    m = x[0]
    for v in x:
        if v > m:
            m = v
    return m, max(x), min(x), np.max(x)


@case(1.0, 1.0, smooth=False)
@case(3.0, 2.0)
def min_and_max(x, y):
    return max(x, y, 1.5), min([x, y, 0.5]), max(x, 2.0), min((x, y), default=0)


@case(3.0, 2.0)
def min_and_max_with_keys(x, y):
    return max((x, y), key=lambda v: -v), min([x, y], key=lambda v: (v - 2.4) ** 2)


@case(A([3.0, -2.0]))
def built_in_functions(x):
    return abs(x[1]), sum(x), sum(x, 1.0), abs(x), pow(x[0], 2), len(x)


@case(2.0)
def functions_of_math(x):
    return (
        math.sin(x) + math.exp(-x) * math.sqrt(x) + math.log(x) + math.tanh(x),
        math.atan2(x, 1.0) + math.hypot(x, 3.0) + math.pi + math.pow(x, 3),
        math.log(x, 3) + math.log2(x) + math.log10(x) + math.log1p(x) + math.expm1(x),
        math.copysign(x, -1.0) + math.fabs(-x) + math.degrees(x) + math.erf(x) + math.gamma(x),
    )


@case(-1.0)
def root_of_a_negative(x):
    return math.sqrt(x)


@case(0.0)
def logarithm_of_zero(x):
    return math.log(x)


@case(1000.0)
def exponential_overflows(x):
    return math.exp(x)


@case(1e200)
def power_overflows(x):
    return x**2


@case(1e200)
def product_overflows(x):
    return x * x - x * x


@case(-1.0, smooth=False)
def numpy_root_of_a_negative(x):
    return np.sqrt(x), np.log(x)


@case(float("nan"), smooth=False)
@case(float("inf"), smooth=False)
@case(1.0, smooth=False)
def tests_of_numbers(x):
    return math.isnan(x), math.isinf(x), math.isfinite(x), np.isnan(x)


@case(float("nan"))
def integer_of_nan(x):
    return int(x)


@case(float("inf"))
def integer_of_infinity(x):
    return int(x)


@case(1e30)
def integer_of_a_large_float(x):
    return int(x)


@case(0.0, smooth=False)
@case(-0.0, smooth=False)
def signed_zeros(x):
    return math.copysign(1.0, x), -x, x + 0.0, 1.0 / np.float64(x)


@case(6, 4)
def functions_of_integers(a, b):
    return math.gcd(a, b), math.factorial(a), math.comb(a, b), math.isqrt(a)


@case(6, 2.5)
def methods_of_numbers(n, x):
    return n.bit_length(), x.is_integer(), n.real, x.imag, n.conjugate()


@case(2.0)
def operators_as_functions(x):
    return operator.add(x, 1), operator.mul(x, x), operator.lt(x, 3), operator.neg(x)


@case(A([1.0, 2.0], np.float32), 0.1, smooth=False)
def python_numbers_are_weak(x, y):
    return x * y, x * 2, x[0] * y, x * 0.1, x[0] * 0.1, x.sum() * 3


@case(A([1.0, 2.0], np.float32), A([0.1]), smooth=False)
def arrays_are_not_weak(x, y):
    return x * y, x * np.float64(0.1), x * y[0], x[0] * y[0]


@case(A([1.0, 2.0], np.float32), 3, smooth=False)
def single_precision_is_carried(x, n):
    s = 0.0
    for i in range(n):
        s = s + x[i % 2] * 0.1
    return s


@case(A([1.0, 2.0], np.float32), 3, smooth=False)
def single_precision_is_carried_by_an_array(x, n):
    for i in range(n):
        x = x * 1.1 + i
        x[0] += 0.1
    return x


@case(A([1, 2], np.int32), 3)
def short_integers_meet_numbers(x, n):
    return x + 1, x + n, x * 2.5, x[0] + n, x / 2, x[0] * 1.5, x.sum()


@case(A([250, 5], np.uint8))
def bytes_wrap(x):
    return x + 10, x - 6, -x, x[0] + x[1], x.sum(), x * 2.0


@case(A([9_000_000_000_000_000_000]))
def long_integers_wrap(x):
    s = 0
    for i in range(3):
        s = s + x[0]
    return s, x * 2, x[0] + 1


@case(A([1, 2, 3]), 0.5)
def integers_and_floats_are_added(x, y):
    s = 0
    for v in x:
        s += v
        s *= 2
    return s, s + y, x + y


@case(np.float32(1.1), np.float64(2.2), np.int8(100), smooth=False)
def numpy_scalars(a, b, c):
    return a * 2, a * b, a + 0.1, c + 27, c * 1.5, c + c


@case(1 + 2j, 0.5)
def complex_numbers(z, x):
    return z * z.conjugate(), z.real, abs(z), z**2, z / x, z == z, cmath.exp(z), -z


@case(0.1, 10)
def sums_are_in_order(x, n):
    s = 0.0
    for i in range(n):
        s += x
    return s - 1.0 == 0, s


@case(1e16, 1.0)
def sums_are_not_reassociated(x, y):
    return (x + y) - x, x + (y - x), (x * 1e300) * 1e-300


@case(3, 2.0)
def integer_loop_of_a_float(n, x):
    k = n
    while k > 0:
        x = x * k
        k -= 1
        k = int(k)
    return x, k


@case(10, smooth=False)
def digits_of_a_number(n):
    n = n * 12345
    s, count = 0, 0
    while n > 0:
        s += n % 10
        n //= 10
        count += 1
    return s, count


@case(48, 36, smooth=False)
def euclid(a, b):
    while b:
        a, b = b, a % b
    return a


@case(12345, 20)
def random_numbers_by_congruence(seed, n):
    s = 0.0
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        s += seed / 2147483648
    return seed, s


@case(12345, 20)
def random_numbers_by_shifts(seed, n):
    x = np.uint32(seed)
    for _ in range(n):
        x ^= x << np.uint32(13)
        x ^= x >> np.uint32(17)
        x ^= x << np.uint32(5)
    return x


@case(12345, 20)
def random_numbers_by_masks(seed, n):
    x = seed
    for _ in range(n):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
    return x


@case(2.0)
def numbers_are_compared_by_identity(x):
    y = x
    return (y is x), x is None, x is not None


@case(2.0, 3)
def types_are_asked(x, n):
    return isinstance(x, float), isinstance(n, int), isinstance(x, (int, str)), isinstance(n, bool)


@case(2.0, A([1.0, 2.0]))
def arrays_are_asked(x, y):
    s = 0.0
    for v in (x, y):
        s += np.sum(v) if isinstance(v, np.ndarray) else v * 10
    return s, np.isscalar(x), hasattr(y, "shape"), type(y) is np.ndarray


@case(2.0)
def type_of_a_float(x):
    return type(x)(3), x.__class__ is float


@case(0.5)
@case(1.5)
def step_function(x):
    return (x > 1) * x + (x <= 1) * 2


@case(2.5, 2)
def float_is_an_index(x, n):
    return [1.0, 2.0, 3.0][int(x)] * x


@case(1.0, 1)
def list_is_indexed_by_an_integer(x, n):
    return [1.0, x, 3.0][n], (x, 2.0)[-n]


@case(3, 2.0)
def list_is_repeated(n, x):
    return [x] * n, [0.0] * n


@case(4, 2.0)
def lengths_are_computed(n, x):
    y = np.zeros(n // 2 + 1)
    y[: n // 2] = x
    return y, np.arange(n), np.arange(0, n, 2), np.linspace(0, x, n)


@case(4, 2.0)
def identity_and_arange(n, x):
    m = np.eye(n) * x
    for i in np.arange(n):
        m[i, 0] += i
    return m


@case(2.0)
def float_steps(x):
    s, t = 0.0, 0.0
    while t < 1.0:
        s += x * t
        t += 0.1
    return s, t


@case(0.3, 0.1)
def comparisons_are_exact(x, y):
    return x == 3 * y, x <= 3 * y, math.isclose(x, 3 * y)


@case(1, smooth=False)
@case(0, smooth=False)
def integer_is_a_truth_value(n):
    r = 0
    if n:
        r = 5
    return r, not n, bool(n), n and 7, n or 9


@case(1.0, loose=True)
@case(3.0, loose=True)
def larger_one_is_an_integer(x):
    return max(x, 2)


@case(2.0, 0.3)
def sorted_numbers(x, y):
    a, b, c = sorted([x, y, 1.0])
    return a - 2 * b + 3 * c, sorted((x, y), reverse=True)


@case(2.5, smooth=False)
@case(-0.45, smooth=False)
@case(1.005, smooth=False)
@case(1e22, smooth=False)
@case(-0.0, smooth=False)
@case(0.285, smooth=False)
@case(float("inf"), smooth=False)
@case(123456789.125, smooth=False)
@case(4503599627370496.5, smooth=False)
def rounding_as_decimals_are(x):
    return round(x, 2), round(x, 1), round(x, -1), round(x, 0), round(-x, 3), 1 / round(x + 1, 5)


@case(12345.0, smooth=False)
@case(25.0, smooth=False)
@case(35.0, smooth=False)
@case(-15.000000000000002, smooth=False)
def rounding_to_tens(x):
    return round(x, -1), round(x, -2), round(x, -5)


@case(2.0, True, smooth=False)
@case(2.0, False, smooth=False)
def flag_decides_by_identity(x, flag):
    return x if flag is True else -x


@case(7, smooth=False)
@case(0, smooth=False)
@case(-1024, smooth=False)
def lengths_of_integers(n):
    return n.bit_length(), (n + 1).bit_length(), (3 * n).bit_length()
