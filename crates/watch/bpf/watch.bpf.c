/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Duty: counts what block devices are asked to do, request by request, from the tracepoints of the block layer.
 *
 * A bio is known from `block_bio_queue` on, which tells who submitted it and when; a request takes over what its first
 * bio was known for. Devices without requests (zram, md, dm) are counted by bios. Everything that is counted of a
 * request is counted when it ends, as the kernel's own statistics do, so that both agree.
 *
 * Refusal: changes nothing, waits for nothing, and reads no data. */
#include "disks.h"
#include "kernel.h"
#include "shared.h"

const char LICENSE[] SEC("license") = "GPL";

const volatile u64 STRIPE_BYTES = 0;
const volatile u64 BEGAN_NS = 0;

#define SLOTS 16384
#define OVERFLOW 16384
#define MOST_OWNERS 8192
/* Whoever is in a table for longer was never taken out. */
#define FORGOTTEN_NS 600000000000ull

/* A bio or a request on its way. */
struct entry {
	u64 key;
	u64 arrived_ns;
	u64 queued_ns;
	u64 issued_ns;
	u64 data_ended_ns;
	u64 offset_bytes;
	u64 cgroup;
	u64 done;
	u64 done_own;
	u64 changes;
	u32 bytes;
	u32 part;
	u32 process;
	u32 depth;
	u16 slot;
	u8 operation;
	u8 flags;
	u8 seek;
	u8 gap;
	u8 is_counted; /* in what the device has begun */
	u8 requeues;
} __attribute__((aligned(64)));

struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct entry);
} bios SEC(".maps"), requests SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, OVERFLOW);
	__type(key, u64);
	__type(value, struct entry);
} bios_more SEC(".maps"), requests_more SEC(".maps");

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, OPERATIONS); /* times the number of devices */
	__type(key, u32);
	__type(value, struct cell);
} cells SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, MMAPABLE);
	__uint(max_entries, MOST_DEVICES); /* set by the program */
	__type(key, u32);
	__type(value, struct device);
} devices SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, MOST_OWNERS);
	__type(key, struct owner);
	__type(value, u32);
} owners SEC(".maps");

/* By the numbers in `owners`. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, MOST_OWNERS);
	__type(key, u32);
	__type(value, struct account);
} accounts SEC(".maps");

enum table { BIOS, REQUESTS };

/* How many there are: what is empty need not be looked up. */
struct filled {
	u64 more[2];
	u64 accounts;
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct filled);
} filled SEC(".maps");

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct losses);
} lost SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} controls SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 1 << 20); /* set by the program */
} ring SEC(".maps");

static const u32 ZERO = 0;
static const struct entry NO_ENTRY = {};

INLINE struct losses *losses(void)
{
	return map_lookup(&lost, &ZERO);
}

INLINE u32 floor_log2(u64 value)
{
	u32 bits = 0;
	if (value >> 32) {
		value >>= 32;
		bits += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bits += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bits += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bits += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bits += 2;
	}
	return bits + (value >> 1);
}

INLINE u32 time_bucket(u64 ns)
{
	if (ns < 8)
		return ns;
	u32 bits = floor_log2(ns);
	u32 bucket = ((bits - 2) << 3) + ((ns >> (bits - 3)) & 7);
	return bucket < TIMES ? bucket : TIMES - 1;
}

INLINE u32 size_bucket(u64 bytes)
{
	if (bytes < 512)
		return 0;
	u32 bits = floor_log2(bytes);
	u32 bucket = (bits - 9) * 2 + (bytes != 1ull << bits);
	return bucket < SIZES ? bucket : SIZES - 1;
}

INLINE u32 size_class(u64 bytes)
{
	u32 bits = floor_log2(bytes);
	bits = bits < 9 ? 0 : bits - 9;
	return bits < CLASSES ? bits : CLASSES - 1;
}

INLINE u32 alignment_bucket(u64 offset)
{
	u64 lowest = (offset | 1ull << (ALIGNMENTS + 8)) & -(offset | 1ull << (ALIGNMENTS + 8));
	u32 bits = floor_log2(lowest);
	return bits < 9 ? 0 : (bits - 9) & (ALIGNMENTS - 1);
}

