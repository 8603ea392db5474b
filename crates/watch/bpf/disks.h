/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Duty: which disks are watched, for every program. Refusal: counts nothing. */
#ifndef BRICKYARD_DISKS_H
#define BRICKYARD_DISKS_H

#include "kernel.h"
#include "shared.h"

const volatile u32 DEVICES[MOST_DEVICES] = {};
const volatile u32 DEVICE_COUNT = 0;

/* The number of a disk among those that are watched, or -1. */
INLINE int slot_of(const struct gendisk *disk)
{
	u32 number = disk->part0->bd_dev;
	for (u32 slot = 0; slot < MOST_DEVICES; slot++) {
		if (slot >= DEVICE_COUNT)
			break;
		if (DEVICES[slot] == number)
			return slot;
	}
	return -1;
}

#endif
