"""The other agents, a file each, with the protocol of `psrl_pomdp.simulation.runs.Agent`.

`recurrent` is not among these names: it needs the extra `deep`.
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
