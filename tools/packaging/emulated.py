# SPDX-License-Identifier: Apache-2.0
"""A machine in qemu that boots an image, and the disk that it leaves."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

COMMAND_LINE = "console=ttyS0 quiet panic=30 bascule.mode="
FIRMWARE = "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
EXIT_CODE = re.compile(r"bascule: init: exit code (\d+)")


def make_disk(path, mib):
    """There when it has its file system."""
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


def boot(image, disk, seconds=600, tell=print, **options):
    """(exit code of the command in the image or None, seconds until the first update or None)."""
    with tempfile.TemporaryDirectory() as folder:
        began, code, first_update = time.monotonic(), None, None
        words = [str(word) for word in machine(image, disk, pathlib.Path(folder), **options)]
        with subprocess.Popen(["timeout", "--kill-after=5", str(seconds), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            for line in process.stdout:
                passed = time.monotonic() - began
                tell(f"{passed:7.1f} {line.rstrip()}")
                if first_update is None and re.search(r"\bstep +\d+", line):
                    first_update = passed
                if found := EXIT_CODE.search(line):
                    code = int(found.group(1))
        return code, first_update


def read_from_disk(disk, name, target):
    """Copies a file of the disk, whose journal may not have been replayed, to `target`; False where there is none."""
    words = ["/sbin/debugfs", "-R", f"dump {name} {target}", str(disk)]
    pathlib.Path(target).unlink(missing_ok=True)
    subprocess.run(words, capture_output=True, check=False)
    return pathlib.Path(target).exists() and pathlib.Path(target).stat().st_size > 0
