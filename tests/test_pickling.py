"""What transforms return is pickled: by name, as the call that made it, or as a tape."""

from __future__ import annotations

import copy
import errno
import functools
import importlib
import inspect
import io
import marshal
import pickle
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import numpy as np
import pickle_cases
import pytest
from pickle_cases import LINEAR, TRANSFORMED, M, X, loss, vector

import fgrad
from fgrad import errors, optim, tree
from fgrad.errors import FgradError, UnpicklableError
from fgrad.scipy import interpolate as ip

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def bits(out: Any) -> Any:
    """All that a result is: the structure, and dtype, shape and bits of each leaf."""
    out = out.toarray() if hasattr(out, "toarray") else out
    leaves, treedef = tree.flatten(out)
    if any(type(x).__name__ == "Program" for x in leaves):
        return [str(x) for x in leaves]
    arrays = [np.asarray(x) for x in leaves]
    return str(treedef), [(x.dtype, x.shape, x.tobytes()) for x in arrays]


def called(case: pickle_cases.Case) -> Any:
    """The result for arguments that are not written into."""
    return bits(case.function(*copy.deepcopy(case.args)))


def again(x: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(x, protocol))


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_functions(name: str) -> None:
    case = TRANSFORMED[name]
    expected = called(case)
    for protocol in PROTOCOLS:
        loaded = again(case.function, protocol)
        twice = again(loaded, protocol)
        assert called(case._replace(function=loaded)) == expected
        assert called(case._replace(function=twice)) == expected
    by_value = cloudpickle.loads(cloudpickle.dumps(case.function))
    assert called(case._replace(function=by_value)) == expected


@pytest.mark.parametrize("name", LINEAR)
def test_linear_maps_at_a_point(name: str) -> None:
    fun, x = LINEAR[name]
    y, pullback = fgrad.vjp(fun, x)
    _, pushforward = fgrad.linearize(fun, x)
    for f, ones in (
        (pullback, tree.map(np.ones_like, y)),
        (pushforward, tree.map(np.ones_like, x)),
    ):
        expected = bits(f(ones))
        for protocol in PROTOCOLS:
            assert bits(again(f, protocol)(ones)) == expected
        assert bits(again(again(f))(ones)) == expected
        assert bits(cloudpickle.loads(cloudpickle.dumps(f))(ones)) == expected
        assert bits(copy.deepcopy(f)(ones)) == expected


MAKERS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (fgrad, fgrad.optim, fgrad.sparse, fgrad.checkpoint_policies, fgrad.testing)
    for name in getattr(module, "__all__", vars(module))
    if isinstance(getattr(module, name), types.FunctionType)
    and not getattr(module, name).__module__.startswith(("fgrad.base", "fgrad.transforms.core"))
}
GIVEN = (
    (loss,),
    (),
    (0.5,),
    (0.5, 0.5),
    (1.0, 2, 0.5),
    (0.0, 1.0, 2, 4),
    ([loss], []),
    (loss, loss),
)


