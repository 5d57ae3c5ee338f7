"""Bearer tokens with the roles `read`, `operate` and `admin`, of which the database holds hashes only.

A token has 256 random bits, so that one round of SHA-256 is enough: there is nothing to guess. Without tokens
the service answers on the loopback interface only.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from typing import TYPE_CHECKING

from ..errors import did_you_mean
from .events import LiveError, RefusedError, time_text

if TYPE_CHECKING:
    from .store import Store

ROLES = ("read", "operate", "admin")  # each may do what those before it may
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FRESH = 1.0  # seconds after which the tokens are read again


def new_token(store: Store, name: str, role: str) -> str:
    """Create a token and return it: it is not shown again."""
    if role not in ROLES:
        raise LiveError(f"role {role!r} is none of {', '.join(ROLES)}{did_you_mean(role, ROLES)}")
    if not _NAME.fullmatch(name):
        raise LiveError(f"{name!r} is no name of a token: letters, digits, dots and hyphens are wanted")
    token = f"psrl_{secrets.token_urlsafe(32)}"
    store.add_token(name, role, digest(token), time_text(time.time()))
    return token


def digest(token: str) -> str:
    """Return the hash of a token, as the database has it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens of a database, read again when they are older than a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, str]] = {}  # hash -> name, role
        self._ever = False
        self._read_at = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Read the tokens."""
        rows = self._store.token_rows()
        with self._lock:
            self._known = {row.hash: (row.name, row.role) for row in rows if row.revoked is None}
            self._ever = bool(rows)  # where the last token is revoked, nobody may come in
            self._read_at = time.monotonic()

    @property
    def wanted(self) -> bool:
        """Whether requests need a token."""
        return self._ever

    @property
    def stale(self) -> bool:
        """Whether the tokens are to be read again."""
        return time.monotonic() - self._read_at > _FRESH

    def check(self, header: str | None, role: str) -> str | None:
        """Return the name of the token in an `Authorization` header; None if none is wanted.

        Raises `RefusedError` if a token is missing, unknown, or has a smaller role.
        """
        if not self.wanted:
            return None
        kind, _, token = (header or "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise RefusedError(401, "token-wanted", "a token is wanted: Authorization: Bearer TOKEN")
        with self._lock:
            found = self._known.get(digest(token.strip()))
        if found is None:
            raise RefusedError(401, "unknown-token", "this token is unknown or revoked")
        name, has = found
        if ROLES.index(has) < ROLES.index(role):
            raise RefusedError(403, "role-too-small", f"the token {name!r} may {has}, which needs {role}")
        return name

    def role(self, header: str | None) -> str | None:
        """Return the role of the token in an `Authorization` header; `admin` if no token is wanted."""
        if not self.wanted:
            return ROLES[-1]
        with self._lock:
            found = self._known.get(digest((header or "").partition(" ")[2].strip()))
        return None if found is None else found[1]
