"""L4. Loops in reverse without the counters among their carries.

    scan (i, c) -> (i + 2, f(i, c))  from i = 3     becomes     scan c, t -> f(3 + 2 t, c)

with the number t of the step as an item: what is computed of counters alone, such as the places of
elements, is then computed again in the backward step, not kept; compilers know the range of t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Program
from fgrad.ops.counters import counter_step
from fgrad.ops.elementwise import add, mul, sub
from fgrad.ops.shape import iota_p
from fgrad.ops.size import number
from fgrad.trace import Value, run
from fgrad.transforms.control.common import Values, recorded, some, split_list
from fgrad.transforms.core.derived_programs import Mask, derived_program
from fgrad.typing import EqnParams, R


class Uncounted(NamedTuple):
    """A scan without counters: `stays` says of each operand whether it is one of `params`' scan,
    which has the numbers of the steps besides; `last` are the counters after it, by number."""

    params: EqnParams
    stays: Mask
    n_consts: int
    last: dict[int, Value]

    def operands(self, given: Sequence[R], number: R) -> list[R]:
        """What belongs to operands, for those of the scan; `number` for the numbers of steps."""
        return [*some(given, self.stays), number]

    def carries(self, given: Sequence[R]) -> list[R]:
        """What belongs to results, for those of the scan."""
        return [x for k, x in enumerate(given) if k not in self.last]

    def results(self, found: Sequence[Value]) -> tuple[Value, ...]:
        """The results of the whole loop."""
        each, count = iter(found), len(found) + len(self.last)
        return tuple([self.last[k] if k in self.last else next(each) for k in range(count)])

    def numbers(self, values: Values) -> Value:
        """The numbers of the steps, in the trace of the operands: an inner one may be open."""
        return recorded(values, iota_p, shape=(self.params["length"],), dtype=INT64, axis=0)

    def expanded(self, found: Sequence[R | None]) -> list[R | None]:
        """What belongs to operands of the whole loop; None for counters."""
        each = iter(found[:-1])
        return [next(each) if stays else None for stays in self.stays]


def uncounted(values: Values, params: EqnParams) -> Uncounted | None:
    """The loop without its counters; None if it has none that begins with a known number."""
    body: Program = params["body"]
    n_consts: int = params["n_consts"]
    n_carry: int = params["n_carry"]
    length: int = params["length"]
    starts: dict[int, tuple[int, int]] = {}
    for k in range(n_carry):
        first: Any = values[n_consts + k]
        step = counter_step(body, body.inputs[n_consts + k], body.outputs[k])
        if step and is_any(first, (np.integer, np.ndarray)):
            starts[k] = int(first), step
    if not starts:
        return None
    stays = tuple([k - n_consts not in starts for k in range(len(body.inputs))])
    avals = [*some(body.in_avals, stays), Aval((), INT64)]
    kept = n_carry - len(starts)

    def step_of(*given: Value) -> list[Value]:
        c, k, x = split_list(given, n_consts, kept)
        t, each = x[-1], iter(k)
        t = sub(number(length - 1, INT64), t) if params["reverse"] else t
        carry = [_counted(t, *starts[j]) if j in starts else next(each) for j in range(n_carry)]
        outs = run(body, [*c, *carry, *x[:-1]])
        return [y for j, y in enumerate(outs) if j not in starts]

    key = ("uncounted", n_consts, n_carry, tuple(starts.items()), params["reverse"], length)
    without = derived_program(body, key, step_of, avals, "uncounted")
    changes = {"body": without, "n_carry": kept}
    last = {k: number(first + step * length, INT64) for k, (first, step) in starts.items()}
    return Uncounted({**params, **changes}, stays, n_consts, last)


def _counted(t: Value, first: int, step: int) -> Value:
    """first + step t."""
    t = t if step == 1 else mul(t, INT64.type(step))
    return add(t, INT64.type(first)) if first else t
