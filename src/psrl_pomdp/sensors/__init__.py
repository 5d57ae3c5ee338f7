"""Observation models: tables, densities of many families, and priors over them."""

from .base import ContinuousSensor, ScalarSensor, SensorBase
from .by_action import ActionSensor, ScalarActionSensor, by_action
from .calibration import calibrate
from .costs import SeenCosts
from .counts import NegativeBinomialSensor, PoissonSensor
from .density import DensitySensor
from .dirichlet import DirichletCosts, DirichletSensor
from .gamma import ExponentialSensor, GammaSensor
from .gaussian import GaussianSensor, LogNormalSensor
from .mixture import MixtureSensor, with_outliers
from .multivariate import MultivariateGaussianSensor
from .normal_inverse_gamma import NormalInverseGammaSensor
from .student import StudentSensor
from .table import TableSensor

__all__ = [
    "ActionSensor",
    "ContinuousSensor",
    "DensitySensor",
    "DirichletCosts",
    "DirichletSensor",
    "ExponentialSensor",
    "GammaSensor",
    "GaussianSensor",
    "LogNormalSensor",
    "MixtureSensor",
    "MultivariateGaussianSensor",
    "NegativeBinomialSensor",
    "NormalInverseGammaSensor",
    "PoissonSensor",
    "ScalarActionSensor",
    "ScalarSensor",
    "SeenCosts",
    "SensorBase",
    "StudentSensor",
    "TableSensor",
    "by_action",
    "calibrate",
    "with_outliers",
]
