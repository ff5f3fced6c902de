# SPDX-License-Identifier: Apache-2.0
"""`bascule serve`: the same answer under any load, equal to that of the command that asks the model; what is refused, and how it ends."""
import base64
import hashlib
import importlib.util
import json
import random
import re
import shutil
import signal
import socket
import struct
import threading
import time
import unittest

from bascule_run import SharedFolderTest, run, run_ends
from serving import KEYWORDS, Served, Wire, has_parser, request_bytes, write_models, write_pictures

NOTHING, ANSWERS = "nothing", "answers"
# Keys of [serve]: whether another value changes a body, and the value; {f} is the test's folder. test_every_key_acts.py reads the names, and the tests below show what those do that change none.
SERVING_KEYS = {
    "listen": (NOTHING, "unix:{f}/socket"), "served_model_name": (ANSWERS, "other"), "api_key_file": (NOTHING, "{f}/key"), "allow_remote_without_key": (NOTHING, "true"),
    "cors_allow_origin": (NOTHING, '["https://a.example"]'), "workers": (NOTHING, "2"), "max_concurrent_requests": (NOTHING, "64"), "max_batch_tokens": (NOTHING, "16"), "max_batch_requests": (NOTHING, "1"),
    "max_client_batch_size": (NOTHING, "4"), "auto_truncate": (ANSWERS, "true"), "payload_limit": (NOTHING, "4096"), "max_picture_pixels": (NOTHING, "1024"), "max_new_tokens": (NOTHING, "9"), "num_inference_steps": (NOTHING, "9"), "guidance_scale": (NOTHING, "2"), "generation_slots": (NOTHING, "2"), "max_connections": (NOTHING, "8"), "latency_bound_ms": (NOTHING, "500"),
    "queue_timeout_seconds": (NOTHING, "60"), "request_timeout_seconds": (NOTHING, "20"), "idle_timeout_seconds": (NOTHING, "20"), "drain_timeout_seconds": (NOTHING, "20"),
    "access_log": (NOTHING, "{f}/a.jsonl"), "access_log_requests": (NOTHING, "true"), "ui": (NOTHING, "true"),
}


