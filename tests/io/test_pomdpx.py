"""The .pomdpx reader against arrays built by hand, against loops, and against bytes that hate it."""

from __future__ import annotations

import copy
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psrl_pomdp._utils.arrays import Array
from psrl_pomdp.errors import ParseError
from psrl_pomdp.io.pomdpx import read_pomdpx
from psrl_pomdp.models import POMDP

T = TypeVar("T")
LIMIT = 100_000


def read(document: str, path: str = "test.pomdpx", max_entries: int = LIMIT) -> POMDP:
    return read_pomdpx(document.encode(), path, max_entries=max_entries)


def line_of(document: str, needle: str) -> int:
    assert document.count(needle) == 1, f"{needle!r} occurs {document.count(needle)} times"
    return 1 + document[: document.index(needle)].count("\n")


def refusal(document: str, needle: str, max_entries: int = LIMIT) -> str:
    """The reason for which a document is refused, at the line where `needle` stands."""
    with pytest.raises(ParseError) as caught:
        read(document, max_entries=max_entries)
    assert caught.value.path == "test.pomdpx"
    assert caught.value.line == line_of(document, needle), str(caught.value)
    return caught.value.reason


# ---------------------------------------------------------------- tiger, by hand

TIGER = """<?xml version="1.0" encoding="ISO-8859-1"?>
<pomdpx version="1.0" id="two doors" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<Description>A tiger behind one of two doors.</Description>
<Discount>0.95</Discount>
<Variable>
  <StateVar vnamePrev="door_0" vnameCurr="door_1" fullyObs="false">
    <ValueEnum>left right</ValueEnum>
  </StateVar>
  <ObsVar vname="roar"><ValueEnum>hear-left hear-right</ValueEnum></ObsVar>
  <ActionVar vname="act"><ValueEnum>listen open-left open-right</ValueEnum></ActionVar>
  <RewardVar vname="gain"/>
</Variable>
<InitialStateBelief>
  <CondProb><Var>door_0</Var><Parent>null</Parent>
    <Parameter type="TBL"><Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter>
  </CondProb>
</InitialStateBelief>
<StateTransitionFunction>
  <CondProb>
    <Var>door_1</Var>
    <Parent>act door_0</Parent>
    <Parameter>
      <Entry><Instance>* * -</Instance><ProbTable>0.5 0.5</ProbTable></Entry>
      <Entry><Instance>listen - -</Instance><ProbTable>identity</ProbTable></Entry>
    </Parameter>
  </CondProb>
</StateTransitionFunction>
<ObsFunction>
  <CondProb>
    <Var>roar</Var>
    <Parent>act door_1</Parent>
    <Parameter type="TBL">
      <Entry><Instance>* * -</Instance><ProbTable>uniform</ProbTable></Entry>
      <Entry><Instance>listen - -</Instance><ProbTable>0.85 0.15 0.15 0.85</ProbTable></Entry>
    </Parameter>
  </CondProb>
</ObsFunction>
<RewardFunction>
  <Func>
    <Var>gain</Var>
    <Parent>act door_0</Parent>
    <Parameter type="TBL">
      <Entry><Instance>listen *</Instance><ValueTable>-1</ValueTable></Entry>
      <Entry><Instance>open-left -</Instance><ValueTable>-100 10</ValueTable></Entry>
      <Entry><Instance>open-right right</Instance><ValueTable>-1e2</ValueTable></Entry>
      <Entry><Instance>open-right left</Instance><ValueTable>10.</ValueTable></Entry>
    </Parameter>
  </Func>
</RewardFunction>
</pomdpx>
"""
NOT_USED = "discount 0.95 was read; the average over time is optimized unless a discount is asked for"
EXPECTED = (
    "the reward depends on the next state or observation: "
    "its expectation under the file's own dynamics was formed"
)


def test_tiger_is_the_tiger() -> None:
    model = read(TIGER)
    half = [[0.5, 0.5], [0.5, 0.5]]
    assert model.name == "two doors"
    assert model.remarks == (NOT_USED,)
    assert model.setting.states == ("left", "right")
    assert model.setting.actions == ("listen", "open-left", "open-right")
    assert model.setting.observations == ("hear-left", "hear-right")
    assert model.setting.initial.tolist() == [0.5, 0.5]
    assert model.setting.first_observation is None
    assert model.transition.tolist() == [[[1, 0], [0, 1]], half, half]
    assert model.setting.observation.tolist() == [[[0.85, 0.15], [0.15, 0.85]], half, half]
    np.testing.assert_allclose(model.setting.own_cost, [[-1, -1], [-100, 10], [10, -100]], rtol=1e-12)
    assert model.setting.units.kind == "reward"


def test_name_falls_back_on_the_file_and_the_discount_is_optional() -> None:
    document = TIGER.replace(' id="two doors"', "").replace("<Discount>0.95</Discount>", "")
    model = read(document, "models/den.pomdpx")
    assert (model.name, model.remarks) == ("den", ())
    assert model == read(TIGER)


