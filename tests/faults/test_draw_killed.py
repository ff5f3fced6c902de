# SPDX-License-Identifier: Apache-2.0
"""A run that draws may be killed, stopped or left without disk at any instant: what is there is whole, and the same command ends with the files of an unbroken run.

BASCULE_KILLS sets how many runs are killed (6). BASCULE_TEST_SEED repeats the instants.
"""
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import tempfile
import time

from bascule_run import PROGRAM, FolderTest, patient, run, run_ends, run_ok, wait_for
from drawing import PIPELINES, digests, drawing, pictures, rows, wait_for_lines
from flipped_bits import flip
from rank_runs import preloaded

SETTINGS, DATA, DISK = 2, 3, 6


def long_drawing(folder, **keys):
    return drawing(folder, **{"num_images_per_prompt": "12", "batch_size": "5", "num_inference_steps": "8", "seed": "3", **keys})


def start(toml, *words, stdout=subprocess.DEVNULL, **options):
    return subprocess.Popen([str(PROGRAM), "run", str(toml), *words], stdout=stdout, stderr=subprocess.PIPE, text=True, **options)


def left(folder):
    """Files of pictures, and the digest of each by its file; lines that are cut or there twice fail."""
    lines = rows(folder / "run")
    found = digests(lines)
    assert len(found) == len(lines), "a picture has two lines"
    return pictures(folder / "run"), found


def left_of_broken(folder):
    return pictures(folder / "run"), digests(rows_so_far(folder))  # a kill may leave a cut line behind them


def rows_so_far(folder):
    """The whole lines of a run that is drawing."""
    text = (folder / "run" / "images.jsonl").read_text()
    return [json.loads(line) for line in text.split("\n")[:-1]]


def leftovers(folder):
    return [path.name for path in (folder / "run").iterdir() if path.name.startswith(".tmp-")]


def pictures_changed(folder, old):
    try:
        now = pictures(folder / "run")
    except FileNotFoundError:  # the run has just removed one
        return 0
    return sum(1 for name, digest in now.items() if old.get(name) != digest)


class Broken(FolderTest):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        began = time.monotonic()
        run_ok("run", long_drawing(folder))
        cls.seconds = time.monotonic() - began
        cls.whole = left(folder)
        assert len(cls.whole[0]) == 24

    def judge_broken(self):
        """Every picture that has a line is whole, and the one of an unbroken run."""
        if not (self.folder / "run" / "images.jsonl").exists():
            return 0
        files, found = left_of_broken(self.folder)
        for name, digest in found.items():
            self.assertEqual(digest, self.whole[1][name])
            self.assertEqual(files[name], self.whole[0][name])
        return len(found)

    def judge_resumed(self, done, found=None):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(left(self.folder), self.whole)
        self.assertEqual(leftovers(self.folder), [])
        results = json.loads((self.folder / "run" / "all_results.json").read_text())
        self.assertEqual(results["pictures"], 24)
        if found is not None:
            self.assertEqual((results["pictures_found"], results["pictures_drawn"]), (found, 24 - found))


