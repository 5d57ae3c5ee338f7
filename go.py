#!/usr/bin/env python3
"""Install psrl-pomdp and run it, on a machine that has only Python and pip.

    python3 go.py demo [...]   a first look; further arguments go to `psrl-pomdp demo`
    python3 go.py test [...]   run every check: ruff, mypy, import-linter, pytest; further
                               arguments go to pytest
    python3 go.py setup        only install what these two need

The first call makes .venv beside this file and installs there; nothing else on the machine changes,
and later calls start at once. To undo it all, delete .venv.
"""

# The standard library only, and syntax that Python 3.6 can parse: an interpreter that is too old has
# to get as far as the sentence that tells it so.
import difflib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NEEDS = (3, 11)


def too_old(version: "tuple[int, ...]", executable: str, arguments: "list[str]") -> str:
    """What to say to an interpreter that is too old; empty for one that will do."""
    if version >= NEEDS:
        return ""
    this = ".".join(str(number) for number in version)
    again = " ".join(["python3.12", "go.py", *(arguments or ["demo"])])
    return (
        f"psrl-pomdp needs Python {NEEDS[0]}.{NEEDS[1]} or later; this is {this} at {executable}. "
        f"Install a newer Python and run: {again}"
    )


# Here and not in main(): the annotations below are evaluated as they are read, which Python 3.8 cannot.
_complaint = too_old(sys.version_info[:3], sys.executable, sys.argv[1:])
if _complaint:
    sys.exit(_complaint)

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"

# What each command needs beside the package: an extra or a dependency group of pyproject.toml.
COMMANDS = {"demo": "report", "test": "test", "setup": "test"}
PYTEST = ["pytest", "-n", "auto", "--dist", "worksteal"]  # on all cores
CHECKS = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], ["lint-imports"], PYTEST)
# How Python runs a check that `python -m` does not know. The program in .venv would not do: it names the
# folder in which it was installed, and the project may have been moved since.
RUN_BY = {
    "lint-imports": ["-c", "from importlinter.cli import lint_imports_command as run; run()"],
}

GET_PIP = (
    "This Python cannot make a complete virtual environment. On Debian or Ubuntu:\n"
    "    sudo apt install python3-venv python3-pip\n"
    "elsewhere, give this Python pip 22.3 or later: python3 -m ensurepip --upgrade"
)
GET_INDEX = (
    "If that is the network: PyPI, or a mirror of it, must be reachable. Behind a proxy set\n"
    "HTTPS_PROXY; for a mirror set PIP_INDEX_URL, or say so in pip's configuration file."
)
ADVICE = {  # what the output of a failure says: what to do about it
    "no space left": "The disk is full: free about 1 GB.",
    "permission denied|read-only file": "This folder must be writable: move the project to one that is.",
    "ensurepip|no module named (pip|venv)|no such option: --python": GET_PIP,
}


class SetupError(Exception):
    """A failure we foresaw; its text says what to do."""


def say(line: str) -> None:
    print(line, flush=True)  # flushed, so that our lines and a child's keep their order


def explain(what: str, output: str, otherwise: str) -> SetupError:
    """The failure in words: what failed, the last lines it wrote, what to do."""
    tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-12:])
    fits = (advice for sign, advice in ADVICE.items() if re.search(sign, output.lower()))
    return SetupError(f"{what} failed. Its last lines:\n{tail}\n{next(fits, otherwise)}")


def installer_environment() -> dict[str, str]:
    """Ours, so that an installer gives up in good time, asks nothing and installs nowhere else."""
    env = {"PIP_RETRIES": "2", **os.environ, "PIP_NO_INPUT": "1", "PIP_USER": "0"}
    if "PIP_INDEX_URL" in env:
        env.setdefault("UV_DEFAULT_INDEX", env["PIP_INDEX_URL"])  # uv does not read pip's settings
    return env


def quiet(*command: str) -> tuple[bool, str]:
    """Run a command unseen: whether it succeeded, and what it wrote."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=installer_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        return False, str(error)
    return done.returncode == 0, done.stdout


def run(*command: str, cwd: "Path | None" = None) -> int:
    """Run a command in the user's sight; its exit code, 128 + n where signal n ended it."""
    child = subprocess.Popen(command, cwd=cwd)
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            continue  # the terminal sent Ctrl-C to the child as well: let it end in its own way
        signal.signal(signal.SIGTERM, before)
        return code if code >= 0 else 128 - code


def program(name: str) -> str:
    """Where .venv keeps a program."""
    return str(VENV / "Scripts" / f"{name}.exe" if WINDOWS else VENV / "bin" / name)


def venv_version() -> str:
    """The version of the Python in .venv, such as 3.12.1; empty where none runs."""
    if not (VENV / "pyvenv.cfg").is_file():
        return ""  # without that file its Python would install outside of .venv
    show = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    ok, output = quiet(program("python"), "-I", "-S", "-c", show)
    return output.strip() if ok else ""


def make_venv() -> str:
    """Make .venv where it is missing, broken or of another Python; its Python's version."""
    found, this = venv_version(), "{}.{}".format(*sys.version_info[:2])
    if found.split(".")[:2] == this.split("."):
        return found
    state = f"it has Python {found}, this is {this}" if found else "it is broken"
    say(f"Making .venv again ({state}) ..." if VENV.exists() else "Making .venv ...")
    # Debian ships venv without the ensurepip that gives it pip; pip can then help from outside.
    for options in ([], ["--without-pip"]):
        ok, output = quiet(sys.executable, "-m", "venv", "--clear", *options, str(VENV))
        made = venv_version() if ok else ""
        if made:
            return made
    raise explain("Making .venv", output, "Delete .venv, if there is one.")