def floats(text):
    return list(struct.unpack(f"<{len(text) // 4}f", text))


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class Serve(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_models(cls.folder)
        cls.texts = [" ".join(row["text"].split()[:8]) for row in map(json.loads, (KEYWORDS / "train.jsonl").read_text().splitlines()[:150])]

    def answer(self, server, path, body, **options):
        status, _, text = server.ask(path, body, **options)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_vectors_are_those_of_embed(self):
        texts = self.texts[:6]
        done = run("embed", self.folder / "vectors", "--json", *texts)
        wanted = [one["embedding"] for one in json.loads(done.stdout)["texts"]]
        with Served(self.folder / "vectors") as server:
            self.assertEqual(self.answer(server, "/embed", {"inputs": texts}), wanted)
            self.assertEqual(self.answer(server, "/", {"inputs": texts[0]}), wanted[:1])
            listed = self.answer(server, "/v1/embeddings", {"input": texts, "model": "x", "encoding_format": "float"})
            self.assertEqual([one["embedding"] for one in listed["data"]], wanted)
            coded = self.answer(server, "/v1/embeddings", {"input": texts, "encoding_format": "base64"})
            self.assertEqual([floats(base64.b64decode(one["embedding"])) for one in coded["data"]], [list(struct.unpack("<64f", struct.pack("<64f", *one))) for one in wanted])
            tokens = self.answer(server, "/tokenize", {"inputs": texts})
            ids = [[token["id"] for token in text] for text in tokens]
            of_ids = self.answer(server, "/v1/embeddings", {"input": ids})
            self.assertEqual(of_ids, listed)
            self.assertEqual(of_ids["usage"]["total_tokens"], sum(map(len, ids)))
            self.assertEqual(self.answer(server, "/v1/embeddings", {"input": ids[0]})["data"][0], listed["data"][0])
            plain = self.answer(server, "/tokenize", {"inputs": texts[0], "add_special_tokens": False})[0]
            self.assertEqual(plain, tokens[0][1:-1])
            (unit,) = self.answer(server, "/embed", {"inputs": texts[0], "normalize": True})
            self.assertAlmostEqual(sum(x * x for x in unit), 1.0, places=6)
            prompted = json.loads(run("embed", self.folder / "vectors", "--json", "--prompt", "query", texts[0]).stdout)["texts"][0]["embedding"]
            self.assertEqual(self.answer(server, "/embed", {"inputs": texts[0], "prompt_name": "query"}), [prompted])
            cut = json.loads(run("embed", self.folder / "vectors", "--json", "cat " * 30).stdout)["texts"][0]["embedding"]
            self.assertEqual(self.answer(server, "/embed", {"inputs": "cat " * 30, "truncate": True}), [cut])
            name = self.answer(server, "/v1/models", None)["data"][0]
            self.assertEqual(name, {"id": "vectors", "object": "model", "created": 0, "owned_by": "bascule"})
            info = self.answer(server, "/info", None)
            self.assertEqual((info["max_input_length"], info["model_type"]["embedding"]["pooling"]), (16, "mean"))
            status, headers, body = server.ask("/embed", {"inputs": texts[0]})
            self.assertEqual(headers["X-Bascule-Model"], info["model_sha"])
            self.assertEqual(headers["Repr-Digest"], "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":")

    def test_words_and_classes_are_those_of_fill_and_classify(self):
        for text in ("a [MASK] face", "[MASK] and [MASK]"):
            wanted = json.loads(run("fill", self.folder / "words", "--json", "--top", 7, text).stdout)["masks"]
            with Served(self.folder / "words") as server:
                answer = self.answer(server, "/fill-mask", {"inputs": text, "parameters": {"top_k": 7}})
                if len(wanted) == 1:
                    answer = [answer]
                self.assertEqual([[(one["token_str"], one["score"]) for one in mask] for mask in answer], [[(one["token"], one["probability"]) for one in mask] for mask in wanted])
                status, _, body = server.ask("/fill-mask", {"inputs": "a cat"})
                self.assertEqual((status, json.loads(body)), (422, {"error": "an input has no mask token", "error_type": "Validation"}))
        pretrained = shutil.copytree(self.folder / "words", self.folder / "pretrained")  # as a run with head = "pretraining" leaves it
        config = json.loads((pretrained / "config.json").read_text())
        (pretrained / "config.json").write_text(json.dumps({**config, "architectures": ["BertForPreTraining"]}))
        with Served(pretrained) as server:
            self.assertEqual(self.answer(server, "/fill-mask", {"inputs": text, "parameters": {"top_k": 7}}), answer)
        self.assertEqual(answer[0][0]["sequence"].count("[MASK]"), 1)
        done = run("classify", self.folder / "classes", "--json", *self.texts[:3])
        wanted = [[{"label": one["label"], "score": one["probability"]} for one in text["labels"]] for text in json.loads(done.stdout)["texts"]]
        with Served(self.folder / "classes") as server:
            self.assertEqual(self.answer(server, "/predict", {"inputs": self.texts[:3]}), wanted)
            self.assertEqual(self.answer(server, "/predict", {"inputs": self.texts[0]}), wanted[0])
            self.assertEqual(self.answer(server, "/", {"inputs": self.texts[0]}), wanted[:1])
            self.assertEqual(self.answer(server, "/predict", {"inputs": self.texts[0], "parameters": {"top_k": 1}}), wanted[0][:1])

    def test_tags_are_those_of_classify_in_any_batch(self):
        texts = [*self.texts[:12], "\u00e9 \"hedgehogs\"\nand \U0001f642 cats", "cat " * 60]
        done = run("classify", self.folder / "tags", "--json", *texts)
        wanted = [[{"entity_group": one["entity"], "score": one["score"], "word": one["text"], "start": one["start"], "end": one["end"]} for one in text["entities"]] for text in json.loads(done.stdout)["texts"]]
        self.assertGreater(sum(map(len, wanted)), 20)
        for precision in ("float32", "bf16"):
            with Served(self.folder / "tags", f"model.precision={precision}", "serve.ui=true", "serve.auto_truncate=true", "serve.max_batch_requests=4") as server:
                together = self.answer(server, "/predict", {"inputs": texts})
                self.assertEqual([self.answer(server, "/", {"inputs": text}) for text in texts], together)
                if precision == "float32":
                    self.assertEqual(together, wanted)
                    self.assertIn(b'data-task="tags" data-pictures="no"', server.ask("/ui")[2])
                    self.assertEqual(server.ask("/predict", {"inputs": "a", "parameters": {"aggregation_strategy": "max"}})[0], 422)
                    self.assertEqual(server.ask("/predict", {"inputs": texts[-1], "parameters": {"truncate": False}})[0], 422)
                    code, out, error = server.end()
                    self.assertEqual(code, 0, error)
                    self.assertIn("Sealed          kept", out)

    def test_classes_of_pictures_are_those_of_classify(self):
        """Bytes with and without a type, and base64; 40 at a time, bad ones among them."""
        paths = write_pictures(self.folder)
        wanted = [[{"label": one["label"], "score": one["probability"]} for one in row["labels"]] for row in json.loads(run("classify", self.folder / "pictures", "--json", *paths).stdout)]
        pictures = [path.read_bytes() for path in paths]
        log = self.folder / "pictures.jsonl"
        with Served(self.folder / "pictures", "serve.max_batch_requests=4", "serve.ui=true", f"serve.access_log={log}") as server:
            self.assertIn(b'data-task="pictures" data-pictures="yes"', server.ask("/ui")[2])
            for picture, classes in zip(pictures, wanted):
                coded = base64.b64encode(picture).decode()
                self.assertEqual(self.answer(server, "/", picture, headers={"Content-Type": "image/png"}), classes)
                self.assertEqual(self.answer(server, "/predict", {"inputs": coded, "parameters": {"top_k": 2}}), classes[:2])
                self.assertEqual(self.answer(server, "/", {"inputs": "data:image/png;base64," + coded}), classes)
                asked = json.dumps({"inputs": "data:image/png;base64," + coded}).encode()
                self.assertEqual(json.loads(log.read_text().splitlines()[-1])["request"], "sha256:" + hashlib.sha256(asked).hexdigest())
            connection = server.connect()
            connection.putrequest("POST", "/")
            connection.putheader("Content-Length", str(len(pictures[0])))
            connection.endheaders(pictures[0])
            self.assertEqual(json.loads(connection.getresponse().read()), wanted[0])
            connection.close()
            for body, said in ((b"no picture", "the picture cannot be read: is text, not a picture"), (pictures[0][:100], "the picture cannot be read"), (b"", "the picture cannot be read")):
                status, _, text = server.ask("/", body, headers={"Content-Type": "image/png"})
                self.assertEqual((status, said in json.loads(text)["error"]), (422, True), text)
            for body, said in (({"inputs": "https://a.example/a.png"}, "no address is fetched"), ({"inputs": "a b"}, "must be base64"), ({"inputs": ["", ""]}, "one picture")):
                status, _, text = server.ask("/", body)
                self.assertEqual((status, said in json.loads(text)["error"]), (422, True), text)
            self.assertEqual(server.ask("/tokenize", {"inputs": "a"})[0], 404)
            with Served(self.folder / "pictures", "serve.max_picture_pixels=100") as strict:
                status, _, text = strict.ask("/", pictures[0], headers={"Content-Type": "image/png"})
                self.assertEqual((status, "more pixels than allowed" in json.loads(text)["error"]), (422, True), text)
            results = []
            threads = [threading.Thread(target=lambda n=n: results.append((n, *server.ask("/", pictures[n % 10] if n % 4 else b"bad", headers={"Content-Type": "image/png"})))) for n in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for number, status, _, text in results:
                self.assertEqual((status, json.loads(text) if number % 4 else 0), (200, wanted[number % 10]) if number % 4 else (422, 0))
            run_ends(2, "serve", self.folder / "pictures", f"serve.listen={server.address}")  # a start that fails at its end
            code, out, error = server.end()
            self.assertEqual(code, 0, error)
            self.assertIn("Sealed          kept", out)
            self.assertIn("Memory          kept", out)

    def test_any_load_gives_the_bytes_of_a_request_alone(self):
        """500 requests of 1 to 16 clients, with a restart in the middle."""
        choose = random.Random(5)
        requests = []
        for _ in range(500):
            texts = [" ".join(choose.choice(self.texts).split()[:choose.randint(1, 8)]) for _ in range(choose.choice((1, 1, 1, 2, 5, 20)))]
            path = choose.choice(("/embed", "/v1/embeddings"))
            requests.append((path, {"inputs" if path == "/embed" else "input": texts, **({"encoding_format": "base64"} if path != "/embed" and choose.random() < 0.5 else {})}))
        alone = {}
        with Served(self.folder / "vectors", "machine.threads=1") as server:
            for path, body in requests:
                key = path + json.dumps(body)
                if key not in alone:
                    status, _, alone[key] = server.ask(path, body)
                    self.assertEqual(status, 200)
        done, wrong = [], []

        def client(server, part):
            connection = server.connect()
            for path, body in part:
                status, _, text = server.ask(path, body, connection=connection)
                done.append(path)
                if (status, text) != (200, alone[path + json.dumps(body)]):
                    wrong.append((status, text[:200]))
            connection.close()

        at, resident, digests = 0, [], set()
        for half, keys in ((250, ("machine.threads=2",)), (500, ("machine.threads=3", "serve.max_batch_tokens=100", "machine.isa=avx2"))):
            with Served(self.folder / "vectors", *keys) as server:
                digests.add(server.ask("/health")[1]["X-Bascule-Model"])  # weights are packed in the form of the instruction set
                while at < half:
                    clients = choose.randint(1, 16)
                    part = requests[at:min(half, at + 6 * clients)]
                    at += len(part)
                    threads = [threading.Thread(target=client, args=(server, part[i::clients])) for i in range(clients)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    resident.append(server.resident_kib())
                code, out, error = server.end()
                self.assertEqual(code, 0, error)
                self.assertIn("Sealed          kept", out)
                self.assertIn("Memory          kept", out)
        self.assertEqual(wrong, [])
        self.assertEqual((len(done), len(digests)), (500, 1))

    def test_hostile_bodies_are_one_error_object_each(self):
        cases = [(b"", 400, "Validation"), (b"{", 400, "Validation"), (b"[" * 5000, 400, "Validation"), (b'{"inputs": "\xff"}', 400, "Validation"), (b'{"inputs": "a", "inputs": "b"}', 400, "Validation"),
                 (b'{"inputs": "\\ud800"}', 400, "Validation"), (b'{"inputs": ["a", 7]}', 422, "Validation"), (b'{"inputs": {"a": 1}}', 422, "Validation"), (b'{"inputs": null}', 422, "Validation"),
                 (b'{"inputs": [[99999999999999999999]]}', 422, "Validation"), (b'{"inputs": [[-1]]}', 422, "Validation"), (b'{"inputs": "a", "dimensions": 3}', 422, "Validation"),
                 (b'{"inputs": ""}', 400, "Empty"), (b'{"inputs": []}', 400, "Empty"), (b'{"inputs": [[]]}', 400, "Empty"), (b'{"inputs": "' + b"cat " * 30 + b'"}', 422, "Tokenizer"),
                 (json.dumps({"inputs": ["a"] * 33}).encode(), 422, "Validation"), (b'{"inputs": "a", "normalize": 1}', 422, "Validation"), (b'{"inputs": "a", "prompt_name": "x"}', 422, "Validation"),
                 (b'{"inputs": "' + b"a" * 300000 + b'"}', 413, "Validation")]
        with Served(self.folder / "vectors") as server:
            (good,) = self.answer(server, "/embed", {"inputs": "cat"})
            for body, status, kind in cases:
                with self.subTest(body=body[:40]):
                    got, _, text = server.ask("/embed", body)
                    self.assertEqual((got, json.loads(text)["error_type"]), (status, kind), text)
            got, _, text = server.ask("/v1/embeddings", b'{"input": "a", "dimensions": 3}')
            self.assertEqual((got, json.loads(text)), (422, {"error": {"message": "`dimensions` must be 64", "type": "Validation", "param": None, "code": 422}}))
            self.assertEqual(server.ask("/embed", b'{"inputs": "a"}', headers={"Content-Type": "text/plain"})[0], 415)
            self.assertEqual(server.ask("/nowhere")[0], 404)
            self.assertEqual(self.answer(server, "/embed", {"inputs": "cat"}), [good])
            self.assertIn('bascule_requests_total{endpoint="/embed",code="422"}', server.ask("/metrics")[2].decode())
            self.assertEqual(server.end()[0], 0)

    def test_numbers_that_are_not_finite_fail_their_request_alone(self):
        """A token whose row of the table is not finite."""
        broken = self.folder / "broken"
        shutil.copytree(self.folder / "vectors", broken)
        with Served(broken) as server:
            wanted = self.answer(server, "/embed", {"inputs": "face"})
            token = self.answer(server, "/tokenize", {"inputs": "cat"})[0][1]["id"]
        weights = (broken / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", weights[:8])[0]
        header = json.loads(weights[8:8 + size])
        name = next(name for name in header if name.endswith("word_embeddings.weight"))
        at = 8 + size + header[name]["data_offsets"][0] + 4 * 64 * token
        (broken / "model.safetensors").write_bytes(weights[:at] + struct.pack("<f", float("inf")) + weights[at + 4:])
        with Served(broken) as server:
            results = []
            threads = [threading.Thread(target=lambda text=text: results.append((text, *server.ask("/embed", {"inputs": text})))) for text in ["cat", "face"] * 8]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for text, status, _, body in results:
                if text == "cat":
                    self.assertEqual((status, json.loads(body)["error_type"]), (424, "Backend"))
                else:
                    self.assertEqual((status, json.loads(body)), (200, wanted))

    def test_a_stop_signal_lets_admitted_requests_finish(self):
        with Served(self.folder / "vectors", "machine.threads=1") as server:
            body = {"inputs": self.texts[:32]}
            wanted = self.answer(server, "/embed", body)
            results = []

            def ask():
                try:
                    results.append(server.ask("/embed", body))
                except (ConnectionError, OSError) as error:
                    results.append(error)

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            code, _, error = server.end()
            for thread in threads:
                thread.join()
            self.assertEqual(code, 0, error)
            for one in results:  # answered, or came when nobody listened: none is cut off
                if isinstance(one, tuple):
                    self.assertEqual((one[0], json.loads(one[2])), (200, wanted))

    def test_a_server_that_is_being_stopped_answers_on_connections_that_are_open(self):
        with Served(self.folder / "vectors", "machine.threads=1") as server:
            requests = (b"GET /ready HTTP/1.1\r\nHost: a\r\n\r\n", request_bytes("/embed", {"inputs": "cat"}))
            begun = [Wire(server.address) for _ in requests]
            wanted = begun[0].ask(requests[1])
            for wire, request in zip(begun, requests):
                self.assertEqual(wire.ask(requests[0])[0], 200)
                wire.send(request[:9])
            idle = server.connect()
            self.assertEqual(server.ask("/ready", connection=idle)[0], 200)  # so that the parts before it are read
            stopped = time.monotonic()
            server.log.send_signal(signal.SIGTERM)
            host, port = server.address.rsplit(":", 1)
            # Not in a tight loop: where the queue of connections is full, the kernel asks again after a second only.
            while True:
                try:
                    socket.create_connection((host, int(port))).close()
                    self.assertLess(time.monotonic() - stopped, 20)
                    time.sleep(0.005)
                except ConnectionRefusedError:
                    break
                except ConnectionResetError:  # it was in the queue when that was closed
                    continue
            try:
                status, headers, text = server.ask("/ready", connection=idle)
                self.assertEqual((status, headers["Connection"], json.loads(text)["error_type"]), (503, "close", "Unhealthy"))
            except ConnectionError:  # it is kept for a second, which this process may have waited for the processor
                self.assertGreater(time.monotonic() - stopped, 1)
            idle.close()
            answers = []
            for wire, request in zip(begun, requests):
                wire.send(request[9:])
                answers.append(wire.answer())
                self.assertRaises(ConnectionError, wire.more)
                wire.socket.close()
            self.assertEqual((answers[0][0], json.loads(answers[0][1])["error_type"]), (503, "Unhealthy"))
            self.assertEqual((wanted[0], answers[1]), (200, wanted))
            self.assertEqual(server.end(None)[0], 0)

    def test_too_much_is_refused_with_a_time_to_come_again(self):
        with Served(self.folder / "vectors", "serve.max_concurrent_requests=32", "machine.threads=1") as server:
            results = []
            threads = [threading.Thread(target=lambda: results.append(server.ask("/embed", {"inputs": self.texts[:32]}))) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            statuses = {status for status, _, _ in results}
            self.assertLessEqual(statuses, {200, 429})
            self.assertIn(200, statuses)
            for status, headers, body in results:
                if status == 429:
                    self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                    self.assertEqual(json.loads(body)["error_type"], "Overloaded")
        # No wait at all is allowed.
        with Served(self.folder / "vectors", "serve.latency_bound_ms=1e-6") as server:
            for body in ({"inputs": "cat"}, b"{"):
                status, headers, text = server.ask("/embed", body)
                self.assertEqual((status, json.loads(text)["error_type"]), (429, "Overloaded") if body != b"{" else (400, "Validation"))
            self.assertEqual(server.ask("/tokenize", {"inputs": "cat"})[0], 200)
            refused = re.findall(r'bascule_refused_total\{reason="(.*)"\} (.*)', server.ask("/metrics")[2].decode())
            self.assertEqual(refused, [("queue", "0"), ("wait", "1"), ("memory", "0"), ("protocol", "0")])

    def test_the_log_is_a_chain(self):
        log = self.folder / "log.jsonl"
        keys = (f"serve.access_log={log}", "serve.access_log_requests=true")
        bodies = []
        for part in (self.texts[:3], self.texts[3:5]):
            with Served(self.folder / "vectors", *keys) as server:
                for text in part:
                    bodies.append((json.dumps({"inputs": text}).encode(), server.ask("/embed", {"inputs": text})[2]))
                server.ask("/health")
                self.assertEqual(server.end()[0], 0)
        lines = log.read_bytes().splitlines()
        self.assertEqual(len(lines), 5)
        previous = ""
        for number, (line, (request, answer)) in enumerate(zip(lines, bodies)):
            row = json.loads(line)
            self.assertEqual((row["sequence"], row["previous"], row["body"].encode(), row["status"]), (number, previous, request, 200))
            self.assertEqual((row["request"], row["answer"]), tuple("sha256:" + hashlib.sha256(one).hexdigest() for one in (request, answer)))
            previous = "sha256:" + hashlib.sha256(line).hexdigest()

    def test_every_key_of_the_table(self):
        (self.folder / "key").write_text("secret\n")
        asked = [("/v1/embeddings", {"input": self.texts[:3]}), ("/embed", {"inputs": "cat " * 30})]

        def bodies(*keys, **options):
            with Served(self.folder / "vectors", *keys, **options) as server:
                headers = {"Authorization": "Bearer secret"}
                if keys and keys[0].startswith("serve.api_key_file"):
                    self.assertEqual([server.ask(*asked[0])[0], server.ask("/health")[0], server.ask("/info")[0]], [401, 200, 401])
                return [server.ask(path, body, headers=headers)[2] for path, body in asked]

        start = bodies()
        for name, (changes, value) in SERVING_KEYS.items():
            with self.subTest(key=name):
                if name == "listen":
                    self.assertEqual(bodies(listen=value.replace("{f}", str(self.folder))), start)
                    continue
                keys = [f"serve.{name}={value.replace('{f}', str(self.folder))}"]
                if name == "access_log_requests":
                    keys.append(f"serve.access_log={self.folder}/b.jsonl")
                if name == "workers":
                    keys.append("machine.threads=4")
                self.assertEqual(bodies(*keys) != start, changes == ANSWERS)

    def test_bad_settings_are_refused_in_one_line_before_anything_listens(self):
        def refusal(*arguments, code=2):
            done = run("serve", *arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n"), "READY" in done.stderr), (code, 1, False), done.stderr)
            return done.stderr

        vectors = self.folder / "vectors"
        self.assertIn("serve.max_batch_tokens = 15 is less than the longest input, 16 tokens; write 16 or more", refusal(vectors, "serve.max_batch_tokens=15"))
        self.assertIn("more than serve.max_concurrent_requests", refusal(vectors, "serve.max_concurrent_requests=8"))
        self.assertIn("serve.api_key_file", refusal(vectors, "serve.api_key_file=/nowhere"))
        self.assertIn("unknown key", refusal(vectors, "serve.port=3"))
        self.assertIn("holds no model", refusal(self.folder, code=3))
        self.assertIn("there is no such folder", refusal(self.folder / "none", code=3))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = run("serve", vectors, f"serve.listen=127.0.0.1:{taken.getsockname()[1]}")
            self.assertEqual((done.returncode, "READY" in done.stderr), (2, False), done.stderr)
        toml = self.folder / "serve.toml"
        toml.write_text('[model]\nmodel_name_or_path = "vectors"\n')
        self.assertEqual(run("serve", toml).returncode, 2)
        toml.write_text('[model]\nmodel_name_or_path = "vectors"\n[serve]\nmax_batch_tokens = 64\n')
        self.assertIn("[serve] is for `bascule serve`", run("run", toml).stderr)
        plan = json.loads(run("plan", toml, "--json").stdout)
        self.assertEqual(plan["peak_bytes"] > sum(plan["categories"][name] for name in ("requests", "connections and bodies", "workspace")), True)
        done = run_ends(4, "plan", toml, "--memory-gib", "0.01")
        self.assertEqual(run("serve", vectors, "machine.memory_limit_gib=0.01").returncode, 4)

    @unittest.skipUnless(importlib.util.find_spec("openai") and importlib.util.find_spec("huggingface_hub"), "openai and huggingface_hub are not installed")
    def test_unmodified_clients_are_answered(self):
        import huggingface_hub
        import openai
        def asked(server):
            return huggingface_hub.InferenceClient(model=f"http://{server.address}")

        with Served(self.folder / "vectors") as server:
            wanted = [struct.pack(f"<{len(one)}f", *one) for one in self.answer(server, "/embed", {"inputs": self.texts[:2]})]
            client = openai.OpenAI(base_url=f"http://{server.address}/v1", api_key="none")
            for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
                answer = client.embeddings.create(model="vectors", input=self.texts[:2], **form).data
                self.assertEqual([base64.b64decode(one.embedding) if isinstance(one.embedding, str) else struct.pack(f"<{len(one.embedding)}f", *one.embedding) for one in answer], wanted, form)
            self.assertEqual([one.id for one in client.models.list()], ["vectors"])
            with self.assertRaises(openai.UnprocessableEntityError) as refused:
                client.embeddings.create(model="vectors", input="cat " * 30)
            self.assertEqual(refused.exception.body["type"], "Tokenizer")
            for options in ({}, {"normalize": False, "prompt_name": "query"}):
                vector = asked(server).feature_extraction(self.texts[0], **options)
                self.assertEqual((vector.tobytes() == wanted[0], vector.shape), (not options, (1, len(wanted[0]) // 4)))
        with Served(self.folder / "words") as server:
            guesses = asked(server).fill_mask("a [MASK] face", top_k=3)
            self.assertEqual([(one.token_str, one.score) for one in guesses], [(one["token_str"], one["score"]) for one in self.answer(server, "/fill-mask", {"inputs": "a [MASK] face", "parameters": {"top_k": 3}})])
        with Served(self.folder / "classes") as server:
            labels = asked(server).text_classification(self.texts[0])
            self.assertAlmostEqual(sum(one.score for one in labels), 1.0, places=6)
            self.assertEqual(len(asked(server).text_classification(self.texts[0], top_k=1)), 1)
        with Served(self.folder / "tags") as server:
            tags = asked(server).token_classification(self.texts[0], aggregation_strategy="first")
            self.assertEqual([(one.entity_group, one.word, one.start, one.end, one.score) for one in tags],
                             [(one["entity_group"], one["word"], one["start"], one["end"], one["score"]) for one in self.answer(server, "/predict", {"inputs": self.texts[0]})])
        paths = write_pictures(self.folder)
        with Served(self.folder / "pictures") as server:
            labels = [(one["label"], one["score"]) for one in self.answer(server, "/", paths[0].read_bytes(), headers={"Content-Type": "image/png"})]
            for picture, options in ((str(paths[0]), {}), (paths[0].read_bytes(), {}), (str(paths[0]), {"top_k": 2})):
                self.assertEqual([(one.label, one.score) for one in asked(server).image_classification(picture, **options)], labels[:options.get("top_k")])
