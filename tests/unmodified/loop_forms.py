"""Forms of statements and numbers that random loop programs draw besides those of loop_grammar.py.

At places in braces the grammar puts {e} a number, {c} a truth value, {v} an array of 6 floats,
{6} {5} {3} an index of an axis of that size, {i} an integer, {A} {B} arrays of 6 floats, {n} a new
name, the same one at all its places.  Lines after the first belong to the statement.
"""

from __future__ import annotations

NUMBERS = (
    "math.sqrt(abs({e}) + 0.1)", "math.exp(min({e}, 1.0))", "math.atan2({e}, 1.5)",
    "np.clip({e}, -1, 1)", "max({e}, {e}, {e})", "round({e}, 3)", "np.maximum({e}, {e})",
    "np.where({c}, {e}, {e})", "{A}.max()", "np.abs({v}).sum() * 0.1",
    "sum([{A}[j] for j in range({i} % 6)])", "sum({A}[j] * {B}[j] for j in range(6)) * 0.1",
    "m[{3}][{6}]", "m.T[{6}, {3}]", "m[:, {6}].sum()", "m[{3}, ::-1][{6}]", "np.mean(m[1:, {6}])",
    "{A}[{i} % 6::-1].sum() * 0.1", "({e}) ** 2", "({A} * {B}).sum() * 0.1", "{A}[4:0:-1].sum()",
    "(m @ {A})[{3}] * 0.1", "float({c}) + {e}", "np.float64({e})", "math.floor({e}) * 0.1",
    "int({e}) * 0.5", "abs({i}) * 0.1", "np.array({e})[()]", "{A}[np.argmax({B})]",
    "{A}[{B} > 0.1].sum() * 0.1", "math.copysign({e}, {e})", "-{i} // 4 * 0.1", "-{i} % 5 * 0.1",
    "{i} / 7", "np.cumsum({v})[{6}] * 0.1", "np.array([{e}, {e}]).max()",
)  # fmt: skip

STATEMENTS: tuple[tuple[str, ...], ...] = (
    ("s, t = {A}[{6}], {B}[{6}]",),
    ("(s, t), c = (t, {e}), c + 1",),
    ("s, *{n} = {e}, t, s", "t = {n}[1]"),
    ("[t, s] = {A}[1:3]",),
    ("s = t = {e}",),
    ("{A}[{6}] = s = {e}",),
    ("{A}[{6}] = {B}[{6}] = {e}",),
    ("if ({n} := {e}) > 0.3:", "    s = {n}"),
    ("s = ({n} := {e}) + {n} * 0.5",),
    ("{A}[1:4] += {B}[:3]",),
    ("{A}[::2] -= {A}[1::2]",),
    ("{A}[:] = {A}[::-1]",),
    ("{A}[4:0:-1] = {B}[:4]",),
    ("{A}[{i} % 6::-1] *= 0.5",),
    ("m[{3}][{6}] = {e}",),
    ("m[{3}][1:] -= {A}[:5]",),
    ("m[1:, ::2] *= 0.5",),
    ("m.T[{6}] += 0.25",),
    ("m[{3}, :], m[{3}, :] = m[{3}, :].copy(), m[{3}, :].copy()",),
    ("{n} = m[{3}]", "{n}[{6}] += {e}"),
    ("{n} = m[:, {6}]", "{n} *= 0.5", "s = {n}[{3}]"),
    ("{n} = m.reshape(-1)", "{n}[{i} % 18] = {e}"),
    ("m[[0, 2]] = m[[2, 0]]",),
    ("for u in m[::-1]:", "    u[{6}] += {e}"),
    ("{n} = np.zeros(6)", "{n}[{6}] = {e}", "{A} += {n}"),
    ("{n} = np.empty(6)", "for j in range(6):", "    {n}[j] = {A}[-1 - j] * 0.5", "y = {n}"),
    ("{n} = np.zeros((3, 6))", "{n}[{3}] = {A}", "m -= 0.5 * {n}"),
    ("{n} = []", "for j in range({i} % 6):", "    {n}.append({A}[j] * 0.5)", "t = sum({n}, 0.0)"),
    ("{n} = [{A}[j] for j in range(6)]", "s = {n}[{6}] + {n}[-1]"),
    ("{n} = [s, t]", "{n}[{i} % 2] = {e}", "s, t = {n}"),
    ("{n} = {{'s': s, 't': t}}", "{n}['s'] += {e}", "s = {n}['s']"),
    ("for j, ({n}, e) in enumerate(zip({A}, {B})):", "    s += {n} * e - j * 0.1"),
    ("for j in (0, 2, 5):", "    {A}[j] += {e}"),
    ("for {n} in [0.5, t, s]:", "    s = s + {n} * 0.25"),
    ("for j in range(10, 0, -3):", "    t -= {A}[j % 6] * 0.1"),
    ("for j in range({i} % 6, -1, -1):", "    if {A}[j] > 0.2:", "        c = j", "        break",
     "else:", "    c = -1"),
    ("for j in range(6):", "    if {A}[j] > {e}:", "        continue", "    s += {A}[j]",
     "else:", "    t = s"),
    ("while True:", "    c += 1", "    if c % 5 == 0:", "        break", "    s *= 0.5"),
    ("{n} = 6", "while {n} > 0 and {A}[{n} - 1] < 0.5:", "    {n} -= 1", "else:", "    c = {n}"),
    ("while ({n} := c % 4) > 0:", "    c += 1", "    t += {n} * 0.1"),
    ("for j in range(3):", "    for l in range(6):", "        if m[j, l] > 0.6:",
     "            s = m[j, l]", "            break", "        m[j, l] *= 0.5", "    else:",
     "        t += 0.5"),
    ("c = -c // 3",),
    ("c = (c * 5 - 7) % -4",),
    ("c, {n} = divmod(c - 9, 4)", "t += {n} * 0.1"),
    ("c = (c ^ 5) & 7 | {i} % 2",),
    ("c = abs(c - 3) >> 1",),
    ("c = int({e})",),
    ("c = round({e})",),
    ("c = sum(1 for j in range(6) if {A}[j] > 0.2)",),
    ("c += {A}[{6}] > 0.2",),
    ("c = len({A}[{i} % 6:])",),
    ("t = 0.0",),
    ("{A} = {A} if {c} else {B}",),
    ("{A} = np.where({v} > {e}, {v}, {v})",),
    ("{A} = np.concatenate((({v})[2:], ({v})[:2]))",),
    ("if np.any({v} > 0.9):", "    s += 0.5"),
    ("if {A}[{6}] < {e} and not {c}:", "    {A}[{6}] = {e}", "else:", "    {B}[{6}] = {e}"),
    ("np.add({A}, {B}, out={A})",),
    ("{A}.fill({e})",),
    ("{A}[p[:3]] += {e}",),
    ("{A}[{6}], c = {e}, c + 1",),
)  # fmt: skip

