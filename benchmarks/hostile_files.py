"""Files made to do harm: thousands of rewritten agents, plans and studies, with their seals made right again.

    python benchmarks/hostile_files.py            20,000 files, some minutes
    python benchmarks/hostile_files.py --files 500 --seed 3

Each file is loaded and used in a forked child: agents take five readings, one of them lost, tell what they
think and are saved; plans are printed, verified, asked and followed; studies and their results are read and
summarized. A child that dies is replaced, and its file counts as a crash. What is printed, by kind of change:
how many files were refused, how many were harmless (used to the end, or stopped by an error of the package),
how many crashed or raised an error that is not the package's, and the most that one file took: CPU seconds,
and memory that was not in use before. The address space that a file may add is limited to 300 MB, so that
asking for more is an error that counts as foreign.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import psrl_pomdp as pp
from psrl_pomdp._serialization.archives import SEAL, members_digest, npy_bytes, pack, unpack
from psrl_pomdp.studies.results import jobs_of
from psrl_pomdp.studies.runner import run
from psrl_pomdp.studies.store import Store
from psrl_pomdp.studies.study import read_study, study_from
from psrl_pomdp.studies.summary import summarize
from psrl_pomdp.studies.tables import write_tables

Rng = np.random.Generator
Arrays = dict[str, Any]
Change = Callable[[Arrays, Rng], Arrays | bytes]

CPU_SECONDS, MEGABYTES = 2.0, 300.0  # that one file may take
UNCHANGED, _UNCHANGED = "none", 0.01  # a share of files is as it was, and has to be taken
_A_CHILD = 250  # files
_NUMBERS = (0, 1, -1, 2, 7, 255, 65535, 10**6, 2**31 - 1, 2**31, 2**40, -(2**40), 2**62, -(2**63), 2**63 - 1)
_FLOATS = (np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 1e-12, 1e6, 1e300, -1e300, 5e-324)
_WORDS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 10**6, 2**31, 2**53, 2**62, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-300,
    1e300,
    "", "x", "0", "-1", "1" * 5000, "\u202e\x1b[2J", "NaN", [], {}, [[]], [None], {"x": 1}, [0] * 1000,
    "fixed-1", "fixed-99999999999999999999", "tsde", "doubling", "closed", "FinitePrior", "DirichletPrior",
    [1, 2, 3],
)  # fmt: skip
_TYPES = ("f2", "f4", ">f8", "f8", "g", "i1", "u1", "i8", "u8", ">i4", "c16", "?", "S5", "U3")


# -- changes of archives ------------------------------------------------------------------------


def one_number(arrays: Arrays, rng: Rng) -> Arrays:
    """One entry of one array."""
    name, array = _some_array(arrays, rng)
    array.reshape(-1)[rng.integers(array.size)] = _nasty(array, rng)
    return arrays | {name: array}


def many_numbers(arrays: Arrays, rng: Rng) -> Arrays:
    """A share of the entries of one array: nasty ones, moved ones, or in another order."""
    name, array = _some_array(arrays, rng)
    flat = array.reshape(-1)
    way = rng.integers(4)
    if way == 0:
        flat[rng.random(array.size) < rng.random()] = _nasty(array, rng)
    elif way == 1:
        rng.shuffle(flat)
    elif way == 2 and array.dtype.kind == "f":
        flat *= rng.choice([0.0, -1.0, 1.0 + 1e-5, 2.0, 1e200])
    else:
        flat[...] = flat[rng.integers(array.size)]
    return arrays | {name: array}


def shapes(arrays: Arrays, rng: Rng) -> Arrays:
    name, array = _some_array(arrays, rng, also_text=True)
    way = rng.integers(6)
    if way == 0:
        array = array.reshape(-1)
    elif way == 1:
        array = array[None]
    elif way == 2:
        array = array[..., :-1] if array.ndim else array.reshape(1)
    elif way == 3:
        array = np.concatenate([array, array]) if array.ndim else np.stack([array, array])
    elif way == 4:
        array = array[:0] if array.ndim else np.zeros((0, 3))
    else:
        array = array.T if array.ndim > 1 else np.array(array.reshape(-1)[0])
    return arrays | {name: array}


def types(arrays: Arrays, rng: Rng) -> Arrays:
    name, array = _some_array(arrays, rng, also_text=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return arrays | {name: array.astype(rng.choice(_TYPES))}
        except ValueError:  # a text that is no number
            return arrays | {name: np.zeros(array.shape, "S3")}


def members(arrays: Arrays, rng: Rng) -> Arrays:
    """One is missing, new, called otherwise, or exchanged for another."""
    names = sorted(arrays)
    name, other = rng.choice(names), rng.choice(names)
    way = rng.integers(4)
    if way == 0:
        return {n: a for n, a in arrays.items() if n != name}
    if way == 1:
        return arrays | {f"{name}x": arrays[other], "plan.7": np.zeros(3, np.uint8)}
    if way == 2:
        return {(f"{other}.{n}" if n == name else n): a for n, a in arrays.items()}
    return arrays | {name: arrays[other], other: arrays[name]}


def words(arrays: Arrays, rng: Rng) -> Arrays:
    """Something in the JSON of the words, somewhere."""
    if "words" not in arrays:
        return arrays
    told = json.loads(arrays["words"].tobytes())
    for _ in range(1 + (rng.random() < 0.2)):
        edit_json(told, rng)
    return arrays | {"words": np.frombuffer(json.dumps(told).encode("utf-8", "surrogatepass"), np.uint8)}


def word_bytes(arrays: Arrays, rng: Rng) -> Arrays:
    """The text of the words: cut, nested, endless, or not JSON."""
    text = arrays["words"].tobytes()
    cut = int(rng.integers(len(text)))
    choices = (
        text[:cut], b"[" * 100_000, b'{"version":' + b"9" * 5000 + b"}", b"", b"null",
        text[:cut] + b"\xff" + text[cut + 1 :], text.replace(b"0.", b"1e999", 1), b'{"version":2,' * 20_000,
        text[:-1] + b',"x":' + b"[0," * 5000,
    )  # fmt: skip
    return arrays | {"words": np.frombuffer(choices[rng.integers(len(choices))], np.uint8)}


def bombs(arrays: Arrays, rng: Rng) -> bytes:
    """Members that unpack to much more than the file, or say so."""
    name = str(rng.choice(sorted(arrays)))
    size = int(rng.choice([1, 8, 15, 30, 60])) << 20
    way = rng.integers(5)
    if way == 0:
        huge = np.zeros(size // 8)
    elif way == 1:
        huge = np.full((size // 8, *arrays[name].shape[1:2], 1)[: max(1, arrays[name].ndim)], 0, np.int64)[
            : size // 8
        ]
    elif way == 2:
        huge = np.full(size, ord("["), np.uint8)
    elif way == 3:  # texts that take many times as much when they are read
        return tight(
            arrays | {"words": np.frombuffer(b'{"version":2,"x":[' + b"[]," * (size // 3) + b"1]}", np.uint8)}
        )
    else:
        return _lying(arrays, name, size)
    return tight(arrays | {name: huge})


def tight(arrays: Arrays) -> bytes:
    """A sealed archive, shrunk as far as it goes, as `pack` would not."""
    parts = {name: npy_bytes(np.asarray(array)) for name, array in arrays.items() if name != SEAL}
    parts[SEAL] = npy_bytes(np.frombuffer(members_digest(parts), np.uint8))
    return _zip(parts)


def _lying(arrays: Arrays, name: str, size: int) -> bytes:
    """A header that promises much more than follows it."""
    parts = {n: npy_bytes(np.asarray(a)) for n, a in arrays.items()}
    header = io.BytesIO()
    told = {"descr": "<f8", "fortran_order": False, "shape": (size, 1 << 20)}
    np.lib.format.write_array_header_1_0(header, told)
    parts[name] = header.getvalue() + bytes(64)
    parts[SEAL] = npy_bytes(np.frombuffer(members_digest(parts), np.uint8))
    return _zip(parts)


def _zip(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in parts.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def inner_plan(arrays: Arrays, rng: Rng) -> Arrays:
    """The same changes to a plan inside an agent, sealed again too."""
    plans = sorted(name for name in arrays if name.startswith("plan"))
    if not plans:
        return one_number(arrays, rng)
    name = plans[rng.integers(len(plans))]
    inner = unpack(arrays[name].tobytes(), "plan")
    changed = _INNER[rng.integers(len(_INNER))](inner, rng)
    data = changed if isinstance(changed, bytes) else pack(changed)
    return arrays | {name: np.frombuffer(data, np.uint8)}


def damaged(arrays: Arrays, rng: Rng) -> bytes:
    """Cut off, or with wrong bytes: the one kind whose seal is left as it is."""
    data = bytearray(pack(arrays))
    if rng.random() < 0.3:
        return bytes(data[: rng.integers(len(data))])
    for _ in range(int(rng.integers(1, 5))):
        data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
    return bytes(data)


_INNER: tuple[Change, ...] = (one_number, many_numbers, shapes, types, members, words, bombs)
CHANGES: tuple[Change, ...] = (
    one_number, many_numbers, shapes, types, members, words, word_bytes, bombs, inner_plan, damaged,
)  # fmt: skip


def _some_array(arrays: Arrays, rng: Rng, also_text: bool = False) -> tuple[str, Any]:
    fit = [
        n
        for n, a in sorted(arrays.items())
        if a.size and (also_text or (a.dtype.kind in "iufb" and n != "words"))
    ]
    name = fit[rng.integers(len(fit))]
    return name, np.array(arrays[name])


def _nasty(array: Any, rng: Rng) -> Any:
    if array.dtype.kind == "f":
        return rng.choice(_FLOATS)
    if array.dtype.kind == "b":
        return bool(rng.integers(2))
    ends = np.iinfo(array.dtype)
    return int(np.clip(_NUMBERS[rng.integers(len(_NUMBERS))], ends.min, ends.max))


# -- changes of texts ---------------------------------------------------------------------------


def edit_json(told: Any, rng: Rng) -> None:
    """Change plain data at a random path: another value, one more, one less, or a number that is near."""
    holder, key = told, None
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            break
        holder = inner
    if key is None:
        return
    way = rng.random()
    if way < 0.1:
        del holder[key]
    elif way < 0.2 and isinstance(holder, list):
        holder.append(holder[key])
    elif way < 0.4 and isinstance(holder[key], int | float):
        holder[key] = holder[key] + rng.choice([-1, 1, 2]) if rng.random() < 0.5 else -holder[key]
        holder[key] = float(holder[key]) if isinstance(holder[key], np.floating) else int(holder[key])
    else:
        holder[key] = _WORDS[rng.integers(len(_WORDS))]


def result_text(data: bytes, rng: Rng) -> bytes:
    """A result of a study with its checksum made right again."""
    result = json.loads(data)["result"]
    body: bytes | None = None
    if rng.random() < 0.85:
        for _ in range(int(rng.integers(1, 4))):
            edit_json(result, rng)
    else:
        deep = b"[" * 5000 + b"]" * 5000
        body = (deep, b"9" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"null", b"[]")[rng.integers(5)]
    body = json.dumps(result).encode() if body is None else body
    return b'{"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'","result":' + body + b"}\n"


def study_text(data: bytes, rng: Rng) -> bytes:
    """A study in TOML with a line, or some bytes, changed."""
    lines = data.decode().splitlines()
    i = int(rng.integers(len(lines)))
    key = lines[i].split("=")[0].strip() or "x"
    values = (
        "1e30", "-1", "0", "9" * 5000, "[" * 5000, "{a=" * 5000, "nan", "inf", "true", "'\u202e'",
        '"\\u0000"', "1000000000000", "[]", "{}", "1979-05-27T07:32:00Z", "'x'", "1_000",
        "0x7fffffffffffffff", "[1, 'a', {}]",
    )  # fmt: skip
    way = rng.random()
    if way < 0.6:
        lines[i] = f"{key} = {values[rng.integers(len(values))]}"
    elif way < 0.7:
        lines.pop(i)
    elif way < 0.8:
        lines.insert(i, lines[rng.integers(len(lines))])
    else:
        text = bytearray("\n".join(lines).encode())
        for _ in range(int(rng.integers(1, 4))):
            text[rng.integers(len(text))] = int(rng.integers(256))
        return bytes(text)
    return "\n".join(lines).encode()


# -- whole files, and what is done with them ------------------------------------------------------


@dataclass
class Case:
    """Good files of one kind, how they are changed, and how a changed one is used."""

    name: str
    make: Callable[[Rng], tuple[str, bytes]]  # the kind of change, and the file
    load: Callable[[Path], Any]
    use: Callable[[Any, Path], None]
    ending: str = ".npz"


def use_agent(agent: Any, path: Path) -> None:
    for reading in (0, 1, 0, None, 1):
        agent.act(reading)
    assert 0 <= agent.info.action < agent.setting.n_actions
    repr(agent)
    agent.save(path.with_name("again.npz"))


def use_plan(model: pp.POMDP) -> Callable[[Any, Path], None]:
    belief = np.full(model.n_states, 1.0 / model.n_states)

    def use(plan: Any, path: Path) -> None:
        repr(plan)
        steps: tuple[Callable[[], object], ...] = (
            lambda: pp.verify(plan, model), lambda: plan.bounds(belief), lambda: plan.action(belief),
            lambda: plan.value(belief), lambda: plan.span, lambda: plan.follow(belief).read(0), plan.to_bytes,
        )  # fmt: skip
        for step in steps:
            with contextlib.suppress(pp.PSRLError):
                step()

    return use


def _archives(data: bytes) -> Callable[[Rng], tuple[str, bytes]]:
    arrays = unpack(data, "good")

    def make(rng: Rng) -> tuple[str, bytes]:
        if rng.random() < _UNCHANGED:
            return UNCHANGED, data
        change = CHANGES[rng.integers(len(CHANGES))]
        changed = change({name: np.array(array) for name, array in arrays.items()}, rng)
        return change.__name__.replace("_", " "), changed if isinstance(changed, bytes) else pack(changed)

    return make


def _texts(data: bytes, change: Callable[[bytes, Rng], bytes]) -> Callable[[Rng], tuple[str, bytes]]:
    def make(rng: Rng) -> tuple[str, bytes]:
        return (UNCHANGED, data) if rng.random() < _UNCHANGED else ("text", change(data, rng))

    return make


def agents() -> Iterator[tuple[str, Any]]:
    """Agents in the middle of their lives: for a finite set, Dirichlet rows, and a model in parts."""
    for name, model in (("separated", pp.problem("separated")), ("railway", pp.problem("railway"))):
        finite = name == "separated"
        prior = model.family if finite else pp.DirichletPrior(model.setting, np.ones_like(model.transition))
        agent = pp.PSRLAgent(prior, seed=1)
        for reading in [0, 1, 2, 3, 1, 0] * 15:
            agent.act(reading)
        yield f"agent, {'finite' if finite else 'Dirichlet'} prior", agent
    rooms = pp.problem("two-rooms")
    agent = pp.PSRLAgent(pp.FinitePrior(rooms.setting, rooms.transition[None]), seed=1)
    agent.act(None if rooms.setting.first_observation is None else 0)
    for _ in range(20):
        agent.act(None)
    yield "agent, closed parts", agent


def cases(folder: Path) -> Iterator[Case]:
    for name, agent in agents():
        yield Case(name, _archives(agent.to_bytes()), pp.PSRLAgent.load, use_agent)
    for problem in ("tiger", "railway", "two-rooms"):
        model = pp.problem(problem)
        data = pp.plan(model, 1e-3).to_bytes()
        yield Case(f"plan, {problem}", _archives(data), pp.Plan.load, use_plan(model))
    yield from studies(folder)


def studies(folder: Path) -> Iterator[Case]:
    """The results of a small study, and the study itself."""
    told = {"problem": "separated", "horizon": 40, "seeds": 2, "tolerance": 1e-3}
    study = study_from(told | {"agents": [{"kind": "psrl"}, {"kind": "random"}]})
    store = Store.create(folder / "study", study)
    run(store, workers=1)
    job = jobs_of(study)[0]
    place, text = store.path(job), (folder / "study" / "study.toml").read_bytes()
    good = place.read_bytes()

    def read(path: Path) -> Any:
        place.write_bytes(path.read_bytes())
        return store.read(job)

    def use(result: Any, path: Path) -> None:
        summarize(store)
        write_tables(store)

    def use_study(found: Any, path: Path) -> None:
        assert study_from(json.loads(json.dumps(told))).fingerprint
        found.fingerprint, found.to_toml(), jobs_of(found)[:1]
        with contextlib.suppress(pp.PSRLError):
            pp.problem(found.problem, **found.parameters)

    yield Case("study, results", _texts(good, result_text), read, use, ".json")
    yield Case("study, TOML", _texts(text, study_text), read_study, use_study, ".toml")


# -- children -----------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of the files of one kind."""

    refused: int = 0
    harmless: int = 0
    crashed: int = 0
    foreign: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    examples: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("refused", "harmless", "crashed", "foreign"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seconds, self.megabytes = max(self.seconds, other.seconds), max(self.megabytes, other.megabytes)
        self.examples = (self.examples + other.examples)[:3]

    @property
    def bad(self) -> bool:
        over = self.seconds > CPU_SECONDS or self.megabytes > MEGABYTES
        return bool(self.crashed or self.foreign) or over


def one_file(case: Case, rng: Rng, path: Path) -> dict[str, Any]:
    """Make a file, load it, use it; in a child."""
    kind, data = case.make(rng)
    path.write_bytes(data)
    del data
    _forget_peak()
    resident, clock = _status("VmRSS"), time.process_time()
    room = _status("VmSize") * 1024 + int(MEGABYTES * 1e6)
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    outcome, why = "harmless", ""
    try:
        loaded = case.load(path)
    except pp.PSRLError as error:
        outcome, why = "refused", str(error)
    except BaseException:
        outcome, why = "foreign", traceback.format_exc(limit=-4)
    else:
        try:
            case.use(loaded, path)
        except pp.PSRLError as error:
            why = str(error)
        except BaseException:
            outcome, why = "foreign", traceback.format_exc(limit=-4)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    seconds, grown = time.process_time() - clock, (_status("VmHWM") - resident) / 1e3
    return {"kind": kind, "outcome": outcome, "why": why[-800:], "seconds": seconds, "megabytes": grown}


def _forget_peak() -> None:
    """Have the system measure the most memory anew from here on."""
    with Path("/proc/self/clear_refs").open("w") as stream:
        stream.write("5")


def _status(what: str) -> int:
    """Kilobytes of memory or address space."""
    with Path("/proc/self/status").open() as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(what))


