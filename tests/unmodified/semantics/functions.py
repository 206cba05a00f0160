"""Functions: recursion, arguments, helpers, and what is printed."""

# ruff: noqa

import builtins
import functools
import math
from dataclasses import dataclass
from math import sin
from typing import NamedTuple

import numpy
import numpy as np
from case import case

A = np.array
rate = 0.5


@case(2.0, 5, smooth=True)
def recursion_on_an_integer(x, n):
    def power(k):
        return 1.0 if k == 0 else x * power(k - 1)

    return power(5)


@case(2.0, 5)
def recursion_on_an_argument(x, n):
    def power(k):
        return 1.0 if k == 0 else x * power(k - 1)

    return power(n)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@case(2.0)
def mutual_recursion(x):
    return x if is_even(6) and not is_even(3) else -x


@case(20.0)
@case(0.5)
def recursion_on_a_float(x):
    def halve(v):
        if v < 1:
            return v
        return halve(v / 2)

    return halve(x)


@case(1.0)
def default_arguments(x):
    def f(a, b=2.0, *rest, c=x, d=None, **more):
        return a + b * c + sum(rest) + (0 if d is None else d) + more.get("e", 0.0)

    return f(x), f(x, 3.0), f(x, 1, 2, 3, c=4.0), f(a=x, d=5.0, e=x)


@case(1.0)
def default_list_is_shared(x):
    def f(v, seen=[]):
        seen.append(v)
        return sum(seen)

    f(x)
    return f(x * 2)


@case(2.0, 3.0)
def keyword_only_and_positional_only(x, y):
    def f(a, /, b, *, c):
        return a - b * c

    return f(x, b=y, c=2.0) + f(x, y, c=x)


@case(2.0, 3.0)
def star_arguments(x, y):
    def f(*args, **kwargs):
        s = 0.0
        for k, v in enumerate(args):
            s += v * (k + 1)
        for name in sorted(kwargs):
            s += kwargs[name] * len(name)
        return s

    args, kwargs = (x, y), {"ab": x, "c": y}
    return f(*args, x, **kwargs)


@case(2.0)
def partial_and_map(x):
    def f(a, b):
        return a * 10 + b

    return functools.partial(f, x)(1.0), list(map(f, [x, 2 * x], [1.0, 2.0]))


@case(A([1.0, 2.0, 3.0]))
def reduce_and_filter(x):
    s = functools.reduce(lambda a, b: a * 0.5 + b, x)
    kept = list(filter(lambda v: v is not None, [x[0], None, x[1]]))
    return s, kept


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return 2 * f(*args, **kwargs)

    return wrapper


@doubled
def decorated_helper(x):
    if x > 0:
        return x * x
    return -x


@case(2.0)
@case(-2.0)
def helper_is_decorated(x):
    return decorated_helper(x)


@functools.lru_cache(maxsize=None)
def cached(n):
    return 1 if n < 2 else cached(n - 1) + cached(n - 2)


@case(2.0)
def cached_helper(x):
    return x * cached(10)


@case(2.0)
def two_lambdas_in_one_line(x):
    f, g = lambda v: v if v > 1 else -v, lambda v: v * 5 if v > 3 else v
    return f(x), g(x), (lambda v: v if v < 0 else v + 1)(x)


@case(2.0, 3)
def lambda_in_a_loop(x, n):
    f = lambda v: v
    for i in range(n):
        f = (lambda g, i: lambda v: g(v) * 0.5 + i)(f, i)
    return f(x)


@case(2.0, 3)
def helper_is_redefined_in_a_loop(x, n):
    for i in range(n):

        def f(v):
            return v * i

        x = x + f(x)
    return x, f(1.0)


@case(2.0)
def helper_changes_the_callers_array(x):
    y = np.zeros(3)

    def put(k, v):
        y[k] = v
        return k + 1

    k = 0
    while k < 3:
        k = put(k, x * k)
    return y


@case(A([1.0, 2.0]))
def helper_rebinds_its_parameter(x):
    def f(v):
        v = v * 2
        v[0] = 7.0
        return v

    return f(x), x


