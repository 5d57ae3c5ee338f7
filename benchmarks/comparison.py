"""The comparison of all learning algorithms that the manual shows.

    python benchmarks/comparison.py                      # half an hour on two cores
    python benchmarks/comparison.py --only railway
    python benchmarks/comparison.py --write docs/comparison_results.md

`random-readout`, on which spectral algorithms were tested: T = 10^5, 16 runs. `railway` (maintenance),
`spectrum-access` and `river-swim`: T = 10^4, 8 runs. Each is `psrl-pomdp compare NAME --horizon T --seeds N`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STUDIES = {
    "random-readout": (100_000, 16),
    "railway": (10_000, 8),
    "spectrum-access": (10_000, 8),
    "river-swim": (10_000, 8),
}


def compared(name: str, out: Path) -> dict[str, Any]:
    """Return the document that `psrl-pomdp compare --json` prints."""
    horizon, seeds = STUDIES[name]
    words = ["compare", name, "--horizon", str(horizon), "--seeds", str(seeds), "--out", str(out / name)]
    script = "from psrl_pomdp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def markdown(document: dict[str, Any]) -> list[str]:
    """Return the lines of a section: a heading, a table and the verdicts."""
    name, times = document["problem"], document["times"][-3:]
    command = f"psrl-pomdp compare {name} --horizon {document['horizon']} --seeds {document['seeds']}"
    lines = [f"### {name}", "", f"`{command}`. Regret with half the width of its 95 % interval:", ""]
    lines.append("| information | agent | " + " | ".join(f"T = {t:,}" for t in times) + " | µs a step |")
    lines.append("|---|---|" + "---:|" * (len(times) + 1))
    information = ""
    rows = document["agents"]
    order = {row["information"]: i for i, row in reversed(list(enumerate(rows)))}
    for row in sorted(rows, key=lambda row: order[row["information"]]):
        first = row["information"] if row["information"] != information else ""
        information = row["information"]
        cells = [_regret(row, document["times"].index(t)) for t in times]
        took = f"{row['microseconds_a_step']:.3g}"
        lines.append("| " + " | ".join([first, f"`{row['agent']}`", *cells, took]) + " |")
    lines += ["", *_verdicts(document), *_refused(document)]
    return lines


def _regret(row: dict[str, Any], i: int) -> str:
    low, high = row["interval"][i]
    digits = 0 if abs(row["regret"][i]) >= 100 else 1
    return f"{row['regret'][i]:,.{digits}f} ± {0.5 * (high - low):,.{digits}f}"


def _verdicts(document: dict[str, Any]) -> list[str]:
    """Return a sentence with the significant differences between PSRL-POMDP and other agents."""
    sure = [pair for pair in document["pairs"] if pair["sure"]]
    behind = [pair["worse"] for pair in sure if pair["better"] == "psrl"]
    before = [pair["better"] for pair in sure if pair["worse"] == "psrl"]
    level = f"({document['level']:.0%} confidence for all {len(document['pairs'])} pairs together)"
    words = (
        f"`psrl` has significantly lower regret than {_listed(behind)}, and significantly higher regret than "
        f"{_listed(before)} {level}."
    )
    return [words, ""]


def _refused(document: dict[str, Any]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for label, why in document["refused"].items():
        reasons.setdefault(why, []).append(label)
    return [
        line
        for why, labels in reasons.items()
        for line in (f"Not applicable: {_listed(labels)}, because {why}.", "")
    ]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "no agent"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("comparison"),
        help="the folder for results; finished runs in it are not repeated",
    )
    parser.add_argument("--only", choices=STUDIES, action="append", help="may be repeated")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="put the tables there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "Made by `python benchmarks/comparison.py --write docs/comparison_results.md`. The regret of",
        "`oracle` can differ from 0, because the initial and the final belief of a run have different",
        "relative values; the difference is at most the span of the relative value function. In",
        "`river-swim`, a run starts at the left end of the river, far from the large reward at the other.",
        "",
    ]
    for name in options.only or STUDIES:
        lines += markdown(compared(name, options.out))
    text = "\n".join(lines).rstrip() + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
