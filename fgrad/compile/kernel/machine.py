"""L5. The machine model: what lowering, scheduling and code generation assume of a processor.

All figures that describe hardware stand here, with their units; a figure in a pass is a rule of
that pass.  Sizes hold for x86-64 with AVX2 or AVX-512 and for AArch64.  Cycles were measured at 2.5
to 3.5 GHz; they decide how work is divided, never what is computed.
"""

from __future__ import annotations

# --- registers and memory

VECTOR_BYTES = 64  # of one vector value in the kernel IR: a register of AVX-512, two of AVX2
REGISTER_BITS = 512  # of the widest vector register
LINE_BYTES = 64  # of a cache line; buffers in an arena start at multiples
WIDE_REGISTERS = 32  # a processor with as many vector registers keeps several vectors in flight
CLOSE_STRIDE = 4  # elements apart up to which whole vectors are read and shuffled, not gathered
CONFLICT_BYTES = 4096  # between elements that share a set of the first cache
NEAR_ELEMENTS = 1 << 12  # of an array that stays in the first cache between two kernels
LEAST_APART = 1 << 13  # elements of short vectors that are taken apart; fewer stay in a near cache
NEAR_BYTES = 1 << 14  # of operands that stay in the first cache while tiles of them are read
L2_PART_BYTES = 128 << 10  # of an operand that stays in the second cache while another streams
L2_BYTES = 1 << 19  # of a core's second cache, the least of today's
MASKED_BYTES = 4  # of the smallest elements that AVX2 loads and stores by a mask
PRODUCT_ROW_BYTES = 2048  # of a row of A in a tile of products: 14 such rows fit into the L1 cache
PREFETCHED_STEPS = 16  # of k, from here to the row of B that is asked of memory in advance
PREFETCHED_LINES = 8  # of a matrix that is copied, likewise
MEMORY_STEPS = 32  # of k, which are over before memory answers
WALKED_TWICE = 1 << 15  # elements of a row that stays in a cache from one walk to the next
STRIP_BYTES = 1 << 14  # of results that stay in the first cache while rows stream past
STACK_BYTES = 1 << 17  # that one kernel may take from the stack

# --- time, in cycles of one core

LATENCY_CYCLES = 4.0  # of an addition or multiplication
LONG_OPERATION = 20.0  # of one operation that is a formula: exp, sin, pow
SHORT_BODY = 40  # of a loop's body that gains from more vectors at a time
MEMORY_BYTES_PER_CYCLE = 8  # that one core reads in order from beyond its L2 cache
GATHER_CYCLES = 1.5  # of one lane
FLOPS_PER_CYCLE = 16  # of a factorisation
FUSED_CYCLES = 0.5  # of an element in a fused loop of vectors
UNKNOWN_CYCLES = 20.0  # of an element in a routine of which nothing is known
SORT_CYCLES = 20  # of an element of a row that is sorted, a mean over sizes
CALL_CYCLES = 150.0  # of one element of NumPy's or SciPy's C functions: from sqrt(z) to betainc
FOURIER_CYCLES = 1.5  # of one element of a transform, times the logarithm of its length
LAPACK_CYCLES = 1000.0  # of one call, whatever the matrix
LAPACK_CYCLES_OVER_N3 = {  # of an n x n matrix; small ones spend most of them on overhead
    "cholesky": 0.5, "factor": 0.7, "lu": 0.7, "qr": 2.0, "eigvalsh": 5.0, "eigh": 14.0,
    "svdvals": 8.0, "svd": 25.0,
}  # fmt: skip
DIVISION_CYCLES = 5.0  # of a vector: division, root, remainder
PRODUCTS_PER_CALL = 4096  # multiplications in the time that a call of a product takes
COPIES_PER_PRODUCT = 4.0  # multiplications in the time of an element that is copied
WHILE_TURNS = 32  # turns that a loop of unknown length is assumed to make

# --- threads, in cycles

SHARED_CYCLES = 250_000  # of a kernel that threads share: to wake one takes 25 us
FISSION_CYCLES = 12_000  # of a kernel whose loops may be called one by one
CHUNK_CYCLES = 50_000  # of the least piece that is worth a thread's while
SORT_CHUNK_CYCLES = 100_000  # the same where pieces differ in length
MOST_PIECES = 16  # of a routine's range, where few threads share it
PIECES_OF_A_THREAD = 4  # of a range that threads share
ONE_THREAD_ROWS = 640  # of a matrix up to which the barriers of LAPACK's threads cost more
SIGNAL_CYCLES = 1 << 21  # or so, between two looks for signals
WALKED_CYCLES = 30_000_000  # of a first run that Python walks, on one thread
RELEASE_CYCLES = 30_000  # of a call during which other Python threads may run: about 10 us

# --- compilation: from here on a faster kernel earns what it takes to compile

ELEMENTS_WORTH_UNROLLING = 1 << 14
ELEMENTS_WORTH_WIDE_CODE = 1 << 18
PRODUCTS_WORTH_A_KERNEL = 1 << 19  # multiplications of a product with code for its shape
STRIP = 128  # steps of a loop whose values wait in the nearest cache for the steps in order
