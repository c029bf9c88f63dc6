"""What the Cognee double holds: users, datasets, rows, and the chunks that cognify cuts for the search."""

from __future__ import annotations

import hashlib
import math
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.cognee_wire import Behaviour, extension_of, name_of, nothing_to_update, stamp, unreadable

CHUNK = 1_000  # characters: a long document is found in pieces, and no piece is the whole of it
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class User:
    name: str
    key: str
    id: str

    @property
    def token(self) -> str:
        return f"jwt.{self.id}"

    @property
    def password(self) -> str:
        return f"password of {self.name}"


@dataclass(frozen=True)
class Upload:
    """One file of a request."""

    filename: str
    content: bytes
    label: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def md5(self) -> str:
        return hashlib.md5(self.content).hexdigest()


@dataclass(frozen=True)
class Chunk:
    id: str
    text: str
    index: int
    words: Counter[str]

    def distance(self, words: Counter[str]) -> float:
        """A cosine distance, as of vectors: 0 is the same, 1 has nothing in common; lower is better."""
        shared = sum(count * self.words[word] for word, count in words.items())
        length = math.sqrt(sum(n * n for n in self.words.values()) * sum(n * n for n in words.values()))
        return 1.0 - shared / length if length else 1.0


@dataclass
class Row:
    id: str
    name: str
    md5: str
    size: int
    text: str  # the derived text file: every line end is \n
    owner: str
    created: datetime
    updated: datetime
    label: str | None
    metadata: dict[str, Any]
    chunks: list[Chunk] | None = None  # None: not cognified


@dataclass
class Dataset:
    id: str
    name: str
    owner: str
    created: datetime
    rows: dict[str, Row] = field(default_factory=dict)
    shared_with: set[str] = field(default_factory=set)
    ran: bool = False  # a pipeline has run
    cognified: bool = False  # it has a vector store of its own


def words_of(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower()))


