"""A service in front of a real plant: readings come in over HTTP, actions go back, and nothing is lost.

    psrl-pomdp serve plant.toml --db sqlite:///plant.db --port 8642

The modules, from the inside to the outside:

- `config`: the file `plant.toml`; `guards`: its rules for actions.
- `events`: what happens to a plant, and the chain of hashes over it.
- `engine`: the state machine. It is the only module that touches the `Fleet`. The same events give the same
  state, to the last bit.
- `store`: the log of events in a database, snapshots, tokens; `server_lock`: one server for one database.
- `ledger`: the one thread that takes events in, writes them with one commit and answers after the commit;
  `worker`: the process that plans and refreshes.
- `service`, `routes`, `tokens`, `limits`, `metrics`, `openapi`, `server`: HTTP.
- `audit`: replays a log, and takes an earlier point of it as the state to go on from.
- `client`: the same from Python, with retries.

Only `store`, `service` and what stands on them need the packages of `psrl-pomdp[serve]`. `Client` needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client
    from .config import PlantFile, read_plant
    from .engine import Engine

__all__ = ["Client", "Engine", "PlantFile", "read_plant"]
_HOMES = {"Client": "client", "Engine": "engine", "PlantFile": "config", "read_plant": "config"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
