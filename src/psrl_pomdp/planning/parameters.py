"""The constants that steer planning: frozen dataclasses with a default for each constant.

None of them can make a bound wrong, because a certificate is proved from its own numbers. They decide how
fast the gap closes and how much memory planning takes. Tolerances on which a proof relies (what counts as a
rounding error) are not here but beside the code that uses them.

`plan` uses the defaults. The names of parameters are internal and may change.

"Work" is a count of floating-point operations; `WorkUnits` says what other things count as.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkUnits:
    """What counts as how much work."""

    python_call: float = 2e5  # operations: the overhead of a call from Python to a step of planning
    matrix_product: float = 0.25  # operations: a multiplication and addition inside of a large matrix product


WORK = WorkUnits()


@dataclass(frozen=True)
class RepresentationParameters:
    """Which representation of a model is tried, and how much memory it may take (`solve`).

    "Entries" are those of the arrays M[a, o]: A·O·S².
    """

    interpreted_entries: float = 4000  # entries above which code is compiled before planning begins
    dense_entries: float = 400_000  # entries up to which planning begins with dense arrays
    discounted_ratio: float = 8.0  # multiple of that with a discount, where points close the gap sooner
    dense_work: float = 1.5e9  # A·O·S³ up to which dense arrays may follow sparse bounds
    bytes_per_entry: float = 64.0  # bytes: M and a grid of all vertices, with copies and the certificate
    bytes_per_weight: float = 40.0  # bytes for each interpolation weight of a further point
    bytes_per_multichain_weight: float = 110.0  # the same where gains are solved for too
    grid_memory: float = 1.5e9  # bytes that the grid and its certificate may take
    grid_memory_share: float = 0.6  # share of the memory limit that points may take


@dataclass(frozen=True)
class GridParameters:
    """The grid of the lower bound (`lower.grid`)."""

    initial_points: int = 64  # points, beside the vertices, for which arrays are allocated at first
    damping: float = 0.95  # step size of value iteration; below 1 because beliefs may be periodic
    damped_sweeps: int = 8  # sweeps of the present policy between two Bellman backups
    value_iterations: int = 6  # backups with such sweeps before policy iteration begins
    policy_iterations: int = 25  # steps of policy iteration, at most
    max_relative_value: float = 1e7  # larger values are those of a policy with several recurrent classes
    restart_probability: float = 1e-9  # of a restart that makes the equations of such a policy solvable
    dense_points: int = 4000  # points up to which a chain with many entries is solved densely
    dense_share: float = 0.03  # share of nonzero entries from which a chain has many
    mass_damping: float = 0.8  # step size toward the stationary mass of the points
    mass_tolerance: float = 1e-8  # change of that mass in a sweep (L1 norm) at which sweeps stop
    mass_sweeps: int = 60  # such sweeps, at most
    max_turns: int = 15  # turns of solving for h and renewing interpolations in a round, at most
    max_thorough_turns: int = 60  # and where all interpolations are renewed
    min_gain: float = 0.03  # share of the gap: turns end when one raises the bound by less
    patient_turns: int = 3  # turns in which a bound that is still below the best one may rise slowly,
    patience_divisor: float = 30.0  # that is, by less than `min_gain` divided by this
    visited_mass: float = 1e-14  # stationary mass above which a point counts as visited
    min_coordinate: float = 1e-8  # the least coordinate of a point: nearly parallel columns ruin a basis
    face_share: float = 0.1  # share of `min_coordinate` below which coordinates are left to the vertices
    point_separation: float = 1e-8  # points nearer to one another (Euclidean distance) are the same point
    near_point_preference: float = 1e-8  # value by which a far point has to beat a near one
    brief_effort: float = 8.0  # pricing work, in m³, of a linear program that will be continued soon
    entries_between_clock_checks: float = 1e8  # numbers that are priced without looking at the clock
    entries_checked_last: int = 400_000  # entries of M above which a step is abandoned once time is up


@dataclass(frozen=True)
class RefinementParameters:
    """The choice of new points for the grid (`lower.refinement`)."""

    growth: float = 0.3  # new points in a round, as a share of the old ones
    min_new_points: int = 8  # new points in a round, at least
    dropped_share: float = 0.05  # share of the gap that dropping the small coordinates of a point may cost
    drop_factors: tuple[float, ...] = (1.0, 10.0, 100.0)  # multiples of that threshold, tried in turns
    stalled_gain: float = 0.02  # share of the gap: rounds that gain less halve the threshold
    min_states_for_turns: int = 8  # states from which the other multiples are tried too
    rate_decay: float = 0.03  # decrease per round, as a share, of the rate of the way not chosen


@dataclass(frozen=True)
class SearchParameters:
    """When and how long to search for better controllers (`bound_pair`). "Share" is one of all work.

    "Gain" is the decrease of the upper bound, as a share of the gap.
    """

    value_error: float = 0.02  # error allowed in values h of the grid, as a share of the gap,
    max_value_error: float = 1e-5  # at most,
    min_value_error: float = 1e-11  # and at least
    fine_value_error: float = 0.1  # share of the tolerance that replaces it
    fine_gap_ratio: float = 20.0  # where the gap is below so many tolerances
    first_upper_share: float = 0.5  # share of the work for the upper bound at first
    min_upper_share: float = 0.15  # and later, at least
    max_upper_share: float = 0.8  # and at most; also where the lower bound gains little
    share_inertia: float = 0.6  # weight of the old share when it is adapted to the gains on both sides
    share_adaptation: float = 0.4  # and weight of the share that these gains suggest
    min_search_share: float = 0.08  # share that is saved up for a search in each round, at least
    early_search_share: float = 0.3  # the same until that share is
    early_search_work: float = 1.5e8  # so many operations
    thorough_search_calls: int = 100  # work of a search in a thorough round, at least, in calls from Python
    worthwhile_gain: float = 0.01  # gain below which the same kind of improvement is not repeated
    fruitful_gain: float = 0.05  # gain below which a search counts as fruitless
    patience_growth: float = 2.0  # factor by which a fruitless search postpones the next one
    max_patience: float = 16.0  # and their product, at most
    last_searches: int = 8  # searches before planning stalls
    last_search_share: float = 0.3  # share for each of them
    last_search_gap_ratio: float = 0.98  # gap, as a share of the gap before, that counts as narrower
    second_best_share: float = 0.4  # share of a search for a controller of the grid that is not the best
    min_split_calls: int = 20  # work from which splitting its nodes pays, in calls from Python
    min_evaluation_error: float = 1e-10  # error allowed in the value of a controller, at least

    small_gain: float = 0.02  # gain of the lower bound in a round, as a share of the gap, that is small
    evaluation_accuracy: float = 1e-4  # error allowed in the value of a controller, as a share of the gap
    min_backup_beliefs: int = 500  # beliefs of a point-based backup, at least
    max_backup_beliefs: int = 2000  # and at most
    point_based_share: float = 0.5  # share of a search's budget for point-based iterations
    iteration_share: float = 0.03  # share of a search's budget for one of them
    lookahead_iterations: int = 3  # iterations that a look ahead of the best controller must be able to pay
    lookahead_beliefs_per_node: float = 1.7  # beliefs of a look ahead for each node, at least
    lookahead_max_share: float = 0.5  # share that those beliefs may take
    lookahead_min_share: float = 0.15  # share that is always spent
    lookahead_min_work: float = 5e9  # work before the first look ahead
    lookahead_backoff: float = 2.0  # factor of work to wait after a look ahead that brought nothing
    long_search_patience: float = 4.0  # counter of fruitless searches from which point-based ones are long
    long_search_iterations: int = 100  # iterations without a better controller before a long search gives up
    trajectory_steps: int = 1500  # steps of a trajectory whose beliefs a controller is split for


@dataclass(frozen=True)
class ControllerParameters:
    """Evaluation and improvement of controllers on dense arrays (`upper.controllers`)."""

    damping: float = 0.95  # step size of relative value iteration
    scores_at_once: int = 500_000  # numbers that a backup holds in memory at a time
    max_edges: int = 600  # edges, those of the largest flow, that are looked at for a split
    trajectories: int = 100  # trajectories side by side
    steps_per_belief: int = 4  # steps of them for each new belief, at most
    mass_sweeps: int = 400  # sweeps toward the stationary mass of (node, state), at most
    work_between_clock_checks: float = 1e8  # work of sweeps without looking at the clock
    dense_pairs: int = 900  # pairs (node, state) for which a dense solve is the quickest


@dataclass(frozen=True)
class MultichainParameters:
    """Bounds from the model's own start (`multichain.bounds`)."""

    gain_multiples: tuple[float, ...] = tuple(10.0**k for k in range(9))  # of g, tried as additions to h
    gain_preference: float = 100.0  # weight of gains over relative values in choosing interpolations
    near_point_preferences: tuple[float, ...] = (1e-2, 1e-5, 1e-8)  # by which far points must beat near ones
    growth: float = 0.4  # new points in a round, as a share of the old ones
    min_new_points: int = 8  # new points in a round, at least
    weights_at_once: float = 2e6  # interpolation weights made into probabilities at a time
    max_nodes: int = 1500  # nodes of a controller that looks ahead
    max_pairs: int = 60_000  # pairs (node, state) up to which gains are solved for exactly
    max_lookahead: int = 200  # observations to look ahead
    discount: float = 0.98  # weight of a step on the one before it, in what the start reaches
    steps: int = 200  # such steps