class Store:
    """Everything, and what may be done with it. It is not asked who is allowed to."""

    def __init__(self, behaviour: Behaviour, clock: Callable[[], datetime], *, multi_tenant: bool) -> None:
        self.behaviour, self.clock, self.multi_tenant = behaviour, clock, multi_tenant
        self.datasets: dict[str, Dataset] = {}
        self.random = random.Random(1)
        self.cognified = False
        self.cognify_runs: list[tuple[str, int]] = []  # the dataset, and how many rows were due

    def dataset(self, user: User, name: str) -> tuple[Dataset, bool]:
        """The dataset of that name, and whether it is new. The id comes from the name: it returns after a delete."""
        made_of = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}{user.id}"))
        if made_of in self.datasets:
            return self.datasets[made_of], False
        self.datasets[made_of] = Dataset(made_of, name, user.id, self.clock())
        return self.datasets[made_of], True

    def conflicts(
        self, user: User, dataset: Dataset, uploads: Sequence[Upload], extensions: set[str]
    ) -> list[tuple[str, str]]:
        """Rows whose name comes again with other bytes. A stored extension is always txt, hence `extensions`."""
        coming = {
            name_of(upload.filename): upload
            for upload in uploads
            if extension_of(upload.filename) in extensions
        }
        return [
            (f"{row.name}.{extension_of(upload.filename)}", row.id)
            for row in dataset.rows.values()
            if row.owner == user.id and (upload := coming.get(row.name)) and upload.md5 != row.md5
        ]

    def ingest(self, user: User, dataset: Dataset, uploads: Sequence[Upload]) -> list[tuple[bool, str]]:
        """Write what is new to the dataset: for each upload, whether it was written, and the id it is answered with.

        What is known is settled once, before the first is written, so twins in one request are two rows, and both
        are answered with the first one's id. Rows of a request are not written in the order of its files.
        """
        known = {row.md5: row.id for row in dataset.rows.values() if row.owner == user.id}
        rows = {at: self._row(user, upload) for at, upload in enumerate(uploads) if upload.md5 not in known}
        for row in self.random.sample(list(rows.values()), len(rows)):
            self._date(row)
            dataset.rows.setdefault(row.id, row)
        dataset.ran = True
        first: dict[str, str] = {}
        for row in rows.values():
            first.setdefault(row.md5, row.id)
        return [(at in rows, known.get(upload.md5) or first[upload.md5]) for at, upload in enumerate(uploads)]

    def put(self, user: User, dataset: Dataset, upload: Upload) -> Row:
        """Write a row whatever is there already: how duplicates and what others wrote come about."""
        row = self._row(user, upload)
        self._date(row)
        dataset.ran = True
        dataset.rows[row.id] = row
        return row

    def _date(self, row: Row) -> None:
        """An add updates what it has just created, so the two times differ from the start."""
        row.created = self.clock()
        row.updated = row.created + timedelta(milliseconds=8)

    def _row(self, user: User, upload: Upload, row_id: str | None = None) -> Row:
        try:
            text = upload.content.decode()
        except UnicodeDecodeError as fault:
            named = self.behaviour.names_the_unreadable
            raise unreadable(upload.filename, fault, named=named) from None
        fresh = str(uuid.uuid4())
        if not self.behaviour.rows_of_their_own:
            fresh = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{upload.md5}{user.id}"))
        metadata = dict(upload.metadata or {}) if self.behaviour.labels else {}
        if self.behaviour.source_uri:
            metadata["_cognee"] = {"source_uri": f"file:///srv/cognee/{upload.filename}"}
        label = upload.label if self.behaviour.labels else None
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        now = self.clock()
        name, size = name_of(upload.filename), len(upload.content)
        return Row(row_id or fresh, name, upload.md5, size, text, user.id, now, now, label, metadata)

    def update(self, user: User, dataset: Dataset, row_id: str, upload: Upload, *, rebuild: bool) -> str:
        """Put the new bytes into the row, and say what the release did with it. The caller cognifies.

        The row may be gone meanwhile; then it is written again under its old id.
        """
        row = dataset.rows.get(row_id)
        new = self._row(user, upload, row_id)
        if self.behaviour.update == "recreates":
            dataset.rows.pop(row_id, None)
            new = self._row(user, upload)
            outcome = "recreated"
        elif self.behaviour.update == "resets":
            node_set = {"node_set": [""]}
            new.metadata = new.metadata | node_set if self.behaviour.source_uri else node_set
            outcome = "reset"
        elif row is None or row.chunks is None or rebuild:
            if row is not None:
                new.created, new.label = row.created, row.label
            outcome = "full_rebuild"
        elif row.md5 == new.md5:
            return "unchanged"
        else:
            new.created, new.label, new.metadata = row.created, row.label, row.metadata
            outcome = "incremental"
        dataset.rows[new.id] = new
        return outcome

    def known(self, dataset_id: str, row_id: str) -> Dataset:
        """The dataset, if that row is in it. Asked before anyone is asked for permission."""
        dataset = self.datasets.get(dataset_id)
        if dataset is None or (row_id not in dataset.rows and self.behaviour.update != "recreates"):
            raise nothing_to_update(row_id, dataset_id)
        return dataset

    def cognify(self, dataset: Dataset) -> list[tuple[bool, str]]:
        """Make every row of the dataset findable, which sets the updatedAt of those that were not."""
        done = []
        for row in dataset.rows.values():
            due = row.chunks is None
            if due:
                row.chunks, row.updated = (
                    list(_chunks(row)),
                    max(self.clock(), row.updated + timedelta(milliseconds=8)),
                )
            done.append((due, row.id))
        dataset.ran = dataset.cognified = self.cognified = True
        self.cognify_runs.append((dataset.id, sum(due for due, _ in done)))
        return done

    def listing(self, dataset: Dataset) -> list[Row]:
        """Newest first, then by id; up to 1.6.0 the biggest first, and those of one size in any order."""
        rows = list(dataset.rows.values())
        if not self.behaviour.paged:
            self.random.shuffle(rows)
            return sorted(rows, key=lambda row: -row.size)
        rows.sort(key=lambda row: row.id)
        return sorted(rows, key=lambda row: row.created, reverse=True)

    def described(self, dataset: Dataset, row: Row) -> dict[str, Any]:
        """A row as the listing shows it: the extension and type are those of the derived text."""
        shown: dict[str, Any] = {
            "id": row.id,
            "name": row.name,
            "createdAt": stamp(row.created),
            "updatedAt": stamp(row.updated),
            "extension": "txt",
            "mimeType": "text/plain",
            "rawDataLocation": f"file:///srv/cognee/data/text_{row.md5}.txt",
            "datasetId": dataset.id,
        }
        if self.behaviour.labels:
            shown |= {"label": row.label, "externalMetadata": row.metadata}
        if self.behaviour.paged:
            shown["dataSize"] = row.size
        return shown

    def nearest(self, datasets: Sequence[Dataset], query: str, top: int) -> list[tuple[Row, Chunk, float]]:
        """The `top` chunks of those datasets, nearest first."""
        words = words_of(query)
        found = [
            (row, chunk, chunk.distance(words))
            for dataset in datasets
            for row in dataset.rows.values()
            for chunk in row.chunks or ()
        ]
        return sorted(found, key=lambda hit: (hit[2], hit[1].id))[:top]


def _chunks(row: Row) -> Iterator[Chunk]:
    for index, start in enumerate(range(0, max(len(row.text), 1), CHUNK)):
        text = row.text[start : start + CHUNK]
        yield Chunk(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row.id}-{index}")), text, index, words_of(text))
