"""How the code is broken to see each case fail: (file below src/keyfold, what stands there, what is put in its place).

A test that cannot fail proves nothing. `python -m tests.cases.seen_failing` makes each of these builds in a folder of
its own and runs the case's test on it, which must fail; `make torture` does so too. When the code has changed so
that a break no longer applies, it says so: give the case another one.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Break(NamedTuple):
    """One way to break the build. `times` of what stands there are replaced, all that there are unless given."""

    file: str
    there: str
    instead: str
    words: str


UNTERMINATED: Final = Break(
    "engines/sqlite/search.py",
    "return '\"' + '\" OR \"'.join(tokens) + '\"'",
    "return '\"' + '\" OR \"'.join(tokens)",
    "the last token loses its closing quote",
)
CHUNK: Final = "for chunk in query.split() for piece in pieces(chunk))"


def _deaf(condition: str, words: str) -> Break:
    return Break("text/tokens.py", CHUNK, f"{CHUNK[:-1]} if {condition})", words)


def _cut(at: str, words: str) -> Break:
    return Break(
        "text/tokens.py", CHUNK, CHUNK.replace("pieces(chunk)", f"pieces(chunk.split({at!r})[0])"), words
    )


ROWS_STAY: Final = Break(
    "engines/sqlite/write.py",
    'conn.executemany("DELETE FROM records WHERE slot = ?", slots)',
    "pass",
    "a forget leaves the row",
)
ALWAYS_FRESH: Final = Break(
    "engines/sqlite/search.py",
    "    if not waiting:\n",
    "    if True:\n",
    "searches pass over what waits for the index",
)
NOT_COMMITTED: Final = Break(
    "engines/sqlite/engine.py",
    'conn.execute("COMMIT")\n                    return receipt',
    'conn.execute("ROLLBACK")\n                    return receipt',
    "a save is answered and rolled back",
)
ANY_TAG: Final = Break(
    "contract/filters.py",
    "all(tag in record.tags for tag in where.tags)",
    "(not where.tags or any(tag in record.tags for tag in where.tags))",
    "any of the tags is enough",
)
EVERY_USER: Final = Break(
    "engines/sqlite/narrow.py",
    'conn.execute(f"{_RANK} name = ?", (name,))',
    'conn.execute(f"{_RANK} name = ? OR 1", (name,))',
    "a read looks at every user",
)
UNHASHED: Final = "return sha256(text.encode()).hexdigest()"

BREAKS: Final[dict[str, Break]] = {
    "C001": UNTERMINATED,
    "C002": UNTERMINATED,
    "C003": _cut("/", "a query word is cut at a slash"),
    "C004": _deaf("not chunk.isdigit()", "numbers in a query are dropped"),
    "C005": _cut(":", "a query word is cut at a colon"),
    "C006": Break(
        "engines/sqlite/search.py",
        "        if not row[5]:\n",
        "        if not row[5] or len(profile) < len(units):\n",
        "only what holds every word is found",
    ),
    "C007": Break(
        "engines/sqlite/narrow.py",
        'conn.execute(f"{_RANK} name = ?", (name,))',
        "conn.execute(f\"{_RANK} name = '{name.split('-')[0]}'\")",
        "the user id is cut at a hyphen and put into the statement",
    ),
    "C008": _deaf('"?" not in chunk', "query words with a question mark are dropped"),
    "C009": Break("text/_fold.py", 'normalize("NFKC", ', 'normalize("NFC", ', "NFC in place of NFKC"),
    "C010": Break(
        "text/tokens.py",
        "grams = [*piece, *bigrams(piece)]",
        "grams = [*piece]",
        "no pairs of characters are indexed",
    ),
    "C011": Break(
        "text/tokens.py",
        "grams = [*piece, *bigrams(piece)]",
        "grams = [*piece, *list(bigrams(piece))[1:]]",
        "the first pair of characters is not indexed",
    ),
    "C012": Break(
        "text/keys.py", 'zlib.crc32(title.encode("utf-8", "surrogatepass"))', "0", "no checksum in a name"
    ),
    "C013": NOT_COMMITTED,
    "C014": Break(
        "portability/writer.py",
        'separators=(",", ":"), allow_nan=False) + "\\n"',
        'separators=(",", ":"), allow_nan=False)',
        "lines of an export have no end",
    ),
    "C015": Break(
        "engines/sqlite/connect.py",
        '        except apsw.BusyError:\n            mode = ""\n',
        "        except apsw.BusyError:\n            raise\n",
        "the switch to WAL is not tried again",
    ),
    "C016": Break(
        "engines/sqlite/connect.py",
        'return Unavailable(f"{name} was locked',
        'return StoreError(f"{name} failed',
        "a lock is told as a failure",
    ),
    "C017": Break(
        "engines/sqlite/connect.py",
        'conn.set_busy_timeout(BUSY)\n    conn.execute(f"PRAGMA synchronous',
        'conn.set_busy_timeout(0)\n    conn.execute(f"PRAGMA synchronous',
        "a writer does not wait",
    ),
    "C018": Break(
        "engines/sqlite/write.py",
        "    if conn.changes():\n        return\n    if use.opens and use.alive_since",
        "    if use.opens and use.alive_since",
        "every save inserts its session",
    ),
    "C019": Break(
        "engines/sqlite/schema.py",
        "        if not stands(conn, name):\n            conn.execute(TABLES)",
        "        if True:\n            conn.execute(TABLES)",
        "the tables are made without another look",
    ),
    "C020": Break(
        "engines/sqlite/idempotency.py",
        "    if not rows:\n        return None\n    body, text, slot",
        "    if True:\n        return None\n    body, text, slot",
        "the first receipt is not looked up",
    ),
    "C021": Break(
        "cli/writing.py",
        "idempotency_key=args.idempotency_key",
        "idempotency_key=None",
        "the command line drops the key",
    ),
    "C022": Break(
        "memory/logs.py",
        'DOCUMENT,\n        "upsert"',
        'DOCUMENT,\n        "append"',
        "documents are immutable",
    ),
    "C023": Break(
        "contract/decide.py",
        "    if not changes:\n",
        "    if not changes and (intent.session is None or intent.session.id == held.session_id):\n",
        "another session makes another revision",
    ),
    "C024": Break(
        "contract/prepare.py", UNHASHED, 'return sha256(b"").hexdigest()', "every text has one hash"
    ),
    "C025": Break(
        "engines/sqlite/write.py",
        "    if intent.id is None and intent.key is None and",
        "    if held is None and intent.id is None and",
        "keyed saves are taken for unkeyed ones",
    ),
    "C026": Break(
        "contract/decide.py",
        'return set(one) == set(other) if name == "tags" else same(one, other)',
        'return set(one) == set(other) if name == "tags" else True',
        "what differs counts as the same",
    ),
    "C027": Break(
        "portability/drafts.py",
        "            digest,\n            bool(pinned),",
        '            "",\n            bool(pinned),',
        "an import does not keep the hash",
    ),
    "C028": Break(
        "contract/prepare.py",
        UNHASHED,
        'return sha256("".join(filter(str.isalnum, text)).encode()).hexdigest()',
        "only letters and digits are hashed",
    ),
    "C029": Break("memory/reads.py", "limit: int = 50,", "limit: int = 20,", "the default page holds 20"),
    "C030": Break(
        "memory/reads.py",
        "position=position, limit=size))\n    following",
        "position=position, limit=min(size, 99)))\n    following",
        "a page is cut at 99",
    ),
    "C031": Break(
        "engines/sqlite/search.py",
        "FoundPage(tuple(items), len(found))",
        "FoundPage(tuple(items), len(items))",
        "the total counts the page",
    ),
    "C032": Break(
        "engines/sqlite/forget.py",
        'r.slot BETWEEN ? AND ?", namespace_slots(num))',
        'r.slot BETWEEN ? AND ?", (0, 1 << 62))',
        "a forget takes every slot",
    ),
    "C033": Break(
        "engines/sqlite/search.py",
        "    return scored[:limit]\n",
        "    return scored[: limit if len(found) > 1 else 0]\n",
        "one match is no match",
    ),
    "C034": Break(
        "engines/sqlite/forget.py",
        "r.ns = ? AND r.space = ? AND r.key = ?",
        "? AND r.space = ? AND r.key = ?",
        "a forget by key does not ask whose",
    ),
    "C035": Break(
        "engines/sqlite/engine.py",
        "DeleteResult(len(chosen.ids), chosen.ids",
        "DeleteResult(max(1, len(chosen.ids)), chosen.ids",
        "a forget of nothing counts one",
    ),
    "C036": Break(
        "memory/finding.py",
        "    return Hit(\n        record.id,",
        "    return Hit(\n        record.key,",
        "hits name keys",
    ),
    "C037": ROWS_STAY,
    "C038": ROWS_STAY,
    "C039": Break(
        "memory/forgetting.py",
        'if where in (EVERYTHING, Filter(topic_prefix="")) or (isinstance(filter, Mapping) and not filter):',
        "if False:",
        "an empty filter passes",
    ),
    "C040": Break(
        "memory/session_reads.py",
        "for item in found) or None",
        'for item in found) + "\\n- Goes"',
        "a summary names what is gone",
    ),
    "C041": Break(
        "engines/sqlite/write.py",
        "index.change(conn, slot, record, prepared)",
        "pass",
        "a rewrite does not reach the index",
    ),
    "C042": Break(
        "engines/sqlite/index.py",
        "conn.execute(_STATISTICS, (-1, -length, slot >> 32))",
        "pass",
        "a forget leaves the counters as they were",
    ),
    "C043": Break(
        "engines/sqlite/repair.py",
        "        if name not in wanted:\n",
        "        if True:\n",
        "a repair does nothing",
    ),
    "C044": ALWAYS_FRESH,
    "C045": Break(
        "clock.py",
        "return moment if moment.tzinfo is UTC else moment.astimezone(UTC)",
        "return moment.replace(tzinfo=UTC)",
        "offsets are ignored",
    ),
    "C046": Break(
        "cli/inputs.py",
        "_moment(field, value, -1,",
        "_moment(field, value, +1,",
        "a span leads into the future",
    ),
    "C047": Break(
        "memory/checks.py",
        "if value.tzinfo is None or value.utcoffset() is None:",
        "if False:",
        "a time without an offset passes",
    ),
    "C048": Break(
        "memory/checks.py", "    if size > limit:\n", "    if size > limit + 1:\n", "one byte over passes"
    ),
    "C049": Break(
        "memory/checks.py",
        "at most {limit:,} are allowed. {advice}",
        "that is too many",
        "the limit is not told",
    ),
    "C050": Break(
        "memory/checks.py", "MAX_QUERY_BYTES: Final = 64 *", "MAX_QUERY_BYTES: Final = 16 *", "a lower limit"
    ),
    "C051": Break(
        "mcp_server/replies.py",
        "CEILING: Final = 64 * 1024",
        "CEILING: Final = 8192 * 1024",
        "no ceiling to speak of",
    ),
    "C052": Break("text/check.py", 'return None if nul < 0 else (nul, "NUL")', "return None", "NUL passes"),
    "C053": Break("text/check.py", 'return None if nul < 0 else (nul, "NUL")', "return None", "NUL passes"),
    "C054": Break("text/check.py", 'return error.start, "lone surrogate"', "return None", "surrogates pass"),
    "C055": Break(
        "memory/checks.py",
        "safe = text(field, key, MAX_METADATA_BYTES, blank=True)",
        "safe = key",
        "keys are not looked at",
    ),
    "C056": Break("text/check.py", 'return error.start, "lone surrogate"', "return None", "surrogates pass"),
    "C057": Break(
        "cli/inputs.py",
        "standard_input(field).read()",
        "sys.stdin.read().encode()",
        "stdin is read as the terminal's encoding",
    ),
    "C058": Break(
        "cli/output.py", 'errors="backslashreplace"', 'errors="strict"', "what an encoding lacks is an error"
    ),
    "C059": NOT_COMMITTED,
    "C061": Break(
        "registry.py",
        'Path(given) if given.startswith("/")',
        'Path(given) if given.startswith("~")',
        "XDG_DATA_HOME is ignored",
    ),
    "C062": Break(
        "engines/sqlite/schema.py",
        "        if version > VERSION:",
        "        if False:",
        "a newer store is opened",
    ),
    "C063": Break(
        "engines/sqlite/schema.py",
        "        if version < 1:",
        "        if version < 2:",
        "the first schema is refused",
    ),
    "C065": Break(
        "mcp_server/handlers.py",
        "from __future__ import annotations\n",
        "from __future__ import annotations\nimport os\nos.write(1, b'loaded\\n')\n",
        "a module writes to stdout",
    ),
    "C066": Break(
        "mcp_server/ending.py",
        "        os._exit(self._code)",
        "        return",
        "a call that hangs keeps the server",
    ),
    "C067": Break(
        "mcp_server/server.py",
        "is_error=reply.is_error",
        "is_error=False",
        "an error does not say that it is one",
    ),
    "C068": Break(
        "mcp_server/parameters.py",
        'return {"type": self.kind,',
        'return {"type": "string",',
        "the schema calls everything a string",
    ),
    "C069": Break(
        "mcp_server/parameters.py",
        "if not isinstance(value, _CLASSES[self.kind]) or",
        'if (self.kind != "array" and not isinstance(value, _CLASSES[self.kind])) or',
        "an array may be anything",
    ),
    "C070": Break(
        "memory/sessions.py", "limit: int = 20)", "limit: int = 1000)", "no default limit to speak of"
    ),
    "C075": Break(
        "memory/checks.py",
        'safe = redact(value) if "<" in value else value',
        "safe = value",
        "nothing is redacted",
    ),
    "C077": Break(
        "memory/checks.py",
        'safe = redact(value) if "<" in value else value',
        "safe = value",
        "nothing is redacted",
    ),
    "C079": Break(
        "dialects/wire.py",
        "        for secret in self.secrets:\n",
        "        for secret in ():\n",
        "what a service says is quoted with the key in it",
    ),
    "C080": Break(
        "portability/writer.py",
        "for record in page.items:",
        "for record in page.items[:1]:",
        "one record a page",
    ),
    "C081": Break(
        "portability/writer.py", '"pinned": record.pinned,', '"pinned": False,', "pins are not exported"
    ),
    "C082": Break(
        "portability/writer.py", "kinds=KINDS, order", "kinds=KINDS[:3], order", "no sessions in an export"
    ),
    "C083": Break(
        "engines/sqlite/engine.py",
        "            self._only_read(str(refusal))\n            return None\n",
        "            raise refusal from None\n",
        "a store that cannot be written is refused",
    ),
    "C084": Break(
        "contract/decide.py",
        "revision, created, updated = load.revision, load.created_at, load.updated_at",
        "revision, created, updated = load.revision, now, now",
        "an import is dated when it came",
    ),
    "C086": Break(
        "portability/reader.py",
        '        value["key"],',
        '        value["key"] + str(id(value)),',
        "a key is not kept",
    ),
    "C087": Break(
        "engines/sqlite/narrow.py",
        'f"{namespace}/", f"{namespace}0"',
        'namespace, f"{namespace}\\U0010ffff"',
        "prefixes match",
    ),
    "C088": Break(
        "engines/sqlite/narrow.py",
        'conn.execute(f"{_RANK} name = ?", (name,))',
        'conn.execute(f"{_RANK} name LIKE ?", (name,))',
        "names are patterns",
    ),
    "C089": Break(
        "contract/filters.py",
        "return found is not _MISSING and same(found, wanted)",
        "return found is _MISSING or same(found, wanted)",
        "what is missing equals anything",
    ),
    "C090": EVERY_USER,
    "C091": Break(
        "contract/decide.py",
        "intent.session.id if intent.session is not None else None",
        "None",
        "a new record forgets its session",
    ),
    "C092": Break(
        "engines/sqlite/engine.py",
        '        finally:\n            if conn.in_transaction:\n                conn.execute("ROLLBACK")\n\n    def _look',
        '        finally:\n            if conn.in_transaction:\n                conn.execute("COMMIT")\n\n    def _look',
        "a failed batch is committed",
    ),
    "C094": ANY_TAG,
    "C095": Break(
        "contract/filters.py",
        "return found is _MISSING or not same(found, wanted)",
        "return True",
        "ne always holds",
    ),
    "C096": ANY_TAG,
    "C097": Break(
        "memory/logs.py",
        "turn_key(thread, place)",
        'turn_key("t", place)',
        "a turn is known by its number alone",
    ),
    "C098": Break(
        "engines/sqlite/read.py",
        "(r.updated_at, r.id) {sign} (?, ?)",
        "(r.updated_at, 0) {sign} (?, 1 - ?)",
        "pages go by time alone",
    ),
    "C099": Break(
        "engines/sqlite/read.py",
        "position_of(items[-1], query.order) if more",
        "position_of(items[0], query.order) if more",
        "a page goes on from its first row",
    ),
    "C100": Break(
        "engines/sqlite/write.py",
        '_keep_past(conn, slot, decision, keep)\n    if intent.session is not None and intent.mode != "load":\n        use_session(conn, record.namespace, slot >> 32, intent.session, micros)\n    receipt = receipt_of(decision, record.id)',
        '_keep_past(conn, slot, decision, keep)\n    if intent.session is not None and intent.mode != "load":\n        use_session(conn, record.namespace, slot >> 32, intent.session, micros)\n    receipt = receipt_of(decision, str(slot))',
        "a rewrite answers with the hidden slot",
    ),
    "C101": Break(
        "engines/sqlite/rows.py",
        "    if not (0 < len(identity) < 20 and identity.isascii() and identity.isdecimal()):\n        return None\n",
        "",
        "an id is taken for a number unseen",
    ),
    "C102": Break(
        "memory/finding.py", "    if where.empty:\n", "    if False:\n", "a blank query lists everything"
    ),
    "C103": Break(
        "memory/checks.py",
        "if (not value or value.isspace()) and not blank:",
        "if not value and not blank:",
        "spaces pass",
    ),
    "C104": Break(
        "memory/finding.py",
        "calls.page(Query(user, reach, where=where, limit=limit))",
        "calls.page(Query(user, reach, limit=limit))",
        "the filter of a blank query is dropped",
    ),
    "C105": Break(
        "engines/sqlite/search.py",
        "key=lambda item: (-item[0], -item[1].moment",
        "key=lambda item: (item[0], -item[1].moment",
        "worst first",
    ),
    "C106": Break(
        "contract/ranking.py",
        "score = base + 0.5 * share * gentle if every_word",
        "score = base if every_word",
        "one score for all",
    ),
    "C107": Break(
        "contract/ranking.py", "else min(0.5 * share * gentle, 0.4999)", "else 1 + share", "two scales"
    ),
    "C108": Break(
        "contract/filters.py", "return bool(found >= wanted)", "return bool(found > wanted)", "gte is gt"
    ),
    "C109": Break(
        "contract/filters.py",
        "            if operator not in OPERATORS:\n",
        "            if False:\n",
        "an object passes for operators",
    ),
    "C110": Break(
        "contract/decide.py",
        "        held,\n        **changes,",
        "        held,\n        **{'metadata': {}, **changes},",
        "a rewrite drops metadata",
    ),
    "C111": Break(
        "memory/checks.py",
        '    if not value or value.isspace():\n        raise InvalidRequest(field, "is blank; it must be a non-empty string")',
        "    if not value.strip('. /'):\n        raise InvalidRequest(field, \"is blank; it must be a non-empty string\")",
        "dots and slashes are no names",
    ),
    "C112": Break(
        "memory/core.py",
        'key=checks.name("topic_key", topic_key)',
        'key=checks.name("topic_key", topic_key).replace("/", "-")',
        "keys are slugs on reading",
    ),
    "C113": Break(
        "engines/sqlite/pool.py",
        "            self._free.append(conn)\n",
        "            _LOST.append(conn)\n",
        "connections are not given back",
    ),
    "C114": Break(
        "engines/sqlite/engine.py",
        "            finally:\n                conn.close()",
        "            finally:\n                _inherited.append(conn)",
        "a closed store stays open",
    ),
    "C115": Break(
        "engines/sqlite/write.py",
        "    if keep is not None:\n",
        "    if False:\n",
        "revisions are never dropped",
    ),
    "C116": Break(
        "engines/sqlite/read.py",
        "    for _, num, *_ in places(conn, namespace, reach):\n",
        "    for _, num, *_ in places(conn, namespace, reach):\n        [conn.execute('SELECT count(*) FROM records').fetchall() for _ in range(9)]\n",
        "a count takes a statement for each of several things",
    ),
    "C117": Break(
        "engines/sqlite/read.py",
        "r.slot BETWEEN n.num << 32 AND n.num << 32 | 0xffffffff",
        "r.slot >> 32 = n.num",
        "names are found by looking at every record",
    ),
    "C118": Break(
        "memory/reads.py",
        '            order="key",\n            keyed_only=True,',
        '            order="newest",\n            keyed_only=True,',
        "topics come by time",
    ),
    "C119": ALWAYS_FRESH,
    "C120": NOT_COMMITTED,
    "C121": Break(
        "memory/checks.py",
        "    return _name(field, value)\n",
        "    return _name(field, value.lower())\n",
        "names are lowered",
    ),
}
