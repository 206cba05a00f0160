"""The grammar of random programs about kinds of numbers; see loop_programs.py.

Besides what loop_grammar.py has there are Python's truth value g and complex number o, and arrays
of 6 of NumPy's kinds: truth values b, short integers r and w, words q, single floats h, complex
numbers z.  Expressions mix all of them, so NumPy's promotion and Python's, wrapping and division
decide each value; names of one kind take another in a loop.
"""

from __future__ import annotations

import re

from loop_grammar import Block, Grammar, Statement

SHORT = ("np.int8", "np.uint8", "np.int16", "np.uint16", "np.int32", "np.uint32", "np.uint64")
FRESH = re.compile(r"\bn[0-9]+\b")
END = ", g, o, b, r, w, q, h, z"

KINDS = (
    "{E}",
    "{E}",
    "{P}",
    "{K} + {K}",
    "{K} - {K}",
    "{K} * {K}",
    "{K} / {J}",
    "{N} // {J}",
    "{N} % {J}",
    "-{N}",
    "+{K}",
    "abs({K})",
    "({N} > {N})",
    "({N} == {K})",
    "({K} != {K})",
    "({N} < {N}) + {K}",
    "{Q} & {Q}",
    "{Q} | {Q}",
    "{Q} ^ {Q}",
    "~{Q}",
    "{Q} << 2",
    "{Q} >> 1",
    "{N} ** 2",
    "{K} ** 3",
    "np.maximum({N}, {N})",
    "np.minimum({N}, {N})",
    "np.where({N} > 1, {K}, {K})",
    "np.sign({N})",
    "np.abs({K})",
    "np.add({K}, {K})",
    "np.multiply({K}, {K})",
    "np.negative({N})",
    "np.floor_divide({N}, {J})",
    "np.remainder({N}, {J})",
    "np.fmod({N}, {J})",
    "np.divmod({N}, {J})[1]",
    "np.true_divide({K}, {J})",
    "np.square({K})",
    "np.float32({N})",
    "np.int64({Q})",
    "np.int32({Q})",
    "np.uint8({Q})",
    "np.bool_({K})",
    "np.float64({N})",
    "np.complex64({K})",
    "float({N})",
    "int({N})",
    "bool({K})",
    "complex({K})",
    "round(float({N}), 2)",
    "round({N})",
    "max({N}, {N})",
    "min({N}, {N})",
    "({K} if {N} > {N} else {K})",
    "({N} and {N})",
    "({N} or {N})",
    "(not {K})",
    "divmod({N}, {J})[0]",
    "{V}.sum()",
    "{V}.max()",
    "{V}.min()",
    "{V}.mean()",
    "{V}.prod()",
    "{V}.any()",
    "{V}.all()",
    "{V}.argmax()",
    "np.sum({V})",
    "np.dot({V}, {V})",
    "({V} + {V})[{6}]",
    "({V} * {V})[{6}]",
    "({V} - {K})[{6}]",
    "({V} / {J})[{6}]",
    "np.cumsum({V})[{6}]",
    "sum({V})",
    "max({A})",
    "min({Q6})",
    "np.clip({N}, 1, 3)",
    "np.clip({A}, 0, 2)[{6}]",
    "np.invert({Q})",
    "np.logical_and({K}, {K})",
    "np.logical_not({K})",
    "{E}.astype({T})",
    "{V}.astype({T})[{6}]",
    "np.array([{K}, {K}])[1]",
    "np.array([{K}, {K}, {K}]).sum()",
    "np.array({V}, dtype={T})[{6}]",
    "np.zeros(3, {T})[1] + {K}",
    "np.ones(2, {T})[0] * {K}",
    "np.full(3, {K})[2]",
    "np.full(2, {N}, {T})[1]",
    "{K}.real",
    "{K}.imag",
    "{E}.item()",
    "np.conj({K})",
    "np.sqrt({N} * {N})",
    "np.exp(-abs({N}))",
    "np.sin({N})",
    "np.round({N})",
    "np.floor({N})",
    "np.ceil({N})",
    "np.trunc({N})",
    "np.arange({i} % 4 + 1)[-1] * {K}",
    "np.left_shift({Q}, 1)",
    "np.right_shift({Q}, 2)",
    "np.power({N}, 2)",
    "np.linspace(0, {N}, 3)[1]",
    "np.bitwise_xor({Q}, {Q})",
    "np.count_nonzero({V})",
    "np.result_type({V}, {V}).itemsize",
    "({V} > {N}).sum()",
    "({V} == {V}).sum()",
    "np.hypot({N}, {N})",
    "np.isnan({N})",
    "np.signbit({N})",
    "np.diff({A})[0]",
    "np.median({A})",
    "np.ptp({A})",
    "np.gcd({Q}, 6)",
    "np.trapezoid({A})",
    "np.concatenate(({V}, {V}))[{i} % 12]",
    "np.stack([{V}, {V}])[{i} % 2, 1]",
    "np.copysign({N}, -1)",
    "np.convolve({A}, {A})[3]",
    "np.outer({V}, {V})[1, 2]",
    "np.interp({N}, np.arange(6), x)",
    "np.real({K})",
    "np.sum({V}, dtype={T})",
    "{V}.sum(dtype={T})",
    "np.searchsorted(np.arange(6), {N})",
    "np.ldexp({N}, 2)",
    "np.std({A})",
    "{V}.var()",
    "np.tensordot({V}, {V}, 1)",
    "{V}.dot({V})",
)

