//! Who uses a block device or a file at this moment.

use rustix::fs::Stat;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A block device by its number, which unlike a path does not change its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    major: u32,
    minor: u32,
}

#[derive(Debug)]
pub struct Partition {
    pub name: String,
    pub start_bytes: u64,
    pub length_bytes: u64,
    number: i32,
    device: Device,
}

/// linux/blkpg.h.
#[repr(C)]
struct BlkpgArgument {
    operation: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    partition: *mut BlkpgPartition,
}

#[repr(C)]
struct BlkpgPartition {
    start: i64,
    length: i64,
    number: libc::c_int,
    names: [[u8; 64]; 2],
}

/// `_IO(0x12, 105)`
const BLKPG: libc::Ioctl = 0x1269;
const BLKPG_DEL_PARTITION: libc::c_int = 2;

/// Units of `start` and `size` in sysfs, whatever the device's block size.
const SYSFS_SECTOR_BYTES: u64 = 512;

impl Device {
    pub fn of(stat: &Stat) -> Device {
        Device::from_number(stat.st_rdev)
    }

    fn from_number(number: u64) -> Device {
        Device { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    /// From text such as `259:1`.
    fn parse(text: &str) -> Option<Device> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }

    pub fn is_read_only(self) -> bool {
        fs::read_to_string(self.sysfs().join("ro")).is_ok_and(|ro| ro.trim() == "1")
    }

    /// The partitions that the kernel knows, whatever stands on the device.
    pub fn partitions(self) -> io::Result<Vec<Partition>> {
        let mut partitions = Vec::new();
        for entry in list(&self.sysfs())? {
            if !entry.join("partition").exists() {
                continue;
            }
            let number = |file: &str| -> Option<u64> { fs::read_to_string(entry.join(file)).ok()?.trim().parse().ok() };
            let device = fs::read_to_string(entry.join("dev")).ok().and_then(|d| Device::parse(&d));
            let index = number("partition").and_then(|index| i32::try_from(index).ok());
            let (Some(start), Some(size), Some(index), Some(device)) = (number("start"), number("size"), index, device)
            else {
                return Err(io::Error::other(format!("{} cannot be read", entry.display())));
            };
            partitions.push(Partition {
                name: name_of(&entry),
                start_bytes: start * SYSFS_SECTOR_BYTES,
                length_bytes: size * SYSFS_SECTOR_BYTES,
                number: index,
                device,
            });
        }
        Ok(partitions)
    }

    /// Lets the kernel forget the partitions of the device that `file` is, those in use excepted. Unlike a new look at
    /// the partition table, this also works on loop devices.
    pub fn forget_partitions(self, file: &File) -> io::Result<()> {
        for partition in self.partitions()? {
            let mut removed = BlkpgPartition { start: 0, length: 0, number: partition.number, names: [[0; 64]; 2] };
            let length = std::mem::size_of::<BlkpgPartition>() as libc::c_int;
            let argument =
                BlkpgArgument { operation: BLKPG_DEL_PARTITION, flags: 0, length, partition: &raw mut removed };
            // SAFETY: both structures have the kernel's layout and outlive the call, which keeps no pointer.
            unsafe { libc::ioctl(file.as_raw_fd(), BLKPG, &argument) };
        }
        Ok(())
    }

    /// What uses the device, one of its partitions or the disk it is a part of, such as "is mounted at /srv".
    pub fn user(self) -> io::Result<Option<String>> {
        let mut devices = vec![(self, String::new())];
        devices.extend(self.partitions()?.into_iter().map(|p| (p.device, format!("its partition {} ", p.name))));
        if let Some(disk) = self.disk()? {
            devices.push((disk, "the disk it is a part of ".into()));
        }
        for (device, who) in &devices {
            if let Some(user) = device.own_user()? {
                return Ok(Some(format!("{who}{user}")));
            }
        }
        let numbers: Vec<Device> = devices.iter().map(|(device, _)| *device).collect();
        Ok(writer(&numbers))
    }

    /// The disk that this partition is a part of.
    fn disk(self) -> io::Result<Option<Device>> {
        let sysfs = fs::canonicalize(self.sysfs())?;
        if !sysfs.join("partition").exists() {
            return Ok(None);
        }
        let number = fs::read_to_string(sysfs.join("../dev"))?;
        Ok(Device::parse(&number))
    }

    fn own_user(self) -> io::Result<Option<String>> {
        if let Some(place) = mounted_at(self)? {
            return Ok(Some(format!("is mounted at {}", place.display())));
        }
        if swap_areas()?.iter().any(|swap| is_device(swap, self)) {
            return Ok(Some("is in use as swap".into()));
        }
        if let Some(holder) = holder(&self.sysfs()) {
            return Ok(Some(format!("is held by {holder}")));
        }
        if let Some(uuid) = btrfs_member(self) {
            return Ok(Some(format!("belongs to the mounted btrfs {uuid}")));
        }
        if let Some(sibling) = self.loop_sibling()? {
            return Ok(Some(format!("stands on the file that {sibling} stands on too")));
        }
        let over = |_: &str, backing: &Backing| backing.device == self;
        Ok(loop_over(over)?.map(|name| format!("is in use by {name}")))
    }

    /// Another loop device over what this one stands on: what is written here changes under whoever uses that one.
    fn loop_sibling(self) -> io::Result<Option<String>> {
        let sysfs = self.sysfs();
        if !sysfs.join("loop").exists() {
            return Ok(None);
        }
        let name = name_of(&fs::canonicalize(&sysfs)?);
        let Some(own) = backing(&sysfs, &name) else { return Ok(None) };
        loop_over(|other, backing| {
            other != name && backing.inode == own.inode && backing.file_system == own.file_system
        })
    }
}

/// What uses a regular file in ways that the kernel does not refuse by itself.
pub fn file_user(stat: &Stat) -> io::Result<Option<String>> {
    let same = |other: &Path| fs::metadata(other).is_ok_and(|m| m.ino() == stat.st_ino && m.dev() == stat.st_dev);
    if swap_areas()?.iter().any(|swap| same(swap)) {
        return Ok(Some("is in use as swap".into()));
    }
    let home = Device::from_number(stat.st_dev);
    let user = loop_over(|_, backing| backing.inode == stat.st_ino && backing.file_system == home)?;
    Ok(user.map(|name| format!("is in use by {name}")))
}

fn mounted_at(device: Device) -> io::Result<Option<PathBuf>> {
    // Mount points and sources need not be UTF-8.
    let table = fs::read("/proc/self/mountinfo")?;
    for line in table.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-");
        let (Some(number), Some(place), Some(dash)) = (fields.get(2), fields.get(4), dash) else { continue };
        let number = Device::parse(&String::from_utf8_lossy(number));
        // btrfs and overlays have numbers of their own; their source names the device.
        let source = fields.get(dash + 2).map(|source| unescape(source));
        if number == Some(device) || source.is_some_and(|s| s.is_absolute() && is_device(&s, device)) {
            return Ok(Some(unescape(place)));
        }
    }
    Ok(None)
}