class Killed(Broken):
    def test_at_any_instant(self):
        seed = int(os.environ.get("BASCULE_TEST_SEED", "20261125"))
        draw = random.Random(seed)
        reached = []
        for kill in range(int(os.environ.get("BASCULE_KILLS", "6"))):
            with self.subTest(kill=kill, seed=seed):
                self.doCleanups()
                self.setUp()
                toml = long_drawing(self.folder)
                process = start(toml)
                time.sleep(draw.uniform(0.0, self.seconds))
                process.kill()
                process.communicate()
                reached.append(self.judge_broken())
                # Batch, threads and instruction set may be others when it goes on.
                done = run("run", long_drawing(self.folder, batch_size="3", tables="[machine]\nthreads = 1\n"))
                self.judge_resumed(done, reached[-1] if reached[-1] < 24 else None)
        self.assertTrue([count for count in reached if 0 < count < 24], f"no run was killed between two pictures: {reached}")

    def test_while_all_is_drawn_anew(self):
        """The pictures of the settings before are not taken for those of the settings now."""
        for lines in (0, 2):
            with self.subTest(lines=lines):
                self.doCleanups()
                self.setUp()
                self.assertEqual(run("run", long_drawing(self.folder, num_inference_steps="2")).returncode, 0)
                old = pictures(self.folder / "run")
                process = start(long_drawing(self.folder, resume='"never"', batch_size="1"))
                if lines == 0:
                    for line in process.stderr:
                        if line.startswith("bascule: weights"):  # the folder is marked with the new settings, and nothing is drawn
                            break
                else:
                    while process.poll() is None and pictures_changed(self.folder, old) < lines:
                        time.sleep(0.001)
                process.kill()
                process.communicate()
                done = run("run", long_drawing(self.folder))
                if done.returncode == SETTINGS:  # killed before anything was removed: the old pictures are all there
                    self.assertIn("holds pictures of other settings", done.stderr)
                    self.assertEqual(pictures(self.folder / "run"), old)
                    done = run("run", long_drawing(self.folder, resume='"never"'))
                self.judge_resumed(done)


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return bool(int(caught[1], 16) >> (number - 1) & 1)


