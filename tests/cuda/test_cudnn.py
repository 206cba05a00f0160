"""Convolutions by cuDNN: the pass against NumPy, calls by a stub, descriptors by the library."""

from __future__ import annotations

import ctypes
import gc
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import check, compiled
from emulator.driver import StubDriver
from emulator.libraries import StubLibraries
from real_device import stub_device

import fgrad
from fgrad import nn
from fgrad.compile.backend import BACKENDS
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.library_conv import (
    Convolution,
    convolution_of,
    library_conv,
    library_conv_p,
)
from fgrad.compile.passes.simplify import simplify
from fgrad.config import config
from fgrad.errors import DeviceError
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.lower_cuda.device import driver
from fgrad.lower_cuda.library import cudnn
from fgrad.lower_cuda.library import functions as library_functions
from fgrad.lower_cuda.library.functions import Functions, Installed, status_text
from fgrad.ops.window import conv, conv_p
from fgrad.trace import run

KINDS = ("Forward", "BackwardData", "BackwardFilter")


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubLibraries]:
    """Libraries and a driver without a device; each convolution counts as large."""
    monkeypatch.setattr(cudnn, "LEAST_WORK", 0)
    stub = StubLibraries()
    with stub_device(libraries=stub):
        yield stub
    assert not stub.cudnn.errors


def numbers(seed: int, *shape: int, dtype: str = "d") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# --- the pass -------------------------------------------------------------------------------------


def optimised(program: Program) -> Program:
    """The program as it meets the pass, after it, and without what nobody reads."""
    found = dce(library_conv(simplify(program), lambda c: True))
    check_program(found, "library_conv")
    return found


def kinds(program: Program) -> list[str]:
    """What the calls of a program compute, in order."""
    return [e.params["kind"] for e in program.eqns if e.prim.name == "library_conv"]


def random_case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, Any]] | None:
    """A convolution that may crop, spread and pad as it likes; None if it has no places."""
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    n, c, o = rng.integers(1, 4, 3)

    def few(low: int, high: int) -> tuple[int, ...]:
        return tuple([int(k) for k in rng.integers(low, high, rank)])

    x, w = numbers(1, n, groups * c, *few(1, 8)), numbers(2, groups * o, c, *few(1, 4))
    params = {
        "strides": few(1, 4),
        "padding": tuple(zip(few(-1, 4), few(-1, 4), strict=True)),
        "x_dilation": few(1, 3) if rng.random() < 0.3 else (1,) * rank,
        "w_dilation": few(1, 3),
        "feature_groups": groups,
        "batch_groups": 1,
    }
    return (x, w, params) if 0 not in conv_p.type_of(x, w, **params).shape else None