fn swap_areas() -> io::Result<Vec<PathBuf>> {
    let table = match fs::read("/proc/swaps") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()), // a kernel without swap
        other => other?,
    };
    let areas = table.split(|byte| *byte == b'\n').skip(1);
    Ok(areas
        .filter(|line| line.starts_with(b"/"))
        .filter_map(|l| l.split(u8::is_ascii_whitespace).next())
        .map(unescape)
        .collect())
}

/// Undoes the octal escapes of /proc, such as `\040` for a space.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn is_device(path: &Path, device: Device) -> bool {
    fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device() && Device::from_number(m.rdev()) == device)
}

/// Device mapper, md, bcache and their like.
fn holder(sysfs: &Path) -> Option<String> {
    list(&sysfs.join("holders")).ok()?.first().map(|path| name_of(path))
}

fn btrfs_member(device: Device) -> Option<String> {
    list(Path::new("/sys/fs/btrfs")).ok()?.into_iter().find_map(|file_system| {
        let members = list(&file_system.join("devices")).ok()?;
        let number = |member: &PathBuf| Device::parse(&fs::read_to_string(member.join("dev")).ok()?);
        members.iter().any(|member| number(member) == Some(device)).then(|| name_of(&file_system))
    })
}

struct Backing {
    /// What the loop device stands on, where that is a block device.
    device: Device,
    /// What it stands on, where that is a file.
    file_system: Device,
    inode: u64,
}

