"""The grammar of random programs about names; see loop_programs.py.

Besides what loop_grammar.py has there are lists L and K, dictionaries D and E, objects o and r and
a tuple T of arrays of 6: several names of one thing, at each place.
"""

from __future__ import annotations

import re

from loop_grammar import Block, Grammar, Statement

START = (
    "L = [{W}, {W}]", "K = {K}", "D = {'a': {W}, 'b': {W}}", "E = {E}",
    "o = Box({W}, a)", "r = {r}", "T = ({W}, {W})",
)  # fmt: skip
END = ", L, K, D, E, (o.w, o.n, o.held), (r.w, r.n), T"
START_PLACES = re.compile(r"\{([WKEr])\}")
PLACES = re.compile(r"\{([WLDowkz])\}")

BINDINGS = (
    "{w} = {W}", "{w} = {W}", "{w} = {W}[::-1]", "{w} = {W}.T", "{w} = {W}.ravel()",
    "{w} = {W}.reshape(6)", "{w} = {W}.copy()", "{w} = m.reshape(-1)[6:12]", "{w} = m.T[:, {3}]",
    "{w} = {w} = {W}", "{w}, {w} = {W}, {W}", "L, K = K, L", "D, E = E, D", "o, r = r, o", "K = L",
    "L = K", "K = L[:]", "K = list(L)", "E = D", "E = dict(D)", "E = D.copy()", "r = o",
    "o = Box({W}, {e})", "L = [{W}, {W}]", "K = [{W}, {W}]", "D = {{'a': {W}, 'b': {W}}}",
    "T = ({W}, {W})", "T = T[::-1]", "y, u = T", "T = tuple(L[:2])", "{w} = {W} if {c} else {W}",
    "{w} = {W} if c % 2 == 0 else {W}", "L = [{n} for {n} in K]", "{w} = {W} * {e}",
    "K = [{n} for {n} in L if {n}[0] < 9]", "K = [{n} * 0.5 for {n} in L]", "{w} = {W} + {W}",
    "L = sorted(L, key=lambda z: len(z))", "L = L[1:] + L[:1]", "{w} = np.asarray({W})",
    "T = {W}, T[0]", "{w} = np.atleast_1d({W})", "{w} = {W}.view()", "{w} = {W}[:]",
    "{w} = {W}[...]", "v = {W}[1:]", "v = {o}.part", "v = {W}[:-1]", "v = {W}[4::-1]",
    "{w} = np.flip({W})", "{w} = np.real({W})", "E = {{key: D[key] for key in D}}",
)  # fmt: skip
CHANGES = (
    "{L}.append({W})", "{L}.insert(0, {W})", "{L}.extend(T)", "{L} += [{W}]", "{L}[{z}] = {W}",
    "{L}[{z}] = {W}", "{L}.reverse()", "{L}[:] = {L}[::-1]", "{L}[0], {L}[1] = {L}[1], {L}[0]",
    "{D}[{k}] = {W}", "{D}[{k}] = {W} * 0.5", "{D}.setdefault('c', {W})[{6}] = {e}",
    "{D}.update(a={W})", "{D}.pop('c', None)", "{D}['a'], {D}['b'] = {D}['b'], {D}['a']",
    "{o}.w = {W}", "{o}.n += {e}", "{o}.held[0] = {W}", "{o}.w = {o}.held[0]", "{o}.n = {e}",
    "{L}[1:] = [{W}]", "{o}.w, y = y, {o}.w", "{D}[{k}], {L}[0] = {L}[0], {D}[{k}]",
)  # fmt: skip
WRITES = (
    "{W}[{6}] = {e}", "{W}[{6}] = {e}", "{W}[{6}] += {e}", "{W}[1:] += {e}", "{L}[{z}] += {W}",
    "{D}[{k}] *= 0.5", "{W}.fill({e})", "{W}.sort()", "np.multiply({W}, 0.5, out={W})",
    "{W}.flat[{6}] = {e}", "np.copyto({W}, {W})", "{W}[:], {W}[:] = {W}, {W}", "{o}.w -= {W}",
    "{W}.reshape(2, 3)[1] += {e}", "{W}.reshape(2, 3).T[{3}] = {e}", "m.T[{6}] = m[:, {6}]",
    "np.clip({W}, -1, 1, out={W})", "np.cumsum({W} * 0.3, out={W})", "{W}[::2] = {W}[1::2]",
    "{W}[:] = {W}[::-1]", "{W}[1:] = {W}[:-1]", "np.fill_diagonal(m[:, :3], {e})",
    "{o}.w[{6}] = {o}.n", "T[0][{6}] = {e}", "T[1][:] = T[0]", "{W}.reshape(3, 2)[:, 0] *= 0.5",
    "{W}[{W} > 0.4] = {e}", "{W}[p[:2]] -= {e}", "v[{5}] = {e}", "v += {e}",
    "np.add({W}, {e}, {W})", "np.negative({W}[1:], out={W}[1:])", "{W}.ravel()[{6}] = {e}",
    "m[{3}] = {W}", "m[{3}, :] += {W}", "{W}[2:4] = {W}[3:5]",
)  # fmt: skip
CALLS = (
    "{w} = scaled({W})", "scaled({W}, {e})", "{w} = mirrored({W})", "{w} = either({W}, {W}, {e})",
    "larger({W}, {W})", "{w} = larger({W}, {W})", "{w}, {w} = exchanged({W}, {W})",
    "{w} = stored({L}, {W})[0]", "K = stored({L}, {W})", "{w} = rotated({L})",
    "{w} = stepped({W}, 2)", "{w} = found({W}, {e})", "{o}.add({W})", "{w} = {o}.take({W})",
    "{w} = {o}.add({W}).w", "{n} = counter({W})", "r = either(o, r, c)",
    "L = either(L, K, c)", "mirrored({W})[{6}] = {e}",
)  # fmt: skip
SEVERAL = (
    ("for {n} in {L}:", "    {n}[{6}] += {e}"),
    ("for {n} in {L}:", "    {n} = {n} * 0.5", "    y = {n}"),
    ("for j, {n} in enumerate({L}):", "    {n}[j] = {e}", "    u = {n}"),
    ("for {n}, z in zip(L, K):", "    {n}[0], z[1] = z[1], {n}[0]"),
    ("for {n} in reversed({L}):", "    {n} -= {e}"),
    ("for key in {D}:", "    {D}[key] = {D}[key] * 0.5"),
    ("for key, {n} in {D}.items():", "    {n}[{6}] += {e}"),
    ("for {n} in {D}.values():", "    y = {n}", "    {n}[1:] *= 0.5"),
    ("for j in range(len({L})):", "    {L}[j] = {L}[j - 1] + 0.1"),
    ("if 'c' in {D}:", "    del {D}['c']"),
    ("if len({L}) > 2:", "    {w} = {L}.pop()"),
    ("if len({L}) > 2:", "    del {L}[0]"),
    ("if len({L}) > 3:", "    del {L}[2:]"),
    ("try:", "    {W}[{6}] = {e}", "finally:", "    {W}[{6}] *= 0.5"),
    ("with np.errstate(all='ignore'):", "    y = {W}", "    y[{6}] /= 2.0"),
    ("while True:", "    c += 1", "    if c % 4 == 0:", "        break", "    if {W}[{6}] > 2.0:",
     "        y = {W}", "        break", "    {W}[{6}] += 0.2"),
    ("for j in range(6):", "    if {W}[j] > {e}:", "        {w} = {W}", "        break", "else:",
     "    {w} = {W}"),
    ("for j in range(6):", "    if {W}[j] > {e}:", "        continue", "    {w} = {W}",
     "    {w}[j] = {e}"),
    ("{n} = {W}", "y = {W}", "for j in range(5):", "    y, {n} = {n}, y", "    y[j] += 0.1"),
    ("{n} = {W}", "for j in range(5):", "    {n} = {n}[::-1]", "    {n}[j] = {e}"),
    ("{n} = {W} * 1", "z = {n}", "for j in range(6):", "    if {W}[j] > 0.3:",
     "        z = {n}", "        {n} = {n} + 0.1", "z[0] = {e}", "u = {n}", "y = z"),
    ("{n} = counter({W})", "{n}({e})", "u = {n}({e})", "u[0] = {n}(0.1)[1]"),
    ("for j in range(6):", "    y[j], u[-1 - j] = u[j], y[j]"),
    ("{n} = [{W}] * 2", "{n}[0][{6}] = {e}", "y = {n}[1]"),
    ("{n} = {{}}", "for j in range(3):", "    {n}[j] = {W}", "{n}[{3}][{6}] = {e}"),
    ("{n} = {W}.reshape(2, 3)", "{w} = {n}.ravel()", "{n}[1, {3}] = {e}"),
    ("{n} = {W}.reshape(2, 3).T", "y = {n}.ravel()", "{n}[{3}, 1] = {e}"),
    ("{n} = np.diagonal(m)", "m[1, 1] = {e}", "s = {n}[1]"),
    ("{n} = np.array([{W}, {W}])", "y = {n}[0]", "{n}[0, {6}] = {e}"),
    ("{n} = np.stack(L[:2])", "for z in {n}:", "    z[{6}] = {e}", "    u = z"),
    ("{n} = lambda z, q={W}: q if z > 0.1 else z * q", "y = {n}({e})"),
    ("match c % 3:", "    case 0:", "        y = {W}", "    case 1:", "        u = {W}",
     "    case _:", "        y, u = u, y"),
    ("if ({n} := {W})[{6}] > {e}:", "    y = {n}", "{n}[{6}] = {e}"),
    ("{n}, *z = {L}", "{n}[{6}] = {e}", "y = z[0]"),
)  # fmt: skip


