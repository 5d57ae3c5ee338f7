"""Settings, POMDPs, and the analysis of their structure."""
