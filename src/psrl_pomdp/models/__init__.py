"""Models: `Setting`, everything except the transition kernel, and `POMDP`, with the kernel.

The arrays of a model are the paper's (S, A, θ, C, O, η). The action is always the first axis:

| paper        | here                | shape                                                        |
|--------------|---------------------|--------------------------------------------------------------|
| θ(s′ given s, a) | `transition`        | `[A, S, S]`, rows sum to one                                 |
| η(o given s)     | `observation`       | `[A, S, O]`: the observation in state s, which action a led to |
| o_1 ~ η(s_1) | `first_observation` | `[S, O]`, or None if there is no observation before the first action |
| C(s, a)      | `cost`              | `[A, S]`, in [0, 1]; `units` maps it back to the user's numbers |
| h(s)         | `initial`           | `[S]`                                                        |

`analyze_structure` in `models.structure` finds the recurrent classes of a model.
"""

from .._utils.frozen import Frozen
from .pomdp import POMDP, kernel
from .setting import Setting
from .setting_parts import SENSOR
from .units import Kind, Units

__all__ = ["POMDP", "SENSOR", "Frozen", "Kind", "Setting", "Units", "kernel"]
