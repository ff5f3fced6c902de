# SPDX-License-Identifier: Apache-2.0
"""`bascule serve` with several workers: the same bytes, one copy of the weights, one queue; and how they end together."""
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from bascule_run import PROGRAM, SharedFolderTest, run, run_ok
from drawing import PIPELINES
from serving import KEYWORDS, Served, Wire, has_parser, request_bytes, write_models, write_pictures, write_writer

FOUR = "machine.threads=4"


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServeWorkers(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_models(cls.folder)
        write_writer(cls.folder)
        cls.texts = [" ".join(row["text"].split()[:8]) for row in map(json.loads, (KEYWORDS / "train.jsonl").read_text().splitlines()[:60])]

    def plan(self, folder, *keys):
        toml = self.folder / "plan.toml"
        toml.write_text(f'[model]\nmodel_name_or_path = "{folder}"\n[serve]\n')
        done = run_ok("plan", toml, "--json", *keys)
        return json.loads(done.stdout)

    def loaded(self, server, requests, clients=8):
        """The bodies of all requests, asked twice by so many clients at a time."""
        bodies = [[] for _ in requests]
        order = list(range(len(requests))) * 2
        random.Random(7).shuffle(order)

        def client(part):
            wire = Wire(server.address)
            for n in part:
                status, body = wire.ask(request_bytes(*requests[n]))
                self.assertEqual(status, 200, body)
                bodies[n].append(body)
            wire.socket.close()

        threads = [threading.Thread(target=client, args=(order[i::clients],)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return bodies

    def requests(self, kind):
        draw = random.Random(3)
        if kind == "vectors":
            return [("/embed", {"inputs": draw.sample(self.texts, draw.choice((1, 2, 7, 31)))}) for _ in range(40)]
        if kind == "words":
            return [("/fill-mask", {"inputs": f"{text} [MASK]", "parameters": {"top_k": 5, "truncate": True}}) for text in self.texts[:40]]
        if kind == "pictures":
            return [("/predict", path.read_bytes(), "image/png") for path in self.pictures]
        return [("/generate", {"inputs": text, "parameters": {"max_new_tokens": draw.randint(1, 14), "details": True, "truncate": True}}) for text in self.texts[:24]]

    def test_bodies_are_the_same_with_any_number_of_workers(self):
        """Vectors, words, pictures and texts that are written, under load; the model's digest, memory and allocations too."""
        self.pictures = write_pictures(self.folder)
        for kind, precisions in (("vectors", ("float32", "bf16")), ("words", ("float32", "bf16")), ("texts", ("float32", "bf16")), ("beams", ("float32",)), ("pictures", ("float32",))):
            requests = self.requests(kind)
            for precision in precisions:
                wanted = digest = None
                for workers in (1, 2, 4):
                    with self.subTest(kind=kind, precision=precision, workers=workers), \
                            Served(self.folder / kind, FOUR, f"serve.workers={workers}", f"model.precision={precision}", "serve.max_batch_requests=5", "serve.generation_slots=3", "serve.max_new_tokens=20") as server:
                        if wanted is None:
                            wanted = [server.ask(path, body, {"Content-Type": kind[0]} if kind else None)[2] for path, body, *kind in requests]
                            digest = server.ask("/health")[1]["X-Bascule-Model"]
                        first = self.loaded(server, requests)
                        resident = server.resident_kib()
                        for bodies in (first, self.loaded(server, requests)):  # by their numbers: unittest takes hours to say how long bodies differ
                            self.assertEqual([n for n, body in enumerate(wanted) if bodies[n] != [body] * 2], [], "requests with another body")
                        self.assertLessEqual(server.resident_kib(), resident + 256)
                        self.assertEqual(server.ask("/health")[1]["X-Bascule-Model"], digest)
                        metrics = server.ask("/metrics")[2].decode()
                        self.assertIn(f'code="200"}} {4 * len(requests) + (len(requests) if workers == 1 else 0)}\n', metrics)
                        code, out, error = server.end()
                        self.assertEqual(code, 0, error)
                        for contract in ("Sealed", "Memory"):
                            self.assertRegex(out, f"{contract} +kept")

    def test_workers_share_the_weights(self):
        for folder in (self.folder / "words", self.folder / "texts", PIPELINES / "sd_v1"):
            for precision in ("float32", "bf16"):
                one, two = (self.plan(folder, f"model.precision={precision}", f"serve.workers={n}", "machine.threads=2", "serve.max_batch_tokens=512") for n in (1, 2))
                shared = [name for name in one["categories"] if name.startswith("parameters") or name == "requests"]
                self.assertGreaterEqual(len(shared), 3)
                for name in shared:
                    self.assertEqual(one["categories"][name], two["categories"][name], name)
                pages = {name: -(-one["categories"][name] // 4096) * 4096 for name in shared}
                self.assertEqual(two["workers"]["shared_bytes"], sum(pages.values()))
                own = two["workers"]["arena_bytes"]
                scratch = sum(one["categories"][name] - two["categories"][name] for name in ("thread scratch", "packed operands"))
                self.assertAlmostEqual(own, one["workers"]["arena_bytes"] - sum(pages.values()) - scratch, delta=8192)
                self.assertEqual(two["categories"]["workspace"], one["categories"]["workspace"])
                outside = two["categories"]["program and libraries"] - one["categories"]["program and libraries"]
                self.assertEqual(two["peak_bytes"] - one["peak_bytes"], two["workers"]["shared_bytes"] + 2 * own - one["workers"]["arena_bytes"] + outside)
        done = run("plan", self.folder / "plan.toml", "serve.workers=2", "machine.threads=2")
        self.assertRegex(done.stdout, r"(?m)^  workspace x 2 ")
        self.assertRegex(done.stdout, r"(?m)^  parameters, fixed  ")
        self.assertRegex(done.stdout, r"(?m)^2 workers with 2 threads together: each has [0-9.]+ MiB of its own, all share [0-9.]+ MiB$")

    def test_how_many_there_are(self):
        vectors = self.folder / "vectors"
        for threads, workers in ((1, 1), (15, 1), (16, 1), (48, 3)):
            self.assertEqual(self.plan(vectors, f"machine.threads={threads}")["workers"]["count"], workers)
        for threads, workers in ((4, 3), (2, 4), (1, 2)):
            done = run("serve", vectors, f"machine.threads={threads}", f"serve.workers={workers}")
            self.assertEqual((done.returncode, done.stderr.count("\n"), "READY" in done.stderr), (2, 1, False), done.stderr)
            self.assertIn(f"serve.workers = {workers} does not divide the {threads} thread", done.stderr)
        with Served(vectors, FOUR, "serve.workers=2") as server:
            self.assertIn(", 2 workers, each ", server.lines[-1])

    def test_more_workers_than_requests_measure_in_turn(self):
        bodies = []
        for workers in (1, 4):
            with Served(self.folder / "vectors", FOUR, f"serve.workers={workers}", "serve.max_concurrent_requests=1", "serve.max_client_batch_size=1") as server:
                status, _, body = server.ask("/embed", {"inputs": self.texts[0]})
                self.assertEqual(status, 200, body)
                bodies.append(body)
                self.assertEqual(server.end()[0], 0)
        self.assertEqual(bodies[0], bodies[1])

    def test_the_plan_holds_with_many(self):
        vectors = self.folder / "vectors"
        with Served(vectors, "machine.threads=16", "serve.workers=16") as server:
            self.assertEqual(server.ask("/embed", {"inputs": self.texts[:32]})[0], 200)
            code, out, error = server.end()
            self.assertEqual(code, 0, error)
            self.assertRegex(out, "Memory +kept")
        self.plan(vectors)
        unit = self.folder / "many.service"
        run_ok("plan", self.folder / "plan.toml", "machine.threads=1024", "serve.workers=64", "--unit", unit)
        self.assertIn("\nTasksMax=1280\n", unit.read_text())

    def test_each_takes_the_next_batch_when_it_is_free(self):
        """A text that takes long is written by one of two, which have a slot each; those that come then are answered first."""
        endless = self.folder / "endless"
        shutil.copytree(self.folder / "texts", endless)
        (endless / "generation_config.json").write_text(json.dumps({**json.loads((endless / "generation_config.json").read_text()), "min_length": 4001, "max_length": 4001}))
        with Served(endless, "serve.max_new_tokens=4000", "serve.generation_slots=1", "serve.workers=2", "machine.threads=2", "serve.queue_timeout_seconds=3600", "serve.max_concurrent_requests=8", "serve.max_client_batch_size=1") as server:
            long, short = (request_bytes("/generate", {"inputs": self.texts[0], "parameters": {"max_new_tokens": most}}) for most in (4000, 1))
            slow, quick = Wire(server.address), Wire(server.address)
            slow.send(long)
            slow.socket.setblocking(False)
            for _ in range(5):
                self.assertEqual(quick.ask(short)[0], 200)
                self.assertRaises(BlockingIOError, slow.socket.recv, 1)
            self.assertEqual(server.end(signal.SIGKILL)[0], -signal.SIGKILL)
            for wire in (slow, quick):
                wire.socket.close()

    def test_inputs_of_one_request_are_shared_among_those_that_are_free(self):
        for workers in (1, 2):
            with Served(self.folder / "vectors", "machine.threads=2", f"serve.workers={workers}") as server:
                before, status, after = (server.ask(*asked) for asked in (("/metrics",), ("/embed", {"inputs": self.texts[:8]}), ("/metrics",)))
                self.assertEqual(status[0], 200)
                counts = [int(re.search(r"batch_rows_count (\d+)", answer[2].decode())[1]) for answer in (before, after)]
                self.assertIn(counts[1] - counts[0], (1,) if workers == 1 else range(2, 9))
                self.assertEqual(server.end()[0], 0)

    def test_a_replacement_under_load_loses_nothing(self):
        """New servers take the place of old ones on one socket that they inherit."""
        request = request_bytes("/embed", {"inputs": self.texts[:4]})
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            address, stops, answers = "%s:%d" % listener.getsockname(), threading.Event(), []

            def start():
                script = f'exec 3<&{listener.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
                server = subprocess.Popen(["bash", "-c", script, "bash", str(PROGRAM), "serve", str(self.folder / "vectors"), "machine.threads=2", "serve.workers=2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[listener.fileno()])
                while "READY" not in (line := server.stderr.readline()):
                    self.assertTrue(line, "no READY")
                return server

            def client():
                while not stops.is_set():
                    wire = Wire(address)
                    try:
                        answers.append(wire.ask(request))
                    except OSError as error:
                        answers.append(error)
                    wire.socket.close()

            server = start()
            clients = [threading.Thread(target=client) for _ in range(6)]
            for thread in clients:
                thread.start()
            for _ in range(4):
                after = start()
                server.send_signal(signal.SIGTERM)
                out, error = server.communicate()
                self.assertEqual((server.returncode, "Sealed          kept" in out), (0, True), error)
                server = after
            stops.set()
            for thread in clients:
                thread.join()
            server.send_signal(signal.SIGTERM)
            server.communicate()
        self.assertGreater(len(answers), 50)
        self.assertEqual({one if isinstance(one, OSError) else one[0] for one in answers}, {200})
        self.assertEqual(len({one[1] for one in answers}), 1)

    def test_pictures_are_drawn_several_at_a_time(self):
        keys = ("serve.num_inference_steps=3", "serve.max_batch_tokens=128", "machine.threads=2")
        asked = [{"inputs": prompt, "parameters": {"seed": seed}} for prompt, seed in (("a cat", 42), ("a red heart", 7), ("a boat", 1))]
        with Served(PIPELINES / "sd_v1", *keys, "serve.workers=1") as server:
            wanted = [server.ask("/", body)[2] for body in asked]
        with Served(PIPELINES / "sd_v1", *keys, "serve.workers=2") as server:
            self.assertEqual(self.loaded(server, [("/", body) for body in asked], clients=4), [[body] * 2 for body in wanted])
            self.assertRegex(server.end()[1], "Sealed +kept")

    def test_an_answer_of_several_is_computed_again_by_one(self):
        log = self.folder / "workers.jsonl"
        with Served(self.folder / "vectors", FOUR, "serve.workers=4", f"serve.access_log={log}", "serve.access_log_requests=true") as server:
            self.assertEqual(server.ask("/embed", {"inputs": self.texts[:9]})[0], 200)
        self.assertEqual(run("reproduce", self.folder / "vectors", "machine.threads=1", "serve.workers=4", "--answer", log, 1).returncode, 0)
