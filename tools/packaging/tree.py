# SPDX-License-Identifier: Apache-2.0
"""The tree of an image: the root file system in which a program with sealed settings runs, and where each of its files comes from."""
import os
import pathlib
import shutil
import subprocess

import packages
from packages import ImageError
from sbom import OURS, Component

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARIES = "lib/x86_64-linux-gnu"
LINKED_IN = ("nlohmann-json3-dev", "libcli11-dev", "libeigen3-dev", "libboost-dev")  # header libraries, whose code is in the program
BOOST_HEADER = "/usr/include/boost/version.hpp"  # of the package that libboost-dev depends on; a program may be built without
OPEN_MPI = "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3"
PMIX = "/usr/lib/x86_64-linux-gnu/pmix2"
# Open MPI's parts for networks, schedulers and accelerators that the ranks of one machine never use.
UNUSED_PLUGINS = ("mca_btl_openib", "mca_btl_usnic", "mca_btl_ofi", "mca_mtl_", "mca_pml_ucx", "mca_pml_cm", "mca_osc_ucx", "mca_coll_cuda", "mca_coll_hcoll",
                  "mca_fs_", "mca_fbtl_", "mca_fcoll_", "mca_io_", "mca_sharedfp_", "mca_common_ompio", "mca_spml_", "mca_scoll_", "mca_sshmem_", "mca_memheap_",
                  "mca_atomic_", "mca_oob_ud")


class Tree:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.components = []
        self.files = []  # (place, path in the tree, component)
        self.places = set()
        self.packages = {}

    def component(self, one):
        if one not in self.components:
            self.components.append(one)
        return one

    def add(self, place, source, component, is_program=False):
        if place in self.places:
            return
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755 if is_program else 0o644)
        self.places.add(place)
        self.files.append((place, target, component))

    def add_text(self, place, text, component):
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o644)
        self.files.append((place, target, component))

    def package_component(self, package, is_linked_in=False):
        """The component of a Debian package; its licence text is added to the tree."""
        if package.name not in self.packages:
            self.packages[package.name] = package
            text = package.copyright.read_text(errors="replace")
            one = self.component(Component(package.name, package.version, "", text, f"Debian source package {package.source}", is_linked_in))
            self.add(f"usr/share/doc/{package.name}/copyright", package.copyright, one)
        return next(one for one in self.components if one.name == package.name)

    def add_installed(self, source, place=None, is_program=False):
        """A file of a Debian package."""
        place = place or str(source).lstrip("/")
        if place in self.places:
            return
        package = packages.owner(source)
        if package is None:
            raise ImageError(f"{source} belongs to no Debian package")
        self.add(place, source, self.package_component(package), is_program)

    def add_libraries(self, program):
        """All that the loader would load for a program or a library, and the loader."""
        # Without libraries preloaded into this process, such as one that fakes the time.
        plain = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        for line in subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True, env=plain).stdout.splitlines():
            words = line.split()
            path = words[2] if "=>" in words else words[0]
            if "not found" in line:
                raise ImageError(f"{program}: {line.strip()}")
            if not path.startswith("/"):
                continue  # the kernel's own
            name = pathlib.Path(path).name
            self.add_installed(path, f"lib64/{name}" if name.startswith("ld-linux") else f"{LIBRARIES}/{name}", is_program=True)


def licence_of_data(path):
    """The text nearest above a file that says where it comes from: (its folder, text). ("", "") where there is none."""
    for folder in path.parents:
        for name in ("ORIGIN.md", "LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING"):
            if (folder / name).is_file():
                return folder, (folder / name).read_text(errors="replace")
        if folder == ROOT:
            break
    return None, ""


def add_input(tree, place, path):
    folder, text = licence_of_data(path)
    if folder == ROOT:
        return tree.add(place, path, tree.components[0])
    name = f"data-{folder.name}" if folder else "data"
    tree.add(place, path, tree.component(Component(name, "", "" if text else "NOASSERTION", text, str(folder.name) if folder else "the settings' files")))
    return None


def add_mpi(tree):
    """mpirun, its plugins and its texts, where its own paths look for them."""
    program = os.path.realpath(shutil.which("mpirun") or "/usr/bin/mpirun")
    tree.add_installed(program, "bin/mpirun", is_program=True)
    tree.add_libraries(program)
    plugins = [path for path in sorted(pathlib.Path(OPEN_MPI).glob("*.so")) if not path.name.startswith(UNUSED_PLUGINS)]
    for plugin in [*plugins, *sorted(pathlib.Path(PMIX).rglob("*.so"))]:
        tree.add_installed(plugin, is_program=True)
        tree.add_libraries(plugin)
    for folder in (os.path.realpath("/usr/share/openmpi"), "/etc/openmpi", f"{PMIX}/share"):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                tree.add_installed(path)


def make_tree(folder, program, version, inputs, has_ranks):
    """program: with sealed settings; inputs: {place: path}."""
    shutil.rmtree(folder, ignore_errors=True)
    tree = Tree(folder)
    ours = tree.component(Component("bascule", version, OURS, "", "this repository"))
    tree.add("bin/bascule", program, ours, is_program=True)
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", str(tree.folder / "bin/bascule")], check=True)
    tree.add_libraries(program)
    for name in LINKED_IN:
        package = packages.owner(BOOST_HEADER) if name == "libboost-dev" else packages.package(name)
        if package is not None:
            tree.package_component(package, is_linked_in=True)
    if has_ranks:
        add_mpi(tree)
    for name in ("LICENSE", "NOTICE"):
        tree.add(f"usr/share/doc/bascule/{name}", ROOT / name, ours)
    for place, path in inputs.items():
        add_input(tree, place, path)
    tree.files.sort()
    return tree