INLINE u32 seek_bucket(u64 from, u64 to)
{
	if (from == to)
		return 0;
	u64 distance = from < to ? to - from : from - to;
	u32 bits = floor_log2(distance);
	bits = bits < 9 ? 0 : bits - 9;
	if (bits > 38)
		bits = 38;
	return 1 + bits * 2 + (to < from);
}

INLINE u32 depth_bucket(u64 depth)
{
	if (depth < 1)
		return 0;
	if (depth <= 16)
		return depth - 1;
	u32 bucket = 12 + floor_log2(depth - 1);
	return bucket < DEPTHS ? bucket : DEPTHS - 1;
}

/* clang leaves a check out where it sees that a bucket is none of those beyond, which not every kernel's verifier (6.1)
 * follows: to it, one less than a depth of 1 to 16 may be anything. */
INLINE u32 unknown(u32 bucket)
{
	asm volatile("" : "+r"(bucket));
	return bucket;
}

INLINE struct device *device_of(u32 slot)
{
	return map_lookup(&devices, &slot);
}

/* Tables are arrays that are found by a hash of the address; where two meet, the later one goes to a hash map. */
INLINE u32 place_of(u64 key)
{
	u32 low;
	/* The verifier forbids arithmetic with an address, and takes a copy of its half for a number. */
	asm volatile("%0 = %1" : "=w"(low) : "w"((u32)key));
	return (low >> 6) * 0x9e3779b1u >> 18 & (SLOTS - 1);
}

INLINE struct entry *place_in(enum table table, u64 key)
{
	u32 place = place_of(key);
	return table == BIOS ? map_lookup(&bios, &place) : map_lookup(&requests, &place);
}

INLINE struct entry *found(enum table table, u64 key)
{
	struct entry *entry = place_in(table, key);
	if (entry && entry->key == key)
		return entry;
	struct filled *are = map_lookup(&filled, &ZERO);
	if (!are || !are->more[table])
		return 0;
	return table == BIOS ? map_lookup(&bios_more, &key) : map_lookup(&requests_more, &key);
}

INLINE struct entry *claimed(enum table table, u64 key, u64 now)
{
	struct entry *entry = place_in(table, key);
	if (!entry)
		return 0;
	if (entry->key == key)
		return entry;
	u64 before = entry->key;
	/* It may have arrived after `now`, on another CPU. */
	if (before == 0 || now > entry->arrived_ns + FORGOTTEN_NS)
		if (__sync_val_compare_and_swap(&entry->key, before, key) == before)
			return entry;
	struct filled *are = map_lookup(&filled, &ZERO);
	void *more = table == BIOS ? (void *)&bios_more : (void *)&requests_more;
	if (!are)
		return 0;
	entry = map_lookup(more, &key);
	if (entry)
		return entry;
	if (map_update(more, &key, &NO_ENTRY, NO_EXIST)) {
		struct losses *loss = losses();
		if (loss)
			loss->entries++;
		return 0;
	}
	__sync_fetch_and_add(&are->more[table], 1);
	return map_lookup(more, &key);
}

INLINE void given_back(enum table table, u64 key)
{
	struct entry *entry = place_in(table, key);
	struct filled *are;
	if (entry && entry->key == key) {
		entry->is_counted = 0;
		entry->key = 0;
	} else if ((are = map_lookup(&filled, &ZERO)) && are->more[table]) {
		if (!(table == BIOS ? map_delete(&bios_more, &key) : map_delete(&requests_more, &key)))
			__sync_fetch_and_add(&are->more[table], -1);
	}
}

/* An address is used again, and the end of what it was before is not known: the kernel runs no program while the same
 * program is interrupted on that CPU. It is counted without its time. */
INLINE void settle(struct entry *entry)
{
	struct device *device = device_of(entry->slot);
	u32 index = entry->slot * OPERATIONS + (entry->operation & (OPERATIONS - 1));
	struct cell *cell = map_lookup(&cells, &index);
	struct losses *loss = losses();
	entry->is_counted = 0;
	if (!device || !cell || !loss)
		return;
	__sync_fetch_and_add(&device->done, 1);
	if (entry->operation == FLUSH_COMMAND)
		__sync_fetch_and_add(&device->flushing, -1);
	cell->requests++;
	cell->missed++;
	cell->bytes += entry->bytes;
	loss->missed++;
}

