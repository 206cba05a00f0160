"""Collectives as calls of NCCL: which, of what, between which places; and who is asked before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from emulator.driver import StubDriver
from emulator.libraries import StubLibraries
from emulator.nccl import Called, Mirror, NcclStub
from real_device import stub_device

import fgrad
from fgrad import lax
from fgrad.errors import DeviceError, RankWarning
from fgrad.ops import collectives as ops
from fgrad.trace import Value
from fgrad.tracing.ranks import AXES

N, HERE = 3, 1
IDENTITIES = [bytes([k] * 16) for k in range(N)]


class Places:
    """This place along an axis, beside others that say what a test lets them."""

    name, number, size, index = "i", 0, N, HERE

    def __init__(self, identities: list[bytes] | None) -> None:
        self.identities = identities

    def told(self, x: bytes) -> list[bytes]:
        """Identities of devices when all are asked for them, then the identity that counts."""
        if len(x) in (0, 16) and self.identities is not None:
            return self.identities
        return [bytes([1]) + x[1:]] * self.size

    def __getattr__(self, name: str) -> Any:
        """At the host all places have what this one has."""
        if name == "psum":
            return lambda x: x * self.size
        raise AttributeError(name)


@pytest.fixture
def libraries() -> Iterator[StubLibraries]:
    made = StubLibraries(NcclStub(lambda size, rank, _identity: Mirror(rank, size)))
    with stub_device(StubDriver(), made):
        yield made
        assert not made.nccl or not made.nccl.errors
    AXES.pop("i", None)


def collective(prim: Any, **params: Any) -> Callable[[Value], Value]:
    """A collective over the axis at this place."""
    return fgrad.jit(
        lambda x: fgrad.trace.bind(prim, x, axis="i", places=N, **params), device="cuda"
    )


CALLS: dict[str, tuple[Any, dict[str, Any], list[Called]]] = {
    "psum": (ops.psum_p, {}, [Called("AllReduce", 48)]),
    "psum_scatter": (ops.psum_scatter_p, {}, [Called("ReduceScatter", 48)]),
    "all_gather": (ops.all_gather_p, {}, [Called("AllGather", 48)]),
    "pmax": (ops.pmax_p, {}, [Called("AllGather", 48)]),
    "all_to_all": (
        ops.all_to_all_p,
        {},
        [Called(name, 16, k) for k in (0, 2) for name in ("Send", "Recv")],
    ),
    "ppermute": (
        ops.ppermute_p, {"perm": ((0, 1), (1, 2))}, [Called("Send", 48, 2), Called("Recv", 48, 0)]
    ),
    "ppermute to nobody": (ops.ppermute_p, {"perm": ((0, 1),)}, [Called("Recv", 48, 0)]),
    "ppermute from nobody": (ops.ppermute_p, {"perm": ((1, 2),)}, [Called("Send", 48, 2)]),
    "ppermute of others": (ops.ppermute_p, {"perm": ((0, 2),)}, []),
    "ppermute to itself": (ops.ppermute_p, {"perm": ((1, 1),)}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, libraries: StubLibraries) -> None:
    prim, params, want = CALLS[name]
    AXES["i"] = Places(IDENTITIES)
    x = np.arange(6.0).reshape(3, 2)
    got = collective(prim, **params)(x)
    assert libraries.nccl is not None and libraries.nccl.log == want
    results: dict[str, Any] = {
        "psum": 3 * x, "psum_scatter": 3 * x[1], "all_gather": np.stack([x] * 3), "pmax": x,
        "all_to_all": [[0, 0], x[1], [0, 0]], "ppermute to itself": x,
    }  # fmt: skip
    np.testing.assert_array_equal(got.numpy(), results.get(name, np.zeros((3, 2))))


SIZES = {"e": 4, "h": 4, "H": 4, "B": 4}  # what NCCL rounds in each step, or does not know


@pytest.mark.parametrize("char", "dfqiBDFehH")
def test_sums_of_each_type(char: str, libraries: StubLibraries) -> None:
    AXES["i"] = Places(IDENTITIES)
    x = np.arange(4).astype(char)
    got = collective(ops.psum_p)(x).numpy()
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, 3 * x)
    assert libraries.nccl is not None
    assert libraries.nccl.log == [Called("AllReduce", 4 * SIZES.get(char, x.itemsize))]


def test_nothing_of_nothing(libraries: StubLibraries) -> None:
    AXES["i"] = Places(IDENTITIES)
    assert collective(ops.psum_p)(np.zeros((0, 2))).shape == (0, 2)
    assert libraries.nccl is not None and not libraries.nccl.log


def test_the_index_is_known(libraries: StubLibraries) -> None:
    AXES["i"] = Places(IDENTITIES)
    f = fgrad.jit(
        lambda x: x + fgrad.trace.bind(ops.axis_index_p, axis="i", places=N), device="cuda"
    )
    np.testing.assert_array_equal(f(np.arange(2)).numpy(), [1, 2])


@pytest.mark.parametrize(
    ("identities", "words"),
    [
        ([IDENTITIES[0], IDENTITIES[1], b""], "place 2 has no NCCL"),
        ([IDENTITIES[0]] * 3, "several of its places have one GPU"),
    ],
)
def test_who_meets_on_the_host(
    identities: list[bytes], words: str, libraries: StubLibraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    AXES["i"] = Places(identities)
    f = collective(ops.psum_p)
    np.testing.assert_array_equal(f(np.arange(3.0)).numpy(), [0, 3, 6])
    assert libraries.nccl is not None and not libraries.nccl.log
    assert "psum on the host" in fgrad.inspect(f)(np.arange(3.0)).describe()
    monkeypatch.setattr(Places, "index", 0)  # the first place alone says so
    others = StubLibraries(NcclStub(lambda *_: Mirror(0, N)))
    with stub_device(StubDriver(), others), pytest.warns(RankWarning, match=words):
        collective(ops.psum_p)(np.arange(5.0))


def test_a_rank_that_ended(libraries: StubLibraries) -> None:
    AXES["i"] = Places(IDENTITIES)
    f = collective(ops.psum_p)
    f(np.arange(3.0))
    stub = libraries.nccl
    assert stub is not None

    class Lost(Exception):
        status = 6

    def lost(*_: Any) -> None:
        raise Lost

    stub._comms[1].allgather = lost  # type: ignore[union-attr]
    with pytest.raises(DeviceError, match="ncclAllReduce failed with status 6: another rank"):
        f(np.arange(3.0)).numpy()
    stub.errors.clear()


def test_loops_wait_on_the_host(libraries: StubLibraries) -> None:
    """A program that meets others is no graph."""
    AXES["i"] = Places(IDENTITIES)

    def body(c: Any) -> Any:
        return fgrad.trace.bind(ops.psum_p, c, axis="i", places=N)

    f = fgrad.jit(lambda x: lax.while_loop(lambda c: c[0] < 50, body, x), device="cuda")
    for _ in range(4):
        np.testing.assert_array_equal(f(np.array([1.0, 2.0])).numpy(), [81, 162])
    assert "no graph" in fgrad.inspect(f)(np.array([1.0, 2.0])).describe()
