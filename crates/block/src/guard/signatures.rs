//! What a block device carries, by the marks that file systems, partition tables, RAID and volume managers leave.
//!
//! A mark too many costs the user one more option, a mark too few costs them their data: where a mark is ambiguous it counts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Places of marks are as libblkid, the kernel's headers or the format's own specification give them.
struct Mark {
    what: &'static str,
    at: u64,
    bytes: &'static [u8],
}

const fn mark(what: &'static str, at: u64, bytes: &'static [u8]) -> Mark {
    Mark { what, at, bytes }
}

/// From the start of the device or partition.
const FROM_START: &[Mark] = &[
    mark("XFS", 0, b"XFSB"),
    mark("btrfs", 0x1_0040, b"_BHRfS_M"),
    mark("F2FS", 0x400, &[0x10, 0x20, 0xF5, 0xF2]),
    mark("NTFS", 3, b"NTFS    "),
    mark("exFAT", 3, b"EXFAT   "),
    mark("BitLocker", 3, b"-FVE-FS-"),
    mark("ReFS", 3, b"ReFS\0\0\0\0"),
    mark("FAT", 0x36, b"FAT1"),
    mark("FAT", 0x36, b"FAT "),
    mark("FAT", 0x52, b"FAT32"),
    mark("ISO9660", 0x8001, b"CD001"),
    mark("UDF", 0x8001, b"BEA01"),
    mark("APFS", 32, b"NXSB"),
    mark("HFS+", 0x400, b"H+\0\x04"),
    mark("HFS+", 0x400, b"HX\0\x05"),
    mark("HFS", 0x400, b"BD"),
    mark("JFS", 0x8000, b"JFS1"),
    mark("ReiserFS", 0x1_0034, b"ReIsEr"),
    mark("Reiser4", 0x1_0000, b"ReIsEr4"),
    mark("NILFS2", 0x406, &[0x34, 0x34]),
    mark("GFS2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
    mark("OCFS2", 0x400, b"OCFSV2"),
    mark("OCFS2", 0x800, b"OCFSV2"),
    mark("OCFS2", 0x1000, b"OCFSV2"),
    mark("OCFS2", 0x2000, b"OCFSV2"),
    // fs_magic at byte 1372 of a superblock, which has one of four places (FreeBSD, ufs/ffs/fs.h: SBLOCKSEARCH).
    mark("UFS2", 65536 + 1372, UFS2),
    mark("UFS2", 8192 + 1372, UFS2),
    mark("UFS2", 1372, UFS2),
    mark("UFS2", 262_144 + 1372, UFS2),
    mark("UFS2", 65536 + 1372, UFS2_SWAPPED),
    mark("UFS2", 8192 + 1372, UFS2_SWAPPED),
    mark("UFS2", 1372, UFS2_SWAPPED),
    mark("UFS2", 262_144 + 1372, UFS2_SWAPPED),
    mark("UFS", 8192 + 1372, UFS1),
    mark("UFS", 65536 + 1372, UFS1),
    mark("UFS", 1372, UFS1),
    mark("UFS", 262_144 + 1372, UFS1),
    mark("UFS", 8192 + 1372, UFS1_SWAPPED),
    mark("UFS", 65536 + 1372, UFS1_SWAPPED),
    mark("UFS", 1372, UFS1_SWAPPED),
    mark("UFS", 262_144 + 1372, UFS1_SWAPPED),
    // Linux' magic.h and minix_fs.h: byte 16 of the superblock at 1024; version 3 has its mark at byte 24.
    mark("minix", 0x410, &[0x7F, 0x13]),
    mark("minix", 0x410, &[0x8F, 0x13]),
    mark("minix", 0x410, &[0x68, 0x24]),
    mark("minix", 0x410, &[0x78, 0x24]),
    mark("minix", 0x410, &[0x13, 0x7F]),
    mark("minix", 0x410, &[0x13, 0x8F]),
    mark("minix", 0x410, &[0x24, 0x68]),
    mark("minix", 0x410, &[0x24, 0x78]),
    mark("minix", 0x418, &[0x5A, 0x4D]),
    mark("minix", 0x418, &[0x4D, 0x5A]),
    // Linux' dm-integrity.c (SB_MAGIC) and cryptsetup's verity.c (VERITY_SIGNATURE).
    mark("dm-integrity", 0, b"integrt\0"),
    mark("dm-verity hashes", 0, b"verity\0\0"),
    mark("squashfs", 0, b"hsqs"),
    mark("EROFS", 0x400, &[0xE2, 0xE1, 0xF5, 0xE0]),
    mark("VMFS", 0x10_0000, &[0x0D, 0xD0, 0x01, 0xC0]),
    mark("VMFS", 0x20_0000, &[0x5E, 0xF1, 0xAB, 0x2F]),
    mark("Ceph BlueStore", 0, b"bluestore block device"),
    mark("Oracle ASM", 32, b"ORCLDISK"),
    mark("Stratis", 0x204, b"!Stra0tis\x86\xff\x02^\x41rh"),
    mark("VDO", 0, b"dmvdo001"),
    mark("LUKS", 0, b"LUKS\xba\xbe"),
    // Second header of LUKS2, behind the first at one of its permitted sizes.
    mark("LUKS2", 0x4000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x8000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x1_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x2_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x4_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x8_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x10_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x20_0000, b"SKUL\xba\xbe"),
    mark("LUKS2", 0x40_0000, b"SKUL\xba\xbe"),
    mark("LVM physical volume", 0, b"LABELONE"),
    mark("LVM physical volume", 512, b"LABELONE"),
    mark("LVM physical volume", 1024, b"LABELONE"),
    mark("LVM physical volume", 1536, b"LABELONE"),
    mark("md RAID member (1.1)", 0, MD),
    mark("md RAID member (1.2)", 4096, MD),
    mark("bcache", 4120, &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA]),
    mark("bcachefs", 4120, &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9]),
    mark("GPT partition table", 512, b"EFI PART"),
    mark("GPT partition table", 4096, b"EFI PART"),
    mark("Apple partition map", 512, b"PM\0\0"),
    mark("Sun disk label", 508, &[0xDA, 0xBE]),
    mark("SGI disk label", 0, &[0x0B, 0xE5, 0xA9, 0x41]),
    mark("BSD disk label", 64, &[0x57, 0x45, 0x56, 0x82]),
    mark("BSD disk label", 512, &[0x57, 0x45, 0x56, 0x82]),
    // Also the boot sector of a file system, which is no reason to write over it.
    mark("MBR partition table or boot sector", 510, &[0x55, 0xAA]),
];

