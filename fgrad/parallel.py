"""L7. The same function of many inputs, on any executor of `concurrent.futures`.

    parallel.map(train, seeds, executor=ProcessPoolExecutor(8))        results in the order of seeds

Jitted functions and what transforms return travel to other processes, which compile them once.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

from fgrad.base.frames import add_note
from fgrad.base.lazy_import import load, names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import label_of
from fgrad.base.progress import Progress, Told
from fgrad.base.system import processors
from fgrad.config import config
from fgrad.errors import ArgumentError
from fgrad.typing import PyTree

__all__ = [
    "Failed",
    "map",
]

X = TypeVar("X")
Y = TypeVar("Y")

KEPT = 8  # functions that a process of workers keeps
TASKS = 4  # for each worker, unless `chunks` says


def map(
    fun: Callable[[X], Y],
    xs: Iterable[X],
    *,
    executor: Executor | None = None,
    chunks: int | None = None,
    progress: bool | Progress = False,
    errors: str = "stop",
) -> list[Y]:
    """`[fun(x) for x in xs]`, computed by the workers of an executor.

    Arguments:
        fun: a function of one input; also a jitted one, or what a transform returns.
        xs: the inputs, finitely many.
        executor: `ThreadPoolExecutor`, `ProcessPoolExecutor`, loky's, dask's
            (`client.get_executor()`), mpi4py's (`MPIPoolExecutor`), ...; None for this thread.
        chunks: how many tasks the inputs are sent in; by default four for each worker, so that a
            process gets several inputs at once.
        progress: whether to write to stderr how far it is, or a function of (done, count).
        errors: "stop" raises the first exception, with the number of its input, and begins nothing
            more; "keep" computes all, and puts exceptions in the place of results.

    Returns:
        The results in the order of the inputs.

    A process of workers unpickles `fun` once, so it compiles once, and uses its share of the cores.
    A function without a name in a module (a lambda) is sent by cloudpickle, if that is installed.

    Example:
        >>> import numpy as np, fgrad
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> slope = fgrad.jit(fgrad.grad(lambda x: x**3))
        >>> with ThreadPoolExecutor(2) as pool:
        ...     fgrad.parallel.map(slope, [1.0, 2.0, 3.0], executor=pool)
        [np.float64(3.0), np.float64(12.0), np.float64(27.0)]
    """
    inputs = list(xs)
    _check(fun, chunks, errors)
    report = Told(progress, "parallel.map")
    if executor is None:
        work = _Work(Sent(fun, os.getpid(), 0), errors == "stop")
        results: list[PyTree] = []
        for k, x in enumerate(inputs):
            results += _placed(work([x]), k, len(inputs), label_of(fun), errors)
            report(k + 1, len(inputs))
        return results
    workers = _workers_of(executor)
    size = _size(len(inputs), workers, chunks)
    work = _Work(Sent(fun, os.getpid(), workers), errors == "stop")
    return _gathered(executor, work, inputs, size, report, label_of(fun), errors)


def _check(fun: object, chunks: int | None, errors: str) -> None:
    if not callable(fun):
        raise ArgumentError(f"parallel.map: {fun!r} is no function.")
    if chunks is not None and chunks < 1:
        raise ArgumentError(f"parallel.map: chunks={chunks}; there is at least one.")
    if errors not in ("stop", "keep"):
        raise ArgumentError(
            f"parallel.map: errors={errors!r}.", (("write", "errors='stop' or errors='keep'"),)
        )


def _workers_of(executor: Executor) -> int:
    """How many workers it has; 0 if it does not say."""
    found = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", 0)
    return found if isinstance(found, int) else 0


def _size(count: int, workers: int, chunks: int | None) -> int:
    """The inputs of a task."""
    if chunks is None and not workers:
        return 1
    return max(1, -(-count // (chunks if chunks is not None else TASKS * workers)))


# --- what workers do


class Sent:
    """A function on its way: pickled by name, or by value where it has none.

    Arguments:
        home: the process that sends it.
        workers: how many share the cores of the machine.
    """

    def __init__(self, fun: Callable[..., PyTree], home: int, workers: int) -> None:
        self.fun, self.home, self.workers = fun, home, workers
        self.text: bytes | None = None

    def __call__(self, x: object) -> object:
        return self.fun(x)

    def __reduce__(self) -> tuple[object, ...]:
        if self.text is None:
            self.text = _pickled(self.fun)
        return received, (self.text, self.home, self.workers)


def _pickled(fun: Callable[..., PyTree]) -> bytes:
    try:
        return pickle.dumps(fun)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            return load("cloudpickle").dumps(fun)
        except ImportError:
            add_note(error, "cloudpickle, if it is installed, sends functions by value.")
            raise error from None


_RECEIVED: dict[str, Sent] = {}


def received(text: bytes, home: int, workers: int) -> Sent:
    """The function that was sent; one that this process has already keeps its compiled code."""
    key = hashlib.blake2b(text).hexdigest()
    found = _RECEIVED.get(key)
    if found is None:
        if workers and os.getpid() != home and not os.environ.get("FGRAD_NUM_THREADS"):
            config.num_threads = max(1, processors() // workers)
        found = _RECEIVED[key] = Sent(pickle.loads(text), home, workers)
        for old in list(_RECEIVED)[:-KEPT]:
            del _RECEIVED[old]
    return found


class Failed(NamedTuple):
    """An exception in the place of a result."""

    error: Exception


class _Work:
    """A task: the function at some inputs, up to the first that fails if `stop`."""

    def __init__(self, fun: Sent, stop: bool) -> None:
        self.fun, self.stop = fun, stop

    def __call__(self, xs: Sequence[object]) -> list[object]:
        results: list[object] = []
        for x in xs:
            try:
                results.append(self.fun(x))
            except Exception as error:
                results.append(Failed(self._portable(error)))
                if self.stop:
                    break
        return results

    def _portable(self, error: Exception) -> Exception:
        """The exception as another process can read it, with the lines of this one."""
        if os.getpid() == self.fun.home:
            return error
        lines = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        try:
            found = pickle.loads(pickle.dumps(error))
        except Exception:
            found = RuntimeError(f"{type(error).__name__}: {error}")
        add_note(found, f"in another process:\n{lines}")
        return found


# --- what the caller does


def _gathered(
    executor: Executor,
    work: _Work,
    inputs: Sequence[PyTree],
    size: int,
    report: Callable[[int, int], object],
    label: str,
    errors: str,
) -> list[PyTree]:
    starts = range(0, len(inputs), size)
    futures: dict[Future[list[object]], int] = {}
    done, parts = 0, dict[int, list[PyTree]]()
    try:
        for start in starts:
            futures[executor.submit(work, inputs[start : start + size])] = start
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=futures.__getitem__):
                start = futures[future]
                parts[start] = _placed(future.result(), start, len(inputs), label, errors)
                done += len(parts[start])
                report(done, len(inputs))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return list(itertools.chain.from_iterable([parts[start] for start in starts]))


def _placed(
    results: Sequence[object], start: int, count: int, label: str, errors: str
) -> list[PyTree]:
    """The results of inputs from `start` on; exceptions know the numbers of theirs."""
    found: list[PyTree] = []
    for k, result in enumerate(results, start):
        if isinstance(result, Failed):
            add_note(result.error, f"parallel.map: {label} at input {k} of {count}")
            if errors == "stop":
                raise result.error
            result = result.error
        found.append(result)
    return found


__dir__ = names_shown(__name__)
