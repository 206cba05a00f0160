"""Buffers, lists, tables, and the order of evaluation."""

# ruff: noqa

import numpy as np
from case import case

A = np.array
TABLE = np.array([10.0, 20.0, 30.0, 40.0])


@case(A([1.0, -2.0, 3.0, -4.0]), 2, smooth=False)
def masked_writes(x, n):
    for i in range(n):
        x[x < 0] *= -0.5
        x[x > 2] = i
    return x


@case(A([1.0, -2.0, 3.0, -4.0]))
def masked_read(x):
    return x[x > 0].sum()


@case(A([1.0, 2.0, 3.0, 4.0]), A([2, 0, 2]))
def repeated_indices_in_one_write(x, k):
    x[k] += 1.0
    np.add.at(x, k, 10.0)
    return x


@case(3)
@case(0)
def buffer_of_a_traced_length(n):
    y = np.zeros(n)
    for i in range(n):
        y[i] = i * 2.0
    return y


@case(2.5)
def buffer_of_integers_cuts_off(x):
    y = np.zeros(3, int)
    for i in range(3):
        y[i] = x * (i - 1)
    return y


@case(A([0.1, 0.2, 0.3]), smooth=False)
def buffer_of_single_precision_rounds(x):
    y = np.zeros(3, np.float32)
    for i in range(3):
        y[i] = x[i]
        y[i] = y[i] * y[i] + x[0]
    return y


@case(200, 100)
def buffer_of_bytes_wraps(a, b):
    y = np.zeros(2, np.uint8)
    y[0] = a
    y[1] = b
    for i in range(3):
        y[0] += y[1]
    return y


@case(A([2_000_000_000, 2_000_000_000], np.int32))
def short_integers_wrap(x):
    for i in range(2):
        x = x + x
    return x, x.sum()


@case(0.0)
@case(2.0)
def buffer_of_truth_values(x):
    y = np.zeros(2, bool)
    y[0] = x
    y[1] = not x
    return y


@case(1.5, 2.5)
def arrays_of_numbers(a, b):
    x = np.array([a, b, a * b])
    m = np.array([[a, 1.0], [2.0, b]])
    y = np.asarray([x[0], 2])
    return x, m @ y[:2], np.full(3, a), np.full((2, 2), b)


@case(1.5, 3)
def array_of_numbers_and_integers(a, n):
    return np.array([a, n, 1]), np.array([n, 2])


@case(1.5)
def buffer_like_another(a):
    x = np.empty(3)
    x[:] = a
    y, z = np.zeros_like(x), np.ones(2)
    y[0] = x[1] * 2
    z *= y[0]
    return x, y, z


@case(A([1.0, 2.0, 3.0]))
def list_comprehension_becomes_an_array(x):
    return np.array([v * i for i, v in enumerate(x)])


@case(A([1.0, 2.0, 3.0]), 3)
def list_is_appended_to(x, n):
    out = []
    for i in range(n):
        out.append(x[i] * i)
    return np.array(out), out


@case(A([1.0, 2.0, 3.0]), 3)
def list_is_written(x, n):
    out = [0.0] * 3
    for i in range(n):
        out[i] = x[i] * (out[i - 1] + 1)
    return out


@case(A([1.0, 2.0, 3.0]))
def list_is_a_stack(x):
    stack, s = [x[0]], 0.0
    while stack:
        v = stack.pop()
        s += v
        if len(stack) < 2 and s < 6:
            stack.append(v * 1.5)
            stack.append(v * 0.5)
    return s


@case(A([1, 2, 1, 3, 2, 1]))
def dictionary_counts(x):
    d = {}
    for v in x:
        d[int(v)] = d.get(int(v), 0) + 1
    return d


@case(A([1, 2, 1, 3]), smooth=False)
def set_of_elements(x):
    seen = set()
    for v in x:
        seen.add(int(v))
    return len(seen)


@case(A([1, 2, 1, 3]), A([1.0, 2.0, 3.0, 4.0]))
def constant_table_is_indexed(k, x):
    s = 0.0
    for i in range(len(k)):
        s += TABLE[k[i]] * x[i]
    return s