STATEMENTS = (
    ("{n1} = {K}",),
    ("{n1} = {K}",),
    ("c = {Qi}",),
    ("s = float({N})",),
    ("t = {Nf} * 0.5",),
    ("g = bool({K})",),
    ("g = {N} > {N}",),
    ("o = complex({K})",),
    ("c = int({N}) % 97",),
    ("b[{6}] = {K}",),
    ("r[{6}] = {Q}",),
    ("w[{6}] = {Q}",),
    ("q[{6}] = {N}",),
    ("h[{6}] = {N}",),
    ("z[{6}] = {K}",),
    ("r[{6}] += {P1}",),
    ("w[{6}] -= {P1}",),
    ("q[{6}] //= {J}",),
    ("h[{6}] *= {N}",),
    ("z[{6}] -= {K}",),
    ("b[{6}] &= {B}",),
    ("b[{6}] |= {B}",),
    ("b ^= {B6}",),
    ("q[{6}] <<= 1",),
    ("r >>= 1",),
    ("r[{6}] %= 5",),
    ("r = r * 2",),
    ("r = r + w",),
    ("w = -w",),
    ("q = q + {Q6}",),
    ("h = h + {A}",),
    ("h = h * 2",),
    ("r += w.astype(r.dtype)",),
    ("q += {Q6}.astype(q.dtype)",),
    ("h += {A}",),
    ("h[:] = {N6}",),
    ("z += {V}",),
    ("q[:] = {N6}",),
    ("r[:3] = w[3:]",),
    ("q[b] = {Q}",),
    ("h[b] *= 0.5",),
    ("z[b] = 1j",),
    ("b = {N6} > {N}",),
    ("q[{6}], q[{6}] = {N}, {Q}",),
    ("x = x + {N6}",),
    ("x[{6}] = {N}",),
    ("x *= 0.5",),
    ("y = {N6} * 0.5",),
    ("np.add.at(q, p[:3], {Q})",),
    ("np.subtract.at(h, p[1:4], {N})",),
    ("np.maximum.at(q, p % 3, {Q})",),
    ("np.add(h, {N6}, out=x)",),
    ("np.multiply(h, 2, out=h)",),
    ("np.add(x, {N6}, out=x, where=b)",),
    ("np.copyto(h, {N6}, where=b, casting='unsafe')",),
    ("np.putmask(q, b, {Q6})",),
    ("np.place(h, b, [1, 2])",),
    ("h.fill({N})",),
    ("q.fill({Q})",),
    ("r = r.astype({T})",),
    ("h = h.astype(np.float64)",),
    ("np.negative(h, out=h)",),
    ("for {n} in {V}:", "    s = s * 0.5 + float({n}.real)"),
    ("for {n} in {V}:", "    {n1} = {n} + {K}"),
    ("for {n} in q:", "    c = c + {n}"),
    ("for {n} in r:", "    {n1} = {n} * 2"),
    ("for {n}, e in zip({V}, {V}):", "    {n1} = {n} - e"),
    ("c = c + q[{6}]",),
    ("c += r[{6}]",),
    ("s += h[{6}]",),
    ("s = s + h[{6}]",),
    ("t -= z[{6}].real",),
    ("o = o * 0.5 + z[{6}]",),
    ("g = g ^ b[{6}]",),
    ("g = not g",),
    ("if {K}:", "    {n1} = {N}"),
    ("if {N} > {N}:", "    {n1} = {K}", "else:", "    {n1} = {K}"),
    ("while c > 3 and not b[{6}]:", "    c = c // 2", "    h[{6}] += c"),
    ("c = c * 31 % 1009",),
    ("c = c ^ q[{6}] & 15",),
    ("c = -c // 3",),
    ("k = k - 1",),
    ("a = {N}",),
    ("k = {Qi} % 7",),
    ("{n1} = np.add.reduceat({V}, [0, 2, 4])[{3}]",),
    ("{n1} = np.multiply.reduce({V}[:3])",),
    ("{n1} = np.add.accumulate({V})[{6}]",),
    ("{n1} = np.add.outer({V}, {V})[1, {6}]",),
    ("{n1} = {V}[::-1][{6}] - {V}.T[{6}]",),
    ("{n1} = np.sort({N6})[{6}]",),
    ("{n1} = {N6}.flat[{6}]",),
    ("{n1} = np.take({V}, {6})",),
    ("{n1} = np.choose({i} % 2, [{N6}, {N6}])[{6}]",),
    ("{n1} = np.select([{N6} > 1, b], [{V}, {V}], {P1})[{6}]",),
    ("{n1} = {E}.dtype.itemsize",),
    ("{n1} = np.argsort({N6})[{3}]",),
)


