"""L5. Structured LLVM text: loops, conditions and variables of one function.

    code = Routine()
    total = code.variable("i64", "0")
    with code.count("0", "%n") as i:
        code.put(total, code.op("add", "i64", code.get(total), i))

Variables of a `Routine` are arrays of one element on the stack, which `runtime.promote_scratch`
turns into registers; a condition or a loop leaves no SSA bookkeeping to its writer.  Bodies for the
GPU (lower_cuda/emit/text.py) share what is no matter of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fgrad.compile.llvm.text import FunctionText


class Structured(FunctionText):
    """The body of one function of integers, conditions, loops and variables.

    Dialects differ in how memory is addressed, so each has its own variables, and loops of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._head: list[str] = []  # what the function begins with
        self._kinds: dict[str, str] = {}  # of the variables

    # Values.

    def op(self, name: str, kind: str, a: str | int, b: str | int) -> str:
        """A binary instruction."""
        return self.emit(f"{name} {kind} {a}, {b}")

    def compare(self, condition: str, kind: str, a: str | int, b: str | int) -> str:
        """An integer comparison."""
        return self.emit(f"icmp {condition} {kind} {a}, {b}")

    def select(
        self, condition: str, kind: str, a: str | int, b: str | int, mask: str = "i1"
    ) -> str:
        """`a` where the condition holds, else `b`."""
        return self.emit(f"select {mask} {condition}, {kind} {a}, {kind} {b}")

    def cast(self, how: str, source: str, value: str, target: str) -> str:
        """A conversion between types; none between equal ones."""
        return value if source == target else self.emit(f"{how} {source} {value} to {target}")

    # Control.

    def branch(self, condition: str, then: str, other: str) -> None:
        """Conditional branch to one of two labels."""
        self.line(f"br i1 {condition}, label %{then}, label %{other}")

    def labels(self, *names: str) -> list[str]:
        """Fresh labels."""
        stem = self.fresh("b")[1:]
        return [f"{stem}.{name}" for name in names]

    @contextmanager
    def repeat(self, condition: Callable[[], str]) -> Iterator[None]:
        """while condition(): a function that writes what is tested."""
        test, body, end = self.labels("test", "loop", "end")
        self.line(f"br label %{test}")
        self.label(test)
        self.branch(condition(), body, end)
        self.label(body)
        yield
        self.line(f"br label %{test}")
        self.label(end)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """if condition."""
        body, end = self.labels("then", "end")
        self.branch(condition, body, end)
        self.label(body)
        yield
        self.line(f"br label %{end}")
        self.label(end)


class Routine(Structured):
    """The body of one function, by default `void f(ptr bufs, i64 lo, i64 hi)`."""

    def define(
        self, symbol: str, parameters: str = "ptr %bufs, i64 %lo, i64 %hi", linkage: str = ""
    ) -> tuple[str, set[str]]:
        """The text of the finished function, and its declarations."""
        head = f"define {linkage} void @{symbol}({parameters}) #0 {{\nentry:\n"
        body = "\n".join([*self._head, *self.lines])
        return f"{head}{body}\n  ret void\n}}", self.declarations

    # Variables and memory.

    def table(self, kind: str, count: int) -> str:
        """A private array."""
        name = self.fresh("t")
        self._head.append(f"  {name} = alloca [{count} x {kind}], align 64")
        return name

    def variable(self, kind: str, start: str) -> str:
        """A variable that begins with a value."""
        name = self.table(kind, 1)
        self._kinds[name] = kind
        self.put(name, start)
        return name

    def get(self, variable: str) -> str:
        """The present value."""
        return self.emit(f"load {self._kinds[variable]}, ptr {variable}")

    def put(self, variable: str, value: str) -> None:
        """A new value."""
        self.line(f"store {self._kinds[variable]} {value}, ptr {variable}")

    def at(self, base: str, index: str | int, kind: str) -> str:
        """The address of an element."""
        return self.emit(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def load(self, kind: str, base: str, index: str | int, align: int, element: str = "") -> str:
        """The value at an element, of type `kind`; indices count elements of type `element`."""
        return self.emit(f"load {kind}, ptr {self.at(base, index, element or kind)}, align {align}")

    def store(
        self, kind: str, value: str, base: str, index: str | int, align: int, element: str = ""
    ) -> None:
        """Write an element."""
        where = self.at(base, index, element or kind)
        self.line(f"store {kind} {value}, ptr {where}, align {align}")

    def buffer(self, number: int) -> str:
        """The address of a buffer of the step."""
        return self.load("ptr", "%bufs", number, 8)

    def copy(self, target: str, source: str, size: str | int) -> None:
        """Copy bytes between separate places."""
        self.declare("declare ptr @memcpy(ptr, ptr, i64)")
        self.line(f"call ptr @memcpy(ptr {target}, ptr {source}, i64 {size})")

    def clear(self, target: str, size: int) -> None:
        """Set bytes to 0."""
        self.declare("declare ptr @memset(ptr, i32, i64)")
        self.line(f"call ptr @memset(ptr {target}, i32 0, i64 {size})")

    # Values.

    def call(self, kind: str, name: str, *arguments: tuple[str, str]) -> str:
        """The result of an intrinsic."""
        self.declare(f"declare {kind} @{name}({', '.join([k for k, _ in arguments])})")
        return self.emit(f"call {kind} @{name}({', '.join([f'{k} {v}' for k, v in arguments])})")

    def splat(self, x: str, kind: str, lanes: int) -> str:
        """A vector of equal numbers."""
        vector = f"<{lanes} x {kind}>"
        one = self.emit(f"insertelement {vector} poison, {kind} {x}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def shuffled(self, a: str, b: str, order: Sequence[int], kind: str) -> str:
        """The chosen lanes of two vectors."""
        chosen = ", ".join([f"i32 {k}" for k in order])
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{chosen}>")

    # Control.

    @contextmanager
    def count(self, lo: str | int, hi: str | int, step: int = 1) -> Iterator[str]:
        """for i in range(lo, hi, step); the index is the context's value."""
        body, end = self.labels("loop", "end")
        index = self.variable("i64", str(lo))
        self.branch(self.compare("slt", "i64", lo, hi), body, end)
        self.label(body)
        i = self.get(index)
        yield i
        following = self.op("add nsw", "i64", i, step)
        self.put(index, following)
        self.branch(self.compare("slt", "i64", following, hi), body, end)
        self.label(end)

    def unrolled(self, lo: str | int, hi: str | int, by: int) -> Iterator[str]:
        """The indices of a loop whose body is written `by` times, and once more for the rest.

        Use as `for i in code.unrolled(...)`: the loop's body writes one iteration.
        """
        span = self.op("sub nsw", "i64", hi, lo)
        whole = self.op("sub nsw", "i64", span, self.op("urem", "i64", span, by))
        middle = self.op("add nsw", "i64", lo, whole)
        with self.count(lo, middle, by) as i:
            for k in range(by):
                yield self.op("add nsw", "i64", i, k)
        with self.count(middle, hi) as i:
            yield i
