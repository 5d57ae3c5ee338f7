"""PSRL-POMDP and the agents that it is compared with."""
