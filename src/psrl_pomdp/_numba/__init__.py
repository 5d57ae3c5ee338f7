"""Compiled loops: decorators for numba, the cache on disk, and a fused multiply-add for Python."""
