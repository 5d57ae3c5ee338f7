"""How fast a whole run is, and whether it learns.

    python benchmarks/algorithm.py                  everything but the longest runs, about two minutes
    python benchmarks/algorithm.py --long           T = 10^6 in the continuous case, too
    python benchmarks/algorithm.py --peer PEER.py   beside another implementation in the same run

Finite case: 16 kernels, 4 states, 3 actions, 3 readings, with expected counts. The same arithmetic is done by
our compiled driver, by a loop in C (compiled here, with `cc`), and by numpy, on the same model, policy and
random numbers; in processor seconds, the best of five. Continuous case: 3 states, 3 actions, 4 readings. A
peer is a Python file with `run(transition, observation, cost, initial, horizon, seed)`, which plays PSRL with
a Dirichlet(1) prior and returns anything; arrays are as in this package. Learning: `random-readout` at
T = 10^4 over ten instances, and how soon the truth is found in the separated family beside what the rate
predicts.
"""

from __future__ import annotations

import argparse
import ctypes
import runpy
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from psrl_pomdp import FinitePrior, PSRLAgent, Setting, TSDESchedule, plan, problem, simulate
from psrl_pomdp._numba.jit import GROUPS
from psrl_pomdp.agents.compiled_steps import LAST_T
from psrl_pomdp.agents.psrl import PlanningBudget
from psrl_pomdp.analysis.separation import separation
from psrl_pomdp.simulation import Simulation

