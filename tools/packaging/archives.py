# SPDX-License-Identifier: Apache-2.0
"""Archives of a folder that depend on names, contents and one time alone: sorted, owner 0, every time the same."""
import os
import pathlib
import stat
import tarfile


def entries(folder):
    """Every path below the folder, sorted by its name in it: (name, path)."""
    folder = pathlib.Path(folder)
    return sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*"))


def mode_of(path):
    """Folders and programs 755, files 644, whatever umask they were made with."""
    return 0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644


def write_tar(folder, target, seconds):
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in entries(folder):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime = mode_of(path), seconds
            if path.is_dir():
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(entry, content)


def newc(name, inode, mode, seconds, content=b"", device=(0, 0)):
    """One entry of a cpio archive that the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format)."""
    path = os.fsencode(name)  # the bytes that it has on the disk, which may be no UTF-8
    fields = [inode, mode, 0, 0, 1, seconds, len(content), 0, 0, *device, len(path) + 1, 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + path + b"\0"
    return header + b"\0" * (-len(header) % 4) + content + b"\0" * (-len(content) % 4)


def write_cpio(folder, target, seconds):
    """With /dev/console, which the kernel opens for the first process; so nobody needs to be root to make the archive."""
    with open(target, "wb") as out:
        inode = 1
        for name, path in entries(folder):
            kind = stat.S_IFDIR if path.is_dir() else stat.S_IFREG
            out.write(newc(name, inode, kind | mode_of(path), seconds, b"" if path.is_dir() else path.read_bytes()))
            inode += 1
        out.write(newc("dev/console", inode, stat.S_IFCHR | 0o600, seconds, device=(5, 1)))
        out.write(newc("TRAILER!!!", 0, 0, 0))
