"""Duty: what `brickyard advise fit` found, in words and as a document. Refusal: no figures are computed here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brickyard.advise.answer import fitted
from brickyard.advise.fitting.arrays import WRITES_EACH
from brickyard.advise.fitting.course import Fall, fell
from brickyard.advise.fitting.hints import Hint, unspent
from brickyard.advise.fitting.search import FITS, Fitted, Predicted
from brickyard.advise.fitting.seen import NORMAL, Seen, Usable, condition_words
from brickyard.analysis.judging.answers import Answer
from brickyard.bricks.fitted import NO_WRITES
from brickyard.cli.parts.output import print_line, stdout, table
from brickyard.cli.parts.tables import print_answer
from brickyard.schema import Document
from brickyard.units import format_iops, format_size, three_digits

AS_GOOD, AS_GOOD_DISTANCE = 1.25, 0.005
"""A class whose error is no more than so many times the best one's, or so much more, is not told from it."""
MOST_FALLS = 6
MANY_IN_FLIGHT = 16
"""With so many, arrays and SSDs are faster than a single drive by more than models are off."""


@dataclass(frozen=True)
class Outcome:
    found: list[Fitted]
    target: str
    place: Path
    spoken: str
    known: Usable
    falls: list[Fall]
    hint: Hint | None

    @property
    def best(self) -> Fitted:
        return self.found[0]

    @property
    def caveats(self) -> list[str]:
        return [*self.known.in_others, *missing(self.known.loads), *untold(self.found)]

    @property
    def answer(self) -> Answer:
        doubts = [*self.caveats, *([self._longer(self.hint)] if self.hint else [])]
        first = [in_condition(self.known.condition), one_of_several(self.best, self.target)]
        return fitted(self.target, _sentence(self.best), self.spoken, doubts, first)

    @property
    def about(self) -> list[str]:
        """What the brick's file says of itself."""
        best = self.best
        first = [in_condition(self.known.condition), one_of_several(best, self.target)]
        lines = [f"{best.verdict.capitalize()}: {_errors(best)}.", *first, *array_words(best), *self.caveats]
        return list(filter(None, lines))

    def _longer(self, found: Hint) -> str:
        return f"{unspent(self.known.loads)}; {found.why}: {found.option} measures that as well"

    def document(self) -> Document:
        best = self.best
        return {
            **self.answer.document(),
            "target": self.target,
            "brick": str(self.place),
            "spoken": self.spoken,
            "class": best.model.name,
            "verdict": best.verdict,
            "training_error_percent": best.training_error * 100,
            "held_out_error_percent": None if best.held_out_error is None else best.held_out_error * 100,
            "kinds": [{"kind": kind, "median_error_percent": error * 100} for kind, error in best.kinds.items()],
            "classes": [_class_document(f) for f in self.found],
            "parameters": {
                key: {
                    "value": value,
                    "basis": f"fitted to {best.fitted_to[key]}" if key in best.fitted_to else "derived",
                    "alike": best.model.alike.get(key),
                }
                for key, value in best.model.values.items()
            },
            "fitted_to": [p.document() for p in best.training],
            "held_out": [p.document() for p in best.held_out],
            "condition": self.known.condition,
            "left_out": [*self.known.in_others, *self.known.refused],
            "caveats": self.caveats,
            "falls": [{**fall.document(), "predicted": self._predicted(fall)} for fall in self.falls],
            "long": None if self.hint is None else {"option": self.hint.option, "why": self.hint.why},
        }

    def _predicted(self, fall: Fall) -> Document | None:
        every = [*self.best.training, *self.best.held_out]
        step = next((p.step for p in every if p.seen.run == fall.run), None)
        if step is None:
            return None
        return {"first_per_s": step.first_per_s, "lasting_per_s": step.lasting_per_s, "after_s": step.after_s}

    def print(self) -> None:
        out = stdout()
        best = self.best
        print_answer(out, self.answer)
        columns = [("load", "left"), ("measured /s", "right"), ("predicted /s", "right"), ("error", "right")]
        for title, rows in (("Fitted to", best.training), ("Held out and predicted", best.held_out)):
            if rows:
                out.print(table(title, columns, [_row(p) for p in rows]))
                out.print()
        if len(self.found) > 1:
            names = ("class", "fitted to, median", "held out, median", "largest")
            classes = [(name, "left" if name == "class" else "right") for name in names]
            out.print(
                table(
                    "Model classes, the best on held-out workloads first", classes, [_class_row(f) for f in self.found]
                )
            )
            out.print()
        self._print_falls()
        refused = self.known.refused
        notes = [*array_words(best), *refused[:3]]
        if len(refused) > 3:
            notes.append(f"and {len(refused) - 3} more runs left out")
        for text in notes:
            print_line(out, text)
        out.print(f"brick: {self.place}", markup=False, soft_wrap=True)

    def _print_falls(self) -> None:
        if not self.falls:
            return
        out = stdout()
        out.print("The rate fell within these runs:", markup=False)
        for fall in self.falls[:MOST_FALLS]:
            print_line(out, f"  {self._fall(fall)}")
        if len(self.falls) > MOST_FALLS:
            out.print(f"  and {len(self.falls) - MOST_FALLS} more", markup=False)
        out.print()

    def _fall(self, fall: Fall) -> str:
        """With what the model makes of it; what it could be besides, where the model has none."""
        used = {p.seen.run: p for p in (*self.best.training, *self.best.held_out)}
        if fall.run not in used:
            return f"{fall.head}; a later run of the same workload is used instead"
        predicted = used[fall.run].step
        return (
            f"{fall.head}; the model: {fell(predicted)}" if predicted else f"{fall.words}; the model has no such fall"
        )


