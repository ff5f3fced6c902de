# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of two nodes, n1 and n2, on this machine: all its state, sockets and logs lie in one folder, and nothing outlives it.

    with SlurmNodes(folder) as slurm:
        done = slurm.run(["srun", "--mpi=pmix", "-N2", "-n2", "bascule", "run", "run.toml"])

It needs root and Debian's slurmctld, slurmd, slurm-client and munge; missing() says what keeps it from starting.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "scancel", "squeue", "sinfo")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
TmpFS={folder}/tmp_%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cores} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """What keeps a Slurm from starting here; empty: nothing."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    return "" if os.geteuid() == 0 else "needs root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class SlurmNodes:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemons = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        self.folder.chmod(0o711)  # munged's clients must reach its socket
        for name in ("state", "spool_n1", "spool_n2", "tmp_n1", "tmp_n2"):
            (self.folder / name).mkdir()
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=self.folder, ports=free_ports(3), cores=os.cpu_count()))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
        self.begin("munged", "--foreground", f"--socket={self.folder}/munge.socket", *files)
        self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.begin("slurmctld", "-D")
        for node in ("n1", "n2"):
            self.begin("slurmd", "-D", "-N", node)
        self.wait_for(lambda: self.run(["sinfo", "-h", "-o", "%t %D"]).stdout.strip() == "idle 2", "two idle nodes")

    def begin(self, *command):
        with open(self.folder / f"{command[0]}{len(self.daemons)}.log", "wb") as log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))

    def run(self, command, **options):
        return subprocess.run([*map(str, command)], env=self.environment, capture_output=True, text=True, timeout=120, check=False, **options)

    def wait_for(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self.daemons):
                logs = "".join(f"{path.name}: {path.read_text(errors='replace')[-1000:]}\n" for path in self.folder.glob("*.log"))
                raise RuntimeError(f"Slurm: waited in vain for {what}\n{logs}")
            time.sleep(0.05)

    def __exit__(self, *_):
        if len(self.daemons) == 4 and self.run(["squeue", "-h"]).stdout:  # a test has failed
            self.run(["scancel", "-f", "--user", "root"])
            self.wait_for(lambda: not self.run(["squeue", "-h"]).stdout, "the end of all jobs")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(60)
