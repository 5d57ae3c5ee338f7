"""The report page of a study: one self-contained HTML file.

`write_page(results, path)` writes the page of the results that `StudyResults.open(folder, skip_damaged=True)`
returns. The page contains plotly.js, compressed; the browser unpacks it. A content security policy in the
page forbids every request and every script except those of the page, which are listed by their hashes. Texts
from models are escaped by jinja2 and, in figures, by `page_style.label`; data in scripts contain no `<`.
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
from ..models import Setting
from ..problems import as_problem
from ..studies.store import Store
from ..studies.study import Study
from ..studies.study_results import StudyResults
from .fit_text import LEVEL, fit_sentences
from .page_data import PageData, ProgressCallback, no_progress
from .page_figures import page_figures
from .page_replay import STEPS, replay, replay_figure
from .page_style import PageFigure, Table
from .page_text import between, interval, listed, number, verdict
from .paper_figures import inline_svg, policy_figure, write_figures
from .plan_figures import MissingExtraError
from .policy_text import describe, labels

_REQUIRED_PACKAGES = ("jinja2", "plotly", "matplotlib")


def need_extras() -> None:
    """Raise `MissingExtraError` if a package that the page needs is not installed."""
    for name in _REQUIRED_PACKAGES:
        if find_spec(name) is None:
            raise MissingExtraError(f'a report needs {name}: pip install "psrl-pomdp[report]"')


def write_page(
    source: Store | StudyResults,
    path: Path,
    *,
    figures: Path | None = None,
    steps: int = STEPS,
    say: ProgressCallback = no_progress,
) -> dict[str, Any]:
    """Write the report page of a study.

    Parameters
    ----------
    source
        The results of the study, or its open folder.
    path
        The file of the page.
    figures
        A folder for the figures as SVG and PDF; by default they are not written.
    steps
        The number of steps of one run that the page can replay; 0 for no replay.
    say
        Called with the name of each part before it is computed.

    Returns
    -------
    dict
        A summary of what was written: paths, sizes, agents, missing runs, the verdict and notes.

    Raises
    ------
    MissingExtraError
        If jinja2, plotly or matplotlib is not installed.
    StudyError
        If the study has no finished run.
    """
    need_extras()
    say("results")
    data = PageData(source, say)
    text = page(data, steps)
    figure_paths = [] if figures is None else write_figures(data, figures)
    say("the page")
    write_atomically(path, text.encode())
    return {
        "page": str(path),
        "bytes": len(text.encode()),
        "figures": [str(figure) for figure in figure_paths],
        "title": title_of(data),
        "agents": [agent.label for agent in data.agents],
        "runs": len(data.results.runs),
        "runs_expected": data.expected,
        "missing": data.results.missing,
        "verdict": list(verdict(data)),
        "fit": fit_sentences(data),
        "notes": data.notes,
        "fingerprint": data.study.fingerprint,
    }


def page(data: PageData, steps: int = STEPS) -> str:
    """Return the HTML of the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    # The replay and the policy may add notes to `data`, so they come before the template.
    replays, learned_sensor = _replay_figures(data, steps)
    figures = [*page_figures(data), *replays]
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
        fit=fit_sentences(data),
        false_alarms=f"{100 * LEVEL:g} %",
        figures={figure.key: figure for figure in figures},
        specs=Markup(_script_json({figure.key: _spec(figure) for figure in figures})),
        policy=policy,
        truth=data.truth,
        problem=None if problem is None else problem.entry,
        setting=None if data.model is None else data.model.setting,
        observations="" if data.model is None else _observations(data.model.setting),
        learned_sensor=learned_sensor,
        study_file=portable_study(data.study, data.name).to_toml(),
        versions=_versions(data),
        style=Markup(_resource("page.css")),
        code=Markup(code),
        plotly=plotly.compressed,
        scripts=f"'{_hash(code)}' '{plotly.hash}'",
    )


def _observations(setting: Setting) -> str:
    """Return what is observed, in words."""
    counted = f"{setting.n_observations} observations" if setting.is_finite else setting.sensor.described()
    return counted if setting.seen_cost is None else f"{counted} and the {setting.units.kind} of each step"


def title_of(data: PageData) -> str:
    """Return the title of the study, or a default."""
    kind = "Bayesian regret" if data.study.truth == "prior" else "Regret"
    return data.study.title or f"{kind} on {data.name}"


# -- parts ------------------------------------------------------------------------------------------


def _replay_figures(data: PageData, steps: int) -> tuple[list[PageFigure], Table | None]:
    """Return the figure of the replay, or [] and a note with the reason; and the learned sensor."""
    if data.model is None or not steps:
        return [], None
    data.say("the replay of a run")
    try:
        found = replay(data.results.experiment, data.replayed, steps)
    except PSRLError as error:
        data.notes.append(f"No run could be replayed: {error}")
        return [], None
    if not found.same:
        data.notes.append(
            "The replay differs from the stored run, which was simulated by another version or on another "
            "machine"
        )
    return [replay_figure(found, labels(data.model), data.units)], found.learned_sensor


@dataclass(frozen=True)
class _Policy:
    svg: Any  # Markup
    description: dict[str, Any]  # a title and its lines
    lower: float
    upper: float
    status: str


def _policy(data: PageData) -> _Policy | None:
    """Return the optimal policy of the true model, as a figure and as text."""
    from markupsafe import Markup

    if data.truth is None:
        return None
    best, world = data.truth.plan, data.truth.world
    described = describe(best, world)
    # A policy that always plays the same action needs no figure.
    svg = "" if described["kind"] == "always" else inline_svg(policy_figure(best, world))
    return _Policy(Markup(svg), described["words"], best.lower, best.upper, best.status)


def portable_study(study: Study, name: str) -> Study:
    """Return the study with a model file named relative to the study file, so that others can run it."""
    if not study.file_sha256:
        return study
    return msgspec.structs.replace(study, problem=name, file_sha256="")


def _versions(data: PageData) -> dict[str, str]:
    ran = sorted({f"{result.version} on {result.platform}" for result in data.results.runs})
    here = f"{__version__}, Python {platform.python_version()}, plotly {version('plotly')}"
    return {"Run by psrl-pomdp": "; ".join(ran), "Page by psrl-pomdp": here}


# -- scripts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CompressedScript:
    compressed: str  # gzip in base64
    hash: str


@lru_cache(maxsize=1)
def _plotly() -> _CompressedScript:
    """Return plotly.js, compressed to two fifths of its size."""
    from plotly.offline import get_plotlyjs

    code = get_plotlyjs()
    compressed = base64.b64encode(gzip.compress(code.encode(), 9, mtime=0)).decode()
    return _CompressedScript(compressed, _hash(code))


def _hash(code: str) -> str:
    """Return the hash by which the content security policy allows a script."""
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


def _script_json(value: Any) -> str:
    """Return JSON for a script element: without `<`, which could end the element, and null for NaN."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
