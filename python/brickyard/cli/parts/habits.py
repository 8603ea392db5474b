"""Duty: options and words that people know from fio, diskspd, elbencho, dd, hyperfine and k6, and what to write here.

Refusal: nothing is parsed; it speaks where the parser of options has refused, since a guess by letters would name an
option that means something else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise

from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from brickyard.errors import BadInputError, Edit, Remedy, meant, near
from brickyard.formats import toml_text
from brickyard.formats.fio_options import ALIASES, INSTEAD, NOTED, SILENT, FioOptions, is_harmless
from brickyard.formats.fio_stream import DIRECTIONS, range_sizes
from brickyard.formats.fio_units import fio_bytes, fio_int, fio_letters, fio_number
from brickyard.schema.fio_words import fio_size
from brickyard.store import command_on

KNOWN = ("run", "characterize", "compare", "import", "export")
"""Verbs that have remedies of their own."""
ENDS = (
    "--runtime ends a run; a phase can also end after passes, bytes or requests, such as --set requests=1000 (of all "
    "workers together)."
)
OF_ALL = ", of all workers together"
FULL = "Write --full to measure each cell until it is steady."
INTERVALS = "Leave it out: every interval is in the record, and `brickyard export` writes it."
COMMAND = "a whole command line of diskspd or fio becomes a profile with `brickyard import --command '…' -o p.toml`"
AROUND = "Set it around the run, for example with taskset, nice or ionice."
ONE_WORKLOAD = (
    "characterize measures all request sizes, orders and directions; one workload alone is `brickyard run --rw "
    "randread --bs 4k TARGET`."
)
NO_COMPARE = "compare measures nothing: it reads runs of the store (`brickyard runs` lists them)."
NO_IMPORT = (
    "A workload is imported as it is: write a profile with -o p.toml and change it there, or run it with --set KEY=…."
)
NO_EXPORT = "export measures nothing: it writes runs of the store (`brickyard runs` lists them)."
TO_SET = "To change a key of the profile, write "


@dataclass(frozen=True)
class Habit:
    """What people write, and the remedy: with fio's options on `run`, with a profile, for `characterize`; for other
    verbs by name. Empty is unknown."""

    names: str
    run: str = ""
    profile: str = ""
    characterize: str = ""
    compare: str = NO_COMPARE
    import_: str = NO_IMPORT
    export: str = NO_EXPORT

    def remedy(self, verb: str, given: str, *, has_profile: bool) -> Remedy:
        """`given` is the value that the option was given."""
        if verb == "run":
            return Remedy(self.profile if has_profile and self.profile else self.run)
        if verb == "characterize":
            return Remedy(self.characterize or (self.run and ONE_WORKLOAD))
        return Remedy(str(getattr(self, "import_" if verb == "import" else verb)))


@dataclass(frozen=True)
class Key(Habit):
    """An option that is a key of a profile and, but for the seed, an option of fio; `value` is an example."""

    key: str = ""
    option: str = ""
    value: str = ""

    def remedy(self, verb: str, given: str, *, has_profile: bool) -> Remedy:
        if verb not in ("run", "characterize"):
            return super().remedy(verb, given, has_profile=has_profile)
        value, is_option = given or self.value, self.option and verb == "run" and not has_profile
        words = (self.option, fio_letters(value)) if is_option else ("--set", f"{self.key}={value}")
        before = TO_SET if verb == "run" and has_profile else "Write "
        return Remedy(f"{before}{' '.join(words)}.", Edit((), words))


@dataclass(frozen=True)
class Spoken(Habit):
    """An option whose value has another form here: `spoken` gives the words of it on `run`, and `in_profile` those
    beside a profile, where these are others. A value that cannot be read is in no remedy."""

    spoken: Callable[[str], tuple[str, ...]] | None = None
    in_profile: Callable[[str], tuple[str, ...]] | None = None
    of: str = ""
    """Of what the value is here."""

    def remedy(self, verb: str, given: str, *, has_profile: bool) -> Remedy:
        otherwise = super().remedy(verb, given, has_profile=has_profile)
        speak = self.in_profile if has_profile and self.in_profile else self.spoken
        if verb != "run" or not given or speak is None:
            return otherwise
        try:
            words = speak(given)
        except BadInputError:
            return otherwise
        return Remedy(f"Write {shlex.join(words)}{self.of}.", Edit((), words)) if words else otherwise


def _repeated(given: str) -> tuple[str, ...]:
    return ("--repeat", given) if given.isdigit() and int(given) else ()


def _required(given: str) -> tuple[str, ...]:
    return ("--check", given)


def _few_sizes(given: str) -> dict[int, float]:
    """A range of sizes as a mix of them; a range of many is for a job file."""
    sizes = range_sizes(given)
    return sizes if len(sizes) <= MIXED_AT_MOST else {}


def split_range(given: str) -> tuple[str, ...]:
    sizes = _few_sizes(given)
    return ("--bssplit", ":".join(f"{fio_size(size)}/{share:g}" for size, share in sizes.items())) if sizes else ()


def _mix(given: str) -> tuple[str, ...]:
    mixed = ",".join(f'{{size="{toml_text.size(at)}",share={share:g}}}' for at, share in _few_sizes(given).items())
    return ("--set", f"request=[{mixed}]") if mixed else ()


def _behind(given: str) -> tuple[str, ...]:
    """The region behind an offset."""
    low = f"{fio_number('offset', given[:-1], high=100):g}%" if given.endswith("%") else ""
    return "--set", f"region={low or toml_text.size(fio_bytes('offset', given))}..100%"


def _bytes(given: str) -> tuple[str, ...]:
    return "--set", f"bytes={toml_text.size(fio_bytes('io_size', given))}"


def _passes(given: str) -> tuple[str, ...]:
    return "--set", f"passes={fio_int('loops', given, low=1)}"


def _requests(given: str) -> tuple[str, ...]:
    return "--set", f"requests={fio_int('number_ios', given, low=1)}"


def _alike(names: str, text: str) -> Habit:
    return Habit(names, text, "", text, text, text, text)


MACHINE = "Write --json, or export a run with `brickyard export`."
HABITS = (
    # what is asked of the storage
    Key("bs blocksize block block-size request size-of-request b", key="request", option="--bs", value="4KiB"),
    Key("iodepth depth qd queue-depth queuedepth outstanding o", key="depth", option="--iodepth", value="32"),
    Key("numjobs jobs workers threads vus concurrency clients t j", key="workers", option="--numjobs", value="4"),
    Key("runtime duration time time-limit timelimit timeout d", key="duration", option="--runtime", value="30s"),
    Key("ramp-time warmup warm-up", key="warmup", option="--ramp-time", value="5s"),
    Key("seed randseed", key="seed", value="7"),
    Habit("direct", "Write --direct 1, which is the default; 0 goes through the page cache.",
          "To change a key of the profile, write --set io=direct (or buffered).",
          "Write --set io=direct (or buffered)."),
    Habit("rw readwrite read write rand random w r", "Write --rw randread (or read, write, randwrite, randrw).",
          "The profile says what is read and written: choose another (`brickyard profiles`), or write --rw without "
          "one.",
          ONE_WORKLOAD),
    Habit("io", "Write --direct 0 to go through the page cache.", "Write --set io=buffered (or direct).",
          "Write --set io=buffered (or direct)."),
    Habit("address operations region", "Leave the profile's key out of the options: --rw says it; or --set KEY=VALUE.",
          "To change a key of the profile, write --set KEY=VALUE.", ONE_WORKLOAD),
    Habit("buffered", "Write --direct 0 to go through the page cache (fio's --buffered 1), or --direct 1.",
          "Write --set io=buffered or --set io=direct.", "Write --set io=buffered or --set io=direct."),
    Habit("rwmixread rwmixwrite", "Write --rwmixread, the share of reads.",
          "Write --set 'operations={read=70,write=30}'.", ONE_WORKLOAD),
    Spoken("bssplit bsrange", "Write --bssplit 4k/60:64k/40.",
           "Write --set 'request=[{size=\"4KiB\",share=60},{size=\"64KiB\",share=40}]'.", ONE_WORKLOAD,
           spoken=split_range, in_profile=_mix),
    Habit("percentage-random random-distribution", "Write --random-distribution zipf:1.1.",
          "Write --set 'address={kind=\"zipf\",theta=1.1}'.", ONE_WORKLOAD),
    Habit("sync fsync fdatasync dsync oflag", "Write --sync dsync, or --fdatasync 1 for a flush after each write.",
          "Write --set sync=dsync.", "Write --set sync=dsync."),
    Habit("rate-iops rate", "Write --rate 5000: requests/s of all jobs together.",
          "Write --set 'pace={loop=\"open\",rate=5000,arrivals=\"poisson\"}'.", ONE_WORKLOAD),
    Habit("thinktime", "Write --thinktime 1ms.", "Write --set think=1ms.", ONE_WORKLOAD),
    Habit("end-fsync fsync-on-close", "Leave it out: no flush is sent at the end; --fsync N sends one after N writes."),
    Habit("invalidate", "Leave it out: the page cache of the target is dropped before a buffered run."),
    Habit("norandommap", 'Leave it out, or write a profile with address = "random".'),
    Spoken("offset", "Write --set region=1GiB..100%.", spoken=_behind),
    Habit("verify do-verify", "Write --set verify=true with --rw randrw or rw: a run checks the blocks that it reads "
          "and wrote itself. A job of fio that reads back what it wrote is read by `brickyard import`."),
    Spoken("io-size", ENDS, "", FULL, spoken=_bytes, of=OF_ALL),
    Spoken("loops", ENDS, "", FULL, spoken=_passes),
    Spoken("number-ios", ENDS, "", FULL, spoken=_requests, of=OF_ALL),
    Habit("readonly", "Leave it out: a load that only reads writes nothing to a target that exists."),
    Habit("nrfiles opendir", "Name the files and give --each: every one gets the workload; "
          "or import the job file with `brickyard import`, whose files become streams."),
    Habit("latency-target max-latency limit", "Name a requirement, such as --ruler 'p99<=20ms' with --check; or search "
          "the rate with `brickyard load-curve --limit p99:20ms`.", "", ONE_WORKLOAD, "Write --check --tolerance 5%."),
    Habit("refill-buffers", "Leave it out: what is written is always unique data."),
    Habit("randrepeat", "Leave it out: the same seed gives the same requests (--set seed=7 for others)."),
    Habit("startdelay", "Leave it out: a run begins at once; --ramp-time warms up."),
    Habit("exitall create-only section", "Import the job file instead: `brickyard import job.fio -o p.toml`."),
    # names and reports
    Habit("name jobname job-name", "A run has no job name here: leave it out.", "",
          "Leave it out: a characterization has a number (sN), and -o names its report.",
          "Name both sides: `brickyard compare BEFORE AFTER`.",
          "Leave it out: a run has the name of its file; -o names a profile.",
          "Name the run: `brickyard export latest`."),
    Habit("profile workload", "Name the profile itself, without an option: `brickyard run PROFILE TARGET`.", "",
          ONE_WORKLOAD),
    Habit("filename file device dev target", "Name the file or device itself, without an option.", "",
          "Name the file or device itself, without an option.", "Name runs: `brickyard compare 12 17`.",
          "Name the file itself, without an option.", "Name the file with -o, and the run without an option."),
    Habit("directory dir path", "Name the file itself, without an option; --scratch DIRECTORY makes one there and "
          "removes it.", "", "Name the file itself, without an option; --scratch DIRECTORY makes one there.",
          "-o FOLDER writes pictures there.", "Name the file itself, without an option.", "Write --tables FOLDER."),
    Habit("ioengine", "Write --engine, or leave it out: io_uring is used where the host has it.", "",
          "Leave it out, or write --set engine=psync: io_uring is used where the host has it."),
    Habit("group-reporting", "Leave it out: all workers of a run are reported together.", "", "Leave it out."),
    Habit("time-based", "Leave it out: --runtime alone ends the run.", "",
          "Leave it out: each cell ends after its time."),
    Habit("thread", "Leave it out: workers share the process.", "", "Leave it out: workers share the process."),
    Habit("output-format export-json summary-export jsonfile minimal terse machine-readable json-output", MACHINE, "",
          MACHINE, "Write --json.", "Write --json.", "Write --format json -o FILE."),
    Habit("export-csv csvfile csv format", "Export the run: `brickyard export latest --format csv -o run.csv`.", "",
          "Export the study: `brickyard export sN --format csv -o cells.csv`.",
          "Write --json; -o FOLDER writes pictures.", "Write --json.", "Write --format csv -o FILE."),
    Habit("output out report html export-markdown markdown f", "Write a report with `brickyard report RUN -o NAME`.",
          "", "Write -o NAME.html.", "Write -o FOLDER for pictures, or --json.", "Write -o p.toml for the profile.",
          "Write -o FILE; a page with pictures is `brickyard report RUN -o NAME`."),
    Habit("write-lat-log write-bw-log write-iops-log livecsv log-avg-msec", INTERVALS, "", INTERVALS),
    _alike("percentile-list lat-percentiles percentiles latpercent lat", "Leave it out: every latency is kept, and all "
           "percentiles that have enough samples are shown."),
    _alike("eta eta-newline status-interval progress quiet q show-output no-color", "Leave it out: progress is on "
           "stderr, a bar in a terminal and else a line every 5 s (2>/dev/null hides it); `brickyard export` has each "
           "second."),
    Habit("hosts", "", "", "Write `brickyard census` for many hosts.",
          "Runs of many hosts are in the store of this one.", "Leave it out: a file is imported here.",
          "Runs of many hosts are in the store of this one."),
    _alike("verbose v debug", "Leave it out: `brickyard show RUN` has all that was measured."),
    Spoken("require slo assert", "Write --check 'p99<=5ms'.", "Write --check 'p99<=5ms'.",
           "characterize judges no requirement; `brickyard run … --check 'p99<=5ms'` does.", spoken=_required),
    # how often, and who may write
    Spoken("runs min-runs max-runs iterations count n i", "Write --repeat 5.", "",
          "Run it again, and compare: `brickyard compare s1 s2`.",
          "compare measures nothing: `brickyard run … --repeat 5` does.", spoken=_repeated),
    Habit("prepare setup cleanup conclude shell", "Leave it out: only the page cache is dropped before a buffered "
          "run; run other commands before brickyard.", "", "Leave it out: run other commands before brickyard."),
    Habit("force yes y destroy", "Nothing is asked: --overwrite DEVICE names a device that may be written.", "",
          "Nothing is asked: --overwrite DEVICE names a device that may be written.", "Leave it out: nothing is asked.",
          "Leave it out: nothing is asked.", "Leave it out: what an export wrote is replaced, and nothing else."),
    Habit("client server", "Write --hosts: see `brickyard fleet --help`.", "",
          "Write `brickyard census` for many hosts."),
    Habit("cpus-allowed cpumask numa-cpu-nodes nice prio prioclass ionice taskset", AROUND, "", AROUND),
    # of compare
    Habit("threshold fail-if-slower fail max-regression", "Judge with --ruler and --check, or two runs with "
          "`brickyard compare --check --tolerance 5%`.", "",
          "Compare two: `brickyard compare s1 s2 --check --tolerance 5%`.",
          "Write --check --tolerance 5%."),
    Habit("baseline", "Compare afterwards: `brickyard compare --baseline NAME --check`.", "",
          "Compare afterwards: `brickyard compare --baseline NAME --check`.", ""),
    Habit("old new before after", "", "", "", "Name both sides without options: `brickyard compare BEFORE AFTER`."),
    Habit("metric metrics", "", "", "", "Write --figure iops (or mib_per_s, response_p99)."),
    Habit("size", "", "", "", NO_COMPARE, "A file that is made is as large as its regions; "
          "`brickyard run p.toml FILE --size 8GiB` makes a larger one."),
)  # fmt: skip
"""Some are options of one verb and unknown to another."""
BY_NAME = {name: habit for habit in HABITS for name in habit.names.split()}

OF_PROFILES = ("load-curve", "crosscheck", "advise")
WORKLOAD = frozenset(["rw", "bs", "iodepth", "numjobs", "rwmixread", "direct", "sync", "fsync", "bssplit"])
COMMANDS = re.compile(r"`brickyard ((?:run|runs|show|compare|export|report|load-curve|census)\b(?![^`]*--help)[^`]*)`")
"""Those that use the store."""
MIXED_AT_MOST = 16
"""Sizes of a mix that somebody wants to read on a command line."""
NEAR = 0.75
"""How alike a name must be for a guess: `--runtme` is, `--vus` and `--bs` are not."""
DD = re.compile(r"(if|of|bs|ibs|obs|count|oflag|iflag|conv|status|seek|skip)=.*")
DD_WORDS = (
    "is a word of dd: write --rw write --bs 1M --size 100MiB and the name of the file; requests bypass the page cache "
    "unless --direct 0 is given"
)


VALUES = {"--overwrite": Remedy("the target that may be overwritten is named there as well: --overwrite TARGET")}
"""What follows an option, where that is not plain."""


def complaint(given: Sequence[str], error: CycloptsError, see: Remedy) -> BadInputError:
    """What the parser of options refused, with what to write instead; else `see`."""
    if isinstance(error, UnknownOptionError):
        shown = (error.token.keyword or error.token.value).partition("=")[0]
        word = next((word for word in given if word.partition("=")[0] == shown), shown)
        known = [name for one in error.argument_collection if one.parse for name in one.names if name.startswith("-")]
        several = _unknown(given, {name for one in error.argument_collection for name in one.names})
        wrong = _wrong_values(error) if given[0] == "run" else []
        if len(several) > 1 or wrong:
            said = f"Unknown option{'s' if len(several) > 1 else ''}: {' '.join(_said(given, one) for one in several)}"
            values = f" Wrong value{'s' if len(wrong) > 1 else ''}: {'; '.join(wrong)}" if wrong else ""
            return BadInputError(f"{said}{values}")
        name = near(shown, known, NEAR)
        by_letters = meant(shown, name) if name else see
        understood = _dashes(word, known) or _direction(given, word) or _habit(given, word)
        return BadInputError(f"Unknown option: {shown}", understood or by_letters)
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.app is not None:
        word = error.unused_tokens[0]
        remedy = _verb(given, word, [name for name in error.app if not name.startswith("-")])
        return BadInputError(f'Unknown command "{word}"', remedy) if remedy else BadInputError(f"{error} {see.words}")
    if isinstance(error, UnusedCliTokensError):
        words = tuple(error.unused_tokens or ())
        remedy = Remedy("leave it out", Edit(words, ())) if words in LISTS else see
        return BadInputError(f"Too many arguments: {' '.join(words)}", remedy)
    if isinstance(error, MissingArgumentError) and error.keyword is not None:
        return _without_value(given, error.keyword, see)
    if isinstance(error, MissingArgumentError) and error.argument is not None and not error.argument.tokens:
        return BadInputError(f"{error.argument.name} is missing", see)
    return BadInputError(f"{error} {see.words}")


def _without_value(given: Sequence[str], option: str, see: Remedy) -> BadInputError:
    """The parser takes what begins with a dash for the next option."""
    value = next((after for before, after in pairwise(given) if before == option), "")
    if re.match(r"-[\d.]", value):
        return BadInputError(f"{option} {value}: it cannot be below zero")
    return BadInputError(f"{option}: its value is missing", VALUES.get(option, see))


def _dashes(word: str, known: Sequence[str]) -> Remedy | None:
    """`-rw randread`, as find and Java's tools have it."""
    is_word = len(word) > 2 and not word.startswith("--")
    is_known = f"-{word}".partition("=")[0] in known
    if not is_word or not is_known:
        return None
    return Remedy("Options of more than one letter have two dashes", Edit((word,), (f"-{word}",)))


