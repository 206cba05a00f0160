"""L7. `scipy.spatial.transform` with derivatives: rotations of space, and paths between them.

    from fgrad.scipy.spatial.transform import Rotation
    fgrad.grad(lambda v: Rotation.from_rotvec(v).apply(point)[0])(np.zeros(3))

A rotation is a unit quaternion (x, y, z, w), which SciPy's methods are formulas of; formulas that
divide by an angle have their limits where it vanishes, and derivatives there.  Rotations are trees
with the quaternion as leaf, so they are arguments and results of `jit`, `vmap` and others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fgrad import random as keys
from fgrad import tree
from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_operand, convert, inexact, promote, user_line
from fgrad.random.keys import Key
from fgrad.scipy._either import others, refusal
from fgrad.trace import Value
from fgrad.typing import ArrayLike

plain = lazy_module("scipy.spatial.transform")

__getattr__ = others(__name__, plain)

_AXES = "xyz"


def _floats(x: ArrayLike) -> Value:
    """Real numbers in single or double precision."""
    x = inexact(as_operand(x))
    if x.dtype.kind == "c":
        raise ArgumentError("spatial.transform: complex numbers are no rotations.", user_line())
    return convert(x, np.dtype(np.float32)) if x.dtype == np.float16 else x


def _vectors(name: str, x: ArrayLike, *shape: int) -> Value:
    """An array whose last axes have a shape."""
    x = _floats(x)
    if x.shape[-len(shape) :] != shape or len(x.shape) > len(shape) + 1:
        wanted = " or ".join([str(shape), str(("n", *shape)).replace("'", "")])
        raise ShapeError(
            f"Rotation.{name}: an array of shape {x.shape}.",
            (*user_line(), ("write", f"an array of shape {wanted}")),
        )
    return x


def _dot(x: Value, y: Value) -> Value:
    return np.sum(x * y, axis=-1, keepdims=True)


def _unit(q: Value) -> Value:
    """Quaternions of length 1; zero ones become NaN."""
    return q / np.sqrt(_dot(q, q))


def _product(p: Value, q: Value) -> Value:
    """The quaternion of the rotation by q and then by p."""
    v, a, w, b = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = a * w + b * v + np.cross(v, w)
    return np.concatenate([vector, a * b - _dot(v, w)], axis=-1)


def _over_angle(x: Value, square: Value, formula: Value, series: Sequence[float]) -> Value:
    """A formula of the angle, and near 0 its power series in the square of the angle."""
    near = 0.0
    for c in reversed(series):
        near = near * square + c
    return np.where(x, near, formula)


def _half_sinc(square: Value) -> Value:
    """sin(t / 2) / t of t^2."""
    small = square < 1e-3
    t = np.sqrt(np.where(small, 1.0, square))
    series = [1 / 2, -1 / 48, 1 / 3840, -1 / 645120]
    return _over_angle(small, square, np.sin(t / 2) / t, series)


def _cosine(square: Value) -> Value:
    """cos(t / 2) of t^2."""
    small = square < 1e-3
    t = np.sqrt(np.where(small, 1.0, square))
    series = [1, -1 / 8, 1 / 384, -1 / 46080, 1 / 10321920]
    return _over_angle(small, square, np.cos(t / 2), series)


def _angle_over_sine(square: Value, w: Value) -> Value:
    """t / sin(t / 2) of |v|^2 = sin(t / 2)^2 and w = cos(t / 2) >= 0."""
    small = square < 1e-3
    s = np.sqrt(np.where(small, 1.0, square))
    series = [2, 1 / 3, 3 / 20, 5 / 56, 35 / 576]
    return _over_angle(small, square, 2 * np.arctan2(s, np.where(small, 1.0, w)) / s, series)


def _of_rotvec(v: Value) -> Value:
    square = _dot(v, v)
    return np.concatenate([v * _half_sinc(square), _cosine(square)], axis=-1).astype(v.dtype)


def _of_matrix(m: Value) -> Value:
    """The quaternion whose largest part is found first (Markley 2008)."""
    trace = np.trace(m, axis1=-2, axis2=-1)[..., None]
    diagonal = np.stack([m[..., k, k] for k in range(3)], axis=-1)
    choice = np.argmax(np.concatenate([diagonal, trace], axis=-1), axis=-1)[..., None]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - trace[..., 0] + 2 * m[..., i, i], j: m[..., j, i] + m[..., i, j]}
        parts |= {k: m[..., k, i] + m[..., i, k], 3: m[..., k, j] - m[..., j, k]}
        candidates.append(np.stack([parts[n] for n in range(4)], axis=-1))
    turn = [m[..., (k + 2) % 3, (k + 1) % 3] - m[..., (k + 1) % 3, (k + 2) % 3] for k in range(3)]
    candidates.append(np.stack([*turn, 1 + trace[..., 0]], axis=-1))
    chosen = candidates[3]
    for k in range(3):
        chosen = np.where(choice == k, candidates[k], chosen)
    return _unit(chosen)


def _to_matrix(q: Value) -> Value:
    x, y, z, w = [q[..., k] for k in range(4)]
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _sequence(seq: str) -> tuple[str, bool]:
    """The axes of Euler angles in small letters, and whether they turn with the body."""
    within = seq.isupper()
    low = seq.lower()
    legal = 1 <= len(seq) <= 3 and (within or seq.islower()) and {*low} <= {*_AXES}
    if not legal or any([a == b for a, b in itertools.pairwise(low)]):
        raise ArgumentError(
            f"Rotation: the axes {seq!r} of Euler angles.",
            (*user_line(), ("write", 'up to three of "xyz" (fixed) or of "XYZ" (of the body)')),
        )
    return low, within


def _about(axis: str, angle: Value) -> Value:
    """The quaternion of a rotation about an axis of coordinates."""
    zero, half = angle * 0, angle / 2
    parts = [np.sin(half) if name == axis else zero for name in _AXES]
    return np.stack([*parts, np.cos(half)], axis=-1)


def _euler_angles(q: Value, seq: str, within: bool) -> Value:
    """The three angles of quaternions (Bernardes and Viollet 2022)."""
    order = seq[::-1] if within else seq
    i, j, k = [_AXES.index(a) for a in order]
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) // 2
    a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
    if not proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    low, high = np.abs(middle) <= 1e-7, np.abs(middle - math.pi) <= 1e-7
    none = np.logical_or(low, high)
    one = np.ones_like(a)
    half = np.arctan2(np.where(high, 0 * b, b), np.where(high, one, a))
    other = np.arctan2(np.where(low, 0 * d, d), np.where(low, one, c))
    outer = 2 * np.where(low, half, other * (1 if within else -1))
    # the first and the third angle; where they turn about one axis the third is 0
    ends = (half + other, half - other) if within else (half - other, half + other)
    first, third = np.where(none, outer, ends[0]), np.where(none, 0.0, ends[1])
    if not proper:
        first, third = (first * sign, third) if within else (first, third * sign)
        middle = middle - math.pi / 2
    angles = np.stack([first, middle, third], axis=-1)
    turns = np.where(angles < -math.pi, 2 * math.pi, np.where(angles > math.pi, -2 * math.pi, 0.0))
    return (angles + turns).astype(q.dtype)


@tree.register_node_class
class Rotation:
    """Rotations of space, of SciPy's names and meaning; one, or a sequence of them.

    Arguments:
        quat: quaternions (4,) or (n, 4), scalar part last.
        normalize: whether they are brought to length 1.
        copy: of no meaning.
        scalar_first: whether the scalar part stands first.

    Example:
        >>> quarter = Rotation.from_euler("z", 90, degrees=True)
        >>> quarter.apply(np.array([1.0, 0.0, 0.0])).round(9)
        array([0., 1., 0.])
    """

    def __init__(
        self, quat: ArrayLike, normalize: bool = True, copy: bool = True, scalar_first: bool = False
    ) -> None:
        q = _vectors("from_quat", quat, 4)
        q = np.concatenate([q[..., 1:], q[..., :1]], axis=-1) if scalar_first else q
        self.quat = _unit(q) if normalize else q

    @classmethod
    def _of(cls, quat: Value) -> Rotation:
        made = object.__new__(cls)
        made.quat = quat
        return made

    def tree_flatten(self) -> tuple[tuple[Value], None]:
        """The quaternion is the one leaf."""
        return (self.quat,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Sequence[Value]) -> Rotation:
        """The rotation of a quaternion, or of what stands for one."""
        return cls._of(children[0])

    # --- made of numbers

    @classmethod
    def from_quat(cls, quat: ArrayLike, *, scalar_first: bool = False) -> Rotation:
        """Rotations by quaternions, which need not be of length 1."""
        return cls(quat, scalar_first=scalar_first)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, *, assume_valid: bool = False) -> Rotation:
        """Rotations by matrices; those that are not orthogonal are replaced by the nearest ones."""
        m = _vectors("from_matrix", matrix, 3, 3)
        if not assume_valid:
            u, _, vh = np.linalg.svd(m)
            m = np.where(_orthogonal(m), m, u @ vh)
        return cls._of(_of_matrix(m))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about the vectors, by angles that are their lengths."""
        v = _vectors("from_rotvec", rotvec, 3)
        return cls._of(_of_rotvec(np.deg2rad(v) if degrees else v))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations by modified Rodrigues parameters, tan(angle / 4) times the axis."""
        v = _vectors("from_mrp", mrp, 3)
        square = _dot(v, v)
        return cls._of(np.concatenate([2 * v, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations by angles about up to three axes: fixed ones "xyz", or those of the body "XYZ".

        Arguments:
            seq: the axes.
            angles: a number, or an array whose last axis has as many angles as there are axes.
            degrees: whether angles are in degrees.
        """
        low, within = _sequence(seq)
        a = _floats(angles)
        a = a[None] if not a.shape else a
        if a.shape[-1] != len(seq) or len(a.shape) > 2:
            raise ShapeError(
                f"Rotation.from_euler: {seq!r} and angles of shape {np.shape(angles)}."
            )
        a = np.deg2rad(a) if degrees else a
        turns = [_about(axis, a[..., k]) for k, axis in enumerate(low)]
        q = turns[0]
        for turn in turns[1:]:
            q = _product(q, turn) if within else _product(turn, q)
        return cls._of(q)

    @classmethod
    def identity(cls, num: int | None = None) -> Rotation:
        """Rotations by nothing."""
        return cls._of(np.broadcast_to([0.0, 0.0, 0.0, 1.0], (4,) if num is None else (num, 4)))

    @classmethod
    def random(cls, num: int | None = None, rng: Key | None = None) -> Rotation:
        """Rotations of equal probability, by a key as `rng`."""
        if rng is None:
            raise refusal(
                "Rotation.random without a key",
                "random numbers come from a key.",
                "Rotation.random(num, rng=fgrad.random.key(0))",
            )
        return cls(keys.normal(rng, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation] | Rotation) -> Rotation:
        """One sequence of several rotations."""
        if isinstance(rotations, Rotation):
            return rotations
        return cls._of(np.concatenate([np.atleast_2d(r.quat) for r in rotations]))

    # --- as numbers

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Value:
        """Quaternions; if `canonical`, of each two the one whose last nonzero part is positive."""
        q = self.quat
        if canonical:
            sign = np.ones(q.shape[:-1], q.dtype)
            for k in (2, 1, 0, 3):
                part = q[..., k]
                sign = np.where(part != 0, np.where(part < 0, -1.0, 1.0).astype(q.dtype), sign)
            q = q * sign[..., None]
        return np.concatenate([q[..., 3:], q[..., :3]], axis=-1) if scalar_first else q

    def as_matrix(self) -> Value:
        """Matrices."""
        return _to_matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Value:
        """The axes times the angles, which are at most pi."""
        q = self.as_quat(canonical=True)
        v = q[..., :3]
        out = (v * _angle_over_sine(_dot(v, v), q[..., 3:])).astype(q.dtype)
        return np.rad2deg(out) if degrees else out

    def as_mrp(self) -> Value:
        """Modified Rodrigues parameters, of length 1 at the most."""
        q = np.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(
        self, seq: str, degrees: bool = False, *, suppress_warnings: bool = False
    ) -> Value:
        """Angles about three axes; where the first and the third are one, one of them is 0."""
        low, within = _sequence(seq)
        if len(low) != 3:
            raise ArgumentError(f"Rotation.as_euler: {seq!r} are not three axes.", user_line())
        angles = _euler_angles(self.quat, low, within)
        return np.rad2deg(angles) if degrees else angles

    def magnitude(self) -> Value:
        """The angles, from 0 to pi."""
        v = self.quat[..., :3]
        square = np.sum(v * v, axis=-1)
        some = square > 0
        length = np.where(some, np.sqrt(np.where(some, square, 1.0)), square)
        return 2 * np.arctan2(length, np.abs(self.quat[..., 3])).astype(v.dtype)

    # --- what rotations do

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Value:
        """The vectors, rotated: one or many by one rotation, or one by each."""
        v, q = promote([_vectors("apply", vectors, 3), self.quat])
        matrix = _to_matrix(q)
        matrix = np.swapaxes(matrix, -1, -2) if inverse else matrix
        return np.sum(matrix * v[..., None, :], axis=-1)

    def inv(self) -> Rotation:
        """The rotations back."""
        return self._of(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def __mul__(self, other: Rotation) -> Rotation:
        if not isinstance(other, Rotation):
            return NotImplemented
        p, q = promote([self.quat, other.quat])
        return self._of(_unit(_product(*np.broadcast_arrays(p, q))))

    def __pow__(self, n: ArrayLike, modulus: None = None) -> Rotation:
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        return self._of(_of_rotvec(self.as_rotvec() * as_operand(n)))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation that is nearest to all, by an eigenvector (Markley et al. 2007)."""
        q = np.atleast_2d(self.quat)
        w = np.ones(q.shape[0], q.dtype) if weights is None else convert(_floats(weights), q.dtype)
        return self._of(np.linalg.eigh((q.T * w) @ q)[1][:, -1])

    def approx_equal(
        self, other: Rotation, atol: float | None = None, degrees: bool = False
    ) -> Value:
        """Whether the angle between rotations is less than `atol`."""
        limit = 1e-8 if atol is None else math.radians(atol) if degrees else atol
        return (other * self.inv()).magnitude() < limit

    @property
    def single(self) -> bool:
        """Whether it is one rotation, and no sequence."""
        return len(self.quat.shape) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sequence."""
        return self.quat.shape[:-1]

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __getitem__(self, index: object) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return self._of(at(self.quat)[index].get())

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self.quat!r})"


