"""L6. The machine model of a GPU: what forms of kernels assume of a device.

Limits are those of compute capability 7.0 and later (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"); figures of time and of how much work fills a device are
guesses that no device has confirmed.  A figure in a form is a rule of that form.
"""

from __future__ import annotations

# --- limits and memory

WARP = 32  # threads that run together
MOST_THREADS = 1024  # of a block
ACCESS_BYTES = 16  # the widest access to memory
SHARED_BYTES = 40 << 10  # of a block's 48 KB; what reductions need comes on top
THREAD_BYTES = 512  # of scratch memory that a thread keeps in registers

# --- what fills a device

THREADS = 256  # of a block where nothing else decides
MANY_ITEMS = 1 << 15  # from which one thread for each keeps a device busy
MANY_THREADS = 1 << 16  # that fill a large device
MANY_BLOCKS = 528  # that do: four for each multiprocessor
MANY_TEAMS = 256  # blocks that walk rows and keep a device busy

# --- time

PASS_CYCLES = 4000.0  # of one thread in one pass of a loop: longer ones are a kernel for each part
