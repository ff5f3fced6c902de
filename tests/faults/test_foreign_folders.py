# SPDX-License-Identifier: Apache-2.0
"""What is not ours is never written into, removed or replaced: an output_dir of somebody else is refused, and every byte of it still there."""
import errno
import hashlib
import json
import os
import shutil

from bascule_run import EMOJI, FolderTest, run, run_ends, run_ok, settings
from rank_runs import preloaded

SETTINGS, DATA, DISK = 2, 3, 6
SMALL = {"training__max_steps": "2", "training__save_steps": "1", "data__train_file": f'"{EMOJI}/validation.jsonl"'}


def tree(folder):
    """Names, modes, owners, times, link targets and contents of all that lies there."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns, content)
    return found


def write(path, content="somebody's"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def hugging_face_checkpoint(folder):
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "training_args.bin", "config.json"):
        write(folder / name)


def hugging_face_run(folder):
    for step in (500, 1000):
        hugging_face_checkpoint(folder / f"checkpoint-{step}")
    for name in ("model.safetensors", "config.json", "README.md", "all_results.json", "trainer_state.json"):
        write(folder / name)


def checkpoints_alone(folder):
    for step in (1, 2, 500):
        hugging_face_checkpoint(folder / f"checkpoint-{step}")


def empty_checkpoints(folder):
    for step in (1, 2):
        (folder / f"checkpoint-{step}").mkdir(parents=True)


def lightning(folder):
    write(folder / "lightning_logs" / "version_0" / "checkpoints" / "epoch=0-step=100.ckpt")
    write(folder / "lightning_logs" / "version_0" / "hparams.yaml")


def half_a_checkpoint(folder):
    hugging_face_checkpoint(folder / "checkpoint-7.tmp")


def another_marker(folder):
    write(folder / "bascule.json", json.dumps({"name": "bascule", "version": "1.0"}))


def hidden_and_not(folder):
    write(folder / ".git" / "config")
    (folder / "lost+found").mkdir()
    write(folder / "thesis.tex")


def linked(folder):
    hugging_face_run(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def dangling(folder):
    folder.symlink_to(folder.parent / "nowhere")


def a_file(folder):
    write(folder)


def read_only(folder):
    write(folder / "notes.txt")
    folder.chmod(0o555)


FOREIGN = (hugging_face_run, checkpoints_alone, empty_checkpoints, lightning, half_a_checkpoint, another_marker, hidden_and_not, linked, dangling,
           a_file, read_only)


class ForeignFolders(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "data" / "run"
        self.output.parent.mkdir()

    def settings(self, **changes):
        return settings(self.folder, **{**SMALL, "training__output_dir": f'"{self.output}"', **changes})

    def refused(self, code, *words, environment=None, **changes):
        toml = self.settings(**changes)
        before = tree(self.output.parent)
        done = run_ends(code, "run", toml, env={**os.environ, **(environment or {})})
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(tree(self.output.parent), before)

    def test_of_every_kind_are_refused_and_every_byte_is_still_there(self):
        for make in FOREIGN:
            make(self.output)
            for changes in ({"training__resume": '"never"', "training__save_total_limit": "0"}, {"training__save_total_limit": "1"},
                            {"training__resume": '"older"', "distributed__world_size": "2"}):
                with self.subTest(make.__name__, **changes):
                    self.refused(SETTINGS, "run.toml", "choose an empty folder", **changes)
            shutil.rmtree(self.output.parent)
            self.output.parent.mkdir()

    def test_our_own_of_another_model_or_length_is_refused(self):
        self.assertEqual(run("run", self.settings()).returncode, 0)
        self.refused(SETTINGS, "model.head", model__head='"masked_lm"')
        self.refused(SETTINGS, "already holds a run", training__resume='"never"')
        (self.output / "bascule.json").unlink()  # as a run that is not finished, of before there was a marker
        self.refused(SETTINGS, "model.head", model__head='"masked_lm"')
        self.refused(SETTINGS, "model.head", model__head='"masked_lm"', distributed__world_size="2")

    def test_somebody_elses_checkpoint_in_a_run_of_ours_stops_it(self):
        self.assertEqual(run("run", self.settings()).returncode, 0)
        (self.output / "bascule.json").unlink()
        hugging_face_checkpoint(self.output / "checkpoint-900")
        self.refused(SETTINGS, "checkpoint-900", "is not a Bascule checkpoint")

    def test_another_version_of_the_marker_stops_the_run(self):
        self.assertEqual(run("run", self.settings()).returncode, 0)
        marker = json.loads((self.output / "bascule.json").read_text())
        (self.output / "bascule.json").write_text(json.dumps({**marker, "format": 1000}))
        self.refused(DATA, "bascule.json", "format 1000")

    def test_an_empty_folder_on_a_disk_that_is_read_only_is_a_fault_of_the_disk(self):
        self.output.mkdir()
        for ranks in ("1", "2"):
            toml = self.settings(distributed__world_size=ranks)
            before = tree(self.output)
            done = run_ends(DISK, "run", toml, env={**os.environ, "LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create",
                                                    "FAILING_PATH": f"{self.output}/", "FAILING_ERROR": str(errno.EROFS)})
            self.assertEqual(done.stderr.count("Read-only file system"), 1, done.stderr)
            self.assertEqual(tree(self.output), before)

    def test_hidden_files_and_what_is_put_into_a_run_of_ours_stay(self):
        kept = {name: self.output / name for name in (".nfs001", ".tmp-notes", "lost+found/x", ".cache/y")}
        for path in kept.values():
            write(path)
        self.assertEqual(run("run", self.settings()).returncode, 0)
        write(self.output / "notes.txt")
        (self.output / "bascule.json").unlink()
        run_ok("run", self.settings(training__save_total_limit="1"))
        for path in (*kept.values(), self.output / "notes.txt"):
            self.assertEqual(path.read_text(), "somebody's")

    def test_the_marker_is_there_before_anything_else(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                toml = self.settings(distributed__world_size=ranks)
                run_ends(DISK, "run", toml, env={**os.environ, "LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create",
                                                 "FAILING_PATH": ".tmp-bascule-bascule.json", "FAILING_ERROR": str(errno.ENOSPC)})
                self.assertEqual(os.listdir(self.output), [])