C_LOOP = r"""
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* One episode's policy, world and filters for K kernels; the arithmetic of
   psrl_pomdp.agents.compiled_steps.run_episode. The compiler is told A, S, O and K. */
void play(int64_t n, int N,
          const double *restrict theta,   /* [A,S,S,K] */
          const double *restrict eta,     /* [A,O,S] */
          const double *restrict world,   /* [A,S,S] */
          const double *restrict sensor,  /* [A,S,O] */
          const double *restrict cost,    /* [A,S] */
          const double *restrict vectors, const int64_t *actions, const double *restrict uniforms,
          double *restrict belief, double *restrict phi, double *restrict product, double *restrict scale,
          double *restrict logw, double *restrict expected,
          double *restrict truth, double *restrict mine, const double *restrict mykernel,
          int64_t *pseudo, int64_t *present,
          double *restrict sums, uint16_t *outa, uint16_t *outo)
{
  double pred[S*K], step[S*S*K], row[S*K], chance[K], w[K];
  int64_t t = 1;
  for (int64_t i = 0; i < n; i++) {
    /* choose, one step ahead */
    int best = 0; double least = 1e300;
    for (int v = 0; v < N; v++) { double x = 0;
      for (int s = 0; s < S; s++) x += vectors[v*S+s]*mine[s];
      if (x < least) { least = x; best = v; } }
    int own = (int)actions[best], a = own; double worth[A];
    for (int c = 0; c < A; c++) {
      double total = 0, moved[S];
      for (int s = 0; s < S; s++) total += cost[c*S+s]*mine[s];
      for (int y = 0; y < S; y++) { moved[y] = 0;
        for (int s = 0; s < S; s++) moved[y] += mine[s]*mykernel[(c*S+s)*S+y]; }
      for (int o = 0; o < O; o++) { double low = 1e300;
        for (int v = 0; v < N; v++) { double x = 0;
          for (int y = 0; y < S; y++) x += vectors[v*S+y]*(moved[y]*eta[(c*O+o)*S+y]);
          if (x < low) low = x; }
        total += low; }
      worth[c] = total; }
    for (int c = 0; c < A; c++)
      if (c != own && worth[c] < worth[a] - (a == own ? 1e-12 : 0)) a = c;
    /* world */
    int st = (int)present[0];
    double e = 0, gb = 0, gk = 0, gc = 0;
    for (int s = 0; s < S; s++) { e += truth[s]*cost[a*S+s]; gc += (truth[s]-mine[s])*cost[a*S+s];
      gb += fabs(truth[s]-mine[s]); gk += fabs(world[(a*S+st)*S+s]-mykernel[(a*S+st)*S+s]); }
    sums[0] += cost[a*S+st]; sums[1] += e; sums[2] += gb; sums[3] += gk; sums[4] += gc;
    double u = uniforms[2*i], p = 0; int to = S-1;
    for (int s = 0; s < S; s++) { p += world[(a*S+st)*S+s]; if (u < p) { to = s; break; } }
    u = uniforms[2*i+1]; p = 0; int o = O-1;
    for (int k = 0; k < O; k++) { p += sensor[(a*S+to)*O+k]; if (u < p) { o = k; break; } }
    present[0] = to; outa[i] = (uint16_t)a; outo[i] = (uint16_t)o;
    double nt[64], z = 0, zm = 0, nm[64];
    for (int y = 0; y < S; y++) { double x = 0, m = 0;
      for (int s = 0; s < S; s++) { x += truth[s]*world[(a*S+s)*S+y]; m += mine[s]*mykernel[(a*S+s)*S+y]; }
      nt[y] = x*sensor[(a*S+y)*O+o]; z += nt[y]; nm[y] = m*eta[(a*O+o)*S+y]; zm += nm[y]; }
    for (int y = 0; y < S; y++) { truth[y] = nt[y]/z; mine[y] = nm[y]/zm; }
    /* filters */
    const double *th = theta + (size_t)a*S*S*K; const double *et = eta + (a*O+o)*S;
    for (int k = 0; k < K; k++) chance[k] = 0;
    for (int y = 0; y < S; y++) {
      for (int k = 0; k < K; k++) pred[y*K+k] = 0;
      for (int s = 0; s < S; s++) for (int k = 0; k < K; k++) pred[y*K+k] += th[(s*S+y)*K+k]*belief[s*K+k];
      for (int k = 0; k < K; k++) { pred[y*K+k] *= et[y]; chance[k] += pred[y*K+k]; } }
    double tot = 0;
    for (int k = 0; k < K; k++) { w[k] = product[k]*scale[k]; tot += w[k]; }
    for (int k = 0; k < K; k++) w[k] /= tot;
    for (int k = 0; k < K; k++) if (product[k]*chance[k] < 1e-200) {
      double top = -1e300;
      for (int j = 0; j < K; j++) { logw[j] += log(product[j]); product[j] = 1;
        if (logw[j] > top) top = logw[j]; }
      for (int j = 0; j < K; j++) { logw[j] -= top; scale[j] = exp(logw[j]); }
      break; }
    for (int k = 0; k < K; k++) { product[k] *= chance[k]; chance[k] = 1.0/chance[k]; }
    for (int s = 0; s < S; s++) for (int k = 0; k < K; k++) phi[((a*S+s)*S+s)*K+k] += belief[s*K+k];
    for (int x = 0; x < S; x++) for (int y = 0; y < S; y++) for (int k = 0; k < K; k++)
      step[(x*S+y)*K+k] = th[(x*S+y)*K+k]*(et[y]*chance[k]);
    for (int p = 0; p < A*S; p++) {
      double *f = phi + (size_t)p*S*K, number = 0;
      for (int k = 0; k < K; k++) { double x = 0;
        for (int y = 0; y < S; y++) x += f[y*K+k];
        number += w[k]*x; }
      expected[p] = number;
      for (int y = 0; y < S; y++) for (int k = 0; k < K; k++) { double m = 0;
        for (int x = 0; x < S; x++) m += f[x*K+k]*step[(x*S+y)*K+k];
        row[y*K+k] = m; }
      memcpy(f, row, sizeof row); }
    for (int y = 0; y < S; y++) for (int k = 0; k < K; k++) belief[y*K+k] = pred[y*K+k]*chance[k];
    /* pseudo-counts */
    t++;
    for (int j = 0; j < A*S; j++) {
      int64_t c = (int64_t)ceil(expected[j] - 1e-11*(expected[j] > 1 ? expected[j] : 1));
      if (c > t) c = t; if (c > pseudo[j]) pseudo[j] = c; }
  }
}
"""


def sixteen_kernels() -> FinitePrior:
    rng = np.random.default_rng(0)
    sensor = rng.dirichlet(np.ones(3), size=4)
    setting = Setting(sensor, rng.random((3, 4)), np.full(4, 0.25), first_observation=None)
    return FinitePrior(setting, rng.dirichlet(np.ones(4), size=(16, 3, 4)))


class Parts:
    """The arrays of one episode, for the loops beside ours."""

    def __init__(self, prior: FinitePrior, n: int) -> None:
        self.prior, self.n = prior, n
        own = prior.setting
        self.theta = np.ascontiguousarray(prior.kernels.transpose(1, 2, 3, 0))
        self.eta = np.ascontiguousarray(own.observation.transpose(0, 2, 1))
        best = plan(prior.model(0), 1e-3)
        self.vectors, self.actions = best.controller.vectors.copy(), best.controller.actions.copy()
        self.uniforms = np.random.default_rng(1).random((n, 2))