/// The first loop device whose backing is the one looked for.
fn loop_over(wanted: impl Fn(&str, &Backing) -> bool) -> io::Result<Option<String>> {
    for entry in list(Path::new("/sys/block"))? {
        if !entry.join("loop").exists() {
            continue; // not a loop device, or nothing behind it
        }
        let name = name_of(&entry);
        if backing(&entry, &name).is_some_and(|backing| wanted(&name, &backing)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// linux/loop.h.
#[repr(C)]
#[derive(Default)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    backing_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    names: [[u64; 8]; 2],
    encrypt_key: [u64; 4],
    init: [u64; 2],
}

const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;

/// By the driver's own account, else by the path in sysfs: that may lie in another mount namespace.
fn backing(sysfs: &Path, name: &str) -> Option<Backing> {
    let mut info = LoopInfo64::default();
    if let Ok(file) = File::open(Path::new("/dev").join(name)) {
        // SAFETY: the request fills a loop_info64, whose layout LoopInfo64 has, and keeps no pointer.
        if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } == 0 {
            let (device, file_system) = (decode(info.backing_device), decode(info.device));
            return Some(Backing { device, file_system, inode: info.inode });
        }
    }
    let path = fs::read(sysfs.join("loop/backing_file")).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.trim_ascii_end().to_vec()));
    let found = fs::metadata(path).ok()?;
    Some(Backing {
        device: Device::from_number(found.rdev()),
        file_system: Device::from_number(found.dev()),
        inode: found.ino(),
    })
}

/// The kernel's own 32-bit form of a device number (`new_encode_dev` in linux/kdev_t.h).
fn decode(number: u64) -> Device {
    Device { major: ((number >> 8) & 0xfff) as u32, minor: ((number & 0xff) | ((number >> 12) & 0xf_ff00)) as u32 }
}

/// How long a process must keep a device open to count: tools that set up or probe devices pass within milliseconds.
const PASSING_LOOKS: u32 = 5;
const PASSING_PAUSE: Duration = Duration::from_millis(40);

/// Another process with one of the devices open for writing: virtual machines and databases use disks without a claim
/// that the kernel would know of. Processes that may not be looked into are passed over.
fn writer(devices: &[Device]) -> Option<String> {
    let own = std::process::id().to_string();
    let mut processes = list(Path::new("/proc")).ok()?;
    processes.retain(|process| {
        let id = name_of(process);
        id != own && id.bytes().all(|b| b.is_ascii_digit()) && writes(process, devices)
    });
    for _ in 1..PASSING_LOOKS {
        if processes.is_empty() {
            return None;
        }
        std::thread::sleep(PASSING_PAUSE);
        processes.retain(|process| writes(process, devices));
    }
    let process = processes.first()?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(format!("process {} ({}) has it open for writing", name_of(process), name.trim()))
}

fn writes(process: &Path, devices: &[Device]) -> bool {
    list(&process.join("fd")).unwrap_or_default().iter().any(|fd| {
        // Asking only about what looks like a device node keeps a hung network file system out of it.
        let target = fs::read_link(fd).unwrap_or_default();
        target.as_os_str().as_bytes().windows(5).any(|part| part == b"/dev/")
            && devices.iter().any(|device| is_device(fd, *device))
            && opened_for_writing(process, fd)
    })
}

fn opened_for_writing(process: &Path, fd: &Path) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(name_of(fd))).unwrap_or_default();
    let flags = info.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The paths in a directory, in the order of their names.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_proc_are_undone() {
        assert_eq!(unescape(br"/mnt/a\040b\134c"), PathBuf::from(r"/mnt/a b\c"));
        assert_eq!(unescape(br"/mnt/\9\04"), PathBuf::from(r"/mnt/\9\04"));
    }

    #[test]
    fn device_numbers_of_the_kernel_are_decoded() {
        assert_eq!(decode(0x0010_0701), Device { major: 7, minor: 0x101 });
        assert_eq!(decode(0x0000_fe00), Device { major: 254, minor: 0 });
        assert_eq!(std::mem::size_of::<LoopInfo64>(), 232);
    }
}
