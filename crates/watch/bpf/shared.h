/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Duty: the layout of what kernel and program exchange; `src/layout.rs` has the same in Rust, and a test compares the
 * sizes. Refusal: no behaviour. */
#ifndef BRICKYARD_SHARED_H
#define BRICKYARD_SHARED_H

#define MOST_DEVICES 64
#define OPERATIONS 8
enum operation { READ, WRITE, WRITE_DURABLE, DISCARD, FLUSH, FLUSH_COMMAND, OTHER, ZEROES };

/* Eight buckets an octave of ns up to 2^42 ns, which is more than an hour. */
#define TIMES 320
/* Powers of two and what is between them: 2n is exactly 2^(n + 9) bytes, 2n + 1 is more. */
#define SIZES 40
#define ALIGNMENTS 16
/* 0: where the last request ended; then by powers of two, forward and backward. */
#define SEEKS 80
#define GAPS 44
#define DEPTHS 32
#define RUNS 44
#define STREAMS 16
#define STREAM_SECTORS 0x7fffff
#define OWNERS 64
/* Of request sizes, by powers of two from 512 bytes on. */
#define CLASSES 16
#define COMM 16

/* Requests of a class of sizes, and the sum of their times in the device. */
struct class {
	u64 requests;
	u64 device_ns;
};

/* What most requests touch stands together: a line of the CPU's cache has eight words. What need not be counted is added
 * by whoever reads: see `completed` in `src/kernel.rs`. */
struct cell {
	u64 requests;
	u64 bytes;
	u64 total_ns;
	u64 total_max_ns;
	u64 sequential;
	u64 sequential_bytes;
	u64 sync;
	u64 device_ns;
	u64 before_ns;
	u64 queue_ns;
	u64 queued; /* those that waited in a queue of the kernel's */
	u64 errors;
	u64 meta;
	u64 read_ahead;
	u64 read_ahead_bytes;
	u64 stripe_aligned;
	u64 stripe_full_bytes;
	u64 missed; /* those of `requests` that are in no histogram, since their end was not seen */
	struct class classes[CLASSES];
	u64 sizes[SIZES];
	u64 alignments[ALIGNMENTS];
	u64 seeks[SEEKS];
	u64 gaps[GAPS];
	u64 depths[DEPTHS];
	u64 before[TIMES];
	u64 queue[TIMES];
	u64 device[TIMES];
	u64 total[TIMES];
};

/* One of the processes whose numbers have these low bits: the one that asked last. A line of the cache, so that
 * processes on several CPUs do not take it from each other. */
struct asker {
	u64 process;
	u64 changes; /* so often another one took its place */
	u64 done;
	u64 cgroup; /* of its last request, as `part`: to both belongs `account` */
	u32 part;
	u32 account; /* its number, and 1 */
	char comm[COMM]; /* empty where it is not known */
	u64 spare;
};

/* All CPUs write to it: a request touches its first line, one or two of streams, and that of its asker. */
struct device {
	u64 begun; /* went to the device, and has not come back for another try */
	u64 done;
	u64 last_end_bytes;
	u64 last_arrival_ns;
	u32 flushing; /* flush commands in the device now */
	u32 next_stream;
	u64 flush_began_ns;
	u64 flush_ended_ns;
	u64 flush_last_ns; /* how long the last one took */
	u64 streams[STREAMS]; /* where each ends (sectors << 24), its length (sectors << 1), and whether it writes */
	struct asker askers[OWNERS];
	u64 merged_bios;
	u64 merged_requests;
	u64 splits;
	u64 requeues;
	u64 turned_away; /* bios that ended before they became a request */
	u64 by_bios; /* has no requests */
	u64 rare[2];
	u64 runs[2][RUNS]; /* lengths of sequential runs that are over, in bytes, of reads and of writes */
};

struct owner {
	u32 slot;
	u32 part;
	u32 process;
	u32 spare;
	u64 cgroup;
};

struct sums {
	u64 requests;
	u64 bytes;
	u64 total_ns;
};

struct account {
	u64 process;
	char comm[COMM];
	struct sums of[OPERATIONS];
};

struct control {
	u64 slow_ns[MOST_DEVICES]; /* slower ones are told one by one */
	u64 exact; /* all are told */
};

/* What is lost, and what no map had room for. */
struct losses {
	u64 ring;	/* records that found the ring full */
	u64 entries;	/* requests that no table had room for: they are in no figure */
	u64 owners;	/* requests of processes beyond the table's room: they are in `(others)` */
	u64 unknown;	/* requests that ended and whose beginning was before ours, or missed */
	u64 missed;	/* requests whose end was missed: counted without their time */
};

/* Bytes that were read ahead, in whole pages. */
struct ahead {
	u64 followed;
	u64 used;
	u64 mapped; /* of `used`, those that were only mapped beside a page that a program touched */
	u64 dropped; /* left the page cache before any use */
	u64 unfollowed; /* not in the page cache as a file's, or found no room in the tables */
};

#define IS_SYNC 1
#define IS_META 2
#define IS_READ_AHEAD 4
#define IS_FUA 8
#define IS_PREFLUSH 16
#define IS_ERROR 32
#define IS_SEQUENTIAL 64
#define IS_QUEUED 128

struct told {
	u64 arrived_ns;
	u64 queued_ns; /* when it became a request */
	u64 issued_ns;
	u64 ended_ns;
	u64 offset_bytes;
	u64 cgroup;
	u64 flush_ns; /* of its time in the device, how much a flush command was there too */
	u64 done_others; /* requests of others that ended while it was in the device */
	u64 done_own;
	u64 done_unknown; /* instead of these two: another process took its place in `askers` */
	u32 bytes;
	u32 part;
	u32 process;
	u32 depth;
	u16 slot;
	u8 operation;
	u8 flags;
	u32 requeues;
};

#endif
