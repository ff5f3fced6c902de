# SPDX-License-Identifier: Apache-2.0
"""Debian packages as dpkg has recorded them: whose a file is, version, licence, digest; and the lock, which refuses other versions."""
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import subprocess

INFO = pathlib.Path("/var/lib/dpkg/info")
DOC = pathlib.Path("/usr/share/doc")


class ImageError(Exception):
    """A reason, in one line, why no image can be made."""


def file_digest(path):
    """SHA-256 of a file, which may be larger than the memory."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclasses.dataclass(frozen=True, order=True)
class Package:
    name: str
    architecture: str
    version: str
    source: str

    @property
    def copyright(self):
        return DOC / self.name / "copyright"

    @property
    def digest(self):
        """SHA-256 of dpkg's list of the MD5 sums of the package's files."""
        for name in (f"{self.name}:{self.architecture}", self.name):
            record = INFO / f"{name}.md5sums"
            if record.exists():
                return hashlib.sha256(record.read_bytes()).hexdigest()
        return ""


@functools.lru_cache(maxsize=None)
def package(name):
    shown = "${Package}\t${Architecture}\t${Version}\t${source:Package} ${source:Version}\t${db:Status-Status}\n"
    found = subprocess.run(["dpkg-query", "--show", f"--showformat={shown}", name], capture_output=True, text=True, check=False).stdout
    rows = [line.split("\t") for line in found.splitlines()]
    rows = [row for row in rows if row[4] == "installed" and row[1] in ("all", architecture())]
    if not rows:
        raise ImageError(f"package {name} is not installed; run tools/install_packages image")
    return Package(*rows[0][:4])


@functools.lru_cache(maxsize=None)
def architecture():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


@functools.lru_cache(maxsize=None)
def owners():
    """{path: package} of all files that dpkg has installed: asked for all at once, as an image of several ranks has hundreds."""
    listed = subprocess.run(["dpkg-query", "--search", "/*"], capture_output=True, text=True, check=False).stdout
    rows = [line.partition(": /") for line in listed.splitlines() if not line.startswith(("diversion by ", "local diversion "))]
    return {f"/{path}": names.split(",")[0] for names, _, path in rows}


def owner(path):
    """The package of an installed file, or None. Files of / and /usr are the same ones, recorded under either name."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), "/usr" + real, os.path.abspath(path)):
        if name in owners():
            return package(owners()[name])
    return None


def lock_text(packages, programs):
    rows = {one.name: {"version": one.version, "digest": one.digest} for one in sorted(packages)}
    return json.dumps({"packages": rows, "files": dict(sorted(programs.items()))}, indent=1) + "\n"


def check_lock(lock, text):
    """`lock` is written where it is missing; where it differs from `text`, the first difference is named."""
    lock = pathlib.Path(lock)
    if not lock.exists():
        lock.write_text(text)
        return
    try:
        known = dict(json.loads(lock.read_text())["packages"])
    except (ValueError, KeyError, TypeError):
        raise ImageError(f"{lock}: is no list of packages that make_image wrote; remove it to accept those of this machine") from None
    now = json.loads(text)
    for name in sorted({*known, *now["packages"]}):
        then, found = known.get(name), now["packages"].get(name)
        if then != found:
            said = [f"{one['version']} (files {one['digest'][:12]})" if one else "no such package" for one in (then, found)]
            raise ImageError(f"{name}: {lock} has {said[0]}, this machine {said[1]}; install that version, or remove the lock to accept this one")
