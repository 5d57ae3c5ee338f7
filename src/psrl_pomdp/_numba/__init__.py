"""Compiling loops with numba: decorators, the cache on disk, a fused multiply-add for Python."""
