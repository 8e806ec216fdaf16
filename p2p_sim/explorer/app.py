"""The explorer: an ASGI application that answers web pages' questions. A guard refuses requests of other sites."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import create_task_group
from cachetools import FIFOCache
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from p2p_sim.base import InputError, finite, version
from p2p_sim.explorer.directories import ReadableDirectories
from p2p_sim.explorer.guard import Guard
from p2p_sim.explorer.worker_process import Asker, Superseded

if TYPE_CHECKING:
    from p2p_sim.explorer.progress_page import Watch
    from p2p_sim.explorer.results_page import Worth
    from p2p_sim.explorer.runs_page import RunsTable

HERE = Path(__file__).parent
CHART = HERE.parent / "report" / "templates"
"""The folder with the script and the style sheet of every chart."""
PAGES = {
    "": "How private?",
    "worth": "What is it worth?",
    "watch": "A sweep while it runs",
    "played": "The exchange, played",
}
"""The heading of each page, by the page's address."""
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LANES = ("told", "curve", "needed", "film")
"""The kinds of questions that worker processes answer."""
FILM_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
}
"""Headers of the page of a film (an animation of an exchange). The page can run its own script. The page can reach
neither the explorer nor another server."""
MOST_FILMS = 4
"""Largest number of films that are held in memory. An older film has to be made anew."""
Answer = Callable[[Request], Awaitable[Response]]


class Explorer:
    """The explorer's pages, and the answers to the questions that these pages send.

    Args:
        directories: results directories that may be read. lanes: for each kind of question in `LANES`, the object
        that answers such questions.
    """

    def __init__(self, directories: ReadableDirectories, lanes: Mapping[str, Asker]) -> None:
        self._directories, self._lanes = directories, lanes
        self._films: FIFOCache[str, dict[str, Any]] = FIFOCache(MOST_FILMS)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._files = {path.name: path for path in (*(HERE / "static").iterdir(), *CHART.glob("chart.*"))}

    @cached_property
    def _watch(self) -> "Watch":
        # modules that load pandas are imported late, so that the first page comes sooner
        from p2p_sim.explorer.progress_page import Watch

        return Watch()

    @cached_property
    def _runs(self) -> "RunsTable":
        from p2p_sim.explorer.runs_page import RunsTable  # imported late: it loads pandas

        return RunsTable(self._directories)

    @property
    def routes(self) -> list[Route]:
        """For each path, the function that answers it. A path is the part of the address after the token."""
        # threads of this process compute these answers; questions of LANES may take minutes and go to worker processes
        computed: dict[str, Callable[[Request], dict[str, Any]]] = {
            "results": self._results,
            "runs": lambda request: self._runs.table(request.query_params.get("since", "")),
            "worth": self._worth,
            "point": lambda request: self._choice(request).point(request.query_params.get("point", "")),
            "watch": lambda request: self._watch.look(self._directories.of(request.query_params.get("results", ""))[0]),
            "scenarios": self._scenarios,
        }
        answers: dict[str, Answer] = {
            **{f"/{name}": partial(self._page, name) for name in PAGES},
            **{f"/api/{name}": _answering(partial(_in_thread, function)) for name, function in computed.items()},
            **{f"/api/{name}": _answering(partial(self._in_worker, name)) for name in LANES if name != "film"},
            "/api/download": _answering(self._download),
            "/api/film": _answering(self._film),
            "/film/{name}": self._film_page,
            "/static/{name}": self._file,
        }
        return [Route(path, answer, methods=["GET"]) for path, answer in answers.items()]

    async def _page(self, name: str, request: Request) -> Response:
        prefix, template = request.scope["explorer_prefix"], self._templates.get_template(f"{name or 'private'}.html")
        return HTMLResponse(
            template.render(prefix=prefix, pages=PAGES, page=name, heading=PAGES[name], version=version())
        )

    async def _file(self, request: Request) -> Response:
        path = self._files.get(request.path_params["name"])
        if path is None:
            return JSONResponse({"error": "there is no such file"}, 404)
        return Response(path.read_bytes(), media_type=KINDS[path.suffix])

    async def _in_worker(self, task: str, request: Request) -> Response:
        """The response, in JSON, to a question that may take long. A worker process answers it, so the server goes on.

        Args:
            task: "told" (ε or δ of an exchange), "curve" (a trade-off curve) or "needed" (noise for an ε). request: the
            query fields are the question's parameters.
        """
        return _json(await self._lanes[task].ask(task, dict(request.query_params)))

    def _results(self, _: Request) -> dict[str, Any]:
        return {
            "results": [
                {"key": directory.key, "name": directory.name, "label": directory.label,
                 "published": directory.published, "running": directory.state == "running",
                 "finished": directory.state == "finished"}
                for directory in self._directories.all()
            ],
            "left_out": self._directories.left_out,
        }  # fmt: skip

    def _choice(self, request: Request) -> "Worth":
        """The results that a browser's request chooses. Methods of the returned object make charts, lists of choices
        and downloads. The query fields name results directories, the columns to show, and limits for the rows.

        Raises:
            InputError: a directory is unknown or cannot be read, or the choice leaves no points or too many.
        """
        from p2p_sim.explorer.results_page import Worth

        fields = request.query_params
        return Worth(self._directories.of(*fields.getlist("results")), fields, self._runs.results)

    def _worth(self, request: Request) -> dict[str, Any]:
        choice = self._choice(request)
        try:
            return {**choice.offered(), "shown": choice.chart()}
        except InputError as error:
            return {**choice.offered(), "shown": None, "error": str(error), "suggested": choice.suggested()}

    def _scenarios(self, _: Request) -> dict[str, Any]:
        from p2p_sim.explorer.film_page import offered

        return {"scenarios": offered()}

    async def _download(self, request: Request) -> Response:
        format_ = request.query_params.get("format", "")
        content = await run_in_threadpool(lambda: self._choice(request).written(format_))
        from p2p_sim.explorer.results_page import FORMATS  # loaded by now

        name = f'attachment; filename="p2p-sim.{format_}"'
        return Response(content, media_type=FORMATS[format_], headers={"content-disposition": name})

    async def _film(self, request: Request) -> Response:
        fields = dict(request.query_params)
        name = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        if name not in self._films:  # the same fields give the same film
            self._films[name] = await self._lanes["film"].ask("film", fields)
        return _json({"name": self._films[name]["name"], "film": name})

    async def _film_page(self, request: Request) -> Response:
        film = self._films.get(request.path_params["name"])
        if film is None:
            return HTMLResponse("<!DOCTYPE html><title>Film</title><p>This film is no longer kept; play it anew.", 404)
        return HTMLResponse(film["film"], headers=FILM_HEADERS)


