"""Duty: options and words that people know from fio, diskspd, elbencho, dd, hyperfine and k6, and what to write here.

Refusal: nothing is parsed; it speaks where the parser of options has refused, since a guess by letters would name an
option that means something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from brickyard.formats.fio_options import ALIASES, INSTEAD, NOTED, SILENT, FioOptions, is_harmless

KNOWN = ("run", "characterize", "compare", "import", "export")
"""Verbs that have remedies of their own."""
ENDS = (
    "--runtime ends a run; in a profile, a phase can also end after passes, bytes or requests (--save p.toml, "
    "then edit it)."
)
INTERVALS = "Leave it out: every interval is in the record, and brickyard export writes it."
COMMAND = "a whole command line of diskspd or fio becomes a profile with brickyard import --command '…' -o p.toml"
AROUND = "Set it around the run, for example with taskset, nice or ionice."
ONE_WORKLOAD = (
    "characterize measures all request sizes, orders and directions; one workload alone is `brickyard run --rw "
    "randread --bs 4k TARGET`."
)
NO_COMPARE = "compare measures nothing: it reads runs that brickyard run made (brickyard runs lists them)."
NO_IMPORT = (
    "A workload is imported as it is: write a profile with -o p.toml and change it there, or run it with --set KEY=…."
)
NO_EXPORT = "export measures nothing: it writes what brickyard run measured (brickyard runs lists the runs)."


VALUE = "{value}"
"""In a remedy: what the user gave to the option."""


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
    value: str = ""

    def remedy(self, verb: str, given: str = "", *, has_profile: bool) -> str:
        """With the value that was given."""
        return self._remedy(verb, has_profile=has_profile).replace(VALUE, given or self.value)

    def _remedy(self, verb: str, *, has_profile: bool) -> str:
        if verb == "run":
            return self.profile if has_profile and self.profile else self.run
        if verb == "characterize":
            return self.characterize or (self.run and ONE_WORKLOAD)
        return str(getattr(self, "import_" if verb == "import" else verb))


def _alike(names: str, text: str) -> Habit:
    return Habit(names, text, "", text, text, text, text)


def _key(names: str, word: str, key: str, value: str) -> Habit:
    """An option that is a key of a profile, and a word of fio. `value` stands in the remedies where none was given."""
    set_it = f"To change a key of the profile, write --set {key}={VALUE}."
    return Habit(names, f"Write {word}.", set_it, f"Write --set {key}={VALUE}.", value=value)


MACHINE = "Write --json, or export a run with brickyard export."
HABITS = (
    # what is asked of the storage
    _key("bs blocksize block block-size request size-of-request b", f"--bs {VALUE}", "request", "4KiB"),
    _key("iodepth depth qd queue-depth queuedepth outstanding o", f"--iodepth {VALUE}", "depth", "32"),
    _key("numjobs jobs workers threads vus concurrency clients t j", f"--numjobs {VALUE}", "workers", "4"),
    _key("runtime duration time time-limit timelimit timeout d", f"--runtime {VALUE}", "duration", "30s"),
    _key("ramp-time warmup warm-up", f"--ramp-time {VALUE}", "warmup", "5s"),
    _key("seed randseed", f"--set seed={VALUE}", "seed", "7"),
    Habit("direct", "Write --direct 1, which is the default; 0 goes through the page cache.",
          "To change a key of the profile, write --set io=direct (or buffered).",
          "Write --set io=direct (or buffered)."),
    Habit("rw readwrite read write rand random w r", "Write --rw randread (or read, write, randwrite, randrw).",
          "The profile says what is read and written: choose another (brickyard profiles), or write --rw without one.",
          ONE_WORKLOAD),
    Habit("io", "Write --direct 0 to go through the page cache.", "Write --set io=buffered (or direct).",
          "Write --set io=buffered (or direct)."),
    Habit("address operations region", "Leave the profile's key out of the options: --rw says it; or --set KEY=VALUE.",
          "To change a key of the profile, write --set KEY=VALUE.", ONE_WORKLOAD),
    Habit("buffered", "Write --direct 0 to go through the page cache.", "Write --set io=buffered.",
          "Write --set io=buffered."),
    Habit("rwmixread rwmixwrite", "Write --rwmixread, the share of reads.",
          "Write --set 'operations={read=70,write=30}'.", ONE_WORKLOAD),
    Habit("bssplit bsrange", "Write --bssplit 4k/60:64k/40.",
          "Write --set 'request=[{size=\"4KiB\",share=60},{size=\"64KiB\",share=40}]'.", ONE_WORKLOAD),
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
    Habit("offset", 'Write a profile with region = "1GiB..100%" (--save p.toml, then change it there).'),
    Habit("verify do-verify", "Write a profile with verify = true (--save p.toml, then change it there)."),
    Habit("io-size loops number-ios", ENDS, "", "Write --full to measure each cell until it is steady."),
    Habit("readonly", "Leave it out: a load that only reads writes nothing to a target that exists."),
    Habit("nrfiles opendir", "Name the files and give --each: every one gets the workload; "
          "or brickyard import the job file, whose files become streams."),
    Habit("latency-target max-latency limit", "Name a requirement, such as --ruler 'p99<=20ms' with --check; or search "
          "the rate with brickyard load-curve --limit p99:20ms.", "", ONE_WORKLOAD, "Write --check --tolerance 5%."),
    Habit("refill-buffers", "Leave it out: what is written is always unique data."),
    Habit("randrepeat", "Leave it out: the same seed gives the same requests (--set seed=7 for others)."),
    Habit("startdelay", "Leave it out: a run begins at once; --ramp-time warms up."),
    Habit("exitall create-only section", "Import the job file instead: brickyard import job.fio -o p.toml."),
    # names and reports
    Habit("name jobname job-name", "A run has no job name here: leave it out.", "",
          "Leave it out: a characterization has a number (sN), and -o names its report.",
          "Name both sides: brickyard compare BEFORE AFTER.",
          "Leave it out: a run has the name of its file; -o names a profile.",
          "Name the run: brickyard export latest."),
    Habit("filename file device dev target", "Name the file or device itself, without an option.", "",
          "Name the file or device itself, without an option.", "Name runs: brickyard compare 12 17.",
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
    Habit("export-csv csvfile csv format", "Export the run: brickyard export latest --format csv -o run.csv.", "",
          "Export the study: brickyard export sN --format csv -o cells.csv.",
          "Write --json; -o FOLDER writes pictures.", "Write --json.", "Write --format csv -o FILE."),
    Habit("output out report html export-markdown markdown f", "Write a report with brickyard report RUN -o NAME.", "",
          "Write -o NAME.html.", "Write -o FOLDER for pictures, or --json.", "Write -o p.toml for the profile.",
          "Write -o FILE; a page with pictures is brickyard report RUN -o NAME."),
    Habit("write-lat-log write-bw-log write-iops-log livecsv log-avg-msec", INTERVALS, "", INTERVALS),
    _alike("percentile-list lat-percentiles percentiles latpercent lat", "Leave it out: every latency is kept, and all "
           "percentiles that have enough samples are shown."),
    _alike("eta eta-newline status-interval progress quiet q show-output no-color", "Leave it out: progress is on "
           "stderr, a bar in a terminal and else a line every 5 s (2>/dev/null hides it); brickyard export has each "
           "second."),
    Habit("hosts", "", "", "Write brickyard census for many hosts.", "Runs of many hosts are in the store of this one.",
          "Leave it out: a file is imported here.", "Runs of many hosts are in the store of this one."),
    _alike("verbose v debug", "Leave it out: brickyard show RUN has all that was measured."),
    # how often, and who may write
    Habit("runs min-runs max-runs iterations count n i", "Write --repeat 5.", "",
          "Run it again, and compare: brickyard compare s1 s2.",
          "compare measures nothing: brickyard run … --repeat 5 does."),
    Habit("prepare setup cleanup conclude shell", "Leave it out: only the page cache is dropped before a buffered "
          "run; run other commands before brickyard.", "", "Leave it out: run other commands before brickyard."),
    Habit("force yes y destroy", "Nothing is asked: --overwrite DEVICE names a device that may be written.", "",
          "Nothing is asked: --overwrite DEVICE names a device that may be written.", "Leave it out: nothing is asked.",
          "Leave it out: nothing is asked.", "Leave it out: what an export wrote is replaced, and nothing else."),
    Habit("client server", "Write --hosts: see brickyard fleet --help.", "", "Write brickyard census for many hosts."),
    Habit("cpus-allowed cpumask numa-cpu-nodes nice prio prioclass ionice taskset", AROUND, "", AROUND),
    # of compare
    Habit("threshold fail-if-slower fail max-regression", "Judge with --ruler and --check, or two runs with brickyard "
          "compare --check --tolerance 5%.", "", "Compare two: brickyard compare s1 s2 --check --tolerance 5%.",
          "Write --check --tolerance 5%."),
    Habit("baseline", "Compare afterwards: brickyard compare --baseline NAME --check.", "",
          "Compare afterwards: brickyard compare --baseline NAME --check.", ""),
    Habit("old new before after", "", "", "", "Name both sides without options: brickyard compare BEFORE AFTER."),
    Habit("metric metrics", "", "", "", "Write --figure iops (or mib_per_s, response_p99)."),
    Habit("size", "", "", "", NO_COMPARE, "A file that is made is as large as its regions; brickyard run "
          "p.toml FILE --size 8GiB makes a larger one."),
)  # fmt: skip
"""Some are options of one verb and unknown to another."""
BY_NAME = {name: habit for habit in HABITS for name in habit.names.split()}

OF_PROFILES = ("load-curve", "crosscheck", "advise")
WORKLOAD = frozenset(
    ["rw", "readwrite", "bs", "blocksize", "iodepth", "numjobs", "rwmixread", "direct", "sync", "fsync", "bssplit"]
)
A_PROFILE = "Name a profile here: `brickyard run --rw randread --bs 4k --save p.toml --dry-run` writes one."
UNKNOWN = re.compile(r"[Uu]nknown option: \"?--?([\w-]+)")
GUESS = re.compile(r" ?Did you mean (--[\w-]+)\?")
NEAR = 0.75
"""How alike a name must be for a guess: `--runtme` is, `--vus` and `--bs` are not."""
DD = re.compile(r"(if|of|bs|ibs|obs|count|oflag|iflag|conv|status|seek|skip)=.*")
DD_WORDS = (
    "is a word of dd: write --rw write --bs 1M --size 100MiB and the name of the file; requests bypass the page cache "
    "unless --direct 0 is given"
)


def habit_words(given: Sequence[str], error: Exception) -> str:
    """What replaces an option that the parser does not know; empty where nothing is known."""
    found = UNKNOWN.search(str(error))
    if found is not None and given[:1] and given[0] in OF_PROFILES:
        return f"Unknown option: --{found[1]}. {A_PROFILE}" if found[1].replace("_", "-") in WORKLOAD else ""
    if found is None or not given or given[0] not in KNOWN:
        return ""
    several = _unknown(given, error)
    if len(several) > 1:
        return f"Unknown options: {' '.join(f'{word}: {_said(given, word)}' for word in several)}"
    word = next((word for word in given[1:] if word.lstrip("-").startswith(found[1])), f"--{found[1]}")
    remedy = _remedy_of(given, word)
    return f"Unknown option: {word.partition('=')[0]}. {remedy}" if remedy else ""


def _unknown(given: Sequence[str], error: Exception) -> list[str]:
    """All options of the line that the parser does not know, by their names alone, each once."""
    known = {name for argument in getattr(error, "argument_collection", ()) for name in argument.names}
    names = (word.partition("=")[0] for word in given[1:] if word.startswith("--") and len(word) > 2)
    return [name for name in dict.fromkeys(names) if name not in known and name not in ("--help", "--version")]


def _said(given: Sequence[str], name: str) -> str:
    word = next(word for word in given if word.partition("=")[0] == name)
    return _remedy_of(given, word) or f"brickyard {given[0]} --help lists the options."


def _remedy_of(given: Sequence[str], word: str) -> str:
    name = word.lstrip("-").partition("=")[0].replace("_", "-")
    if not word.startswith("--") and len(name) > 1:  # such as -b8K and -t4
        name = name[0]
    value = _value_of(given, word)
    remedy = _remedy(given, name, value)
    if remedy or given[0] != "run":
        return remedy
    if not word.startswith("--"):
        return f"run has no option of one letter but -h; {COMMAND}."
    return fio_remedy(name.replace("-", "_"), value)


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


def _value_of(given: Sequence[str], word: str) -> str:
    """`--bs=8k`, `--bs 8k`, `-b8K`; empty where an option follows, or what could be a target."""
    if "=" in word:
        return word.partition("=")[2]
    if not word.startswith("--") and len(word) > 2:
        return word[2:]
    following = next(iter(given[given.index(word) + 1 :]), "") if word in given else ""
    return following if re.fullmatch(r"\d[\w.]*", following) else ""


def _remedy(given: Sequence[str], name: str, value: str) -> str:
    if (habit := BY_NAME.get(name)) is None:
        return ""
    has_profile = not any(word.startswith("--rw") for word in given)
    return habit.remedy(given[0], value, has_profile=has_profile)


def profile_remedy(option: str, value: str = "") -> str:
    """What a profile has instead of an option of fio."""
    if option not in BY_NAME:
        return "change keys of the profile with --set KEY=VALUE."
    return BY_NAME[option].remedy("run", value, has_profile=True)


def without_guess(said: str) -> str:
    """A parser's complaint without its guess, unless that is much like what was written."""
    found, guess = UNKNOWN.search(said), GUESS.search(said)
    if not found or not guess or SequenceMatcher(None, f"--{found[1]}", guess[1]).ratio() >= NEAR:
        return said
    return GUESS.sub("", said)


