"""The page of a study: right numbers, nothing from outside, and controls that work in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from browser import CHROMIUM, Browser, Page
from commands import run
from psrl_pomdp import POMDP, Setting, problem, save
from psrl_pomdp.report import page as page_module
from psrl_pomdp.report.page import page, write_page
from psrl_pomdp.report.page_data import PageData
from psrl_pomdp.report.page_figures import page_figures
from psrl_pomdp.report.page_replay import replay
from psrl_pomdp.report.page_style import label
from psrl_pomdp.report.page_text import verdict
from psrl_pomdp.report.plan_figures import MissingExtraError
from psrl_pomdp.simulation.trace import first_belief
from psrl_pomdp.studies.experiment import Experiment
from psrl_pomdp.studies.jobs import perform
from psrl_pomdp.studies.results import Job, jobs_of
from psrl_pomdp.studies.store import Store, StudyError
from psrl_pomdp.studies.study import Study, study_from, with_file
from psrl_pomdp.studies.summary import summarize
from psrl_pomdp.studies.tables import episode_rows

HOSTILE = '</script><img src=x onerror=alert(1)><b>&amp;"%{x}$x$'

TIGER: dict[str, Any] = {
    "problem": "tiger",
    "horizon": 300,
    "seeds": 3,
    "agents": [
        {"kind": "psrl"},
        {"kind": "psrl", "name": "psrl-rows", "prior": "dirichlet"},
        {"kind": "random"},
    ],
}


def studied(folder: Path, study: Study, *, skip: tuple[str, ...] = ()) -> Store:
    """A study's folder, run here and now, but for the jobs named."""
    store = Store.create(folder, study)
    for job in jobs_of(study):
        if job.name not in skip:
            store.write(job, perform(study, job))
    return store


@pytest.fixture(scope="module")
def tiger(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return studied(tmp_path_factory.mktemp("tiger") / "r", study_from(TIGER))


def hostile_model() -> POMDP:
    """A machine of three states whose every name is an attack."""
    names = [f"{HOSTILE}{i}" for i in range(3)]
    sensor = 0.1 + 0.7 * np.eye(3)
    cost = [[0.0, 0.4, 1.0], [0.6, 0.6, 0.6]]
    setting = Setting(
        sensor, cost, [1.0, 0.0, 0.0], units=HOSTILE,
        states=names, actions=[f"{name}a" for name in names[:2]], observations=[f"{name}o" for name in names],
    )  # fmt: skip
    wear = [[0.7, 0.2, 0.1], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]]
    return POMDP(setting, [wear, [[1.0, 0.0, 0.0]] * 3], name=HOSTILE)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("hostile")
    save(hostile_model(), folder / "evil.json")
    words = {"problem": "evil", "horizon": 200, "seeds": 2, "title": HOSTILE, "agents": [{"kind": "psrl"}]}
    return studied(folder / "r", with_file(study_from(words), folder / "evil.json"))


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what its scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


# -- numbers ----------------------------------------------------------------------------------------


def test_regret_is_that_of_the_summary(tiger: Store) -> None:
    data = PageData(tiger)
    rows = {row["agent"]: row for row in summarize(tiger)["agents"]}
    assert [agent.label for agent in data.agents] == ["psrl", "psrl-rows", "random"] == list(rows)
    for agent in data.agents:
        assert agent.regret == rows[agent.label]["regret"]
        assert agent.interval == tuple(rows[agent.label]["interval"])
    figure = next(figure for figure in page_figures(data) if figure.key == "regret")
    ends = {row[0]: row for row in figure.table.rows if row[1] == 300}
    for name, row in rows.items():
        assert list(ends[name][2:]) == [row["regret"], *row["interval"]]
    curve = next(t for t in figure.traces if t["meta"].get("label") == "psrl")
    assert curve["y"] == rows["psrl"]["curve"]


def test_posteriors_are_measured_as_their_priors_want(tiger: Store) -> None:
    found = PageData(tiger).posterior_curves
    assert {measure: list(agents) for measure, agents in found.items()} == {
        "weight": ["psrl"],
        "distance": ["psrl-rows"],
    }
    kept = np.array([result.posterior for result in tiger.done() if result.agent == "psrl"])
    own = found["weight"]["psrl"]
    assert own.mean.tolist() == kept.mean(axis=0).tolist()
    assert own.low.tolist() == kept.min(axis=0).tolist()
    assert own.high.tolist() == kept.max(axis=0).tolist()
    assert own.mean[-1] > own.mean[0]


