//! What a file system makes of one file: where its pages lie, which blocks of pointers are needed to find them, and what a
//! journal writes. The file is there before the run, as it is on real storage, so that nothing is allocated.
//!
//! - ext2 (Linux Documentation/filesystems/ext2.rst; e2fsprogs, mke2fs): groups of 32,768 blocks of 4 KiB, each with a copy
//!   of superblock and descriptors, two bitmaps and 512 blocks of inodes (one of 128 B for 8 KiB); a file fills one group
//!   after the other; behind its first 12 blocks lies a block of 1,024 pointers before each 1,024 blocks.
//! - ext3 (Documentation/filesystems/ext3.txt): the same, and a journal in the first group. A commit after 5 s or by fsync
//!   writes all dirty pages first (data=ordered), then a descriptor and the changed block, then the commit block.
//! - XFS (Documentation/admin-guide/xfs.rst; mkfs.xfs(8)): one extent, a log in the middle of the volume, a record of two
//!   sectors after 30 s (`xfssyncd_centisecs`) or by fsync.

use crate::brick::FileSystem;

/// Numbers of pages that are no file's: this and the page of the volume.
pub const META: u64 = 1 << 60;
const GROUP: u64 = 32_768;
const INODE_TABLE: u64 = 512;
/// Superblock, descriptors, two bitmaps and the inodes. Groups without copies of the first two differ by two blocks.
const GROUP_META: u64 = 4 + INODE_TABLE;
const DIRECT: u64 = 12;
const POINTERS: u64 = 1024;
/// With blocks of 4 KiB a file system has up to 16,384 GiB and a file up to 2,048 GiB (Documentation/filesystems/ext2.rst).
const EXT_PAGES_MAX: u64 = 16 << 28;
const EXT_FILE_PAGES_MAX: u64 = 2 << 28;

#[derive(Debug, Clone, Copy)]
pub struct Layout {
    kind: FileSystem,
    volume_pages: u64,
}

/// A journal: where it lies, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct JournalRules {
    pub first: u64,
    pub pages: u64,
    pub interval_ns: u64,
    /// Data are written before the record that speaks of them.
    pub ordered: bool,
    pub record_bytes: u32,
    /// Of the block that makes a record valid, written behind it. 0: the record is one by itself.
    pub commit_bytes: u32,
}

impl Layout {
    pub fn new(kind: FileSystem, volume_pages: u64) -> Result<Layout, String> {
        let layout = Layout { kind, volume_pages };
        let has_groups = matches!(kind, FileSystem::Ext2 | FileSystem::Ext3);
        match kind != FileSystem::None && volume_pages < 4 * GROUP {
            true => Err("file_system: a brick of at least 512 MiB is needed".into()),
            false if has_groups && volume_pages > EXT_PAGES_MAX => {
                Err("file_system: ext2 and ext3 end at 16 TiB; take xfs or a smaller brick".into())
            }
            false => Ok(layout),
        }
    }

    /// Pages that the file has: all that the file system leaves, or the largest file that it allows.
    pub fn file_pages(&self) -> u64 {
        match self.kind {
            FileSystem::None => self.volume_pages,
            FileSystem::Ext2 | FileSystem::Ext3 => {
                let usable = self.volume_pages / GROUP * (GROUP - GROUP_META) - self.journal_pages();
                (usable / (POINTERS + 1) * POINTERS).min(EXT_FILE_PAGES_MAX)
            }
            FileSystem::Xfs => self.volume_pages - self.journal_pages() - 4,
        }
    }

    /// e2fsprogs' ext2fs_default_journal_size of 2003: 4,096 blocks up to 1 GiB, then 8,192. mkfs.xfs: a 2,048th, at least
    /// 2,560 blocks.
    fn journal_pages(&self) -> u64 {
        match self.kind {
            FileSystem::None | FileSystem::Ext2 => 0,
            FileSystem::Ext3 if self.volume_pages < 262_144 => 4_096,
            FileSystem::Ext3 => 8_192,
            FileSystem::Xfs => (self.volume_pages / 2_048).max(2_560),
        }
    }