class Names(Grammar):
    """Draws statements about names."""

    def __init__(self, rng: object) -> None:
        super().__init__(rng)  # type: ignore[arg-type]
        self.end += END

    def whole_array(self) -> str:
        """Something that is an array of 6."""
        return self.pick(
            "x", "y", "u", "y", "u", "L[0]", "L[1]", "L[-1]", "K[0]", "K[-1]", "D['a']", "D['b']",
            "E['a']", "E['b']", "o.w", "r.w", "T[0]", "T[1]", f"m[{self.index(3)}]", "o.held[0]",
            f"L[{self.index(2)}]" if self.chance(0.5) else "L[1]",
        )  # fmt: skip

    def filled(self, form: str, depth: int) -> str:
        """A form; names are chosen anew at each place."""
        made = {
            "W": self.whole_array,
            "w": lambda: self.pick("y", "u", "y", "u", "x", "L[0]", "K[1]", "D['a']", "o.w"),
            "L": lambda: self.pick("L", "L", "K"),
            "D": lambda: self.pick("D", "D", "E"),
            "o": lambda: self.pick("o", "o", "r"),
            "k": lambda: self.pick("'a'", "'b'"),
            "z": lambda: self.pick("0", "1", "-1"),
        }
        return super().filled(PLACES.sub(lambda place: made[place[1]](), form), depth)

    def element(self) -> str:
        """An element of an array, by any name."""
        if self.chance(0.5):
            return super().element()
        return f"{self.whole_array()}[{self.index(6)}]"

    def condition(self, depth: int = 2) -> str:
        """A truth value, in a third of all cases one of Python's."""
        if self.chance(0.35):
            return self.pick("len(L) > 2", "'c' in D", "len(K) == 2", "c % 2 == 0", "len(T) > 1")
        return super().condition(depth)

    def simple(self) -> Statement:
        """A statement about names, in most cases."""
        if self.chance(0.25):
            return super().simple()
        forms = (BINDINGS, BINDINGS, CHANGES, WRITES, WRITES, CALLS, SEVERAL)
        chosen = forms[int(self.rng.integers(len(forms)))]
        one = chosen[int(self.rng.integers(len(chosen)))]
        return Statement(self.form((one,) if isinstance(one, str) else one))

    def helper(self) -> Statement:
        """A function inside that binds the names outside anew."""
        if self.chance(0.5):
            return super().helper()
        name = self.name("g")
        lines = [f"nonlocal {self.pick('y', 'u')}"]
        bound = lines[0].split()[1]
        lines += [self.pick(f"{bound} = z", f"{bound} = z[::-1]", f"{bound} = {bound} * w")]
        lines += [self.pick("z[0] = w", "L[0] = z", "D['a'] = z", f"{bound}[1] = w", "o.w = z")]
        body = tuple([Statement((line,)) for line in [*lines, "return w * 0.5 + z[2]"]])
        self.helpers.append(name)
        return Statement((f"def {name}(w, z):",), (body,))

    def program(self) -> Block:
        """A whole program: the names are bound before the first statement that is drawn."""
        made = super().program()
        choices = {
            "W": ("x", "y", "u", "m[1]", "y * 0.5", "x[::-1]", "np.ones(6)"),
            "K": ("L", "L[:]", "[y, u]"),
            "E": ("D", "dict(D)"),
            "r": ("o", "Box(y, s)"),
        }
        own = [START_PLACES.sub(lambda place: self.pick(*choices[place[1]]), x) for x in START]
        at = next(k for k, s in enumerate(made) if s.heads[0] == "items = []") + 1
        return (*made[:at], *[Statement((line,)) for line in own], *made[at:])
