"""Programs as models of ONNX: onnxruntime runs them, the values are those of `jit`."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from interchange_programs import COMPLEX, MODELS, Model
from op_cases import COMPLEX_CASES, OP_CASES, OpCase
from test_stablehlo import same

import fgrad
from fgrad.errors import UnsupportedFormatError
from fgrad.interchange.protobuf import message, varint

REFUSED = {"bitcast", "eigvals", "nextafter", "pinv", "shift_left", "shift_right", "complex128"}


def run_model(model: bytes, args: list[Any]) -> list[np.ndarray]:
    """The results of a model; a test is skipped where the runtime has no kernel for a dtype."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "INVALID_GRAPH" in str(error):
            pytest.skip(f"onnxruntime: {error}")
        raise
    given = {f"x{k}": np.asarray(x) for k, x in enumerate(args)}
    return session.run(None, given)


def check(model: Model) -> None:
    """The model gives what the compiled function gives."""
    data = fgrad.onnx(model.fun, *model.args, checks=model.checks)
    expected = fgrad.tree.leaves(fgrad.jit(model.fun)(*model.args))
    same(run_model(data, fgrad.tree.leaves(model.args)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    check(MODELS[name])


@pytest.mark.parametrize("name", COMPLEX)
def test_what_it_has_not_is_refused(name: str) -> None:
    model = COMPLEX[name]
    with pytest.raises(UnsupportedFormatError, match="ONNX has no"):
        fgrad.onnx(model.fun, *model.args)


CASES = [c for c in OP_CASES + COMPLEX_CASES if not c.known]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_operations(case: OpCase) -> None:
    args = case.args(np.random.default_rng(zlib.adler32(case.name.encode())))
    try:
        check(Model(case.fun, args))
    except UnsupportedFormatError as error:
        first = str(error).split("\n")[0]
        assert first.endswith("checks of values.") or first.split()[-1].rstrip(".") in REFUSED


def test_the_file_is_what_is_returned(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    data = fgrad.onnx(np.sin, np.ones(3), path=path)
    assert path.read_bytes() == data


def test_numbers_of_seven_bits() -> None:
    assert varint(300) == b"\xac\x02"
    assert len(varint(-1)) == 10
    assert message({1: 150, 2: "testing"}) == b"\x08\x96\x01\x12\x07testing"
