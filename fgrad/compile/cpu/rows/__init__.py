"""L5. Native walks along rows: sorting, selecting, searching, running totals."""
