# SPDX-License-Identifier: Apache-2.0
"""tools/packaging/make_image: what it refuses, in one line and before it compiles; an image that is whole or as it was. Images as wholes: `make image-check`."""
import contextlib
import errno
import fcntl
import io
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest
from unittest import mock

from tool_modules import ROOT, FolderTest, load
import boot
import emulated
import packages

LOCALE = os.environ.get("LC_ALL")  # loading it sets another
make_image = load("packaging/make_image")


class InAFolder(FolderTest):
    @contextlib.contextmanager
    def refused(self, pattern):
        with self.assertRaisesRegex(packages.ImageError, pattern) as raised:
            yield
        self.assertNotIn("\n", str(raised.exception))


class OneLine(InAFolder):
    """Is what a user sees who cannot have an image."""

    def run_main(self, *arguments, **of_make):
        """(exit code, standard error)"""
        error = io.StringIO()
        with mock.patch.object(sys, "argv", ["make_image", *map(str, arguments)]), mock.patch.object(make_image, "make", **of_make), \
                contextlib.redirect_stderr(error), self.assertRaises(SystemExit) as ended:
            make_image.main()
        code = ended.exception.code
        return (1, code) if isinstance(code, str) else (code, error.getvalue())

    def test_a_settings_file_that_cannot_be_read(self):
        broken = self.folder / "broken.toml"
        broken.write_text("[model\n")
        (serving := self.folder / "serving.toml").write_text("[serve]\n")
        for path, problem in ((broken, "broken.toml: Expected"), (serving, "an image serves what it has trained"), (self.folder / "none.toml", "none.toml: No such file"), (self.folder, "Is a directory")):
            done = subprocess.run([ROOT / "tools/packaging/make_image", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"^make_image: .*{problem}.*\n$")

    def test_a_program_that_ends_without_a_word_is_named_with_its_end(self):
        for script, said in (("exit 5", "bascule -c ended with exit code 5"), ("kill -9 $$", "bascule -c was ended by signal 9"), ("echo bascule: a: b >&2; exit 2", "a: b")):
            with self.assertRaises(packages.ImageError) as raised:
                make_image.answer("sh", "-c", script)
            self.assertEqual(str(raised.exception), said)

    def test_a_full_disk_names_the_folder(self):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # without a file's name, as a write raises it
        self.assertEqual(self.run_main("--output", self.folder, "one.toml", side_effect=full), (1, f"make_image: {self.folder}: No space left on device"))

    def test_too_little_space_is_seen_before_anything_is_written(self):
        (self.folder / "data").write_bytes(bytes(1 << 20))
        make_image.check_space(self.folder, {"data": self.folder / "data"})
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=1 << 26)), self.refused(r"0\.1 GiB are free, .* takes up to 0\.3 GiB; .*--output"):
            make_image.check_space(self.folder, {"data": self.folder / "data"})

    def test_an_interruption(self):
        code, error = self.run_main("one.toml", side_effect=KeyboardInterrupt)
        self.assertEqual((code, error), (130, "make_image: interrupted; the same command goes on\n"))

    def test_a_build_folder_from_which_the_sources_have_other_names(self):
        code, error = self.run_main("--build", self.folder, "one.toml")
        self.assertEqual(code, 2)
        self.assertIn(f"--build: {self.folder} is not directly in {ROOT}", error)

    def test_a_time_that_is_no_number(self):
        for given in ("yesterday", "-1", "1.5", ""):
            with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH=given), self.refused(f"SOURCE_DATE_EPOCH={given}: expected seconds"):
                make_image.last_commit_seconds()
        with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH="1700000000"):
            self.assertEqual(make_image.last_commit_seconds(), 1700000000)

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_sources_without_a_commit(self):
        environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        with mock.patch.dict(os.environ, environment, clear=True), mock.patch.object(make_image, "ROOT", self.folder), self.refused("no git commit.* set SOURCE_DATE_EPOCH"):
            make_image.last_commit_seconds()

    def test_what_is_not_installed(self):
        with mock.patch.object(boot, "program", lambda name: None if name == "zstd" else f"/bin/{name}"), mock.patch.object(boot, "STUB", __file__):
            with self.refused("zstd is missing; run tools/install_packages and tools/install_packages image"):
                make_image.check_what_is_needed()
        with mock.patch.object(boot, "program", lambda name: f"/bin/{name}"), mock.patch.object(boot, "STUB", "/none.efi.stub"), self.refused("/none.efi.stub is missing"):
            make_image.check_what_is_needed()

    def test_a_lock_that_is_none(self):
        lock = self.folder / "image.lock"
        for text in ("{", "[]", "{}", '{"packages": 1}'):
            lock.write_text(text)
            with self.refused(f"{lock}: is no list of packages .* remove it"):
                packages.check_lock(lock, packages.lock_text([], {}))


