/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Duty: how much of what the kernel reads ahead is used later.
 *
 * A bio that is marked as read-ahead has pages of the page cache, and these say which file they are of and where in it.
 * They wait, as bits of 64 pages each, until a program uses them or until they leave the cache. So nothing has to be
 * known of file systems, partitions and arrays, and what waits is only what was not used yet.
 *
 * Refusal: changes nothing, waits for nothing, and reads no data. */
#include "disks.h"
#include "kernel.h"
#include "shared.h"

const char LICENSE[] SEC("license") = "GPL";

const volatile u32 PAGE_SHIFT = 12;

#define FILES 16384
#define READERS 4096
#define PLACES 131072
#define PAGES 64
/* A bio has at most 256 parts; a part begins another place now and then. */
#define MOST_PARTS 320
/* 32 MiB of a file: a read that is longer comes again for the rest. */
#define MOST_PLACES 128
/* 2 GiB, of which no read takes more. */
#define MOST_TAKEN_PLACES 8193

/* By the address of its `address_space`. */
struct read_file {
	u64 slots; /* the devices from which it was read ahead */
	u64 waiting;
};

struct place {
	u64 mapping;
	u64 number; /* of 64 pages */
	u64 slot;
};

/* The verifier looks at it once by itself, not at each turn of a loop. */
#define APART __attribute__((noinline))

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, FILES);
	__type(key, u64);
	__type(value, struct read_file);
} files SEC(".maps");

/* Pages that were read ahead and not used yet. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct place);
	__type(value, u64);
} waiting SEC(".maps");

struct reader {
	u64 thread;
	u64 mapping;
};

/* Pages that a read asked for when it was last seen. */
struct asked {
	u64 first;
	u64 last;
	u64 count; /* of a read that was seen from its first page on, or else of the rest of one */
};

struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, READERS);
	__type(key, struct reader);
	__type(value, struct asked);
} readers SEC(".maps");

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, MOST_DEVICES);
	__type(key, u32);
	__type(value, struct ahead);
} aheads SEC(".maps");

static const u64 NONE = 0;
static const struct read_file NO_FILE = {};

INLINE struct ahead *ahead_of(u32 slot)
{
	return map_lookup(&aheads, &slot);
}