async def _in_thread(function: Callable[[Request], dict[str, Any]], request: Request) -> Response:
    """The response, in JSON, with the result of a slow function. A thread runs the function, so the server goes on."""
    return _json(await run_in_threadpool(function, request))


def _answering(answer: Answer) -> Answer:
    """A function that answers requests as `answer` does, but turns an error into a response. This response is one line
    of JSON, {"error": ...}. The status is 400 for wrong input, 409 if a newer question came, 503 at the explorer's end,
    otherwise 500.
    """

    async def answering(request: Request) -> Response:
        try:
            return await answer(request)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 400)
        except Superseded:
            return JSONResponse({"error": "a newer question came"}, 409)
        except asyncio.CancelledError:  # the explorer ends
            return JSONResponse({"error": "the explorer has ended"}, 503)
        except Exception as error:
            logging.getLogger("uvicorn.error").exception("the explorer failed")
            message = InputError(f"the explorer failed ({type(error).__name__}: {error}); its terminal shows where")
            return JSONResponse({"error": str(message)}, 500)

    return answering


def _json(content: dict[str, Any]) -> Response:
    """A response with JSON in ASCII. So even a text with a lone surrogate can be sent."""
    return Response(json.dumps(finite(content), allow_nan=False), media_type="application/json")


def application(
    directories: ReadableDirectories,
    lanes: Mapping[str, Asker],
    token: str,
    host: str,
    started: Callable[[], Coroutine[Any, Any, None]],
) -> Guard:
    """The explorer as an ASGI application. The explorer shows p2p-sim's results on local web pages. Only requests that
    carry the secret token are answered.

    Args:
        directories: results directories that may be read. lanes: for each kind of question that may take long, the
        object that passes such questions to a worker process. The kinds are "told" (ε or δ of an exchange), "curve" (a
        trade-off curve), "needed" (noise for an ε) and "film" (an animation). token: secret text with which every path
        begins. host: address and port. started: a function that is called when the server starts. The coroutine that it
        returns runs until the server ends.
    """

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with create_task_group() as beside:
            beside.start_soon(started)
            yield
            beside.cancel_scope.cancel()

    return Guard(Starlette(routes=Explorer(directories, lanes).routes, lifespan=life), token, host)
