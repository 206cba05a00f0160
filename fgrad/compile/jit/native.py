"""L5. From a jitted call to a native signature: arguments, results and work of a program."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad import tree
from fgrad.compile.backend import RunnableOnHost
from fgrad.compile.entry.native import NativeCalls
from fgrad.compile.entry.outside import address
from fgrad.compile.entry.table import Parameters, Results, Signature, Work
from fgrad.config import config
from fgrad.ir.program import Program
from fgrad.tracing.outside.watches import Number


def learn(
    calls: NativeCalls,
    callee: object,
    parameters: Parameters,
    program: Program,
    executable: RunnableOnHost,
    out_tree: tree.TreeDef,
    leaves: Sequence[int] | None = None,
    writes: Sequence[int] = (),
) -> Signature | None:
    """Make calls like this one native from now on; None if that is not possible.

    Arguments:
        calls: the callee's signatures.
        callee: the jitted function.
        parameters: the call's arguments.
        program: what computes the results' leaves from the arguments' leaves.
        executable: its compiled form.
        out_tree: the structure of the result.
        leaves, writes: see `Results`; None if the results are the outputs.
    """
    avals = executable.out_avals
    leaves = range(len(avals)) if leaves is None else leaves
    results = Results(avals, out_tree, config.recycle, list(leaves), writes)
    work = taking(executable.work(program), parameters)
    learned = calls.learn(callee, parameters, results, work)
    if learned is not None:
        executable.runs_natively()
    return learned


def taking(work: Work, parameters: Parameters) -> Work:
    """The work with the arrays and numbers from outside, its first inputs, in their places."""
    given = parameters.watches.given
    count = len(given)
    if not count:
        return work
    both = list(zip(work.inputs, given, strict=False))
    arrays = [(slot, address(x)) for slot, x in both if not isinstance(x, Number)]
    return work._replace(
        inputs=work.inputs[count:],
        constants=[*arrays, *work.constants],
        lends=[(out, k - count) for out, k in work.lends],
        numbers=[(slot, x) for slot, x in both if isinstance(x, Number)],
    )