INLINE u64 ones(u64 value)
{
	value -= value >> 1 & 0x5555555555555555;
	value = (value & 0x3333333333333333) + (value >> 2 & 0x3333333333333333);
	return ((value + (value >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56;
}

/* Of a place, the pages from one to another. */
INLINE u64 pages_of(u64 first, u64 last)
{
	return ~0ull << (first & (PAGES - 1)) & ~0ull >> (PAGES - 1 - (last & (PAGES - 1)));
}

/* An address as a number, which the verifier lets a function have. */
INLINE u64 number_in(const u64 *word)
{
	u64 number = 0;
	probe_read_kernel(&number, sizeof(number), word);
	return number;
}

INLINE struct read_file *file_of(u64 mapping, u32 slot)
{
	struct read_file *file = map_lookup(&files, &mapping);
	if (!file) {
		map_update(&files, &mapping, &NO_FILE, NO_EXIST);
		file = map_lookup(&files, &mapping);
	}
	if (file && !(file->slots & 1ull << slot))
		__sync_fetch_and_or(&file->slots, 1ull << slot);
	return file;
}

/* From now on they wait. */
APART int follow(u64 mapping, u64 number, u32 slot, u64 pages)
{
	struct ahead *ahead = ahead_of(slot);
	if (!pages || !ahead || slot >= MOST_DEVICES)
		return 0;
	struct place place = { .mapping = mapping, .number = number, .slot = slot };
	struct read_file *file = file_of(mapping, slot);
	u64 *wait = file ? map_lookup(&waiting, &place) : 0;
	if (file && !wait) {
		map_update(&waiting, &place, &NONE, NO_EXIST);
		wait = map_lookup(&waiting, &place);
	}
	if (!file || !wait) {
		ahead->unfollowed += ones(pages) << PAGE_SHIFT;
		return 0;
	}
	u64 more = ones(pages & ~__sync_fetch_and_or(wait, pages));
	__sync_fetch_and_add(&file->waiting, more);
	ahead->followed += more << PAGE_SHIFT;
	return 0;
}

/* Where in which file a page of the cache is; no `mapping` where it is none of a file's. */
struct spot {
	u64 mapping;
	u64 index;
};

INLINE struct spot spot_of(u64 page)
{
	struct spot spot = {};
	u64 head = 0;
	probe_read_kernel(&head, sizeof(head), &((struct page *)page)->compound_head);
	head = head & 1 ? head - 1 : page;
	const struct folio *folio = (const struct folio *)head;
	probe_read_kernel(&spot.mapping, sizeof(u64), &folio->mapping);
	probe_read_kernel(&spot.index, sizeof(u64), &folio->index);
	spot.index += (page - head) / SIZE_OF(struct page);
	if (spot.mapping & 3) /* anonymous memory, or a driver's */
		spot.mapping = 0;
	return spot;
}

/* Where in a bio its walk is. It stands in a map, since the verifier knows nothing of what it reads from there: so one
 * turn of the loop is like the next one to it. A program is not begun again while it is interrupted on its CPU. */
struct walk {
	u64 part; /* the next one's address */
	u32 left;
	u32 skip;
	u64 slot;
	struct spot spot;
	u64 count; /* of pages from there on */
	struct spot place; /* `index` is of 64 pages */
	u64 pages;
};

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} walks SEC(".maps");

static const u32 ZERO = 0;

/* Whether there is another part. */
INLINE int next_part(struct walk *walk)
{
	struct bio_vec data = {};
	if (!walk->left || probe_read_kernel(&data, sizeof(data), (void *)walk->part))
		return 0;
	/* Copies have no place that a loader would have to find. */
	u32 length = *(volatile u32 *)&data.bv_len, offset = *(volatile u32 *)&data.bv_offset;
	u64 at = offset + walk->skip;
	u32 bytes = length - walk->skip;
	if (bytes > walk->left)
		bytes = walk->left;
	walk->spot = spot_of((u64)data.bv_page + (at >> PAGE_SHIFT) * SIZE_OF(struct page));
	at &= (1ull << PAGE_SHIFT) - 1;
	walk->count = (at + bytes + (1ull << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
	walk->left -= bytes;
	walk->skip = 0;
	walk->part += sizeof(struct bio_vec);
	struct ahead *ahead = ahead_of(walk->slot);
	if (!walk->spot.mapping) {
		walk->count = 0;
		if (ahead)
			ahead->unfollowed += bytes;
	}
	return 1;
}

INLINE void follow_walked(struct walk *walk)
{
	follow(walk->place.mapping, walk->place.index, walk->slot, walk->pages);
	walk->pages = 0;
}

/* Whether the bio goes on. */
APART int step(void)
{
	struct walk *walk = map_lookup(&walks, &ZERO);
	if (!walk || (!walk->count && !next_part(walk)))
		return 0;
	if (!walk->count)
		return 1;
	u64 index = walk->spot.index, more = PAGES - (index & (PAGES - 1));
	if (more > walk->count)
		more = walk->count;
	if (walk->place.mapping != walk->spot.mapping || walk->place.index != index / PAGES) {
		follow_walked(walk);
		walk->place.mapping = walk->spot.mapping;
		walk->place.index = index / PAGES;
	}
	walk->pages |= pages_of(index, index + more - 1);
	walk->spot.index += more;
	walk->count -= more;
	return 1;
}

SEC("tp_btf/block_bio_queue")
int read_ahead(u64 *context)
{
	struct bio *bio = (struct bio *)context[0];
	u32 flags = bio->bi_opf;
	if ((flags & OP_MASK) != OP_READ || !(flags & 1u << __REQ_RAHEAD))
		return 0;
	int slot = slot_of(bio->bi_bdev->bd_disk);
	struct walk *walk = map_lookup(&walks, &ZERO);
	if (slot < 0 || !walk)
		return 0;
	walk->part = number_in((const u64 *)&bio->bi_io_vec) + (u64)bio->bi_iter.bi_idx * sizeof(struct bio_vec);
	walk->left = bio->bi_iter.bi_size;
	walk->skip = bio->bi_iter.bi_bvec_done;
	walk->slot = slot;
	walk->count = 0;
	walk->place.mapping = 0;
	walk->pages = 0;
	for (u32 number = 0; number < MOST_PARTS; number++)
		if (!step())
			break;
	follow_walked(walk);
	return 0;
}

enum fate { USED, MAPPED, DROPPED };

/* They wait no longer. */
APART int settle(u64 mapping, u64 number, u32 slot, u64 pages, u32 fate)
{
	struct place place = { .mapping = mapping, .number = number, .slot = slot };
	u64 *wait = map_lookup(&waiting, &place);
	if (!wait || !(*wait & pages))
		return 0;
	u64 before = __sync_fetch_and_and(wait, ~pages), fewer = ones(before & pages);
	if (!(before & ~pages))
		map_delete(&waiting, &place);
	struct read_file *file = map_lookup(&files, &mapping);
	if (file)
		__sync_fetch_and_add(&file->waiting, -fewer);
	struct ahead *ahead = ahead_of(slot);
	if (!ahead)
		return 0;
	if (fate == DROPPED)
		ahead->dropped += fewer << PAGE_SHIFT;
	else
		ahead->used += fewer << PAGE_SHIFT;
	if (fate == MAPPED)
		ahead->mapped += fewer << PAGE_SHIFT;
	return 0;
}

/* Of a place, the pages up to its end or to the last one, whichever device they are from. */
APART int settle_place(u64 mapping, u64 first, u64 last, u32 fate)
{
	u64 number = first / PAGES;
	if (last > number * PAGES + PAGES - 1)
		last = number * PAGES + PAGES - 1;
	u64 pages = pages_of(first, last);
	volatile struct read_file *file = map_lookup(&files, &mapping);
	if (!file)
		return 0;
	/* What is read again at each turn is nothing that the verifier would have to tell apart. */
	for (u32 slot = 0; slot < MOST_DEVICES; slot++) {
		if (!(file->slots >> slot))
			break;
		if (file->slots >> slot & 1)
			settle(mapping, number, slot, pages, fate);
	}
	return 0;
}

/* A read can ask for more than the file has. */
INLINE u64 last_of(const struct address_space *mapping, u64 last)
{
	u64 size = mapping->host->i_size;
	u64 most = size ? (size - 1) >> PAGE_SHIFT : 0;
	return last < most ? last : most;
}

/* `whole`: a file that may end before the last one. */
INLINE void ends_up_to(u64 mapping, u64 first, u64 last, enum fate fate, const struct address_space *whole, u32 most)
{
	struct read_file *file = map_lookup(&files, &mapping);
	if (!file)
		return;
	if (!file->waiting) {
		if (fate == DROPPED) /* the file itself may be about to go */
			map_delete(&files, &mapping);
		return;
	}
	if (whole && last - first > PAGES)
		last = last_of(whole, last);
	for (u32 step = 0; step < most && first <= last; step++) {
		settle_place(mapping, first, last, fate);
		first = (first | (PAGES - 1)) + 1;
	}
}

INLINE void ends(u64 mapping, u64 first, u64 last, enum fate fate, const struct address_space *whole)
{
	ends_up_to(mapping, first, last, fate, whole, MOST_PLACES);
}

/* It is read by its address alone: of a union, the verifier knows the first member, and takes a folio for a page. */
INLINE void ends_folio(u64 address, enum fate fate)
{
	const struct folio *folio = (const struct folio *)address;
	struct spot spot = {};
	u64 flags = 0;
	u32 count = 1;
	probe_read_kernel(&spot.mapping, sizeof(u64), &folio->mapping);
	probe_read_kernel(&spot.index, sizeof(u64), &folio->index);
	probe_read_kernel(&flags, sizeof(flags), folio); /* they come first, whatever their type is called */
	if (flags & 1ull << ENUM_VALUE(pageflags, PG_head)) {
		if (FIELD_EXISTS(folio->_nr_pages))
			probe_read_kernel(&count, sizeof(count), &folio->_nr_pages);
		else
			probe_read_kernel(&count, sizeof(count), &((const struct folio___before *)address)->_folio_nr_pages);
	}
	ends(spot.mapping, spot.index, spot.index + count - 1, fate, 0);
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int dropped(u64 *context)
{
	ends_folio(number_in(context), DROPPED);
	return 0;
}

/* From where on a read has taken pages. A batch before a folio that is still being read is taken without the tracepoint:
 * within a read, batches follow each other, and a read follows another where it is then as long as one that was seen from
 * its first page on. */
INLINE u64 taken_from(u64 mapping, u64 first, u64 last)
{
	struct reader who = { .thread = get_current_pid_tgid(), .mapping = mapping };
	struct asked *before = map_lookup(&readers, &who);
	struct asked now = { .first = first, .last = last, .count = last - first + 1 };
	if (!before) {
		map_update(&readers, &who, &now, 0);
		return first;
	}
	u64 from = first;
	if (before->last == last && before->first <= first)
		from = before->first;
	else if (first == before->last + 1)
		before->count = now.count;
	else if (first > before->last && last == before->last + before->count)
		from = before->last + 1;
	before->first = first;
	before->last = last;
	return from;
}

/* What a read takes from the cache: from here to where the read ends, again for most batches. */
SEC("tp_btf/mm_filemap_get_pages")
int used(u64 *context)
{
	const struct address_space *mapping = (const struct address_space *)context[0];
	u64 address = number_in(context), last = context[2];
	if (!map_lookup(&files, &address))
		return 0;
	u64 first = context[1], from = taken_from(address, first, last);
	if (from < first)
		ends_up_to(address, from, first - 1, USED, 0, MOST_TAKEN_PLACES);
	ends(address, first, last, USED, mapping);
	return 0;
}

/* A page that is touched through memory, and was not mapped. */
SEC("tp_btf/mm_filemap_fault")
int faulted(u64 *context)
{
	ends(number_in(context), context[1], context[1], USED, 0);
	return 0;
}

/* The pages around one that is touched through memory, as far as they are in the cache. */
SEC("tp_btf/mm_filemap_map_pages")
int mapped(u64 *context)
{
	ends(number_in(context), context[1], context[2], MAPPED, 0);
	return 0;
}

/* A file system looks at its own data. */
SEC("tp_btf/block_touch_buffer")
int touched(u64 *context)
{
	const struct buffer_head *head = (const struct buffer_head *)context[0];
	ends_folio(number_in((const u64 *)&head->b_folio), USED);
	return 0;
}

/* The same for kernels without these tracepoints, by the functions themselves. */
SEC("fentry/folio_mark_accessed")
int used_folio(u64 *context)
{
	ends_folio(number_in(context), USED);
	return 0;
}

SEC("fentry/filemap_fault")
int faulted_by(u64 *context)
{
	const struct vm_fault *fault = (const struct vm_fault *)context[0];
	ends(number_in((const u64 *)&fault->vma->vm_file->f_mapping), fault->pgoff, fault->pgoff, USED, 0);
	return 0;
}

SEC("fentry/filemap_map_pages")
int mapped_by(u64 *context)
{
	const struct vm_fault *fault = (const struct vm_fault *)context[0];
	ends(number_in((const u64 *)&fault->vma->vm_file->f_mapping), context[1], context[2], MAPPED, 0);
	return 0;
}
