"""Directives whose content is generated from the package: `command-help`, `learners` and `problems`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from psrl_pomdp.cli import cli
from psrl_pomdp.problems import catalogue
from psrl_pomdp.studies import agent_kinds as learners


class CommandHelp(SphinxDirective):
    """The `--help` text of every command, one section for each command."""

    def run(self) -> list[nodes.Node]:
        context = click.Context(cli, info_name="psrl-pomdp")
        found = [_section(self, "psrl-pomdp", [_console("psrl-pomdp --help", _help(cli, None))])]
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            text = _help(command, context)
            title = f"psrl-pomdp {name}"
            found.append(_section(self, title, [_console(f"{title} --help", text)]))
        return found


def _help(command: click.Command, parent: click.Context | None) -> str:
    name = "psrl-pomdp" if parent is None else command.name
    settings = {"max_content_width": 100, "terminal_width": 100}
    return command.get_help(click.Context(command, info_name=name, parent=parent, **settings))


def _console(command: str, text: str) -> nodes.Node:
    return nodes.literal_block(text=f"$ {command}\n{text}", language="text")


def _section(directive: SphinxDirective, title: str, body: list[nodes.Node]) -> nodes.Node:
    section = nodes.section(ids=[nodes.make_id(title)], names=[title])
    section += nodes.title(text=title)
    section += body
    directive.state.document.note_implicit_target(section)
    return section


class Learners(SphinxDirective):
    """A table of the kinds of agents: description, prior information, and options with their defaults."""

    def run(self) -> list[nodes.Node]:
        return [_table([("kind", "description", "information", "options and their defaults"), *_LEARNERS])]


def _options(learner: learners.AgentKind) -> str:
    module, _, name = learner.import_path.partition(":")
    cls = getattr(import_module(module, "psrl_pomdp.studies"), name)
    found = learners.options_of(cls)
    return ", ".join(f"`{key} = {value!r}`" for key, value in found.items()) or "none"


# Computed at import, because autodoc changes the signatures later.
_LEARNERS = [
    (f"`{each.kind}`", each.about, each.information, _options(each)) for each in learners.AGENT_KINDS.values()
]


def _table(rows: list[tuple[str, ...]]) -> nodes.Node:
    group = nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    head, body = nodes.thead(), nodes.tbody()
    for i, row in enumerate(rows):
        line = nodes.row()
        line += [nodes.entry("", _paragraph(cell)) for cell in row]
        (head if i == 0 else body).append(line)
    group += [head, body]
    table = nodes.table()
    table += group
    return table


def _paragraph(text: str) -> nodes.Node:
    """Return a paragraph; text between backticks becomes code."""
    paragraph = nodes.paragraph()
    for i, part in enumerate(text.split("`")):
        if part:
            paragraph += nodes.literal(text=part) if i % 2 else nodes.Text(part)
    return paragraph


class Problems(SphinxDirective):
    """The description of every problem, with its parameters, its source and the status of the assumptions."""

    def run(self) -> list[nodes.Node]:
        found = []
        for entry in catalogue():
            body: list[nodes.Node] = [nodes.paragraph("", "", nodes.strong(text=entry.title + "."))]
            body += [_paragraph(" ".join(part.split())) for part in entry.about.split("\n\n")]
            names = ", ".join(f"`{key} = {value!r}`" for key, value in entry.parameters.items())
            rows = [("Parameters", names or "none"), ("Source", entry.source)]
            known = entry.assumptions
            rows += [
                (f"Assumption {number}", getattr(known, name))
                for number, name in enumerate(("bellman", "separation", "belief", "kernel"), start=1)
            ]
            listed = nodes.field_list()
            for name, text in rows:
                listed += nodes.field("", nodes.field_name(text=name), nodes.field_body("", _paragraph(text)))
            found.append(_section(self, entry.name, [*body, listed]))
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-help", CommandHelp)
    app.add_directive("learners", Learners)
    app.add_directive("problems", Problems)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
