"""Duty: web logs of a TerraServer that was busy: whom the pages were for, in which order, and at which second.

Two kinds of clients: people, who begin at a place (popular ones by Zipf's law), pan and zoom, and whose browsers ask
for each tile of a page once; and programs, which ask for tiles alone and make up the study's number of tiles a page.

Refusal: no request is sent, no database asked; every tile in a log is one that the layout has, but for the misses that
were asked for. Nothing rests on a transcendental function: same seed, same log, on every machine.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from random import Random

from brickyard.analysis.databases.terraserver import STUDY_CALLS
from brickyard.databases.jpeg import AERIAL, MAP, URBAN
from brickyard.databases.layout import SCALES, Image, Layout
from brickyard.errors import BadInputError

TILES_A_PAGE = STUDY_CALLS["tile"] / STUDY_CALLS["image"]
COVERED_SHARE = 0.97  # of the site's calls, by the same study; the rest are requests that no call belongs to
OTHERS = ("/default.aspx", "/terra.css", "/images/logo.gif", "/about.aspx", "/robots.txt")

# How busy each quarter of an hour is, by the hours below, and each day of the week. The study gives no curve: this is
# the shape of a site whose readers are in North America, in UTC as IIS writes it, Monday being the busiest as the
# study says.
HOURS = (62, 55, 49, 42, 34, 27, 21, 17, 15, 15, 18, 27, 42, 62, 80, 91, 97, 100, 99, 98, 95, 89, 79, 70)
DAYS = (1.0, 0.97, 0.96, 0.94, 0.88, 0.68, 0.72)
SLOTS, SLOT_S = 96, 900

MEAN_PAGES = 8  # of one person's visit; of all choices here and below, only popularity and mix have a source
WINDOWS = ((0.15, 1), (0.85, 2), (1.0, 3))
WINDOW_TILES = {1: (3, 2), 2: (4, 3), 3: (5, 4)}
PAN, ZOOM_IN, ZOOM_OUT = 0.60, 0.82, 0.94  # cumulative; what is left goes to another theme
LONGEST_PAUSE_S = 80  # times the product of two even draws: 20 s on average, often less
PROGRAM_TILES = (48, 240)  # what a program asks for at once, from and to
ENTRY_DEPTH = 2  # scales above the finest at which people begin
MOST_SPOTS = 1 << 16
THETA_STEPS = 1 << 10

FIELDS = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port c-ip cs(User-Agent) sc-status"
AGENTS = {"person": "Mozilla/4.0+(compatible;+MSIE+6.0;+Windows+NT+5.1)", "program": "TerraService/1.0"}


@dataclass(frozen=True)
class Traffic:
    """What a set of logs is to look like. `requests` is what one server gets on a Monday."""

    layout: Layout
    seed: int
    requests: int
    servers: int
    days: int
    first_day: datetime.date
    theta: float
    misses: float
    others: float
    hours: tuple[int, int] = (0, 24)
    """From the first to before the second, of each day, as busy as they are on the whole day."""

    def check(self) -> None:
        """Says what can't be, before anything is written."""
        for name, value, low, high in (
            ("--requests", self.requests, 1, 10**9),
            ("--servers", self.servers, 1, 250),
            ("--days", self.days, 1, 3660),
            ("--hours", self.hours[0], 0, self.hours[1] - 1),
            ("--hours", self.hours[1], 1, 24),
            ("--zipf", self.theta, 0.0, 4.0),
            ("--misses", self.misses * 100, 0, 99),
            ("--others", self.others * 100, 0, 99),
        ):
            if not low <= value <= high:
                raise BadInputError(f"{name} {value:g}: from {low:g} to {high:,.0f}")

    def server_name(self, server: int) -> str:
        return f"web{server + 1}"

    def logs(self) -> Iterator[tuple[str, int, int]]:
        """Name, server and day of each log."""
        for server in range(self.servers):
            for day in range(self.days):
                date = self.first_day + datetime.timedelta(days=day)
                yield f"{self.server_name(server)}-{date.isoformat()}.log", server, day


@dataclass(frozen=True)
class Spot:
    """Where a visit begins."""

    image: Image
    scale: int
    x: int
    y: int


