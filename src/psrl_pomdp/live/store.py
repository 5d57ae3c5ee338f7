"""The log of a plant in a database: SQLite by default, PostgreSQL by URL, with SQLAlchemy Core for both.

Tables: `events` (the log, which only grows), `snapshots` (states from which a restart begins), `tokens` and
`meta`. SQLite runs in WAL mode with `synchronous=FULL`, so that a commit is on the disk when it returns.
Other programs may read the database while a server writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from .events import ALARM, CONFIGURATION, FIRST_HASH, ROLLBACK, LiveError, Row
from .server_lock import FileLock, holder_text, in_use

FORMAT = "1"
_ADVISORY_LOCK = 0x70737270  # the same for every server of this package, in each PostgreSQL database
_PAGE = 2000  # rows that are read at a time

_tables = MetaData()
# A SQLite key counts only as the number of the row where its type is INTEGER.
_number = BigInteger().with_variant(Integer(), "sqlite")
# Events that are few among the readings, and are looked for among all of them.
_RARE = (ALARM, CONFIGURATION, ROLLBACK)
_is_rare = text(" OR ".join(f"kind = '{kind}'" for kind in _RARE))
events = Table(
    "events",
    _tables,
    Column("seq", _number, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("unit", String(64)),
    Column("step", BigInteger),
    Column("key", Text),
    Column("who", Text),
    Column("at", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("answer", Text),
    Column("why", Text),
    Column("data", LargeBinary),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("events_key", "key"),
    Index("events_unit", "unit", "step"),
    Index("events_rare", "kind", "seq", sqlite_where=_is_rare, postgresql_where=_is_rare),
)
snapshots = Table(
    "snapshots",
    _tables,
    Column("seq", _number, primary_key=True, autoincrement=False),  # of the last event in it
    Column("hash", String(64), nullable=False),  # of that event
    Column("data", LargeBinary, nullable=False),
)
tokens = Table(
    "tokens",
    _tables,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created", String(32), nullable=False),
    Column("revoked", String(32)),
)
meta = Table("meta", _tables, Column("name", String(64), primary_key=True), Column("value", Text))
_COLUMNS = tuple(Row.__struct_fields__)
_in_order = [events.c[name] for name in _COLUMNS]


def database_url(given: str) -> str:
    """Return the URL of a database: a URL as it is, and the path of a file as one of SQLite.

    >>> database_url("plant.db"), database_url("postgresql://localhost/plant")
    ('sqlite:///plant.db', 'postgresql+psycopg://localhost/plant')
    """
    if "://" not in given:
        return f"sqlite:///{given}"
    kind, _, rest = given.partition("://")
    return f"postgresql+psycopg://{rest}" if kind in ("postgresql", "postgres") else given


class Store:
    """A database with the log of one plant.

    Parameters
    ----------
    database
        The URL of a database, or the path of a SQLite file.
    create
        Whether the tables are created where there are none.

    Raises
    ------
    LiveError
        If there is no such database, or it holds something else.
    """

    def __init__(self, database: str, *, create: bool = False) -> None:
        try:
            self.url = make_url(database_url(database))
            self.is_sqlite = self.url.get_backend_name() == "sqlite"
            self.file = Path(self.url.database or "") if self.is_sqlite else None
            if self.file is not None and (not self.url.database or self.url.database == ":memory:"):
                raise LiveError("--db: a database in memory is lost with the server; name a file")
            self.engine = create_engine(self.url, pool_size=8, max_overflow=24, **_options(self.is_sqlite))
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise LiveError(f"--db {database}: {error}") from None
        # What errors call it, without the password.
        self.name = self.file.name if self.file else self.url.render_as_string(hide_password=True)
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
        marks = ", ".join(["?" if self.is_sqlite else "%s"] * len(_COLUMNS))
        self._insert = f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES ({marks})"
        self._writer: Connection | None = None
        self._lock: FileLock | None = None
        self._server = ""
        self._open(create)

    def _open(self, create: bool) -> None:
        if self.file is not None and not create and not self.file.is_file():
            raise LiveError(f"{self.file}: no such database")
        if self.file is not None and not self.file.absolute().parent.is_dir():
            raise LiveError(f"{self.file}: there is no folder {self.file.absolute().parent}")
        try:
            there = set(inspect(self.engine).get_table_names())
            ours = set(_tables.tables)
            if create and not ours <= there:
                if there - ours and not ours & there and self.is_sqlite:
                    raise LiveError(f"{self.name} is a database of another program")
                _tables.create_all(self.engine)
                if self.meta("format") is None:
                    self.set_meta("format", FORMAT)
            elif not ours <= there:
                raise LiveError(f"{self.name} is no database of a plant")
            if (found := self.meta("format")) != FORMAT:
                raise LiveError(f"{self.name} has the format {found}; this version reads {FORMAT}")
        except SQLAlchemyError as error:
            raise LiveError(f"{self.name} cannot be opened: {short(error)}") from error

    # -- the one server -------------------------------------------------------------------------

    def lock(self, server: str) -> None:
        """Take the database for this process. Raises `LiveError` if another server has it."""
        self._server = server
        if self.file is not None:
            self._lock = FileLock(self.file, server)
        else:
            self.writer()  # which takes the lock

    def writer(self) -> Connection:
        """Return the connection that writes; in PostgreSQL it holds the lock of the server."""
        if self._writer is None:
            connection = self.engine.connect()
            if not self.is_sqlite and self._server:
                taken = connection.scalar(select(func.pg_try_advisory_lock(_ADVISORY_LOCK)))
                connection.commit()
                if not taken:
                    connection.close()
                    raise in_use(self.name, self.meta("server") or "")
                self._writer = connection
                self.set_meta("server", holder_text(self._server))
            self._writer = connection
        return self._writer

    def drop_writer(self) -> None:
        """Close the connection that writes, after an error; the next use opens another one."""
        if self._writer is not None:
            with suppress(Exception):
                self._writer.invalidate()
            with suppress(Exception):
                self._writer.close()
            self._writer = None

    def close(self) -> None:
        """Give the database back."""
        self.drop_writer()
        self.engine.dispose()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- the log --------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows to the end of the log with one commit. After an error none of them is there."""
        connection = self.writer()
        try:
            connection.exec_driver_sql(self._insert, [_values(row) for row in rows])
            connection.commit()
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise

    def head(self) -> Row | None:
        """Return the last row of the log; None if it is empty."""
        return self._one(select(*_in_order).order_by(events.c.seq.desc()).limit(1))

    def row(self, seq: int) -> Row | None:
        """Return a row by its number."""
        return self._one(select(*_in_order).where(events.c.seq == seq))

    def by_key(self, key: str) -> list[Row]:
        """Return the rows with an idempotency key, the newest first; several after a rollback."""
        return self._all(select(*_in_order).where(events.c.key == key).order_by(events.c.seq.desc()))

    def by_step(self, unit: str, step: int, kind: str) -> list[Row]:
        """Return the rows of a kind for a step of a unit, the newest first; several after a rollback."""
        same = (events.c.unit == unit, events.c.step == step, events.c.kind == kind)
        return self._all(select(*_in_order).where(*same).order_by(events.c.seq.desc()))

    def rows(self, after: int = 0, until: int | None = None) -> Iterator[Row]:
        """Yield the rows of the log in order, some thousands at a time."""
        while True:
            page = select(*_in_order).where(events.c.seq > after).order_by(events.c.seq).limit(_PAGE)
            if until is not None:
                page = page.where(events.c.seq <= until)
            found = self._all(page)
            yield from found
            if len(found) < _PAGE:
                return
            after = found[-1].seq

    def history(self, unit: str | None, after: int, most: int, before: int | None = None) -> list[Row]:
        """Return rows after a number, without their data: of one unit, or of the plant.

        With `before`, these are the last rows before that number; 0 for the last ones of all.
        """
        columns = [column for column in _in_order if column.name != "data"]
        order = events.c.seq if before is None else events.c.seq.desc()
        page = select(*columns).where(events.c.seq > after).order_by(order).limit(most)
        if before:
            page = page.where(events.c.seq < before)
        if unit is not None:
            page = page.where(events.c.unit == unit)
        with self.engine.connect() as connection:
            rows = [Row(**row._mapping, data=None) for row in connection.execute(page)]
        return rows if before is None else rows[::-1]

    def overrides(self, unit: str, seq: int) -> list[Row]:
        """Return the overrides of a unit after an event, up to its next reading."""
        page = select(*_in_order).where(events.c.unit == unit, events.c.seq > seq)
        found = []
        for row in self._all(page.order_by(events.c.seq).limit(200)):
            if row.kind == "reading":
                break
            if row.kind == "override":
                found.append(row)
        return found

    def last_episode(self, before: int) -> Row | None:
        """Return the row of the episode that an event belongs to."""
        page = select(*_in_order).where(events.c.kind == "episode", events.c.seq <= before + 2)
        return self._one(page.order_by(events.c.seq.desc()).limit(1))

    def alarms(self, most: int = 100) -> list[Row]:
        """Return the last alarms, the newest first."""
        return self._all(_rare(ALARM).order_by(events.c.seq.desc()).limit(most))

    def configuration(self) -> Row | None:
        """Return the last configuration."""
        return self._one(_rare(CONFIGURATION).order_by(events.c.seq.desc()).limit(1))

    def rollbacks(self) -> list[Row]:
        """Return the rows of rollbacks, in order."""
        return self._all(_rare(ROLLBACK).order_by(events.c.seq))

    def head_hash(self) -> tuple[int, str, str]:
        """Return the number, the hash and the time of the last row."""
        last = self.head()
        return (0, FIRST_HASH, "") if last is None else (last.seq, last.hash, last.at)

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self, seq: int, digest: str, data: bytes, keep: int = 3) -> None:
        """Write a state, with its own commit, and delete all but the last few."""
        connection = self.writer()
        try:
            connection.execute(delete(snapshots).where(snapshots.c.seq == seq))
            connection.execute(insert(snapshots).values(seq=seq, hash=digest, data=data))
            old = select(snapshots.c.seq).order_by(snapshots.c.seq.desc()).offset(keep).limit(1)
            last_old = connection.scalar(old)
            if last_old is not None:
                connection.execute(delete(snapshots).where(snapshots.c.seq <= last_old))
            connection.commit()
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise

    def snapshots(self) -> list[tuple[int, str]]:
        """Return the numbers and the hashes of the events of the snapshots, the newest first."""
        with self.engine.connect() as connection:
            page = select(snapshots.c.seq, snapshots.c.hash).order_by(snapshots.c.seq.desc())
            return [(int(seq), str(digest)) for seq, digest in connection.execute(page)]

    def snapshot_data(self, seq: int) -> bytes | None:
        """Return the state of a snapshot."""
        with self.engine.connect() as connection:
            return connection.scalar(select(snapshots.c.data).where(snapshots.c.seq == seq))

    def probe(self) -> None:
        """Write something through the connection that writes. Raises an error if that fails."""
        connection = self.writer()
        try:
            connection.execute(delete(meta).where(meta.c.name == "probe"))
            # As large as some readings, so that a disk that is almost full does not count as good.
            connection.execute(insert(meta).values(name="probe", value="x" * 20_000))
            connection.commit()
            connection.execute(delete(meta).where(meta.c.name == "probe"))
            connection.commit()
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise

    # -- meta and tokens ------------------------------------------------------------------------

    def meta(self, name: str) -> str | None:
        """Return a value of the table `meta`."""
        with self.engine.connect() as connection:
            found: str | None = connection.scalar(select(meta.c.value).where(meta.c.name == name))
            return found

    def set_meta(self, name: str, value: str) -> None:
        """Set a value of the table `meta`."""
        with self.engine.begin() as connection:
            if not connection.execute(update(meta).where(meta.c.name == name).values(value=value)).rowcount:
                connection.execute(insert(meta).values(name=name, value=value))

    def token_rows(self) -> list[Any]:
        """Return the tokens: name, role, hash, created, revoked."""
        with self.engine.connect() as connection:
            return list(connection.execute(select(tokens).order_by(tokens.c.created, tokens.c.name)))

    def add_token(self, name: str, role: str, digest: str, created: str) -> None:
        """Write a token. Raises `LiveError` if there is one of this name."""
        if any(row.name == name for row in self.token_rows()):
            raise LiveError(f"there is a token {name!r} already")
        with self.engine.begin() as connection:
            connection.execute(insert(tokens).values(name=name, role=role, hash=digest, created=created))

    def revoke_token(self, name: str, at: str) -> bool:
        """Mark a token as revoked; return whether there was one."""
        with self.engine.begin() as connection:
            where = (tokens.c.name == name, tokens.c.revoked.is_(None))
            return bool(connection.execute(update(tokens).where(*where).values(revoked=at)).rowcount)

    # -- reading --------------------------------------------------------------------------------

    def _one(self, query: Any) -> Row | None:
        found = self._all(query)
        return found[0] if found else None

    def _all(self, query: Any) -> list[Row]:
        with self.engine.connect() as connection:
            return [Row(*row) for row in connection.execute(query)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _rare(kind: str) -> Any:
    """Return the query of the rows of a rare kind; the index is for kinds that the query spells out."""
    return select(*_in_order).where(text(f"kind = '{kind}'"))


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _COLUMNS)


def _options(is_sqlite: bool) -> dict[str, Any]:
    return {"connect_args": {"timeout": 5.0, "check_same_thread": False}} if is_sqlite else {}


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Make commits durable, and let others read while the server writes."""
    cursor = connection.cursor()
    with suppress(Exception):  # a database that this process may only read
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def short(error: Exception) -> str:
    """Return the message of a database error without the statement and its parameters."""
    found = getattr(error, "orig", None) or error
    lines = str(found).strip().splitlines()
    return lines[0] if lines else type(found).__name__
