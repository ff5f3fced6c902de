# SPDX-License-Identifier: Apache-2.0
"""`bascule bringup`: profiles, verdicts and causes, on a machine that is really limited: by affinity, a quota, another process, memlock, fsync."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from bascule_run import PROGRAM, is_sanitized, patient
from rank_runs import preloaded
from test_limits import ControlGroup

SETTINGS, DATA, DISK, NOT_AS_RECORDED = 2, 3, 6, 7


class BringUp(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.profile = pathlib.Path(self.temporary.name, "profile.json")

    def bringup(self, *arguments, before=(), **options):
        folder = () if "--folder" in arguments else ("--folder", self.temporary.name)
        command = [*before, str(PROGRAM), "bringup", "--quick", "--json", *folder, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=patient(120), **options)

    def save(self, *arguments, faster=1):
        """A profile of this machine, or of an undisturbed one that is so many times as fast: then every figure is slower, and needs a cause."""
        done = self.bringup("--save", self.profile, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = json.loads(self.profile.read_text())
        for figure in profile["figures"] if faster > 1 else ():
            figure["rounds"] = [max(figure["rounds"]) * faster if figure["more_is_better"] else min(figure["rounds"]) / faster]
            figure["taken"] = dict.fromkeys(figure["taken"], 0.0)  # tests beside this one take time, too
        self.profile.write_text(json.dumps(profile))
        return profile

    def causes(self, done):
        """Of all figures that are slower or disturbed; and those figures."""
        figures = json.loads(done.stdout)["figures"]
        worse = [figure for figure in figures if figure["judgement"]["verdict"] in ("slower", "disturbed")]
        return {cause["name"] for figure in worse for cause in figure["judgement"]["causes"]}, worse

    def test_a_profile_has_figures_bits_and_the_machine(self):
        page = pathlib.Path(self.temporary.name, "page.html")
        profile = self.save("--only", "clock,bits", "--html", page)
        self.assertEqual({figure["item"] for figure in profile["figures"]}, {"clock"})
        self.assertTrue(profile["bits"]["as_recorded"])
        self.assertEqual(profile["bits"]["wrong_cores"], [])
        self.assertTrue(profile["machine"]["cores"])
        self.assertIn("GHz", page.read_text())
        self.assertEqual(sorted(path.name for path in pathlib.Path(self.temporary.name).iterdir()), ["page.html", "profile.json"])

    def test_a_slower_clock_is_seen_and_exits_with_7(self):
        profile = self.save("--only", "clock", faster=10)
        page = pathlib.Path(self.temporary.name, "page.html")
        done = self.bringup("--only", "clock", "--against", self.profile, "--html", page)
        names, worse = self.causes(done)
        self.assertEqual(len(worse), len(profile["figures"]))
        for word in names | {figure["judgement"]["verdict"] for figure in worse}:
            self.assertTrue(word in page.read_text(), f"the page does not say {word}")
        if all(figure["judgement"]["verdict"] == "slower" for figure in worse):
            self.assertEqual(done.returncode, NOT_AS_RECORDED)
        self.assertIn("low frequency", names)

    def test_bad_input_is_one_line(self):
        self.profile.write_text('{"format": "bascule bring-up 1", "program": "0.')
        for arguments, code, word in ((("--only", "memry"), SETTINGS, "memory"), (("--against", self.profile), DATA, "profile.json"),
                                      (("--against", "/no/such/file"), DATA, "/no/such/file"), (("--long", "1"), SETTINGS, "--long"),
                                      (("--only", "disk", "--folder", "/proc"), DISK, "/proc")):
            with self.subTest(arguments=arguments):
                done = self.bringup(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(word, done.stderr)

    @unittest.skipIf(is_sanitized(), "a sanitizer reads /proc")
    def test_without_proc_and_sys_it_measures_and_names_no_cause(self):
        hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs t /proc && mount -t tmpfs t /sys && exec "$@"', "sh"]
        if subprocess.run([*hide, "true"], capture_output=True).returncode != 0:
            self.skipTest("mounts may not be changed here")
        done = self.bringup("--only", "clock,memory,bits", before=hide)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(json.loads(done.stdout)["machine"]["memory"]["bytes"])
        text = subprocess.run([*hide, str(PROGRAM), "bringup", "--quick", "--only", "clock"], capture_output=True, text=True, timeout=patient(120)).stdout
        self.assertIn("unknown", text)
        self.assertNotIn("cause", text)

    def test_half_the_cores(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("one core")
        self.save("--only", "jpeg", faster=10)
        done = self.bringup("--only", "jpeg", "--against", self.profile, before=["taskset", "-c", ",".join(map(str, cores[: len(cores) // 2]))])
        names, worse = self.causes(done)
        self.assertIn("all cores", {figure["place"] for figure in worse})
        self.assertIn("fewer cores", names)

    @unittest.skipIf(is_sanitized(), "figures of a program with a sanitizer say nothing of the machine")
    def test_a_small_memlock(self):
        if not shutil.which("setpriv") or os.geteuid() != 0:
            self.skipTest("setpriv and root are needed")
        self.save("--only", "pages")
        limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
        done = self.bringup("--only", "pages", "--against", self.profile, before=limited)
        _, worse = self.causes(done)
        locked = next(figure for figure in worse if figure["unit"] == "MiB")
        self.assertEqual([cause["name"] for cause in locked["judgement"]["causes"]], ["memlock"])

    def test_a_slow_fsync(self):
        self.save("--only", "disk")
        environment = {**os.environ, "LD_PRELOAD": preloaded("slow_fsync")}
        done = self.bringup("--only", "disk", "--against", self.profile, env=environment)
        names, worse = self.causes(done)
        self.assertTrue(worse)
        self.assertIn("slow fsync", names)

    @unittest.skipIf(is_sanitized(), "figures of a program with a sanitizer say nothing of the machine")
    def test_a_quota(self):
        group = ControlGroup("cpu", cfs_quota_us=30000)
        self.addCleanup(group.remove)
        self.save("--only", "products", faster=10)
        done = self.bringup("--only", "products", "--against", self.profile, preexec_fn=group.enter)
        self.assertIn("quota", self.causes(done)[0])

    @unittest.skipIf(is_sanitized(), "figures of a program with a sanitizer say nothing of the machine")
    def test_a_busy_neighbour(self):
        core = min(os.sched_getaffinity(0))
        self.save("--only", "products", faster=10)
        neighbour = subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
        try:
            done = self.bringup("--only", "products", "--against", self.profile)
        finally:
            neighbour.kill()
            neighbour.wait()
        self.assertIn("another process", self.causes(done)[0])
