"""Checks of inequalities that hold for every run of Algorithm 1, and of one that holds over many runs.

For every run, at every checkpoint:

- the episodes are consecutive, and their lengths add up to T;
- SCHED = 2 t_k, m̃ = t: episodes start at 2^k − 1, K_T = ⌊log₂(T + 1)⌋;
- SCHED = t_k + T_{k−1}: T_k ≤ T_{k−1} + 1, T_k ≤ √(2T), K_T ≤ √(2T(1 + |S||A| log₂(T+1))), and
  Σ_k T_k/√t_k ≤ 7 √(2T) (1 + |S||A| log₂(T+1)) log √(2T) (Lemma C.5);
- m̃ is a pseudo-count (Definition 1): nondecreasing integers with ⌈ñ_t⌉ ≤ m̃_t ≤ t; and Σ ñ_t = t − 1;
- per step, both distances of R_2 are in [0, 2], and |R_3| is at most half of the distance of the beliefs,
  because costs are in [0, 1] and both beliefs sum to one.

Over runs with θ* ~ f, P(m̃_t(s, a) < α n_t(s, a)) ≤ α for every α (Lemma 4). `check_pseudo_counts` tests the
frequencies against the binomial distribution.

If an observation rules out the sampled kernel of a finite prior, the episode ends. The paper does not have
this case, so each such end allows one more episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from .._utils.arrays import Array, Index
from .._utils.issues import Issue
from ..agents import compiled_steps as steps
from ..agents.episode_records import REASONS
from ..agents.schedules import Schedule
from ..errors import InvalidModelError
from ..simulation.trace import Trace
from .bounds import doubling_episodes, most_episodes, most_weighted_lengths
from .estimators import common_times

_ROUNDING = 1e-9
_RULED_OUT = REASONS[steps.RULED_OUT]


def check_run(trace: Trace, schedule: Schedule | None = None) -> list[Issue]:
    """Check the inequalities that hold for every run of Algorithm 1.

    Parameters
    ----------
    trace
        The run.
    schedule
        The schedule of the agent. By default, it is `doubling` if m̃ = t at every checkpoint, and `tsde`
        otherwise. For any other schedule, only the inequalities that hold for all schedules are checked.

    Returns
    -------
    list of Issue
        One error for each violated inequality.
    """
    name = schedule.name if schedule is not None else _likely_schedule(trace)
    rules = [_visits(trace), _sums(trace)]
    if trace.episodes:
        rules += [_partition(trace), _pseudo_counts(trace)]
        rules += [_doubling(trace)] if name == "doubling" else []
        rules += [_tsde(trace)] if name == "tsde" else []
    return [Issue("error", text) for rule in rules for text in rule]


def _likely_schedule(trace: Trace) -> str:
    points = trace.checkpoints
    return "doubling" if (points.pseudo == points.times[:, None, None]).all() else "tsde"


def _partition(trace: Trace) -> Iterator[str]:
    expected = 1
    for episode in trace.episodes:
        if episode.start != expected:
            yield f"episode {episode.number} starts at {episode.start}, not at {expected}"
        expected = episode.start + episode.length
    if expected != trace.horizon + 1:
        yield f"the episodes cover {expected - 1} steps of {trace.horizon}"
    begun = np.searchsorted(starts_of(trace), trace.times, side="right")
    for k in np.flatnonzero(begun != trace.checkpoints.episodes):
        yield f"K_T={trace.checkpoints.episodes[k]} at T={trace.times[k]}, but {begun[k]} episodes started"


def _doubling(trace: Trace) -> Iterator[str]:
    ruled_out = _ruled_out(trace)
    if not ruled_out:
        starts = starts_of(trace)
        for k in np.flatnonzero(starts != 2 ** np.arange(1, len(starts) + 1) - 1):
            yield f"episode {k + 1} starts at {starts[k]}, not at 2^{k + 1} − 1"
    most = doubling_episodes(trace.times) + ruled_out
    for k in np.flatnonzero(trace.checkpoints.episodes > most):
        yield f"K_T={trace.checkpoints.episodes[k]} at T={trace.times[k]}, above ⌊log₂(T + 1)⌋ = {most[k]}"


def _tsde(trace: Trace) -> Iterator[str]:
    starts, lengths = starts_of(trace), np.array([episode.length for episode in trace.episodes])
    pairs, ruled_out = trace.model.n_states * trace.model.n_actions, _ruled_out(trace)
    before = np.append(1, lengths[:-1])  # T_0 = 1
    for k in np.flatnonzero(lengths > before + 1):
        yield f"T_k={lengths[k]} in episode {k + 1}, above T_(k−1) + 1 = {before[k] + 1}"
    for t, begun in zip(trace.times.tolist(), trace.checkpoints.episodes.tolist(), strict=True):
        so_far = np.clip(t + 1 - starts, 0, lengths)
        weighted = float((so_far / np.sqrt(starts)).sum())
        for what, value, bound in (
            ("K_T", float(begun), float(most_episodes(t, pairs, ruled_out))),
            ("Σ T_k/√t_k", weighted, float(most_weighted_lengths(t, pairs, ruled_out))),
            ("max T_k", float(so_far.max()), float(np.sqrt(2.0 * t))),
        ):
            if value > bound * (1.0 + _ROUNDING):
                yield f"{what}={value:.6g} at T={t}, above the lemma's {bound:.6g}"


def _pseudo_counts(trace: Trace) -> Iterator[str]:
    points, names = trace.checkpoints, trace.model.setting.names
    t = points.times[:, None, None]
    ceiling = np.ceil(points.expected - _ROUNDING * np.maximum(1.0, points.expected))
    falls = np.append(
        np.zeros((1, *points.pseudo.shape[1:]), np.bool_), np.diff(points.pseudo, axis=0) < 0, 0
    )
    for what, wrong in (
        ("is below ⌈ñ⌉", points.pseudo < np.minimum(ceiling, t)),
        ("is above t", points.pseudo > t),
        ("has fallen", falls),
    ):
        for k, a, s in np.argwhere(wrong):
            entry = names.entry("m̃", "as", (int(a), int(s)))
            about = f"t={points.times[k]} (ñ={points.expected[k, a, s]:.6g})"
            yield f"{entry}={points.pseudo[k, a, s]} {what} at {about}"
    error = np.abs(points.expected.sum(axis=(1, 2)) - (points.times - 1.0))
    for k in np.flatnonzero(error > 1e-6 * points.times):
        yield f"ñ adds up to {points.expected[k].sum():.9g} at t={points.times[k]}, not to t − 1"


def _visits(trace: Trace) -> Iterator[str]:
    total = trace.checkpoints.visits.sum(axis=(1, 2))
    for k in np.flatnonzero(total != trace.times):
        yield f"{total[k]} visits were counted in {trace.times[k]} steps"


def _sums(trace: Trace) -> Iterator[str]:
    """Check the sums per step between checkpoints: costs in [0, 1], distances in [0, 2], and |R_3|."""
    times = np.append(0, trace.times)
    sums = np.vstack([np.zeros(steps.N_SUMS), trace.checkpoints.sums])
    step, rise = np.diff(times), np.diff(sums, axis=0)
    slack = _ROUNDING * (1.0 + np.abs(trace.checkpoints.sums).max(axis=1))
    half = 0.5 * rise[:, steps.BELIEF_GAP]
    for what, value, low, high in (
        ("C(s, a)", rise[:, steps.COST], 0.0 * step, step),
        ("c(b, a)", rise[:, steps.EXPECTED_COST], 0.0 * step, step),
        ("the distance of the beliefs", rise[:, steps.BELIEF_GAP], 0.0 * step, 2 * step),
        ("the distance of the kernels", rise[:, steps.KERNEL_GAP], 0.0 * step, 2 * step),
        ("R_3", rise[:, steps.COST_GAP], -half, half),
    ):
        for k in np.flatnonzero((value < low - slack) | (value > high + slack)):  # False for NaN
            yield f"{what} adds up to {value[k]:.6g} over steps {times[k] + 1} to {times[k + 1]}: impossible"


def starts_of(trace: Trace) -> Index:
    """[K_T]: the first steps t_k of the episodes."""
    return np.array([episode.start for episode in trace.episodes], np.int64)


def _ruled_out(trace: Trace) -> int:
    return sum(episode.ended == _RULED_OUT for episode in trace.episodes)


# -- over many runs ------------------------------------------------------------------------------


def check_pseudo_counts(
    traces: Sequence[Trace], alphas: Sequence[float] = (0.1, 0.25, 0.5, 0.75), *, false_alarm: float = 1e-6
) -> list[Issue]:
    """Test P(m̃_t(s, a) < α n_t(s, a)) ≤ α for runs whose true kernels are sampled from the agent's prior.

    There is one exact one-sided binomial test for each checkpoint, pair of state and action, and α.

    Parameters
    ----------
    traces
        The runs, with the same checkpoints.
    alphas
        The values of α.
    false_alarm
        The total probability of an issue if the inequality holds.

    Returns
    -------
    list of Issue
        One error for each rejected inequality.
    """
    frequency = pseudo_count_frequency(traces, alphas)  # [alphas, K, A, S]
    times, names = common_times(traces), traces[0].model.setting.names
    found = []
    for i, alpha in enumerate(alphas):
        most = stats.binom.isf(false_alarm / frequency.size, len(traces), alpha)
        for k, a, s in np.argwhere(frequency[i] * len(traces) > most + _ROUNDING):
            entry = names.entry("m̃", "as", (int(a), int(s)))
            often = f"in {frequency[i, k, a, s]:.1%} of {len(traces)} runs"
            found.append(Issue("error", f"{entry} < {alpha:g} n at t={times[k]} {often}"))
    return found


def pseudo_count_frequency(traces: Sequence[Trace], alphas: Sequence[float]) -> Array:
    """[alphas, K, A, S]: the frequency of m̃_t < α n_t over runs.

    A checkpoint after t actions contains m̃_t, but its visit counts include step t and so are n_{t+1}. The
    state at step t is not recorded, so 1 is subtracted from the counts of all states under a_t. The result is
    at most n_t, so the frequency is never too high.
    """
    if any(not 0.0 <= alpha <= 1.0 for alpha in alphas):
        raise InvalidModelError(f"alphas are {tuple(alphas)}, not numbers between 0 and 1")
    common_times(traces)
    below = 0.0
    for trace in traces:
        points = trace.checkpoints
        visits = points.visits.astype(np.float64)
        last = trace.actions[points.times - 1].astype(np.int64)
        at = np.arange(len(last))
        visits[at, last] = np.maximum(0.0, visits[at, last] - 1.0)
        below = below + (points.pseudo < np.multiply.outer(np.asarray(alphas), visits))
    return np.asarray(below / len(traces))
