# SPDX-License-Identifier: Apache-2.0
"""A machine in qemu that boots an image, and the disk that it leaves."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

# no_timer_check: on a busy machine the kernel's test of the timer would fail now and then, for want of processors.
COMMAND_LINE = "console=ttyS0 quiet panic=30 no_timer_check bascule.mode="
STARVED, STARTS = "IO-APIC + timer doesn't work", 3  # the boot file, whose command line is its own, is started again
FIRMWARE = "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
MOST_BOOT_SECONDS = 2 * 3600  # of small.toml's run: 7 minutes on an idle machine
EXIT_CODE = re.compile(r"bascule: init: exit code (\d+)")


def make_disk(path, mib):
    """A disk with an empty file system. The file appears when it is complete."""
    part = pathlib.Path(f"{path}.part")
    with part.open("wb") as disk:
        disk.truncate(mib << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", "-L", "BASCULE", part], check=True)
    part.rename(path)


def machine(image, disk, folder, uefi=False, cpu="max", memory_mib=1024, mode="run"):
    """The words that start qemu. folder: for files of this start."""
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", cpu, "-m", f"{memory_mib}M", "-smp", "2", "-display", "none", "-serial", "stdio", "-monitor", "none",
             "-no-reboot", "-nic", "none", "-device", "virtio-blk-pci,drive=disk", "-drive", f"file={disk},if=none,id=disk,format=raw"]
    if not uefi:
        return [*words, "-kernel", image / "vmlinuz", "-initrd", image / "initramfs.cpio.zst", "-append", COMMAND_LINE + mode]
    stick = folder / "stick" / "EFI" / "BOOT"
    stick.mkdir(parents=True)
    shutil.copyfile(image / "bascule.efi", stick / "BOOTX64.EFI")
    shutil.copyfile(FIRMWARE[1], folder / "variables.fd")
    return [*words, "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE[0]}", "-drive", f"if=pflash,format=raw,unit=1,file={folder}/variables.fd",
            "-device", "qemu-xhci", "-device", "usb-storage,drive=stick,bootindex=0", "-drive", f"if=none,id=stick,format=raw,readonly=on,file=fat:{folder}/stick"]


@dataclasses.dataclass
class Booted:
    code: int | None = None  # exit code of the command in the image
    first_update: float | None = None  # seconds after power-on
    first_update_cpu: float | None = None  # seconds of all of this machine's processors, which other work on it hardly changes


def cpu_seconds(process):
    """User and system time of a process that still runs."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def boot(image, disk, seconds=600, tell=print, **options):
    """Until the machine powers off, `seconds` have passed, or it says `until`."""
    for _ in range(STARTS):
        lines = []
        booted = boot_once(image, disk, seconds, lambda line: lines.append(line) or tell(line), **options)
        if not any(STARVED in line for line in lines):
            break
    return booted


def boot_once(image, disk, seconds, tell, until=None, **options):
    booted = Booted()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        words = [str(word) for word in machine(image, disk, pathlib.Path(folder), **options)]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            killer = threading.Timer(seconds, process.kill)
            killer.start()
            try:
                for line in process.stdout:
                    passed = time.monotonic() - began
                    tell(f"{passed:7.1f} {line.rstrip()}")
                    if booted.first_update is None and re.search(r"\bstep +\d+", line):
                        booted.first_update, booted.first_update_cpu = passed, cpu_seconds(process.pid)
                    if until is not None and until in line:
                        process.kill()
                    if found := EXIT_CODE.search(line):
                        booted.code = int(found.group(1))
            except BaseException:
                process.kill()  # after Ctrl-C, too: the disk is as after a power cut
                raise
            finally:
                killer.cancel()
    return booted


def read_from_disk(disk, name, target):
    """Copies a file of the disk, whose journal may not have been replayed, to `target`; False where there is none."""
    words = ["/sbin/debugfs", "-R", f"dump {name} {target}", str(disk)]
    pathlib.Path(target).unlink(missing_ok=True)
    subprocess.run(words, capture_output=True, check=False)
    return pathlib.Path(target).exists() and pathlib.Path(target).stat().st_size > 0