def _on_store(given: Sequence[str], words: str) -> str:
    """A remedy's words with the user's store in their commands."""
    named = [after for before, after in pairwise(given) if before == "--store"]
    named += [word.removeprefix("--store=") for word in given if word.startswith("--store=")]
    if not named:
        return words
    return COMMANDS.sub(lambda found: command_on(named[0], found[1]), words)


def _verb(given: Sequence[str], word: str, known: Sequence[str]) -> Remedy | None:
    """What a command that there is not may have meant."""
    if [word] == given[:1] and word in OF_ADVISE:
        return Remedy("It is a command of advise", Edit((word,), ("advise", word)))
    if [word] == given[:1] and word in VERBS:
        return Remedy(_on_store(given, VERBS[word]))
    name = near(word, known)
    return meant(word, name) if name else None


def _unknown(given: Sequence[str], known: set[str]) -> list[str]:
    """All options of the line that the parser does not know, each once, where their verb has remedies."""
    words = {word.partition("=")[0]: word for word in reversed(given[1:]) if word.startswith("--") and len(word) > 2}
    known = {*known, "--help", "--version"}
    return [word for name, word in reversed(words.items()) if name not in known] if given[0] in KNOWN else []


def _wrong_values(error: UnknownOptionError) -> list[str]:
    """What is wrong with the values of fio's options that are known."""
    from brickyard.cli.parts.ad_hoc import NO_WORDS, wrong_values

    tokens = {one.keys[0]: one.tokens for one in error.argument_collection if one.keys}
    given = {name: tokens[name][0].value for name in asdict(NO_WORDS) if tokens.get(name) and tokens[name][0].value}
    return [str(each) for each in wrong_values(given)]