def in_child(case: Case, seed: int, numbers: range, path: Path) -> tuple[list[dict[str, Any]], int | None]:
    """What came of these files, and the signal that ended the child, if one did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
            with os.fdopen(writing, "w") as out, Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), 2)
                np.ones((200, 200)) @ np.ones((200, 200))  # threads take their memory before it is measured
                for i in numbers:
                    found = one_file(case, np.random.default_rng((seed, i)), path)
                    out.write(json.dumps(found) + "\n")
                    out.flush()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = [json.loads(line) for line in stream if line.endswith("\n")]
    status = os.waitpid(child, 0)[1]
    return found, os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def attack(case: Case, n_files: int, seed: int, folder: Path) -> dict[str, Tally]:
    """Files of one case, by kind of change."""
    tallies: dict[str, Tally] = {}
    done, path = 0, folder / f"hostile{case.ending}"
    while done < n_files:
        numbers = range(done, min(n_files, done + _A_CHILD))
        found, ended = in_child(case, seed, numbers, path)
        for row in found:
            tally = Tally(seconds=row["seconds"], megabytes=row["megabytes"])
            setattr(tally, row["outcome"], 1)
            if row["outcome"] == "foreign":
                tally.examples.append(row["why"])
            tallies.setdefault(row["kind"], Tally()).add(tally)
        done += len(found)
        if len(found) < len(numbers):
            kind = case.make(np.random.default_rng((seed, done)))[0]
            crash = Tally(
                crashed=1, examples=[f"{case.name}, {kind}, file {done} of seed {seed}: signal {ended}"]
            )
            tallies.setdefault(kind, Tally()).add(crash)
            done += 1
    return tallies


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    total, bad = Tally(), []
    print(
        f"{'file':26}{'change':14}{'refused':>9}{'harmless':>9}"
        f"{'crashed':>8}{'foreign':>8}{'CPU s':>8}{'MB':>7}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed = list(cases(folder))
        for i, case in enumerate(listed):
            share = wanted.files * (i + 1) // len(listed) - wanted.files * i // len(listed)
            for kind, tally in sorted(attack(case, share, wanted.seed, folder).items()):
                print(f"{case.name:26}{kind:14}" + _row(tally), flush=True)
                total.add(tally)
                bad += [f"{case.name}, {kind}:\n{example}" for example in tally.examples]
                if kind == UNCHANGED and tally.refused:
                    bad.append(f"{case.name}: the file as it was is refused")
                if tally.bad and not tally.examples:
                    bad.append(f"{case.name}, {kind}: {tally.seconds:.1f} s, {tally.megabytes:.0f} MB")
    print(f"{'all':40}" + _row(total))
    print("\n".join(bad[:20]))
    return int(bool(bad))


def _row(tally: Tally) -> str:
    counts = f"{tally.refused:9}{tally.harmless:9}{tally.crashed:8}{tally.foreign:8}"
    return f"{counts}{tally.seconds:8.2f}{tally.megabytes:7.0f}"


if __name__ == "__main__":
    sys.exit(main())
