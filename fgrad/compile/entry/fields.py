"""L5. The native entry's tables by name: words of a signature, of a result, of its programs."""

# Words of a signature's table.
NODE_FIELDS = (
    "next", "from", "hash", "same", "same_from", "epoch", "nargs", "keywords", "names",
    "registers", "slots", "cells", "program",
    "outputs", "records", "constants", "pairs", "fills", "sources", "arena_slot", "arena_bytes",
    "run", "table", "direct", "extent", "release", "after", "bools", "build", "depth", "recycle",
    "calls", "owns", "reads", "extents", "writes", "running", "used", "again",
)  # fmt: skip
NODE = {name: k for k, name in enumerate(NODE_FIELDS)}

# Words of the record of one result; `first` and `second` hold arrays that may be used again,
# `donor` is 1 more than the register of the argument whose memory it may take, or 0.  `own` is the
# register of the argument that is the result, `written` 1 more than that of the argument over which
# the result is written.
RECORD_FIELDS = (
    "kind", "slot", "type", "descr", "rank", "dims", "flags", "alloc", "cell", "recycle",
    "pool", "first", "second", "donor", "donor_slot", "bytes", "own", "written",
)  # fmt: skip
RECORD = {name: k for k, name in enumerate(RECORD_FIELDS)}
RECORD_SIZE = len(RECORD_FIELDS)

# Instructions of a signature's program, and of the one that puts the results together.
ARRAY, PLACE, INT, BOOL, SAME, LIST, TUPLE, DICT, FIELDS, APART, END = range(11)
# What a call reads from outside.
WORD_IS, LOOKUP, KEYS, ITEMS, BYTES, SINCE, SEEN, FETCH, FETCH_WORD, NUMBER = range(11, 21)
LEAF, PUSH, MAKE_TUPLE, MAKE_LIST, MAKE_DICT, MAKE_NAMED, CALL, RETURN = range(8)
RESULT_ARRAY, RESULT_SCALAR, RESULT_BOOL, RESULT_LARGE, RESULT_OWN = range(5)

# What the compiled entry exports: `fgrad_entry` etc., allocators in the order of NumPy's.
ALLOCATORS = ("malloc", "calloc", "realloc", "free")
EXPORTS = ("entry", "link", "unlink", *ALLOCATORS)

BUCKETS = 256  # of the signatures of one callee, by hash