INLINE u8 operation_of(u32 flags, u32 bytes)
{
	u32 operation = flags & OP_MASK;
	if (operation == OP_READ)
		return READ;
	if (operation == OP_WRITE || operation == OP_ZONE_APPEND) {
		if (flags & (1u << __REQ_PREFLUSH) && bytes == 0)
			return FLUSH;
		return flags & (1u << __REQ_FUA | 1u << __REQ_PREFLUSH) ? WRITE_DURABLE : WRITE;
	}
	if (operation == OP_FLUSH)
		return FLUSH_COMMAND;
	if (operation == OP_DISCARD || operation == OP_SECURE_ERASE)
		return DISCARD;
	if (operation == OP_WRITE_ZEROES)
		return ZEROES;
	return OTHER;
}

INLINE u8 flags_of(u32 flags)
{
	return (flags & (1u << __REQ_SYNC) ? IS_SYNC : 0) | (flags & (1u << __REQ_META) ? IS_META : 0) |
	       (flags & (1u << __REQ_RAHEAD) ? IS_READ_AHEAD : 0) | (flags & (1u << __REQ_FUA) ? IS_FUA : 0) |
	       (flags & (1u << __REQ_PREFLUSH) ? IS_PREFLUSH : 0);
}

INLINE struct asker *asker_of(struct device *device, u32 process)
{
	return &device->askers[process & (OWNERS - 1)];
}

INLINE struct asker *asked_by(struct device *device, u32 process, int is_current)
{
	struct asker *asker = asker_of(device, process);
	if (asker->process != process) {
		asker->process = process;
		asker->account = 0;
		asker->comm[0] = 0;
		__sync_fetch_and_add(&asker->changes, 1);
		if (is_current)
			get_current_comm(asker->comm, COMM);
	}
	return asker;
}

/* Whoever is running now is taken for whoever asked; of data that the kernel writes back, that is a thread of its own. */
INLINE void asked_by_current(struct device *device, struct entry *entry)
{
	entry->process = get_current_pid_tgid() >> 32;
	asked_by(device, entry->process, 1);
}

INLINE u64 at_most(u64 value, u64 most)
{
	return value < most ? value : most;
}

INLINE void note_place(struct device *device, struct entry *entry)
{
	if (entry->bytes == 0 || (entry->operation > DISCARD && entry->operation != ZEROES)) {
		entry->seek = SEEKS - 1;
		return;
	}
	u64 begin = entry->offset_bytes, end = begin + entry->bytes;
	entry->seek = seek_bucket(device->last_end_bytes, begin);
	device->last_end_bytes = end;
	/* Several sequential streams at once are told apart by where each of them stands. */
	u64 begins = begin >> 9, ends = end >> 9 << 24, sectors = entry->bytes >> 9;
#pragma unroll
	for (u32 number = 0; number < STREAMS; number++) {
		u64 stream = device->streams[number];
		if (stream && stream >> 24 == begins) {
			sectors += stream >> 1 & STREAM_SECTORS;
			device->streams[number] = ends | at_most(sectors, STREAM_SECTORS) << 1 | (stream & 1);
			entry->flags |= IS_SEQUENTIAL;
			return;
		}
	}
	u32 number = device->next_stream++ & (STREAMS - 1);
	u64 over = device->streams[number];
	if (over) {
		u32 length = floor_log2((over >> 1 & STREAM_SECTORS) << 9);
		if (length < RUNS)
			__sync_fetch_and_add(&device->runs[over & 1][length], 1);
	}
	device->streams[number] = ends | at_most(sectors, STREAM_SECTORS) << 1 | (entry->operation != READ);
}

/* What has ended before, of all and of its own process. */
INLINE void note_done(struct device *device, struct entry *entry)
{
	struct asker *asker = asked_by(device, entry->process, 0);
	entry->done = device->done;
	entry->done_own = asker->done;
	entry->changes = asker->changes;
}