def _orthogonal(m: Value) -> Value:
    """Whether matrices are rotations to rounding, as SciPy asks."""
    error = np.abs(m @ np.swapaxes(m, -1, -2) - np.eye(3, dtype=m.dtype))
    return np.all(error < 1e-12, axis=(-2, -1), keepdims=True)


class Slerp:
    """Rotations between others, at a constant speed from each to the next.

    Arguments:
        times: ascending numbers, as many as there are rotations.
        rotations: two or more.

    Example:
        >>> turns = Rotation.from_euler("z", np.array([[0.0], [90.0]]), degrees=True)
        >>> Slerp([0.0, 1.0], turns)(0.5).as_euler("zyx", degrees=True).round(6)
        array([45.,  0.,  0.])
    """

    def __init__(self, times: ArrayLike, rotations: Rotation) -> None:
        if rotations.single or len(rotations) < 2:
            raise ArgumentError("Slerp: fewer than two rotations.", user_line())
        self.times = _floats(times)
        if self.times.shape != (len(rotations),):
            raise ShapeError(
                f"Slerp: times of shape {self.times.shape} for {len(rotations)} rotations.",
                user_line(),
            )
        self.rotations = rotations[:-1]
        self.rotvecs = (rotations[:-1].inv() * rotations[1:]).as_rotvec()

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotation at a time, or at each of them."""
        t = _floats(times)
        if len(t.shape) > 1:
            raise ShapeError(f"Slerp: times of shape {t.shape}.", user_line())
        k = np.clip(np.searchsorted(self.times, t) - 1, 0, len(self.rotations) - 1)
        starts, ends = at(self.times)[k].get(), at(self.times)[k + 1].get()
        inside = (t >= self.times[0]) & (t <= self.times[-1])
        part = np.where(inside, (t - starts) / (ends - starts), math.nan)
        turn = at(self.rotvecs)[k].get() * part[..., None]
        return self.rotations[k] * Rotation.from_rotvec(turn)


__dir__ = names_shown(__name__)