def test_rows_are_renormalized_within_the_tolerance() -> None:
    model = read(TIGER.replace("0.85 0.15 0.15 0.85", "0.850004 0.15 0.15 0.85"))
    np.testing.assert_allclose(model.setting.observation.sum(axis=-1), 1.0, rtol=1e-15)
    assert model.setting.observation[0, 0, 0] == pytest.approx(0.850004 / 1.000004, rel=1e-14)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_encodings(encoding: str) -> None:
    document = TIGER.replace("ISO-8859-1", encoding).replace("two doors", "zwei Türen")
    model = read_pomdpx(document.encode(encoding), max_entries=LIMIT)
    assert model.name == "zwei Türen"
    assert model == read(TIGER)


# ---------------------------------------------------------------- two factors, by loops

VALUES = {
    "at_0": ["s0", "s1", "s2"],
    "at_1": ["s0", "s1", "s2"],
    "rock_0": ["good", "bad"],
    "rock_1": ["good", "bad"],
    "move": ["stay", "go"],
    "look": ["a0", "a1"],
    "beep": ["o0", "o1", "o2"],
    "flash": ["on", "off"],
}
DECLARED = """<Variable>
  <StateVar vnamePrev="at_0" vnameCurr="at_1" fullyObs="true"><NumValues>3</NumValues></StateVar>
  <StateVar vnamePrev="rock_0" vnameCurr="rock_1"><ValueEnum>good bad</ValueEnum></StateVar>
  <ObsVar vname="beep"><NumValues>3</NumValues></ObsVar>
  <ObsVar vname="flash"><ValueEnum>on off</ValueEnum></ObsVar>
  <ActionVar vname="move"><ValueEnum>stay go</ValueEnum></ActionVar>
  <ActionVar vname="look"><NumValues>2</NumValues></ActionVar>
  <RewardVar vname="pay"/> <RewardVar vname="fine"/>
</Variable>
"""
SECTIONS = {  # rock_1 looks at at_1 of the same moment, and rock_0 at at_0
    "InitialStateBelief": {"at_0": [], "rock_0": ["at_0"]},
    "StateTransitionFunction": {
        "rock_1": ["at_1", "move", "rock_0"],
        "at_1": ["move", "look", "rock_0", "at_0"],
    },
    "ObsFunction": {"beep": ["rock_1", "look", "at_1"], "flash": ["at_1"]},
    "RewardFunction": {"pay": ["move", "at_0"], "fine": ["look", "rock_0", "at_1", "beep"]},
}


class Table(NamedTuple):
    parents: list[str]
    axes: list[str]
    values: Array


def random_tables(seed: int) -> dict[str, Table]:
    rng = np.random.default_rng(seed)
    tables = {}
    for section, functions in SECTIONS.items():
        for name, parents in functions.items():
            sizes = [len(VALUES[parent]) for parent in parents]
            if section == "RewardFunction":
                tables[name] = Table(parents, parents, rng.normal(scale=10.0, size=sizes))
            else:
                values = rng.dirichlet(np.ones(len(VALUES[name])), size=sizes)
                tables[name] = Table(parents, [*parents, name], values)
    return tables


def as_entries(table: Table, tag: str) -> str:
    """TBL: the last variable at once (-), the others value by value, in a shuffled order."""
    rows = list(itertools.product(*(VALUES[axis] for axis in table.axes[:-1])))
    text = ""
    for i in np.random.default_rng(0).permutation(len(rows)):
        numbers = " ".join(map(repr, table.values.reshape(len(rows), -1)[i].tolist()))
        instance = f"<Instance>{' '.join(rows[i])} -</Instance>"
        text += f"<Entry>{instance}<{tag}>{numbers}</{tag}></Entry>\n"
    return f'<Parameter type="TBL">{text}</Parameter>'


def as_diagram(table: Table, tag: str) -> str:
    """DD: one Node for each variable, in the reverse order, so that axes are not taken for granted."""

    def below(fixed: dict[str, int]) -> str:
        left = [axis for axis in table.axes if axis not in fixed]
        if not left:
            value = table.values[tuple(fixed[axis] for axis in table.axes)]
            return f"<Terminal>{float(value)!r}</Terminal>"
        edges = "".join(
            f'<Edge val="{value}">{below({**fixed, left[-1]: i})}</Edge>\n'
            for i, value in enumerate(VALUES[left[-1]])
        )
        return f'<Node var="{left[-1]}">{edges}</Node>'

    return f'<Parameter type="DD"><DAG>{below({})}</DAG></Parameter>'


def written(tables: dict[str, Table], parameter: Callable[[Table, str], str]) -> str:
    """The document of these tables, with this spelling of them."""
    text = f'<pomdpx version="1.0" id="rover">\n{DECLARED}'
    for section, functions in SECTIONS.items():
        function, tag = ("Func", "ValueTable") if "Reward" in section else ("CondProb", "ProbTable")
        text += f"<{section}>\n"
        for name in functions:
            parents = " ".join(tables[name].parents) or "null"
            own = f"<Var>{name}</Var><Parent>{parents}</Parent>"
            text += f"<{function}>{own}{parameter(tables[name], tag)}</{function}>\n"
        text += f"</{section}>\n"
    return text + "</pomdpx>\n"


