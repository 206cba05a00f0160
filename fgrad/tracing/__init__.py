"""L2. Helpers of `fgrad.trace`: records, views, captures, cards."""