def missing(loads: list[Seen]) -> list[str]:
    """What was not measured, and what therefore is not known."""
    found = []
    if not any(s.in_flight == 1 for s in loads):
        found.append(
            "nothing was measured with one request in flight, so latency and parallelism cannot be separated; `advise "
            "fit TARGET` measures such a workload"
        )
    if not any(s.operation != "read" for s in loads):
        found.append(NO_WRITES)
    return found


def in_condition(condition: str) -> str:
    """Of runs that were all in another condition than normal, before all else."""
    if condition == NORMAL:
        return ""
    words = condition_words(condition)
    return f"all runs are in condition {words}: the model is of the storage in that condition, not in condition normal"


def one_of_several(best: Fitted, target: str) -> str:
    """Why the kind of storage is not known, as it shows in how rates rise with the depth; empty where it is known."""
    depths: dict[tuple[float, int], set[int]] = {}
    for seen in (p.seen for p in (*best.training, *best.held_out)):
        if seen.is_random:
            depths.setdefault((seen.reads, seen.request_bytes), set()).add(seen.in_flight)
    every = set().union(*depths.values())
    if not every:
        lack = "no random workload was measured"
    elif len(every) == 1:
        lack = f"all random workloads had {min(every)} in flight in total"
    elif not any(len(found) > 1 for found in depths.values()):
        lack = "no random workload was measured at several depths"
    elif max(every) < MANY_IN_FLIGHT:
        lack = f"no random workload had more than {max(every)} in flight in total"
    else:
        return ""
    return (
        f"{lack}, so the kind of storage is not known: an array or an SSD that differs only at other depths would "
        f"fit as well; `brickyard advise fit {shlex.quote(target)}` measures several depths"
    )


def untold(found: list[Fitted]) -> list[str]:
    """What the loads do not tell apart: classes that predict as well, values that do as well."""
    best = found[0]
    limit = max(best.distance * AS_GOOD, best.distance + AS_GOOD_DISTANCE)
    as_good = [f"{f.model.name} ({f.distance:.1%})" for f in found[1:] if f.distance <= limit]
    lines = []
    if as_good:
        ours = f"{best.model.name} (mean error {best.distance:.1%} on held-out workloads)"
        lines.append(f"not distinguished: {ours} and {', '.join(as_good)}")
    for key, others in best.model.alike.items():
        if key in best.fitted_to:
            lines.append(f"{key}: {others} would fit as well as {_value(key, best.model.values[key])}")
    if best.model.kind == "array" and "level" not in best.fitted_to and "writes" in best.model.derived.get("level", ""):
        lines.append(
            "the RAID level cannot be determined: at every level all members serve reads, and levels differ only "
            "in writes"
        )
    return lines


