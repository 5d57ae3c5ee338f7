"""Adapters to other libraries: Gymnasium, recurrent PPO."""
