"""L7. Files of ONNX: programs as graphs of nodes, constants as tensors.

Each equation is written by its rule, see onnx_rules.py; the graphs of loops and branches read the
values around them by name.

[O] ONNX: Open Neural Network Exchange, operators and intermediate representation; onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.interchange.protobuf import message
from fgrad.interchange.traced import Format, no_form, no_such_numbers, prepared
from fgrad.ir.aval import BOOL, INT64, is_bfloat16
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var

OPSET = 18  # of the operators, from December 2022 [O]
IR_VERSION = 8

# TensorProto.DataType, of dtypes by name.
DATA_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
# AttributeProto.AttributeType, and the field of the value.
FLOAT, INT, STRING, TENSOR, GRAPH, INTS = (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (7, 8)


class Ref(NamedTuple):
    """A value of a graph: its name and its type."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


Rule = Callable[["Writer", Eqn, list[Ref]], "Ref | list[Ref]"]
NOTHING = Ref("", (), BOOL)  # an operand that is left out


def tensor(x: np.ndarray, name: str = "") -> bytes:
    """A constant: its shape, type and bytes, the lowest first."""
    little = x if is_bfloat16(x.dtype) else x.astype(x.dtype.newbyteorder("<"))
    fields: dict[int, object] = {1: list(x.shape), 2: DATA_TYPES[x.dtype.name]}
    return message({**fields, **({8: name} if name else {}), 9: little.tobytes()})


def described(ref: Ref) -> bytes:
    """The name and type of an input or output."""
    shape = message({1: [message({1: n}) for n in ref.shape]})
    return message(
        {1: ref.name, 2: message({1: message({1: DATA_TYPES[ref.dtype.name], 2: shape})})}
    )


def attribute(name: str, value: object) -> bytes:
    """A parameter of a node: a number, a text, integers, a tensor, or a graph as bytes."""
    if isinstance(value, bool | int):
        kind, field = INT
        value = int(value)
    elif isinstance(value, float):
        kind, field = FLOAT
    elif isinstance(value, str):
        kind, field = STRING
    elif isinstance(value, np.ndarray):
        kind, field = TENSOR
        value = tensor(value)
    elif isinstance(value, bytes):
        kind, field = GRAPH
    else:
        kind, field = INTS
        assert isinstance(value, (list, tuple))
        value = [int(n) for n in value]
    return message({1: name, field: value, 20: kind})


