"""The events of an auction house, as Nexmark has them: of fifty, one is a person, three are auctions, the others bids.

Event `n` happens at a time that grows with `n`, and what it says depends on nothing but the seed and `n`. A bid is for
one of the latest auctions, half of the time for the one that is in fashion; a few are for auctions that have not begun.
Events arrive out of order by at most `disorder` places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.nexmark.noise import Noise, Numbers

PERSON, AUCTION, BID = 0, 1, 2
FIRST_MS = 1_704_067_200_000  # the first of January 2024

_PERSONS, _AUCTIONS, _ALL = 1, 3, 50  # of fifty events in a row: first persons, then auctions, then bids
_FIRST_ID = 1_000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_OPEN_AUCTIONS, _ACTIVE_PERSONS = 100, 1_000  # how many of the latest are chosen from
_LEAD = 10  # how many that do not exist yet may be chosen
_IN_FASHION = 100  # one of so many persons or auctions is in fashion at a time

_FIRST_NAMES = "Ada Bela Chen Dara Emil Fatou Goran Hilda Ines Jonas Kofi Lena".split()
_LAST_NAMES = "Abel Brandt Cruz Diallo Engel Fischer Garcia Haas Ivanov".split()
_PLACES = [  # city and state
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
]
_BIG_CHANNELS = ["Apple", "Google", "Facebook", "Baidu"]
_SMALL_CHANNELS = 10_000

TIME = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class Events:
    seed: int = 1
    per_second: int = 10_000
    disorder: int = 1_000

    def table(self, first: int, count: int) -> pa.Table:
        """Events that arrive as `first` to `first + count`; columns as in `sources.sql`."""
        numbers = self._arriving(first, count)
        kinds = _kinds(numbers)
        made = {
            "person": (PERSON, self._persons),
            "auction": (AUCTION, self._auctions),
            "bid": (BID, self._bids),
        }
        structs = {
            name: _spread(make(numbers[kinds == kind]), np.flatnonzero(kinds == kind), count)
            for name, (kind, make) in made.items()
        }
        return pa.table({"event_type": pa.array(kinds, pa.int32()), **structs, "dateTime": self._times(numbers)})

    def last_ms(self, count: int) -> int:
        """The time of the latest of the first `count` events."""
        return FIRST_MS + (count - 1) * 1000 // self.per_second

    def _arriving(self, first: int, count: int) -> Numbers:
        """Which events they are: those of a block of `disorder` arrive in a random order."""
        block = max(self.disorder, 1)
        begin, end = first // block * block, -(-(first + count) // block) * block
        numbers = np.arange(begin, end)
        order = np.lexsort((Noise(self.seed).words(numbers, "arrival"), numbers // block))
        return numbers[order][first - begin : first - begin + count]

    def _times(self, numbers: Numbers) -> pa.Array:
        return pa.array(FIRST_MS + numbers * 1000 // self.per_second).cast(TIME)

    def _persons(self, numbers: Numbers) -> pa.StructArray:
        noise = Noise(self.seed)
        places = noise.below(len(_PLACES), numbers, "place")
        first, last = (
            _chosen(names, noise.below(len(names), numbers, purpose))
            for names, purpose in ((_FIRST_NAMES, "first name"), (_LAST_NAMES, "last name"))
        )
        cards = np.char.mod("%016d", noise.below(10**16, numbers, "card"))
        return _struct(
            id=_last_person(numbers) + _FIRST_ID,
            name=np.char.add(np.char.add(first, " "), last),
            emailAddress=np.char.add(np.char.add(np.char.lower(first), "@"), np.char.add(np.char.lower(last), ".com")),
            creditCard=cards,
            city=_chosen([city for city, _ in _PLACES], places),
            state=_chosen([state for _, state in _PLACES], places),
            extra=noise.text(80, 120, numbers, "person"),
        )

    def _auctions(self, numbers: Numbers) -> pa.StructArray:
        noise = Noise(self.seed)
        latest = _last_person(numbers)
        seller = self._person(latest, numbers, "seller", latest // _IN_FASHION * _IN_FASHION)
        lasting = _OPEN_AUCTIONS * _ALL // _AUCTIONS * 1000 // self.per_second  # on average
        length = 1 + noise.below(max(2 * lasting, 1), numbers, "length")
        first_bid = self._price(numbers, "first bid")
        return _struct(
            id=_last_auction(numbers) + _FIRST_ID,
            itemName=noise.text(5, 20, numbers, "item"),
            description=noise.text(40, 100, numbers, "description"),
            initialBid=first_bid,
            reserve=first_bid + self._price(numbers, "reserve"),
            expires=pa.array(FIRST_MS + numbers * 1000 // self.per_second + length).cast(TIME),
            seller=seller,
            category=_FIRST_CATEGORY + noise.below(_CATEGORIES, numbers, "category"),
            extra=noise.text(240, 360, numbers, "auction"),
        )

    def _bids(self, numbers: Numbers) -> pa.StructArray:
        noise = Noise(self.seed)
        latest, person = _last_auction(numbers), _last_person(numbers)
        oldest = np.maximum(latest - _OPEN_AUCTIONS, 0)
        usual = oldest + noise.below(latest - oldest + 1 + _LEAD, numbers, "auction")
        fashionable = noise.below(2, numbers, "fashionable auction") > 0
        channels, urls = _channels(noise, numbers)
        return _struct(
            auction=np.where(fashionable, latest // _IN_FASHION * _IN_FASHION, usual) + _FIRST_ID,
            bidder=self._person(person, numbers, "bidder", person // _IN_FASHION * _IN_FASHION + 1),
            price=self._price(numbers, "price"),
            channel=channels,
            url=urls,
            extra=noise.text(50, 80, numbers, "bid"),
        )

    def _person(self, latest: Numbers, numbers: Numbers, role: str, fashionable: Numbers) -> Numbers:
        """Three times of four the one that is in fashion, else one of the active ones."""
        noise = Noise(self.seed)
        active = np.minimum(latest, _ACTIVE_PERSONS)
        usual = latest - active + noise.below(active + _LEAD, numbers, role)
        return np.where(noise.below(4, numbers, f"fashionable {role}") > 0, fashionable, usual) + _FIRST_ID

    def _price(self, numbers: Numbers, purpose: str) -> Numbers:
        """In cents; every order of magnitude from a dollar to a million is as frequent."""
        return np.rint(10.0 ** (Noise(self.seed).fraction(numbers, purpose) * 6) * 100).astype(np.int64)


def _kinds(numbers: Numbers) -> Numbers:
    place = numbers % _ALL
    return np.where(place < _PERSONS, PERSON, np.where(place < _PERSONS + _AUCTIONS, AUCTION, BID))


def _last_person(numbers: Numbers) -> Numbers:
    """The number of the latest person when an event happens, the event itself included."""
    return numbers // _ALL * _PERSONS + np.minimum(numbers % _ALL, _PERSONS - 1)


def _last_auction(numbers: Numbers) -> Numbers:
    """The same of auctions; before the first one, the first one."""
    within = np.minimum(numbers % _ALL - _PERSONS, _AUCTIONS - 1)
    return np.maximum(numbers // _ALL * _AUCTIONS + within, 0)


def _channels(noise: Noise, numbers: Numbers) -> tuple[pa.Array, pa.Array]:
    """Half of the bids come from one of four big channels. Nine of ten small ones have their number in the address."""
    small = [f"channel-{number}" for number in range(_SMALL_CHANNELS)]
    base = np.arange(_SMALL_CHANNELS + len(_BIG_CHANNELS))
    folders = [noise.text(3, 5, base, f"folder {depth}").to_pylist() for depth in range(3)]
    addresses = [f"https://www.nexmark.com/{'/'.join(parts)}/item.htm?query=1" for parts in zip(*folders, strict=True)]
    has_number = noise.below(10, base, "has number") > 0
    urls = [
        f"{address}&channel_id={at * 7919}" if at < _SMALL_CHANNELS and has_number[at] else address
        for at, address in enumerate(addresses)
    ]
    channel = noise.below(_SMALL_CHANNELS, numbers, "channel")
    big = _SMALL_CHANNELS + noise.below(len(_BIG_CHANNELS), numbers, "big channel")
    places = pa.array(np.where(noise.below(2, numbers, "is big") > 0, big, channel))
    return pa.array(small + _BIG_CHANNELS).take(places), pa.array(urls).take(places)


def _chosen(values: Sequence[str], places: Numbers) -> np.ndarray:
    return np.array(values)[places]


def _struct(**columns: object) -> pa.StructArray:
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    return pa.StructArray.from_arrays(arrays, names=list(columns))


def _spread(structs: pa.StructArray, places: Numbers, count: int) -> pa.Array:
    """The structs at their places among `count` events, NULL elsewhere."""
    indices = np.zeros(count, np.int64)
    indices[places] = np.arange(len(places))
    missing = np.ones(count, bool)
    missing[places] = False
    return structs.take(pa.array(indices, mask=missing))