def spots_of(layout: Layout, seed: int) -> list[Spot]:
    """Places to begin, the most popular first: the famous places, then all else in a drawn order."""
    famous: list[Spot] = []
    others: list[Spot] = []
    for image in layout.images:
        scale = SCALES[image.theme][0] + ENTRY_DEPTH
        x_low, y_low, x_high, y_high = _extent(image, scale)
        middle = (x_low + x_high + 1) // 2, (y_low + y_high + 1) // 2
        famous.append(Spot(image, scale, *middle))
        if len(famous) + len(others) < MOST_SPOTS:
            others += [
                Spot(image, scale, x, y)
                for y in range(y_low, y_high + 1)
                for x in range(x_low, x_high + 1)
                if (x, y) != middle
            ]
    random = _random(seed, "spots")
    for index in range(len(others) - 1, 0, -1):  # by random() alone, which is the same in every version of Python
        other = int(random.random() * (index + 1))
        others[index], others[other] = others[other], others[index]
    return (famous + others)[:MOST_SPOTS]


def zipf_weights(count: int, theta: float) -> list[float]:
    """Cumulative 1/rank^theta. Powers come from square roots, which IEEE 754 rounds alike everywhere."""
    steps = round(theta * THETA_STEPS)
    whole, part = divmod(steps, THETA_STEPS)

    def power(rank: int) -> float:
        value, root, bit = 1.0, float(rank), THETA_STEPS
        for _ in range(whole):
            value *= rank
        while bit > 1:
            bit //= 2
            root = math.sqrt(root)
            if part & bit:
                value *= root
        return value

    return list(accumulate(1.0 / power(rank) for rank in range(1, count + 1)))


