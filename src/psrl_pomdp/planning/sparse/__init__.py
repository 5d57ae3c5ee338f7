"""Both bounds for large sparse models."""