def pip() -> list[str]:
    """The pip to install with: the one in .venv, else this Python's, aimed at .venv."""
    inside = [program("python"), "-m", "pip"]
    # ensurepip also mends a .venv whose making was interrupted.
    if quiet(*inside, "--version")[0] or quiet(program("python"), "-m", "ensurepip")[0]:
        return inside
    return [sys.executable, "-m", "pip", "--python", program("python")]


def uv() -> str:
    """A uv to install with, fetched into .venv where there is none; empty where it cannot be had."""
    found = shutil.which("uv") or shutil.which(program("uv"))
    if found:
        return found
    say("Fetching uv, a fast installer ...")
    # Only a wheel: compiling uv takes longer than it saves.
    ok, _ = quiet(*pip(), "install", "--only-binary=:all:", "uv")
    return program("uv") if ok else ""


def requirements(name: str) -> list[str]:
    """What pyproject.toml lists for an extra or a dependency group; pip before 25.1 cannot read groups."""
    import tomllib  # here, because a Python that is too old does not have it

    with (ROOT / "pyproject.toml").open("rb") as file:
        try:
            project = tomllib.load(file)
        except ValueError as error:
            raise SetupError(f"pyproject.toml cannot be read: {error}") from None
    extras = project.get("project", {}).get("optional-dependencies", {})
    lists = {**extras, **project.get("dependency-groups", {})}
    if name not in lists:
        raise SetupError(f"pyproject.toml has neither an extra nor a dependency group {name!r}.")
    found = []
    for entry in lists[name]:
        found += [entry] if isinstance(entry, str) else requirements(entry["include-group"])
    return list(dict.fromkeys(found))


def install(name: str) -> None:
    """Install the project editable into .venv, and what `name` lists, by uv where possible, else by pip."""
    pinned = ["-c", "constraints.txt"] if (ROOT / "constraints.txt").is_file() else []
    what = [*pinned, "-e", ".", *requirements(name)]
    title = f"psrl-pomdp and its {name!r} requirements"
    fast, output = uv(), ""
    if fast:
        say(f"Installing {title} with uv ... (once)")
        # Compiled, as pip does it: where Python may not write, every start would compile scipy again.
        ok, output = quiet(fast, "pip", "install", "--compile-bytecode", "--python", program("python"), *what)
        if ok:
            return
    say(f"Installing {title} with pip{', as uv could not' if fast else ''} ... (once)")
    ok, more = quiet(*pip(), "install", *what)
    if not ok:
        raise explain(f"Installing {title}", output + more, GET_INDEX)


def stamp(python: str, name: str) -> str:
    """A hash over all that decides what an installation contains."""
    parts = [python, str(ROOT), name]
    for file in ("pyproject.toml", "constraints.txt"):
        path = ROOT / file
        parts.append(path.read_text(encoding="utf-8") if path.is_file() else "")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def satisfied(python: str, name: str) -> bool:
    """Whether .venv already holds this; an installation with the test tools serves the demo too."""
    path = VENV / ".go-stamp"
    if not path.is_file() or not Path(program("psrl-pomdp")).is_file():
        return False
    return path.read_text(encoding="utf-8") in {stamp(python, name), stamp(python, "test")}


def ready(name: str) -> None:
    """See to it that .venv holds the project and what `name`, an extra or a dependency group, lists."""
    if not (ROOT / "pyproject.toml").is_file():
        raise SetupError(f"There is no pyproject.toml in {ROOT}: go.py works only inside the project.")
    python = make_venv()
    if satisfied(python, name):
        return
    (VENV / ".go-stamp").unlink(missing_ok=True)  # first, so that an interrupted installation has none
    install(name)
    (VENV / ".go-stamp").write_text(stamp(python, name), encoding="utf-8")


def check(arguments: list[str]) -> int:
    """Run the checks in order up to the first that fails; its exit code."""
    start = time.monotonic()
    for number, words in enumerate(CHECKS, 1):
        command = [*words, *arguments] if words is PYTEST else words
        say("$ " + " ".join(command))
        code = run(program("python"), *RUN_BY.get(words[0], ["-m", words[0]]), *command[1:], cwd=ROOT)
        if code:
            say(f"Failed: {' '.join(words)} (exit code {code}), check {number} of {len(CHECKS)}.")
            return code
    say(f"All {len(CHECKS)} checks passed in {time.monotonic() - start:.0f} s.")
    return 0


def go(command: str, arguments: list[str]) -> int:
    ready(COMMANDS[command])
    if command == "demo":
        return run(program("psrl-pomdp"), "demo", *arguments)
    if command == "test":
        return check(arguments)
    say(f"Ready: {program('psrl-pomdp')}")
    return 0


def usage_error(command: str, arguments: list[str]) -> str:
    """What is wrong with the command line; empty where nothing is."""
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return f"unknown command {command!r}{hint}; there are {', '.join(COMMANDS)}"
    return f"setup takes no arguments, got {arguments[0]!r}" if command == "setup" and arguments else ""


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        say(__doc__.strip())
        return 0
    wrong = usage_error(argv[0], argv[1:])
    if wrong:
        print(f"go.py: {wrong}", file=sys.stderr)
        return 2
    try:
        return go(argv[0], argv[1:])
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:  # an OSError's own text names the file
        print(f"go.py: {error}\nThen run again: python3 go.py {' '.join(argv)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