def _said(given: Sequence[str], word: str) -> str:
    remedy = _habit(given, word)
    return f"{word.partition('=')[0]}: {remedy.words if remedy else f'brickyard {given[0]} --help lists the options.'}"


def _a_profile(given: Sequence[str]) -> Remedy:
    """The same workload as a profile."""
    words, named = list[str](), set[str]()
    for word, after in pairwise([*given[1:], "--"]):
        option, joined, _ = word.partition("=")
        name = ALIASES.get(option[2:], option[2:])
        if option.startswith("--") and name in WORKLOAD:
            words += [word] if joined or after.startswith("-") else [word, after]
            named.add(name)
    command = shlex.join(["brickyard", "run", *([] if "rw" in named else ["--rw", "randread"]), *words])
    return Remedy(f"Name a profile here: `{command} --save p.toml --dry-run` writes it.")


def _direction(given: Sequence[str], word: str) -> Remedy | None:
    """The value of --rw as an option of its own."""
    name = word.removeprefix("--")
    is_meant = given[0] == "run" and word.startswith("--") and name in DIRECTIONS and not _has_rw(given)
    return Remedy(f"Write --rw {name}.", Edit((word,), ("--rw", name))) if is_meant else None


def _habit(given: Sequence[str], word: str) -> Remedy | None:
    """What replaces an option that the parser does not know, as it was written."""
    option, joined, value = word.partition("=")
    name = option.lstrip("-").replace("_", "-")
    if name == "json":
        return Remedy("leave it out", Edit((word,), ()))
    if given[0] in OF_PROFILES and ALIASES.get(name, name) in WORKLOAD:
        return _a_profile(given)
    if given[0] not in KNOWN:
        return None
    written: tuple[str, ...] = (word,)
    if not word.startswith("--") and len(name) > 1:  # such as -b8K and -t4
        name, value = name[0], value or word[2:]
    elif not joined and (value := _value_behind(given, word)):
        written = (word, value)
    if word == "-o" and not value:  # with a number it is diskspd's depth
        name = "output"
    has_profile = not _has_rw(given)
    known = BY_NAME[name].remedy(given[0], value, has_profile=has_profile) if name in BY_NAME else None
    remedy = _part(name, value, given) or known
    if remedy and remedy.words:
        said = _on_store(given, remedy.words)
        return _instead(written, Remedy(said, remedy.edit)) if value else Remedy(said)
    if given[0] != "run":
        return None
    if not word.startswith("--"):
        return Remedy(f"run has no option of one letter but -h; {COMMAND}.")
    said = fio_remedy(name.replace("-", "_"), value)
    return Remedy(said) if said else None


