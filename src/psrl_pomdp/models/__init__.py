"""Settings and POMDPs, and facts about their structure."""
