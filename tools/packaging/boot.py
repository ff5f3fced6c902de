# SPDX-License-Identifier: Apache-2.0
"""A tree as something that boots: Debian's kernel, an initramfs with the tree and our first process, and both as one file that UEFI starts."""
import dataclasses
import os
import pathlib
import posixpath
import shutil
import struct
import subprocess

import archives
import inputs
from packages import ImageError, file_digest

STUB = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub"
COMMAND_LINE = "console=tty0 console=ttyS0,115200 quiet panic=30 bascule.mode=run"
# Disks and the file system on them. A kernel has some built in and lacks others: Debian's cloud kernel knows virtual machines only.
MODULES = ("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "ahci", "ata_piix", "nvme", "xhci_pci", "ehci_pci", "uhci_hcd", "usb_storage", "uas",
           "crc32c_generic", "crc32c_intel", "ext4")
PAGE = 4096
PROGRAMS = ("apt-cache", "apt-get", "dpkg-deb", "depmod", "objdump", "objcopy", "zstd")
MOST_BYTES = 4 << 30  # a size in a cpio archive and in a UEFI program has 32 bits


@dataclasses.dataclass(frozen=True)
class Kernel:
    package: str
    digest: str  # SHA-256 of the .deb
    image: pathlib.Path
    modules: pathlib.Path  # .../lib/modules/VERSION


def program(name):
    """The path of a program, or None. Users other than root have no /sbin in their PATH."""
    return shutil.which(name, path=os.environ["PATH"] + ":/sbin:/usr/sbin")


def missing_programs(*names):
    """The programs that are not installed, and the stub of the boot file if it is missing."""
    return [*(name for name in names if program(name) is None), *([] if os.path.exists(STUB) else [STUB])]


def command(name, *words, advice="", **options):
    done = subprocess.run([program(name) or name, *map(str, words)], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise ImageError(f"{name} failed: {done.stderr.strip()}{advice}")
    return done.stdout


# Debian's kernel for virtual machines.
DEFAULT_KERNEL = "linux-image-cloud-amd64"


def downloaded(name, folder):
    """The .deb of a package in the folder; downloaded where it is not there yet, and there when it is whole."""
    for found in sorted(folder.glob(f"{name}_*.deb")):
        return found
    part = folder / "part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    command("apt-get", "download", "-q", name, cwd=part, advice="; run apt-get update as root, and look at the network")
    found = next(part.glob("*.deb"))
    return found.rename(folder / found.name)


def fetch_kernel(name, folder):
    """The kernel that a (meta)package means, downloaded and unpacked; nothing is installed."""
    for line in command("apt-cache", "depends", name, advice="; run apt-get update as root, or name another package with --kernel").splitlines():
        if line.strip().startswith("Depends: linux-image-"):
            name = line.split()[1]
    package = downloaded(name, folder)
    unpacked = folder / package.stem
    if not unpacked.exists():
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        command("dpkg-deb", "-x", package, part)
        command("depmod", "-b", part, next((part / "lib/modules").iterdir()).name)
        part.rename(unpacked)
    return Kernel(package.stem, file_digest(package), next((unpacked / "boot").glob("vmlinuz-*")), next((unpacked / "lib/modules").iterdir()))


def modules_in_order(folder):
    """Files of MODULES and what they need, each after what it needs."""
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[file] = others.split()
    by_name = {pathlib.Path(file).name.split(".")[0].replace("-", "_"): file for file in needs}
    ordered = []
    for name in MODULES:
        if name in by_name:
            for file in [*reversed(needs[by_name[name]]), by_name[name]]:
                if file not in ordered:
                    ordered.append(file)
    return ordered


def folder_on_disk(settings, places):
    """The folder where the disk is mounted: the one that holds output_dir. places: of the files that the run reads."""
    table = "draw" if "draw" in settings else "training"
    parent = posixpath.dirname(inputs.place_in_tree(settings[table]["output_dir"]))
    hidden = next((place for place in places if place.startswith(f"{parent}/")), None)
    if not parent or hidden:
        what = f"the disk is mounted there, over {hidden}" if hidden else "the disk is mounted there"
        raise ImageError(f"{table}.output_dir: write it into a folder of its own, such as runs/NAME; {what}")
    report, serve = settings.get("report", {}), settings.get("serve", {})
    written = {"report.tracking_dir": report.get("tracking_dir") if report.get("tracking", "none") != "none" else None, "serve.access_log": serve.get("access_log"),
               "serve.listen": serve.get("listen", "").partition("unix:")[2]}
    for key, path in written.items():
        if path and not inputs.place_in_tree(path).startswith(f"{parent}/"):
            raise ImageError(f"{key}: it must lie in /{parent}, where the disk is mounted; nothing else can be written")
    return "/" + parent


def make_root(tree, folder, init, kernel, disk, action):
    """The tree with what boots it. action: the command of bascule."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tree, folder)
    shutil.copyfile(init, folder / "init")
    (folder / "init").chmod(0o755)
    for name in ("boot", "dev", "proc", "sys", "run", "tmp", disk.lstrip("/")):
        (folder / name).mkdir(parents=True, exist_ok=True)
    files = modules_in_order(kernel.modules)
    for file in files:
        shutil.copyfile(kernel.modules / file, folder / "boot" / pathlib.Path(file).name)
    (folder / "boot/modules").write_text("".join(f"/boot/{pathlib.Path(file).name}\n" for file in files))
    (folder / "boot/disk").write_text(disk + "\n")
    (folder / "boot/command").write_text(action + "\n")


def sections(stub):
    """(name, address, size) of a PE file's sections, from objdump."""
    rows = [line.split() for line in command("objdump", "-h", stub).splitlines()]
    return [(row[1], int(row[3], 16), int(row[2], 16)) for row in rows if len(row) == 7 and row[0].isdigit()]


def write_unified_image(target, kernel, initramfs, seconds):
    """systemd's stub with the kernel, the initramfs and the command line as sections behind its own."""
    parts = target.parent / "parts"
    parts.mkdir(exist_ok=True)
    (parts / "osrel").write_text("ID=bascule\nNAME=Bascule\nPRETTY_NAME=Bascule\n")
    (parts / "cmdline").write_text(COMMAND_LINE)
    at = max(address + size for _, address, size in sections(STUB))
    words = []
    for name, file in ((".osrel", parts / "osrel"), (".cmdline", parts / "cmdline"), (".linux", kernel), (".initrd", initramfs)):
        at = -(-at // PAGE) * PAGE
        words += ["--add-section", f"{name}={file}", "--change-section-vma", f"{name}={at:#x}"]
        at += os.path.getsize(file)
    command("objcopy", *words, STUB, target)
    shutil.rmtree(parts)
    image = bytearray(target.read_bytes())
    header = struct.unpack_from("<I", image, 0x3c)[0]
    struct.pack_into("<I", image, header + 8, seconds)  # objcopy writes the time of now,
    struct.pack_into("<I", image, header + 88, 0)  # and a sum that includes it; UEFI does not read it
    target.write_bytes(image)


def write_boot_files(tree, output, init, kernel, disk, action, seconds):
    make_root(tree, output / "root", init, kernel, disk, action)
    archives.write_cpio(output / "root", output / "initramfs.cpio", seconds)
    shutil.rmtree(output / "root")
    command("zstd", "-q", "-f", "-19", "-T1", "--rm", output / "initramfs.cpio", "-o", output / "initramfs.cpio.zst")
    shutil.copyfile(kernel.image, output / "vmlinuz")
    write_unified_image(output / "bascule.efi", output / "vmlinuz", output / "initramfs.cpio.zst", seconds)