def _part(name: str, offset: str, given: Sequence[str]) -> Remedy | None:
    """Of fio's offset and size together: the size is that of the part here, and of the file by itself."""
    sizes = [word.partition("=")[2] or _value_behind(given, word) for word in given if re.match(r"--size(=|$)", word)]
    if name != "offset" or not sizes:
        return None
    region = "START..END"
    with suppress(BadInputError):
        low, size = fio_bytes("offset", offset), fio_bytes("size", sizes[0])
        region = f"{toml_text.size(low)}..{toml_text.size(low + size)}"
    return Remedy(f"Write --set region={region} in the place of both --offset and --size.")


def _has_rw(given: Sequence[str]) -> bool:
    return any(one.startswith("--rw") for one in given)


def fio_remedy(option: str, value: str) -> str:
    """What the importer of fio's jobs makes of an option; empty where it is none."""
    name = ALIASES.get(option, option)
    if name in NOTED:
        return f"Leave it out: {NOTED[name]}."
    if name in SILENT or is_harmless(name, value):
        return "Leave it out: it changes nothing of the load here."
    if name in INSTEAD:
        return f"It has no counterpart here{INSTEAD[name].replace('{value}', value)}."
    return f"It is read from jobs alone; {COMMAND}." if name in FioOptions.__struct_fields__ else ""


