# SPDX-License-Identifier: Apache-2.0
"""Tar shards: the samples of a JSON-lines manifest as shards give the same bits, stopped or not; damage and exchanged data are named."""
import io
import json
import os
import resource
import signal
import tarfile

from bascule_run import EMOJI, FolderTest, digest, run_ends, run_ok, run_until, settings


def samples(count):
    """(picture, caption), no picture twice: in a shard every sample has its own."""
    rows, seen = [], set()
    for line in (EMOJI / "train.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["image"] not in seen:
            seen.add(row["image"])
            rows.append((EMOJI / row["image"], row["caption"]))
    return rows[:count]


def write_manifest(path, rows):
    path.write_text("".join(json.dumps({"image": str(picture), "caption": caption}) + "\n" for picture, caption in rows))


def write_shards(folder, rows, shards):
    for number in range(shards):
        with tarfile.open(folder / f"shard-{number:03}.tar", "w") as tar:
            share = rows[number * len(rows) // shards:(number + 1) * len(rows) // shards]
            for index, (picture, caption) in enumerate(share):
                for ending, contents in (("jpg", picture.read_bytes()), ("txt", caption.encode())):
                    info = tarfile.TarInfo(f"{index:06}.{ending}")
                    info.size = len(contents)
                    tar.addfile(info, io.BytesIO(contents))
    return f"{folder}/shard-{{000..{shards - 1:03}}}.tar"


def losses(folder):
    return [entry["loss"] for entry in json.loads((folder / "trainer_state.json").read_text())["log_history"] if "loss" in entry]


class Shards(FolderTest):
    def setUp(self):
        super().setUp()
        rows = samples(90)
        write_manifest(self.folder / "train.jsonl", rows)
        write_manifest(self.folder / "test.jsonl", rows[:20])
        (self.folder / "t").mkdir()
        self.shards = write_shards(self.folder, rows, 3)
        self.test_shards = write_shards(self.folder / "t", rows[:20], 1)

    def run_settings(self, name, train, test):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder / "run", settings(folder, data__train_file=f'"{train}"', data__test_file=f'"{test}"', training__max_steps="40")

    def test_give_the_bits_of_the_same_rows_in_a_manifest_also_when_resumed(self):
        folder, toml = self.run_settings("lines", self.folder / "train.jsonl", self.folder / "test.jsonl")
        run_ok("run", toml)
        model = digest(folder / "model.safetensors")
        expected = losses(folder)
        self.assertEqual(len(expected), 20)

        folder, toml = self.run_settings("shards", self.shards, self.test_shards)
        run_ok("run", toml)
        self.assertEqual(losses(folder), expected)
        self.assertEqual(digest(folder / "model.safetensors"), model)
        self.assertIn("data:image/jpeg;base64,", (folder / "report.html").read_text())

        folder, toml = self.run_settings("resumed", self.shards, self.test_shards)
        self.stop_early(toml)
        resumed = run_ok("run", toml)
        self.assertIn("resume: from checkpoint-", resumed.stderr)
        self.assertEqual(digest(folder / "model.safetensors"), model)
        self.assertEqual(losses(folder), expected)

    def stop_early(self, toml):
        self.assertEqual(run_until(" step ", signal.SIGTERM, "run", toml)[0], 143)

    def test_that_changed_are_refused_when_a_run_goes_on(self):
        for name, change in (("manifest", self.edit_manifest), ("shards", self.edit_shard)):
            with self.subTest(name):
                train = self.folder / "train.jsonl" if name == "manifest" else self.shards
                folder, toml = self.run_settings(name, train, self.folder / "test.jsonl")
                self.stop_early(toml)
                saved = sorted(p.name for p in folder.glob("checkpoint-*"))
                self.assertTrue(saved)
                marker = (folder / "bascule.json").read_bytes()
                change()
                done = run_ends(3, "run", toml)
                error = [line for line in done.stderr.splitlines() if "data.train_file" in line]
                self.assertEqual(len(error), 1, done.stderr)
                self.assertRegex(error[0], r"^bascule: \S+: data\.train_file differs from what .*checkpoint-\d+ was trained with: "
                                           r"row 1 has a different text, label, picture name or picture size; restore it, or choose another output_dir$")
                self.assertEqual(sorted(p.name for p in folder.glob("checkpoint-*")), saved)
                self.assertEqual((folder / "bascule.json").read_bytes(), marker)  # a refused run changes nothing

    def edit_manifest(self):
        path = self.folder / "train.jsonl"
        path.write_text(path.read_text().replace('"caption": "', '"caption": "x', 1))

    def edit_shard(self):
        rows = samples(91)
        write_shards(self.folder, rows[1:], 3)

    def test_that_are_damaged_are_named_with_their_member(self):
        path = self.folder / "shard-001.tar"
        path.write_bytes(path.read_bytes()[:20000])
        _, toml = self.run_settings("damaged", self.shards, self.test_shards)
        for command in ("plan", "run"):
            self.assertRegex(run_ends(3, command, toml).stderr, r"shard-001\.tar: 0000\d\d\.(jpg|txt): .*truncated")

    def test_with_a_damaged_picture_stop_at_its_member_or_skip_it(self):
        rows = samples(12)
        damaged = self.folder / "damaged.jpg"
        damaged.write_bytes(rows[7][0].read_bytes()[:300])
        shards = write_shards(self.folder, rows[:7] + [(damaged, "cut short")] + rows[8:], 2)
        toml = settings(self.folder, data__train_file=f'"{shards}"')
        self.assertRegex(run_ends(3, "run", toml).stderr, r"shard-001\.tar: 000001\.jpg: .*; repair it, remove the row, or set data\.on_bad_sample")
        (self.folder / "skipped").mkdir()
        run_ok("run", settings(self.folder / "skipped", data__train_file=f'"{shards}"', data__on_bad_sample='"skip"'))

    def test_more_than_the_system_opens_are_refused_in_one_line(self):
        shards = write_shards(self.folder, samples(60), 60)
        toml = settings(self.folder, data__train_file=f'"{shards}"')
        done = run_ends(3, "run", toml, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.assertRegex(done.stderr, r"shard-0\d\d\.tar: the limit of \d+ open files is too low: the run needs one for each of 60 shards, and up to 64 for .*; raise the limit of open files \(ulimit -n\)")

    def test_lie_in_folders_of_any_name(self):
        for name in ("a,b", "br{1..2}", "br{x"):
            folder = self.folder / name
            folder.mkdir()
            write_shards(folder, samples(16), 2)
            run_ok("plan", settings(folder, data__train_file='"shard-{000..001}.tar"'))

    def test_that_are_pipes_are_refused_and_not_waited_for(self):
        for name in ("pipe.tar", "pipe.jsonl"):
            os.mkfifo(self.folder / name)
            self.assertIn(f"{name}: is not a file", run_ends(3, "plan", settings(self.folder, data__train_file=f'"{name}"')).stderr)

    def test_are_found_beside_the_settings_file(self):
        for written in ("shard-{000..002}.tar", "shard-000.tar,shard-{001,002}.tar"):
            toml = settings(self.folder, data__train_file=f'"{written}"', data__test_file=None)
            run_ok("plan", toml)
        self.assertIn("shard-003.tar: cannot be read: No such file", run_ends(3, "plan", settings(self.folder, data__train_file='"shard-{000..003}.tar"')).stderr)