def dd_words(given: Sequence[str]) -> str:
    """Words of dd where a profile or a target is expected."""
    if given[:1] not in (["run"], ["characterize"]):
        return ""
    # Behind an option such as --set it is a value of that.
    word = next((word for before, word in pairwise(given) if DD.fullmatch(word) and not before.startswith("-")), "")
    return f"{word} {DD_WORDS}" if word else ""


VERBS = {
    **dict.fromkeys(("predict", "buy", "fit", "charts", "parts"), "It is a command of advise"),
    **dict.fromkeys(("log", "logs", "results", "last"), "brickyard runs lists runs, and brickyard show RUN shows one."),
    **dict.fromkeys(
        ("pgbench", "postmark", "bonnie", "sqlio"), "It is a workload: write brickyard run PROFILE TARGET."
    ),
    "help": "Write brickyard --help, or brickyard VERB --help.",
    **dict.fromkeys(("list", "ls"), "brickyard runs lists runs, profiles workloads, bricks models, and study studies."),
    **dict.fromkeys(
        ("fio", "bench", "benchmark", "test", "start", "exec"),
        "Write brickyard run --rw randread --bs 4k --iodepth 32 FILE; a job file is read by brickyard import.",
    ),
    **dict.fromkeys(("diff", "cmp"), "Write brickyard compare BEFORE AFTER."),
}


def verb_words(given: Sequence[str]) -> str:
    """What a command that there is not may have meant."""
    return f'Unknown command "{given[0]}". {VERBS[given[0]]}' if given and given[0] in VERBS else ""