/* It goes to the device. */
INLINE void begin(struct device *device, struct entry *entry, u64 now)
{
	if (device->last_arrival_ns && entry->arrived_ns > device->last_arrival_ns) {
		u32 gap = floor_log2(entry->arrived_ns - device->last_arrival_ns);
		entry->gap = gap < GAPS ? gap : GAPS - 1;
	} else {
		entry->gap = 0;
	}
	device->last_arrival_ns = entry->arrived_ns;
	entry->issued_ns = now;
	entry->is_counted = 1;
	note_done(device, entry);
	s64 others = __sync_fetch_and_add(&device->begun, 1) - entry->done;
	entry->depth = others > 0 ? others + 1 : 1;
	note_place(device, entry);
	if (entry->operation == FLUSH_COMMAND && __sync_fetch_and_add(&device->flushing, 1) == 0)
		device->flush_began_ns = now;
}

/* For how long of what ends now a flush command was in the device. */
INLINE u64 beside_flush(const struct device *device, u64 from, u64 to)
{
	u64 begin, end;
	if (device->flushing) {
		begin = device->flush_began_ns;
		end = to;
	} else {
		end = device->flush_ended_ns;
		begin = end - device->flush_last_ns;
	}
	if (begin < from)
		begin = from;
	if (end > to)
		end = to;
	return end > begin ? end - begin : 0;
}

/* `own`: what ended of its own process while it was in the device, or less than 0 where that is not known. */
INLINE void tell(const struct entry *entry, const struct device *device, u64 now, u64 all, s64 own)
{
	struct told *told = ringbuf_reserve(&ring, sizeof(struct told), 0);
	if (!told) {
		struct losses *loss = losses();
		if (loss)
			loss->ring++;
		return;
	}
	told->arrived_ns = entry->arrived_ns;
	told->queued_ns = entry->queued_ns;
	told->issued_ns = entry->issued_ns;
	told->ended_ns = now;
	told->offset_bytes = entry->offset_bytes;
	told->cgroup = entry->cgroup;
	told->flush_ns = entry->operation == FLUSH_COMMAND ? 0 : beside_flush(device, entry->issued_ns, now);
	told->done_others = own >= 0 && all > (u64)own ? all - (u64)own : 0;
	told->done_own = own >= 0 ? own : 0;
	told->done_unknown = own >= 0 ? 0 : all;
	told->bytes = entry->bytes;
	told->part = entry->part;
	told->process = entry->process;
	told->depth = entry->depth;
	told->slot = entry->slot;
	told->operation = entry->operation;
	told->flags = entry->flags;
	told->requeues = entry->requeues;
	ringbuf_submit(told, RINGBUF_NO_WAKEUP);
}

INLINE void lose_owner(void)
{
	struct losses *loss = losses();
	if (loss)
		loss->owners++;
}

/* The number of an account, or a new one. */
INLINE int number_of(const struct owner *owner)
{
	u32 *number = map_lookup(&owners, owner);
	if (number)
		return *number;
	struct filled *are = map_lookup(&filled, &ZERO);
	if (!are || are->accounts >= MOST_OWNERS)
		return -1;
	u32 next = __sync_fetch_and_add(&are->accounts, 1);
	if (next >= MOST_OWNERS)
		return -1;
	if (!map_update(&owners, owner, &next, NO_EXIST))
		return next;
	number = map_lookup(&owners, owner); /* another CPU was faster */
	return number ? (int)*number : -1;
}

INLINE struct account *account_of(struct asker *asker, const struct entry *entry)
{
	struct account *account;
	u32 number = asker->account - 1;
	if (asker->process == entry->process && asker->part == entry->part && asker->cgroup == entry->cgroup) {
		account = map_lookup(&accounts, &number);
		if (account && account->process == entry->process)
			return account;
	}
	struct owner owner = {
		.slot = entry->slot, .part = entry->part, .process = entry->process, .cgroup = entry->cgroup
	};
	int found = number_of(&owner);
	if (found < 0)
		return 0;
	number = found;
	account = map_lookup(&accounts, &number);
	if (!account)
		return 0;
	account->process = entry->process;
	if (asker->process == entry->process) {
		if (account->comm[0] == 0)
			__builtin_memcpy(account->comm, asker->comm, COMM);
		asker->part = entry->part;
		asker->cgroup = entry->cgroup;
		asker->account = number + 1;
	}
	return account;
}

