"""The page of a study: one file of HTML that needs nothing else.

`write_page(results, path)` draws what `StudyResults.open(folder, skip_damaged=True)` has read, and writes.
plotly.js is in the page, compressed, and unpacked by the browser; a content security policy in the page
forbids every request, and every script but the page's own, which it knows by their hashes. Texts from models
are escaped by jinja2 and, in figures, by `page_style.label`; data in scripts have no `<`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import platform
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from .._serialization.atomic_files import write_atomically
from .._version import __version__
from ..errors import PSRLError
from ..problems import as_problem
from ..studies.store import Store
from ..studies.study import Study
from ..studies.study_results import StudyResults
from .page_data import PageData, Say, silent
from .page_figures import page_figures
from .page_replay import STEPS, replay, replay_figure
from .page_style import PageFigure
from .page_text import between, interval, listed, number, verdict
from .paper_figures import inline_svg, policy_figure, write_figures
from .plan_figures import MissingExtraError
from .policy_text import describe, labels

_NEEDS = ("jinja2", "plotly", "matplotlib")


def need_extras() -> None:
    """Raise where a page cannot be made."""
    for name in _NEEDS:
        if find_spec(name) is None:
            raise MissingExtraError(f'a report needs {name}: pip install "psrl-pomdp[report]"')


def write_page(
    source: Store | StudyResults,
    path: Path,
    *,
    figures: Path | None = None,
    steps: int = STEPS,
    say: Say = silent,
) -> dict[str, Any]:
    """Write the page, and figures for papers where a folder for them is given; says what was written."""
    need_extras()
    say("results")
    data = PageData(source, say)
    text = page(data, steps)
    drawn = [] if figures is None else write_figures(data, figures)
    say("the page")
    write_atomically(path, text.encode())
    return {
        "page": str(path),
        "bytes": len(text.encode()),
        "figures": [str(figure) for figure in drawn],
        "title": title_of(data),
        "agents": [agent.label for agent in data.agents],
        "runs": len(data.results.runs),
        "runs_expected": data.expected,
        "missing": data.results.missing,
        "verdict": list(verdict(data)),
        "notes": data.notes,
        "fingerprint": data.study.fingerprint,
    }


def page(data: PageData, steps: int = STEPS) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    played = _replayed(data, steps)
    drawn = page_figures(data)
    policy = _policy(data)
    problem = as_problem(data.model)
    code, plotly = _resource("page.js"), _plotly()
    environment = Environment(
        loader=PackageLoader("psrl_pomdp.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"number": number, "interval": interval, "listed": listed, "between": between}
    return environment.get_template("page.html").render(
        data=data,
        title=title_of(data),
        verdict=verdict(data),
        figures={figure.key: figure for figure in [*drawn, *played]},
        specs=Markup(_embedded({figure.key: _spec(figure) for figure in [*drawn, *played]})),
        policy=policy,
        truth=data.truth,
        problem=None if problem is None else problem.entry,
        setting=None if data.model is None else data.model.setting,
        study_file=shown_study(data.study, data.name).to_toml(),
        versions=_versions(data),
        style=Markup(_resource("page.css")),
        code=Markup(code),
        plotly=plotly.packed,
        scripts=f"'{_hash(code)}' '{plotly.hash}'",
    )


def title_of(data: PageData) -> str:
    what = "Bayesian regret" if data.study.truth == "prior" else "Regret"
    return data.study.title or f"{what} on {data.name}"


# -- parts ------------------------------------------------------------------------------------------


def _replayed(data: PageData, steps: int) -> list[PageFigure]:
    """The figure of the replay, or none with the reason noted."""
    if data.model is None or not steps:
        return []
    data.say("the replay of a run")
    try:
        found = replay(data.results.experiment, data.replayed, steps)
    except PSRLError as error:
        data.notes.append(f"No run could be played again: {error}")
        return []
    if not found.same:
        data.notes.append(
            "The replayed steps are not those of the study, which another version or another machine ran"
        )
    return [replay_figure(found, labels(data.model), data.units)]


@dataclass(frozen=True)
class _Policy:
    svg: Any  # Markup
    words: dict[str, Any]
    lower: float
    upper: float
    status: str


def _policy(data: PageData) -> _Policy | None:
    """The best policy of the true model, as a picture and in words."""
    from markupsafe import Markup

    if data.truth is None:
        return None
    best, world = data.truth.plan, data.truth.world
    told = describe(best, world)
    # One action always, whatever is believed, is nothing to draw.
    picture = "" if told["kind"] == "always" else inline_svg(policy_figure(best, world))
    return _Policy(Markup(picture), told["words"], best.lower, best.upper, best.status)


def shown_study(study: Study, name: str) -> Study:
    """The study as others can run it: a model file by its name, and looked for beside the study."""
    if not study.file_sha256:
        return study
    return msgspec.structs.replace(study, problem=name, file_sha256="")


def _versions(data: PageData) -> dict[str, str]:
    ran = sorted({f"{result.version} on {result.platform}" for result in data.results.runs})
    here = f"{__version__}, Python {platform.python_version()}, plotly {version('plotly')}"
    return {"Run by psrl-pomdp": "; ".join(ran), "Page by psrl-pomdp": here}


# -- scripts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Packed:
    packed: str  # gzip in base64
    hash: str


@lru_cache(maxsize=1)
def _plotly() -> _Packed:
    """plotly.js for the page; the one bundle that plotly's package has, at two fifths of its size."""
    from plotly.offline import get_plotlyjs

    code = get_plotlyjs()
    packed = base64.b64encode(gzip.compress(code.encode(), 9, mtime=0)).decode()
    return _Packed(packed, _hash(code))


def _hash(code: str) -> str:
    """By which the page's policy knows a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _resource(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _spec(figure: PageFigure) -> dict[str, Any]:
    return {
        "data": figure.traces,
        "layout": figure.layout | {"height": figure.height},
        "switches": figure.switches,
        "choices": figure.choices,
        "floor": figure.floor,
        "knee": figure.knee,
        "columns": figure.table.columns,
        "rows": figure.table.rows,
        **figure.more,
    }


def _embedded(value: Any) -> str:
    """JSON that can stand in a script: no `<` to end it by, and null for what is not a number."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
