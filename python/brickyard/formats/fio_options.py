"""Duty: which options of fio change nothing of a load, which are passed over with a word, and which are refused.

Refusal: an option that is in no list here is refused by its name: leaving it out would make another load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from brickyard.errors import BadInputError, meant, near
from brickyard.formats.fio_units import in_thousands
from brickyard.ready import ready
from brickyard.schema.fio_words import FILE_OF_FIO

MISSPELT = 0.85
"""So alike, a name is more likely a misspelt one than another option of fio."""

# fio's own second names (options.c, `.alias`), and the ones that its parser takes for them.
ALIASES = {
    "readwrite": "rw",
    "threads": "thread",  # its examples write it so, and its parser takes it
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned",
    "ba": "blockalign",
    "wait_for_previous": "stonewall",
    "timeout": "runtime",
    "io_limit": "io_size",
    "fill_fs": "fill_device",
    "fileoffset": "offset",
    "allrandrepeat": "randrepeat",
    "nr_files": "nrfiles",
    "iomem": "mem",
    "mem_align": "iomem_align",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "disable_bw": "disable_bw_measurement",
    "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
    "ss_interval": "steadystate_check_interval",
}

INVERSE = {"buffered": "direct", "direct": "buffered", "rwmixread": "rwmixwrite", "rwmixwrite": "rwmixread"}
"""Options of fio that set one value from two sides (options.c, `.inverse`): the later one holds."""

KB_BASE = "kb_base"
SIZES = frozenset(
    [
        "blockalign",
        "bs",
        "bsrange",
        "bssplit",
        "filesize",
        "io_size",
        "offset",
        "offset_increment",
        "random_distribution",
        "rate",
        "rate_iops",
        "rw",
        "size",
    ]
)
"""Options in which a unit may stand."""

# What fio writes down, how it makes its files and buffers, and how it draws: nothing of what the storage is asked for.
SILENT = frozenset(
    [
        "allow_file_create",
        "allow_mounted_write",
        "block_error_percentiles",
        "bwavgtime",
        "clat_percentiles",
        "clocksource",
        "comm",
        "create_fsync",
        "create_on_open",
        "create_serialize",
        "description",
        "disable_bw_measurement",
        "disable_clat",
        "disable_lat",
        "disable_slat",
        "disk_util",
        "error_dump",
        "experimental_verify",
        "fallocate",
        "filetype",
        "gtod_cpu",
        "gtod_reduce",
        "group_reporting",
        "hugepage-size",
        "ignore_error",
        "iomem_align",
        "iopsavgtime",
        "job_start_clock_id",
        "lat_percentiles",
        "latency_run",
        "lockmem",
        "log_alternate_epoch",
        "log_alternate_epoch_clock_id",
        "log_avg_msec",
        "log_compression",
        "log_compression_cpus",
        "log_entries",
        "log_hist_coarseness",
        "log_hist_msec",
        "log_issue_time",
        "log_offset",
        "log_prio",
        "log_store_compressed",
        "log_unix_epoch",
        "log_window_value",
        "mem",
        "name",
        "new_group",
        "openfiles",
        "overwrite",
        "per_job_logs",
        "percentile_list",
        "random_generator",
        "randrepeat",
        "rate_cycle",
        "refill_buffers",
        "scramble_buffers",
        "significant_figures",
        "slat_percentiles",
        "softrandommap",
        "stats",
        "thinktime_blocks_type",
        "thread",
        "unified_rw_reporting",
        "unlink",
        "unlink_each_loop",
        "userspace_reap",
        "verify_async",
        "verify_async_cpus",
        "verify_dump",
        "verify_fatal",
        "verify_header_seed",
        "verify_interval",
        "verify_offset",
        "verify_pattern",
        "verify_state_save",
        "write_bw_log",
        "write_hist_log",
        "write_iolog",
        "write_iops_log",
        "write_lat_log",
    ]
)

HOST = "set it around the run, for example with ionice, taskset or numactl"
# The load stays the same; what else fio would do is said.
NOTED = {
    "buffer_pattern": "what is written is pseudo-random here",
    "continue_on_error": "failed requests are counted here, and the run goes on after any of them",
    "dedupe_global": "which earlier block a duplicate repeats is chosen here",
    "dedupe_mode": "which earlier block a duplicate repeats is chosen here",
    "dedupe_working_set_percentage": "which earlier block a duplicate repeats is chosen here",
    "end_fsync": "no flush is sent at the end",
    "fsync_on_close": "no flush is sent at the end",
    "end_syncfs": "no flush is sent at the end",
    "exec_prerun": "the command is not run",
    "exec_postrun": "the command is not run",
    "io_submit_mode": "requests are submitted by the thread that reaps them, and rates are open loops without it",
    "iodepth_batch": "how many requests are submitted in one call is chosen here",
    "iodepth_batch_complete_max": "how many completions are reaped in one call is chosen here",
    "fixedbufs": "how buffers are registered is chosen here",
    "registerfiles": "how files are registered is chosen here",
    "nonvectored": "which system call is used is chosen here",
    "rate_min": "not judged here; --ruler does",
    "rate_iops_min": "not judged here; --ruler does",
    "thinktime_spin": "the pause does not use CPU here",
    "hipri": "how completions are found is chosen here",
    "pre_read": "nothing is read into the cache before",
    "serialize_overlap": "requests that overlap are not held back",
    "sqthread_poll": "how requests are submitted is chosen here",
    "write_hint": "no lifetime hint is given",
    "zero_buffers": "what is written is pseudo-random here",
    **dict.fromkeys(
        (
            "cgroup",
            "cgroup_nodelete",
            "cgroup_weight",
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "gid",
            "ioscheduler",
            "nice",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "prio",
            "prioclass",
            "uid",
        ),
        HOST,
    ),
}

# What else there is where an option is refused.
INSTEAD = {
    "read_iolog": "; `brickyard trace import {value} -o load.byt` reads the log, and `brickyard run load.byt TARGET` "
    "replays it",
    "opendir": "; write a job for each file (filename)",
    "flow": "; give each job a rate_iops, whose ratio then holds, or make one job of them (rwmixread, bssplit)",
    "thinktime_blocks": "; a pause follows each request here: divide thinktime by thinktime_blocks and leave this out",
    "trim_percentage": "; in a profile, write operations = { write = 90, trim = 10 }",
    "bs_unaligned": "; in a profile, write align = 512",
    "verify_only": "; a run checks what it wrote itself: write a profile with verify = true",
    "verify_backlog": "; read back after the writes: leave this out",
    "iodepth_low": "; in a profile, reap = N waits for N completions at a time",
    "zonemode": "; in a profile, an address of the kind strided or zones",
    "profile": "; write the jobs that it stands for",
}

# Options that change the load unless they have these values, which are fio's own defaults.
HARMLESS = {
    **dict.fromkeys(
        (
            "atomic",
            "bs_is_seq_rand",
            "bs_unaligned",
            "create_only",
            "file_append",
            "fill_device",
            "flow",
            "force_async",
            "iodepth_low",
            "sprandom",
            "thinktime_iotime",
            "trim_percentage",
            "verify_backlog",
            "verify_only",
        ),
        ("0", "false"),
    ),
    KB_BASE: ("1000", "1024"),  # `override` has read the sizes by it
    "unit_base": ("0", "8"),
    "thinktime_blocks": ("1",),
    "zonemode": ("none",),
    "io_submit_mode": ("inline",),
    "lockfile": ("none",),
    "rw_sequencer": ("sequential",),
    "exit_what": ("group",),
}


class FioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is understood of a job, each option as its text. A default is fio's own; None is an option that is not
    there, which fio treats otherwise than any value of it."""

    blockalign: str | None = None
    bs: str = "4k"
    bsrange: str | None = None
    bssplit: str | None = None
    buffer_compress_percentage: str | None = None
    buffered: str | None = None
    dedupe_percentage: str | None = None
    direct: str | None = None
    directory: str = ""
    do_verify: str = "1"
    exitall: str = "0"
    fadvise_hint: str | None = None
    fdatasync: str = "0"
    filename: str = ""
    filename_format: str = "$jobname.$jobnum.$filenum"
    filesize: str | None = None
    fill_device: str | None = None
    file_service_type: str = "roundrobin"
    fsync: str = "0"
    invalidate: str = "1"
    io_size: str | None = None
    iodepth: str = "1"
    iodepth_batch_complete_min: str = "1"
    ioengine: str = "psync"
    latency_percentile: str = "100"
    latency_target: str | None = None
    latency_window: str = "1s"
    loops: str = "1"
    max_latency: str | None = None
    norandommap: str = "0"
    nrfiles: str = "1"
    number_ios: str | None = None
    numjobs: str = "1"
    offset: str = "0"
    offset_increment: str = "0"
    percentage_random: str | None = None
    pre_read: str = "0"
    ramp_time: str = "0"
    randseed: str | None = None
    random_distribution: str = "random"
    rate: str | None = None
    rate_ignore_thinktime: str = "0"
    rate_iops: str | None = None
    rate_process: str = "linear"
    runtime: str = "0"
    rw: str = "read"
    rwmixread: str = "50"
    rwmixwrite: str | None = None
    size: str | None = None
    startdelay: str = "0"
    steadystate: str | None = None
    steadystate_check_interval: str | None = None
    steadystate_duration: str = "0"
    steadystate_ramp_time: str = "0"
    stonewall: str | None = None
    sync: str | None = None
    thinktime: str = "0"
    time_based: str = "0"
    verify: str = "0"
    wait_for: str | None = None