INLINE void count_owner(struct asker *asker, const struct entry *entry, u64 total_ns)
{
	struct account *account = account_of(asker, entry);
	if (!account) {
		lose_owner();
		return;
	}
	struct sums *sums = &account->of[entry->operation & (OPERATIONS - 1)];
	sums->requests++;
	sums->bytes += entry->bytes;
	sums->total_ns += total_ns;
}

INLINE void count_shape(struct cell *cell, const struct entry *entry)
{
	u32 bucket = size_bucket(entry->bytes);
	if (entry->bytes && bucket < SIZES) {
		cell->sizes[bucket]++;
		cell->alignments[alignment_bucket(entry->offset_bytes) & (ALIGNMENTS - 1)]++;
	}
	bucket = entry->seek;
	if (bucket < SEEKS)
		cell->seeks[bucket]++;
	bucket = entry->gap;
	if (bucket < GAPS)
		cell->gaps[bucket]++;
	bucket = unknown(depth_bucket(entry->depth));
	if (bucket < DEPTHS)
		cell->depths[bucket]++;
	if (entry->flags & IS_SEQUENTIAL) {
		cell->sequential++;
		cell->sequential_bytes += entry->bytes;
	}
	if (entry->flags & IS_READ_AHEAD) {
		cell->read_ahead++;
		cell->read_ahead_bytes += entry->bytes;
	}
	cell->sync += entry->flags & IS_SYNC ? 1 : 0;
	cell->meta += entry->flags & IS_META ? 1 : 0;
	if (STRIPE_BYTES && entry->bytes) {
		u64 begin = (entry->offset_bytes + STRIPE_BYTES - 1) / STRIPE_BYTES * STRIPE_BYTES;
		u64 end = (entry->offset_bytes + entry->bytes) / STRIPE_BYTES * STRIPE_BYTES;
		cell->stripe_aligned += begin == entry->offset_bytes;
		if (end > begin)
			cell->stripe_full_bytes += end - begin;
	}
}

/* No time is not counted: whoever reads knows how many there are in all. */
INLINE void count_time(u64 *histogram, u64 *sum, u64 ns)
{
	if (!ns)
		return;
	u32 bucket = time_bucket(ns);
	if (bucket < TIMES)
		histogram[bucket]++;
	*sum += ns;
}

INLINE u64 since(u64 from, u64 to)
{
	return to > from ? to - from : 0;
}

/* It has ended, and everything about it is counted. `device_end` is when the device was done with its data. */
INLINE void end(struct device *device, struct entry *entry, u64 now, int has_requests)
{
	u32 index = entry->slot * OPERATIONS + (entry->operation & (OPERATIONS - 1));
	struct cell *cell = map_lookup(&cells, &index);
	if (!cell)
		return;
	if (!entry->is_counted)
		__sync_fetch_and_add(&device->begun, 1);
	if (entry->operation == FLUSH_COMMAND && __sync_fetch_and_add(&device->flushing, -1) == 1) {
		device->flush_ended_ns = now;
		device->flush_last_ns = now - device->flush_began_ns;
	}
	u64 all = __sync_fetch_and_add(&device->done, 1) - entry->done;
	struct asker *asker = asker_of(device, entry->process);
	s64 own = -1;
	if (asker->process == entry->process) {
		u64 own_done = __sync_fetch_and_add(&asker->done, 1);
		if (asker->changes == entry->changes)
			own = own_done - entry->done_own;
	}
	u64 device_end = entry->data_ended_ns ? entry->data_ended_ns : now;
	u64 total_ns = since(entry->arrived_ns, now);
	cell->requests++;
	cell->bytes += entry->bytes;
	if (entry->flags & IS_ERROR)
		cell->errors++;
	u32 class = unknown(size_class(entry->bytes));
	if (entry->issued_ns && entry->bytes && class < CLASSES) {
		cell->classes[class].requests++;
		cell->classes[class].device_ns += since(entry->issued_ns, device_end);
	}
	if (has_requests) {
		count_time(cell->before, &cell->before_ns, since(entry->arrived_ns, entry->queued_ns));
		if (entry->issued_ns) {
			count_time(cell->queue, &cell->queue_ns, since(entry->queued_ns, entry->issued_ns));
			count_time(cell->device, &cell->device_ns, since(entry->issued_ns, device_end));
			cell->queued += entry->flags & IS_QUEUED ? 1 : 0;
		}
	}
	count_time(cell->total, &cell->total_ns, total_ns);
	if (total_ns > cell->total_max_ns)
		cell->total_max_ns = total_ns;
	count_shape(cell, entry);
	count_owner(asker, entry, total_ns);
	struct control *control = map_lookup(&controls, &ZERO);
	if (control && entry->slot < MOST_DEVICES && (control->exact || total_ns >= control->slow_ns[entry->slot]))
		tell(entry, device, now, all, own);
}