class Output(InAFolder):
    def test_is_replaced_when_the_new_image_is_whole(self):
        for error in (KeyboardInterrupt, OSError):
            (self.folder / "tree").mkdir(exist_ok=True)
            for name in ("tree.tar", "tree/old", "bascule.efi", "disk.ext4"):
                (self.folder / name).write_text("old")
            with contextlib.suppress(error), make_image.part_of(self.folder) as part:
                (part / "tree.tar").write_text("half")
                raise error
            self.assertEqual({path.name: path.read_text() for path in self.folder.rglob("*") if path.is_file()}, dict.fromkeys(("tree.tar", "old", "bascule.efi", "disk.ext4"), "old"))
        (self.folder / "part").mkdir()
        (self.folder / "part/of_a_killed_make_image").touch()
        with make_image.part_of(self.folder) as part:
            self.assertEqual(list(part.iterdir()), [])
            (part / "tree").mkdir()
            for name in ("tree.tar", "tree/new"):
                (part / name).write_text("new")
        # Without a boot file this time; the disk with results is the user's.
        self.assertEqual({path.relative_to(self.folder).as_posix(): path.read_text() for path in self.folder.rglob("*") if path.is_file()},
                         {"tree.tar": "new", "tree/new": "new", "disk.ext4": "old"})

    def test_is_as_it_was_where_replacing_it_is_interrupted(self):
        def image(text):
            return {"tree/file": text, "tree.tar": text}

        def write(folder, text):
            (folder / "tree").mkdir()
            for name in image(text):
                (folder / name).write_text(text)
        rename = pathlib.Path.rename
        for last in range(1, 5):
            for is_done in (False, True):
                output = self.folder / f"{last}{is_done}"
                output.mkdir()
                write(output, "old")
                renamed = []

                def interrupted(path, target, renamed=renamed, last=last, is_done=is_done):
                    renamed.append(path)
                    if len(renamed) != last:
                        return rename(path, target)
                    if is_done:
                        rename(path, target)
                    raise KeyboardInterrupt
                with self.assertRaises(KeyboardInterrupt), make_image.part_of(output) as part:
                    write(part, "new")
                    with mock.patch.object(pathlib.Path, "rename", interrupted):
                        make_image.replace(output, part)
                self.assertEqual({path.relative_to(output).as_posix(): path.read_text() for path in output.rglob("*") if path.is_file()}, image("old"))

    def test_has_no_boot_file_of_a_tree_that_does_not_fit_one(self):
        (self.folder / "weights").write_bytes(bytes(100))
        tree = mock.Mock(files=[("weights", self.folder / "weights", None)] * 2)
        said = io.StringIO()
        with mock.patch.object(boot, "MOST_BYTES", 200), contextlib.redirect_stdout(said):
            self.assertFalse(make_image.can_boot(tree))
            tree.files.pop()
            self.assertTrue(make_image.can_boot(tree))
        self.assertRegex(said.getvalue(), "^make_image: no boot file is made: .*\n$")

    def test_is_compiled_in_the_locale_of_the_user_of_which_a_compiler_cache_has_other_builds(self):
        with mock.patch.object(make_image, "run") as run:
            make_image.build(self.folder, "bascule")
        self.assertEqual(run.call_args.kwargs["env"].get("LC_ALL"), LOCALE)
        self.assertEqual(os.environ["LC_ALL"], "C.UTF-8")

    def test_one_at_a_time_compiles_in_a_folder(self):
        said, entered = io.StringIO(), threading.Event()

        def other():
            with make_image.alone(self.folder):
                entered.set()
        with (self.folder / "make_image.lock").open("w") as lock, contextlib.redirect_stdout(said):
            fcntl.flock(lock, fcntl.LOCK_EX)
            thread = threading.Thread(target=other)
            thread.start()
            self.assertFalse(entered.wait(0.1))
            fcntl.flock(lock, fcntl.LOCK_UN)
            thread.join(timeout=60)
        self.assertTrue(entered.is_set())
        self.assertRegex(said.getvalue(), "^make_image: waiting for another make_image, which compiles in .*\n$")

    def test_a_kernel_that_was_half_downloaded_is_downloaded_again(self):
        def download(is_whole):
            def command(name, *words, cwd, advice):
                (cwd / "linux_1_amd64.deb").write_text("whole" if is_whole else "half")
                if not is_whole:
                    raise KeyboardInterrupt
            return mock.patch.object(boot, "command", command)
        with contextlib.suppress(KeyboardInterrupt), download(is_whole=False):
            boot.downloaded("linux", self.folder)
        with download(is_whole=True):
            self.assertEqual(boot.downloaded("linux", self.folder).read_text(), "whole")
        self.assertEqual(boot.downloaded("linux", self.folder), self.folder / "linux_1_amd64.deb")

    def test_a_container_has_a_name_that_registries_allow(self):
        for written, name in (("demo", "bascule-demo"), ("bert_demo", "bascule-bert_demo"), ("v1.5-Large", "bascule-v1.5-large"), ("my run (2)", "bascule-my-run-2"),
                              ("_ü_", "bascule-image"), ("a..b", "bascule-a-b"), ("a_.b", "bascule-a-b")):
            self.assertEqual(make_image.container_name(pathlib.Path(f"config/{written}.toml")), name)


class Emulated(InAFolder):
    """A machine that starts an image: here a shell that says what a console would."""

    def boot(self, *consoles, seconds=60):
        machines = iter([["sh", "-c", console] for console in consoles])
        with mock.patch.object(emulated, "machine", lambda *arguments, **options: next(machines)):
            return emulated.boot(self.folder, self.folder, seconds, tell=lambda line: None), len(list(machines))

    def test_says_the_exit_code_and_when_the_first_update_was(self):
        booted, _ = self.boot("echo 'train: step  1/8'; echo 'bascule: init: exit code 3'")
        self.assertEqual(booted.code, 3)
        self.assertGreaterEqual(booted.first_update, booted.first_update_cpu)

    def test_is_killed_after_its_time(self):
        booted, _ = self.boot("exec sleep 60", seconds=0.1)
        self.assertEqual(booted, emulated.Booted())

    def test_starts_again_where_it_had_too_little_of_a_busy_machine(self):
        starved, ended = f"echo \"[    0.048000] Kernel panic - not syncing: {emulated.STARVED}!\"", "echo bascule: init: exit code 0"
        self.assertEqual(self.boot(starved, ended, ended), (emulated.Booted(code=0), 1))
        self.assertEqual(self.boot(*[starved] * emulated.STARTS, ended), (emulated.Booted(), 1))
