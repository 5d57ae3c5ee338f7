"""The agents that PSRL-POMDP is compared with, one module each.

Bayesian agents: `certainty` (plans for the posterior mean or mode), `ba_pomcp` (tree search; its compiled
part is `tree_search`) and `tsde` (treats observations as states). Agents that estimate a model from moments:
`oas_ucrl`, `seeu` and `sm_ucrl`, with the estimators `moments` and `spectral`, the base class in `base`,
their files in `serialization`, and `coarse_planner`. Reference agents: `random_agent`, `memoryless` and
`calendar_rule`. `options` checks numbers that users pass.

All follow the protocol `psrl_pomdp.protocols.Agent`. The agent with a recurrent network is in
`psrl_pomdp.integrations.recurrent_ppo`, because it needs the extra `deep`.
"""

from .ba_pomcp import BAPOMCPAgent
from .certainty import MAPAgent, MeanAgent
from .memoryless import MemorylessAgent, best_memoryless
from .oas_ucrl import OASUCRL, ActionWiseOASUCRL
from .random_agent import RandomAgent
from .seeu import SEEU, SEEUKnownSensor
from .sm_ucrl import SMUCRL
from .tsde import TSDEAgent

__all__ = [
    "OASUCRL",
    "SEEU",
    "SMUCRL",
    "ActionWiseOASUCRL",
    "BAPOMCPAgent",
    "MAPAgent",
    "MeanAgent",
    "MemorylessAgent",
    "RandomAgent",
    "SEEUKnownSensor",
    "TSDEAgent",
    "best_memoryless",
]