INLINE u64 cgroup_of(struct bio *bio)
{
	return bio->bi_blkg->blkcg->css.cgroup->kn->id;
}

SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *context)
{
	struct bio *bio = (struct bio *)context[0];
	struct block_device *part = bio->bi_bdev;
	struct gendisk *disk = part->bd_disk;
	int slot = slot_of(disk);
	if (slot < 0)
		return 0;
	struct device *device = device_of(slot);
	if (!device)
		return 0;
	u64 now = ktime_get_ns(), key = (u64)bio;
	struct entry *entry = claimed(BIOS, key, now);
	if (!entry)
		return 0;
	if (entry->is_counted)
		settle(entry);
	u32 flags = bio->bi_opf;
	entry->arrived_ns = now;
	entry->queued_ns = now;
	entry->issued_ns = 0;
	entry->data_ended_ns = 0;
	entry->offset_bytes = bio->bi_iter.bi_sector << 9;
	entry->cgroup = cgroup_of(bio);
	entry->bytes = bio->bi_iter.bi_size;
	entry->part = part->bd_dev;
	entry->slot = slot;
	entry->operation = operation_of(flags, entry->bytes);
	entry->flags = flags_of(flags);
	entry->requeues = 0;
	entry->is_counted = 0;
	asked_by_current(device, entry);
	if (!disk->queue->mq_ops) {
		if (!device->by_bios)
			device->by_bios = 1;
		begin(device, entry, now);
	}
	return 0;
}

SEC("tp_btf/block_bio_complete")
int bio_complete(u64 *context)
{
	struct bio *bio = (struct bio *)context[1];
	u64 key = (u64)bio;
	struct entry *entry = found(BIOS, key);
	if (!entry)
		return 0;
	struct device *device = device_of(entry->slot);
	if (device) {
		if (entry->issued_ns) {
			if (bio->bi_status)
				entry->flags |= IS_ERROR;
			end(device, entry, ktime_get_ns(), 0);
		} else {
			__sync_fetch_and_add(&device->turned_away, 1);
		}
	}
	given_back(BIOS, key);
	return 0;
}

/* The first part of a bio that is too large; the rest stays in the bio itself. */
SEC("tp_btf/block_split")
int split(u64 *context)
{
	struct bio *bio = (struct bio *)context[0];
	u64 key = (u64)bio, parent = (u64)bio->bi_private;
	struct entry *whole = found(BIOS, parent);
	if (!whole)
		return 0;
	struct device *device = device_of(whole->slot);
	struct entry *part = claimed(BIOS, key, whole->arrived_ns);
	if (!device || !part)
		return 0;
	__sync_fetch_and_add(&device->splits, 1);
	part->arrived_ns = whole->arrived_ns;
	part->queued_ns = whole->queued_ns;
	part->issued_ns = whole->issued_ns;
	part->data_ended_ns = 0;
	part->offset_bytes = whole->offset_bytes;
	part->cgroup = whole->cgroup;
	part->done = whole->done;
	part->done_own = whole->done_own;
	part->changes = whole->changes;
	part->bytes = bio->bi_iter.bi_size;
	part->part = whole->part;
	part->process = whole->process;
	part->depth = whole->depth;
	part->slot = whole->slot;
	part->operation = whole->operation;
	part->flags = whole->flags;
	part->seek = whole->seek;
	part->gap = whole->gap;
	part->is_counted = 0;
	part->requeues = 0;
	whole->offset_bytes += part->bytes;
	whole->bytes = whole->bytes > part->bytes ? whole->bytes - part->bytes : 0;
	whole->seek = 0;
	whole->gap = 0;
	whole->flags |= IS_SEQUENTIAL;
	return 0;
}

