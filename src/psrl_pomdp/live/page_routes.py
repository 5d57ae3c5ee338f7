"""The page of the plant, at `/`: a few files of this package, and nothing from elsewhere."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

from litestar import Response, get

from .events import RefusedError
from .service import Http

FOLDER = Path(__file__).with_name("page")
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts, styles and pictures are those of this service, no text becomes a script or a tag, and no other page
# can show this one in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the contents and the media type of each file of the page, by name."""
    return {
        path.name: (path.read_bytes(), _MEDIA[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in _MEDIA
    }


@get("/")
async def get_page() -> Response[bytes]:
    """Show the page of the plant."""
    return await _file("index.html")


@get("/page/{name:str}")
async def get_page_file(request: Http) -> Response[bytes]:
    """Give a script, the style or the icon of the page."""
    return await _file(str(request.path_params["name"]))


async def _file(name: str) -> Response[bytes]:
    found = (await asyncio.to_thread(page_files)).get(name)
    if found is None:
        raise RefusedError(404, "not-found", f"the page has no file {name!r}")
    response = Response(found[0], media_type=found[1])
    response.headers.update(
        {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-cache",
        }
    )
    return response