class Kinds(Grammar):
    """Draws statements about numbers of all kinds."""

    def __init__(self, rng: object) -> None:
        super().__init__(rng)  # type: ignore[arg-type]
        self.fresh = [f"n{k}" for k in range(4)]
        self.extras = []
        self.end += END + "".join([f", {n}" for n in self.fresh])

    def place(self, word: str, depth: int) -> str:
        """What a word in braces stands for."""
        if word == "K":
            return f"({self.kind(depth)})"
        integers, reals = ["r", "w", "q"], ["r", "w", "q", "h", "x", "y"]
        every = [*reals, "b", "z"]
        made = {
            "P": ("c", "s", "g", "o", "t", "k", "a", "3", "0.5", "True", "2j", *self.fresh),
            "P1": ("1", "2", "c % 5", "True", "k"),
            "E": tuple([f"{v}[{self.index(6)}]" for v in every]),
            "V": tuple(every),
            "A": ("x", "y", "h", "q"),
            "N": (*[f"{v}[{self.index(6)}]" for v in reals], "c", "s", "k", "t", "2", "1.5", "a"),
            "Nf": ("s", "h[1]", "x[2]", "a"),
            "N6": tuple(reals),
            "J": ("2", "3", "-2", "1.5", "(c % 3 + 1)", "np.float32(2)", "(abs(k) + 1)"),
            "Q": (*[f"{v}[{self.index(6)}]" for v in [*integers, "b"]], "c", "k", "3", "g"),
            "Qi": ("c + 1", "c * 3", "k", "c - k", "int(q[2])", "len(x)", "int(r[1])", "c // 2"),
            "Q6": tuple(integers),
            "B": (f"b[{self.index(6)}]", f"(x[{self.index(6)}] > s)", "g", "True"),
            "B6": ("b", "(x > y)", "b[::-1]"),
            "T": ("np.float32", "np.int32", "int", "float", "np.uint8", "bool", "complex", "'i2'"),
            "n1": tuple(self.fresh),
        }
        return self.pick(*made[word])

    WORDS = re.compile(r"\{(K|P1|P|E|V|A|Nf|N6|N|J|Qi|Q6|Q|B6|B|T|n1)\}")

    def kind(self, depth: int) -> str:
        """A number of any kind."""
        form = self.pick("{E}", "{P}", "{N}") if depth <= 0 else self.pick(*KINDS)
        return self.filled(form, depth)

    def filled(self, form: str, depth: int) -> str:
        """A form; kinds are chosen anew at each place."""
        own = self.WORDS.sub(lambda place: self.place(place[1], depth - 1), form)
        return super().filled(own, depth)

    def simple(self) -> Statement:
        """One line, or a few that belong together, two in three about kinds."""
        if self.chance(0.15):
            return super().simple()
        return Statement(self.form(*STATEMENTS))

    def form(self, *options: tuple[str, ...]) -> tuple[str, ...]:
        """One of some forms, filled more deeply."""
        chosen = options[int(self.rng.integers(len(options)))]
        return tuple(self.filled("\n".join(chosen), 2).split("\n"))

    def condition(self, depth: int = 2) -> str:
        """A truth value, in a half of all cases of another kind."""
        if self.chance(0.5):
            return self.filled(self.pick("{N} > {N}", "{B}", "{Q}", "{N} <= {P1}", "{Q} == {Q}"), 1)
        return super().condition(depth)

    def program(self) -> Block:
        """A whole program: the names are bound before the first statement that is drawn."""
        made = super().program()
        single = self.pick("np.float32", "np.float32", "np.float16")
        double = self.pick("np.complex128", "np.complex64")
        short = self.pick("np.ones(6, {})", "np.arange(6, dtype={})")
        own = [
            f"g, o = {self.pick('True', 'k > 3', 'a > 0')}, {self.pick('0.5j', 'complex(a)')}",
            f"b = {self.pick('x > 0', 'p > 2', 'np.zeros(6, bool)')}",
            f"r = {self.pick('p', 'p * 40', 'p + k')}.astype({self.pick(*SHORT)})",
            f"w = {short.format(self.pick(*SHORT))}",
            f"q = {self.pick('p.copy()', 'np.arange(6)', 'np.zeros(6, int)')}",
            f"h = {self.pick('x', 'm[0]', 'np.zeros(6)')}.astype({single})",
            f"z = (x + 0.5j * m[1]).astype({double})",
        ]
        for name in self.fresh:
            first = self.filled(self.pick("{P}", "{E}", "{K}", "0", "0.0"), 1)
            own.append(f"{name} = {FRESH.sub('2', first)}")
        at = next(k for k, s in enumerate(made) if s.heads[0] == "items = []") + 1
        return (*made[:at], *[Statement((line,)) for line in own], *made[at:])
