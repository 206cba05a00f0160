"""L4. Derivatives and batching of scan, while and switch, and loops over chunks of a batch."""
