"""Duty: what must be known before believing a replay's figures. Refusal: it gives no figure of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from brickyard.analysis.databases.replay_runs import (
    away_s,
    driver_name,
    ends,
    issued_calls,
    log_counts,
    replay_asked,
    share_words,
    torn_logs,
)
from brickyard.analysis.databases.replay_served import served, served_wording
from brickyard.analysis.figures.offered_share import offered
from brickyard.schema import (
    Drivers,
    RunWarning,
    Severity,
    TargetFacts,
    Unit,
    WatchSheet,
    warned,
)
from brickyard.schema.plan import OrderKnown, Outlier
from brickyard.schema.warning import Value, Wording, tally, wording_of
from brickyard.store import Record
from brickyard.units import format_count

OUTLIERS_NAMED = 3
SORT_REMEDY = "Sort the calls with --sort always, or increase --window."
LEAST_OFFERED = 0.95  # of a rate; drivers whose calls end within a twentieth of the run are even enough
RATE_REMEDY = "Use fewer drivers, or logs of more clients; --again repeats logs that end early."
BLINK_S = 0.1  # a database that was away for less took new connections at once
LINK_SHARE_MAX = 0.8  # of a link's speed: from here on protocol overhead may fill the rest


def coverage_words(records: Sequence[Record]) -> str:
    """Of all runs together."""
    found = log_counts(*records)
    if not found.requests:
        return ""
    read = f"{format_count(found.requests)} requests that were read{f' in {len(records)} runs' if records[1:] else ''}"
    text = f"{share_words(found.covered_share)} of the {read} became calls"
    if (issued := sum(map(issued_calls, records))) < found.calls:
        text += f", of which {format_count(issued)} were due before the run ended"
    if found.bad_lines:
        text += f", {format_count(found.bad_lines)} lines could not be read"
    if found.unusable:
        text += f", {format_count(found.unusable)} lacked a usable parameter"
    if found.unmatched_paths:
        most = ", ".join(f"{path} ({format_count(count)})" for path, count in found.unmatched_paths[:3])
        text += f"; not mapped: {most}"
    return text


def replay_warnings(record: Record, watched: list[WatchSheet]) -> list[RunWarning]:
    """What must be known before believing a replay's figures; `watched` is what was seen of the servers' devices."""
    found: list[RunWarning] = []

    def warn(
        identifier: str, template: str, remedy: str, also: Mapping[str, Value] | None = None, **values: Value
    ) -> None:
        found.append(warned(identifier, "warning", template, remedy, also={**values, **(also or {})}))

    if ends(record) and not issued_calls(record):
        warn("no_calls", "No call was made: this run measured nothing.", "See --explain, --from and --until.")
    found += [*_order_warnings(record), *_rate_warnings(record)]
    from_where = served([record], watched)
    if from_where.is_from_memory:
        said = served_wording(from_where)
        remedy = "Replay against a database larger than the memory, or for a cold start add --drop-caches --manage."
        warn("served_from_memory", f"The calls were {said.template}.", remedy, also=said.values)
    for place, why in torn_logs(record).items():
        text = "{log} is damaged: {why}; the part before that was replayed."
        warn("torn_log", text, "Copy or compress the log again; its end is missing.", log=place, why=why)
    for end in ends(record):
        name = f"D{driver_name(record, end.driver)[1:]}"
        lag = end.driver_lag
        if lag and not end.keeps_pace:
            text = "{driver} did not keep its pace: its own delay was {lag} (p99)."
            remedy = "Use more drivers, or a host with idle processors."
            warn("driver_pace", text, remedy, driver=name, lag=Unit.NS.of(lag.p99_ns))
        if end.starved_share > 0.1:
            text = "{driver} waited {share} of the time for its log to be read."
            remedy = "Uncompress the log first, or use more drivers."
            warn("driver_log", text, remedy, driver=name, share=Unit.PERCENT.of(end.starved_share))
        if sum(end.lost_connections):
            lost, again = sum(end.lost_connections), sum(end.reconnects)
            found.append(
                warned(
                    "lost_connections",
                    "warning",
                    "{driver} lost {lost} connections and reconnected {again} of them.",
                    "See the server's log for why.",
                    gravity=lost,
                    driver=name,
                    lost=Unit.COUNT.of(lost),
                    again=Unit.COUNT.of(again),
                )
            )
        if end.diverged:
            pages, values = tally(end.diverged_pages, "{name}: {number}", unit=Unit.COUNT)
            warn(
                "divergence",
                f"{{driver}} got a number of rows other than expected in {{calls}} calls ({pages}).",
                "Check that the database contains the data that the log requests.",
                driver=name,
                calls=Unit.COUNT.of(end.diverged),
                also=values,
            )
    found += _site_warnings(record)
    return found


def distorted(record: Record) -> Wording | None:
    """How the calls were sent otherwise than the log has them; None where they were not."""
    counts = log_counts(record)
    if counts.late:
        return wording_of(
            "{late} calls were sent later than their time stamps, up to {burst} of them within one second; the log "
            "does not have such bursts",
            gravity=counts.late_burst_calls,
            late=Unit.COUNT.of(counts.late),
            burst=Unit.COUNT.of(counts.late_burst_calls),
        )
    if counts.missed:
        return wording_of(
            "{missed} requests that belong in the run came in standard input after the run's end, further out of order "
            "than --window: the replay did not make their calls",
            missed=Unit.COUNT.of(counts.missed),
        )
    if count := _order(record).beyond_window:
        # A run that ends early may not have come to them, and then lacked their calls from its first second on.
        return wording_of(
            "{count} requests of the log are further out of order than --window, and were not sorted",
            count=Unit.COUNT.of(count),
        )
    return None


def unoffered(record: Record) -> Wording | None:
    """Why less than the rate was offered that the run has in its name; None where it was offered."""
    found, rate = offered(record), replay_asked(record).pace.rate_per_s or 0.0
    if found.share > LEAST_OFFERED or not issued_calls(record):
        return None
    idle = ", ".join(driver_name(record, driver) for driver in found.idle)
    early = ", ".join(driver_name(record, driver) for driver in found.early)
    whys = ["{idle} had no calls"] if idle else []
    whys += ["the calls of {early} ended before those of the others"] if early else []
    return wording_of(
        f"Only {{offered}} of {{asked}} calls/s were offered on average: {' and '.join(whys)}",
        gravity=1 - found.share,
        offered=Unit.RATE.of(rate * found.share),
        asked=Unit.RATE.of(rate),
        idle=idle,
        early=early,
    )


def unverified(record: Record) -> Wording | None:
    """Why nobody knows whether the calls were sent in the log's order; None where it is known."""
    counts = log_counts(record)
    if _order(record).is_verified or counts.at_end:
        return None
    return wording_of(
        "the order of standard input was checked only in part: the input had not ended when Brickyard stopped "
        "reading after the run"
    )


