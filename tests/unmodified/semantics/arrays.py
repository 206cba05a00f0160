"""Arrays: names of one array, views, writes in place, buffers, indices."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(A([1.0, 2.0, 3.0]), 3)
def two_names_of_one_array(x, n):
    y = x
    for i in range(n):
        y[i] = y[i] * 2
        x[0] += 1
    return x, y


@case(A([1.0, 2.0]), A([0.5, 0.25]), 3)
def rebinding_leaves_the_other_name(a, b, n):
    c = a
    for _ in range(n):
        a = a + b
    return a, c


@case(A([1.0, 2.0]), A([0.5, 0.25]), 3)
def augmented_assignment_does_not(a, b, n):
    c = a
    for _ in range(n):
        a += b
    return a, c


@case(A([1.0, 2.0]), A([0.5, 0.25]), 3)
def rebound_then_written(a, b, n):
    c = a
    for _ in range(n):
        a = a + b
        a[0] *= 2
        c[1] += 1
    return a, c


@case(A([1.0, 2.0]), A([0.5, 0.25]), 3)
def written_then_rebound(a, b, n):
    c = a
    for _ in range(n):
        a += b
        a = a * 2
        c += 1
    return a, c


@case(A([1.0, 2.0, 3.0]), 3)
def alias_is_made_in_the_loop(x, n):
    new = x.copy()
    for _ in range(n):
        old = new
        new[1:] = old[:-1] + 1
        new[0] = old[2] * 0.5
    return new, old


@case(A([1.0, 2.0, 3.0]), 3)
def copy_is_made_in_the_loop(x, n):
    new = x.copy()
    for _ in range(n):
        old = new.copy()
        new[1:] = old[:-1] + 1
        new[0] = old[2] * 0.5
    return new, old


@case(A([1.0, 2.0, 3.0, 5.0]), 3)
@case(A([1.0, 2.0, 3.0, 5.0]), 6)
def two_buffers_take_turns(x, n):
    u, v = x.copy(), np.zeros_like(x)
    first = u
    for _ in range(n):
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        v[0], v[-1] = u[0], u[-1]
        u, v = v, u
    return u, v, first


@case(A([1.0, 2.0]), A([3.0, 4.0]), A([5.0, 6.0]), 4)
def three_buffers_take_turns(a, b, c, n):
    for i in range(n):
        a[0] += b[1]
        c *= 0.5
        a, b, c = b, c, a
    return a, b, c


@case(A([1.0, 2.0, 3.0]), 3)
def aliases_in_one_turn_only(x, n):
    y = x.copy()
    for i in range(n):
        y[0] += 1
        if i == 1:
            y = x
    return x, y


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def view_is_read_after_the_base_is_written(x, n):
    v = x[1:3]
    for i in range(n):
        x *= 2
        x[1] += i
    return v, v.sum()


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def base_is_read_after_the_view_is_written(x, n):
    v = x[::2]
    s = 0.0
    for i in range(n):
        v += i
        s += x[0] * x[1]
    return x, s


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def view_is_kept_over_turns(x, n):
    previous = x[0:1]
    s = 0.0
    for i in range(1, n):
        s += previous[0]
        x[i - 1] = 10.0 * i
        s += previous[0]
        previous = x[i : i + 1]
    return s, previous


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def number_is_kept_over_turns(x, n):
    previous = x[0]
    s = 0.0
    for i in range(1, n):
        s += previous
        x[i - 1] = 10.0 * i
        s += previous
        previous = x[i]
    return s, previous


@case(A([[1.0, 2.0], [3.0, 4.0]]), 2)
def view_of_a_row_outlives_the_loop(a, n):
    for i in range(n):
        row = a[i]
        row += i + 1
    row[0] = 100.0
    return a, row


@case(A([[1.0, 2.0], [3.0, 4.0]]), 3)
def view_of_a_view(a, n):
    t = a.T
    row = t[1]
    for i in range(n):
        row *= 2
        t[0, 1] += row[0]
    return a


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def reshaped_view(x, n):
    m = x.reshape(2, 2)
    for i in range(n):
        m[0] += m[1]
        x[3] += 1
    return x, m


@case(A([[1.0, 2.0], [3.0, 4.0]]), 3)
def ravel_of_a_transpose_is_a_copy(a, n):
    r = a.T.ravel()
    for i in range(n):
        r += 1
        a[0, 0] += r[3]
    return a, r


@case(A([1.0, 2.0]), A([3.0, 4.0]), 3)
def list_of_arrays(x, y, n):
    items = [x, y, x]
    for i in range(n):
        items[i][0] += i + 1
    return x, y


@case(A([1.0, 2.0]), A([3.0, 4.0]), 3)
def dictionary_of_arrays(x, y, n):
    d = {"x": x, "y": y}
    for i in range(n):
        d["x"] += d["y"]
        d["y"] = d["x"] * 0.5
    return d, x, y


@case({"w": A([1.0, 2.0]), "n": 0.5}, 3)
def dictionary_argument_is_written(d, n):
    for i in range(n):
        d["w"] += d["n"]
        d["n"] = d["n"] * 2
    return d["w"].sum()


@case([A([1.0, 2.0]), A([3.0, 4.0])], 3)
def list_argument_is_written(items, n):
    for i in range(n):
        items[0] = items[0] + items[1]
        items[1] *= 2
    return items[0]


@case(A([1.1, 1.2, 0.9]))
def scalar_is_carried_and_used_twice(x):
    s = 1.0
    for i in range(len(x)):
        s = s * x[i] + np.sin(s)
    return s


@case(A([1.1, 1.2, 0.9]))
def element_is_overwritten_and_read_again(x):
    for i in range(1, len(x)):
        x[i] = x[i] * x[i]
        x[i] = x[i] + x[i - 1] * x[i]
    return x.sum()


@case(A([1.1, 1.2, 0.9]), 4)
def one_element_is_the_carry(x, n):
    y = np.zeros(1)
    y[0] = x[0]
    for i in range(n):
        y[0] = np.sin(y[0]) * x[1] + y[0] ** 2 * 0.1
    return y[0]


@case(A([1.1, 1.2, 0.9]))
def element_is_read_before_it_is_overwritten(x):
    s = 0.0
    for i in range(len(x)):
        t = x[i]
        x[i] = t * t
        s += t * x[i]
    return s


@case(A([1.0, 2.0, 3.0, 4.0]), A([0, 1, 1, 3, 0]))
def scatter_of_duplicates(x, k):
    for i in range(len(k)):
        x[k[i]] = x[k[i]] * 1.5 + 0.1
    return x


@case(A([1.0, 2.0, 3.0, 4.0]), 0, 3)
@case(A([1.0, 2.0, 3.0, 4.0]), 2, 2)
def elements_are_swapped(x, i, j):
    x[i], x[j] = x[j], x[i]
    return x


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def elements_are_swapped_in_a_loop(x, n):
    for i in range(n):
        x[i], x[i + 1] = x[i + 1], x[i] * 2
    return x


@case(A([[1.0, 2.0], [3.0, 4.0]]))
def rows_are_swapped_as_views(a):
    a[0], a[1] = a[1], a[0]
    return a


@case(A([[1.0, 2.0], [3.0, 4.0]]), 0, 1)
def rows_are_swapped_by_index(a, i, j):
    a[[i, j]] = a[[j, i]]
    return a


@case(A([3, 1, 2]), 3)
def permutation_is_followed(p, n):
    i, s = 0, 0
    q = p - 1
    for _ in range(n):
        q[i], i = i + 5, q[i]
        s += i
    return q, s


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def overlapping_slices(x, n):
    for _ in range(n):
        x[1:] += x[:-1]
        x[:-1] = x[1:]
        x[:] = x[::-1]
    return x


@case(A([1.0, 2.0, 3.0]), 2)
@case(A([1.0, 2.0, 3.0]), 3)
@case(A([1.0, 2.0, 3.0]), -3)
@case(A([1.0, 2.0, 3.0]), -4)
def index_out_of_bounds(x, i):
    return x[i] * 2


@case(A([1.0, 2.0, 3.0]), 2)
@case(A([1.0, 2.0, 3.0]), 3)
@case(A([1.0, 2.0, 3.0]), -1)
@case(A([1.0, 2.0, 3.0]), -4)
def write_out_of_bounds(x, i):
    x[i] = 7.0
    return x


@case(A([1.0, 2.0, 3.0]), 3)
@case(A([1.0, 2.0, 3.0]), 5)
def loop_runs_out_of_bounds(x, n):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s


@case(A([1.0, 2.0, 3.0]), 2)
@case(A([1.0, 2.0, 3.0]), 3)
def loop_writes_out_of_bounds(x, n):
    y = np.zeros(3)
    for i in range(n):
        y[i + 1] = x[i]
    return y


@case(A([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), 3)
def second_index_out_of_bounds(a, n):
    s = 0.0
    for i in range(n):
        s += a[0, i + 1]
    return s


@case(A([1.0, 2.0, 3.0, 4.0]), 3)
def negative_indices_wrap(x, n):
    s = 0.0
    for i in range(n):
        s += x[i - 2] * (i + 1)
        x[-i - 1] = s
    return s, x


@case(A([1.0, 2.0, 3.0, 4.0]), 1, 3)
@case(A([1.0, 2.0, 3.0, 4.0]), 2, 9)
@case(A([1.0, 2.0, 3.0, 4.0]), -2, 4)
@case(A([1.0, 2.0, 3.0, 4.0]), 3, 1)
def slice_bounds_are_clipped(x, i, j):
    return np.sum(x[i:j])


@case(A([1.0, 2.0, 3.0, 4.0]), 5)
def slices_of_a_loop_index(x, n):
    s = 0.0
    for i in range(n):
        s += x[:i].sum() - 2 * x[i:].sum() + x[i : i + 2].sum() * i
    return s


@case(A([1.0, 2.0, 3.0, 4.0]), 4)
def negative_slices_of_a_loop_index(x, n):
    s = 0.0
    for i in range(n):
        s += x[-i:].sum() * (i + 1) + x[: -i - 1].sum()
    return s


@case(A([1.0, 2.0, 3.0, 4.0]), 4)
def slices_with_a_step(x, n):
    s = 0.0
    for i in range(n):
        s += x[i::2].sum() + 3 * x[i::-1].sum()
    return s


@case(A([1.0, 2.0, 3.0, 4.0]), 4)
def writes_of_growing_slices(x, n):
    for i in range(n):
        x[:i] += x[i]
        x[i:] *= 0.5
    return x


@case(A([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]))
def products_of_growing_slices(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


@case(A([1.0, 2.0, 3.0, 4.0]), 4)
def largest_of_a_growing_slice(x, n):
    s = 0.0
    for i in range(1, n):
        s += np.max(x[:i]) * np.min(x[i:]) + np.mean(x[:i])
    return s


@case(A([1.0, 2.0, 3.0]), 2)
def largest_of_an_empty_slice(x, n):
    s = 0.0
    for i in range(n):
        s += np.max(x[:i])
    return s
