# SPDX-License-Identifier: Apache-2.0
"""Two machines of a run, simulated on this one: each a set of namespaces (network, UTS, IPC, mount) with a host name, a /dev/shm and a /tmp of
its own, joined by one wire. What is neither under /tmp nor /dev/shm is common to both, as on machines that share a file system.

    with TwoNodes(folder, slots=2, rate="1gbit") as nodes:      # folder: common to both, not below /tmp
        done = subprocess.run(nodes.command(0, ["bascule", "run", "run.toml"]), env=nodes.environment())

It needs root (or the capabilities of it) and `ip`; is_permitted() tells.
"""
import itertools
import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COUNTER = itertools.count()
BUILD = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build")).resolve()

# Arguments: the host name, then folders that stay visible below the new /tmp.
MACHINE = """
set -e
hostname "$1"; shift
mount -t tmpfs tmpfs /dev/shm
for kept in "$@"; do mkdir -p "/dev/shm/kept$kept"; mount --bind "$kept" "/dev/shm/kept$kept"; done
mount -t tmpfs tmpfs /tmp
for kept in "$@"; do mkdir -p "$kept"; mount --move "/dev/shm/kept$kept" "$kept"; done
rm -rf /dev/shm/kept
ip link set lo up
echo ready
exec sleep infinity
"""

# A launch agent, as ssh is one: AGENT HOST COMMAND..., and the command's environment is not that of whoever calls.
AGENT = """#!/bin/sh
case $1 in
{cases}
  *) echo "no machine $1" >&2; exit 255;;
esac
shift
exec env -i HOME="$HOME" PATH="$PATH" {hwloc} {inner} sh -c "$*"
"""


# Of mpirun and its daemons: to read the registers of each PCI device takes them 0.1 s on a virtual machine.
WITHOUT_PCI = {"HWLOC_COMPONENTS": "-pci"}


def enter(pid):
    return ["nsenter", "-t", str(pid), "-n", "-u", "-i", "-m"]


def is_permitted():
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    tried = subprocess.run(["unshare", "-n", "-u", "-i", "-m", "ip", "link", "add", "one", "type", "veth", "peer", "name", "two"], capture_output=True)
    return tried.returncode == 0


class TwoNodes:
    def __init__(self, folder, slots=1, rate=None):
        """rate: of the wire, as tc knows it ("1gbit"); None: as fast as it goes."""
        self.folder = pathlib.Path(folder)
        own = f"{os.getpid()}x{next(COUNTER)}"
        self.names = [f"machine{number}-{own}" for number in (0, 1)]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.wires = [f"b{number}-{own}" for number in (0, 1)]
        self.hostfile = self.folder / f"hosts-{own}"
        self.agent = self.folder / f"agent-{own}"
        self.slots, self.rate, self.machines = slots, rate, []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        below_tmp = sorted({str(path) for path in (ROOT, BUILD) if path.parts[1] == "tmp"})
        self.kept = [path for path in below_tmp if not any(path.startswith(other + "/") for other in below_tmp)]
        for name in self.names:
            machine = subprocess.Popen(["unshare", "-n", "-u", "-i", "-m", "--propagation", "private", "sh", "-c", MACHINE, "sh", name, *self.kept],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            self.machines.append(machine)
            if machine.stdout.readline() != "ready\n":
                raise RuntimeError(f"{name} did not start")
        subprocess.run(["ip", "link", "add", self.wires[0], "type", "veth", "peer", "name", self.wires[1]], check=True)
        for machine, wire, address in zip(self.machines, self.wires, self.addresses):
            subprocess.run(["ip", "link", "set", wire, "netns", str(machine.pid)], check=True)
            inside = enter(machine.pid)
            subprocess.run([*inside, "ip", "address", "add", f"{address}/24", "dev", wire], check=True)
            subprocess.run([*inside, "ip", "link", "set", wire, "up"], check=True)
            if self.rate is not None:
                subprocess.run([*inside, "tc", "qdisc", "add", "dev", wire, "root", "tbf", "rate", self.rate, "burst", "256kb", "latency", "50ms"], check=True)
        self.hostfile.write_text("".join(f"{address} slots={self.slots}\n" for address in self.addresses))
        cases = "\n".join(f"  {address}) pid={machine.pid};;" for address, machine in zip(self.addresses, self.machines))
        self.agent.write_text(AGENT.format(cases=cases, hwloc=" ".join(f"{name}={value}" for name, value in WITHOUT_PCI.items()), inner="nsenter -t $pid -n -u -i -m"))
        self.agent.chmod(0o755)

    def __exit__(self, *_):
        for machine in self.machines:
            machine.kill()
            machine.communicate()

    def environment(self, **more):
        return {**os.environ, **WITHOUT_PCI, "OMPI_MCA_plm_rsh_agent": str(self.agent), **more}

    def command(self, number, words):
        """The command as one to be run on machine `number`."""
        return [*enter(self.machines[number].pid), "--", *map(str, words)]

    def set_wire(self, state):
        """"down" cuts it, "up" mends it."""
        subprocess.run([*enter(self.machines[0].pid), "ip", "link", "set", self.wires[0], state], check=True)

    def bytes_sent(self, number):
        """By the machine's interface since its start."""
        shown = subprocess.run([*enter(self.machines[number].pid), "ip", "-s", "-j", "link", "show", "dev", self.wires[number]], check=True, capture_output=True)
        return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]

    def files(self, number):
        """What lies in the machine's own /dev/shm and /tmp; folders that were kept there are left out."""
        found = subprocess.run(self.command(number, ["find", "/dev/shm", "/tmp", "-xdev", "-mindepth", "1"]), check=True, capture_output=True, text=True)
        return [path for path in found.stdout.splitlines() if not any(kept == path or kept.startswith(path + "/") for kept in self.kept)]