def in_c(parts: Parts) -> tuple[float, np.ndarray] | None:
    """Seconds of the C loop, and the actions; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    prior, n = parts.prior, parts.n
    own = prior.setting
    a, s, o, k = own.n_actions, own.n_states, own.n_observations, len(prior)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(C_LOOP)
        sizes = [f"-D{name}={size}" for name, size in zip("ASOK", (a, s, o, k), strict=True)]
        command = [compiler, "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *sizes]
        subprocess.run([*command, "-o", str(library), str(source), "-lm"], check=True)
        play = ctypes.CDLL(str(library)).play
    belief = np.repeat(own.initial[:, None], k, axis=1)
    out_a, out_o = np.zeros(n, np.uint16), np.zeros(n, np.uint16)
    arrays = [
        parts.theta, parts.eta, prior.kernels[0], own.observation, own.cost, parts.vectors, parts.actions,
        parts.uniforms, belief, np.zeros((a, s, s, k)), np.ones(k), np.ones(k), np.zeros(k), np.zeros((a, s)),
        own.initial.copy(), own.initial.copy(), np.ascontiguousarray(prior.kernels[0]),
        np.zeros((a, s), np.int64), np.zeros(2, np.int64), np.zeros(5), out_a, out_o,
    ]  # fmt: skip
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    begun = time.process_time()
    play(ctypes.c_int64(n), len(parts.actions), *pointers)
    return time.process_time() - begun, out_a


def in_numpy(parts: Parts, n: int) -> float:
    """Seconds of n steps of the same in plain numpy, as one would write it first."""
    prior = parts.prior
    own, kernels = prior.setting, prior.kernels
    belief = np.tile(own.initial, (len(prior), 1))
    phi = np.zeros((len(prior), own.n_actions, own.n_states, own.n_states))
    log_weights = np.zeros(len(prior))
    truth = mine = own.initial
    state, pseudo, sums = 0, np.zeros((own.n_actions, own.n_states)), np.zeros(5)
    begun = time.process_time()
    for i in range(n):
        onward = np.einsum("s,ast,aot->aot", mine, kernels[0], parts.eta)
        a = int((own.cost @ mine + (onward @ parts.vectors.T).min(axis=2).sum(axis=1)).argmin())
        sums[0] += own.cost[a, state]
        sums[1] += truth @ own.cost[a]
        sums[2] += np.abs(truth - mine).sum()
        sums[4] += (truth - mine) @ own.cost[a]
        state = min(int(np.searchsorted(np.cumsum(kernels[0, a, state]), parts.uniforms[i, 0])), 3)
        o = min(int(np.searchsorted(np.cumsum(own.observation[a, state]), parts.uniforms[i, 1])), 2)
        seen = own.observation[a, :, o]
        truth = (truth @ kernels[0, a]) * seen
        truth = truth / truth.sum()
        mine = truth
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        expected = np.einsum("k,kasx->as", weights, phi)
        expected[a] += weights @ belief
        moves = kernels[:, a] * seen
        after = np.einsum("ks,kst->kt", belief, moves)
        chance = after.sum(axis=1)
        log_weights += np.log(chance)
        phi[:, a, np.arange(4), np.arange(4)] += belief
        phi = np.einsum("kasx,kxy->kasy", phi, moves) / chance[:, None, None, None]
        belief = after / chance[:, None]
        pseudo = np.maximum(pseudo, np.ceil(expected))
    return time.process_time() - begun


def kernel_by_kernel(parts: Parts, n: int) -> float:
    """Seconds of n steps of the filters alone in plain numpy, one kernel at a time: matrices and vectors."""
    prior = parts.prior
    own = prior.setting
    beliefs = [own.initial.copy() for _ in prior.kernels]
    counts = [np.zeros((own.n_actions, own.n_states, own.n_states)) for _ in prior.kernels]
    log_weights = np.zeros(len(prior))
    rng = np.random.default_rng(2)
    begun = time.process_time()
    for _ in range(n):
        a, o = rng.integers(own.n_actions), rng.integers(own.n_observations)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        expected = np.zeros((own.n_actions, own.n_states))
        for m, kernel in enumerate(prior.kernels):
            counts[m][a] += np.diag(beliefs[m])
            expected += weights[m] * counts[m].sum(axis=2)
            move = kernel[a] * own.observation[a, :, o]
            after = beliefs[m] @ move
            chance = after.sum()
            counts[m] = counts[m] @ move / chance
            beliefs[m] = after / chance
            log_weights[m] += np.log(chance)
    return time.process_time() - begun


def ours(parts: Parts) -> tuple[float, np.ndarray]:
    """Seconds of the compiled driver within one episode that plays the same policy."""
    agent = PSRLAgent(parts.prior, TSDESchedule())
    run = Simulation(parts.prior.model(0), agent, seed=0)
    run.until(1)
    agent.sampled_filter.transition[..., 0] = parts.prior.kernels[0]
    agent.sampled_filter.belief[:, 0] = run.world.belief
    now = agent.current_episode
    policy = now.policy._replace(vectors=parts.vectors, actions=parts.actions)
    agent.current_episode = replace(now, policy=policy)
    agent.episode_clock.clock[LAST_T] = 1 << 40
    agent.episode_clock.pseudo_start[:] = 1 << 40
    actions, readings = np.zeros(parts.n + 1, np.uint16), np.zeros(parts.n + 1, np.uint16)
    begun = time.process_time()
    done = agent.play(run.world, parts.uniforms, actions, readings, 1)
    assert done == parts.n
    return time.process_time() - begun, actions


def finite_speed() -> None:
    parts = Parts(sixteen_kernels(), 300_000)
    ours(parts)
    rounds = [(ours(parts)[0], in_c(parts)) for _ in range(5)]
    mine = min(seconds for seconds, _ in rounds) / parts.n
    slow = min(in_numpy(parts, 2000) for _ in range(5)) / 2000
    slower = min(kernel_by_kernel(parts, 1000) for _ in range(5)) / 1000
    print("finite case, 16 kernels, 4 states, 3 actions, 3 readings, with expected counts; ns a step")
    print(f"  compiled driver                 {1e9 * mine:9.0f}")
    if rounds[0][1] is not None:
        c = min(found[0] for _, found in rounds if found is not None) / parts.n
        print(f"  loop in C                       {1e9 * c:9.0f}   ours takes {mine / c:.2f} times as long")
    print(f"  numpy, all kernels in one array {1e9 * slow:9.0f}   it takes {slow / mine:.0f} times as long")
    print(
        f"  numpy, kernel by kernel         {1e9 * slower:9.0f}   it takes {slower / mine:.0f} times as long"
    )
    begun = time.process_time()
    trace = simulate(parts.prior.model(0), PSRLAgent(parts.prior, TSDESchedule()), 1_000_000)
    print(
        f"  the whole algorithm, 10^6 steps, {len(trace.episodes)} episodes: "
        f"{time.process_time() - begun:.1f} s"
    )


def continuous_speed(long: bool, peers: list[str]) -> None:
    model = problem("random-readout")
    print("continuous case, 3 states, 3 actions, 4 readings; seconds")
    simulate(model, PSRLAgent(model.prior), 2000)
    spent = {}
    for exponent in (4, 5, 6) if long else (4, 5):
        begun = time.process_time()
        trace = simulate(model, PSRLAgent(model.prior), 10**exponent)
        spent[exponent] = time.process_time() - begun
        print(f"  ours, T = 10^{exponent}: {spent[exponent]:7.2f}   ({len(trace.episodes)} episodes)")
        for path in peers:
            peer = runpy.run_path(path)["run"]
            own = model.setting
            peer(model.transition, own.observation, own.cost, own.initial, 500, 0)
            begun = time.process_time()
            peer(model.transition, own.observation, own.cost, own.initial, 10**exponent, 0)
            print(f"  {Path(path).stem}, T = 10^{exponent}: {time.process_time() - begun:7.2f}")
    last = max(spent)
    print(f"  exponent of cost between the last two: {np.log10(spent[last] / spent[last - 1]):.2f}")


def learning() -> None:
    regrets = []
    for seed in range(10):
        model = problem("random-readout", seed=seed)
        trace = simulate(model, PSRLAgent(model.prior, seed=seed), 10_000, seed=seed)
        regrets.append(float(trace.regret(plan(model, 1e-6))))
    mean, error = np.mean(regrets), np.std(regrets, ddof=1) / np.sqrt(10)
    print(f"random-readout, T = 10^4, ten instances: regret {mean:.1f} ± {error:.1f} (below 100)")
    family = problem("separated").family
    margin = separation(family).epsilon
    times = []
    for seed in range(40):
        truth = family.model(seed % len(family))
        agent = PSRLAgent(family, seed=seed, budget=PlanningBudget(min_tolerance=1e-2))
        trace = simulate(truth, agent, 400, seed=seed, checkpoints=range(1, 401))
        found = np.flatnonzero(trace.checkpoints.truth <= 0.999)
        times.append(int(found[-1]) + 2 if len(found) else 1)
    predicted = np.log((len(family) - 1) / 0.001) / margin
    print(
        f"separated: the truth has weight above 0.999 for good after {np.median(times):.0f} steps (median of "
        f"40, most {max(times)}); log((M − 1)/.001)/ε = {predicted:.0f} with ε = {margin:.3f}"
    )


def main() -> None:
    for group in GROUPS:
        group.compile()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--peer", action="append", default=[])
    options = parser.parse_args()
    finite_speed()
    continuous_speed(options.long, options.peer)
    learning()


if __name__ == "__main__":
    main()