@dataclass(frozen=True)
class InformedParameters:
    """The lower bound of a sparse model (`sparse.informed_bound`)."""

    damping: float = 0.9  # step size of value iteration
    max_sweeps: int = 3000  # sweeps, at most
    sweeps_between_checks: int = 60  # sweeps between looks at whether they still pay
    sweeps_between_choices: int = 15  # sweeps between choices of the points that make up next beliefs
    gain_penalty: float = 1e3  # relative value for each unit of gain that an action gives away
    max_exact_states: int = 4000  # states up to which gains are solved for exactly
    discount: float = 0.99  # weight of a step on the one before it, in the occupancy of beliefs
    occupancy_steps: int = 300  # such steps


@dataclass(frozen=True)
class CoveringParameters:
    """The points that may make up a next belief of a sparse model (`sparse.beliefs`)."""

    points_per_row: int = 6  # points that are tried for one next belief
    min_share: float = 0.02  # share of a next belief that a point has to make up
    pairs_at_once: float = 4_000_000  # common states of rows and points that are counted at a time


@dataclass(frozen=True)
class SparseParameters:
    """Both bounds of a sparse model (`sparse.bound_pair`)."""

    growth: float = 0.3  # new points in a round, as a share of the old ones
    min_new_points: int = 16  # new points in a round, at least
    beliefs: int = 600  # beliefs at which controllers are improved
    fruitless_iterations: int = 10  # iterations at them without a better controller
    search_share: float = 0.5  # share of all work so far that a search for controllers may take
    min_search_work: float = 1.5e9  # and the work that it may always take
    turn_every: int = 4  # every so many rounds, work is spent on the bound that has gained less
    first_layers: int = 16  # layers of the first controller in layers
    max_layers: int = 256  # and of the last one
    give_up_rounds: int = 20  # rounds in a row without any gain after which planning stalls
    slow_from_work: float = 4e9  # work from which progress is judged
    slow_gap_ratio: float = 0.85  # gap, as a share of that at half the work, above which progress is slow


