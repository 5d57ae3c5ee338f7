"""The package's files: archives of arrays, atomic writes, states of random generators."""