@case(A([1.0, 2.0]))
def helper_writes_its_parameter(x):
    def f(v):
        v *= 2
        v[0] = 7.0
        return v

    y = f(x)
    return y, x, y is x


@case(2.0)
def exec_and_eval(x):
    scope = {"x": x}
    exec("y = x * 2", scope)
    return eval("y + 1", scope)


@case(2.0)
def locals_and_globals(x):
    y = x * 2
    return locals()["y"] + globals()["rate"]


@case(2.0)
def names_that_rewriting_may_use(x):
    body, test, state, get, set_, carry, fgrad, lax = 1.0, 2.0, x, 3.0, 4.0, 5.0, 6.0, 7.0
    for i in range(3):
        body, test = test, body + state
        get = get + carry
    return body + test + get + set_ + fgrad + lax


@case(2.0, 3)
def function_with_the_name_of_its_argument(functions, n):
    def loop(loop):
        for k in range(n):
            loop = loop * 2
        return loop

    return loop(functions)


@case(2.0)
def monkeypatched_numpy(x):
    kept = np.sin
    np.sin = lambda v: v * 100
    try:
        return np.sin(x)
    finally:
        np.sin = kept


@case(2.0, prints=True)
def prints_known_values(x):
    for i in range(3):
        print("turn", i)
    return x


@case(2.0, 7, prints=True)
def prints_traced_values(x, n):
    for i in range(n):
        x = x + i
        print(i)
    print("end")
    return x


@case(2.0, prints=True)
@case(-2.0, prints=True)
def prints_in_a_branch(x):
    if x > 0:
        print("positive")
    else:
        print("negative")
    return x


@case(2.0)
def formatted_strings(x):
    text = f"{3:03d}" + "abc"[1]
    return x * len(text)


@case(A([1.0, 2.0]), "mean")
def string_is_an_argument(x, how):
    return x.mean() if how == "mean" else x.sum()


@case(2.0)
def tuple_and_string_keys(x):
    d = {("a", 1): x, "b": x * 2}
    d["b"] += d[("a", 1)]
    for key in d:
        d[key] = d[key] * 2
    return d["b"], d[("a", 1)], "b" in d


@case(2.0, 3)
def dictionary_is_changed_in_a_loop(x, n):
    d = {"total": 0.0, "count": 0}
    for i in range(n):
        d["total"] += x * i
        d["count"] += 1
    return d


@case(2.0, 3)
def keys_are_made_in_a_loop(x, n):
    d = {}
    for i in range(n):
        d[i] = x * i
    return d


@case(2.0)
def context_manager_of_the_user(x):
    class Scaled:
        def __enter__(self):
            self.factor = x
            return self

        def __exit__(self, *error):
            self.factor = 0.0
            return False

    with Scaled() as s:
        y = s.factor * 3
    return y + s.factor


@case(2.0)
def operators_of_the_user(x):
    class Dual:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def __mul__(self, other):
            return Dual(self.a * other.a, self.a * other.b + self.b * other.a)

        def __bool__(self):
            return False

        def __eq__(self, other):
            return self.a is other.a

    d = Dual(x, 1.0)
    for _ in range(2):
        d = d * d
    return d.a, d.b, (1 if d else 2), d == d


@case(2.0, 3)
def annotated_names(x, n):
    total: float = 0.0
    k: int
    for k in range(n):
        total += x * k
    return total


@case(A([1.0, 2.0, 3.0]))
def vectorize_of_a_branch(x):
    return np.vectorize(lambda v: v * 2 if v > 1.5 else -v)(x)


@case(A([1.0, 2.0, 3.0]))
def apply_along_an_axis(x):
    return np.apply_along_axis(lambda v: v.sum() * v, 0, x)


@case(2.0)
def variables_are_reused_for_other_things(x):
    y = [x, x]
    y = y[0] + y[1]
    y = (y, 1)
    for y in y:
        x = x + y
    y = str(3)
    return x, y