def _order(record: Record) -> OrderKnown:
    return replay_asked(record).order or OrderKnown()


def _order_warnings(record: Record) -> list[RunWarning]:
    found: list[RunWarning] = []
    if said := distorted(record):
        found.append(_sentence("log_disorder", "warning", said, SORT_REMEDY))
    elif said := unverified(record):
        found.append(_sentence("log_unverified", "note", said, SORT_REMEDY))
    if count := log_counts(record).outliers:
        found.append(
            warned(
                "log_outliers",
                "warning",
                "{count} requests were left out, because their time stamps are far from all others: {places}.",
                "Set the clock of that server; --keep-outliers replays these requests, including the gap in time.",
                count=Unit.COUNT.of(count),
                places="; ".join(outlier_words(replay_asked(record).outliers[:OUTLIERS_NAMED])),
            )
        )
    return found


def _sentence(identifier: str, severity: Severity, said: Wording, remedy: str) -> RunWarning:
    template = f"{said.template[0].upper()}{said.template[1:]}."
    return warned(identifier, severity, template, remedy, gravity=said.gravity, also=said.values)


def _rate_warnings(record: Record) -> list[RunWarning]:
    said = unoffered(record)
    return [_sentence("rate_unoffered", "warning", said, RATE_REMEDY)] if said else []


def outlier_words(outliers: list[Outlier]) -> list[str]:
    """`a.log, line 101: 1970-01-01 00:00:07`, by what a first look found."""
    found = []
    for item in outliers:
        more = f" and {format_count(item.requests - 1)} like it" if item.requests > 1 else ""
        found.append(f"{os.path.basename(item.log)}, line {item.line:,}: {_stamp(item.first_ns)}{more}")
    return found


def _stamp(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _down_warning(record: Record, number: int, target: TargetFacts) -> list[RunWarning]:
    """A database that was down at the beginning, or for longer than a blink."""
    down_s = away_s([record], number)
    if target.unreachable:
        text = "{target} could not be reached when the run began: {why}."
    elif down_s >= BLINK_S:
        text = "{target} could not be reached for {down} of the run."
    else:
        return []
    remedy = (
        "Its rate is over the time in which it served; in the rest of the time its calls failed, or waited if "
        "it was the only database."
    )
    return [
        warned(
            "brick_down",
            "warning",
            text,
            remedy,
            target=target.path,
            why=target.unreachable or "",
            down=Unit.DURATION.of(down_s),
        )
    ]


def _site_warnings(record: Record) -> list[RunWarning]:
    found: list[RunWarning] = []
    for number, target in enumerate(record.info.start.targets if record.info.start else []):
        found += _down_warning(record, number, target)
        link = target.link
        speed = link.megabit_per_s if link else None
        if link is None or not speed:
            continue
        rate = max((_bytes_per_s(event) for event in record.of(Drivers)), default=0.0) * 8 / 1e6
        if rate > LINK_SHARE_MAX * speed:
            found.append(
                warned(
                    "driver_network",
                    "warning",
                    "The drivers' network was saturated: {rate} of results over {device}, which has {speed}.",
                    "Run the drivers on other hosts, or over a faster network: the databases may sustain more.",
                    gravity=rate / speed,
                    rate=Unit.MEGABIT_RATE.of(rate),
                    device=str(link.device),
                    speed=Unit.MEGABIT_RATE.of(speed),
                )
            )
    covered = log_counts(record).covered_share
    if covered is not None and covered < 0.9:
        text = "Only {share} of the requests became calls."
        remedy = "--explain lists the most frequent unmapped requests; add them to the mapping."
        found.append(warned("coverage", "warning", text, remedy, share=Unit.COVERAGE.of(covered)))
    return found


def _bytes_per_s(event: Drivers) -> float:
    span_ns = max(event.end_ns - event.start_ns, 1)
    # A stub of an interval says little.
    return sum(share.bytes for share in event.drivers) / span_ns * 1e9 if span_ns > 0.5e9 else 0.0
