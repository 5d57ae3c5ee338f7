"""`psrl-pomdp serve` with the small fleet of the tests, as processes that can be killed.

It reads commands from stdin: `start PORT FOLDER` forks a server, which prints its address; `wait` waits for
the end of the server and prints its exit code. A forked server need not import everything anew.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    import uvicorn  # noqa: F401 - so that servers find it imported
    from fake_fleet import make_fleet, make_new
    from plants import PLANT

    from psrl_pomdp import problem
    from psrl_pomdp.live import ledger, routes, store  # noqa: F401
    from psrl_pomdp.live.config import read_plant
    from psrl_pomdp.live.server import log_as_json, serve

    problem(str(PLANT["model"]))  # which imports what makes it
    child = 0
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        if words[0] == "wait":
            say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            continue
        child = os.fork()
        if child:
            say(child)
            continue
        code = 1
        try:
            os.chdir(words[2])
            os.dup2(os.open("log.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            log_as_json()
            serve(
                read_plant("plant.toml"),
                "plant.db",
                port=int(words[1]),
                make_new=make_new,
                make_fleet=make_fleet,
                started=say,
            )
            code = 0
        except Exception:
            traceback.print_exc()
            say("failed")
        finally:
            os._exit(code)


if __name__ == "__main__":  # the worker process imports this file, too
    main()