def moments(*variables: str) -> Iterator[dict[str, str]]:
    for values in itertools.product(*(VALUES[variable] for variable in variables)):
        yield dict(zip(variables, values, strict=True))


def looked_up(table: Table, moment: dict[str, str]) -> float:
    return float(table.values[tuple(VALUES[axis].index(moment[axis]) for axis in table.axes)])


def test_two_factors_against_loops() -> None:
    tables = random_tables(1)
    model = read(written(tables, as_entries))
    setting = model.setting
    assert setting.states == ("s0,good", "s0,bad", "s1,good", "s1,bad", "s2,good", "s2,bad")
    assert setting.actions == ("stay,a0", "stay,a1", "go,a0", "go,a1")
    assert setting.observations[:4] == ("o0,on,s0", "o0,on,s1", "o0,on,s2", "o0,off,s0")
    for b, before in enumerate(moments("at_0", "rock_0")):
        start = looked_up(tables["at_0"], before) * looked_up(tables["rock_0"], before)
        assert setting.initial[b] == pytest.approx(start, rel=1e-12)
        for a, act in enumerate(moments("move", "look")):
            reward = looked_up(tables["pay"], before | act)
            for n, now in enumerate(moments("at_1", "rock_1")):
                all_three = before | act | now
                move = looked_up(tables["at_1"], all_three) * looked_up(tables["rock_1"], all_three)
                assert model.transition[a, b, n] == pytest.approx(move, rel=1e-12)
                for o, reading in enumerate(moments("beep", "flash", "at_1")):
                    sees = reading["at_1"] == now["at_1"]
                    seen = all_three | {"beep": reading["beep"], "flash": reading["flash"]}
                    chance = sees * looked_up(tables["beep"], seen) * looked_up(tables["flash"], seen)
                    assert setting.observation[a, n, o] == pytest.approx(chance, rel=1e-12)
                    reward += move * chance * looked_up(tables["fine"], seen)
            assert setting.own_cost[a, b] == pytest.approx(reward, rel=1e-10)
    assert model.remarks == (EXPECTED,)


def test_table_and_diagram_are_two_spellings_of_one_model() -> None:
    tables = random_tables(2)
    assert read(written(tables, as_entries)) == read(written(tables, as_diagram))
    assert read(written(tables, as_entries)) != read(written(random_tables(3), as_diagram))


@pytest.mark.parametrize("parents", ["move", "at_1", "look beep", "flash at_0", "rock_0 rock_1", "null"])
def test_rewards_on_next_states_and_readings_against_loops(parents: str) -> None:
    tables = random_tables(4)
    axes = [] if parents == "null" else parents.split()
    sizes = [len(VALUES[axis]) for axis in axes]
    tables["fine"] = Table(axes, axes, np.random.default_rng(5).normal(size=sizes))
    model = read(written(tables, as_diagram))
    assert model.remarks == ((EXPECTED,) if {"at_1", "rock_1", "beep", "flash"} & {*axes} else ())
    everything = ("at_0", "rock_0", "move", "look", "at_1", "rock_1", "beep", "flash")
    total = np.zeros((4, 6))
    for moment in moments(*everything):
        a = 2 * VALUES["move"].index(moment["move"]) + VALUES["look"].index(moment["look"])
        b = 2 * VALUES["at_0"].index(moment["at_0"]) + VALUES["rock_0"].index(moment["rock_0"])
        weight = np.prod([looked_up(tables[x], moment) for x in ("at_1", "rock_1", "beep", "flash")])
        total[a, b] += weight * (looked_up(tables["pay"], moment) + looked_up(tables["fine"], moment))
    np.testing.assert_allclose(model.setting.own_cost, total, rtol=1e-10)


# ---------------------------------------------------------------- spellings, on a small model

SMALL = """<pomdpx version="1.0">
<Variable>
  <StateVar vnamePrev="x" vnameCurr="y"><NumValues>3</NumValues></StateVar>
  <StateVar vnamePrev="u" vnameCurr="v"><ValueEnum>no yes</ValueEnum></StateVar>
  <ActionVar vname="a"><NumValues>2</NumValues></ActionVar>
  <RewardVar vname="r"/>
</Variable>
<InitialStateBelief>
  <CondProb><Var>x</Var><Parent>null</Parent><Parameter>
    <Entry><Instance>-</Instance><ProbTable>0.2 0.3 0.5</ProbTable></Entry></Parameter></CondProb>
  <CondProb><Var>u</Var><Parent>null</Parent><Parameter>
    <Entry><Instance>no</Instance><ProbTable>1</ProbTable></Entry></Parameter></CondProb>
</InitialStateBelief>
<StateTransitionFunction>
  <CondProb><Var>y</Var><Parent>a x u</Parent>
    <Parameter TYPE>BODY</Parameter>
  </CondProb>
  <CondProb><Var>v</Var><Parent>u</Parent><Parameter>
    <Entry><Instance>- -</Instance><ProbTable>Identity</ProbTable></Entry></Parameter></CondProb>
</StateTransitionFunction>
<RewardFunction>
  <Func><Var>r</Var><Parent>x</Parent><Parameter>
    <Entry><Instance>-</Instance><ValueTable>0 0.5 1</ValueTable></Entry></Parameter></Func>
</RewardFunction>
</pomdpx>
"""