INLINE void merged(struct bio *bio, int keeps)
{
	u64 key = (u64)bio;
	struct entry *entry = found(BIOS, key);
	if (!entry)
		return;
	struct device *device = device_of(entry->slot);
	if (device)
		__sync_fetch_and_add(&device->merged_bios, 1);
	if (!keeps)
		given_back(BIOS, key);
}

SEC("tp_btf/block_bio_backmerge")
int bio_backmerge(u64 *context)
{
	merged((struct bio *)context[0], 0);
	return 0;
}

/* It becomes the first bio of the request. */
SEC("tp_btf/block_bio_frontmerge")
int bio_frontmerge(u64 *context)
{
	merged((struct bio *)context[0], 1);
	return 0;
}

/* A driver's command waits in no queue, has no bio that was queued, and the kernel takes no time when it makes it: what
 * its request has is of what that was before. No request is taken for older than the watch. */
INLINE u64 started_at(const struct request *request, int is_drivers)
{
	u64 started = request->start_time_ns;
	return !is_drivers && started >= BEGAN_NS ? started : 0;
}

/* The entry of a request: taken over from its first bio, or made of what the request itself says. */
INLINE struct entry *entry_of(struct device *device, struct request *request, u32 slot, u64 now)
{
	u64 key = (u64)request, bio = (u64)request->bio;
	struct entry *entry = claimed(REQUESTS, key, now);
	if (!entry)
		return 0;
	if (entry->is_counted)
		settle(entry);
	int is_drivers = (request->cmd_flags & OP_MASK) >= OP_DRIVERS;
	struct entry *first = bio && !is_drivers ? found(BIOS, bio) : 0;
	u64 started;
	if (first) {
		started = request->start_time_ns;
		entry->arrived_ns = first->arrived_ns;
		entry->cgroup = first->cgroup;
		entry->part = first->part;
		entry->process = first->process;
		given_back(BIOS, bio);
	} else {
		started = started_at(request, is_drivers);
		entry->arrived_ns = started && started < now ? started : now;
		entry->cgroup = bio ? cgroup_of(request->bio) : 0;
		entry->part = request->part->bd_dev;
		asked_by_current(device, entry);
	}
	/* The kernel may take the time once for a whole batch, so that a request can seem older than its bio. */
	entry->queued_ns = started > entry->arrived_ns && started < now ? started : entry->arrived_ns;
	entry->issued_ns = 0;
	entry->data_ended_ns = 0;
	entry->slot = slot;
	/* A request that the kernel flushes before or after loses what its bio asked for. */
	entry->flags = flags_of(request->cmd_flags) | (bio ? flags_of(request->bio->bi_opf) : 0);
	entry->is_counted = 0;
	entry->requeues = 0;
	return entry;
}

SEC("tp_btf/block_rq_insert")
int rq_insert(u64 *context)
{
	struct request *request = (struct request *)context[0];
	int slot = slot_of(request->q->disk);
	if (slot < 0)
		return 0;
	struct device *device = device_of(slot);
	if (!device)
		return 0;
	struct entry *entry = found(REQUESTS, (u64)request);
	if (entry && !entry->is_counted)
		return 0; /* again, after it had been requeued */
	entry = entry_of(device, request, slot, ktime_get_ns());
	if (entry)
		entry->flags |= IS_QUEUED;
	return 0;
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *context)
{
	struct request *request = (struct request *)context[0];
	int slot = slot_of(request->q->disk);
	if (slot < 0)
		return 0;
	struct device *device = device_of(slot);
	if (!device)
		return 0;
	u64 now = ktime_get_ns();
	struct entry *entry = found(REQUESTS, (u64)request);
	if (!entry || entry->is_counted)
		entry = entry_of(device, request, slot, now);
	if (!entry)
		return 0;
	/* It may have grown by merges since it was inserted. */
	entry->offset_bytes = request->__sector << 9;
	entry->bytes = request->__data_len;
	entry->operation = operation_of(request->cmd_flags, entry->bytes);
	if (entry->operation == WRITE && entry->flags & (IS_FUA | IS_PREFLUSH))
		entry->operation = WRITE_DURABLE;
	if (entry->operation == FLUSH || entry->operation == FLUSH_COMMAND)
		entry->offset_bytes = 0;
	begin(device, entry, now);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int rq_requeue(u64 *context)
{
	struct request *request = (struct request *)context[0];
	struct entry *entry = found(REQUESTS, (u64)request);
	if (!entry)
		return 0;
	struct device *device = device_of(entry->slot);
	if (!device)
		return 0;
	__sync_fetch_and_add(&device->requeues, 1);
	if (entry->is_counted)
		__sync_fetch_and_add(&device->begun, -1);
	if (entry->operation == FLUSH_COMMAND && entry->is_counted)
		__sync_fetch_and_add(&device->flushing, -1);
	entry->is_counted = 0;
	entry->issued_ns = 0;
	entry->requeues++;
	return 0;
}

SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *context)
{
	struct request *request = (struct request *)context[0];
	int slot = slot_of(request->q->disk);
	if (slot < 0)
		return 0;
	struct device *device = device_of(slot);
	if (device)
		__sync_fetch_and_add(&device->merged_requests, 1);
	given_back(REQUESTS, (u64)request);
	given_back(BIOS, (u64)request->bio);
	return 0;
}