@case(2, once=True)
def global_array_is_written(n):
    for i in range(n):
        TABLE[i] += 1
    return TABLE.sum()


@case(A([3.0, 1.0, 2.0]))
def sorted_in_place(x):
    y = x
    x.sort()
    x[0] = 10.0
    return y, np.sort(x)[0]


@case(A([1.0, 2.0, 3.0]), 3)
def filled(x, n):
    for i in range(n):
        x[i:].fill(i)
    return x


@case(A([1.0, 2.0, 3.0, 4.0]))
def shape_is_assigned(x):
    x.shape = (2, 2)
    x[0] += x[1]
    return x


@case(A([1.0, 2.0, 3.0]), 3)
def index_is_evaluated_once(x, n):
    calls = np.zeros(1)

    def next_index():
        calls[0] += 1
        return 1

    for i in range(n):
        x[next_index()] += 2.0
    return x, calls


@case(A([1.0, 2.0, 3.0]))
def order_of_an_augmented_assignment(x):
    def changes():
        x[0] = 100.0
        return 1.0

    x[0] += changes()
    x[1] = x[1] + changes()
    return x


@case(A([1.0, 2.0, 3.0]))
def order_of_a_sum(x):
    def changes():
        x[0] = 100.0
        return 1.0

    y = x[0] + changes() + x[0]
    z = x[0:1] + changes()
    return y, z


@case(A([1.0, 2.0, 3.0]), 2)
def chained_assignment(x, n):
    for i in range(n):
        a = x[i] = x[i + 1] = x[i] * 2
    return x, a


@case(A([1.0, 2.0, 3.0]), 3)
def whole_array_is_replaced_by_a_slice_of_itself(x, n):
    for i in range(n):
        x = x[1:]
        if len(x) == 1:
            break
    return x


@case(A([1.0, 2.0, 3.0]), 3)
def slice_of_the_carry_is_the_carry(x, n):
    y = x
    for i in range(n):
        y = y[::-1]
        y[0] += i + 1
    return x, y


@case(A([1.0, 2.0, 3.0, 4.0]))
def diagonal_and_flat(x):
    m = np.outer(x, x)
    for i in range(4):
        m[i, i] += m.flat[i]
    return m, np.trace(m)


@case(A([1.0 + 2j, 0.5 - 1j]), 3)
def complex_carry(z, n):
    c = z[0]
    for i in range(n):
        c = c * c * 0.1 + z[i % 2]
        z[1] = c.conjugate()
    return z, c.real, c.imag


@case(A([5, 3, 8]), 3)
def integer_array_is_divided(x, n):
    for i in range(n):
        x[i] = x[i] / 2
    return x


@case(A([5, 3, 8]))
def integer_array_is_divided_in_place(x):
    x /= 2
    return x


@case(A([1.0, 2.0, 3.0]))
def shapes_that_do_not_fit(x):
    for i in range(2):
        x[:2] = x
    return x


@case(A([1.0, 2.0, 3.0]), 2)
def ellipsis_and_new_axes(x, n):
    y = np.zeros((2, 3, 2))
    for i in range(n):
        y[..., i] = x
        y[i, :, 0] += x[:, None][:, 0]
    return y


@case(A([[1.0, 2.0], [3.0, 4.0]]), 2)
def matrix_vector_by_loops(a, n):
    y = np.zeros(n)
    for i in range(n):
        for j in range(n):
            y[i] += a[i, j] * (j + 1)
    return y


@case(A([1.0, 2.0]), A([1.0, 2.0]), 2)
def result_is_an_argument(x, y, n):
    for i in range(n):
        x[i] += y[i]
    return x


@case(A([1.0, 2.0, 3.0]), 3)
def same_result_twice(x, n):
    y = x * 2
    for i in range(n):
        y[i] += 1
    return y, y, y[:2]


@case(A([1.0, 2.0, 3.0, 4.0]))
def number_of_elements(x):
    s = 0.0
    for k in range(x.size - 1):
        s += x[k] * len(x[k:]) + x.ndim
    return s