def test_episodes_are_those_of_the_table(tiger: Store) -> None:
    data = PageData(tiger)
    rows = [row for result in tiger.done() for row in episode_rows(result)]
    for count in data.counts:
        own = [row for row in rows if row[0] == count.agent]
        assert count.episodes == len(own) == sum(count.reasons.values()) == sum(count.statuses.values())
        assert count.work == sum(row[11] for row in own)
    assert [(e.agent, e.run, e.number, e.start, e.length) for e in data.episodes["psrl"]] == [
        row[:5] for row in rows if row[0] == "psrl"
    ]
    units = problem("tiger").setting.units
    for episode, row in zip(data.episodes["psrl"], (r for r in rows if r[0] == "psrl"), strict=True):
        assert episode.lower == pytest.approx(float(units.from_scaled(row[8])))  # a reward: upside down
        assert episode.gap == pytest.approx(row[8] - row[7])


def test_the_decomposition_adds_up(tiger: Store) -> None:
    figure = next(figure for figure in page_figures(PageData(tiger)) if figure.key == "decomposition")
    assert figure.choices == ("psrl", "psrl-rows")
    for _, _, *terms, total, regret in figure.table.rows:
        assert sum(terms) == pytest.approx(total)
        assert regret <= total


def test_the_bound_is_drawn_where_it_says_something(tmp_path: Path, tiger: Store) -> None:
    unbounded = PageData(tiger)
    assert unbounded.bound is None
    assert "every observation" in unbounded.no_bound
    words = {"problem": "separated", "horizon": 20, "seeds": 2}
    data = PageData(studied(tmp_path / "r", study_from(words)))
    assert data.bound is not None
    assert (data.bound.values > data.curves["psrl"].interval[1]).all()
    figure = next(figure for figure in page_figures(data) if figure.key == "regret")
    assert figure.traces[-1]["y"] == data.bound.values.tolist()


@pytest.mark.parametrize("agent", ["psrl", "psrl-rows", "random"])
def test_a_replay_is_the_run_that_was_kept(tiger: Store, agent: str) -> None:
    """Costs agree with the stored sums, and beliefs with Bayes' rule written out."""
    found = replay(Experiment(tiger.study), tiger.read(Job(agent, 1)), 120)
    assert found.same
    assert (found.own_beliefs is None) == (agent == "random")
    world = problem("tiger")
    belief = first_belief(world, found.observations[0])
    for t, action in enumerate(found.actions):
        assert found.beliefs[t] == pytest.approx(belief, abs=6e-5)
        assert found.costs[t] == pytest.approx(float(world.setting.own_cost[action, found.states[t]]))
        if t + 1 < len(found.actions):
            observation = found.observations[t + 1]
            assert observation is not None
            belief = (belief @ world.transition[action]) * world.setting.observation[action][:, observation]
            belief = belief / belief.sum()


def test_a_replay_that_differs_says_so(tmp_path: Path) -> None:
    """Another seed's results under this study's name."""
    words: dict[str, Any] = {"problem": "tiger", "horizon": 60, "seeds": 1, "agents": [{"kind": "random"}]}
    store = studied(tmp_path / "r", study_from(words))
    [result] = store.done()
    other = msgspec.structs.replace(result, cost=[cost + 1.0 for cost in result.cost])
    experiment = Experiment(store.study)
    assert replay(experiment, result).same
    assert not replay(experiment, other).same


# -- the verdict ------------------------------------------------------------------------------------


def test_the_verdict_names_the_leader_and_how_sure_it_is(tiger: Store) -> None:
    ahead, growing = verdict(PageData(tiger))
    assert ahead.startswith("After 300 steps, psrl")
    assert "random" in ahead
    assert "95 % interval" in ahead
    assert growing == "The growth of its regret is undecided: 3 runs are too few; at least 5 are needed."