def small(body: str, kind: str = "TBL") -> str:
    return SMALL.replace("TYPE", f'type="{kind}"').replace("BODY", body)


def next_x(document: str) -> Array:
    """P(y | a, x, u) of the small model: [a, x, u, y]."""
    transition = read(document).transition.reshape(2, 3, 2, 3, 2)
    return np.asarray(transition.sum(axis=-1))


def entry(instance: str, numbers: str) -> str:
    return f"<Entry><Instance>{instance}</Instance><ProbTable>{numbers}</ProbTable></Entry>\n"


def test_nothing_to_read_is_one_reading() -> None:
    model = read(small(entry("* * * -", "uniform")))
    assert model.setting.observations == ("nothing",)
    assert model.setting.observation.tolist() == [[[1.0]] * 6] * 2
    assert model.setting.initial.tolist() == [0.2, 0.0, 0.3, 0.0, 0.5, 0.0]


def test_entries_override_and_dashes_run_with_the_last_one_fastest() -> None:
    body = (
        entry("* * * -", "uniform")
        + entry("a1 - no -", "1 0 0  0 1 0  0.25 0.25 0.5")
        + entry("a0 - yes -", "identity")
        + entry("a0 s2 * *", "0")
        + entry("a0 s2 * s1", "1.0")
    )
    third = [1 / 3, 1 / 3, 1 / 3]
    wanted = np.array(
        [
            [[third, [1, 0, 0]], [third, [0, 1, 0]], [[0, 1, 0], [0, 1, 0]]],
            [[[1, 0, 0], third], [[0, 1, 0], third], [[0.25, 0.25, 0.5], third]],
        ]
    )
    np.testing.assert_allclose(next_x(small(body)), wanted, rtol=1e-15)


def test_dashes_around_a_wildcard() -> None:
    numbers = "0.1 0.2 0.7  0 0 1  1 0 0  0 1 0  0.5 0.5 0  0.3 0.3 0.4"
    table = next_x(small(entry("- - * -", numbers)))
    rows = np.array(numbers.split(), dtype=float).reshape(2, 3, 3)
    for u in (0, 1):
        np.testing.assert_allclose(table[:, :, u], rows, rtol=1e-15)


TEMPLATED = """<DAG><Node var="u">
  <Edge val="no"><SubDAG type="template" idref="moves"/></Edge>
  <Edge val="yes"><Node var="a">
    <Edge val="a0"><SubDAG type="persistent" var="y"/></Edge>
    <Edge val="a1"><SubDAG type="template" idref="moves"/></Edge>
  </Node></Edge>
</Node></DAG>
<SubDAGTemplate id="moves"><Node var="x">
  <Edge val="s0"><SubDAG type="deterministic" var="y" val="s1"/></Edge>
  <Edge val="s1"><SubDAG type="uniform" var="y"/></Edge>
  <Edge val="s2"><SubDAG type="template" idref="rest"/></Edge>
</Node></SubDAGTemplate>
<SubDAGTemplate id="rest"><Node var="u">
  <Edge val="no"><SubDAG type="persistent" var="y"/></Edge>
  <Edge val="yes"><Node var="y"><Edge val="s0"><Terminal>0.25</Terminal></Edge>
    <Edge val="s2"><Terminal> 7.5e-1 </Terminal></Edge></Node></Edge>
</Node></SubDAGTemplate>
"""


def test_diagrams_with_templates() -> None:
    body = (
        entry("* s0 * s1", "1")
        + entry("* s1 * -", "uniform")
        + entry("* s2 no s2", "1")
        + entry("* s2 yes -", "0.25 0 0.75")
        + entry("a0 - yes -", "identity")
    )
    assert read(small(TEMPLATED, "DD")) == read(small(body))
    everywhere = '<DAG><SubDAG type="persistent" var="y"/></DAG>'
    assert read(small(everywhere, "DD")) == read(small(entry("* - * -", "identity")))


