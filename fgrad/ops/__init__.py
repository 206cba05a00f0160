"""L3. The primitives, one family of mathematics in each file."""
