"""Duty: a file system with one file, `disk`, served by this program over /dev/fuse: storage that a test can stop.

SIGSTOP makes it a device that hangs, SIGCONT lets it go on; with `errno` every read and write fails. A flush may take
its time, in which nothing else is served.

Usage: python fuse_disk.py MOUNT_POINT SIZE_BYTES [ERRNO [FLUSH_MS]]
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
import time

IN_HEADER = struct.Struct("<IIQQIIIHH")
ROOT, DISK = 1, 2
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 4, 14, 15, 16, 17, 18, 20
INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 26, 27, 28, 29, 34, 36, 38, 42
ENOENT, ENOSYS = 2, 38
ASYNC_READ = 1 << 0
MAX_WRITE_BYTES = 128 << 10
VALID_S = 1


class FuseDisk:
    """Answers the kernel's requests one at a time."""

    def __init__(self, mount_point: str, size_bytes: int, errno: int = 0, flush_ms: int = 0) -> None:
        self.size_bytes, self.errno, self.flush_ms = size_bytes, errno, flush_ms
        self.device = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if libc.mount(b"brickyard-test", mount_point.encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"{mount_point}: could not be mounted")

    def serve(self) -> None:
        while True:
            try:
                message = os.read(self.device, MAX_WRITE_BYTES + 4096)
            except OSError:  # unmounted
                return
            header = IN_HEADER.unpack_from(message)
            self._answer(header[1], header[2], header[3], message[IN_HEADER.size :])

    def _answer(self, opcode: int, unique: int, node: int, body: bytes) -> None:
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        errno, reply = self._reply(opcode, node, body)
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(reply), -errno, unique) + reply)
        except OSError:  # whoever asked has been killed
            return

    def _reply(self, opcode: int, node: int, body: bytes) -> tuple[int, bytes]:
        if opcode == INIT:
            major, minor, readahead, _ = struct.unpack_from("<IIII", body)
            assert major == 7, major
            # Without FUSE_ASYNC_DIO, direct I/O is carried out within the call that submits it.
            told = (7, min(minor, 31), readahead, ASYNC_READ, 64, 48, MAX_WRITE_BYTES, 1, 32, 0)
            return 0, struct.pack("<IIIIHHIIHH", *told).ljust(64, b"\0")
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != b"disk":
                return ENOENT, b""
            return 0, struct.pack("<QQQQII", DISK, 0, VALID_S, VALID_S, 0, 0) + self._attributes(DISK)
        if opcode in (GETATTR, SETATTR):
            return 0, struct.pack("<QII", VALID_S, 0, 0) + self._attributes(node)
        if opcode in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if opcode in (READ, WRITE):
            length = struct.unpack_from("<QQI", body)[2]
            if self.errno:
                return self.errno, b""
            return 0, struct.pack("<II", length, 0) if opcode == WRITE else bytes(length)
        if opcode == STATFS:
            return 0, struct.pack("<QQQQQIIII", 1 << 20, 1 << 20, 1 << 20, 9, 9, 4096, 255, 4096, 0).ljust(80, b"\0")
        if opcode == FSYNC:
            time.sleep(self.flush_ms / 1000)
        # No FLUSH: the kernel would ask at every close, also at that of a process that ends, and wait for the answer.
        known = (RELEASE, RELEASEDIR, READDIR, FSYNC, ACCESS, DESTROY)
        return (0, b"") if opcode in known else (ENOSYS, b"")

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
        size = 0 if node == ROOT else self.size_bytes
        numbers = (node, size, size // 512, 0, 0, 0)
        return struct.pack("<6Q", *numbers) + struct.pack("<10I", 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


if __name__ == "__main__":
    disk = FuseDisk(sys.argv[1], *(int(word) for word in sys.argv[2:]))
    print("mounted", flush=True)
    disk.serve()
