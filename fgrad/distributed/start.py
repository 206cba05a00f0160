"""L7. `init`: this process becomes one of several ranks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from importlib import metadata

import numpy as np

from fgrad.base.source import warn_user
from fgrad.config import config
from fgrad.distributed.agreement import agree_on
from fgrad.distributed.engine import ENGINES, Engine, mpi, world_size
from fgrad.distributed.mesh import Mesh, simulate
from fgrad.distributed.watch import Watch, abort_on_error
from fgrad.errors import ArgumentError, RankError, RankWarning
from fgrad.tracing.ranks import LIBRARY

LIMIT = 300.0  # seconds in one collective, such as another rank may need to compile or read


def init(
    engine: str = "mpi",
    *,
    axes: Sequence[str] | Mapping[str, int] = ("data",),
    timeout: float | None = LIMIT,
) -> Mesh:
    """The mesh of the processes that were started together, of which this is one.

    Each of them runs the same script (`mpiexec -n 4 python train.py`) and passes its own blocks to
    functions of `shard_map`.

    Arguments:
        engine: "mpi", through mpi4py.
        axes: the name of the axis along which the ranks stand, or how many places each of several
            axes has; ranks that differ along the last one are neighbours.
        timeout: seconds that a rank waits in one collective before all are ended, with a message
            that says where each of them is; None for ever.  Another call changes it.

    From then on an exception that a rank does not handle ends all ranks.  Those of one machine
    share its cores: each uses as many threads as are left for it, unless `FGRAD_NUM_THREADS` says.

    Raises:
        MissingMpiError: mpi4py or an MPI library is missing.
        RankError: there is another number of ranks than the axes have places, or than the launcher
            has started.
        ArgumentError: if there is no such engine, or axes do not fit the number of ranks.

    Example:
        >>> from fgrad import distributed as dist
        >>> mesh = dist.init("mpi", axes=("data",))  # doctest: +SKIP
        >>> mesh.shape  # doctest: +SKIP
        {'data': 4}
    """
    if engine != "mpi":
        raise ArgumentError(
            f"init: there is no engine {engine!r}.",
            (("write", 'dist.init("mpi")  or  dist.simulate(data=4)'),),
        )
    count = world_size()
    _check_launcher(count)
    sizes = _sizes(axes, count)
    simulate(**sizes)  # which refuses what is no mesh
    if math.prod(sizes.values()) != count:
        raise RankError(
            f"init: the mesh has {math.prod(sizes.values())} places, but there are {count} ranks.",
            (("write", f"mpiexec -n {math.prod(sizes.values())} python ...    as many ranks"),),
        )
    made = ENGINES.get(engine)
    if made is not None and {axis.name: axis.size for axis in made.axes} != sizes:
        raise RankError(
            "init: this process has another mesh already.",
            (("write", "one call of init, at the beginning; hand its mesh on"),),
        )
    if made is None:
        made = ENGINES[engine] = _started(sizes, timeout)
    made.limit = timeout
    return Mesh(tuple(sizes.items()), made.index)


def _started(sizes: Mapping[str, int], timeout: float | None) -> Engine:
    made = Engine(tuple(sizes), tuple(sizes.values()))
    LIBRARY.agreed = agree_on
    if made.size > 1:
        abort_on_error(made)
        _check_versions(made)
        if mpi().Query_thread() == mpi().THREAD_MULTIPLE:
            Watch(made).start()
        elif timeout is not None and made.rank == 0:
            warn_user(
                "This MPI library does not let several threads communicate, so that ranks that "
                "wait for ever are not found: mpi4py.rc.thread_level, or another build of it.",
                RankWarning,
            )
    _share_cores(made)
    return made


def _check_versions(engine: Engine) -> None:
    """Refuse ranks whose fgrad are not one: what it makes of a program must be the same."""
    every = engine.control.allgather((metadata.version("fgrad"), np.__version__))
    other = next((k for k, each in enumerate(every) if each != every[0]), None)
    if other is not None:
        words = [f"fgrad {each[0]}, NumPy {each[1]}" for each in (every[0], every[other])]
        raise RankError(
            "init: the ranks have different versions.",
            (
                ("rank 0", words[0]),
                (f"rank {other}", words[1]),
                ("write", "one environment for all ranks, on a file system that all see"),
            ),
        )


_COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")


def _check_launcher(count: int) -> None:
    """Refuse processes that a launcher has started together, and that do not know of each other."""
    if count > 1:
        return
    for name in _COUNTS:
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 1:
            raise RankError(
                f"init: this process is rank 0 of 1, but {name} says that there are {text}.",
                (
                    ("why", "it was started by mpiexec of another MPI library than mpi4py's:"),
                    ("why", mpi().Get_library_version().strip().splitlines()[0][:70]),
                    ("write", "the mpiexec beside this Python, or srun --mpi=pmi2, or --mpi=pmix"),
                    ("write", "pip install --no-binary mpi4py mpi4py    for the cluster's MPI"),
                    ("write", "srun -n 1 python ...                     where one is meant"),
                ),
            )


def _share_cores(engine: Engine) -> None:
    """Give each rank of a machine its share of the cores."""
    local = engine.world.Split_type(mpi().COMM_TYPE_SHARED)
    LIBRARY.local = local.rank
    affinity = getattr(os, "sched_getaffinity", None)
    own = set(affinity(0)) if affinity is not None else set(range(os.cpu_count() or 1))
    cores: list[set[int]] = local.allgather(own)
    sharing = len([each for each in cores if own & each])
    if not os.environ.get("FGRAD_NUM_THREADS"):
        config.num_threads = max(1, len(own) // sharing)
    there = len(set[int]().union(*cores))
    if local.rank == 0 and there < local.size:
        warn_user(
            f"{local.size} ranks share {there} cores of this machine: while they wait for each "
            "other they compute nothing, and collectives may be a thousand times slower.",
            RankWarning,
        )
    local.Free()


def _sizes(axes: Sequence[str] | Mapping[str, int], count: int) -> dict[str, int]:
    if isinstance(axes, Mapping):
        return {name: int(size) for name, size in axes.items()}
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    if len(names) != 1:
        raise ArgumentError(
            f"init: axes={axes!r}; of several axes it must be known how many places each has.",
            (("write", "axes={'data': 2, 'model': 2}"),),
        )
    return {names[0]: count}