    pub fn journal(&self) -> Option<JournalRules> {
        let pages = self.journal_pages();
        match self.kind {
            FileSystem::None | FileSystem::Ext2 => None,
            FileSystem::Ext3 => Some(JournalRules {
                first: GROUP_META,
                pages,
                interval_ns: 5_000_000_000,
                ordered: true,
                record_bytes: 8_192,
                commit_bytes: 4_096,
            }),
            FileSystem::Xfs => Some(JournalRules {
                first: self.volume_pages / 2,
                pages,
                interval_ns: 30_000_000_000,
                ordered: false,
                record_bytes: 1_024,
                commit_bytes: 0,
            }),
        }
    }

    /// The block of the file's inode, which each write changes: its time.
    pub fn inode(&self) -> Option<u64> {
        match self.kind {
            FileSystem::None => None,
            FileSystem::Ext2 | FileSystem::Ext3 => Some(META + 4),
            FileSystem::Xfs => Some(META + 3),
        }
    }

    /// Where a page lies, in pages from the beginning of the volume.
    pub fn place(&self, page: u64) -> u64 {
        if page >= META {
            return page - META;
        }
        match self.kind {
            FileSystem::None => page,
            FileSystem::Ext2 | FileSystem::Ext3 => self.in_groups(page + pointers_before(page)),
            FileSystem::Xfs => {
                let place = page + 4;
                if place < self.volume_pages / 2 { place } else { place + self.journal_pages() }
            }
        }
    }

    /// The block of pointers without which nobody knows where a page lies.
    pub fn index(&self, page: u64) -> Option<u64> {
        let has_pointers = matches!(self.kind, FileSystem::Ext2 | FileSystem::Ext3);
        (has_pointers && (DIRECT..META).contains(&page)).then(|| {
            let first = (page - DIRECT) / POINTERS * POINTERS + DIRECT;
            META + self.in_groups(first + pointers_before(first) - 1)
        })
    }

    fn in_groups(&self, linear: u64) -> u64 {
        let linear = linear + self.journal_pages();
        let usable = GROUP - GROUP_META;
        linear / usable * GROUP + GROUP_META + linear % usable
    }
}

fn pointers_before(page: u64) -> u64 {
    if page < DIRECT { 0 } else { 1 + (page - DIRECT) / POINTERS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_of_a_file_system_lie_in_one_place() {
        for kind in [FileSystem::None, FileSystem::Ext2, FileSystem::Ext3, FileSystem::Xfs] {
            let layout = Layout::new(kind, 5 * GROUP).expect("large enough");
            let mut taken = std::collections::BTreeSet::new();
            if let Some(journal) = layout.journal() {
                taken.extend(journal.first..journal.first + journal.pages);
            }
            for page in 0..layout.file_pages() {
                assert!(taken.insert(layout.place(page)), "{kind:?}: page {page}");
            }
            let pointers: std::collections::BTreeSet<u64> =
                (0..layout.file_pages()).filter_map(|page| layout.index(page)).collect();
            for place in pointers.into_iter().chain(layout.inode()) {
                assert!(taken.insert(place - META), "{kind:?}: block {}", place - META);
            }
            assert!(taken.last() < Some(&(5 * GROUP)), "{kind:?} ends on the volume");
        }
    }

    #[test]
    fn ext2_and_ext3_end_where_their_sources_say() {
        const TIB: u64 = 1 << 28;
        for kind in [FileSystem::Ext2, FileSystem::Ext3] {
            assert_eq!(Layout::new(kind, 16 * TIB).expect("the largest").file_pages(), 2 * TIB, "{kind:?}");
            let refused = Layout::new(kind, 16 * TIB + 1).expect_err("too large");
            assert!(refused.contains("16 TiB"), "{refused}");
        }
        assert!(Layout::new(FileSystem::Xfs, 100 * TIB).expect("no limit here").file_pages() > 99 * TIB);
    }

    #[test]
    fn a_block_of_pointers_lies_before_what_it_points_to() {
        let layout = Layout::new(FileSystem::Ext2, 5 * GROUP).expect("large enough");
        assert_eq!(layout.index(11), None);
        assert_eq!(layout.index(12).map(|index| index - META + 1), Some(layout.place(12)));
        assert_eq!(layout.index(12), layout.index(12 + 1023));
        assert_eq!(layout.index(12 + 1024).map(|index| index - META + 1), Some(layout.place(12 + 1024)));
    }
}
