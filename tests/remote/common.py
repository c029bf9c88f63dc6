"""Services as tests see them: a double, the URL that opens an engine on it, and records put there unseen.

A service is a `Service`. Tests that hold for every one are run for each of `SERVICES`; add yours there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from keyfold import AsyncMemory, Config, Memory
from keyfold.contract.intents import Intent, Ref
from keyfold.dialects.base import Shelf
from keyfold.dialects.cognee_rows import dataset_name, file_of
from keyfold.dialects.cortexdb_envelope import encode
from keyfold.dialects.cortexdb_names import scope_of
from keyfold.dialects.payload import FIELD, Payload, header, wire_text, with_id
from keyfold.dialects.supermemory_rows import laid_out, tag_of
from keyfold.faces.planned import AsyncPlannedEngine, PlannedEngine
from keyfold.model import OBSERVATION, SESSION, Record
from keyfold.registry import open_async_engine, open_engine
from tests.doubles.serving import Double

KEY = "a-key-that-is-never-shown"
SEEDED = datetime(2026, 1, 1, tzinfo=UTC)

# What people and programs name things; each is a key, and a namespace, of its own.
NAMES = (
    "a.b/c",
    "a%2Fb",
    "a/b",
    "*",
    "with spaces  within",
    "☃ émoji 🗝",
    "k" * 500,
    "\u00c5",  # Å, one code point
    "A\u030a",  # Å, a letter and its ring
    "Case",
    "case",
    "?user_id=*&x=1#y",
    "../..",
    "%",
)


@dataclass(frozen=True)
class Service:
    """A service: how its double is made, which scheme opens an engine on it, and how a record is put there."""

    name: str
    scheme: str
    double: Callable[[], Double]
    put: Callable[[Any, Payload], object] | None = None  # None: through the engine
    options: str = ""

    def url(self, double: Double) -> str:
        return double.url.replace("http://", f"{self.scheme}://") + (f"?{self.options}" * bool(self.options))

    def with_options(self, options: str) -> Service:
        """The service, opened with options behind the `?` of its URL."""
        return replace(self, options=options)

    def engine(self, double: Double, **settings: Any) -> PlannedEngine:
        engine = open_engine(self.url(double), config=configured(**settings))
        assert isinstance(engine, PlannedEngine)
        return engine

    async def async_engine(self, double: Double, **settings: Any) -> AsyncPlannedEngine:
        engine = await open_async_engine(self.url(double), config=configured(**settings))
        assert isinstance(engine, AsyncPlannedEngine)
        return engine

    def memory(self, double: Double, **settings: Any) -> Memory:
        return Memory.open(self.url(double), config=configured(**settings))

    async def async_memory(self, double: Double, **settings: Any) -> AsyncMemory:
        return await AsyncMemory.open(self.url(double), config=configured(**settings))

    def fill(self, double: Double, namespace: str, number: int, *, first: int = 0) -> None:
        """Put `number` records into a namespace, with the keys `key/0`, `key/1`, ..., as if long ago."""
        numbers = range(first, first + number)
        if self.put is not None:
            for one in numbers:
                self.put(double, payload(namespace, f"key/{one}", f"content {one}"))
            return
        engine = self.engine(double)
        try:
            engine.store_many([intent(namespace, f"key/{one}", f"content {one}") for one in numbers])
        finally:
            engine.close()


def configured(**settings: Any) -> Config:
    return Config(**{"credential": lambda: KEY, "timeout": 20.0, **settings})


def payload(namespace: str, key: str, content: str, *, revision: int = 1, **fields: Any) -> Payload:
    """A record as a dialect writes it down."""
    said: dict[str, Any] = {
        "id": "",
        "namespace": namespace,
        "kind": OBSERVATION,
        "key": key,
        "minted": False,
        "type": "decision",
        "title": "Title",
        "content": content,
        "metadata": {},
        "tags": (),
        "session_id": None,
        "revision_count": revision,
        "normalized_hash": sha256(content.encode()).hexdigest(),
        "created_at": SEEDED,
        "updated_at": SEEDED + timedelta(seconds=revision),
        "expires_at": None,
        "pinned": False,
        "taint": "internal",
        "observed_at": None,
    }
    return Payload(with_id(Record(**said | fields)))


def intent(namespace: str, key: str | None, content: str, **fields: Any) -> Intent:
    return Intent(
        namespace,
        key=key,
        type="decision",
        title="Title",
        content=content,
        normalized_hash=sha256(content.encode()).hexdigest(),
        **fields,
    )


def ref(namespace: str, key: str) -> Ref:
    return Ref(namespace, key=key)


def contents(records: Iterable[Record]) -> list[str]:
    return sorted(record.content for record in records)


def _mem0_ids(payload: Payload) -> dict[str, str]:
    shelf = Shelf(payload.record.namespace, payload.record.kind == SESSION)
    return {"user_id": shelf.wire_name, "agent_id": "keyfold", "run_id": payload.digest}


def put_mem0(double: Any, payload: Payload) -> str:
    """Put a record on a double of Mem0, of either kind, as the dialects write it; returns its id there."""
    metadata = {FIELD: header(payload)}
    [remote] = double.seed(wire_text(payload), metadata=metadata, **_mem0_ids(payload))
    return str(remote)


def put_supermemory(double: Any, payload: Payload) -> str:
    """Put a record on a double of Supermemory, its parts first; returns the id of its head."""
    layout = laid_out(payload)
    tag = tag_of(Shelf(payload.record.namespace, payload.record.kind == SESSION))
    items = [(item["content"], item["metadata"]) for item in (*layout.parts, layout.item)]
    return str(double.seed(tag, len(items), items.__getitem__)[-1].id)


def put_cognee(double: Any, payload: Payload) -> str:
    """Put a record on a double of Cognee; returns its id there."""
    file = file_of(payload)
    name = dataset_name(Shelf(payload.record.namespace, payload.record.kind == SESSION))
    return str(
        double.put(name, file.part.name, file.part.content, label=file.label, metadata=file.metadata).id
    )


def _mem0_oss() -> Double:
    from tests.doubles.mem0_oss import Mem0Oss

    return Mem0Oss(key=KEY)


def _mem0_platform() -> Double:
    from tests.doubles.mem0_platform import Mem0Platform

    return Mem0Platform(key=KEY)


def _supermemory() -> Double:
    from tests.doubles.supermemory import Supermemory

    return Supermemory(key=KEY)


def _cognee() -> Double:
    from tests.doubles.cognee import CogneeDouble

    return CogneeDouble(multi_tenant=True, key=KEY)


def _cognee_unpaged() -> Double:
    from tests.doubles.cognee import CogneeDouble

    return CogneeDouble("1.6.0", multi_tenant=True, key=KEY)


def put_cortexdb(double: Any, payload: Payload) -> list[str]:
    """Put a record on a double of CortexDB, of either kind, as the dialect writes it; returns its events' ids."""
    shelf = Shelf(payload.record.namespace, payload.record.kind == SESSION)
    ids: list[str] = double.seed(encode(payload, scope_of(shelf)), settled=False)
    return ids