def test_one_table_may_hold_several_variables() -> None:
    i, j = SMALL.index("<CondProb><Var>x"), SMALL.index("</InitialStateBelief>")
    joint = """<CondProb><Var>x u</Var><Parent>null</Parent><Parameter type="DD"><DAG><Node var="x">
    <Edge val="s1"><SubDAG type="uniform" var="u"/></Edge></Node></DAG></Parameter></CondProb>"""
    document = (SMALL[:i] + joint + SMALL[j:]).replace("TYPE", "")
    model = read(document.replace("BODY", entry("* * * -", "uniform")))
    assert model.setting.initial.tolist() == [0, 0, 0.5, 0.5, 0, 0]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("<Instance>listen - -", "<Instance>lisen - -", "'lisen' of 'act' (did you mean 'listen'?)"),
        ("<Parent>act door_1", "<Parent>act dor_1", "unknown variable 'dor_1' (did you mean 'door_1'?)"),
        ("<Parent>act door_1", "<Parent>act door_0", "'door_0' (previous state) in a <Parent> that takes:"),
        ("<Parent>act door_1", "<Parent>act act", "names a variable twice"),
        ("<Parent>act door_1", "<Parent>", "<Parent> is empty"),
        ("<Var>roar", "<Var>gain", "'gain' (reward) in a <Var> that takes: observation"),
        ("<Var>door_1", "<Var>door_0", "that takes: current state"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15 0.75", "'act' = 'listen', 'door_1' = 'right' sum to 0.9"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15", "has 3 numbers, not 4"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15 0.85 0", "has more than 4 numbers, not 4"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 -0.15 1.15", "-0.15 is not a probability"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 nan 0.85", "'nan' is not a finite number"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.1_5 0.85", "'0.1_5' is not a finite number"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15 0.8\u0665", "is not a finite number"),
        ("-1e2", "-1e999", "'-1e999' is not a finite number"),
        ("-1e2", "identity", "'identity' is not a finite number"),
        ("<Instance>open-right right", "<Instance>open-right", "has 1 values, not 2"),
        ("<Discount>0.95", "<Discount>1.5", "the discount is 1.5, not in [0, 1]"),
        ("<Discount>0.95", "<Discount>", "'' is not a finite number"),
        ("left right</ValueEnum>", "left left</ValueEnum>", "'left' is listed twice"),
        ("left right</ValueEnum>", "</ValueEnum>", "ValueEnum is empty"),
        ('fullyObs="false"', 'fullyObs="yes"', "fullyObs is 'yes'"),
        ('fullyObs="false"', 'fullObs="true"', "unknown attribute 'fullObs' of <StateVar> (did you"),
        ('vname="act"', 'vname="roar"', "'roar' is declared on line 9 already"),
        ("<RewardFunction>", "<RewardFunktion>", "(did you mean 'RewardFunction'?)"),
        ("<ObsFunction>", "<ObsFunction>loose", "'loose' has no place in <ObsFunction>"),
        ('encoding="ISO-8859-1"', 'encoding="utf-7"', "encoding 'utf-7' is not one of"),
        ("<Parent>act door_1</Parent>", "<Parent>act door_1</Parrent>", "malformed XML: mismatched tag"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, reason: str) -> None:
    place = TIGER.index(old)
    document = TIGER[:place] + new + TIGER[place + len(old) :]
    with pytest.raises(ParseError, match=re.escape(reason)) as caught:
        read(document)
    line = 1 + TIGER[:place].count("\n")
    assert str(caught.value).startswith(f"test.pomdpx:{line}: ")


def without(document: str, start: str, end: str) -> str:
    i = document.index(start)
    return document[:i] + document[document.index(end, i) + len(end) :]


GOOD = small(entry("* * * -", "uniform"))


@pytest.mark.parametrize(
    ("document", "needle", "reason"),
    [
        (
            without(GOOD, "<CondProb><Var>v", "</CondProb>"),
            "<StateTransitionFunction>",
            "<StateTransitionFunction> has no <CondProb> for 'v'",
        ),
        (
            without(GOOD, "<InitialStateBelief>", "</InitialStateBelief>"),
            "<pomdpx",
            "<InitialStateBelief> has no <CondProb> for 'x'",
        ),
        (without(TIGER, "<ObsFunction>", "</ObsFunction>"), "<pomdpx", "has no <CondProb> for 'roar'"),
        (without(GOOD, "<Func>", "</Func>"), "<RewardFunction>", "has no <Func> for 'r'"),
        (without(GOOD, "<RewardVar", "/>"), "<Variable>", "<Variable> has no <RewardVar>"),
        (without(GOOD, "<ActionVar", "</ActionVar>"), "<Variable>", "<Variable> has no <ActionVar>"),
        (without(GOOD, "<Variable>", "</Variable>"), "<pomdpx", "<pomdpx> has no <Variable>"),
        (without(TIGER, "<Parent>act door_0", "</Parent>"), "<CondProb>\n    <Var>door_1", "has no <Parent>"),
        (GOOD.replace("<Var>v", "<Var>y"), "<Var>y</Var><Parent>u", "a second <CondProb> for 'y'"),
        (GOOD.replace("<Parent>a x u", "<Parent>a y"), "<Parent>a y", "'y' is its own parent"),
        (GOOD.replace("<NumValues>2", "<NumValues>0"), "<NumValues>0", "not a number from 1 to"),
        (GOOD.replace("<Instance>no<", "<Instance>yess<"), "yess", "(did you mean 'yes'?)"),
        (GOOD.replace("<NumValues>2", "<NumValues>1e1"), "<NumValues>1e1", "NumValues is '1e1'"),
        (small(entry("* - * s0", "identity")), "identity</", "identity needs two '-'"),
        (small(entry("- * * -", "identity")), "identity</", "of equally many values"),
        (small(entry("* s0 * -", "uniform")), "uniform", "given 'a' = 'a0', 'x' = 's1', 'u' = 'no' sum to 0"),
        (GOOD.replace("TBL", "CONT"), "CONT", "Parameter type 'CONT'"),
        (GOOD.replace("TBL", "DD"), '"DD"', "<Entry> has no place in a Parameter of type DD"),
        (GOOD.replace("ValueTable", "ProbTable"), "0 0.5 1", "expected a <ValueTable>"),
        (GOOD.replace("<pomdpx", "<POMDPX"), "<POMDPX", "unknown element 'POMDPX'"),
    ],
)  # fmt: skip
def test_missing_and_misplaced_pieces_are_named(document: str, needle: str, reason: str) -> None:
    assert reason in refusal(document, needle)


def test_parents_in_a_circle() -> None:
    document = small(entry("* * * * -", "uniform")).replace("<Parent>a x u", "<Parent>a x u v")
    assert read(document).n_states == 6  # y looks at v: fine as long as v does not look at y
    document = document.replace("<Parent>u</Parent>", "<Parent>y</Parent>")
    with pytest.raises(ParseError, match="lead back to itself"):
        read(document)


LEAF = '<SubDAG type="uniform" var="y"/>'


@pytest.mark.parametrize(
    ("body", "needle", "reason"),
    [
        ('<DAG>\n<Node var="z"/></DAG>', "<Node", "'z' is no variable of this <Parameter>"),
        (f'<DAG><Node var="a">\n<Edge val="b0">{LEAF}</Edge></Node></DAG>', "<Edge", "unknown value 'b0'"),
        (
            f'<DAG><Node var="a"><Edge val="a0">{LEAF}</Edge>\n<Edge val="a0">\n{LEAF}</Edge></Node></DAG>',
            '<Edge val="a0">\n<Sub',
            "a second Edge for the value 'a0'",
        ),
        ('<DAG>\n<SubDAG type="maybe" var="y"/></DAG>', "<SubDAG", "SubDAG type 'maybe' is unknown"),
        ('<DAG>\n<SubDAG type="persistent" var="x"/></DAG>', "<SubDAG", "'x' cannot persist"),
        (
            '<DAG>\n<SubDAG type="deterministic" var="y" val="s9"/></DAG>',
            "<SubDAG",
            "unknown value 's9' of 'y'",
        ),
        (
            '<DAG><SubDAG type="template"\n idref="one"/></DAG>\n<SubDAGTemplate id="won"/>',
            "<DAG>",
            "unknown SubDAGTemplate 'one' (did you mean 'won'?)",
        ),
        ("<DAG>\n<Terminal>nan</Terminal></DAG>", "<Terminal", "'nan' is not a finite number"),
        ("<DAG>\n<Terminal>0.5</Terminal></DAG>", "<Terminal", "'u' = 'no' sum to 1.5"),
        ("\n<SubDAGTemplate id='t'/>", "<Parameter type", "<Parameter> has no <DAG>"),
        (f"<DAG>\n{LEAF}{LEAF}</DAG>", f"{LEAF}{LEAF}", "<DAG> has a second"),
    ],
)  # fmt: skip
def test_wrong_diagrams(body: str, needle: str, reason: str) -> None:
    assert reason in refusal(small(body, "DD"), needle)


def test_templates_may_not_contain_themselves() -> None:
    two = (
        '<DAG><SubDAG type="template" idref="one"/></DAG>\n'
        '<SubDAGTemplate id="one"><SubDAG type="template" idref="two"/></SubDAGTemplate>\n'
        '<SubDAGTemplate id="two"><SubDAG type="template" idref="one"/></SubDAGTemplate>\n'
    )
    reason = refusal(small(two, "DD"), '<SubDAGTemplate id="two">')
    assert reason == "the SubDAGTemplate 'one' refers to itself"


def test_long_chains_of_templates_are_refused() -> None:
    chain = '<DAG><SubDAG type="template" idref="t0"/></DAG>\n' + "".join(
        f'<SubDAGTemplate id="t{i}"><SubDAG type="template" idref="t{i + 1}"/></SubDAGTemplate>\n'
        for i in range(5000)
    )
    assert "nested too deep" in refusal(small(chain, "DD"), '<SubDAGTemplate id="t199">')


# ---------------------------------------------------------------- hostile documents


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE pomdpx SYSTEM "http://example.org/evil.dtd">',
        '<!DOCTYPE pomdpx [<!ENTITY secret SYSTEM "file:///etc/passwd">]>',
        "<!DOCTYPE pomdpx>",
        '<!DOCTYPE pomdpx [<!ENTITY % outside SYSTEM "file:///etc/passwd"> %outside;]>',
        "<!DOCTYPE lolz [<!ENTITY l0 'ha'>"
        + "".join(f"<!ENTITY l{i} '{f'&l{i - 1};' * 10}'>" for i in range(1, 10))
        + "]>",
    ],
)
def test_document_types_are_refused(doctype: str) -> None:
    document = TIGER.replace("<pomdpx ", f"{doctype}\n<pomdpx ").replace("A tiger", "&l9; &secret;")
    assert refusal(document, doctype) == "document types and entities are refused"


