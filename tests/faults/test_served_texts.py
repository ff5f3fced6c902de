# SPDX-License-Identifier: Apache-2.0
"""`bascule serve` with a T5: the texts of `bascule generate`, whatever else is being written, and clients that leave."""
import hashlib
import importlib.util
import json
import random
import shutil
import threading
import time
import unittest

from bascule_run import SharedFolderTest, run
from serving import KEYWORDS, Served, has_parser, write_writer


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServedTexts(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_writer(cls.folder)
        cls.model, cls.beams = cls.folder / "texts", cls.folder / "beams"
        cls.texts = [json.loads(line)["text"] for line in (KEYWORDS / "train.jsonl").read_text().splitlines()[:12]]

    def answer(self, server, path, body):
        status, _, text = server.ask(path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def generated(self, folder, texts, *options):
        return json.loads(run("generate", folder, "--json", *options, *texts).stdout)["texts"]

    def test_texts_are_those_of_generate_whatever_is_written_beside(self):
        """Greedy and by beams; alone, and 12 clients with lengths of their own in 3 slots, float32 and bf16."""
        draw = random.Random(4)
        for folder, precision in ((self.model, "float32"), (self.model, "bf16"), (self.beams, "float32")):
            requests = [(text, draw.randint(1, 14)) for text in self.texts]
            with Served(folder, f"model.precision={precision}", "serve.generation_slots=3", "serve.max_new_tokens=20") as server:
                def ask(text, most):
                    return server.ask("/generate", {"inputs": text, "parameters": {"max_new_tokens": most, "details": True}})
                alone = [ask(*one) for one in requests]
                for (text, most), (status, _, body) in zip(requests[:3], alone):
                    self.assertEqual(status, 200, body)
                    (wanted,) = self.generated(folder, [text], "--max-new-tokens", most, "--precision", precision)
                    got = json.loads(body)
                    self.assertEqual((got["generated_text"], got["details"]["generated_tokens"], got["details"]["finish_reason"]), (wanted["generated"], wanted["tokens"], "length" if wanted["cut"] else "eos_token"))
                results = {}
                threads = [threading.Thread(target=lambda n=n: results.setdefault(n, [ask(*requests[n])[2] for _ in range(2)])) for n in range(len(requests))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                for n, (_, _, body) in enumerate(alone):
                    self.assertEqual(results[n], [body] * 2)
                self.assertIn(f"batch_rows_count {3 * len(requests)}\n", server.ask("/metrics")[2].decode())  # each text has a wait of its own
                code, out, error = server.end()
                self.assertEqual(code, 0, error)
                self.assertIn("Sealed          kept", out)
                self.assertIn("Memory          kept", out)

    def test_forms_of_requests(self):
        usual = self.generated(self.model, self.texts[:2])
        with Served(self.model, "serve.max_new_tokens=20", "serve.ui=true") as server:
            self.assertIn(b'data-task="texts" data-pictures="no"', server.ask("/ui")[2])
            text = self.texts[0]
            self.assertEqual(self.answer(server, "/generate", {"inputs": text}), {"generated_text": usual[0]["generated"]})
            one = usual[0]["generated"]
            self.assertEqual(self.answer(server, "/", {"inputs": text, "parameters": {}}), [{"generated_text": one, "summary_text": one, "translation_text": one}])
            self.assertEqual([row["generated_text"] for row in self.answer(server, "/", {"inputs": self.texts[:2]})], [row["generated"] for row in usual])
            details = self.answer(server, "/generate", {"inputs": text, "parameters": {"details": True, "do_sample": False, "seed": 5}})["details"]
            self.assertEqual((len(details["tokens"]), details["prefill"], details["seed"]), (usual[0]["tokens"], [], None))
            self.assertTrue(all(-30 < token["logprob"] <= 0 for token in details["tokens"]))
            body = {"model": "texts", "prompt": self.texts[:2], "max_tokens": 3, "temperature": 0}
            status, _, answer = server.ask("/v1/completions", body)
            answer = json.loads(answer)
            cut = self.generated(self.model, self.texts[:2], "--max-new-tokens", 3)
            self.assertEqual((status, [(row["text"], row["index"], row["finish_reason"]) for row in answer["choices"]]),
                             (200, [(row["generated"], i, "length" if row["cut"] else "stop") for i, row in enumerate(cut)]))
            self.assertEqual(answer["id"], "cmpl-" + hashlib.sha256(json.dumps(body).encode()).hexdigest()[:24])
            self.assertEqual((answer["created"], answer["usage"]["completion_tokens"]), (0, sum(row["tokens"] for row in cut)))
            for parameters in ({"max_new_tokens": 21}, {"do_sample": True}, {"temperature": 0.5}, {"top_k": 3}, {"stop": ["a"]}, {"stream": True}):
                status, _, answer = server.ask("/generate", {"inputs": text, "parameters": parameters})
                self.assertEqual((status, json.loads(answer)["error_type"]), (422, "Validation"), parameters)
            self.assertEqual(server.ask("/generate", {"inputs": ""})[0], 400)
            self.assertEqual(server.ask("/generate", {"inputs": "cat " * 40})[0], 422)
            if importlib.util.find_spec("openai") and importlib.util.find_spec("huggingface_hub"):
                import huggingface_hub
                import openai
                client = huggingface_hub.InferenceClient(model=f"http://{server.address}")
                self.assertEqual(client.text_generation(text, max_new_tokens=20), self.generated(self.model, [text], "--max-new-tokens", 20)[0]["generated"])
                self.assertEqual((client.summarization(text).summary_text, client.translation(text).translation_text), (one, one))
                self.assertEqual(client.text_generation(text, details=True).details.generated_tokens, usual[0]["tokens"])
                self.assertEqual(openai.OpenAI(base_url=f"http://{server.address}/v1", api_key="none").completions.create(model="texts", prompt=text, max_tokens=3).choices[0].text, cut[0]["generated"])
        short = run("serve", self.model, "serve.max_new_tokens=0")
        self.assertEqual((short.returncode, short.stderr.count("\n")), (2, 1), short.stderr)

    def test_a_text_that_nobody_waits_for_is_not_written_to_its_end(self):
        endless = self.folder / "endless"
        shutil.copytree(self.model, endless)
        (endless / "generation_config.json").write_text(json.dumps({**json.loads((self.model / "generation_config.json").read_text()), "min_length": 4001, "max_length": 4001}))
        log = self.folder / "gone.jsonl"
        with Served(endless, "serve.max_new_tokens=4000", "serve.generation_slots=1", "serve.max_concurrent_requests=2", "serve.max_client_batch_size=2", f"serve.access_log={log}", "serve.queue_timeout_seconds=3600") as server:
            whole = self.answer(server, "/generate", {"inputs": self.texts[0], "parameters": {"max_new_tokens": 200}})
            gone = server.connect()
            gone.request("POST", "/generate", json.dumps({"inputs": self.texts[1]}), {"Content-Type": "application/json"})
            time.sleep(0.2)
            # One text is being written, and one waits.
            waiting = threading.Thread(target=lambda: self.answer(server, "/generate", {"inputs": self.texts[0], "parameters": {"max_new_tokens": 1}}))
            waiting.start()
            time.sleep(0.2)
            status, headers, text = server.ask("/generate", {"inputs": self.texts[2]})
            self.assertEqual((status, json.loads(text)), (429, {"error": "too many inputs are waiting", "error_type": "Overloaded"}))
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            gone.close()
            waiting.join()
            self.assertEqual(self.answer(server, "/generate", {"inputs": self.texts[0], "parameters": {"max_new_tokens": 200}}), whole)
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertEqual([row["status"] for row in rows], [200, 429, 499, 200, 200])
            self.assertEqual(server.end()[0], 0)
        done = run("serve", endless, "serve.max_new_tokens=100")
        self.assertEqual((done.returncode, "less than the texts of the model have" in done.stderr), (2, True), done.stderr)
