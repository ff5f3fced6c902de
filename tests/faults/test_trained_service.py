# SPDX-License-Identifier: Apache-2.0
"""A file with [training] and [serve]: `bascule serve` trains, or goes on, and then serves what was trained; here sealed into a program (tools/packaging/small_serve.toml) and from a file. Stopped
and killed in every phase; failures of the training, after which nothing is served."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import test_sealed_settings
from bascule_run import PROGRAM, ROOT, digest, has_mpi, is_sanitized, patient, run, run_ok
from serving import Served, has_parser

FILE = ROOT / "tools" / "packaging" / "small_serve.toml"
SEALED = PROGRAM.parent / "tests" / "bascule_sealed_trained"
SETTINGS, DATA, MEMORY, DISK, NOT_AS_RECORDED, STOPPED = 2, 3, 4, 6, 7, 143
QUESTION = {"inputs": "cat face with tears of joy", "parameters": {"top_k": 3}}


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class TrainedService(test_sealed_settings.SealedTree):
    built = SEALED

    def setUp(self):
        super().setUp()
        data = self.folder / "tree" / "tests" / "data"
        data.parent.mkdir(parents=True)
        data.symlink_to(ROOT / "tests" / "data")
        self.left, self.trained = self.folder / "tree" / "runs" / "classes", self.folder / "run"
        self.file = self.folder / "file.toml"
        self.file.write_text(FILE.read_text().replace("../../tests", f"{ROOT}/tests").replace("../../runs/classes", str(self.trained)).replace("../../runs", str(self.folder)))

    def started(self, *keys):
        """A service of the file that has begun, and is not awaited."""
        process = subprocess.Popen([PROGRAM, "serve", self.file, "serve.listen=127.0.0.1:0", *keys], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ended(self, process, number):
        """The exit code and all that it still said, once it has been sent a signal."""
        process.send_signal(number)
        out, error = process.communicate(timeout=patient(120))
        return process.returncode, out, error

    def until(self, process, word):
        for line in process.stderr:
            if re.search(word, line):
                return
            if "READY" in line:
                break
        self.fail(f"{word} was not said")

    def assert_serves(self, served):
        status, headers, body = served.ask("/predict", QUESTION)
        self.assertEqual((status, len(json.loads(body))), (200, 3), body)
        return headers["X-Bascule-Model"], body

    def test_a_sealed_program_trains_and_serves_what_the_file_does(self):
        with Served(None, sealed=self.program) as served:
            said = "".join(served.lines)
            self.assertEqual(served.address, f"unix:{self.left.parent}/serve.sock")
            self.assertIn("step 6/6", said)
            answer = self.assert_serves(served)
            code, out, _ = served.end()
            self.assertEqual(code, 0)
            for contract in ("Sealed", "Memory"):
                self.assertEqual(len(re.findall(f"(?m)^ +{contract} +kept", out)), 2, out)
        self.assertEqual(run("run", self.file).returncode, 0)  # of such a file it only trains
        self.assertEqual(digest(self.left / "model.safetensors"), digest(self.trained / "model.safetensors"))
        answers = []
        for what, keys in ((self.trained, ("model.precision=bf16", "serve.max_batch_tokens=64")), (self.file, ())):
            with Served(what, *keys) as served:
                answers.append(self.assert_serves(served))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0][1], answer[1])
        log = self.left.parent / "requests.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole + b'{"sequence": 1, "ti')  # as a loss of power leaves it
        with Served(None, sealed=self.program) as served:
            said = "".join(served.lines)
            self.assertNotIn("train: step", said)
            self.assertIn("removed its last line", said)
            self.assertEqual(self.assert_serves(served), answer)
        self.assertEqual([json.loads(line)["sequence"] for line in log.read_text().splitlines()], [0, 1])
        self.assertEqual(json.loads(log.read_text().splitlines()[1])["previous"], "sha256:" + hashlib.sha256(whole[:-1]).hexdigest())

    def test_stopped_and_killed_in_every_phase_it_goes_on(self):
        longer = ("training.max_steps=300", "training.save_steps=25")
        for step, number, ended in ((50, signal.SIGTERM, STOPPED), (150, signal.SIGKILL, -signal.SIGKILL)):
            process = self.started(*longer)
            self.until(process, f"step +{step}/300")
            code, _, error = self.ended(process, number)
            self.assertEqual((code, "READY" in error), (ended, False), error)
        process = self.started(*longer)
        self.until(process, "run: finished")
        code, out, error = self.ended(process, signal.SIGTERM)  # trained, and not yet served
        self.assertEqual(code, 0, error)
        self.assertEqual(len(re.findall("(?m)^ +Sealed +kept", out)), 2, out)
        self.assertEqual(json.loads((self.trained / "trainer_state.json").read_text())["global_step"], 300)
        for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
            with Served(self.file, *longer) as served:
                self.assertNotIn("train: step", "".join(served.lines))
                self.assert_serves(served)
                self.assertEqual(served.end(number)[0], code)

    def test_what_cannot_be_trained_or_served_is_said_in_one_line_and_nothing_is_served(self):
        blocked = self.folder / "blocked"
        blocked.write_text("")
        for key, code, said in (("serve.listen=0.0.0.0:0", SETTINGS, "no key is asked for"), (f"serve.listen=unix:{blocked}", SETTINGS, "is no socket"),
                                (f"serve.api_key_file={self.folder}/none", SETTINGS, "cannot be read"), (f"data.train_file={self.folder}/none.jsonl", DATA, "none.jsonl")):
            done = run("serve", self.file, "serve.listen=127.0.0.1:0", key) if "listen" not in key else run("serve", self.file, key)
            self.assertEqual((done.returncode, said in done.stderr, "READY" in done.stderr), (code, True, False), done.stderr)
            self.assertFalse(self.trained.exists() and code == SETTINGS, key)
        done = subprocess.run(["/bin/sh", "-c", 'ulimit -f 100; exec "$@"', "sh", PROGRAM, "serve", self.file, "serve.listen=127.0.0.1:0"], capture_output=True, text=True, timeout=patient(120))
        self.assertEqual((done.returncode, "READY" in done.stderr), (DISK, False), done.stderr)

    def test_a_signal_that_came_before_the_service_ends_it(self):
        """The program takes its own place with the signal pending."""
        run_ok("run", self.file)
        blocks = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); os.kill(os.getpid(), signal.SIGTERM); os.execv(sys.argv[1], sys.argv[1:])"
        done = subprocess.run(["python3", "-c", blocks, PROGRAM, "serve", self.file, "serve.listen=127.0.0.1:0"], capture_output=True, text=True, timeout=patient(120))
        self.assertEqual((done.returncode, "0 requests answered" in done.stderr), (0, True), done.stderr)

    def test_a_tree_with_a_changed_file_trains_and_serves_nothing(self):
        (self.folder / "tree" / "SHA256SUMS").write_text(hashlib.sha256(b"another program").hexdigest() + "  bin/bascule\n")
        done = test_sealed_settings.sealed(self.program, "serve")
        self.assertEqual((done.returncode, "bin/bascule: is not the file that SHA256SUMS lists" in done.stderr), (NOT_AS_RECORDED, True), done.stderr)
        self.assertFalse(self.left.exists())

    @unittest.skipUnless(has_mpi(), "this program or machine has no MPI")
    def test_ranks_train_for_a_service_that_keys_describe(self):
        self.file.write_text(self.file.read_text().replace("max_concurrent_requests = 64", "max_concurrent_requests = 8"))
        run_ok("run", self.file, "distributed.world_size=2", "serve.max_client_batch_size=4", "training.max_steps=2", "training.save_steps=0")

    def test_plans_both_and_lists_the_files_of_both(self):
        (self.folder / "key").write_text("secret\n")
        key = f"serve.api_key_file={self.folder}/key"
        plan = run_ok("plan", self.file, "--json", "--inputs", key)
        plan = json.loads(plan.stdout)
        self.assertIn({"folder": str(self.folder), "files": ["key"]}, plan["inputs"])
        self.assertIn("[serve]", test_sealed_settings.sealed(self.program, "settings").stdout)
        self.assertFalse(self.trained.exists())
        self.assertEqual(run("run", self.file).returncode, 0)
        toml, serve = self.folder / "serves.toml", self.file.read_text().partition("[serve]")[2]
        toml.write_text(f'[model]\nmodel_name_or_path = "{self.trained}"\nprecision = "bf16"\n[serve]{serve}')
        self.assertEqual(json.loads(run("plan", toml, "--json", key).stdout), plan["service"])

    def test_a_plan_leaves_nothing_in_the_temporary_folder(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.assertEqual(run("plan", self.file, env={**os.environ, "TMPDIR": str(temporary)}).returncode, 0)
        self.assertEqual(os.listdir(temporary), [])
        for folder in (self.folder / "none", self.file):
            done = run("plan", self.file, env={**os.environ, "TMPDIR": str(folder)})
            self.assertEqual((done.returncode, "set TMPDIR to a folder that can be written to" in done.stderr), (DISK, True), done.stderr)
        strace = not is_sanitized() and shutil.which("strace")
        if not strace:
            return
        done = subprocess.run([strace, "-o", "/dev/null", "-e", "inject=rename:signal=SIGTERM:when=1", PROGRAM, "plan", self.file], capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": str(temporary)}, timeout=patient(120))
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGTERM, ""), done.stderr)
        self.assertEqual(os.listdir(temporary), [])

    def test_what_cannot_be_served_is_said_by_the_plan(self):
        for key, code, said in (("serve.max_batch_tokens=31", SETTINGS, "serve.max_batch_tokens = 31 is less than the longest input, 32 tokens"),
                                ("serve.payload_limit=400000000", MEMORY, "lower serve.max_batch_tokens")):
            done = run("plan", self.file, "--json", key, "--memory-gib", "1")
            self.assertEqual((done.returncode, said in done.stderr), (code, True), done.stderr)
            if code == MEMORY:
                plan = json.loads(done.stdout)
                self.assertEqual((plan["fits"], plan["service"]["fits"], plan["peak_bytes"] < 1 << 30 < plan["service"]["peak_bytes"]), (False, False, True))
        self.file.write_text((FILE.parent / "small.toml").read_text().replace("../../tests", f"{ROOT}/tests").replace("../../runs/image", str(self.trained)) + "[serve]\n")
        done = run("plan", self.file, 'model.head="masked_lm"')
        self.assertEqual((done.returncode, f"{self.trained}: holds a model that `bascule serve` cannot ask" in done.stderr), (DATA, True), done.stderr)

    def test_one_unit_has_the_memory_of_the_larger_plan_and_the_folder_of_the_run(self):
        log = "serve.access_log=/var/lib/bascule-run/log.jsonl"
        of_ranks = ("distributed.world_size=2", "serve.payload_limit=10000000")  # the service plans more, and two ranks may use more
        for keys, larger in (((), "service"), (("serve.payload_limit=4096", "training.per_device_train_batch_size=1000"), "training"), *([(of_ranks, "training")] if has_mpi() else [])):
            ranks = {"training": 2 if keys == of_ranks else 1, "service": 1}
            done = run_ok("plan", self.file, "--json", "--unit", self.folder / "x.service", log, *keys)
            plan, unit = json.loads(done.stdout), (self.folder / "x.service").read_text()
            bytes_of = {"training": plan["peak_bytes"], "service": plan["service"]["peak_bytes"]}
            bytes_of = {name: int(1.03 * count + (ranks[name] << 26)) for name, count in bytes_of.items()}
            self.assertEqual(max(bytes_of, key=bytes_of.get), larger, bytes_of)
            self.assertEqual(int(re.search(r"^MemoryMax=(\d+)$", unit, re.M)[1]), bytes_of[larger])
            for line in ("Requires=x.socket", f"BindPaths=%S/bascule-run:{self.trained}", "WatchdogSec=300", "TimeoutStopSec=70"):
                self.assertIn(f"\n{line}\n", unit)
            self.assertIn(f'ExecStart="{PROGRAM}" serve "{self.file}"', unit)
            self.assertIn("ListenStream=", (self.folder / "x.socket").read_text())
