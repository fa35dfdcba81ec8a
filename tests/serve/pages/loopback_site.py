"""The application on loopback, as a program of this machine reaches it."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import uvicorn

from ciguard.serve.application import build_application

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serve.pages.filled import Site


@contextlib.contextmanager
def serving_site(site: Site) -> Iterator[str]:
    """Serve until the block ends; the address."""
    application = build_application(site.service, site.results.read)
    config = uvicorn.Config(application, port=0, log_config=None, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
