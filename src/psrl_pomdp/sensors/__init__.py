"""Observation models: tables, densities of many families, and priors over them."""

from .base import ContinuousSensor, ScalarSensor, SensorBase
from .gaussian import GaussianSensor
from .table import TableSensor

__all__ = ["ContinuousSensor", "GaussianSensor", "ScalarSensor", "SensorBase", "TableSensor"]
