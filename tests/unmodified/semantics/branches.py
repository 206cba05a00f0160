"""Branches: if, ternaries, boolean operators, match, assert, raise."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(0.5)
@case(1.5)
@case(-0.5)
def three_ways(x):
    if x < 0:
        y = -x
    elif x < 1:
        y = x * x
    else:
        y = 3.0 * x
    return y


@case(0.5, loose=True)
@case(-0.5, loose=True)
def kinds_differ(x):
    if x > 0:
        y = 1
    else:
        y = x
    return y


@case(0.5)
@case(-0.5)
def shapes_differ(x):
    if x > 0:
        y = np.ones(2) * x
    else:
        y = np.ones(3) * x
    return y


@case(0.5, smooth=False)
@case(-0.5, smooth=False)
def number_or_nothing(x):
    return x * 2 if x > 0 else None


@case(0.5)
@case(-0.5)
def defined_in_one_branch(x):
    if x > 0:
        y = x
    return y


@case(0.5)
@case(-0.5)
def defined_in_one_branch_and_read_there(x):
    if x > 0:
        y = x * 2
    if x > 0:
        return y
    return x


@case(0.5)
@case(-0.5)
def deleted_in_one_branch(x):
    y = x * 2
    if x > 0:
        del y
    return y


@case(0.5)
@case(2.5)
@case(9.0)
def nested_ternaries(x):
    return x if x < 1 else x * x if x < 3 else 10.0 if x > 8 else -x


@case(A([1.0, 2.0]), 1)
@case(A([1.0, 2.0]), 2)
@case(A([1.0, 2.0]), 7)
def index_is_guarded(x, i):
    if i < len(x) and x[i] > 1.5:
        return x[i]
    return 0.0


@case(A([3.0, 1.0, 2.0, 5.0, 4.0]))
def insertion_sort_with_a_guard(x):
    for i in range(1, len(x)):
        v, j = x[i], i
        while j > 0 and x[j - 1] > v:
            x[j] = x[j - 1]
            j -= 1
        x[j] = v
    return x


@case(0.0, 2.0, smooth=False)
@case(3.0, 2.0)
def or_gives_an_operand(x, y):
    return x or y


@case(0.0, 2.0, smooth=False)
@case(3.0, 2.0)
def and_gives_an_operand(x, y):
    return x and y * 2


@case(0.0)
@case(3.0)
def not_of_a_number(x):
    return not x


@case(0.5, smooth=False)
@case(1.5, smooth=False)
@case(-1.0, smooth=False)
def chained_comparison(x):
    return 0 < x <= 1, 0 < x < 1 < 2, x == x != 0


@case(0.5)
@case(5.0)
def chained_comparison_calls_once(x):
    calls = []

    def middle():
        calls.append(1)
        return x * 2

    r = x if 0 < middle() < 3 else -x
    return r, len(calls)


@case(0.5)
@case(5.0)
def short_circuit_with_effects(x):
    calls = []

    def seen(v):
        calls.append(v)
        return v > 1

    if seen(x) or seen(x * 10):
        x = x + 1
    return x, len(calls)


@case(0.5)
@case(5.0)
def short_circuit_with_an_array(x):
    log = np.zeros(2)

    def seen(k, v):
        log[k] = v
        return v > 1

    if seen(0, x) and seen(1, x * 2):
        x = x * 3
    return x, log


@case(A([1.0, 2.0]))
def truth_of_an_array(x):
    if x:
        return x
    return -x


@case(A([3.0]))
@case(A([0.0]), smooth=False)
def truth_of_an_array_of_one(x):
    if x:
        return x * 2
    return x - 1


@case(A([1.0, 2.0]), A([3.0, 4.0]))
def and_of_arrays(x, y):
    return (x > 0) and (y > 0)


@case(A([1.0, -2.0]))
@case(A([1.0, 2.0]))
def any_and_all(x):
    if (x < 0).any():
        x = -x
    if np.all(x > 0):
        x = x * 2
    return x


@case(A([1.0, -2.0, 3.0]), 0.5)
@case(A([1.0, -2.0, 3.0]), -0.5)
def write_in_a_branch(x, p):
    y = x.copy()
    if p > 0:
        y[1:] *= 2.0
    else:
        y[0] = p
    return y


@case(A([1.0, -2.0]), A([3.0, 4.0]), 0.5)
@case(A([1.0, -2.0]), A([3.0, 4.0]), -0.5)
def name_means_one_array_or_another(a, b, p):
    if p > 0:
        y = a
    else:
        y = b
    y[0] = 10.0 * p
    return a, b, y


@case(A([1.0, -2.0]), A([3.0, 4.0]), 0.5)
@case(A([1.0, -2.0]), A([3.0, 4.0]), -0.5)
def ternary_means_one_array_or_another(a, b, p):
    y = a if p > 0 else b
    y += p
    return a, b


@case(A([1.0, -2.0]), 0.5)
@case(A([1.0, -2.0]), -0.5)
def alias_or_copy(a, p):
    y = a if p > 0 else a.copy()
    y[0] = 5.0
    return a, y


@case(A([1.0, -2.0, 3.0, 4.0]), 0.5)
@case(A([1.0, -2.0, 3.0, 4.0]), -0.5)
def view_or_other_view(a, p):
    v = a[:2] if p > 0 else a[2:]
    v *= 10.0
    a[0] += 1.0
    return a, v


@case(0.5)
@case(-0.5)
def early_return(x):
    if x < 0:
        return -x * 3
    x = x + 1
    return x


@case(0.5)
@case(-0.5)
@case(-5.0)
def early_returns_nested(x):
    if x < 0:
        if x < -1:
            return 1.0
        x = x * 2
    else:
        return x
    return x - 1


@case(0.5)
@case(-0.5)
def return_of_different_structures(x):
    if x < 0:
        return x, x
    return x


@case(0.5)
@case(-0.5)
def raise_in_a_branch(x):
    if x < 0:
        raise ValueError("negative")
    return x * 2


@case(0.5)
@case(-0.5)
def raise_is_caught(x):
    try:
        if x < 0:
            raise ValueError("negative")
        y = x * 2
    except ValueError:
        y = 0.0
    return y


@case(A([1.0, 2.0]))
@case(A([1.0, -2.0]))
def raise_in_a_loop(x):
    s = 0.0
    for v in x:
        if v < 0:
            raise ArithmeticError("negative")
        s += v
    return s


@case(0.5)
@case(-0.5)
def assertion(x):
    assert x > 0, "negative"
    return x * 2


@case(A([1.0, 2.0]))
@case(A([1.0, -2.0]))
def assertion_in_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        assert x[i] > 0, f"negative at {i}"
        s += x[i]
    return s


@case(0, 2.0)
@case(1, 2.0)
@case(2, 2.0)
@case(7, 2.0)
def match_numbers(k, x):
    match k:
        case 0:
            return x
        case 1 | 2:
            return x * x
        case _:
            return -x


@case(1.0, 2.0)
@case(0.0, 2.0, smooth=False)
@case(0.0, 0.0, smooth=False)
def match_tuples(x, y):
    match (x, y):
        case (0.0, 0.0):
            return 0.0
        case (0.0, b):
            return b * 2
        case (a, b) if a > 0:
            return a + b
    return -1.0


@case({"kind": 1.0, "value": 2.0})
def match_mappings(d):
    match d:
        case {"kind": k, "value": v}:
            return k * v
        case _:
            return 0.0


@case(0.5)
@case(-0.5)
def names_of_branches_are_swapped(x):
    a, b = x, 2 * x
    if x > 0:
        a, b = b, a
    return a - 3 * b


@case(0.5)
@case(-0.5)
def function_is_chosen(x):
    f = np.sin if x > 0 else np.cos
    return f(x)


@case(0.5)
@case(-0.5)
def function_is_defined_in_a_branch(x):
    if x > 0:

        def f(y):
            return y * 2

    else:

        def f(y):
            return y - 7

    return f(x)


@case(0.5)
@case(-0.5)
def string_is_chosen(x):
    key = "a" if x > 0 else "b"
    return {"a": x * 2, "b": x * 3}[key]


@case(0.5)
@case(-0.5)
def list_is_written_in_a_branch(x):
    items = [x, x]
    if x > 0:
        items[0] = 5.0 * x
    else:
        items.append(1.0)
    return sum(items)


@case(0.5)
@case(-0.5)
def dictionary_is_written_in_a_branch(x):
    d = {"a": x}
    if x > 0:
        d["a"] = x * 3
    return d["a"]


@case(0.5)
@case(-0.5)
def attribute_is_written_in_a_branch(x):
    class Box:
        pass

    box = Box()
    box.value = x
    if x > 0:
        box.value = x * 3
    return box.value


@case(A([0.5, -1.0, 2.0, -3.0]))
def branch_in_a_loop(x):
    s, t = 0.0, 1.0
    for v in x:
        if v > 0:
            s += v
        else:
            t *= v
            if t > 1:
                t, s = s, t
    return s, t


@case(float("nan"), smooth=False)
@case(1.0, smooth=False)
def branches_on_nan(x):
    r = 0
    if x > 0:
        r += 1
    if not x > 0:
        r += 2
    if x != x:
        r += 4
    if x < 0 or x >= 0:
        r += 8
    return r


@case(0.0, 1.0, smooth=False)
@case(2.0, 1.0)
def division_is_guarded(x, y):
    return y / x if x != 0 else 0.0


@case(0.0, smooth=False)
@case(4.0)
def root_is_guarded(x):
    if x > 0:
        return np.sqrt(x)
    return 0.0


@case(3)
@case(-3)
def parity(n):
    if n & 1:
        if n < 0:
            return -1
        return 1
    return 0


@case(0.5, True)
@case(0.5, False)
def flag_is_an_argument(x, flag):
    if flag:
        return x * 2
    return x


@case(0.5, True, smooth=False)
@case(0.5, False, smooth=False)
def flag_is_compared(x, flag):
    return (flag is True), flag == True, not flag, flag == 1


@case(0.5)
def none_is_tested(x, y=None):
    if y is None:
        y = x * 2
    return x + y


@case(0.5)
@case(-0.5)
def walrus_in_a_condition(x):
    if (y := x * 2) > 0:
        return y
    return y - 1


@case(0.5)
@case(-0.5)
def branch_has_no_effect(x):
    if x > 0:
        pass
    else:
        ...
    return x


@case(A([1.0, 2.0, 3.0]), 1, smooth=False)
@case(A([1.0, 2.0, 3.0]), 0, smooth=False)
def condition_writes(x, k):
    def bump():
        x[0] += 1
        return x[0] > 2

    if k == 1 and bump():
        x[1] = 9.0
    elif bump():
        x[2] = 7.0
    return x


@case(0.5)
@case(-0.5)
def exception_classes_in_branches(x):
    if x > 0:
        items = [1.0]
    else:
        items = []
    return items[0] * x
