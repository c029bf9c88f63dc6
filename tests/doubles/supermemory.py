"""A double of Supermemory: v4 memories, which are kept word for word, and v3 documents, which are processed.

No server can be had for tests, so it is as awkward as the documentation and the official clients say. Where they
leave a question open, the double takes the answer that is harder on a client, or has a knob.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tests.doubles import supermemory_rules as rules
from tests.doubles.serving import Double
from tests.doubles.supermemory_documents import DocumentRoutes, paged
from tests.doubles.supermemory_rules import Refused, invalid
from tests.doubles.supermemory_state import Memory, State, new_id, similarity, stamp, words

Handler = Callable[[Request, dict[str, Any]], Any]

# What an instruction to forget says besides what it is about.
INSTRUCTION = words("forget everything all about the my please")


class Supermemory(DocumentRoutes, Double):
    """The knobs are attributes: set one and the next request feels it."""

    rate_limited: ClassVar[Any] = {
        "error": "Rate limit exceeded",
        "details": "Retry after the time given in Retry-After",
    }

    def __init__(self, *, key: str = "sm_secret") -> None:
        self.state = State()
        self.error_style = "plain"  # or "validator": the other body of a 400
        self.ignore_filters = False  # a search that leaves its metadata filter out
        self.superseded_patch = "fork"  # a version rewritten twice has two latest ones; or "refuse"
        self.scope: set[str] | None = None  # the tags that the key may touch; others are 403
        self.out_of_quota = False  # every write is 402
        self.queued_polls = 0  # how many looks at a new document still find it queued
        self.documents_fail = False  # new documents end as failed
        self.content_before_done = True  # whether an unfinished document shows its text
        self._lag = 0
        self._shifts: list[int] = []
        super().__init__(key=key)

    def search_lag(self, searches: int) -> None:
        """From now on a version is not found by the `searches` searches that follow its write."""
        self._lag = searches

    def page_shift(self, rows: int = 1, times: int = 1) -> None:
        """After each of the next `times` pages of a list, another client writes `rows` rows to its first tag."""
        self._shifts += [rows] * times

    def seed(
        self, tag: str, n: int, make: Callable[[int], tuple[str, dict[str, Any] | None]] | None = None
    ) -> list[Memory]:
        """`n` memories in a tag, each with the text and the metadata that `make` says, without a request."""
        made = [make(i) if make else (f"seed {i}", None) for i in range(n)]
        return [self._hold(tag, content, metadata=metadata) for content, metadata in made]

    def app(self) -> ASGIApp:
        async def nowhere(request: Request, fault: Exception) -> Response:
            return Response("404 Not Found", 404, media_type="text/plain")  # for a method without a route too

        app = Starlette(routes=self.routes(), exception_handlers={404: nowhere, 405: nowhere})
        app.router.redirect_slashes = False
        return app

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/", self._root),
            self.route("POST", "/v4/memories", self._create),
            self.route("PATCH", "/v4/memories", self._update),
            self.route("DELETE", "/v4/memories", self._forget),
            self.route("POST", "/v4/memories/list", self._list),
            self.route("POST", "/v4/memories/forget-matching", self._forget_matching),
            self.route("POST", "/v4/search", self._search),
            self.route("POST", "/v4/profile", self._profile),
            *self.document_routes(),
        ]

    def route(self, method: str, path: str, handler: Handler) -> Route:
        """A route whose handler gets the decoded body and returns what is to be JSON, or raises `Refused`."""

        async def endpoint(request: Request) -> Response:
            try:
                self._authorize(request)
                raw = await request.body()
                body = rules.body_of(raw) if raw or (method != "GET" and "{" not in path) else {}
                if (
                    self.out_of_quota
                    and method != "GET"
                    and not path.endswith(("/list", "/search", "/profile"))
                ):
                    raise Refused(402, "Quota exceeded", details="Upgrade the plan to continue")
                answer = handler(request, body)
            except Refused as refusal:
                return _json(self._refusal(refusal), refusal.code)
            return Response(status_code=204) if answer is None else _json(answer)

        made: Callable[[Request], Awaitable[Response]] = endpoint
        route = Route(path, made, methods=[method])
        assert route.methods is not None
        route.methods.intersection_update(
            {method}
        )  # Starlette adds HEAD to a GET; the service's are as listed
        return route

    async def _root(self, request: Request) -> Response:
        return _json({"message": "Supermemory API"})  # to anyone: it proves nothing about a key

    def _authorize(self, request: Request) -> None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or key != self.key:
            raise Refused(401, "Unauthorized", details="Invalid or missing API key")

    def _refusal(self, refusal: Refused) -> dict[str, Any]:
        if self.error_style == "validator" and refusal.code == 400:
            path = [int(part) if part.isdecimal() else part for part in refusal.path.split(".") if part]
            return {"success": False, "error": [{"message": refusal.message, "path": path}]}
        details = {"details": refusal.details} if refusal.details else {}
        return {"error": refusal.message} | details

    def now(self) -> datetime:
        when = self.clock()
        return when.replace(microsecond=when.microsecond // 1000 * 1000)

    def permit(self, tags: Sequence[str] | None) -> list[str] | None:
        """The tags that a request may touch: a scoped key without a tag is held to its own ones."""
        if self.scope is None:
            return None if tags is None else list(tags)
        if tags is None:
            return sorted(self.scope)
        if not set(tags) <= self.scope:
            raise Refused(403, "Forbidden", details="This key has no access to the container tag")
        return list(tags)

    def tag(self, body: dict[str, Any]) -> str:
        tag = rules.tag_of(body.get("containerTag"))
        self.permit([tag])
        return tag

    def match(self, body: dict[str, Any]) -> rules.Match | None:
        return rules.filters_of(body["filters"]) if "filters" in body else None

    def shifted(self) -> int:
        """How many rows another client writes between this page and the next."""
        return self._shifts.pop(0) if self._shifts else 0

    def _hold(self, tag: str, content: str, **fields: Any) -> Memory:
        found_from = self.state.searches + self._lag
        return self.state.hold(Memory(tag, content, self.now(), found_from=found_from, **fields))

    def _create(self, request: Request, body: dict[str, Any]) -> Any:
        items, tag = body.get("memories"), self.tag(body)
        if not isinstance(items, list) or not 1 <= len(items) <= rules.MAX_MEMORIES:
            raise invalid("memories", f"Array must contain 1 to {rules.MAX_MEMORIES} element(s)")
        checked = [_memory_fields(item, f"memories.{index}") for index, item in enumerate(items)]
        # All are checked before the first is written: a batch is refused as a whole.
        document = new_id()
        rows = [self._hold(tag, content, document_id=document, **fields) for content, fields in checked]
        return {
            "documentId": document,
            "memories": [
                {
                    "id": row.id,
                    "memory": row.memory,
                    "isStatic": row.is_static,
                    "createdAt": stamp(row.created_at),
                }
                for row in rows
            ],
        }

    def _update(self, request: Request, body: dict[str, Any]) -> Any:
        content = rules.text(body.get("newContent"), "newContent", most=rules.MAX_CONTENT)
        given: dict[str, Any] = {}
        if "metadata" in body:
            given["metadata"] = rules.metadata_of(body["metadata"])
        if "forgetAfter" in body:
            given["forget_after"] = rules.moment(body["forgetAfter"], "forgetAfter")
        if "forgetReason" in body:
            given["forget_reason"] = rules.text(body["forgetReason"], "forgetReason", least=0)
        now, old = self.now(), self._meant(body)
        if self.superseded_patch == "refuse" and not old.is_latest:
            raise Refused(404, "Memory not found")
        old.is_latest, old.updated_at = False, now
        kept = {
            "metadata": old.metadata,
            "forget_after": old.forget_after,
            "forget_reason": old.forget_reason,
        }
        fields = kept | given  # what is left out is inherited; metadata that is given replaces all of it
        if fields["forget_after"] is None:
            fields["forget_reason"] = None
        row = self._hold(
            old.tag,
            content,
            document_id=old.document_id,
            is_static=old.is_static,
            version=old.version + 1,
            parent_id=old.id,
            root_id=old.root_id or old.id,  # the first version's own is null
            **fields,
        )
        listed = row.entry(now)
        names = ("id", "memory", "metadata", "version", "parentMemoryId", "rootMemoryId", "forgetAfter")
        return {name: listed[name] for name in (*names, "forgetReason", "createdAt")}

    def _meant(self, body: dict[str, Any]) -> Memory:
        tag, named, content = self.tag(body), body.get("id"), body.get("content")
        if named is None and content is None:
            raise invalid("id", "Either id or content must be provided")
        if named is not None:
            rules.text(named, "id")
        else:
            rules.text(content, "content")
        return self.state.find(tag, named, content, self.now())

    def _forget(self, request: Request, body: dict[str, Any]) -> Any:
        reason = rules.text(body["reason"], "reason", least=0) if "reason" in body else None
        row = self._meant(body)
        # The one version alone: to forget a superseded one leaves the latest where it is.
        row.forgotten, row.forget_reason, row.updated_at = True, reason, self.now()
        return {"id": row.id, "forgotten": True}

    def _list(self, request: Request, body: dict[str, Any]) -> Any:
        tags, match, now = rules.tags_of(body.get("containerTags")), self.match(body), self.now()
        self.permit(tags)
        rows = [row for row in self.state.rows(tags) if match is None or match(row.metadata or {})]
        page, pagination = paged(rows, body)
        for _ in range(self.shifted()):
            self._hold(tags[0], f"written between two pages {new_id()}")
        return {"memoryEntries": [row.entry(now) for row in page], "pagination": pagination}

    def _search(self, request: Request, body: dict[str, Any]) -> Any:
        query = rules.text(body.get("q"), "q")
        tags = self.permit(rules.either_tags(body))
        limit = rules.whole(body.get("limit", 10), "limit", 100)
        threshold = rules.number(body.get("threshold", 0.5), "threshold", 0, 1)
        modes = ("memories", "hybrid", "documents")
        mode = rules.choice(body.get("searchMode", "memories"), "searchMode", modes)
        match = self.match(body)  # refused when malformed, whether it is then heeded or not
        if self.ignore_filters:
            match = None
        results = []
        if mode != "documents":
            results += self._found(query, tags, match, threshold, body.get("include") or {})
        if mode != "memories":
            results += self.chunks_found(query, tags, match, threshold)
        self.state.searches += 1
        results = sorted(results, key=lambda result: -result["similarity"])[:limit]
        return {"results": results, "timing": 1, "total": len(results)}

    def _found(
        self,
        query: str,
        tags: list[str] | None,
        match: rules.Match | None,
        threshold: float,
        include: dict[str, Any],
    ) -> list[dict[str, Any]]:
        now = self.now()
        rows = self.state.live(tags, now)
        if include.get("forgottenMemories") is True:
            rows = [row for row in self.state.rows(tags) if row.is_latest]
        return [
            {
                "id": row.id,
                "memory": row.memory,
                "similarity": score,
                "metadata": row.metadata,
                "updatedAt": stamp(row.updated_at),
                "version": row.version,
                "rootMemoryId": row.root_id,
            }
            for score, row in self.state.nearest(query, rows, match, threshold)
        ]

    def _forget_matching(self, request: Request, body: dict[str, Any]) -> Any:
        tag, query, ids = self.tag(body), body.get("query"), body.get("ids")
        dry = rules.flag(body.get("dryRun", False), "dryRun")
        threshold = rules.number(body.get("threshold", 0.5), "threshold", 0, 1)
        most = rules.whole(body.get("maxForget", 100), "maxForget", 500)
        rows = self.state.live([tag], self.now())
        if ids is not None:
            if not isinstance(ids, list) or not 1 <= len(ids) <= rules.MAX_FORGET_IDS:
                raise invalid("ids", f"Array must contain 1 to {rules.MAX_FORGET_IDS} element(s)")
            hits = [(1.0, row) for row in rows if row.id in ids]
        else:
            asked = words(rules.text(query, "query", most=2_000)) - INSTRUCTION
            hits = [(score, row) for row in rows if (score := similarity(asked, row.words)) >= threshold]
        hits = sorted(hits, key=lambda hit: -hit[0])[:most]
        batch = None if dry else new_id()
        for _, row in () if dry else hits:
            row.forgotten, row.forget_reason, row.updated_at = True, body.get("reason"), self.now()
        return {
            "dryRun": dry,
            "count": len(hits),
            "forgetBatchId": batch,
            "summary": f"{'Would forget' if dry else 'Forgot'} {len(hits)} memories.",
            "candidates" if dry else "forgotten": [
                {"id": row.id, "memory": row.memory, "score": score} for score, row in hits
            ],
        }

    def _profile(self, request: Request, body: dict[str, Any]) -> Any:
        tag, match = self.tag(body), self.match(body)
        threshold = rules.number(body.get("threshold", 0.5), "threshold", 0, 1)
        rows = [row for row in self.state.live([tag], self.now()) if not match or match(row.metadata or {})]
        profile = {
            "static": [row.memory for row in rows if row.is_static],
            "dynamic": [row.memory for row in reversed(rows) if not row.is_static],
        }
        if "q" not in body:
            return {"profile": profile}
        results = self._found(rules.text(body["q"], "q"), [tag], match, threshold, {})
        self.state.searches += 1
        return {"profile": profile, "searchResults": {"results": results, "timing": 1, "total": len(results)}}


def _memory_fields(item: Any, path: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(item, dict):
        raise invalid(path, "Expected object")
    return rules.text(item.get("content"), f"{path}.content", most=rules.MAX_CONTENT), {
        "is_static": rules.flag(item.get("isStatic", False), f"{path}.isStatic"),
        "metadata": rules.metadata_of(item["metadata"], f"{path}.metadata") if "metadata" in item else None,
        "forget_after": rules.moment(item.get("forgetAfter"), f"{path}.forgetAfter"),
    }


def _json(body: Any, code: int = 200) -> Response:
    return Response(json.dumps(body), code, media_type="application/json")