def random_cases(seed: int, count: int) -> list[tuple[np.ndarray, np.ndarray, dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    made = (random_case(rng) for _ in itertools.count())
    return list(itertools.islice(filter(None, made), count))


def with_gradients(params: dict[str, Any]) -> Any:
    """A convolution, and both its transposes."""

    def pulled(x: Any, w: Any, ct: Any) -> Any:
        y, back = fgrad.vjp(lambda x, w: conv(x, w, **params), x, w)
        return y, back(ct)

    return pulled


def program_of(x: np.ndarray, w: np.ndarray, params: dict[str, Any]) -> Program:
    ct = numbers(3, *conv_p.type_of(x, w, **params).shape)
    return make_program(with_gradients(params))(x, w, ct)


@pytest.mark.parametrize("seed", range(8))
def test_calls_compute_what_convolutions_do(seed: int) -> None:
    """Also the transposes, whatever they are taken for."""
    for x, w, params in random_cases(seed, 8):
        program = program_of(x, w, params)
        args = [x, w, numbers(4, *program.in_avals[2].shape)]
        found = optimised(program)
        assert len(kinds(found)) == 3 or params["feature_groups"] > 1
        for a, b in zip(run(found, args), run(program, args), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


IMAGE, WINDOW = numbers(0, 4, 6, 11, 9), numbers(1, 8, 6, 3, 3)


def gradients(**options: Any) -> Any:
    return fgrad.grad(lambda x, w: np.sum(np.sin(nn.conv(x, w, **options))), argnums=(0, 1))


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({"padding": 1}, 0),
        ({"strides": 2}, 0),
        ({"strides": (2, 1), "dilation": (1, 2), "padding": (2, 1)}, 0),
        # one of x for two calls, and the gradient with respect to x is cropped
        ({"strides": 2, "padding": ((0, 1), (1, 0))}, 2),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_are_calls_and_nothing_else(options: Any, moves: int, groups: int) -> None:
    w = WINDOW[:, : 6 // groups].copy()
    program = make_program(gradients(**options, groups=groups))(IMAGE, w)
    found = [e.prim.name for e in optimised(program).eqns]
    assert sorted(kinds(optimised(program))) == ["data", "filter", "forward"]
    assert found.count("pad") == moves or moves == 2
    assert not {"permute", "reverse", "conv"} & set(found)


def test_gradients_for_single_samples_stay() -> None:
    """Those with respect to x are one call for all; what has a group for each sample is no call."""
    program = make_program(fgrad.vmap(gradients(), in_axes=(0, None)))(IMAGE[:, None], WINDOW)
    found = optimised(program)
    assert sorted(kinds(found)) == ["data", "forward"]
    assert [e.params["feature_groups"] for e in found.eqns if e.prim is conv_p] == [4]


def test_windows_as_large_as_images_are_no_gradients() -> None:
    program = make_program(nn.conv)(IMAGE, numbers(1, 5, 6, 11, 9))
    assert kinds(optimised(program)) == ["forward"]


def test_what_stays() -> None:
    for x, w in (
        (numbers(0, 4, 6), numbers(1, 8, 6)),
        (numbers(0, 2, 3, 5, 5, 5, 5), numbers(1, 4, 3, 2, 2, 2, 2)),
        (numbers(0, 0, 3, 5), numbers(1, 4, 3, 2)),
    ):
        rank = x.ndim - 2
        ones, none = (1,) * rank, ((0, 0),) * rank
        program = make_program(lambda x, w: conv(x, w, ones, none, ones, ones))(x, w)  # noqa: B023
        assert kinds(optimised(program)) == []
    assert BACKENDS["cpu"].convs(program) is program


# --- the calls ------------------------------------------------------------------------------------

TOLERANCE = {"d": 1e-10, "f": 1e-4, "e": 2e-2}


@pytest.mark.parametrize("dtype", "dfe")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_calls_on_the_device(libraries: StubLibraries, rank: int, dtype: str) -> None:
    x = numbers(0, 2, 4, *(7, 6, 5)[:rank], dtype=dtype)
    w = numbers(1, 6, 2, *(3, 2, 2)[:rank], dtype=dtype)
    layout = "NC" + "DHW"[-rank:]

    def pulled(x: Any, w: Any) -> Any:
        y, back = fgrad.vjp(lambda x, w: nn.conv(x, w, 2, "SAME", 1, 2, layout), x, w)
        return y, *back(np.sin(y))

    check(pulled, x, w, calls=1, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    done = libraries.cudnn.log
    assert [call.name for call in done] == list(KINDS) and {call.groups for call in done} == {2}


def lenet(p: Any, x: Any) -> Any:
    for k, b in ((p["k"], p["b"]), (p["l"], p["c"])):
        x = nn.max_pool(nn.relu(nn.conv(x, k, padding=2) + b[:, None, None]), 2)
    return np.tanh(x.reshape(x.shape[0], -1) @ p["w"]) @ p["v"]


def lenet_parameters() -> dict[str, np.ndarray]:
    shapes = {"k": (3, 1, 5, 5), "b": (3,), "l": (4, 3, 5, 5), "c": (4,), "w": (36, 8), "v": (8, 5)}
    return {
        n: numbers(k, *s, dtype="f") * np.float32(0.3) for k, (n, s) in enumerate(shapes.items())
    }


def step(p: Any, x: Any, y: Any) -> Any:
    """One of a descent."""

    def loss(p: Any) -> Any:
        z = lenet(p, x)
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), 1)) - np.take_along_axis(z, y[:, None], 1)[:, 0])

    value, g = fgrad.value_and_grad(loss)(p)
    return fgrad.tree.map(lambda p, g: p - 0.1 * g, p, g), value


def test_training(libraries: StubLibraries) -> None:
    p, x, y = lenet_parameters(), numbers(9, 2, 1, 12, 12, dtype="f"), np.array([4, 2])
    q, on_device = fgrad.device_put(p), fgrad.jit(step, device="cuda")
    for _ in range(2):
        p, wanted = step(p, x, y)
        q, found = on_device(q, x, y)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4)
    for a, b in zip(fgrad.tree.leaves(q), fgrad.tree.leaves(p), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-3, atol=1e-5)
    names = [call.name for call in libraries.cudnn.log]
    # images have no gradient: one less for the first layer
    assert [names.count(name) for name in KINDS] == [4, 2, 4]


def test_scalars_and_loops(libraries: StubLibraries) -> None:
    def smoothed(x: Any, w: Any) -> Any:
        return fgrad.lax.fori_loop(0, 3, lambda _, x: np.tanh(nn.conv(x, w, padding=1)), x)

    x, w = numbers(0, 2, 3, 6, 5), numbers(1, 3, 3, 3, 3)
    check(smoothed, x, w, calls=2, rtol=1e-9)
    assert len(libraries.cudnn.log) == 6


