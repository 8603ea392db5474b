"""What stores hold that were written before this version of the events, put as the types have it now.

Nothing is changed in a store; old events are read anew each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The loader of databases said in words what every other writer says by a name.
_BOUND = {"the loader used all of the one core that it can use": "cpu"}
_REASON = {"stopped": "interrupted"}

# Until version 2 a start had its reasons in these words.
_ENGINE = {
    "asked for": "requested",
    "the kernel offers it": "offered",
    "io_uring gets too little memory here (ulimit -l limits what may be locked)": "out_of_memory",
    "this kernel has no io_uring": "missing",
    "io_uring is forbidden here (kernel.io_uring_disabled, a container or seccomp)": "forbidden",
    "io_uring has no trim for block devices": "no_trim",
    "the target is modelled": "modelled",
    "blocking calls, a thread a worker": "files",
}
_BUFFERED = {
    "asked for": "requested",
    "the profile asks for it; the page cache is modelled": "modelled",
    "programs work on files through the page cache": "programs",
    "the file system keeps files in memory, so there is nothing to go to directly": "in_memory",
    "the file system does not support direct I/O on this file": "unsupported",
    "the file system refuses O_DIRECT": "refused",
}
_SUBMIT = {
    "asked for": "requested",
    "no-operations reach no queue": "no_operations",
    "no target": "no_target",
    "the page cache answers": "page_cache",
    "files in memory have no queue": "in_memory",
    "its queue is not known": "queue_unknown",
}
_UNWRITTEN: dict[str, dict[str, Any] | None] = {"": None, "none": {"kind": "none"}, "unknown": {"kind": "unknown"}}
# Until version 3 these were texts; their words are as good as any.
_TEXTS = {
    "host_lost": ("reason", "other"),
    "host_end": ("message", "other"),
    "end": ("message", "other"),
    "condition": ("reason", "written"),
}
START = {"engine_reason": _ENGINE, "io_reason": _BUFFERED, "submit_reason": _SUBMIT}


def upgraded(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event as a writer of this version would have put it."""
    match event.get("event"):
        case "phase_end":
            return _phase_end(event)
        case "start":
            return _start(event)
        case str(tag) if tag in _TEXTS:
            return _with_reason(event, *_TEXTS[tag])
        case _:
            return event


def _start(event: Mapping[str, Any]) -> Mapping[str, Any]:
    texts = {key: text for key in START if isinstance(text := event.get(key), str)}
    found = {**event, **{key: _typed(key, text) for key, text in texts.items()}}
    for key, changed in (("notes", _note), ("targets", _target)):
        if isinstance(items := event.get(key), list):
            found[key] = [changed(item) for item in items]
    return found


def _note(note: Any) -> Any:
    return {"kind": "written", "text": note} if isinstance(note, str) else note


def _target(target: Any) -> Any:
    match target:
        case {"unwritten": str(text)} if text.isdecimal():
            return {**target, "unwritten": {"kind": "bytes", "bytes": int(text)}}
        case {"unwritten": str(text)}:
            return {**target, "unwritten": _UNWRITTEN.get(text)}
    return target


def _with_reason(event: Mapping[str, Any], key: str, kind: str) -> Mapping[str, Any]:
    text = event.get(key)
    if not isinstance(text, str):
        return event
    return {**event, key: {"kind": kind, "text": text} if text else None}


def _typed(key: str, text: str) -> dict[str, str] | None:
    if not text and key != "engine_reason":
        return None
    kind = START[key].get(text)
    return {"kind": kind} if kind else {"kind": "written", "text": text}


def _phase_end(event: Mapping[str, Any]) -> Mapping[str, Any]:
    reason, bound = event.get("reason"), event.get("generator_bound_reason")
    if reason not in _REASON and bound not in _BOUND:
        return event
    return {
        **event,
        "reason": _REASON.get(str(reason), reason),
        "generator_bound_reason": _BOUND.get(str(bound), bound),
    }


def plan_kind(plan: Mapping[str, Any]) -> str:
    """Who carried a plan out that is no profile; empty where it is one. Imported plans did not say so."""
    if kind := plan.get("kind"):
        return str(kind)
    streams = [stream for phase in plan.get("phase", ()) for stream in phase.get("stream", ())]
    return "import" if any("options" in stream for stream in streams) else ""