def made_by(maker: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return maker(*args)
    except Exception:
        return None


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_makes_functions_makes_such_that_are_pickled(name: str) -> None:
    for args in GIVEN:
        made = made_by(MAKERS[name], args)
        for f in made if isinstance(made, tuple) else (made,):
            if callable(f) and f is not loss:
                assert callable(again(f))


def test_programs() -> None:
    program = fgrad.make_program(pickle_cases.with_jitted_customs)(X)
    loaded = again(program)
    assert str(loaded) == str(program)
    assert bits(fgrad.trace.run(loaded, [X])) == bits(fgrad.trace.run(program, [X]))


def test_a_pullback_needs_no_function_to_be_pickled() -> None:
    _, pullback = fgrad.vjp(lambda x: np.sin(x) * x, X)
    loaded = again(pullback)
    assert bits(loaded(X)) == bits(pullback(X))
    assert bits(fgrad.jit(loaded)(X)) == bits(fgrad.jit(pullback)(X))
    assert bits(fgrad.vmap(loaded)(M)) == bits(fgrad.vmap(pullback)(M))


def test_a_pullback_holds_the_residuals_alone() -> None:
    x = np.ones(10_000)
    _, pullback = fgrad.vjp(lambda x: np.sum(np.sin(x)), x)
    assert len(pickle.dumps(pullback)) < 2.5 * x.nbytes


NAMED = {
    "grad": pickle_cases.decorated,
    "three": pickle_cases.decorated_thrice,
    "method": pickle_cases.Model.slope,
}


@pytest.mark.parametrize("name", NAMED)
def test_what_a_name_leads_to_is_itself(name: str) -> None:
    f = NAMED[name]
    assert again(f) is f and copy.copy(f) is f and copy.deepcopy(f) is f


def test_a_function_behaves_as_one() -> None:
    f = fgrad.grad(pickle_cases.weighted)
    assert (f.__name__, f.__qualname__, f.__module__) == ("weighted", "weighted", "pickle_cases")
    assert f.__wrapped__ is pickle_cases.weighted and inspect.unwrap(f) is pickle_cases.weighted
    assert list(inspect.signature(f).parameters) == ["w", "x"]
    assert repr(f) == "<grad(weighted)>"
    assert f == f and f != fgrad.grad(pickle_cases.weighted) and len({f, f}) == 1
    assert weakref.ref(f)() is f
    assert copy.deepcopy([f, f])[0] is not f
    f.note = "kept"
    assert f.note == "kept"


def test_methods() -> None:
    model = pickle_cases.Model(2.0)
    assert model.slope.__self__ is model and model.slope == model.slope
    loaded = again(model.slope)
    assert loaded.__self__.w == 2.0 and loaded.__func__ is pickle_cases.Model.slope
    assert copy.deepcopy(model.slope).__self__ is not model


# --- by value


def local_cases(scale: Any) -> dict[str, Callable[..., Any]]:
    """Functions without names elsewhere."""

    def inner(x: Any) -> Any:
        return np.sum(np.sin(scale * x))

    class Local:
        def __call__(self, x: Any) -> Any:
            return np.sum(scale * x**2)

        @functools.partial(fgrad.grad, argnums=1)
        def slope(self, x: Any) -> Any:
            return self(x)

    return {
        "lambda": fgrad.grad(lambda x: np.sum(scale * x)),
        "closure": fgrad.grad(inner),
        "jit": fgrad.jit(inner),
        "jit(grad)": fgrad.jit(fgrad.grad(inner)),
        "grad(jit)": fgrad.grad(fgrad.jit(inner)),
        "vmap": fgrad.vmap(inner),
        "hessian": fgrad.hessian(inner),
        "checkpoint": fgrad.grad(fgrad.checkpoint(loss, policy=lambda *_a, **_p: True)),
        "partial": fgrad.grad(functools.partial(inner)),
        "of a local class": fgrad.grad(Local()),
        "method of a local class": Local().slope,
        "schedule": functools.partial(
            pickle_cases.optimised, optim.sgd(lambda step: 0.1 * step + 0.0 * np.sum(scale))
        ),
        "mask": functools.partial(
            pickle_cases.optimised, optim.add_decayed_weights(0.1, mask=lambda p: True)
        ),
    }


@pytest.mark.parametrize("name", local_cases(X))
def test_functions_by_value(name: str) -> None:
    f = local_cases(X)[name]
    x = X if name != "vmap" else X[None]
    loaded = cloudpickle.loads(cloudpickle.dumps(f))
    assert bits(loaded(x)) == bits(f(x))
    assert bits(copy.deepcopy(f)(x)) == bits(f(x))


def test_modules_that_are_sent_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle.register_pickle_by_value(pickle_cases)
    try:
        data = [cloudpickle.dumps(f) for f in (pickle_cases.decorated, pickle_cases.slow_sine)]
    finally:
        cloudpickle.unregister_pickle_by_value(pickle_cases)
    monkeypatch.setitem(sys.modules, "pickle_cases", None)  # type: ignore[arg-type]
    slope, sine = [pickle.loads(each) for each in data]
    assert bits(slope(X)) == bits(3 * X**2)
    assert bits(fgrad.grad(sine)(0.5)) == bits(np.cos(0.5))


class Dispatching(pickle._Pickler):  # type: ignore[name-defined]
    """A pickler that writes functions by value, as dill does."""

    def save_function(self, fun: types.FunctionType) -> None:
        if fun.__name__ == "<lambda>":
            self.save_reduce(function_of, (marshal.dumps(fun.__code__),), obj=fun)  # type: ignore[attr-defined]
        else:
            self.save_global(fun)  # type: ignore[attr-defined]

    dispatch = {**pickle._Pickler.dispatch, types.FunctionType: save_function}  # type: ignore[attr-defined] # noqa: RUF012


def function_of(code: bytes) -> types.FunctionType:
    return types.FunctionType(marshal.loads(code), globals())


def test_a_pickler_with_functions_in_its_dispatch() -> None:
    file = io.BytesIO()
    Dispatching(file).dump(fgrad.grad(lambda x: np.sum(x * x)))
    assert bits(pickle.loads(file.getvalue())(X)) == bits(2 * X)


REFUSED = {
    name: f
    for name, f in local_cases(X).items()
    if not isinstance(f, (functools.partial, types.MethodType))  # pickle's own error
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_card_says_what_has_no_name(name: str) -> None:
    for write in (pickle.dumps, lambda f: pickle.dump([f], io.BytesIO())):
        with pytest.raises(UnpicklableError, match=r"(?s)cannot be pickled.*local_cases.*cloudpi"):
            write(REFUSED[name])


def test_the_card_is_a_pickling_error() -> None:
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(fgrad.vmap(lambda x: x))


# --- what else travels

MODULES = (
    "fgrad", "fgrad.numpy", "fgrad.numpy.linalg", "fgrad.numpy.fft", "fgrad.lax", "fgrad.nn",
    "fgrad.nn.initializers", "fgrad.random", "fgrad.optim", "fgrad.sparse", "fgrad.testing",
    "fgrad.debug", "fgrad.checkpoint_policies", "fgrad.tree", "fgrad.errors", "fgrad.scipy.linalg",
    "fgrad.scipy.special", "fgrad.scipy.stats", "fgrad.scipy.optimize", "fgrad.scipy.integrate",
)  # fmt: skip
NO_FUNCTIONS = {"test"}  # NumPy's tests are an object without a name


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_are_found_by_name(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = importlib.import_module(module)
        names = getattr(found, "__all__", None) or vars(found)
        public = {n: getattr(found, n) for n in names if not n.startswith("_")}
    if not hasattr(found, "__all__"):
        public = {n: x for n, x in public.items() if getattr(x, "__module__", "") == module}
    for name, x in public.items():
        if isinstance(x, (types.FunctionType, type)) and name not in NO_FUNCTIONS:
            assert again(x) is x, name


ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, FgradError)
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_errors(kind: type[FgradError]) -> None:
    rows = (("why", "so it is."), ("write", "something else"))
    error = kind(3, 2, rows) if kind is errors.AxisError else kind("It failed.", rows)
    loaded = again(error)
    assert type(loaded) is kind and str(loaded) == str(error)
    assert loaded.rows == error.rows and str(again(loaded)) == str(error)
    assert str(copy.copy(error)) == str(error)
    assert getattr(loaded, "axis", errno.EPERM) == getattr(error, "axis", errno.EPERM)


def test_threads_pickle_at_once() -> None:
    f, x = fgrad.jit(fgrad.grad(fgrad.checkpoint(vector_sum))), X
    _, pullback = fgrad.vjp(vector, x)
    start = threading.Barrier(4)

    def work(_: int) -> list[Any]:
        start.wait()
        return [bits(again(f)(x)) for _ in range(5)] + [bits(again(pullback)(x)) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert all(each == found[0] for each in found)
    assert found[0] == [bits(f(x))] * 5 + [bits(pullback(x))] * 5


def vector_sum(x: Any) -> Any:
    return np.sum(vector(x))


def test_what_a_gradient_leaves_for_later_is_there_when_it_is_asked_for() -> None:
    def loss(x: Any, *, scale: float = 2.0) -> Any:
        """A loss."""
        return np.sum(x) * scale

    for make in (fgrad.grad, fgrad.value_and_grad, lambda f: fgrad.grad(fgrad.grad(f))):
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(make(loss), name) == getattr(loss, name)
        assert inspect.signature(make(loss)) == inspect.signature(loss)
        assert inspect.unwrap(make(loss)) is loss
        assert "grad(" in repr(make(loss))
        assert functools.wraps(make(loss))(lambda x: x).__name__ == "loss"
        assert copy.copy(make(loss)).__name__ == "loss"
        assert not hasattr(make(loss), "no_such_name")
    assert fgrad.grad(functools.partial(loss, scale=3.0))(1.0) == 3.0
    assert fgrad.grad(np.sin).__name__ == "sin"
    assert not hasattr(fgrad.grad(functools.partial(loss)), "__qualname__")
    own = fgrad.grad(loss)
    own.__name__ = own.__doc__ = "mine"
    assert (own.__qualname__, own.__name__, own.__doc__) == (loss.__qualname__, "mine", "mine")


# --- objects that keep data ----------------------------------------------------------------------

_X = np.linspace(0.0, 1.0, 8)
KEEPING: dict[str, Callable[[], Any]] = {
    "cubic": lambda: ip.CubicSpline(_X, np.sin(_X)),
    "monotone": lambda: ip.PchipInterpolator(_X, np.sin(_X)),
    "Akima": lambda: ip.Akima1DInterpolator(_X, np.sin(_X)),
    "spline": lambda: ip.BSpline(np.linspace(-1.0, 2.0, 12), np.sin(_X), 3),
    "linear": lambda: ip.interp1d(_X, np.sin(_X)),
    "Krogh": lambda: ip.KroghInterpolator(_X, np.sin(_X)),
    "barycentric": lambda: ip.BarycentricInterpolator(_X, np.sin(_X)),
    "smoothing": lambda: ip.UnivariateSpline(_X, np.sin(_X)),
    "rational": lambda: ip.FloaterHormannInterpolator(_X, np.sin(_X)),
    "function": lambda: fgrad.scipy.stats.norm.logpdf,
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_keeps_data_is_pickled(name: str) -> None:
    f = KEEPING[name]()
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(_X[2:4] + 0.01), f(_X[2:4] + 0.01))
    slope = fgrad.jit(fgrad.grad(lambda x: again(x + 0.01).sum()))(_X[2:4])
    np.testing.assert_allclose(slope, fgrad.grad(lambda x: f(x + 0.01).sum())(_X[2:4]), rtol=1e-9)


STATES: dict[str, Callable[[], Any]] = {
    "adam": lambda: optim.adam(0.1),
    "chain": lambda: optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.1)),
    "lbfgs": lambda: optim.lbfgs(0.1, linesearch=None),
    "masked": lambda: optim.masked(optim.adam(0.1), {"w": True}),
    "loss scale": lambda: optim.dynamic_loss_scale(optim.sgd(0.1, momentum=0.9)),
    "several steps": lambda: optim.multi_steps(optim.adam(0.1), 2),
    "by label": lambda: optim.multi_transform({"a": optim.adam(0.1)}, "a"),
    "rms": lambda: optim.rmsprop(0.1, momentum=0.9, centered=True),
}


@pytest.mark.parametrize("name", STATES)
def test_training_goes_on_from_a_saved_state(name: str) -> None:
    optimizer, params = STATES[name](), {"w": np.array([1.0, -2.0])}
    state = optimizer.init(params)
    for step in range(6):
        if step == 3:
            kept = pickle.loads(pickle.dumps((params, state)))
        g = {"w": params["w"] * (1 + step)}
        updates, state = optimizer.update(g, state, params)
        params = optim.apply_updates(params, updates)
    again, state = kept
    for step in range(3, 6):
        updates, state = optimizer.update({"w": again["w"] * (1 + step)}, state, again)
        again = optim.apply_updates(again, updates)
    np.testing.assert_array_equal(again["w"], params["w"])


def test_machine_code_stays_in_its_process() -> None:
    lowered = fgrad.jit(np.sin).lower(_X)
    for stage in (lowered, lowered.compile()):
        with pytest.raises(UnpicklableError, match="machine code"):
            pickle.dumps(stage)
