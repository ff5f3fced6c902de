# SPDX-License-Identifier: Apache-2.0
"""tools/packaging: archives that depend on their content alone, a lock that names what differs. Images as wholes: `make image-check`."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import unittest

from tool_modules import ROOT, FolderTest
import archives
import oci
import packages
import sbom
import tree as trees


def names_in_cpio(content):
    """As the kernel reads them: each header and name, and each file, ends at a multiple of four bytes."""
    names, place = [], 0
    while place < len(content):
        assert content[place:place + 6] == b"070701", place
        fields = [int(content[place + 6 + 8 * i:place + 14 + 8 * i], 16) for i in range(13)]
        end = place + 110 + fields[11]
        assert content[end - 1:end] == b"\0", place
        names.append(content[place + 110:end - 1])
        place = (end + 3) // 4 * 4 + (fields[6] + 3) // 4 * 4
    return names


class Packaging(FolderTest):
    def tree(self, name, umask, order):
        before = os.umask(umask)
        for file in order:
            path = self.folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(file))
        os.umask(before)
        (self.folder / name / "bin/program").chmod(0o700)
        return self.folder / name

    def test_archives_do_not_depend_on_umask_order_or_time(self):
        files = ["bin/program", "data/a b.txt", "data/0.jsonl"]
        one, other = self.tree("one", 0o022, files), self.tree("other", 0o077, files[::-1])
        for write in (archives.write_tar, archives.write_cpio):
            write(one, self.folder / "1", 1700000000)
            write(other, self.folder / "2", 1700000000)
            self.assertEqual((self.folder / "1").read_bytes(), (self.folder / "2").read_bytes())

    def test_other_programs_read_the_archives(self):
        names = [b"caf\xc3\xa9.jpg", b"caf\xe9.jpg", "\u732b.jpg".encode()]  # the second one is no UTF-8
        tree = self.tree("tree", 0o022, ["bin/program", "data/a b.txt", *("data/" + os.fsdecode(name) for name in names)])
        archives.write_tar(tree, self.folder / "tar", 1700000000)
        listed = subprocess.run(["tar", "--numeric-owner", "-tvf", self.folder / "tar"], capture_output=True, text=True, check=True, env={**os.environ, "TZ": "UTC"}).stdout
        self.assertRegex(listed, "-rwxr-xr-x 0/0 +11 2023-11-14 22:13 bin/program")
        archives.write_cpio(tree, self.folder / "cpio", 1700000000)
        content = (self.folder / "cpio").read_bytes()
        found = names_in_cpio(content)
        self.assertEqual([name for name in found if name.startswith(b"data/")], sorted([b"data/a b.txt", *(b"data/" + name for name in names)]))
        self.assertEqual(found[-2:], [b"dev/console", b"TRAILER!!!"])
        self.assertEqual(content[:6], b"070701")
        self.assertEqual(len(content) % 4, 0)
        self.assertIn(b"dev/console\0", content)
        self.assertIn(b"TRAILER!!!\0", content)

    def test_a_container_image_is_what_its_digests_say_and_the_same_bytes_twice(self):
        tree = self.tree("tree", 0o022, ["bin/program", "data/a b.txt"])
        archives.write_tar(tree, self.folder / "tree.tar", 1700000000)
        write = lambda name: oci.write_image(self.folder / "tree.tar", self.folder / name, "bascule-small:1", "2023-11-14T22:13:20Z", 1700000000, "/runs", "serve",
                                             {"org.opencontainers.image.version": "1", "bascule.settings.sha256": "ab"})
        write("one.tar")
        write("other.tar")
        self.assertEqual((self.folder / "one.tar").read_bytes(), (self.folder / "other.tar").read_bytes())
        with tarfile.open(self.folder / "one.tar") as image:
            self.assertEqual(image.getnames(), sorted(image.getnames()))
            self.assertEqual({entry.mtime for entry in image}, {1700000000})
            blobs = {name.split("/")[-1]: image.extractfile(name).read() for name in image.getnames() if image.getmember(name).isfile()}
        self.assertEqual(json.loads(blobs["oci-layout"]), {"imageLayoutVersion": "1.0.0"})

        def blob(descriptor):
            content = blobs[descriptor["digest"].removeprefix("sha256:")]
            self.assertEqual((hashlib.sha256(content).hexdigest(), len(content)), (descriptor["digest"].removeprefix("sha256:"), descriptor["size"]))
            return content
        index = json.loads(blobs["index.json"])["manifests"]
        self.assertEqual([one["annotations"]["org.opencontainers.image.ref.name"] for one in index], ["bascule-small:1"])
        manifest = json.loads(blob(index[0]))
        config = json.loads(blob(manifest["config"]))
        self.assertEqual([blob(layer) for layer in manifest["layers"]], [(self.folder / "tree.tar").read_bytes()])
        self.assertEqual(config["rootfs"]["diff_ids"], [layer["digest"] for layer in manifest["layers"]])
        self.assertEqual((config["config"]["Entrypoint"], config["config"]["Cmd"], config["config"]["Volumes"]), (["/bin/bascule"], ["serve"], {"/runs": {}}))
        self.assertEqual(config["config"]["Labels"]["bascule.settings.sha256"], "ab")
        self.assertEqual(manifest["annotations"], {"org.opencontainers.image.version": "1"})

    def test_a_lock_names_the_package_that_differs(self):
        one = packages.Package("libone", "amd64", "1.0-1", "one 1.0-1")
        lock = self.folder / "image.lock"
        packages.check_lock(lock, packages.lock_text([one], {}))
        packages.check_lock(lock, packages.lock_text([one], {}))
        for others, word in (([packages.Package("libone", "amd64", "1.0-2", "one 1.0-2")], "libone: .* has 1.0-1 .* this machine 1.0-2"), ([], "libone: .* this machine no such package")):
            with self.assertRaisesRegex(packages.ImageError, word):
                packages.check_lock(lock, packages.lock_text(others, {}))

    @unittest.skipUnless(shutil.which("dpkg-query"), "no Debian")
    def test_a_file_has_the_package_that_has_installed_it_under_either_name(self):
        shell = os.path.realpath("/bin/sh")  # recorded below /bin or below /usr/bin
        for name in (shell, shell.removeprefix("/usr"), "/bin/sh"):
            self.assertEqual(packages.owner(name).name, pathlib.Path(shell).name)
        self.assertIsNone(packages.owner(self.folder / "none"))

    def test_the_bill_of_materials_has_digest_and_licence_of_every_file(self):
        (self.folder / "abc").write_text("abc")
        ours = sbom.Component("bascule", "1", sbom.OURS, "", "here")
        other = sbom.Component("libc++", "2", "", "Do as you like.", "there")
        files = [("a", self.folder / "abc", ours), ("lib/b", self.folder / "abc", other)]
        bill = json.loads(sbom.bill("image", "1", "2023-11-14T22:13:20Z", files, [ours, other]))
        sums = {sum_["algorithm"]: sum_["checksumValue"] for sum_ in bill["files"][1]["checksums"]}
        self.assertEqual(sums, {"SHA1": "a9993e364706816aba3e25717850c26c9cd0d89d", "SHA256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"})
        self.assertEqual([one["licenseConcluded"] for one in bill["files"]], ["Apache-2.0", "LicenseRef-libc--"])
        self.assertEqual(bill["hasExtractedLicensingInfos"][0]["extractedText"], "Do as you like.")

    def test_the_package_is_built_with_what_install_packages_lists(self):
        control = (ROOT / "tools/packaging/debian/control").read_text()
        needed = set(re.findall(r"^ ([\w.+-]+),$", control.split("Build-Depends:")[1].split("Standards-Version:")[0], re.M))
        listed = (ROOT / "tools/install_packages").read_text().split("\npackages=(\n")[1].split("\n)")[0]
        installed = {name for line in listed.splitlines() for name in line.split("#")[0].split()}
        # g++, make and ninja-build come with packages that every build of Debian has, openmpi-bin starts runs.
        self.assertEqual(needed - {"dh-sequence-installsysusers"}, installed - {"g++", "make", "ninja-build", "openmpi-bin"})

    def test_headers_whose_code_is_in_the_program_have_their_licences_in_notice_and_package(self):
        texts = [(ROOT / name).read_text() for name in ("NOTICE", "tools/packaging/debian/copyright")]
        needed = re.findall(r"^ ([\w.+-]+-dev),$", (ROOT / "tools/packaging/debian/control").read_text(), re.M)
        if shutil.which("dpkg-query"):
            files = {name: subprocess.run(["dpkg-query", "--listfiles", name], capture_output=True, text=True, check=False).stdout for name in needed}
            self.assertEqual({name for name in needed if files[name] and not re.search(r"\.so$", files[name], re.M)},
                             {name for name in trees.LINKED_IN if files.get(name)})
        for name in trees.LINKED_IN:
            self.assertIn(name, needed)
            for text in texts:
                self.assertRegex(text, rf"\b{name}\b")
        of_all, *licences = texts[1].split("\nLicense: ")[1:]
        self.assertEqual(sorted(re.findall(r":\s+([\w.-]+)\.\s", of_all)), sorted(text.split("\n")[0] for text in licences[1:]))

    def purge(self, user, deleting="echo deleted >>{}/said"):
        """What postrm says in a root that is a folder: of the user, as getent prints it, and of what lies there."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        for name, script in {"getent": f"[ -n '{user}' ] && echo '{user}'", "userdel": deleting.format(self.folder)}.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o700)
        script = re.sub(r"(?<!\w)/(etc|var)/", rf"{self.folder}/\1/", (ROOT / "tools/packaging/debian/bascule.postrm").read_text())
        said = self.folder / "said"
        said.write_text("")
        done = subprocess.run(["sh", "-c", script, "postrm", "purge"], env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return said.read_text() + done.stderr

    def test_purging_deletes_only_the_user_that_the_package_made(self):
        home = f"{self.folder}/var/lib/bascule"
        self.assertEqual(self.purge(f"bascule:x:997:997:Bascule runs:{home}:/usr/sbin/nologin"), "deleted\n")
        for other in (f"bascule:x:1000:1000::{home}:/bin/sh", "bascule:x:997:997::/home/bascule:/bin/sh", ""):
            self.assertEqual(self.purge(other), "", other)
        self.assertEqual(self.purge(f"bascule:x:997:997::{home}:/bin/sh", deleting="exit 8"), "bascule: the user bascule stays; to remove it: userdel bascule\n")

    def test_purging_keeps_results_with_the_empty_folders_in_them(self):
        for name in ("etc/bascule", "etc/systemd/system/bascule@faces.service.d", "var/lib/bascule/faces/empty", "var/lib/bascule/unused"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "etc/systemd/system/bascule@faces.service.d/override.conf").touch()
        said = self.purge(f"bascule:x:997:997::{self.folder}/var/lib/bascule:/bin/sh")
        self.assertRegex(said, "^bascule: the results in .* stay, and so does the user bascule, .*\n$")
        left = [path.relative_to(self.folder).as_posix() for top in ("etc", "var/lib/bascule") for path in (self.folder / top).rglob("*")]
        self.assertEqual(sorted(left), ["etc/systemd", "etc/systemd/system", "var/lib/bascule/faces", "var/lib/bascule/faces/empty"])
