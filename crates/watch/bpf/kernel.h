/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Duty: what of the kernel `watch.bpf.c` reads, as CO-RE types: the loader finds where each field is in the kernel that
 * runs. Refusal: no field that is not read. */
#ifndef BRICKYARD_KERNEL_H
#define BRICKYARD_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define RELOCATED __attribute__((preserve_access_index))

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} RELOCATED;

struct blkcg {
	struct cgroup_subsys_state css;
} RELOCATED;

struct blkcg_gq {
	struct blkcg *blkcg;
} RELOCATED;

struct request_queue {
	const void *mq_ops;
	struct gendisk *disk;
} RELOCATED;

struct gendisk {
	struct block_device *part0;
	struct request_queue *queue;
} RELOCATED;

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
} RELOCATED;

struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
	u32 bi_idx;
	u32 bi_bvec_done;
} RELOCATED;

struct bio_vec;

struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
} RELOCATED;

/* Where data stand in memory; a bio has an array of these. */
struct bio_vec {
	struct page *bv_page;
	u32 bv_len;
	u32 bv_offset;
} RELOCATED;

struct page {
	u64 compound_head;
} RELOCATED;

struct inode {
	s64 i_size;
} RELOCATED;

struct address_space {
	struct inode *host;
} RELOCATED;

struct folio {
	struct address_space *mapping;
	u64 index;
	u32 _nr_pages;
} RELOCATED;

/* Before 6.15 the count had this name. */
struct folio___before {
	u32 _folio_nr_pages;
} RELOCATED;

struct buffer_head {
	struct folio *b_folio;
} RELOCATED;

struct file {
	struct address_space *f_mapping;
} RELOCATED;

struct vm_area_struct {
	struct file *vm_file;
} RELOCATED;

struct vm_fault {
	struct vm_area_struct *vma;
	u64 pgoff;
} RELOCATED;

enum pageflags {
	PG_head = 6,
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
	struct block_device *part;
	u64 start_time_ns;
} RELOCATED;

/* Since 6.11 the bits of `rq_flags` are an enum; before, this bit was 4. */
enum rqf_flags {
	__RQF_FLUSH_SEQ = 1,
};

/* Operations and flags of `cmd_flags` and `bi_opf`; those used here have had these values since 4.10, but for
 * REQ_FUA and the bits after it, which an enum names. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
};

#define OP_MASK 0xff
#define OP_READ 0
#define OP_WRITE 1
#define OP_FLUSH 2
#define OP_DISCARD 3
#define OP_SECURE_ERASE 5
#define OP_ZONE_APPEND 7
#define OP_WRITE_ZEROES 9
/* From here on a driver's own; before 5.14, SCSI had two of them. */
#define OP_DRIVERS 32

/* What libbpf's headers would bring. */
#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_HASH = 5, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static long (*const get_current_comm)(void *to, u32 bytes) = (void *)16;
static long (*const probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static void *(*const ringbuf_reserve)(void *map, u64 bytes, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;

#define RINGBUF_NO_WAKEUP 1
#define NO_EXIST 1
/* Such a map begins at a page, so that its values keep to the lines of the cache. */
#define MMAPABLE (1 << 10)

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)
#define ENUM_EXISTS(kind, value) __builtin_preserve_enum_value(*(typeof(enum kind) *)value, 0)
#define ENUM_VALUE(kind, value) __builtin_preserve_enum_value(*(typeof(enum kind) *)value, 1)

#endif