/// From the end, counted backwards.
const FROM_END: &[Mark] = &[
    mark("GPT partition table (backup)", 512, b"EFI PART"),
    mark("GPT partition table (backup)", 4096, b"EFI PART"),
    mark("DDF RAID member", 512, DDF),
    mark("DDF RAID member", 512, DDF_SWAPPED),
    mark("DDF RAID member", 257 * 512, DDF),
    mark("DDF RAID member", 257 * 512, DDF_SWAPPED),
    mark("Intel RAID member", 1024, b"Intel Raid ISM Cfg Sig. "),
    mark("Intel RAID member", 8192, b"Intel Raid ISM Cfg Sig. "),
    // The four generations of DRBD's metadata block, in its last page.
    mark("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6A]),
    mark("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6B]),
    mark("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6C]),
    mark("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6D]),
];

/// ffs/fs.h: 0x19540119 and 0x00011954, in the byte order of the host that made it.
const UFS2: &[u8] = &[0x19, 0x01, 0x54, 0x19];
const UFS2_SWAPPED: &[u8] = &[0x19, 0x54, 0x01, 0x19];
const UFS1: &[u8] = &[0x54, 0x19, 0x01, 0x00];
const UFS1_SWAPPED: &[u8] = &[0x00, 0x01, 0x19, 0x54];

/// md_p.h: 0xa92b4efc. Version 1 is little-endian, 0.90 of the byte order of its host.
const MD: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
const MD_SWAPPED: &[u8] = &[0xA9, 0x2B, 0x4E, 0xFC];
const DDF: &[u8] = &[0xDE, 0x11, 0xDE, 0x11];
const DDF_SWAPPED: &[u8] = &[0x11, 0xDE, 0x11, 0xDE];

/// A device, or the part of it that a partition covers.
struct Area<'a> {
    file: &'a File,
    start_bytes: u64,
    length_bytes: u64,
}

impl Area<'_> {
    /// Fills what it can; beyond the end are zeros.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0);
        let room = self.length_bytes.saturating_sub(at).min(buffer.len() as u64) as usize;
        match self.file.read_exact_at(&mut buffer[..room], self.start_bytes + at) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(()), // a partition beyond the end of its disk
            other => other,
        }
    }

    fn has(&self, at: u64, bytes: &[u8]) -> io::Result<bool> {
        let mut buffer = [0; 32];
        let buffer = &mut buffer[..bytes.len()];
        self.read(at, buffer)?;
        Ok(buffer == bytes)
    }
}