class Writer:
    """The nodes of the graph that is open, and the names of what was written."""

    def __init__(self, form: Format, rules: Mapping[str, Rule]) -> None:
        self.form, self.rules = form, rules
        self.nodes: list[bytes] = []
        self.count = 0
        self.constants: list[dict[tuple[object, ...], Ref]] = []  # of each open graph

    def model(self, program: Program) -> bytes:
        """The file of a program."""
        inputs = [Ref(f"x{k}", v.aval.shape, v.aval.dtype) for k, v in enumerate(program.inputs)]
        graph = self.graph(program.name, inputs, lambda: self.inlined(program, inputs), "y")
        opset = message({1: "", 2: OPSET})
        return message({1: IR_VERSION, 2: "fgrad", 7: graph, 8: [opset]})

    def graph(
        self, name: str, inputs: Sequence[Ref], body: Callable[[], Sequence[Ref]], prefix: str = ""
    ) -> bytes:
        """A graph, whose results are named anew: one value may be several of them."""
        outer, self.nodes = self.nodes, []
        self.constants.append({})
        found = body()
        outs = [
            self.op("Identity", [x], x.shape, x.dtype, name=f"{prefix}{k}" if prefix else "")
            for k, x in enumerate(found)
        ]
        nodes, self.nodes = self.nodes, outer
        self.constants.pop()
        return message(
            {1: nodes, 2: name, 11: list(map(described, inputs)), 12: list(map(described, outs))}
        )

    def inlined(self, program: Program, inputs: Sequence[Ref]) -> list[Ref]:
        """The equations of a program, and its results."""
        env: dict[Var, Ref] = dict(zip(program.inputs, inputs, strict=True))
        for var in (*program.inputs, *[v for v, _ in program.consts]):
            if var.aval.dtype.name not in DATA_TYPES:
                raise no_such_numbers(self.form, var.aval.dtype)
        for var, array in program.consts:
            env[var] = self.constant(array)
        for eqn in program.eqns:
            rule = self.rules.get(eqn.prim.name)
            if rule is None:
                raise no_form(self.form, eqn)
            for atom in (*eqn.inputs, *eqn.outputs):
                if atom.aval.dtype.name not in DATA_TYPES:
                    raise no_form(self.form, eqn, f"there are no numbers of {atom.aval.dtype}.")
            found = rule(self, eqn, [self.ref(a, env) for a in eqn.inputs])
            env.update(zip(eqn.outputs, [found] if isinstance(found, Ref) else found, strict=True))
        return [self.ref(a, env) for a in program.outputs]

    def body(self, program: Program, inputs: Sequence[Ref]) -> list[Ref]:
        """The results of the program of a loop or branch, within a graph that is open."""
        return self.inlined(prepared(program, self.form), inputs)

    def ref(self, atom: Atom, env: dict[Var, Ref]) -> Ref:
        """The value of an operand."""
        return self.constant(np.asarray(atom.value)) if isinstance(atom, Lit) else env[atom]

    def constant(self, x: np.ndarray) -> Ref:
        """A constant, written once in a graph and those within it."""
        key = x.shape, x.dtype.name, x.tobytes()
        for known in self.constants:
            if key in known:
                return known[key]
        ref = self.op("Constant", [], x.shape, x.dtype, value=x)
        self.constants[-1][key] = ref
        return ref

    def scalar(self, value: object, dtype: np.dtype) -> Ref:
        """A number of a dtype."""
        return self.constant(np.asarray(value, dtype))

    def ints(self, values: Sequence[int]) -> Ref:
        """A shape, axes, or places, as an operand."""
        return self.constant(np.asarray(values, INT64).reshape(-1))

    # Operations.

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def node(
        self, kind: str, operands: Sequence[Ref], results: Sequence[Ref], **params: object
    ) -> list[Ref]:
        """A node of any number of results."""
        fields = {1: [r.name for r in operands], 2: [r.name for r in results], 4: kind}
        given = [attribute(k, v) for k, v in params.items()]
        self.nodes.append(message({**fields, 5: given}))
        return list(results)

    def op(
        self, kind: str, operands: Sequence[Ref], shape: Sequence[int], dtype: np.dtype,
        name: str = "", **params: object,
    ) -> Ref:  # fmt: skip
        """A node of one result."""
        out = Ref(name or self.fresh(), tuple(shape), dtype)
        return self.node(kind, operands, [out], **params)[0]

    def each(self, kind: str, *operands: Ref, dtype: np.dtype | None = None) -> Ref:
        """An elementwise operation; numbers are repeated."""
        shape = max([r.shape for r in operands], key=len)
        return self.op(kind, operands, shape, dtype or operands[0].dtype)

    def compare(self, kind: str, x: Ref, y: Ref) -> Ref:
        """Truth values."""
        return self.each(kind, x, y, dtype=BOOL)

    def select(self, cond: Ref, x: Ref, y: Ref) -> Ref:
        """x where cond, else y."""
        shape = max(cond.shape, x.shape, y.shape, key=len)
        if x.dtype == BOOL:
            other = self.each("And", self.each("Not", cond), y)
            return self.each("Or", self.each("And", cond, x), other)
        return self.op("Where", [cond, x, y], shape, x.dtype)

    def cast(self, x: Ref, dtype: np.dtype) -> Ref:
        """Numbers of another dtype."""
        if x.dtype == dtype:
            return x
        return self.op("Cast", [x], x.shape, dtype, to=DATA_TYPES[dtype.name])

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """The same elements in another shape."""
        if x.shape == tuple(shape):
            return x
        return self.op("Reshape", [x, self.ints(shape)], shape, x.dtype, allowzero=1)

    def transpose(self, x: Ref, axes: Sequence[int]) -> Ref:
        """The axes in another order."""
        if list(axes) == list(range(len(axes))):
            return x
        return self.op("Transpose", [x], [x.shape[a] for a in axes], x.dtype, perm=list(axes))

    def wide(self, x: Ref, shape: Sequence[int]) -> Ref:
        """A value repeated along leading axes and those of length 1."""
        if x.shape == tuple(shape):
            return x
        return self.op("Expand", [x, self.ints(shape)], shape, x.dtype)

    def slice(self, x: Ref, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Ref:
        """x[start:stop:step]; a step of -1 runs backwards to the beginning."""
        shape = [len(range(*slice(a, b, s).indices(n))) for a, b, s, n in
                 zip(start, stop, step, x.shape, strict=True)]  # fmt: skip
        bounds = [self.ints(v) for v in (start, stop, range(len(shape)), step)]
        return self.op("Slice", [x, *bounds], shape, x.dtype)
