"""How far a read looks: which namespaces lie within a reach. Segment-aware: `foo` is not above `foobar`."""

from __future__ import annotations

from keyfold.model import Reach


def above(namespace: str) -> tuple[str, ...]:
    """The namespaces above one, outermost first: `a/b/c` has `a` and `a/b`."""
    return tuple(
        namespace[:place] for place, character in enumerate(namespace) if character == "/" and place > 0
    )


def within(candidate: str, namespace: str, reach: Reach) -> bool:
    """Whether a read of `namespace` with `reach` looks at `candidate`."""
    if candidate == namespace:
        return True
    if reach == "inherit":
        return candidate in above(namespace)
    return reach == "subtree" and candidate.startswith(namespace + "/")