def test_undeclared_entities_are_malformed() -> None:
    assert "undefined entity" in refusal(TIGER.replace("A tiger", "&tiger;"), "&tiger;")


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        (
            "".join(
                f'<StateVar vnamePrev="p{i}" vnameCurr="c{i}"><NumValues>2</NumValues></StateVar>\n'
                for i in range(2000)
            ),
            (
                "more than 10^15 states, 3 actions and 2 observations: transition[a, s, s′] would have more"
                " than 10^15 entries, the limit is 100000"
            ),
        ),
        (
            '<StateVar vnamePrev="p" vnameCurr="c"><NumValues>999999999</NumValues></StateVar>',
            "1999999998 states, 3 actions and 2 observations: transition[a, s, s′]",
        ),
        (
            '<ObsVar vname="many"><NumValues>100000</NumValues></ObsVar>',
            "observation[a, s, o] would have 1200000 entries, the limit is 100000",
        ),
        (
            '<ActionVar vname="many"><NumValues>8000</NumValues></ActionVar>',
            "2 states, 24000 actions and 2 observations: their names would take more memory",
        ),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_made(declaration: str, reason: str) -> None:
    document = TIGER.replace("</Variable>", f"{declaration}\n</Variable>")
    begun = time.perf_counter()
    assert reason in refusal(document, "<Variable>")
    assert time.perf_counter() - begun < 2.0


