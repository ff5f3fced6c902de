# SPDX-License-Identifier: Apache-2.0
"""A data set of millions of rows: planned in under a second once its index is kept, and gone on with from any sample as quickly.

Runs only with BASCULE_LARGE=<rows>, say 5000000 (1.5 GB of temporary files, a minute or two), alone on the machine; prints what it measured.
"""
import json
import os
import signal
import subprocess
import time
import unittest

from bascule_run import EMOJI, PROGRAM, FolderTest, settings, run_ok

ROWS = int(os.environ.get("BASCULE_LARGE", "0"))


@unittest.skipUnless(ROWS >= 100_000, "set BASCULE_LARGE=5000000")
class LargeData(FolderTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}

    def write_manifest(self):
        """As many paths as rows, of few files: links to one folder of pictures."""
        pictures = sorted((EMOJI / "images").glob("*.jpg"))
        (self.folder / "images").mkdir()
        for number in range(-(-ROWS // len(pictures))):
            (self.folder / f"images/{number:05}").symlink_to(EMOJI / "images")
        with open(self.folder / "train.jsonl", "w") as file:
            for row in range(ROWS):
                number, picture = divmod(row, len(pictures))
                file.write(json.dumps({"image": f"images/{number:05}/{pictures[picture].name}",
                                       "caption": f"thing {row * 7919 % 10007} on a table"}) + "\n")

    def timed(self, command, toml):
        began = time.monotonic()
        done = run_ok(command, toml, env=self.environment)
        return time.monotonic() - began, done

    def run_until_step(self, toml):
        """Seconds from the start of the program to its first line of a step; then it is asked to stop."""
        began = time.monotonic()
        lines, seconds = [], None
        with subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=self.environment) as process:
            for line in process.stderr:
                lines.append(line)
                if " step " in line and seconds is None:
                    seconds = time.monotonic() - began
                    process.send_signal(signal.SIGTERM)
        self.assertEqual(process.returncode, 143, "".join(lines))
        return seconds, "".join(lines)

    def test_is_planned_and_resumed_in_under_a_second(self):
        self.write_manifest()
        toml = settings(self.folder, data__train_file='"train.jsonl"', training__max_steps="100000", training__logging_steps="1",
                        training__save_steps="0")
        first, done = self.timed("plan", toml)
        self.assertIn("is cached in", done.stderr)
        again, done = self.timed("plan", toml)
        self.assertEqual(done.stderr, "")
        self.run_until_step(toml)
        resumed, said = self.run_until_step(toml)
        self.assertIn("resume: from checkpoint-", said)
        print(f"\n{ROWS} rows: first plan {first:.1f} s ({ROWS / first:.0f} rows/s with everything), again {again:.3f} s; "
              f"resumed and trained a step after {resumed:.3f} s")
        self.assertLess(again, 1.0)
        self.assertLess(resumed, 1.0)
