"""L6. The device itself: its driver and compiler, memory, and arrays that lie there."""