def prompt(double: Any) -> Any:
    """A double of CortexDB without what takes time: what is written is listed and found at once, and no limits."""
    double.knobs.listing_lag = double.knobs.recall_lag = 0
    double.knobs.rate_limit = 10**9
    return double


def _cortexdb() -> Double:
    from tests.doubles.cortexdb import CortexDirect

    return prompt(CortexDirect(key=KEY))  # type: ignore[no-any-return]


def _tinyhumans() -> Double:
    from tests.doubles.cortexdb_hosted import CortexHosted

    return prompt(CortexHosted(key=KEY))  # type: ignore[no-any-return]


MEM0_OSS = Service("Mem0 open source", "mem0+http", _mem0_oss, put_mem0)
MEM0_PLATFORM = Service("Mem0 platform", "mem0", _mem0_platform, put_mem0)
SUPERMEMORY = Service("Supermemory", "supermemory+http", _supermemory, put_supermemory)
COGNEE = Service("Cognee", "cognee+http", _cognee, put_cognee)
COGNEE_UNPAGED = Service("Cognee 1.6.0", "cognee+http", _cognee_unpaged, put_cognee)
CORTEXDB = Service("CortexDB", "cortexdb+http", _cortexdb, put_cortexdb)
TINYHUMANS = Service("TinyHumans", "tinyhumans+http", _tinyhumans, put_cortexdb)
SERVICES = (MEM0_PLATFORM, MEM0_OSS, SUPERMEMORY, COGNEE, COGNEE_UNPAGED, CORTEXDB, TINYHUMANS)
