"""The agents: `psrl` is Algorithm 1, `baselines` are the agents that it is compared with.

Around `psrl` there are `schedules` (when episodes end), `current_episode` (the kernel, plan and policy of an
episode, and the clock), `planning_budget` and `episode_planning` (how accurately to plan, and planning),
`compiled_steps` (the compiled functions of one step), `compiled_policy` and `compiled_driver` (whole episodes
in one compiled loop), `agent_state` (undoing failed calls), `log_learning`, `episode_records` and `reporting`
(what an agent reports), and `serialization` with `serialization_checks` (saved agents).
"""
