"""The backward pass has a loop of its own for the common number of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from psrl_pomdp._numba.jit import running
from psrl_pomdp._utils.arrays import Array, Codes
from psrl_pomdp.inference.hidden_paths import COMMON, SEGMENT, expected_transitions


def smoothed(joint: Array, codes: Codes, rows: Array) -> tuple[Array, Array, Array]:
    """Return log-likelihoods, the distribution of s_1 and ξ for `joint[K, S, S', N]`."""
    n_codes, n_states, _, n_kernels = joint.shape
    flat, n = np.ascontiguousarray(joint).reshape(n_codes, -1), len(codes)
    logs, first, expected = np.zeros(n_kernels), np.zeros(n_states * n_kernels), np.zeros_like(flat)
    expected_transitions(
        (0,) * n_states, np.arange(n_codes, dtype=np.uint32), codes, rows, n,
        np.full(n_states * n_kernels, 1.0 / n_states), flat, np.zeros((SEGMENT + 1, n_states * n_kernels)),
        np.zeros((n // SEGMENT + 1, n_states * n_kernels)), np.zeros_like(flat), logs, first, expected,
    )  # fmt: skip
    return logs, first.reshape(n_states, -1), expected.reshape(joint.shape)


@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize("length", [1, 40, 2 * SEGMENT + 3])
def test_the_loop_for_the_common_number_of_kernels_gives_the_same_numbers(
    length: int, has_rows: bool
) -> None:
    rng, n_states, n_codes = np.random.default_rng(length), 3, 4
    joint = rng.dirichlet(np.ones(n_states), size=(n_codes, n_states, COMMON)).transpose(0, 1, 3, 2)
    joint = joint * 1e-3  # small, so that β is rescaled
    joint[1, :, 2] = 0.0
    codes = rng.integers(0, n_codes, length).astype(np.uint16)
    rows = rng.random((length if has_rows else 0, n_states))
    with running(compiled=True):
        found = smoothed(joint, codes, rows)
        parts = [smoothed(joint[..., k], codes, rows) for k in (slice(0, 13), slice(13, COMMON))]
    for own, other in zip(found, zip(*parts, strict=True), strict=True):
        # Not the same bits, because all kernels are rescaled when one has to be
        np.testing.assert_allclose(own, np.concatenate(other, axis=-1), rtol=1e-12, atol=1e-12)
    assert found[2].sum() == pytest.approx(length * COMMON)
    if length < SEGMENT:  # interpreted loops take long
        with running(compiled=False):
            for own, again in zip(found, smoothed(joint, codes, rows), strict=True):
                np.testing.assert_array_equal(own, again)