def test_the_limit_is_exact_and_counts_the_rewards() -> None:
    assert read(TIGER, max_entries=12).n_states == 2
    assert "would have 12 entries, the limit is 11" in refusal(TIGER, "<Variable>", max_entries=11)
    document = written(random_tables(6), as_entries)  # 4 actions, 6 states, 18 readings
    assert read(document, max_entries=4 * 6 * 6 * 18).n_observations == 18
    reason = refusal(document, "<pomdpx", max_entries=4 * 6 * 6 * 18 - 1)
    assert "reward[a, s, s′, o] would have 2592 entries, the limit is 2591" in reason


def test_deep_nesting_is_refused() -> None:
    document = small("<DAG>" + '<Node var="a">\n<Edge val="a0">' * 50_000, "DD")
    with pytest.raises(ParseError, match="nested more than 200 deep") as caught:
        read(document)
    assert caught.value.line == line_of(document, "<Parameter type") + 98  # two elements a line


def test_templates_that_double_are_refused_and_not_followed() -> None:
    """A variable branched on a second time leaves one branch: 2^60 paths are none at all."""
    doubling = '<DAG><SubDAG type="template" idref="t0"/></DAG>\n' + "".join(
        f'<SubDAGTemplate id="t{i}"><Node var="u">'
        + "".join(
            f'<Edge val="{value}"><SubDAG type="template" idref="t{i + 1}"/></Edge>'
            for value in ("no", "yes")
        )
        + "</Node></SubDAGTemplate>\n"
        for i in range(60)
    )
    document = small(doubling + f'<SubDAGTemplate id="t60">{LEAF}</SubDAGTemplate>', "DD")
    assert read(document) == read(GOOD)


def test_work_is_counted() -> None:
    """25,000 entries that each fill a table of 90,000 cells: refused within seconds."""
    document = small(entry("* * * -", "uniform") * 25_000).replace("0.2 0.3 0.5", "uniform")
    document = document.replace("<NumValues>3", "<NumValues>150").replace("0 0.5 1", "0 " * 150)
    begun = time.perf_counter()
    with pytest.raises(ParseError, match="too much work"):
        read(document, max_entries=200_000)
    assert time.perf_counter() - begun < 15.0


def test_rewards_that_overflow_are_refused() -> None:
    with pytest.raises(ParseError, match="must be positive and finite"):
        read(GOOD.replace("0 0.5 1<", "-1.7e308 0 1.7e308<"))
    document = GOOD.replace("0 0.5 1<", "0 0 1.7e308<").replace(
        '<RewardVar vname="r"/>', '<RewardVar vname="r"/><RewardVar vname="q"/>'
    )
    func = document[document.index("<Func>") : document.index("</RewardFunction>")]
    with pytest.raises(ParseError, match="too large to be added up"):
        read(document.replace(func, func + func.replace("<Var>r", "<Var>q")))


def test_names_that_commas_confuse_are_refused() -> None:
    document = GOOD.replace("<NumValues>3</NumValues>", "<ValueEnum>a a,b c</ValueEnum>")
    document = document.replace("no yes", "b,c c").replace("<Instance>no<", "<Instance>c<")
    with pytest.raises(ParseError, match="commas within the names"):
        read(document)


