"""Duty: keys of a TOML table, each read once by kind; a mistake is one line that names the key.

Refusal: it knows no key by name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any, Self

from brickyard.errors import BadInputError, Remedy, nearest, one_line


class Keys:
    def __init__(self, values: dict[str, object], file: str, path: str = "") -> None:
        self._values, self._file, self._path = values, file, path
        self._known: list[str] = []

    @classmethod
    def parse(cls, text: str, file: str) -> Self:
        try:
            return cls(tomllib.loads(text), file)
        except tomllib.TOMLDecodeError as error:
            raise BadInputError(f"{file}: not valid TOML: {one_line(error)}") from error

    @property
    def where(self) -> str:
        return f"{self._file}: {self._path}" if self._path else self._file

    def place(self, key: str) -> str:
        return f"{self._file}: {self._path}.{key}" if self._path else f"{self._file}: {key}"

    def wrong(self, key: str, text: str, remedy: Remedy | None = None) -> BadInputError:
        """A mistake in the file, so that nothing in the command mends it."""
        return BadInputError(f"{self.place(key)}: {text}", remedy and Remedy(remedy.words))

    def has(self, key: str) -> bool:
        return key in self._values

    def left(self) -> list[str]:
        return [key for key in self._values if key not in self._known]

    def done(self) -> None:
        """Every key has been read; what is left is unknown."""
        for key in self.left():
            raise self.wrong(key, "unknown key", nearest(key, sorted(set(self._known))))

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._values.get(key)

    def text(self, key: str, default: str) -> str:
        """Numbers are taken as they are written, so that sizes and levels need no quotes."""
        found = self._take(key)
        if found is None:
            return default
        return self._word(key, found)

    def _word(self, key: str, found: Any) -> str:
        if isinstance(found, bool):
            return "true" if found else "false"
        if not isinstance(found, str | int | float):
            raise self.wrong(key, f"{found!r} is not a text")
        return found if isinstance(found, str) else f"{found}"

    def words(self, key: str, default: Sequence[str]) -> list[str]:
        """One word or a list of them."""
        found = self._take(key)
        if found is None:
            return list(default)
        return [self._word(key, item) for item in (found if isinstance(found, list) else [found])]

    def changes(self, key: str) -> list[str]:
        """`["depth=4"]`, or a table such as `{ depth = 4, request = "8KiB" }`."""
        found = self._take(key)
        if isinstance(found, dict):
            return [f"{name}={self._word(f'{key}.{name}', value)}" for name, value in found.items()]
        listed = found if isinstance(found, list) else [] if found is None else [found]
        for item in listed:
            if not isinstance(item, str) or "=" not in item:
                raise self.wrong(key, f'{item!r} is not a change; write "depth=4"')
        return list(listed)

    def number(self, key: str, default: float | None) -> float | None:
        found = self._take(key)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
            raise self.wrong(key, f"{found!r} is not a number of 0 or more")
        return float(found)

    def whole(self, key: str, default: int, *, at_least: int) -> int:
        found = self._take(key)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int) or found < at_least:
            raise self.wrong(key, f"{found!r} is not a whole number of {at_least} or more")
        return found

    def truth(self, key: str, default: bool) -> bool:
        found = self._take(key)
        if found is not None and not isinstance(found, bool):
            raise self.wrong(key, f"{found!r} is neither true nor false")
        return default if found is None else found

    def share(self, key: str) -> float | None:
        """`"5 %"` or 0.05."""
        found = self._take(key)
        if found is None:
            return None
        try:
            value = float(found.removesuffix("%")) / 100 if isinstance(found, str) else float(found)
        except (TypeError, ValueError) as error:
            raise self.wrong(key, f'{found!r} is not a share; write "5 %"') from error
        if not 0 < value < 1:
            raise self.wrong(key, f"{found!r} is not between 0 and 100 %")
        return value

    def duration(self, key: str, default: str) -> str:
        from brickyard import _core

        found = self.text(key, default)
        if found:
            try:
                _core.parse_duration_ns(found)
            except ValueError as error:
                raise self.wrong(key, one_line(error)) from error
        return found

    def limit(self, key: str) -> str | None:
        """A limit on a response time, which needs its unit."""
        from brickyard import _core

        found = self.text(key, "")
        try:
            _core.parse_limit_ns(found or "1s")
        except ValueError as error:
            raise self.wrong(key, one_line(error)) from error
        return found or None

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        found = self.text(key, default)
        if found not in known:
            raise self.wrong(key, f"{found} is unknown", nearest(found, known))
        return found

    def table(self, key: str) -> Keys:
        found = self._take(key)
        if found is not None and not isinstance(found, dict):
            raise self.wrong(key, "is not a table")
        return self._below(key, found or {})

    def tables(self, key: str) -> dict[str, Keys]:
        """Tables by name: `[factor.drive]`, `[factor.mirror]`."""
        parent = self.table(key)
        return {name: parent.table(name) for name in parent._values}

    def list_of_tables(self, key: str) -> list[Keys]:
        found = self._take(key)
        items = found if isinstance(found, list) else [] if found is None else [found]
        for item in items:
            if not isinstance(item, dict):
                raise self.wrong(key, "is not a list of tables")
        return [self._below(f"{key} {number}", item) for number, item in enumerate(items, 1)]

    def values_or_tables(self, key: str) -> list[tuple[str, Keys | None]]:
        """A list of plain values, or tables by name."""
        found = self._take(key)
        if isinstance(found, list):
            return [(self._word(key, item), None) for item in found]
        if not isinstance(found, dict):
            raise self.wrong(key, 'is missing; write levels = ["4KiB", "8KiB"], or a table for each level')
        below = self._below(key, found)
        return [(name, below.table(name)) for name in found]

    def _below(self, key: str, values: dict[str, object]) -> Keys:
        return Keys(values, self._file, f"{self._path}.{key}" if self._path else key)
