"""The search for better controllers (`evaluation` says what a controller proves).

Improvement is of four kinds: point-based backups (a vector for each belief of a set, with successors that
attain the minima); the same at the beliefs of a policy that looks one step further than the controller;
splitting nodes (the average belief on an edge n → σ(n, o) of the running controller tells whether another
node, old or new, would serve it better: to first order the cost falls by flow times difference); and
lookahead layers, several backups on top of a controller before edges are split again, at beliefs that the
controller's own policy visits.
"""

from __future__ import annotations

import numpy as np

from ..._utils.arrays import Array, Index
from ..beliefs import belief_hashes, distinct_beliefs
from ..markov.chains import stationary
from ..parameters import WORK
from . import nodes
from .evaluation import Controller, ControllerEvaluation


class ControllerSearch(ControllerEvaluation):
    """Improves the best controller so far."""

    most_nodes = 4000  # nodes of a controller with lookahead layers
    most_splits = 300  # edges that are changed at a time
    _last_flows: tuple[Controller, tuple[Array, Array, Index]] | None = None

    def improve_point_based(self, beliefs: Array, patience: int = 1, limit: float = np.inf) -> None:
        """Run point-based value iteration: once from the last vectors, then from the best controller.

        Stops after `patience` iterations without a better controller, or when the work exceeds `limit`.
        """
        self.vectors, places = self.point_based_iteration(beliefs, self.vectors)
        self.controller_from_vectors(places, self.vectors)
        assert self.best is not None
        vectors, fruitless, evaluation = self.best.vectors, 0, 0.0
        while fruitless < patience and self.work < limit and not self.expired():
            before, begun = self.bound, self.work
            vectors, places = self.point_based_iteration(beliefs, vectors)
            iterated = self.work
            # Most controllers on the way to a better one are far worse, even right before and right after it.
            # All are evaluated where that costs less than the iteration, and every fifth otherwise.
            if evaluation < iterated - begun or fruitless % 5 == 4:
                self.controller_from_vectors(places, vectors)
                evaluation = self.work - iterated
            fruitless += 1
            if self.bound < before - 1e-12:
                self.vectors = vectors = self.best.vectors
                fruitless = 0

    def improve_by_lookahead(
        self, count: int, rng: np.random.Generator, worthwhile: float, limit: float
    ) -> None:
        """Run point-based value iteration at the beliefs of a policy that looks one step ahead.

        That policy costs less than the best controller, and visits other beliefs.

        Parameters
        ----------
        count
            Number of beliefs.
        rng
            Random numbers for trajectories.
        worthwhile
            Decrease of the bound that counts as an improvement; two iterations without one end the search.
        limit
            Work at which the search ends.
        """
        assert self.best is not None
        vectors = self.best.vectors
        beliefs, action, successor = self.lookahead_beliefs(vectors, count, rng, limit)
        first, _ = nodes.distinct_nodes(action, successor)
        vectors, places = self.node_vectors(action[first], successor[first], vectors), beliefs[first]
        fruitless = 0
        while True:
            before = self.bound
            self.controller_from_vectors(places, vectors)
            fruitless = fruitless + 1 if self.bound >= before - worthwhile else 0
            if fruitless == 2 or self.work > limit or self.expired():
                return
            vectors, places = self.point_based_iteration(beliefs, vectors)

    def lookahead_beliefs(
        self, vectors: Array, count: int, rng: np.random.Generator, limit: float
    ) -> tuple[Array, Index, Index]:
        """Return about `count` distinct beliefs of a policy that looks one step ahead, and their backups.

        Returns
        -------
        tuple
            The beliefs `[n, S]`, and for each the best action `[n]` and the vectors to go on with `[n, O]`.
        """
        d, parallel = self.dynamics, self.parameters.trajectories
        present, rows = np.tile(d.start, (parallel, 1)), np.arange(parallel)
        choice: dict[int, int] = {}
        found: list[tuple[Array, Index, Index]] = []
        for _ in range(1 + self.parameters.steps_per_belief * count // parallel):
            hashes = belief_hashes(present)
            first = np.unique(hashes, return_index=True)[1]
            new = np.array([k for k in first.tolist() if int(hashes[k]) not in choice], np.int64)
            if len(new):
                action, successor, _ = self.backup(present[new], vectors)
                choice.update(zip(hashes[new].tolist(), action.tolist(), strict=True))
                found.append((present[new], action, successor))
            if len(choice) >= count or self.work > limit or self.expired():
                break
            chosen = np.array([choice[each] for each in hashes.tolist()])
            after = self._joint_beliefs(present, chosen)
            probabilities = after.sum(axis=2)
            cumulated = probabilities.cumsum(axis=1)
            uniforms = (1 - 1e-12) * rng.random((parallel, 1))  # the product stays below the last sum
            observation = (cumulated <= uniforms * cumulated[:, -1:]).sum(axis=1)
            present = after[rows, observation] / probabilities[rows, observation, None]
            present = self._restarted(present, rng)
            self.work += WORK.python_call + WORK.matrix_product * present.size * self._joint_rows
        beliefs, actions, successors = (np.concatenate(part) for part in zip(*found, strict=True))
        return beliefs, actions, successors

    def _restarted(self, present: Array, rng: np.random.Generator) -> Array:
        """Return beliefs on trajectories, of which some begin anew where there is a discount."""
        d = self.dynamics
        if not d.restart:
            return present
        fresh = d.starts[rng.choice(len(d.starts), p=d.start_weights, size=len(present))]
        return np.where(rng.random((len(present), 1)) < d.restart, fresh, present)

    def _joint_beliefs(self, beliefs: Array, actions: Index) -> Array:
        """Return b M[a, o] for each belief and its action: [n, O, S']."""
        d, rows = self.dynamics, np.arange(len(beliefs))
        after = (beliefs @ self._joint_matrices).reshape(len(beliefs), d.n_actions, d.n_observations, -1)
        return np.asarray(after[rows, actions])

    def next_beliefs(self, beliefs: Array, actions: Index) -> Array:
        """Return the belief after each observation, [n, O, S']; a uniform one after impossible ones."""
        after = self._joint_beliefs(beliefs, actions)
        total = after.sum(axis=2, keepdims=True)
        uniform = 1.0 / self.dynamics.n_states
        self.work += WORK.python_call + WORK.matrix_product * beliefs.size * self._joint_rows
        return np.where(total > 0.0, after / np.where(total > 0.0, total, 1.0), uniform)

    def visited_beliefs(self, controller: Controller, uniforms: Array) -> Array:
        """Return the distinct beliefs along a trajectory of the controller's belief policy."""
        d = self.dynamics
        joint = self._dense.joint
        self.work += WORK.python_call + len(uniforms) * (2.0 * controller.vectors.size + joint[0].size)
        if d.restart:
            beliefs = self._restarted_trajectory(controller, uniforms)
        else:
            beliefs = nodes.belief_trajectory(
                joint, controller.actions, controller.vectors, d.start, uniforms
            )
        return np.asarray(beliefs[np.sort(distinct_beliefs(beliefs)[0])])

    def _restarted_trajectory(self, controller: Controller, uniforms: Array) -> Array:
        """Return the beliefs on a trajectory that begins anew with the probability of a restart."""
        d, found, first = self.dynamics, [], 0
        rng = np.random.default_rng(int(1e9 * float(uniforms[0])))
        while first < len(uniforms):
            last = first + int(rng.geometric(d.restart))
            start = d.starts[rng.choice(len(d.starts), p=d.start_weights)]
            found.append(
                nodes.belief_trajectory(
                    self._dense.joint, controller.actions, controller.vectors, start,
                    d.discount * uniforms[first:last],
                )
            )  # fmt: skip
            first = last
        return np.concatenate(found)

    def split_nodes(self, start: Controller, beliefs: Array, budget: float) -> None:
        """Split nodes of a controller, with ever deeper lookahead, while it pays and the budget lasts."""
        limit = self.work + budget
        current, depth = start, 0
        while self.work < limit and not self.expired():
            extended = None
            if depth:
                extended = self._add_lookahead_layers(current, beliefs, depth, 0.5 * (limit - self.work))
            better = self._split_best_edges(current, extended)
            if better is not None:
                current = better
                depth = max(1, depth - 1) if depth > 1 else depth
            elif depth >= 40:
                break
            else:
                depth = 3 * depth if depth else 1

    def _edge_flows(self, controller: Controller) -> tuple[Array, Array, Index]:
        """Return the edges with the largest flow: average belief, flow, and (node, observation).

        The result for the last controller is kept, because its edges are split in several ways.
        """
        if self._last_flows is not None and self._last_flows[0] is controller:
            return self._last_flows[1]
        d = self.dynamics
        chain = self.chain(controller.actions, controller.successors)
        mass = np.zeros((len(controller), d.n_states))
        mass[controller.start] = d.start
        done, p = 0, self.parameters
        at_once = max(1, int(p.work_between_clock_checks / chain.work))
        afresh = np.zeros_like(mass)
        if d.restart:
            first = (d.starts @ controller.vectors.T).argmin(axis=1)
            np.add.at(afresh, first, d.start_weights[:, None] * d.starts)
            mass, at_once = afresh.copy(), 1
        while done < p.mass_sweeps and not self.expired():
            most = min(at_once, p.mass_sweeps - done)
            before = mass.copy() if d.restart else mass
            spent = stationary(d.factors, chain.actions, chain.successors, mass, 0.9, 1e-9, most)
            done += spent
            if d.restart:
                mass += 0.9 * d.restart * afresh
                if np.abs(mass - before).sum() < 1e-9:
                    break
            elif spent < most:
                break
        self.work += (done + 1) * chain.work + 3 * WORK.python_call
        beliefs, flow, edges = nodes.edge_flows(d.factors, chain.actions, mass)
        top = np.argsort(-flow, kind="stable")[: p.max_edges]
        self._last_flows = controller, (beliefs[top], flow[top], edges[top])
        return self._last_flows[1]

    def _add_lookahead_layers(
        self, controller: Controller, beliefs: Array, depth: int, budget: float
    ) -> tuple[Index, Index, Array]:
        """Return a controller with nodes added that look ahead `depth` steps and then continue in it."""
        extended = controller.actions, controller.successors, controller.vectors
        value = (beliefs @ controller.vectors.T).min(axis=1)
        limit, gain = self.work + budget, self.gain_of(controller)
        for _ in range(depth):
            if self.work > limit or len(extended[0]) > self.most_nodes or self.expired():
                break
            action, successor, new = self.backup(beliefs, extended[2])
            lower = np.flatnonzero(new - gain < value - 1e-9)
            if not len(lower):
                break
            value[lower] = new[lower] - gain
            chosen = lower[nodes.distinct_nodes(action[lower], successor[lower])[0]]
            extended = self._with_nodes(extended, action[chosen], successor[chosen], gain)
        return extended

    def _split_best_edges(
        self, controller: Controller, extended: tuple[Index, Index, Array] | None
    ) -> Controller | None:
        """Redirect or split the edges that promise most; fewer of them while the cost does not fall.

        Parameters
        ----------
        controller
            The controller whose edges are changed.
        extended
            Actions, successors and vectors of the controller with lookahead layers, or None.

        Returns
        -------
        Controller or None
            The first better controller.
        """
        self.work += 5 * WORK.python_call
        beliefs, flow, edges = self._edge_flows(controller)
        node, observation = edges[:, 0], edges[:, 1]
        present = (beliefs * controller.vectors[controller.successors[node, observation]]).sum(axis=1)
        nodes_before = extended or (controller.actions, controller.successors, controller.vectors)
        vectors = nodes_before[2]
        scores = beliefs @ vectors.T
        target = scores.argmin(axis=1)
        by_redirecting = flow * (present - scores[np.arange(len(beliefs)), target])
        new_action, new_successor, new_value = self.backup(beliefs, vectors)
        gain = self.gain_of(controller)
        by_splitting = flow * (present - (new_value - gain))
        promise = np.maximum(by_redirecting, by_splitting)
        order = np.argsort(-promise, kind="stable")
        order = order[promise[order] > 1e-12]
        count = min(len(order), self.most_splits)
        while count >= 1:
            chosen = order[:count]
            splits = by_splitting[chosen] > 1.0001 * by_redirecting[chosen] + 1e-14
            split, redirected = chosen[splits], chosen[~splits]
            changed = nodes_before[1].copy()
            changed[node[redirected], observation[redirected]] = target[redirected]
            after = nodes_before[0], changed, vectors
            if len(split):
                first, kind = nodes.distinct_nodes(new_action[split], new_successor[split])
                changed[node[split], observation[split]] = len(nodes_before[0]) + kind
                added = new_action[split[first]], new_successor[split[first]]
                after = self._with_nodes(after, *added, gain)
            start = int((after[2] @ self.dynamics.start).argmin())
            found = self.evaluate(*self._prune(*after, start))
            if found.bound < controller.bound - 1e-12:
                return found
            count = count // 4 if not self.expired() else 0
        return None

    def _with_nodes(
        self, before: tuple[Index, Index, Array], actions: Index, successors: Index, gain: float
    ) -> tuple[Index, Index, Array]:
        """Return actions, successors and vectors with new nodes; their vectors back up the old ones."""
        vectors = self.node_vectors(actions, successors, before[2], gain)
        return (
            np.concatenate([before[0], actions]),
            np.concatenate([before[1], successors]),
            np.concatenate([before[2], vectors]),
        )