def understood(options: Mapping[str, str]) -> FioOptions:
    """Those of a job by their canonical names; `check_options` is for the others."""
    return msgspec.convert(options, FioOptions)


def check_options(options: dict[str, str]) -> list[str]:
    """What has to be said of a job's options; refuses the first that would change the load."""
    said = []
    for name, value in options.items():
        is_understood = name in FioOptions.__struct_fields__ and name not in NOTED
        if is_understood or name in SILENT or is_harmless(name, value):
            continue
        if name not in NOTED:
            shown = f"{name}={value}" if value else name
            if name not in INSTEAD and (alike := near(name, FioOptions.__struct_fields__, MISSPELT)):
                raise BadInputError(f"fio's {shown} has no counterpart here", meant(name, alike))
            instead = INSTEAD.get(name, "").replace("{value}", value)
            raise BadInputError(
                f"fio's {shown} has no counterpart here, and the job without it is another load{instead}"
            )
        if value not in ("0", "none", "false"):
            said.append(f"{name}: {NOTED[name]}.")
    return said


def is_harmless(name: str, value: str) -> bool:
    return value.strip().lower() in HARMLESS.get(name, ())


def override(options: dict[str, str], more: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Sets later options, as fio's user has written them, and takes away what they override. `kb_base` holds for the
    sizes behind it. fio works on the files of all names that it is given (options.c, `str_filename_cb`)."""
    for name, value in more:
        key = canonical(name)
        if key == FILE_OF_FIO:
            options[key] = ":".join(filter(None, (options.get(key), value)))
            continue
        options.pop(INVERSE.get(key, key), None)
        options[key] = in_thousands(value) if key in SIZES and options.get(KB_BASE) == "1000" else value
    return options


def canonical(name: str) -> str:
    key = re.sub(r"\s", "", name).lower()
    return ALIASES.get(key, key)


ready(FioOptions)