# Arrays that some programs have besides: first values, numbers made of them, statements.
INTEGERS = (
    ("np.arange(6)", "p * 2", "np.zeros(6, dtype=np.int64)", "np.ones(6, int) - p"),
    ("q[{6}] * 0.1", "{A}[q[{6}] % 6]", "q.sum() * 0.1", "({A} * q)[{6}] * 0.1", "q[{6}] / 7"),
    (
        ("q[{6}] += 1",), ("q[{6}] = c",), ("c = q[{6}]",), ("c = int(q[{6}])",), ("q = q[::-1]",),
        ("q[{6}] = q[{6}] // -2",), ("q[q > 2] -= 3",), ("q *= -1",), ("q //= 2",), ("q %= 5",),
        ("q[{6}], q[{6}] = q[{6}], q[{6}]",), ("c = c + q[{6}]",), ("q[1:] = q[:-1]",),
        ("for {n} in q:", "    t += {n} * 0.01"), ("{A}[q[{6}] % 6] -= {e}",), ("q = q + c",),
        ("for {n} in range(q[{6}] % 7):", "    s += {A}[{n} % 6] * 0.1"),
        ("if q[{6}] > c:", "    q[{6}] = c - 1"), ("c = q.max() % 5",), ("q[{6}] = {e} > 0.1",),
    ),
)  # fmt: skip
SINGLES = (
    ("x.astype(np.float32)", "np.zeros(6, dtype=np.float32)", "np.full(6, 0.5, np.float32)"),
    ("float(w[{6}] * 0.5)", "float(w[{6}])", "float(w[{6}] + w[{6}])", "float(w.sum())"),
    (
        ("w[{6}] = {e}",), ("w[{6}] += 0.5",), ("w *= 0.5",),
        ("{n} = w[{6}]", "{n} += w[{6}]", "w[{6}] = {n} * 0.25"),
        ("w[1:] = w[:-1]",), ("w[{6}] = w[{6}] - w[{6}]",),
        ("w = w[::-1]",), ("w[:] = {A}",), ("t = t + float(w[{6}])",),
        ("for {n} in w:", "    t = t + float({n} * 0.25)"), ("w = w * 2",), ("w -= 0.25",),
    ),
)  # fmt: skip
COMPLEX = (
    ("x + 0.5j * m[1]", "np.zeros(6, dtype=complex)", "x * 1j", "np.full(6, 0.3 + a * 1j)"),
    ("abs(z[{6}])", "z[{6}].real", "z[{6}].imag", "(z * z.conj()).sum().real * 0.1"),
    (
        ("z[{6}] = {e} + 1j * {e}",), ("z[{6}] *= 0.5j",), ("z *= 0.5",), ("z = z[::-1]",),
        ("z[1:] -= z[:-1] * 0.5",), ("z[{6}] = z[{6}] * z[{6}]",), ("s = abs(z[{6}])",),
        ("{A}[{6}] = z[{6}].imag",), ("{n} = z[{6}]", "{n} = {n} * {n} + 0.1", "z[{6}] = {n}"),
        ("z.real[{6}] = {e}",), ("z[{6}] = z[{6}].conjugate()",), ("z += {A}",),
    ),
)  # fmt: skip

HELPERS = (
    ("for j in range(6):", "    z[j] = z[j] * 0.5 + w"),
    ("for j in range(5):", "    if z[j] > w:", "        return z[j]", "    z[j + 1] += 0.1"),
    ("for j in range(3):", "    for l in range(5):", "        if z[l] > 0.4 + j:",
     "            return w * j", "    w = w + 0.1"),
    ("while w < 0.5:", "    w += 0.3"),
    ("c += 1",),
    ("c += 1", "s = s * 0.5 + w"),
    ("z[1:] = z[:-1]",),
    ("z = z.copy()", "z[2] = w"),
    ("r = z[2:5]", "r += w"),
)  # fmt: skip