def test_numbers_are_rounded_as_asked(libraries: StubLibraries) -> None:
    """TF32 only where it is asked for; algorithms that give the same bits in every run."""
    for dtype, tf32, kind in (
        ("f", False, cudnn.FMA_MATH),
        ("f", True, cudnn.DEFAULT_MATH),
        ("d", False, cudnn.DEFAULT_MATH),
        ("e", False, cudnn.TENSOR_OP_MATH),
    ):
        libraries.cudnn.log.clear()
        with config.override(tf32=tf32):
            fgrad.jit(gradients(padding=1), device="cuda")(
                IMAGE.astype(dtype), WINDOW.astype(dtype)
            )
        assert {call.math_type for call in libraries.cudnn.log} == {kind}
        assert {call.algorithm for call in libraries.cudnn.log} == {1}


def test_descriptors_end_with_the_program(libraries: StubLibraries) -> None:
    f = compiled(gradients(), IMAGE, WINDOW)
    gc.collect()
    assert libraries.cudnn.alive == 3 * 4
    del f
    gc.collect()
    assert libraries.cudnn.alive == 0


# --- without it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [KINDS, KINDS[:1], KINDS[1:]])
def test_refusals_fall_back(libraries: StubLibraries, refused: tuple[str, ...]) -> None:
    libraries.cudnn.refused = set(refused)
    check(gradients(padding=1), numbers(0, 2, 1, 6, 5), numbers(1, 2, 1, 3, 3), calls=1, rtol=1e-9)
    assert {call.name for call in libraries.cudnn.log} == set(KINDS) - set(refused)


def calls_of_convs(*args: np.ndarray) -> int:
    return compiled(gradients(), *args).describe().count("cudnnConvolution")


def test_where_no_calls_are_made(libraries: StubLibraries, monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls_of_convs(IMAGE, WINDOW) == 3
    with config.override(cudnn=False):
        assert calls_of_convs(IMAGE, WINDOW) == 0
    monkeypatch.setattr(cudnn, "WORKSPACE", 0)
    assert calls_of_convs(IMAGE, WINDOW) == 1  # IMPLICIT_GEMM needs none
    monkeypatch.setattr(cudnn, "LEAST_WORK", 1 << 22)
    assert calls_of_convs(IMAGE, WINDOW) == 0


def test_a_library_that_fails_is_a_card(libraries: StubLibraries) -> None:
    c = Convolution("forward", np.dtype("f"), (1, 2, 9), (3, 2, 4), (1, 3, 9), (1,), (1,), (1,), 1)
    with pytest.raises(DeviceError, match="status 2000: invalid value"):
        cudnn.takes(c)
    assert status_text("cudnnCreate", 1008) == "cudnnCreate failed with status 1008: not ready."


def test_a_machine_without_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "LEAST_WORK", 0)
    asked: list[str] = []

    def load(name: str) -> Any:
        asked.append(name)
        raise RuntimeError

    monkeypatch.setattr(library_functions.pathfinder, "load_nvidia_dynamic_lib", load)
    library_functions.use(Installed())
    before = driver.use(StubDriver())
    try:
        for _ in range(2):
            check(lambda x, w: nn.conv(x, w), IMAGE[:1], WINDOW[:1], calls=1, rtol=1e-9)
    finally:
        library_functions.use(None)
        driver.use(before)
    assert asked.count("cudnn") == 1


# --- the library itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_library_knows_the_same_shapes(seed: int, libraries: StubLibraries) -> None:
    """Descriptors are accepted, and a convolution has the result's shape: no device is needed."""
    f = Functions(Installed())
    if not f.has("cudnn"):
        pytest.skip("cuDNN is not installed")
    address = f.library.address("cudnnGetConvolutionNdForwardOutputDim")
    types = [*[ctypes.c_void_p] * 3, ctypes.c_int32, ctypes.c_void_p]
    ask = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)
    for case in random_cases(seed, 10):
        for e in optimised(program_of(*case)).eqns:
            if e.prim is library_conv_p:
                c = convolution_of(*[a.aval for a in e.inputs], **e.params)
                c = c._replace(dtype=np.dtype("dfe"[seed]))
                made, rank = cudnn.Descriptors(f, c), max(len(c.y), 4)
                sizes = (ctypes.c_int32 * rank)()
                arrays = made.arrays["x"], made.arrays["w"]
                assert ask(made.convolution, *arrays, rank, sizes) == 0
                assert tuple(sizes) == (*c.y[:2], *[1] * (rank - len(c.y)), *c.y[2:])
