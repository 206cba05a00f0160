"""L5. Native operations on contiguous rows: sort, top-k, search, cumulative sum."""
