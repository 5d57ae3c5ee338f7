"""`psrl-pomdp plugins`: what this package and others bring, and whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import console, json_option, note, plain, print_json

if TYPE_CHECKING:
    from ..registry import Plugin
_EXAMPLES = """\b
Examples:
  psrl-pomdp plugins executors
  psrl-pomdp plugins --check mymodule:MyAgent problems=mymodule:my_problem
"""


@click.command(
    "plugins", epilog=_EXAMPLES, short_help="List the plug-ins of this and other packages, and test them."
)
@click.argument("names", metavar="[NAME|GROUP|PACKAGE]...", nargs=-1)
@click.option("--check", is_flag=True, help="Load each plug-in and test it.  [default: only list them]")
@json_option
def command(names: tuple[str, ...], check: bool, as_json: bool) -> None:
    """List the priors, agents, planners, problems, executors and file formats that can be used, or test them.

    Each line has a name, the package that provides it, and its importable path if there is room. Installed
    packages add plug-ins by entry points; all of them are listed if no NAME, GROUP or PACKAGE is given. With
    --check each plug-in is loaded and tested for what its group requires, and its errors and warnings follow
    its line. An importable path such as mymodule:MyAgent is tested as an agent; write
    priors=mymodule:my_prior for another group.

    \b
    Exit codes:
      0  no plug-in has an error
      1  a plug-in cannot be used, or there was an error, described on stderr
      2  a mistake in the command line
    """
    rows = [_row(plugin) for plugin in _chosen(names)]
    if check:
        from ..studies.plugin_checks import check_plugin

        for plugin, row in zip(_chosen(names), rows, strict=True):
            note(f"checking {plugin.group[:-1]} {plugin.name} ...")
            row["findings"] = [each.to_dict() for each in check_plugin(plugin)]
    if as_json:
        print_json(rows)
    else:
        _print(rows, check)
    if any(finding["severity"] == "error" for row in rows for finding in row.get("findings", ())):
        click.get_current_context().exit(1)


def _chosen(names: tuple[str, ...]) -> list[Plugin]:
    """Those of the given names, groups or packages, in the order of the groups."""
    from .. import registry
    from ..errors import UnknownNameError, did_you_mean

    everything = [plugin for group in registry.GROUPS for plugin in registry.plugins(group)]
    paths, wanted, known = [], set(), set()
    for plugin in everything:
        known |= {plugin.name, plugin.group, plugin.package}
    for name in names:
        group, equals, path = name.rpartition("=")
        if registry.is_path(path):
            paths.append(registry.find(group if equals else "agents", path))
        elif name in known:
            wanted.add(name)
        else:
            raise UnknownNameError(
                f"no plug-in, group or package is called {name!r}{did_you_mean(name, known)}"
            )
    if not names:
        return everything
    return [p for p in everything if wanted & {p.name, p.group, p.package}] + paths


def _row(plugin: Plugin) -> dict[str, Any]:
    return {
        "group": f"psrl_pomdp.{plugin.group}",
        "name": plugin.name,
        "package": plugin.package,
        "version": plugin.version,
        "object": plugin.path,
    }


def _print(rows: list[dict[str, Any]], checked: bool) -> None:
    """Print a line for each plug-in, under the name of its group, with its findings below it in full."""
    from rich.text import Text

    out, group = console(), ""
    names = [plain(row["name"]) for row in rows]
    origins = [plain(f"{row['package']} {row['version']}".strip() or "no package") for row in rows]
    places = [plain(row["object"]) for row in rows]
    wide, broad, long = (max(map(len, texts), default=0) for texts in (names, origins, places))
    room = 2 + wide + 2 + broad + 2 + long <= out.width
    for row, name, origin, place in zip(rows, names, origins, places, strict=True):
        if row["group"] != group:
            group = row["group"]
            out.print(Text(f"{group}:", style="bold"))
        out.print(Text(f"  {name:{wide}}  {origin:{broad}}  {place if room else ''}".rstrip()))
        for finding in row.get("findings", ()):
            out.print(Text(f"    {finding['severity']}: {plain(finding['text'])}"))
    if checked:
        wrong = sum(any(f["severity"] == "error" for f in row["findings"]) for row in rows)
        out.print(f"{len(rows)} plug-ins were checked; {wrong or 'none'} of them failed.")
