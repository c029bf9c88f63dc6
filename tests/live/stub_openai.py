"""An OpenAI endpoint on loopback that needs no model: deterministic embeddings, and the smallest answers.

    python stub_openai.py PORT [DIMENSIONS]

Texts that share words are near each other, which is all that the tests ask of an embedding. A chat request is
answered by the smallest JSON that fits the schema it names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 1536
READ = 100_000  # characters of a text that count: a model cuts a long text too, and 5 MB take seconds to hash


def bucket(feature: str, dimensions: int) -> tuple[int, float]:
    """Where a feature is counted, and with which sign: signs keep unrelated texts near a right angle."""
    number = int.from_bytes(
        hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest(), "big"
    )
    return number % dimensions, 1.0 if (number >> 40) & 1 else -1.0


def embed(text: str, dimensions: int) -> list[float]:
    """Words, and at a fifth of the weight the groups of three letters within them, hashed and normalised."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text[:READ].lower()):
        place, sign = bucket(word, dimensions)
        vector[place] += sign
        for start in range(len(word) - 2):
            place, sign = bucket("3:" + word[start : start + 3], dimensions)
            vector[place] += 0.2 * sign
    length = math.sqrt(sum(x * x for x in vector))
    if not length:
        return [1.0] + [0.0] * (dimensions - 1)  # no direction at all would make every distance NaN
    return [x / length for x in vector]


def smallest(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """The smallest value that a JSON schema allows, as far as pydantic writes schemas."""
    if "$ref" in schema:
        return smallest(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            options = schema[choice]
            return None if any(o.get("type") == "null" for o in options) else smallest(options[0], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        fields = schema.get("properties", {})
        needed = schema.get("required", list(fields))
        return {name: smallest(field, root) for name, field in fields.items() if name in needed}
    plain = {"array": [], "integer": 0, "number": 0.0, "boolean": False, "null": None}
    return plain.get(kind, "stub")


def embeddings(request: dict[str, Any], dimensions: int) -> dict[str, Any]:
    given = request.get("input")
    texts = given if isinstance(given, list) else [given]
    size = request.get("dimensions") or dimensions
    rows = []
    for index, text in enumerate(texts):
        vector: Any = embed(text if isinstance(text, str) else json.dumps(text), size)
        if request.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
        rows.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": request.get("model"), "data": rows, "usage": usage}


def chat(request: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "stub answer"}
    wanted = request.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        schema = wanted["json_schema"]["schema"]
        message["content"] = json.dumps(smallest(schema, schema))
    elif request.get("tools"):
        function = request["tools"][0]["function"]
        schema = function.get("parameters") or {}
        call = {"name": function["name"], "arguments": json.dumps(smallest(schema, schema))}
        message["content"] = None
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    elif wanted.get("type") == "json_object":
        # Nothing was found, in the words of both services.
        nothing = {
            "memory": [],
            "facts": [],
            "nodes": [],
            "edges": [],
            "summary": "stub",
            "description": "stub",
        }
        message["content"] = json.dumps(nothing)
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body leave in one write; sent apart, Nagle and a delayed ACK add 40 ms to every embedding.
    wbufsize = 1 << 22
    disable_nagle_algorithm = True
    dimensions = DIMENSIONS

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a request a line would fill the log of a long run."""

    def answer(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.answer({"object": "list", "data": [{"id": "stub", "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path.endswith("/embeddings"):
            self.answer(embeddings(request, self.dimensions))
        elif self.path.endswith("/chat/completions"):
            self.answer(chat(request))
        else:
            self.answer({"error": {"message": f"no such path: {self.path}"}}, 404)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Handler.dimensions = int(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
