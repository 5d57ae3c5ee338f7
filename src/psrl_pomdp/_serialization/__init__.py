"""Files of the package: archives of arrays, atomic writes, states of random generators."""