def test_one_run_is_no_evidence(tmp_path: Path) -> None:
    words: dict[str, Any] = {"problem": "tiger", "horizon": 40, "seeds": 1, "agents": [{"kind": "psrl"}]}
    ahead, growing = verdict(PageData(studied(tmp_path / "a", study_from(words))))
    assert "one run gives no confidence interval" in ahead
    assert "was not analyzed" in growing
    words["agents"].append({"kind": "random"})
    ahead, _ = verdict(PageData(studied(tmp_path / "b", study_from(words))))
    assert "may be chance" in ahead


# -- nothing from outside, and nothing but text from names ------------------------------------------


def test_the_page_asks_for_nothing(tiger: Store) -> None:
    text = page(PageData(tiger))
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    elements = Elements(text).found
    assert not [tag for tag, attributes in elements if "src" in attributes]
    links = [str(attributes["href"]) for tag, attributes in elements if "href" in attributes]
    assert all(link.startswith(("#", "data:,")) for link in links)
    policy = next(a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert len([tag for tag, _ in elements if tag == "h1"]) == 1
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert {link[1:] for link in links if link != "data:,"} <= set(ids)


def test_hostile_names_are_only_text(hostile: Store) -> None:
    data = PageData(hostile)
    text = page(data, steps=40)
    assert "<img" not in text
    assert [a.get("type", "") for tag, a in Elements(text).found if tag == "script"] == [
        "application/json",
        "application/octet-stream",
        "",
    ]
    embedded = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert embedded is not None
    specs = json.loads(embedded[1])
    assert specs["replay"]["names"][0] == f"{HOSTILE}0"  # set as text by the page
    for spec in specs.values():  # what plotly reads as its own kind of HTML
        for trace in spec["data"]:
            assert "<" not in json.dumps([trace.get("name"), trace.get("customdata")])
        assert "<" not in json.dumps(spec["layout"])
    assert str(hostile.folder.parent) not in text  # a model file is shown by its name


def test_labels_are_short_and_have_no_tags() -> None:
    assert (
        label("<a href='https://example.org'>x</a>", 60) == "&lt;a href='https://example.org'&gt;x&lt;/a&gt;"
    )
    assert label("a\u202eb\x00c") == "a\ufffdb\ufffdc"
    assert len(label("x" * 100)) == 28


# -- studies that are not whole ---------------------------------------------------------------------


def test_missing_failed_and_damaged_runs_are_named(tmp_path: Path) -> None:
    study = study_from(TIGER | {"horizon": 50})
    store = studied(tmp_path / "r", study, skip=("psrl-00001", "random-00002"))
    store.log(event="failed", job="psrl-00001", why="MemoryError()")
    damaged = store.path(Job("psrl-rows", 0))
    damaged.write_bytes(damaged.read_bytes().replace(b'"cost"', b'"most"', 1))
    told = write_page(store, tmp_path / "page.html", steps=10)
    assert (told["runs"], told["runs_expected"]) == (6, 9)
    assert told["missing"].keys() == {"psrl-00001", "random-00002", "psrl-rows-00000"}
    assert "MemoryError" in told["missing"]["psrl-00001"]
    assert "checksum" in told["missing"]["psrl-rows-00000"]
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "6 of 9 runs finished" in text
    assert "MemoryError" in text


@pytest.mark.parametrize(
    "words",
    [
        {"problem": "tiger", "horizon": 1, "seeds": 1},
        {"problem": "tiger", "horizon": 1, "seeds": 2, "agents": [{"kind": "psrl", "prior": "dirichlet"}]},
        {"problem": "tiger", "horizon": 60, "seeds": 2, "agents": [{"kind": "random"}]},
        {"problem": "tiger", "horizon": 60, "seeds": 2, "agents": [{"kind": "tsde"}, {"kind": "memoryless"}]},
        {"problem": "two-rooms", "horizon": 60, "seeds": 2},
        {"problem": "blind-cycle", "horizon": 30, "seeds": 2, "agents": [{"kind": "psrl"}]},
        {"problem": "tiger", "horizon": 30, "seeds": 2, "truth": "prior"},
    ],
    ids=lambda words: f"{words['problem']}-{words['horizon']}-{len(words.get('agents', ''))}",
)
def test_unusual_studies_have_a_page(tmp_path: Path, words: dict[str, Any]) -> None:
    study = study_from({"agents": [{"kind": "psrl"}, {"kind": "oracle"}], **words})
    drawn = tmp_path / "figures" if study.horizon == study.seeds == 1 else None
    told = write_page(studied(tmp_path / "r", study), tmp_path / "page.html", figures=drawn, steps=20)
    assert len(told["verdict"]) == 2
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size < 4e6
    assert drawn is None or (drawn / "regret.pdf").stat().st_size > 1000
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "NaN" not in re.sub(r'<script type="application/octet-stream".*?</script>', "", text)


def test_a_model_file_that_is_gone_leaves_the_rest(tmp_path: Path) -> None:
    save(problem("two-rooms"), tmp_path / "rooms.json")
    study = with_file(
        study_from({"problem": "rooms", "horizon": 20, "seeds": 2, "agents": [{"kind": "psrl"}]}),
        tmp_path / "rooms.json",
    )
    store = studied(tmp_path / "r", study)
    (tmp_path / "rooms.json").unlink()
    told = write_page(store, tmp_path / "page.html")
    assert any("cannot be read" in note for note in told["notes"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="replay"' not in text
    assert 'id="figure-regret"' in text


def test_a_study_without_results_has_no_page(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "r", study_from(TIGER))
    with pytest.raises(StudyError, match=r"no finished run .*psrl-pomdp resume"):
        PageData(store)


def test_a_missing_extra_says_how_to_get_it(tiger: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "find_spec", lambda name: None if name == "plotly" else name)
    with pytest.raises(MissingExtraError, match=r'plotly: pip install "psrl-pomdp\[report\]"'):
        write_page(tiger, tiger.folder / "never.html")
    assert not (tiger.folder / "never.html").exists()


# -- the command ------------------------------------------------------------------------------------


def test_the_command_writes_beside_the_results(tiger: Store, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("report", str(tiger.folder), "--replay", "20", capsys=capsys)
    assert code == 0
    assert out.splitlines()[-1].startswith(f"page: {tiger.folder / 'report.html'} (")
    first = (tiger.folder / "report.html").read_bytes()
    code, out, _ = run("report", str(tiger.folder), "--replay", "20", "--json", capsys=capsys)
    told = json.loads(out)
    assert (code, told["runs"], told["agents"]) == (0, 9, ["psrl", "psrl-rows", "random"])
    assert (tiger.folder / "report.html").read_bytes() == first  # the same study, the same page


def test_figures_for_papers(tiger: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "figures"
    arguments = ("--out", str(tmp_path / "p.html"), "--figures", str(out), "--replay", "0")
    code, _, _ = run("report", str(tiger.folder), *arguments, capsys=capsys)
    assert code == 0
    names = ("decomposition", "episodes", "planning", "policy", "posterior", "regret")
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{n}.{e}" for n in names for e in ("pdf", "svg")
    )
    assert 'id="replay"' not in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_a_folder_without_a_study_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("report", str(tmp_path), capsys=capsys)
    assert code == 1
    assert "holds no study" in err


# -- in a browser -----------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: apt install chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


def undisturbed(shown: Page, path: Path) -> None:
    """No complaint in the console, and no request but for the file itself and pictures inside it."""
    assert shown.complaints() == []
    asked = [address for address in shown.requests() if not address.startswith(("data:", "blob:"))]
    assert asked == [path.resolve().as_uri()]


def draw_all(shown: Page) -> None:
    """Bring every figure near the window."""
    shown.evaluate("document.querySelectorAll('[data-figure]').forEach((card) => card.scrollIntoView())")
    shown.wait_for(
        "[...document.querySelectorAll('[data-figure]')].every((card) => "
        "{ const there = card.querySelector('.plot').data !== undefined; "
        "if (!there) card.scrollIntoView({behavior: 'instant'}); return there; })"
    )


@needs_browser
def test_the_page_works_in_a_browser(tiger: Store, tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "report.html"
    write_page(tiger, path, steps=80)
    browser.events.clear()
    shown = browser.open(path)
    draw_all(shown)
    plot = "document.querySelector('#figure-regret .plot')"

    before = shown.evaluate(f"{plot}.layout.yaxis.tickmode ?? 'auto'")
    shown.press("#figure-regret [data-axis=y]")
    assert {before, shown.evaluate(f"{plot}.layout.yaxis.tickmode ?? 'auto'")} == {"auto", "array"}
    assert shown.evaluate(f"{plot}._fullLayout.xaxis.type") == "log"

    shown.press("#figure-regret .legend button")
    assert (
        shown.evaluate(f"{plot}.data.filter((t) => t.visible === false).map((t) => t.name)") == ["psrl"] * 2
    )
    shown.press("#figure-regret .legend button")

    ink = shown.evaluate(f"{plot}.layout.font.color")
    shown.press("#theme")
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"
    assert shown.evaluate(f"{plot}.layout.font.color") != ink
    shown.screenshot(tmp_path / "dark.png")
    shown.press("#theme")

    now = "document.querySelector('.now').innerText"
    assert "1 of 80" in shown.evaluate(now)
    shown.press("[data-go='1']")
    shown.press(".player input", "ArrowRight")
    assert "3 of 80" in shown.evaluate(now)
    hidden = "document.querySelector('#figure-replay .plot').data[1].visible"
    assert "tiger" not in shown.evaluate(now).split("hidden state")[1]
    assert shown.evaluate(hidden) is False
    shown.press("[data-reveal]")
    assert "tiger" in shown.evaluate(now).split("hidden state")[1]
    assert shown.evaluate(hidden) is True
    shown.press("[data-play]")
    shown.wait_for("Number(document.querySelector('.player input').value) > 4")
    shown.press("[data-play]")

    shown.evaluate("document.querySelector('#figure-regret details').open = true")
    shown.wait_for("document.querySelectorAll('#figure-regret tbody tr').length > 50")
    assert shown.evaluate("document.querySelector('#figure-regret thead').innerText").split() == [
        "agent", "step", "regret", "low", "high",
    ]  # fmt: skip
    undisturbed(shown, path)


@pytest.fixture(scope="module")
def railway(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With an oracle, whose regret is about 0, and a calendar rule, whose regret is large."""
    agents = [{"kind": "calendar"}, {"kind": "oracle"}, {"kind": "psrl", "prior": "finite"}]
    words = {"problem": "railway", "horizon": 2000, "seeds": 3, "tolerance": 1e-5, "agents": agents}
    return studied(tmp_path_factory.mktemp("railway") / "r", study_from(words))


_TICKS = """[...document.querySelectorAll('#figure-regret .%stick text')].map((text) => {
    const box = text.getBoundingClientRect(), room = text.closest('svg').getBoundingClientRect();
    return {words: text.textContent, inside: box.left >= room.left && box.right <= room.right
            && box.top >= room.top && box.bottom <= room.bottom, left: box.left, right: box.right};
})"""


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 390, 1200])
def test_the_first_figure_shows_everybody_and_its_ticks(
    railway: Store, tmp_path: Path, browser: Browser, width: int, dark: bool
) -> None:
    path = tmp_path / "report.html"
    write_page(railway, path, steps=0)
    browser.events.clear()
    shown = browser.open(path, width=width, dark=dark)
    draw_all(shown)
    plot = "document.querySelector('#figure-regret .plot')"
    on = "document.querySelector('#figure-regret [data-axis=y]').getAttribute('aria-pressed')"
    for _ in range(2):  # with either height
        ticks = shown.evaluate(_TICKS % "x")
        assert (ticks[0]["words"], ticks[-1]["words"]) == ("1", "2k")
        assert all(tick["inside"] for tick in [*ticks, *shown.evaluate(_TICKS % "y")])
        assert all(one["right"] < other["left"] for one, other in pairwise(ticks))
        for name in ("calendar", "oracle", "psrl"):  # a line for each entry of the legend, without a gap
            values = shown.evaluate(f"{plot}.data.find((t) => t.name === '{name}' && !t.meta.band).y")
            assert len(values) > 20
            assert None not in values
        shown.press("#figure-regret [data-axis=y]")
    assert shown.evaluate(on) == "true"
    assert "0" in [tick["words"] for tick in shown.evaluate(_TICKS % "y")]
    curve = PageData(railway).curves["oracle"]
    first = f"{plot}.data.find((t) => t.name === 'oracle' && !t.meta.band)"
    assert shown.evaluate(f"{first}.customdata") == pytest.approx(curve.middle.tolist())
    knee = shown.evaluate("JSON.parse(document.getElementById('figures').textContent).regret.knee")
    bent = np.sign(curve.middle) * np.log10(1 + np.abs(curve.middle) / knee)
    assert shown.evaluate(f"{first}.y") == pytest.approx(bent.tolist())
    undisturbed(shown, path)


@needs_browser
def test_zooming_in_finds_ticks(railway: Store, tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "report.html"
    write_page(railway, path, steps=0)
    browser.events.clear()
    shown = browser.open(path)
    draw_all(shown)
    plot = "document.querySelector('#figure-regret .plot')"
    whole = [tick["words"] for tick in shown.evaluate(_TICKS % "y")]
    x, y = "'xaxis.range[0]': 2.1, 'xaxis.range[1]': 2.3", "'yaxis.range[0]': 0.1, 'yaxis.range[1]': 0.3"
    shown.evaluate(f"void Plotly.relayout({plot}, {{{x}, {y}}})")
    shown.wait_for(f"{plot}._fullLayout.xaxis.tickmode === 'auto'")
    assert len(shown.evaluate(_TICKS % "x")) >= 2
    assert len(shown.evaluate(_TICKS % "y")) >= 4
    shown.evaluate(f"void Plotly.relayout({plot}, {{'xaxis.autorange': true, 'yaxis.autorange': true}})")
    shown.wait_for(f"{plot}._fullLayout.xaxis.tickmode === 'array'")
    assert [tick["words"] for tick in shown.evaluate(_TICKS % "y")] == whole
    undisturbed(shown, path)


@needs_browser
def test_a_csv_holds_the_numbers_of_its_figure(hostile: Store, tmp_path: Path, browser: Browser) -> None:
    """And names that a spreadsheet could take for formulas, or for more columns, are quoted."""
    path = tmp_path / "report.html"
    write_page(hostile, path, steps=30)
    browser.events.clear()
    shown = browser.open(path)
    shown.evaluate(
        "window.kept = []; const own = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { window.kept.push(blob); return 'data:,'; }"
    )
    shown.click("#figure-replay [data-csv]")
    text = shown.evaluate("window.kept[0].text()")
    header, first, *rest = text.splitlines()
    assert header.startswith("step,observation,action,hidden state,")
    assert '"</script><img src=x onerror=alert(1)><b>&amp;""%{x}$x$0o"' in first
    assert len(rest) == 29


@needs_browser
@pytest.mark.parametrize("width", [390, 1200])
def test_hostile_names_do_nothing_in_a_browser(
    hostile: Store, tmp_path: Path, browser: Browser, width: int
) -> None:
    path = tmp_path / "report.html"
    write_page(hostile, path, steps=30)
    browser.events.clear()
    shown = browser.open(path, width=width, dark=width == 390)
    draw_all(shown)
    shown.press("[data-reveal]")
    assert shown.evaluate("document.querySelectorAll('img, .plot a, .plot b').length") == 0
    assert shown.evaluate("document.querySelector('h1').textContent") == HOSTILE
    assert shown.evaluate("document.querySelector('#figure-replay .ytick text').textContent").startswith(
        "</scr"
    )
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    scheme = "dark" if width == 390 else "light"
    assert shown.evaluate("document.documentElement.dataset.theme") == scheme
    shown.screenshot(tmp_path / "page.png", whole=True)
    assert (tmp_path / "page.png").stat().st_size > 50_000
    undisturbed(shown, path)


@needs_browser
def test_paper_is_white(tiger: Store, tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "report.html"
    write_page(tiger, path, steps=0)
    browser.events.clear()
    shown = browser.open(path, dark=True)
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate("document.documentElement.dataset.theme") == "light"
    widths = shown.evaluate("[...document.querySelectorAll('.plot')].map((plot) => plot._fullLayout.width)")
    assert set(widths) == {300, 660}  # what a sheet has room for, in every figure
    printed = shown.call("Page.printToPDF", printBackground=True)["data"]
    assert len(printed) > 50_000
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"  # and the screen is as it was
    undisturbed(shown, path)
