# SPDX-License-Identifier: Apache-2.0
"""A bare Debian 12 in a folder, with systemd as the first process of namespaces of its own: no container manager and no virtual machine. Needs root, mmdebstrap and unshare."""
import pathlib
import shutil
import subprocess
import time

KEPT_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "srv", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/lib/systemd", "var/log", "var/tmp")
# Controllers of version 1 may be in use on this machine: a hierarchy of version 2 without any does to count processes.
FIRST_PROCESS = """set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs dev
for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
pivot_root . mnt
exec chroot . sh -c 'umount -l /mnt; exec env -i container=bascule PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=false'
"""


class DebianError(Exception):
    """A step that cannot be done on this machine, in one line."""


def checked(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise DebianError(f"{' '.join(str(word) for word in words)} failed: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def indexed_mirror():
    """That of this machine's own apt."""
    rows = checked("apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages").splitlines()
    found = [row.split()[2] for row in rows if row.startswith("bookworm main ")]
    if not found:
        raise DebianError("apt lists no mirror for bookworm")
    return found[0]


class BareDebian:
    """Not started where nothing but packages is asked for; end() stops what runs and removes the folder."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.first = None
        checked("mmdebstrap", "--quiet", "--variant=minbase", "--include=systemd-sysv,ca-certificates", "bookworm", self.root, indexed_mirror())
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        proxies = checked("apt-config", "dump", "--format", '%f "%v";%n', "Acquire::http::Proxy", "Acquire::https::Proxy")
        (self.root / "etc/apt/apt.conf.d/90proxy").write_text(proxies)
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)

    def start(self, seconds=120):
        words = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "sh", "-c", FIRST_PROCESS, "sh", str(self.root)]
        self.first = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.first.poll() is not None:
                raise DebianError(f"systemd did not start: {self.first.stderr.read().strip()[-500:]}")
            if self.inside("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                return
            time.sleep(0.5)
        raise DebianError(f"systemd did not start within {seconds} s")

    def systemd(self):
        """Its process as this machine numbers it; below /proc/NUMBER/root lies what the started Debian sees."""
        children = pathlib.Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()
        return children[0] if children else None

    def inside(self, *words):
        """Beside systemd if it runs, else in a chroot."""
        enter = ["chroot", self.root]
        if self.first is not None:
            if (systemd := self.systemd()) is None:
                return subprocess.CompletedProcess(words, 1, "", "not started yet")
            enter = ["nsenter", "--target", systemd, "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--root", "--wd"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return subprocess.run([*map(str, enter), *map(str, words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def must(self, *words):
        done = self.inside(*words)
        if done.returncode != 0:
            raise DebianError(f"{' '.join(map(str, words))} failed: {(done.stdout + done.stderr).strip()[-3000:]}")
        return done

    def files(self):
        """{path: content of a file of /etc, else its kind}; but for folders where every package leaves something."""
        found = {}
        for path in self.root.rglob("*"):
            name = path.relative_to(self.root).as_posix()
            if any(name == kept or name.startswith(f"{kept}/") for kept in KEPT_FOLDERS):
                continue
            is_setting = name.startswith("etc/") and path.is_file() and not path.is_symlink() and not name.endswith(("-", "ld.so.cache"))
            found[name] = path.read_bytes() if is_setting else oct(path.lstat().st_mode)
        return found

    def end(self):
        if self.first is not None:
            self.first.kill()  # and, as its namespace ends, everything in it
            self.first.wait()
        shutil.rmtree(self.root, ignore_errors=True)