/* Of a write that is flushed before or after, the data have ended, and the request has not. */
INLINE int is_in_sequence(const struct request *request)
{
	u32 in_sequence = ENUM_EXISTS(rqf_flags, __RQF_FLUSH_SEQ) ? 1u << ENUM_VALUE(rqf_flags, __RQF_FLUSH_SEQ) : 1u << 4;
	return (request->cmd_flags & OP_MASK) != OP_FLUSH && request->rq_flags & in_sequence;
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *context)
{
	struct request *request = (struct request *)context[0];
	u32 status = context[1], bytes = context[2];
	int slot = slot_of(request->q->disk);
	if (slot < 0)
		return 0;
	struct device *device = device_of(slot);
	if (!device)
		return 0;
	u64 now = ktime_get_ns();
	u32 flags = request->cmd_flags;
	if (!status && bytes < request->__data_len)
		return 0; /* a part of it; the rest goes on */
	struct entry *entry = found(REQUESTS, (u64)request);
	if (entry && status)
		entry->flags |= IS_ERROR;
	if (is_in_sequence(request)) {
		if (entry)
			entry->data_ended_ns = now;
		return 0;
	}
	if (!entry) {
		/* Flushes without data are never issued: the kernel makes a flush command for all of them. */
		if ((flags & OP_MASK) != OP_WRITE || request->__data_len || !request->bio) {
			struct losses *loss = losses();
			if (loss)
				loss->unknown++;
			return 0;
		}
		entry = entry_of(device, request, slot, now);
		if (!entry)
			return 0;
		entry->offset_bytes = 0;
		entry->bytes = 0;
		entry->operation = FLUSH;
		entry->depth = 0;
		entry->seek = SEEKS - 1;
		entry->gap = 0;
		note_done(device, entry);
		if (status)
			entry->flags |= IS_ERROR;
	}
	end(device, entry, now, 1);
	given_back(REQUESTS, (u64)request);
	return 0;
}

/* The same end again, for those that `rq_complete` missed: the kernel runs no program while the same program is
 * interrupted on that CPU, and this one is another. An entry that is still there has not been counted. It is attached
 * once the kernel has left out a run. */
SEC("tp_btf/block_rq_complete")
int rq_complete_missed(u64 *context)
{
	struct request *request = (struct request *)context[0];
	u32 status = context[1], bytes = context[2];
	int slot = slot_of(request->q->disk);
	if (slot < 0)
		return 0;
	struct entry *entry = found(REQUESTS, (u64)request);
	if (!entry || !entry->is_counted || (!status && bytes < request->__data_len))
		return 0;
	struct device *device = device_of(slot);
	if (!device)
		return 0;
	u64 now = ktime_get_ns();
	if (is_in_sequence(request)) {
		if (!entry->data_ended_ns)
			entry->data_ended_ns = now;
		return 0;
	}
	if (status)
		entry->flags |= IS_ERROR;
	end(device, entry, now, 1);
	given_back(REQUESTS, (u64)request);
	return 0;
}
