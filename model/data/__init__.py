"""Packed sequences on the store to the batches of a step."""