def array_words(best: Fitted) -> list[str]:
    """An array in a line, as its owner would say it."""
    model = best.model
    if model.kind != "array":
        return []
    said = model.said
    level, members = str(said.level), int(float(said.members or 0))
    each = WRITES_EACH[level]
    words = [
        f"{members} drives",
        f"{level} (a small write takes {each} operation{'s' if each > 1 else ''} of members)",
        f"stripe {format_size(int(float(said.stripe or 0)))}",
    ]
    if said.write_back:
        least = "" if "controller.cache_bytes" in best.fitted_to else "at least "
        words.append(f"write-back cache {least}{format_size(round(float(said.cache_bytes or 0)))}")
    reads, share = float(said.bus_mb_per_s or 0), float(said.bus_write_efficiency or 0)
    words.append(f"bus {reads:,.0f} MB/s for reads, {reads * share:,.0f} for writes")
    reading, writing = (float(each_ns or 0) / 1e3 for each_ns in (said.read_command, said.write_command))
    words.append(f"{three_digits(reading)} µs a read, {three_digits(writing)} µs a write")
    return ["; ".join(words)]


def _value(key: str, value: float | str | bool) -> str:
    if isinstance(value, (str, bool)):
        return str(value)
    return format_size(round(value)) if key.endswith("bytes") or key == "stripe" else f"{value:g}"


def _class_document(f: Fitted) -> Document:
    return {
        "class": f.model.name,
        "training_error_percent": f.training_error * 100,
        "held_out_error_percent": None if f.held_out_error is None else f.held_out_error * 100,
        "largest_error_percent": f.largest_error * 100,
        "distance": f.distance,
        "members": f.model.said.members,
        "level": f.model.said.level,
    }


def _class_row(f: Fitted) -> list[str]:
    members = f.model.said.members
    name = f.model.name if members is None else f"{f.model.name}, {members:g} members"
    kept = "–" if f.held_out_error is None else f"{f.held_out_error:.1%}"
    return [name, f"{f.training_error:.1%}", kept, f"{f.largest_error:.0%}"]


def _errors(best: Fitted) -> str:
    """The medians, and the worst of what was held out: one that is far off is not seen in a median."""
    count = len(best.training)
    to = "one workload" if count == 1 else f"{count} workloads"
    words = f"median error {best.training_error:.1%} on the {to} to which it was fitted"
    if count > 1:
        words += f", at worst {_worst(best.training):+.0%}"
    if best.held_out_error is None:
        return f"{words}; none was held out, so how well the model predicts is not known"
    return f"{words}, {best.held_out_error:.1%} on {len(best.held_out)} held out, at worst {_worst(best.held_out):+.0%}"


def _worst(found: Sequence[Predicted]) -> float:
    """The error that is furthest from none."""
    return max((p.error for p in found), key=abs)


def _sentence(best: Fitted) -> str:
    words = _errors(best)
    bad = ", ".join(f"{kind} {error:.0%}" for kind, error in best.kinds.items() if error > FITS)
    if best.verdict == "does not fit":
        return (
            f"no model class fits it. The nearest, {best.model.name}, has a {words}, but is off by {bad} (medians). "
            "Do not trust its predictions there."
        )
    return f"{best.verdict} {best.model.name}: {words}{f'; off by {bad} (medians)' if bad else ''}"


def _row(p: Predicted) -> list[str]:
    return [p.seen.label, format_iops(p.seen.iops), format_iops(p.iops), f"{p.error:+.1%}"]
