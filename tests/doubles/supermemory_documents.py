"""The v3 half of the double of Supermemory: documents, which are processed, and the tags they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.routing import Route

from tests.doubles import supermemory_rules as rules
from tests.doubles.supermemory_rules import Refused, invalid
from tests.doubles.supermemory_state import Document, State, similarity, stamp, words

DEFAULT_TAG = "sm_project_default"
CHUNK = 1_000


class _Dated(Protocol):
    created_at: datetime
    updated_at: datetime


Row = TypeVar("Row", bound=_Dated)


def paged(rows: list[Row], body: dict[str, Any]) -> tuple[list[Row], dict[str, int]]:
    """The page that a body asks for, of rows that come oldest first, and what the answer says about it."""
    limit = rules.whole(body.get("limit", 10), "limit", rules.MAX_PAGE)
    page = rules.whole(body.get("page", 1), "page", 1_000_000)
    sort = rules.choice(body.get("sort", "createdAt"), "sort", ("createdAt", "updatedAt"))
    order = rules.choice(body.get("order", "desc"), "order", ("asc", "desc"))
    field = "created_at" if sort == "createdAt" else "updated_at"
    ordered = sorted(rows, key=lambda row: getattr(row, field))
    if order == "desc":
        ordered.reverse()
    pagination = {
        "currentPage": page,
        "limit": limit,
        "totalItems": len(rows),
        "totalPages": -(-len(rows) // limit),
    }
    return ordered[(page - 1) * limit : page * limit], pagination


class DocumentRoutes:
    """Mixed into the double: only it has the routes, the clock and the knobs."""

    if TYPE_CHECKING:
        state: State
        queued_polls: int
        documents_fail: bool
        content_before_done: bool

        def now(self) -> datetime: ...
        def permit(self, tags: Sequence[str] | None) -> list[str] | None: ...
        def match(self, body: dict[str, Any]) -> rules.Match | None: ...
        def shifted(self) -> int: ...
        def route(self, method: str, path: str, handler: Any) -> Route: ...

    def document_routes(self) -> list[Route]:
        return [
            self.route("POST", "/v3/documents", self._add),
            self.route("POST", "/v3/documents/list", self._list_documents),
            self.route("POST", "/v3/documents/batch", self._batch),
            self.route("DELETE", "/v3/documents/bulk", self._delete_bulk),
            self.route("GET", "/v3/documents/processing", self._processing),
            self.route("GET", "/v3/documents/{id}", self._get),
            self.route("PATCH", "/v3/documents/{id}", self._patch),
            self.route("DELETE", "/v3/documents/{id}", self._delete),
            self.route("GET", "/v3/documents/{id}/chunks", self._chunks),
            self.route("POST", "/v3/search", self._search_documents),
            self.route("GET", "/v3/container-tags/list", self._tags),
            self.route("GET", "/v3/container-tags/{tag}", self._tag),
            self.route("PATCH", "/v3/container-tags/{tag}", self._patch_tag),
            self.route("DELETE", "/v3/container-tags/{tag}", self._delete_tag),
        ]

    def _add(self, request: Request, body: dict[str, Any]) -> Any:
        document = self._put(body, "")
        return {"id": document.id, "status": document.status}

    def _put(self, body: Any, path: str) -> Document:
        """A new document, or more text for the one that has the customId already: it is never replaced."""
        fields = _fields(body, path)
        content = rules.text(body.get("content"), f"{path}content")
        tags = self.permit(rules.either_tags(body)) or [DEFAULT_TAG]
        now, custom_id = self.now(), fields.get("custom_id")
        for tag in tags:
            self.state.space(tag, now)
        self.state.sweep(now)
        held = next(
            (one for one in self.state.documents.values() if custom_id and one.custom_id == custom_id), None
        )
        if held is None:
            document = Document(tags, content, now, **fields)
            self.state.documents[document.id] = document
        else:
            document = held
            # What starts with the held text is taken for its longer self, and anything else is added to it.
            grown = content.startswith(held.content)
            document.content = content if grown else f"{held.content}\n{content}"
            document.metadata = fields.get("metadata", held.metadata)
            document.updated_at, document.revision = now, held.revision + 1
        self._requeue(document)
        return document

    def _requeue(self, document: Document) -> None:
        document.status, document.polls = "queued", self.queued_polls
        document.fails, document.failed_at = self.documents_fail, None

    def _named(self, request: Request) -> Document:
        document = self.state.document(request.path_params["id"], self.now())
        self.permit(document.tags)
        return document

    def _patch(self, request: Request, body: dict[str, Any]) -> Any:
        document, fields = self._named(request), _fields(body, "")
        tags = self.permit(rules.either_tags(body))
        custom_id = fields.get("custom_id")
        others = [one for one in self.state.documents.values() if one is not document]
        if custom_id is not None and any(one.custom_id == custom_id for one in others):
            raise Refused(409, "A document with this customId exists already")
        content = rules.text(body["content"], "content") if "content" in body else None
        for name in ("metadata", "custom_id", "filepath", "task_type"):
            if name in fields:
                setattr(document, name, fields[name])
        document.tags, document.updated_at = tags or document.tags, self.now()
        for tag in document.tags:
            self.state.space(tag, self.now())
        if content is not None:
            document.content, document.revision = content, document.revision + 1
            self._requeue(document)
        return {"id": document.id, "status": document.status}

    def _get(self, request: Request, body: dict[str, Any]) -> Any:
        document = self._named(request)
        document.look(self.now())
        shown = document.content if document.status == "done" or self.content_before_done else None
        return document.row() | {
            "content": shown,
            "raw": shown,
            "dreamingStatus": "done" if document.status == "done" else "dreaming",
            "latestRevision": document.revision,
            "taskType": document.task_type,
        }

    def _delete(self, request: Request, body: dict[str, Any]) -> None:
        del self.state.documents[self._named(request).id]

    def _delete_bulk(self, request: Request, body: dict[str, Any]) -> Any:
        errors = []
        answer: dict[str, Any] = {}
        if "ids" in body:
            ids = body["ids"]
            if not isinstance(ids, list) or not 1 <= len(ids) <= rules.MAX_IDS:
                raise invalid("ids", f"Array must contain 1 to {rules.MAX_IDS} element(s)")
            self.state.sweep(self.now())
            held = self.state.documents  # by id alone: a customId is not known here
            gone = [held[one] for one in dict.fromkeys(ids) if one in held]
            errors = [{"id": one, "error": "Document not found"} for one in ids if one not in held]
        elif "containerTags" in body:
            tags = rules.tags_of(body["containerTags"])
            gone = self.state.in_tags(self.permit(tags), self.now())
            answer["containerTags"] = tags
        elif "filepath" in body:
            path = rules.text(body["filepath"], "filepath")
            gone = [one for one in self.state.in_tags(None, self.now()) if _below(one.filepath, path)]
        else:
            raise invalid("", "Either ids, containerTags or filepath must be provided")
        for document in gone:
            self.permit(document.tags)
        for document in gone:
            del self.state.documents[document.id]
        if errors:
            answer["errors"] = errors
        return {"success": not errors, "deletedCount": len(gone)} | answer

    def _batch(self, request: Request, body: dict[str, Any]) -> Any:
        items = body.get("documents")
        if not isinstance(items, list) or not 1 <= len(items) <= rules.MAX_BATCH:
            raise invalid("documents", f"Array must contain 1 to {rules.MAX_BATCH} element(s)")
        shared = {name: value for name, value in body.items() if name not in {"documents", "content"}}
        results: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            item = {"content": item} if isinstance(item, str) else item
            try:
                document = self._put(shared | item if isinstance(item, dict) else item, f"documents.{index}.")
                results.append({"id": document.id, "status": document.status})
            except Refused as refusal:
                if refusal.code != 400:
                    raise
                failed = {"error": refusal.message, "details": refusal.details}
                results.append({"id": "", "status": "error"} | failed)
        failures = sum(result["status"] == "error" for result in results)
        return {"results": results, "success": len(results) - failures, "failed": failures}

    def _list_documents(self, request: Request, body: dict[str, Any]) -> Any:
        tags = self.permit(rules.either_tags(body))
        match, with_content = (
            self.match(body),
            rules.flag(body.get("includeContent", False), "includeContent"),
        )
        path = body.get("filepath")
        rows = [
            one
            for one in self.state.in_tags(tags, self.now())
            if (match is None or match(one.metadata or {})) and (path is None or _below(one.filepath, path))
        ]
        page, pagination = paged(rows, body)
        for _ in range(self.shifted()):
            self._put(
                {"content": "written between two pages", "containerTag": (tags or [DEFAULT_TAG])[0]}, ""
            )
        content = [{"content": one.content} if with_content else {} for one in page]
        memories = [one.row() | more for one, more in zip(page, content, strict=True)]
        return {"memories": memories, "pagination": pagination}  # documents, under the older word

    def _processing(self, request: Request, body: dict[str, Any]) -> Any:
        asked = parse_qs(request.url.query).get("containerTags")
        tags = self.permit(asked[0].split(",") if asked else None)
        for document in self.state.in_tags(tags, self.now()):
            document.look(self.now())
        busy = [one.row() for one in self.state.in_tags(tags, self.now()) if one.status == "queued"]
        return {"documents": busy, "totalCount": len(busy)}

    def _chunks(self, request: Request, body: dict[str, Any]) -> Any:
        document = self._named(request)
        chunks = _cut(document) if document.status == "done" else []
        return {
            "chunks": [
                {"id": f"{document.id}_{position}", "content": chunk, "position": position}
                for position, chunk in enumerate(chunks)
            ],
            "total": len(chunks),
        }

    def _done(self, tags: list[str] | None, match: rules.Match | None) -> list[Document]:
        return [
            one
            for one in self.state.in_tags(tags, self.now())
            if one.status == "done" and (match is None or match(one.metadata or {}))
        ]

    def chunks_found(
        self, query: str, tags: list[str] | None, match: rules.Match | None, threshold: float
    ) -> list[dict[str, Any]]:
        """The pieces of finished documents that a v4 search in another mode finds."""
        asked = words(query)
        return [
            {
                "id": f"{document.id}_{position}",
                "chunk": chunk,
                "similarity": score,
                "metadata": document.metadata,
                "updatedAt": stamp(document.updated_at),
                "documents": [_brief(document)],
            }
            for document in self._done(tags, match)
            for position, chunk in enumerate(_cut(document))
            if (score := similarity(asked, words(chunk))) >= threshold
        ]

    def _search_documents(self, request: Request, body: dict[str, Any]) -> Any:
        query = words(rules.text(body.get("q"), "q"))
        threshold = rules.number(body.get("chunkThreshold", 0), "chunkThreshold", 0, 1)
        limit = rules.whole(body.get("limit", 10), "limit", 100)
        results = []
        for document in self._done(self.permit(rules.either_tags(body)), self.match(body)):
            scored = [(similarity(query, words(chunk)), chunk) for chunk in _cut(document)]
            chunks = [
                {"content": chunk, "isRelevant": True, "position": position, "score": score}
                for position, (score, chunk) in enumerate(scored)
                if score and score >= threshold
            ]
            if chunks:
                score = max(score for score, _ in scored)
                row = {"documentId": document.id, "score": score, "chunks": chunks, "type": "text"}
                results.append(_brief(document) | {"metadata": document.metadata} | row)
        results = sorted(results, key=lambda result: -result["score"])[:limit]
        return {"results": results, "timing": 1, "total": len(results)}

    def _tags(self, request: Request, body: dict[str, Any]) -> Any:
        return [space for tag, space in self.state.spaces.items() if tag in (self.permit(None) or [tag])]

    def _space(self, request: Request) -> dict[str, Any]:
        tag = request.path_params["tag"]
        self.permit([tag])
        if tag not in self.state.spaces:
            raise Refused(404, "Container tag not found")
        return self.state.spaces[tag]

    def _tag(self, request: Request, body: dict[str, Any]) -> Any:
        return self._space(request)

    def _patch_tag(self, request: Request, body: dict[str, Any]) -> Any:
        space = self._space(request)
        if "entityContext" in body:
            rules.text(body["entityContext"], "entityContext", most=rules.MAX_CONTEXT, least=0)
        space |= {name: body[name] for name in ("name", "entityContext") if name in body}
        space["updatedAt"] = stamp(self.now())
        return space

    def _delete_tag(self, request: Request, body: dict[str, Any]) -> Any:
        """Documents go; memories are only marked as forgotten, so a tag that is used again still lists them."""
        tag = self._space(request)["containerTag"]
        documents, memories = self.state.in_tags([tag], self.now()), self.state.live([tag], self.now())
        for document in documents:
            del self.state.documents[document.id]
        for row in self.state.rows([tag]):
            row.forgotten = True
        del self.state.spaces[tag]
        counts = {"deletedDocumentsCount": len(documents), "deletedMemoriesCount": len(memories)}
        return {"success": True, "containerTag": tag} | counts


def _fields(body: Any, path: str) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise invalid(path, "Expected object")
    fields: dict[str, Any] = {}
    if "customId" in body:
        fields["custom_id"] = rules.text(body["customId"], f"{path}customId", shape=rules.CUSTOM_ID)
    if "metadata" in body:
        fields["metadata"] = rules.metadata_of(body["metadata"], f"{path}metadata")
    if "filepath" in body:
        fields["filepath"] = rules.text(body["filepath"], f"{path}filepath")
    if "taskType" in body:
        fields["task_type"] = rules.choice(body["taskType"], f"{path}taskType", ("memory", "superrag"))
    if "dreaming" in body:
        rules.choice(body["dreaming"], f"{path}dreaming", ("dynamic", "instant"))
    if "entityContext" in body:
        rules.text(body["entityContext"], f"{path}entityContext", most=rules.MAX_CONTEXT, least=0)
    return fields


def _below(filepath: str | None, asked: str) -> bool:
    return filepath is not None and (filepath.startswith(asked) if asked.endswith("/") else filepath == asked)


def _cut(document: Document) -> list[str]:
    return [document.content[start : start + CHUNK] for start in range(0, len(document.content), CHUNK)]


def _brief(document: Document) -> dict[str, Any]:
    dates = {"createdAt": stamp(document.created_at), "updatedAt": stamp(document.updated_at)}
    return {"id": document.id, "title": document.content[:60]} | dates
