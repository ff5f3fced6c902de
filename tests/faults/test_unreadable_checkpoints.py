# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that cannot be used stops the run, which says which file, why, and what going on from an older one loses; and where a run begins."""
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import tempfile

from bascule_run import EMOJI, FolderTest, digest, run, run_ends, run_ok, run_until, settings
from rank_runs import SEED, preloaded
from test_foreign_folders import tree

DATA = 3


def small(folder, **changes):
    """4 updates, each saved; its own output folder so that nothing but the TOML file lies beside it."""
    return settings(folder, **{"training__max_steps": "4", "training__save_steps": "1", "training__save_total_limit": "0",
                               "data__train_file": f'"{EMOJI}/validation.jsonl"', **changes})


class UnreadableCheckpoints(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.whole = pathlib.Path(cls.temporary.name) / "run"
        run_ok("run", small(cls.temporary.name))
        cls.bits = digest(cls.whole / "model.safetensors")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        super().setUp()
        self.output = self.folder / "run"
        self.begin_again()

    def begin_again(self, last=4):
        """A run that was stopped after update `last`, by a program that wrote no marker."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir()
        for step in range(1, last + 1):
            shutil.copytree(self.whole / f"checkpoint-{step}", self.output / f"checkpoint-{step}")

    def refused(self, *words, environment=None, **changes):
        toml = small(self.folder, **changes)
        before = tree(self.output)
        done = run_ends(DATA, "run", toml, env={**os.environ, **(environment or {})})
        errors = [line for line in done.stderr.splitlines() if not line.startswith("bascule: plan: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertEqual(tree(self.output), before)

    def goes_on(self, *words, **changes):
        done = run_ok("run", small(self.folder, **changes))
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(digest(self.output / "model.safetensors"), self.bits)

    def damage_and_repair(self, name, change, ranks="1"):
        path = self.output / "checkpoint-4" / name
        path.write_bytes(change(path.read_bytes()))
        self.refused(f"checkpoint-4/{name}", '"older" resumes from checkpoint-3 and loses 1 update', distributed__world_size=ranks)
        self.goes_on("resume: skipping checkpoint-4 (", "resume: from checkpoint-3", training__resume='"older"')

    def test_a_flipped_bit_of_any_file(self):
        draw = random.Random(SEED)
        for name in sorted(path.name for path in (self.whole / "checkpoint-4").iterdir() if path.stat().st_size > 0):
            def flip(data):
                at = draw.randrange(len(data))
                return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]

            with self.subTest(name, seed=SEED):
                self.begin_again()
                self.damage_and_repair(name, flip)

    def test_a_file_cut_short(self):
        for name, ranks in (("model.safetensors", "1"), ("training_state.safetensors", "2"), ("bascule_state.json", "1")):
            with self.subTest(name):
                self.begin_again()
                self.damage_and_repair(name, lambda data: data[:len(data) // 2], ranks)

    def test_another_format(self):
        self.damage_and_repair("bascule_state.json", lambda data: data.replace(b'"format": 3', b'"format": 9'))
        self.begin_again()
        (self.output / "checkpoint-4" / "bascule_state.json").write_text(json.dumps({"format": 9}))
        self.refused("has format 9", "use the version of Bascule that saved it")

    def test_no_permission_and_an_error_of_the_disk(self):
        for call, number, words in (("open", errno.EACCES, "Permission denied"), ("pread", errno.EIO, "Input/output error")):
            for name in ("bascule_state.json", "training_state.safetensors"):
                with self.subTest(name, call=call):
                    broken = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": call, "FAILING_PATH": f"checkpoint-4/{name}",
                              "FAILING_ERROR": str(number)}
                    self.refused(f"checkpoint-4/{name}", words, '"older" resumes from checkpoint-3', environment=broken)
        self.goes_on("resume: from checkpoint-4")

    def test_it_stays_until_a_later_save_replaces_it(self):
        damaged = self.output / "checkpoint-4/config.json"
        for step in (3, 4):
            (self.output / f"checkpoint-{step}/config.json").write_text("{")
        full = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create", "FAILING_PATH": ".tmp-bascule-checkpoint-4/config.json",
                "FAILING_ERROR": str(errno.ENOSPC)}
        self.assertIn("saved checkpoint-3", run_ends(6, "run", small(self.folder, training__resume='"older"'), env={**os.environ, **full}).stderr)
        self.assertEqual(damaged.read_text(), "{")
        self.goes_on("resume: from checkpoint-3", training__resume='"older"')
        self.assertNotEqual(damaged.read_text(), "{")

    def test_where_none_can_be_used_the_run_does_not_begin_again(self):
        for step in range(1, 5):
            (self.output / f"checkpoint-{step}" / "config.json").write_text("")
        for resume in ("auto", "older"):
            self.refused("no older checkpoint is usable", training__resume=f'"{resume}"')

    def test_a_lost_state(self):
        (self.output / "checkpoint-4" / "bascule_state.json").unlink()
        for resume in ("auto", "older"):
            self.refused("lacks its bascule_state.json", training__resume=f'"{resume}"')

    def test_a_run_of_before_the_checksums_goes_on(self):
        for step in (1, 2, 3, 4):
            path = self.output / f"checkpoint-{step}" / "bascule_state.json"
            state = json.loads(path.read_text())
            state["format"] = 2
            for key in ("resumed_from", "xxh3"):
                del state[key]
            state["files"] = {name: file["bytes"] for name, file in state["files"].items()}
            path.write_text(json.dumps(state))
        shutil.rmtree(self.output / "checkpoint-4")
        self.goes_on("resume: from checkpoint-3")

    def test_a_named_checkpoint_is_where_the_run_begins(self):
        self.goes_on("resume: restarting from update 2", "resume: from run/checkpoint-2", training__resume='"run/checkpoint-2"')
        self.refused_by_settings("holds a finished run, which did not begin from", training__resume='"run/checkpoint-1"')
        done = run_ok("run", small(self.folder, training__resume='"run/checkpoint-2"'))
        self.assertIn("already finished", done.stderr)

    def refused_by_settings(self, word, **changes):
        before = tree(self.output)
        self.assertIn(word, run_ends(2, "run", small(self.folder, **changes)).stderr)
        self.assertEqual(tree(self.output), before)

    def test_a_named_checkpoint_may_be_of_another_run_and_only_begins_it(self):
        shutil.rmtree(self.output)
        self.assertEqual(run("run", small(self.folder, distributed__world_size="2")).returncode, 0)
        bits = digest(self.output / "model.safetensors")
        shutil.move(self.output / "checkpoint-1", self.folder / "best")
        shutil.rmtree(self.output)
        toml = small(self.folder, training__resume='"./best"', distributed__world_size="2")
        elsewhere = tree(self.folder / "best")
        code, said = run_until("saved checkpoint-2", signal.SIGTERM, "run", toml)
        self.assertEqual(code, 143, said)
        self.assertIn("resume: from ./best", said)
        done = run_ok("run", toml)
        self.assertRegex(done.stderr, "resume: from checkpoint-[234]")
        self.assertEqual(digest(self.output / "model.safetensors"), bits)
        self.assertEqual(tree(self.folder / "best"), elsewhere)

    def test_a_named_checkpoint_that_is_none(self):
        for name in ("nowhere", "run"):
            self.refused(f"{name}: is not a checkpoint", "it has no bascule_state.json", training__resume=f'"./{name}"')
        self.refused_by_settings('"auto", "never" or "older"', training__resume='"checkpoint-2"')
