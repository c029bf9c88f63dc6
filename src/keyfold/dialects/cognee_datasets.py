"""Which dataset on Cognee is a shelf's: looked up once, remembered for good, dropped when the server refuses it.

A listing of datasets has those that others shared, too, and two may bear one name. Only one's own counts: whoever
shares a dataset called like a namespace would else put memories into it. That the listing has a single owner proves
nothing: one who has no dataset yet is shown only another's. So who one is, is asked for once (by a look-up that only
ever returns one's own), unless a dataset written from here tells it, or no key was sent: such a server has one user.
"""

from __future__ import annotations

from typing import Any, Final

from keyfold.dialects.base import Shelf
from keyfold.dialects.cognee_rows import dataset_name, is_digest_name, shelf_of
from keyfold.dialects.names import is_path_id
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
        answer, ours = yield from self._listed()
        if all(item["name"] != name for item in ours):
            return None
        return dict((yield from self._mine(answer, ours, name))).get(name)

    def every(self) -> Plan[list[tuple[str, str]]]:
        """Name and id of every dataset of ours, remembered from now on."""
        answer, ours = yield from self._listed()
        return (yield from self._mine(answer, ours, str(ours[0]["name"]))) if ours else []

    def _listed(self) -> Plan[tuple[Answer, list[dict[str, Any]]]]:
        """The datasets that bear a name of ours, whoever owns them."""
        answer = yield from ask(Http("GET", "/api/v1/datasets", reads=True))
        listed = answer.json()
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise StoreError(
                f"{answer.host} listed its datasets in a form that is not Cognee's: check the address"
            )
        return answer, [item for item in listed if _is_ours(str(item.get("name")))]

    def _mine(self, answer: Answer, ours: list[dict[str, Any]], name: str) -> Plan[list[tuple[str, str]]]:
        """Name and id of those that are one's own; remembered. `name` is one of theirs, to ask with."""
        owner = yield from self._who(answer, ours, name)
        found = [(str(item["name"]), _id(answer, item)) for item in ours if item.get("ownerId") == owner]
        for each, home in found:
            self._keep(each, home)
        return found

    def _who(self, answer: Answer, ours: list[dict[str, Any]], name: str) -> Plan[str]:
        """Who one is, as the owner of datasets."""
        if self._owner is not None:
            return self._owner
        proved = [item["ownerId"] for item in ours if self._homes.get(item["name"]) == item.get("id")]
        owners = {str(item.get("ownerId")) for item in ours}
        if answer.keyless and len(owners) == 1:
            return owners.pop()
        if not proved:
            asked = Http("POST", "/api/v1/datasets", json={"name": name}, repeatable=True)
            told = yield from ask(asked)
            proved = [told.object().get("ownerId")]
            if not isinstance(proved[0], str):
                raise StoreError(
                    f"{told.host} did not say who owns a dataset: check that the address is Cognee's"
                )
        self._owner = str(proved[0])
        return self._owner

    def remember(self, shelf: Shelf, home: str) -> None:
        """What the server said of a shelf's dataset."""
        self._keep(dataset_name(shelf), home)

    def drop(self) -> None:
        """Forget a dataset that the server refuses, and who one is with it: the key may be another's by now."""
        self._homes.clear()
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
    if not is_path_id(found):
        raise StoreError(f"{answer.host} listed a dataset without an id: check that the address is Cognee's")
    return found
