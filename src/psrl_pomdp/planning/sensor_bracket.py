"""The two finite sensors between which a density is, as parts of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ..models import Setting
from ..sensors.bracket import DilatedSensors, QuantizedSensors


@dataclass(frozen=True)
class SensorBracket:
    """What the certificates of a plan are about: a lower bound for hubs, an upper bound for cells."""

    quantized_setting: Setting
    dilated_setting: Setting
    cells: QuantizedSensors
    hubs: DilatedSensors