def _value_behind(given: Sequence[str], word: str) -> str:
    """`--bs 8k`; empty where an option follows, or what could be a target."""
    following = next(iter(given[given.index(word) + 1 :]), "") if word in given else ""
    return following if re.fullmatch(r"\d[\w.]*(-\d\w*|%)?", following) else ""


def _instead(given: tuple[str, ...], remedy: Remedy) -> Remedy:
    """In the place of what was written."""
    edit = Edit(given, remedy.edit.meant) if isinstance(remedy.edit, Edit) else None
    return Remedy(remedy.words, edit)


def profile_remedy(option: str, value: str) -> Remedy:
    """What a profile has instead of an option of fio."""
    if (habit := BY_NAME.get(option)) is None:
        return Remedy("Edit keys of the profile with --set KEY=VALUE.")
    return _instead((f"--{option}", value), habit.remedy("run", value, has_profile=True))


def dd_words(given: Sequence[str]) -> str:
    """Words of dd where a profile or a target is expected."""
    if given[:1] not in (["run"], ["characterize"]):
        return ""
    # Behind an option such as --set it is a value of that.
    word = next((word for before, word in pairwise(given) if DD.fullmatch(word) and not before.startswith("-")), "")
    return f"{word} {DD_WORDS}" if word else ""


LISTS = ("list",), ("ls",)
"""Of profiles, baselines and the like, which their verb alone lists."""
OF_ADVISE = ("predict", "buy", "fit", "charts", "parts")
VERBS = {
    **dict.fromkeys(
        ("log", "logs", "results", "last"), "`brickyard runs` lists runs, and `brickyard show RUN` shows one."
    ),
    **dict.fromkeys(
        ("pgbench", "postmark", "bonnie", "sqlio"), "It is a workload: write `brickyard run PROFILE TARGET`."
    ),
    "help": "Write `brickyard --help`, or `brickyard VERB --help`.",
    **dict.fromkeys(
        ("list", "ls"), "`brickyard runs` lists runs, profiles workloads, bricks models, and study studies."
    ),
    **dict.fromkeys(
        ("fio", "bench", "benchmark", "test", "start", "exec"),
        "Write `brickyard run --rw randread --bs 4k --iodepth 32 FILE`; a job file is read by `brickyard import`.",
    ),
    **dict.fromkeys(("diff", "cmp"), "Write `brickyard compare BEFORE AFTER`."),
}