# ---------------------------------------------------------------- mutations


def as_wildcards(table: Table, tag: str) -> str:
    """TBL: one number everywhere, so that the document is short."""
    number = "3.5" if tag == "ValueTable" else "uniform"
    instance = " ".join("*" for _ in table.axes)
    return f"<Parameter><Entry><Instance>{instance}</Instance><{tag}>{number}</{tag}></Entry></Parameter>"


BASES = [
    TIGER.encode(),
    small(TEMPLATED, "DD").encode(),
    GOOD.encode(),
    written(random_tables(7), as_wildcards).encode(),
]
TAGS = sorted({tag for base in BASES for tag in re.findall(rb"</?\w+[^<>]*>", base)})
WORDS = """nan inf 1e999 -1e308 1e308 1e-320 1_0 -1 0 1 0.5 2 3 1.00001 999999999 65536 100 0x10
    * - , é null identity uniform TBL DD template persistent deterministic true
    door_0 door_1 act roar gain left hear-left x y u v a s0 s1 a0 a1 no yes one moves rest
    at_0 at_1 rock_1 beep pay""".split()
NASTY = [
    *(word.encode() for word in WORDS),
    *(b"' \" < > & &lt; &#0; &#xD800; &l; ]]> <![CDATA[ <!-- --> <a> </a> /> fullyObs=".split()),
    b"<?xml version='1.0' encoding='utf-7'?>",
    b"<!DOCTYPE pomdpx [<!ENTITY l 'l'>]>",
    b"<NumValues>999999999</NumValues>",
    b'<RewardVar vname="more"/>',
    b"\x00\xff\xfe\xed\xa0\x80",
    "\u0665\u00a0\u2003".encode(),
    b" " * 50,
    b"1" * 500,
    b"",
]


Move = tuple[int, int, int, int]  # what to do, where, where else, with which word: each modulo what there is
MOVES = st.lists(st.tuples(*[st.integers(0, 9999)] * 4), min_size=1, max_size=3)
GRAINS = [rb"(?s).{1,40}", rb"[^\s<>]+", rb"</?\w+[^<>]*>", rb">[^<]*<"]


def pick(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]


def mutated(data: bytes, move: Move) -> bytes:
    """A document with a chunk, word, tag or text deleted, doubled, swapped or replaced."""
    how, where, elsewhere, word = move
    spans = [match.span() for match in re.finditer(pick(GRAINS, how), data)]
    if not spans:
        return data
    (a, b), (c, d) = sorted((pick(spans, where), pick(spans, elsewhere)))
    swapped = data[c:d] + data[b:c] + data[a:b] if b <= c else data[c:d]
    new: bytes = pick([b"", data[a:b] * 2, pick(NASTY, word), pick(TAGS, word), swapped], how // len(GRAINS))
    return data[:a] + new + data[(d if new is swapped else b) :]


def rearranged(data: bytes, move: Move) -> bytes:
    """A document that is still well-formed XML, but with a word or an element out of place."""
    how, where, elsewhere, word = move
    root = ElementTree.fromstring(data)
    alike = list(root.iter(pick(sorted({node.tag for node in root.iter()}), how)))
    node, other = pick(alike, where), pick(alike, elsewhere)
    action = pick(["word", "word", "word", "copy", "delete", "double"], elsewhere)
    if action == "word" and (words := (node.text or "").split()):
        place = where % (len(words) + 1)  # behind the last one: one more
        node.text = " ".join([*words[:place], pick(WORDS, word), *words[place + 1 :]])
    elif action == "word" and node.attrib:
        node.set(pick(sorted(node.attrib), where), pick(WORDS, word))
    elif action == "copy":
        node.text = other.text
        node[:] = copy.deepcopy(other[:])
    elif len(node):
        child = pick(list(node), where)
        node.append(copy.deepcopy(child)) if action == "double" else node.remove(child)
    return bytes(ElementTree.tostring(root, encoding="utf-8"))


def outcome(data: bytes) -> POMDP | ParseError:
    """Whatever else comes out fails the test."""
    try:
        return read_pomdpx(data, "fuzz.pomdpx", max_entries=10_000)
    except ParseError as error:
        return error


@settings(max_examples=2000, derandomize=True, database=None, deadline=None)
@given(st.sampled_from(BASES), st.sampled_from([mutated, rearranged, rearranged]), MOVES)
def test_only_a_model_or_a_parse_error_comes_out(
    data: bytes, change: Callable[[bytes, Move], bytes], moves: list[Move]
) -> None:
    for move in moves:
        data = change(data, move)
    found = outcome(data)
    if isinstance(found, ParseError):
        assert found.line is not None
        assert str(found).startswith(f"fuzz.pomdpx:{found.line}: ")
    else:
        np.testing.assert_allclose(found.transition.sum(axis=-1), 1.0, rtol=1e-9)


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    assert isinstance(outcome(data), ParseError)
