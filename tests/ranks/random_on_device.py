"""At each rank: random programs on a device that is not there, with NCCL, equal the same on whole
arrays, in NumPy.

python random_on_device.py AXES FIRST COUNT     AXES: a (2 ranks) or ab (4)
"""

from __future__ import annotations

import sys

import random_cases
from device import use_stub

import fgrad
from fgrad import distributed as dist


def main(axes: str, first: int, count: int) -> None:
    mesh = dist.init("mpi", axes={name: 2 for name in axes})
    assert mesh.index is not None
    device, libraries = use_stub(sum([2**k * at for k, at in enumerate(mesh.index)]))
    random_cases.main(axes, first, count, fgrad.device_put)
    device.check_memory()
    assert libraries.nccl is not None and libraries.nccl.log and not libraries.nccl.errors


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
