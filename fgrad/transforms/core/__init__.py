"""L4. What all transforms are made of: arguments, tapes, batches, derived and user programs."""
