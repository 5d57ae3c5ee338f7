"""The finite sensors that stand for a density, as parts of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ..models import Setting
from ..sensors.bracket import DilatedSensors, QuantizedSensors
from ..sensors.estimated import EstimatedSensors


@dataclass(frozen=True)
class SensorBracket:
    """What the certificates of a plan are about: a lower bound for hubs, an upper bound for cells."""

    quantized_setting: Setting
    dilated_setting: Setting
    cells: QuantizedSensors
    hubs: DilatedSensors


@dataclass(frozen=True)
class SensorEstimate:
    """Classes of observations with estimated probabilities, of which the bounds of a plan are estimates."""

    quantized_setting: Setting
    cells: EstimatedSensors
