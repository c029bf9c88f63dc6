"""Which dataset on Cognee is a shelf's: looked up once, remembered for good, dropped when the server refuses it.

A listing of datasets has those that others shared, too, and two may bear one name. Only one's own counts: whoever
shares a dataset called like a namespace would else put memories into it. Who one is, is asked for (by a look-up
that only ever returns one's own) when the listing has datasets of several owners.
"""

from __future__ import annotations

from typing import Any, Final

from keyfold.dialects.base import Shelf
from keyfold.dialects.cognee_rows import dataset_name, is_digest_name, shelf_of
from keyfold.dialects.wire import Answer, Http, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan

REMEMBERED: Final = 10_000  # datasets


class Datasets:
    """The memo of dataset ids. It never remembers that there is none."""

    def __init__(self) -> None:
        self._homes: dict[str, str] = {}
        self._owner: str | None = None

    def home(self, shelf: Shelf) -> Plan[str | None]:
        """The id of a shelf's dataset; None when there is none."""
        name = dataset_name(shelf)
        known = self._homes.get(name)
        if known is not None:
            self._keep(name, known)
            return known
        return dict((yield from self.every())).get(name)

    def every(self) -> Plan[list[tuple[str, str]]]:
        """Name and id of every dataset of ours, remembered from now on."""
        answer = yield from ask(Http("GET", "/api/v1/datasets", reads=True))
        listed = answer.json()
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise StoreError(
                f"{answer.host} listed its datasets in a form that is not Cognee's: check the address"
            )
        ours = [item for item in listed if _is_ours(str(item.get("name")))]
        owners = {str(item.get("ownerId")) for item in listed}
        if ours and len(owners) > 1 and self._owner is None:
            yield from self._ask_who(str(ours[0]["name"]))
        owner = self._owner or next(iter(owners), None)
        mine = [item for item in ours if str(item.get("ownerId")) == owner]
        found = [(str(item["name"]), _id(answer, item)) for item in mine]
        for name, home in found:
            self._keep(name, home)
        return found

    def _ask_who(self, name: str) -> Plan[None]:
        answer = yield from ask(Http("POST", "/api/v1/datasets", json={"name": name}, repeatable=True))
        self._owner = str(answer.object().get("ownerId"))

    def remember(self, shelf: Shelf, home: str) -> None:
        """What the server said of a shelf's dataset."""
        self._keep(dataset_name(shelf), home)

    def drop(self, shelf: Shelf) -> None:
        """Forget a dataset that the server refuses, and who one is with it."""
        self._homes.pop(dataset_name(shelf), None)
        self._owner = None

    def _keep(self, name: str, home: str) -> None:
        self._homes.pop(name, None)
        self._homes[name] = home
        while len(self._homes) > REMEMBERED:
            self._homes.pop(next(iter(self._homes)), None)


def _is_ours(name: str) -> bool:
    return shelf_of(name) is not None or is_digest_name(name)


def _id(answer: Answer, item: dict[str, Any]) -> str:
    found = item.get("id")
    if not isinstance(found, str) or not found.replace("-", "").isalnum():  # it becomes a part of paths
        raise StoreError(f"{answer.host} listed a dataset without an id: check that the address is Cognee's")
    return found