@dataclass(frozen=True)
class SparseControllerParameters:
    """Controllers of a sparse model (`sparse.controllers`)."""

    damping: float = 0.95  # step size of relative value iteration
    scores_at_once: int = 4_000_000  # numbers that a backup holds in memory at a time
    trajectories: int = 20  # trajectories side by side
    random_actions: float = 0.1  # share of random actions along them
    constant_sweeps: int = 100  # sweeps for a controller that never changes its action
    start_sweeps: int = 400  # sweeps over the pairs that the start reaches
    max_matrix_entries: float = 3e7  # entries up to which the matrix of a chain is stored
    max_nodes: int = 4000  # nodes of a controller, where memory allows
    max_splits: int = 300  # edges that are changed at a time, at most
    cycle_passes: int = 400  # passes around the layers of a cyclic controller, at most
    cycle_check_every: int = 10  # passes between looks at whether they still help


@dataclass(frozen=True)
class GmresParameters:
    """Iterative solutions for relative values (`markov.relative_values`)."""

    restart: int = 40  # steps between restarts of GMRES
    cycles: int = 8  # restarts, at most
    shift: float = 1e-4  # the incomplete factors are those of 1 + shift − T
    drop_tolerance: float = 1e-2  # entries smaller than this are left out of them
    fill_factor: float = 3.0  # how many times as large as T they may be


@dataclass(frozen=True)
class PlannerParameters:
    """All parameters of the planner."""

    representation: RepresentationParameters = RepresentationParameters()
    grid: GridParameters = GridParameters()
    refinement: RefinementParameters = RefinementParameters()
    search: SearchParameters = SearchParameters()
    controllers: ControllerParameters = ControllerParameters()
    multichain: MultichainParameters = MultichainParameters()
    informed: InformedParameters = InformedParameters()
    covering: CoveringParameters = CoveringParameters()
    sparse: SparseParameters = SparseParameters()
    sparse_controllers: SparseControllerParameters = SparseControllerParameters()