/// Everything found in a part of a device, each name once. A signature that cannot be read is an error: it may be there.
pub fn scan(file: &File, start_bytes: u64, length_bytes: u64) -> io::Result<Vec<String>> {
    let area = Area { file, start_bytes, length_bytes };
    let mut found: Vec<String> = Vec::new();
    let mut note = |what: &str| {
        if !found.iter().any(|known| known == what) {
            found.push(what.into());
        }
    };
    if let Some(ext) = ext_version(&area)? {
        note(ext);
    }
    for mark in FROM_START {
        if area.has(mark.at, mark.bytes)? {
            note(mark.what);
        }
    }
    for mark in FROM_END {
        if length_bytes >= mark.at && area.has(length_bytes - mark.at, mark.bytes)? {
            note(mark.what);
        }
    }
    if has_swap(&area)? {
        note("swap");
    }
    for (what, at) in md_at_end(length_bytes) {
        if area.has(at, MD)? || area.has(at, MD_SWAPPED)? {
            note(what);
        }
    }
    if has_zfs_label(&area)? {
        note("ZFS");
    }
    Ok(found)
}

/// The three share a superblock and its mark; features tell them apart.
fn ext_version(area: &Area) -> io::Result<Option<&'static str>> {
    let mut superblock = [0; 1024];
    area.read(1024, &mut superblock)?;
    if superblock[56..58] != [0x53, 0xEF] {
        return Ok(None);
    }
    let has_journal = superblock[0x5C] & 0x04 != 0;
    // Incompatible features that ext3 does not know: extents, 64bit, flex_bg and later.
    let is_ext4 = superblock[0x60] & 0xC0 != 0 || superblock[0x61] != 0 || superblock[0x62] != 0;
    Ok(Some(match (is_ext4, has_journal) {
        (true, _) => "ext4",
        (false, true) => "ext3",
        (false, false) => "ext2",
    }))
}

/// The mark ends the first page, of whatever size pages were where it was made; a hibernated system has others there.
fn has_swap(area: &Area) -> io::Result<bool> {
    for page_bytes in [4096u64, 8192, 16384, 32768, 65536] {
        for bytes in [&b"SWAPSPACE2"[..], b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"] {
            if area.has(page_bytes - 10, bytes)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Where md keeps superblocks that are counted from the end (Documentation of md, and super0.c and super1.c of mdadm).
fn md_at_end(length_bytes: u64) -> Vec<(&'static str, u64)> {
    let mut places = Vec::new();
    // 0.90: the last whole 64 KiB but one.
    if let Some(at) = (length_bytes & !0xFFFF).checked_sub(0x1_0000) {
        places.push(("md RAID member (0.90)", at));
    }
    // 1.0: 8 KiB from the end, rounded down to 4 KiB.
    if let Some(at) = (length_bytes & !0x1FF).checked_sub(8192) {
        places.push(("md RAID member (1.0)", at & !0xFFF));
    }
    places
}

/// Four labels of 256 KiB, two at each end; the second half of each is a ring of uberblocks of at least 1 KiB
/// (ZFS On-Disk Specification, chapter 1).
fn has_zfs_label(area: &Area) -> io::Result<bool> {
    const LABEL_BYTES: u64 = 256 << 10;
    const RING_BYTES: usize = 128 << 10;
    const UBERBLOCK: u64 = 0x00BA_B10C;
    let labels = area.length_bytes / LABEL_BYTES;
    let mut ring = vec![0u8; RING_BYTES];
    let mut starts = vec![0, 1, labels.saturating_sub(2), labels.saturating_sub(1)];
    starts.dedup();
    for label in starts {
        area.read(label * LABEL_BYTES + RING_BYTES as u64, &mut ring)?;
        for uberblock in ring.chunks_exact(1024) {
            if uberblock[..8] == UBERBLOCK.to_le_bytes() || uberblock[..8] == UBERBLOCK.to_be_bytes() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