class Stopped(Broken):
    def test_by_a_signal_between_two_calls(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(signal=number):
                self.doCleanups()
                self.setUp()
                process = start(long_drawing(self.folder, batch_size="2"))
                wait_for_lines(self.folder, 4, process)
                process.send_signal(number)
                text = process.communicate(timeout=patient(60))[1]
                self.assertEqual(process.returncode, code, text)
                found = self.judge_broken()
                self.assertEqual(len(pictures(self.folder / "run")), found)
                self.assertIn(f"run: stopped; {found} of 24 pictures are there; run the same command again to draw the others", text)
                self.judge_resumed(run("run", long_drawing(self.folder)), found)
        again = run("run", self.folder / "run.toml")
        self.assertIn("already finished", again.stderr)

    def test_by_a_signal_while_a_batch_is_written(self):
        """The batch is written to its end, and no other is begun."""
        slow = {**os.environ, "LD_PRELOAD": preloaded("slow_fsync")}
        process = start(long_drawing(self.folder), "--json", stdout=subprocess.PIPE, env=slow)
        wait_for_lines(self.folder, 6, process)
        process.send_signal(signal.SIGTERM)
        document, text = process.communicate(timeout=patient(60))
        self.assertEqual(process.returncode, 143, text)
        self.assertEqual(json.loads(document)["error"]["exit_code"], 143)
        self.assertEqual(self.judge_broken() % 5, 0)
        self.judge_resumed(run("run", long_drawing(self.folder)))

    def test_a_single_picture_by_a_signal(self):
        picture = self.folder / "x.png"
        process = subprocess.Popen([str(PROGRAM), "draw", str(PIPELINES / "sd_v1"), "x", "-o", str(picture), "--steps", "999", "--height", "256", "--width", "256", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # --json catches signals from the start on; threads compute once the command has its own handlers.
        tasks, began = pathlib.Path(f"/proc/{process.pid}/task"), time.monotonic()
        wait_for(lambda: len(list(tasks.iterdir())) > 1 or time.monotonic() > began + 3)
        process.terminate()
        document, text = process.communicate(timeout=patient(60))
        self.assertEqual(process.returncode, 143, text)
        self.assertIn("draw: stopped; no picture was written", text)
        self.assertEqual({key: json.loads(document)["error"][key] for key in ("exit_code", "kind")}, {"exit_code": 143, "kind": "stopped"})
        self.assertFalse(picture.exists())


class WithoutDisk(Broken):
    def test_files_that_may_grow_no_more(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # memory that ranks would share is that large

        process = start(long_drawing(self.folder), preexec_fn=limit)
        text = process.communicate(timeout=patient(60))[1]
        self.assertEqual(process.returncode, DISK, text)
        errors = [line for line in text.splitlines() if "File too large" in line]
        self.assertEqual(len(errors), 1, text)
        found = self.judge_broken()
        self.assertGreater(found, 5)
        self.assertLess(found, 24)
        self.assertEqual(leftovers(self.folder), [])
        self.judge_resumed(run("run", long_drawing(self.folder)), found)

    def test_a_file_system_that_is_full(self):
        script = f"""
mkdir -p {self.folder}/disk
mount -t tmpfs -o size=64k none {self.folder}/disk || exit 77
"{PROGRAM}" run {long_drawing(self.folder, output_dir=f'"{self.folder}/disk/run"')} 2> {self.folder}/log
code=$?
cp -r {self.folder}/disk/run {self.folder}/run
mount -o remount,size=1m {self.folder}/disk
"{PROGRAM}" run {self.folder}/run.toml || exit 1
cp -r {self.folder}/disk/run {self.folder}/resumed
exit $code
"""
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script], capture_output=True, text=True, timeout=patient(60), check=False)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("no mount namespaces here")
        log = (self.folder / "log").read_text()
        self.assertEqual(done.returncode, DISK, log + done.stderr)
        self.assertEqual(len([line for line in log.splitlines() if "No space left on device" in line]), 1, log)
        found = self.judge_broken()
        self.assertGreater(found, 2)
        self.assertLess(found, 24)
        (self.folder / "run").rename(self.folder / "full")
        (self.folder / "resumed").rename(self.folder / "run")
        self.judge_resumed(subprocess.CompletedProcess([], 0), found)


class Damaged(Broken):
    def test_pictures_that_are_gone_are_drawn_again(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        for name in ("00003.png", "00017.png"):
            (self.folder / "run" / name).unlink()
        self.judge_resumed(run("run", long_drawing(self.folder)), 22)

    def test_a_cut_line_is_drawn_again_and_one_that_stands_twice_is_kept_once(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        path = self.folder / "run" / "images.jsonl"
        lines = path.read_bytes()
        path.write_bytes(lines[:lines.index(b"\n") + 1] + lines[:-30])
        self.judge_resumed(run("run", long_drawing(self.folder)), 23)

    def test_never_draws_all_anew(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        before = {path.name: path.stat().st_mtime_ns for path in (self.folder / "run").glob("*.png")}
        self.judge_resumed(run("run", long_drawing(self.folder, resume='"never"')), 0)
        after = {path.name: path.stat().st_mtime_ns for path in (self.folder / "run").glob("*.png")}
        self.assertFalse([name for name in before if before[name] == after[name]])

    def test_what_is_damaged_is_refused_with_what_to_do_and_drawn_anew_when_asked(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        path = self.folder / "run" / "images.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        third = {key: value for key, value in json.loads(lines[2]).items() if key != "check"}  # as an earlier version wrote it
        for words, line in (("images.jsonl:3:", "no JSON"), ("images.jsonl:3: is not a JSON object", "[]"), ("images.jsonl:3: \"digest\" is missing", json.dumps({**third, "digest": None})),
                            ("images.jsonl:3: latents has 0 digests, but a picture has 10 here", json.dumps({**third, "latents": []}))):
            with self.subTest(words=words):
                path.write_text("".join(lines[:2] + [line + "\n"] + lines[3:]))
                done = run_ends(DATA, "run", long_drawing(self.folder))
                self.assertIn(words, done.stderr)
                self.assertIn("; restore it, or remove the line: its picture is drawn again\n", done.stderr)
        # The third picture was drawn again before the last one was begun.
        path.write_text("".join([json.dumps({**third, "digest": "0" * 16}) + "\n", *lines[:-1]]))
        done = run("run", long_drawing(self.folder))
        self.judge_resumed(done, 23)
        self.assertNotIn("drawn again", done.stderr)
        path.write_text("".join(lines[:2] + lines[3:]))  # as that says
        self.judge_resumed(run("run", long_drawing(self.folder)), 23)
        path.write_text("no JSON\n")
        self.judge_resumed(run("run", long_drawing(self.folder, resume='"never"')), 0)
        path.unlink()
        path.mkdir()
        self.assertIn("images.jsonl: is not a file; restore it, or move it away: all pictures are drawn again", run_ends(DATA, "run", long_drawing(self.folder)).stderr)
        path.rmdir()
        self.judge_resumed(run("run", long_drawing(self.folder)), 0)

    def test_a_damaged_marker_is_named_with_what_to_do(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        path = self.folder / "run" / "bascule.json"
        whole = path.read_text()
        restore = "restore it, or choose another folder"
        for text, words in (("no JSON", f"is damaged, or was not written by Bascule; {restore}"), (json.dumps({**json.loads(whole), "settings": 5}), f"\"settings\" is 5; it must be a string; {restore}"),
                            (json.dumps({**json.loads(whole), "settings": "\n[draw]\nx = 3\n"}), f"its settings cannot be read: \"x = 3\" is not a setting that this program writes; {restore}, or set draw.resume")):
            with self.subTest(words=words):
                path.write_text(text)
                self.assertIn(f"/run/bascule.json: {words}", run_ends(DATA, "run", long_drawing(self.folder)).stderr)
        self.judge_resumed(run("run", long_drawing(self.folder, resume='"never"')), 0)  # whose settings alone were damaged

    def test_a_folder_in_place_of_a_picture_is_named(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        picture = self.folder / "run" / "00003.png"
        picture.unlink()
        picture.mkdir()
        for resume in ("auto", "never"):
            self.assertIn(f"run.toml:4:14: {picture} is a folder, but a picture will be written there; move it away", run_ends(SETTINGS, "run", long_drawing(self.folder, resume=f'"{resume}"')).stderr)
        picture.rmdir()
        self.judge_resumed(run("run", long_drawing(self.folder)), 23)

    def test_pictures_that_are_not_whole_are_drawn_again(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        (self.folder / "run" / "00002.png").write_bytes(b"")
        cut = self.folder / "run" / "00005.png"
        cut.write_bytes(cut.read_bytes()[:-5])
        link = self.folder / "run" / "00007.png"
        link.rename(self.folder / "elsewhere.png")
        link.symlink_to(self.folder / "elsewhere.png")
        self.judge_resumed(run("run", long_drawing(self.folder)), 21)

    def test_pictures_that_are_not_those_of_their_lines_are_drawn_again_and_said(self):
        """A bit of the pixels, of a text, of the last checksum of the pixels; two pictures exchanged; another of another size."""
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        output = self.folder / "run"
        data = (output / "00001.png").read_bytes()
        for name, byte in (("00001.png", data.index(b"IDAT") + 90), ("00004.png", data.index(b"prompt") + 8), ("00006.png", -13)):
            flip(output / name, byte, 2)
        first, second = (output / "00010.png").read_bytes(), (output / "00011.png").read_bytes()
        (output / "00010.png").write_bytes(second)
        (output / "00011.png").write_bytes(first)
        self.assertEqual(run("draw", PIPELINES / "sd_v1", "x", "--steps", "1", "--height", "16", "--width", "24", "-o", output / "00013.png").returncode, 0)
        (output / "00015.png").unlink()
        (output / "00016.png").unlink()
        done = run("run", long_drawing(self.folder))
        self.judge_resumed(done, 24 - 8)
        said = [line[14:] for line in done.stderr.splitlines() if "drawn again" in line]
        expected = [f"{name}.png {problem}" for name, problem in (("00001", "is damaged"), ("00004", "is damaged"), ("00006", "is damaged"), ("00010", "shows another picture"),
                                                                 ("00011", "shows another picture"), ("00013", "is damaged"), ("00015", "is missing"), ("00016", "is missing"))]
        self.assertEqual(said, [f"{text}; it is drawn again" for text in expected])
        self.assertEqual(run("reproduce", output, "--check").returncode, 0)

    def test_a_line_with_a_bit_changed_is_refused(self):
        """Nothing else would show it: a picture does not tell the latents that it was decoded from."""
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        path = self.folder / "run" / "images.jsonl"
        whole = path.read_text()
        third = whole.splitlines(keepends=True)[2]
        digest = json.loads(third)["latents"][1]
        for changed in (third.replace(digest, digest[:-1] + ("1" if digest[-1] == "0" else "0")), third.replace('"check"', '"chekk"')):
            path.write_text(whole.replace(third, changed))
            for command in (("run", long_drawing(self.folder)), ("diff", self.folder / "run", self.folder / "run")):
                self.assertRegex(run_ends(DATA, *command).stderr, r'images.jsonl:3: (does not have its checksum|has an unknown member "chekk"); restore it, or remove the line: its picture is drawn again')
        path.write_text(whole.replace(third, ""))
        self.judge_resumed(run("run", long_drawing(self.folder)), 23)

    def test_the_record_takes_in_no_picture_that_was_changed_while_the_run_drew(self):
        toml = long_drawing(self.folder, batch_size="1")
        process = start(toml, env={**os.environ, "LD_PRELOAD": preloaded("slow_fsync")})
        wait_for_lines(self.folder, 3, process)
        name = rows_so_far(self.folder)[0]["file"]
        (self.folder / "run" / name).write_bytes(b"another")
        text = process.communicate(timeout=patient(60))[1]
        self.assertEqual(process.returncode, DATA, text)
        self.assertIn(f"{name}: is damaged: it was changed while the run drew; run the same command again, which draws it again", text)
        self.assertNotIn("record", json.loads((self.folder / "run" / "bascule.json").read_text()))
        self.judge_resumed(run("run", toml), 23)

    def test_the_record_takes_in_no_line_that_was_changed_while_the_run_drew(self):
        """Without a checksum, as lines of earlier versions are."""
        toml = long_drawing(self.folder, batch_size="1")
        process = start(toml, env={**os.environ, "LD_PRELOAD": preloaded("slow_fsync")})
        wait_for_lines(self.folder, 3, process)
        with (self.folder / "run" / "images.jsonl").open("r+b") as file:
            line = file.readline()
            row = {key: value for key, value in json.loads(line).items() if key != "check"}
            row["digest"] = row["digest"][::-1]
            file.seek(0)
            file.write(json.dumps(row).encode().ljust(len(line) - 1))
        text = process.communicate(timeout=patient(60))[1]
        self.assertEqual(process.returncode, DATA, text)
        self.assertIn("images.jsonl: was changed while the run drew; run the same command again: pictures without a line are drawn again", text)
        self.assertNotIn("record", json.loads((self.folder / "run" / "bascule.json").read_text()))
        self.judge_resumed(run("run", toml), 23)

    def test_never_leaves_what_is_not_of_the_run(self):
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        (self.folder / "run" / "20240101.png").write_bytes(b"somebody's")
        (self.folder / "run" / "77777.png").mkdir()
        (self.folder / "run" / "77777.png" / "file").write_bytes(b"somebody's")
        self.assertEqual(run("run", long_drawing(self.folder, resume='"never"')).returncode, 0)
        self.assertEqual((self.folder / "run" / "20240101.png").read_bytes(), b"somebody's")
        self.assertTrue((self.folder / "run" / "77777.png" / "file").exists())

    def test_lines_are_rewritten_whole_or_not_at_all(self):
        """A picture is gone, and images.jsonl cannot be written anew: no other line is lost."""
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        (self.folder / "run" / "00003.png").unlink()
        lines = (self.folder / "run" / "images.jsonl").read_text()
        script = f'ulimit -f 8; exec "{PROGRAM}" run "{long_drawing(self.folder)}"'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=patient(60), check=False)
        self.assertEqual(done.returncode, DISK, done.stderr)
        self.assertEqual((self.folder / "run" / "images.jsonl").read_text(), lines)
        self.judge_resumed(run("run", long_drawing(self.folder)), 23)

    def test_fewer_pictures_leave_none_of_the_others(self):
        """What a run with draw.resume = "never" does not draw is not in its folder."""
        self.assertEqual(run("run", long_drawing(self.folder)).returncode, 0)
        self.assertEqual(run("run", long_drawing(self.folder, num_images_per_prompt="2", resume='"never"')).returncode, 0)
        self.assertEqual(sorted(pictures(self.folder / "run")), sorted(row["file"] for row in rows(self.folder / "run")))
