"""Names: closures, scopes, classes, built-ins that are shadowed, functions in other modules."""

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
counter = 0
rate = 0.5
history = []


@case(2.0, 3)
def closures_see_the_last_value(x, n):
    functions = []
    for i in range(n):
        functions.append(lambda: i * x)
    return [f() for f in functions]


@case(2.0, 3)
def defaults_see_their_own_value(x, n):
    functions = []
    for i in range(n):
        functions.append(lambda i=i: i * x)
    return [f() for f in functions]


@case(2.0, 3)
def function_reads_a_name_bound_later(x, n):
    def f():
        return y * 2

    s = 0.0
    for i in range(n):
        y = x + i
        s += f()
    return s


@case(2.0, 3)
def nonlocal_is_counted(x, n):
    total = 0.0

    def add(v):
        nonlocal total
        total += v
        return total

    for i in range(n):
        x = x + add(i * x)
    return total, x


@case(2.0, 3)
def nonlocal_of_two_levels(x, n):
    a = x

    def outer():
        def inner():
            nonlocal a
            a = a * 2

        for _ in range(n):
            inner()
        return a

    return outer() + a


@case(2.0, 3, once=True, smooth=False)
def global_is_counted(x, n):
    global counter
    for i in range(n):
        counter += 1
        x = x + counter
    return x, counter


@case(2.0, 3)
def global_is_read(x, n):
    for i in range(n):
        x = x * rate
    return x


@case(2.0, 3, once=True, smooth=False)
def global_list_is_appended_to(x, n):
    for i in range(n):
        history.append(i)
        x = x + len(history)
    return x


@case(A([1.0, 2.0, 3.0]))
def comprehension_has_its_own_scope(x):
    i = 10.0
    y = [i * v for i, v in enumerate(x)]
    return y, i


@case(A([1.0, 2.0, 3.0]))
def comprehensions_with_conditions(x):
    a = [v for k, v in enumerate(x) if k != 1]
    b = {k: v * 2 for k, v in enumerate(x)}
    c = [[v * w for w in x] for v in x if True]
    return a, b, c


@case(A([1.0, -2.0, 3.0]))
def comprehension_with_a_traced_condition(x):
    return sum([v for v in x if v > 0])


@case(A([1.0, 2.0, 3.0]))
def walrus_in_a_comprehension(x):
    y = [(last := v * 2) + 1 for v in x]
    return y, last


@case(A([1.0, 2.0, 3.0]), 3)
def comprehension_in_a_loop(x, n):
    s = 0.0
    for i in range(n):
        s += sum([v * i for v in x]) + max(v - i for v in x)
    return s


@case(A([1.0, 2.0, 3.0]))
def any_and_all_of_generators(x):
    return any(v > 2.5 for v in x), all(v > 1.5 for v in x)


@case(2.0, 3)
def built_in_is_shadowed_by_a_local(x, n):
    sum = 0.0
    max = x
    for len in range(n):
        sum = sum + max * len
    return sum


@case(2.0, 3)
def built_in_is_shadowed_by_a_function(x, n):
    def range(k):
        return [10, 20, k]

    def abs(v):
        return v - 100.0

    s = 0.0
    for i in range(n):
        s += abs(i * x)
    return s


@case(2.0, 3)
def built_in_is_shadowed_by_an_argument(x, n, min=lambda a, b: a * b):
    return min(x, n)


@case(2.0)
def attribute_of_a_module_is_local(x):
    sine = np.sin
    m = math
    return sine(x) + m.sqrt(x) + m.pi


@case(2.0)
def class_named_np(x):
    class np:
        @staticmethod
        def sin(v):
            return v * 7

        pi = 1.0

    return np.sin(x) + np.pi


@case(2.0, 3)
def class_body_with_a_loop(x, n):
    class Made:
        total = 0
        for i in range(3):
            total += i
        values = [k for k in range(3)]

    return x * Made.total + Made.values[2] + Made.i


@case(2.0, 3)
def attributes_are_changed_in_a_loop(x, n):
    class Box:
        def __init__(self, v):
            self.v, self.n = v, 0

    box = Box(x)
    for i in range(n):
        box.v = box.v * 1.5 + i
        box.n += 1
    return box.v, box.n


class Filter:
    """Keeps a value between calls."""

    gain = 0.5

    def __init__(self, state):
        self.state = state
        self.calls = 0

    def step(self, v):
        self.calls += 1
        self.state = self.state + self.gain * (v - self.state)
        return self.state

    @property
    def doubled(self):
        return self.state * 2

    @doubled.setter
    def doubled(self, v):
        self.state = v / 2

    @classmethod
    def started(cls, v):
        return cls(v * cls.gain)

    @staticmethod
    def clipped(v):
        return v if v < 3 else 3.0

    def __getitem__(self, k):
        return self.state * k

    def __len__(self):
        return 4

    def __call__(self, v):
        return self.state - v

    def __iter__(self):
        for k in range(len(self)):
            yield self[k]


@case(A([1.0, 2.0, 5.0]))
def methods_with_state(x):
    f = Filter(0.0)
    y = np.zeros(3)
    for i in range(len(x)):
        y[i] = f.step(x[i])
    return y, f.state, f.calls


@case(2.0, 5.0)
def properties_and_class_methods(x, v):
    f = Filter.started(x)
    f.doubled = f.doubled + x
    return f.state, Filter.clipped(x), Filter.clipped(v), f[3], f(1.0)


@case(2.0)
def own_iterator(x):
    s = 0.0
    for v in Filter(x):
        s = s * 2 + v
    return s, len(Filter(x))


class Base:
    def value(self, x):
        return x * 2

    def __secret(self, x):
        return x + 1

    def uses_it(self, x):
        return self.__secret(x)


class Derived(Base):
    def value(self, x):
        return super().value(x) + 1 if x > 0 else super().value(x)


@case(2.0)
@case(-2.0)
def inherited_methods_and_private_names(x):
    d = Derived()
    return d.value(x) + d.uses_it(x)


@dataclass
class Particle:
    position: float
    velocity: float

    def move(self, dt):
        self.position += dt * self.velocity
        if self.position > 1.0:
            self.velocity = -self.velocity


@case(0.5, 1.0, 8)
def dataclass_is_moved(x, v, n):
    p = Particle(x, v)
    for _ in range(n):
        p.move(0.3)
    return p.position, p.velocity


@case(0.5, 1.0, 3)
def dataclass_is_made_anew(x, v, n):
    p = Particle(x, v)
    for _ in range(n):
        p = Particle(p.position + 0.1 * p.velocity, p.velocity - p.position)
    return p.position, p.velocity


class Point(NamedTuple):
    x: float
    y: float


@case(0.5, 1.0, 3)
def named_tuple_is_carried(x, y, n):
    p = Point(x, y)
    for _ in range(n):
        p = p._replace(x=p.y, y=p.x + p.y)
    return p.x, p.y