def write_log(traffic: Traffic, spots: list[Spot], weights: list[float], server: int, day: int) -> Iterator[str]:
    """One server's log of one day, in pieces; lines are in the order of time."""
    date = traffic.first_day + datetime.timedelta(days=day)
    midnight = datetime.datetime.combine(date, datetime.time())
    yield (
        f"#Software: Brickyard terraserver traffic, seed {traffic.seed}\n#Version: 1.0\n#Date: {midnight}\n"
        f"#Fields: {FIELDS}\n"
    )
    quotas = _quotas(round(traffic.requests * DAYS[date.weekday()]))
    first, last = (hour * SLOTS // 24 for hour in traffic.hours)
    begun = quotas[first - 1] if first else 0
    clients = _Clients(traffic, spots, weights, server, day)
    if first:  # who came before, and still is there
        clients.made = quotas[first - 2] if first > 1 else 0
        clients.fill(quotas[first - 1], first - 1)
        clients.flushed(midnight, first * SLOT_S, quotas[first - 1])
    written = 0
    for slot in range(first, last):
        clients.fill(quotas[slot], slot)
        text, lines = clients.flushed(midnight, (slot + 1) * SLOT_S, quotas[last - 1] - begun - written)
        written += lines
        yield text
    if last == SLOTS:
        yield clients.flushed(midnight, None, quotas[last - 1] - begun - written)[0]


def _quotas(total: int) -> list[int]:
    """How many requests there should have been by the end of each slot; between full hours the curve is straight."""
    shares = []
    for slot in range(SLOTS):
        hour, quarter = divmod(slot, 4)
        shares.append(HOURS[hour] * (4 - quarter) + HOURS[(hour + 1) % 24] * quarter)
    return [round(total * value / sum(shares)) for value in accumulate(shares)]


def _extent(image: Image, scale: int) -> tuple[int, int, int, int]:
    """The tiles of one image at a scale: first x and y, last x and y."""
    up = scale - SCALES[image.theme][0]
    base = image.base
    return base.x >> up, base.y >> up, (base.x + base.width - 1) >> up, (base.y + base.height - 1) >> up


def _random(*parts: object) -> Random:
    return Random(int.from_bytes(blake2b(repr(parts).encode(), digest_size=16).digest(), "big"))  # noqa: S311


class _Clients:
    """Visits to one server on one day. Lines wait by the second until no earlier one can come."""

    def __init__(self, traffic: Traffic, spots: list[Spot], weights: list[float], server: int, day: int) -> None:
        self.random = _random(traffic.seed, server, day)
        self.made = 0
        self._draw = self.random.random
        self._spots, self._weights = spots, weights
        self._misses, self._owed = traffic.misses, 0.0
        # As many lines of other requests as make up their share, for each page that a person sees.
        self._others = (1 + TILES_A_PAGE) * traffic.others / (1 - traffic.others)
        self._waiting: dict[int, list[str]] = {}
        self._server = f"192.168.0.{server + 1} GET "
        # Each log has addresses of its own as long as 2^24 of them go round.
        self._client = (server * traffic.days + day) * (2**24 // (traffic.servers * traffic.days)) + traffic.seed
        self._by_theme = {(spot.image.title, spot.image.theme): spot.image for spot in spots}

    def fill(self, quota: int, slot: int) -> None:
        """Visits that begin in a slot, until there are as many requests as there should be by its end."""
        while self.made < quota:
            self.visit(slot * SLOT_S + int(self.random.random() * SLOT_S))

    def visit(self, at_s: int) -> None:
        """One client: a program when tiles are owed, else a person."""
        if self._owed >= PROGRAM_TILES[0]:
            self._program(at_s)
        else:
            self._person(at_s)

    def flushed(self, midnight: datetime.datetime, until_s: int | None, most: int) -> tuple[str, int]:
        """The lines of all seconds before `until_s`, at most so many, and how many there were."""
        ready = sorted(second for second in self._waiting if until_s is None or second < until_s)
        pieces, count = [], 0
        for second in ready:
            lines = self._waiting.pop(second)[: most - count]
            if lines:
                stamp = (midnight + datetime.timedelta(seconds=second)).isoformat(" ") + " " + self._server
                pieces.append(stamp + ("\n" + stamp).join(lines) + "\n")
                count += len(lines)
        return "".join(pieces), count

    def _spot(self) -> Spot:
        return self._spots[min(bisect(self._weights, self._draw() * self._weights[-1]), len(self._spots) - 1)]

    def _tail(self, kind: str) -> str:
        """What follows the query: port, a client of its own, agent, status."""
        self._client += 1
        mixed = self._client * 0x9E3779B1 % 2**24  # an odd factor, so that no two clients meet
        address = f"10.{mixed >> 16}.{mixed >> 8 & 255}.{mixed & 255}"
        return f" 80 {address} {AGENTS[kind]} 200"

    def _add(self, at_s: int, lines: list[str]) -> None:
        self.made += len(lines)
        if at_s in self._waiting:
            self._waiting[at_s] += lines
        else:
            self._waiting[at_s] = lines

    def _person(self, at_s: int) -> None:
        draw = self._draw
        spot, tail = self._spot(), self._tail("person")
        image, scale, x, y = spot.image, spot.scale, spot.x, spot.y
        chosen = draw()
        window = next(size for share, size in WINDOWS if chosen < share)
        seen: set[tuple[int, int, int, int]] = set()
        if draw() < MEAN_PAGES * STUDY_CALLS["famous"] / STUDY_CALLS["image"]:
            self._add(at_s, [f"/famous.aspx -{tail}"])
            at_s += self._pause_s()
        while True:
            at_s = self._page(at_s, image, scale, x, y, window, seen, tail)
            if draw() * MEAN_PAGES < 1:
                return
            at_s += self._pause_s()
            image, scale, x, y = self._moved(image, scale, x, y, window)

    def _page(
        self,
        at_s: int,
        image: Image,
        scale: int,
        x: int,
        y: int,
        window: int,
        seen: set[tuple[int, int, int, int]],
        tail: str,
    ) -> int:
        """A page, then its tiles within a second or two, then what its links lead to; gives back when that was done."""
        draw = self._draw
        where = f"T={image.theme}&S={scale}&X={x}&Y={y}&Z={image.scene}"
        self._add(at_s, [f"/image.aspx {where}&W={window}{tail}", *self._other_lines(tail)])
        fresh = [spot for spot in self._visible(image, scale, x, y, window) if (image.theme, scale, *spot) not in seen]
        seen.update((image.theme, scale, *spot) for spot in fresh)
        lines = self._tiles(image, scale, fresh, tail)
        at_once = int(draw() * (len(lines) + 1))
        self._add(at_s, lines[:at_once])
        self._add(at_s + 1, lines[at_once:])
        self._owed += TILES_A_PAGE - len(fresh)
        for page, name in (("download", "/download.aspx"), ("imageinfo", "/imageinfo.aspx")):
            if draw() < STUDY_CALLS[page] / STUDY_CALLS["image"]:
                at_s += self._pause_s()
                size = f"&W={window}" if page == "download" else ""
                # The middle of a page may lie outside at an image's edge; what is asked for is a tile that was seen.
                tile_x, tile_y = self._visible(image, scale, x, y, window)[0]
                query = f"T={image.theme}&S={scale}&X={tile_x}&Y={tile_y}&Z={image.scene}{size}"
                self._add(at_s, [f"{name} {query}{tail}"])
        return at_s + 1

    def _other_lines(self, tail: str) -> list[str]:
        count = int(self._others + self._draw())
        return [f"{OTHERS[int(self._draw() * len(OTHERS))]} -{tail}" for _ in range(count)]

    def _visible(self, image: Image, scale: int, x: int, y: int, window: int) -> list[tuple[int, int]]:
        """The tiles of a page that there are, as the function `image` of the database counts them."""
        x_low, y_low, x_high, y_high = _extent(image, scale)
        first_x, last_x = max(x - (window + 2) // 2, x_low), min(x + (window + 1) // 2, x_high)
        first_y, last_y = max(y - (window + 1) // 2, y_low), min(y + window // 2, y_high)
        return [(i, j) for j in range(first_y, last_y + 1) for i in range(first_x, last_x + 1)]

    def _tiles(self, image: Image, scale: int, spots: list[tuple[int, int]], tail: str) -> list[str]:
        head, zone = f"/tile.ashx T={image.theme}&S={scale}&X=", f"&Z={image.scene}{tail}"
        if not self._misses:
            return [f"{head}{x}&Y={y}{zone}" for x, y in spots]
        lost = zone.removesuffix("200") + "404"
        # No zone is as wide as 2^20 tiles, so there is none at such an x.
        return [
            f"{head}{x + (1 << 20)}&Y={y}{lost}" if self._draw() < self._misses else f"{head}{x}&Y={y}{zone}"
            for x, y in spots
        ]

    def _moved(self, image: Image, scale: int, x: int, y: int, window: int) -> tuple[Image, int, int, int]:
        draw = self._draw
        chosen = draw()
        scales = SCALES[image.theme]
        if chosen < PAN:
            wide, high = WINDOW_TILES[window]
            x += (int(draw() * 3) - 1) * (wide - 1)
            y += (int(draw() * 3) - 1) * (high - 1)
        elif chosen < ZOOM_IN:
            if scale > scales[0]:
                scale, x, y = scale - 1, 2 * x + int(2 * draw()), 2 * y + int(2 * draw())
        elif chosen < ZOOM_OUT:
            if scale < scales[-1]:
                scale, x, y = scale + 1, x // 2, y // 2
        else:
            image, scale, x, y = self._other_theme(image, scale, x, y)
        x_low, y_low, x_high, y_high = _extent(image, scale)
        return image, scale, min(max(x, x_low), x_high), min(max(y, y_low), y_high)

    def _other_theme(self, image: Image, scale: int, x: int, y: int) -> tuple[Image, int, int, int]:
        """The same city in another theme, at the same scale where that one has it."""
        theme = {AERIAL: MAP, MAP: URBAN, URBAN: AERIAL}[image.theme]
        other = self._by_theme.get((image.title, theme))
        if other is None:
            return image, scale, x, y
        return other, min(max(scale, SCALES[theme][0]), SCALES[theme][-1]), x, y

    def _program(self, at_s: int) -> None:
        """Tiles alone, row by row from some spot on, a few a second."""
        spot, tail = self._spot(), self._tail("program")
        wanted = min(int(self._owed), PROGRAM_TILES[1])
        self._owed -= wanted
        image, scale = spot.image, spot.scale
        x_low, y_low, x_high, y_high = _extent(image, scale)
        wide, high = x_high - x_low + 1, y_high - y_low + 1
        start = (spot.y - y_low) * wide + spot.x - x_low
        places = [(start + k) % (wide * high) for k in range(wanted)]
        lines = self._tiles(image, scale, [(x_low + p % wide, y_low + p // wide) for p in places], tail)
        step = 2 + int(6 * self._draw())
        for first in range(0, wanted, step):
            self._add(at_s + first // step, lines[first : first + step])

    def _pause_s(self) -> int:
        return 1 + int(self._draw() * self._draw() * LONGEST_PAUSE_S)
