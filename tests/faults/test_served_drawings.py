# SPDX-License-Identifier: Apache-2.0
"""`bascule serve` with a pipeline that draws: the pictures of `bascule draw`, whoever else asks, and clients that leave."""
import base64
import http.client
import importlib.util
import json
import threading
import time
import unittest

from bascule_run import ROOT, FolderTest, run_ok
from drawing import PIPELINES, pixels
from serving import Served, has_parser

KEYS = ("serve.num_inference_steps=3", "serve.max_batch_tokens=128")


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServedDrawings(FolderTest):
    def drawn(self, precision, prompt, negative, seed):
        """The file of `bascule draw`, behind its texts."""
        path = self.folder / "drawn.png"
        run_ok("draw", PIPELINES / "sd_v1", prompt, "-o", path, "--steps", 3, "--seed", seed, "--negative-prompt", negative, "--precision", precision)
        return pixels(path)

    def served(self, body):
        path = self.folder / "served.png"
        path.write_bytes(body)
        return pixels(path)

    def test_pictures_are_those_of_draw(self):
        asked = [("a cat", "", 42), ("a red heart", "blue", 7)]
        for precision in ("float32", "bf16"):
            with Served(PIPELINES / "sd_v1", *KEYS, f"model.precision={precision}", "serve.served_model_name=sd", "serve.ui=true") as server:
                self.assertIn(b'data-task="drawing" data-pictures="no"', server.ask("/ui")[2])
                bodies = []
                for prompt, negative, seed in asked:
                    status, headers, body = server.ask("/", {"inputs": prompt, "parameters": {"seed": seed, "negative_prompt": negative, "num_inference_steps": 3}}, headers={"Accept": "image/png"})
                    self.assertEqual((status, headers["Content-Type"]), (200, "image/png"), body[:200])
                    self.assertEqual(self.served(body), self.drawn(precision, prompt, negative, seed))
                    bodies.append(body)
                self.assertNotEqual(bodies[0], bodies[1])
                status, _, text = server.ask("/v1/images/generations", {"model": "sd", "prompt": "a cat", "n": 1, "response_format": "b64_json"})
                self.assertEqual((status, json.loads(text)), (200, {"created": 0, "data": [{"b64_json": base64.b64encode(bodies[0]).decode()}]}))
                results = {}
                threads = [threading.Thread(target=lambda n=n: results.setdefault(n, server.ask("/", {"inputs": asked[n % 2][0], "parameters": {"seed": asked[n % 2][2], "negative_prompt": asked[n % 2][1]}})[2])) for n in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual([results[n] for n in range(6)], bodies * 3)
                if precision == "float32":
                    self.refusals_and_clients(server, bodies[0])
                code, out, error = server.end()
                self.assertEqual(code, 0, error)
                self.assertIn("Sealed          kept", out)
                self.assertIn("Memory          kept", out)

    def refusals_and_clients(self, server, picture):
        info = json.loads(server.ask("/info")[2])["model_type"]["text_to_image"]
        self.assertEqual(info["num_inference_steps"], 3)
        for parameters, said in (({"num_inference_steps": 4}, "3 steps"), ({"height": 8}, "pixels"), ({"guidance_scale": 2}, "guidance_scale of 7.5"), ({"top_k": 2}, "no meaning"), ({"seed": -1}, "`seed`")):
            status, _, text = server.ask("/", {"inputs": "a", "parameters": parameters})
            self.assertEqual((status, said in text.decode()), (422, True), text)
        for body in ({"prompt": "a", "n": 2}, {"prompt": "a", "size": "8x8"}, {"prompt": "a", "size": "8"}, {"prompt": "a", "response_format": "url"}, {"prompt": ["a", "b"]}, {"prompt": "cat " * 200}):
            status, _, text = server.ask("/v1/images/generations", body)
            self.assertEqual(status, 422, text)
        self.assertEqual(server.ask("/", {"inputs": ""})[0], 400)
        if importlib.util.find_spec("openai") and importlib.util.find_spec("huggingface_hub"):
            import huggingface_hub
            import openai
            answer = openai.OpenAI(base_url=f"http://{server.address}/v1", api_key="none").images.generate(prompt="a cat", response_format="b64_json")
            self.assertEqual(base64.b64decode(answer.data[0].b64_json), picture)
            image = huggingface_hub.InferenceClient(model=f"http://{server.address}").text_to_image("a cat", seed=42)
            self.assertEqual(image.size, (info["width"], info["height"]))

    def test_a_picture_that_nobody_waits_for_is_not_drawn_to_its_end(self):
        log = self.folder / "log.jsonl"
        with Served(PIPELINES / "sd_v1", "serve.num_inference_steps=999", "serve.queue_timeout_seconds=3600", f"serve.access_log={log}") as server:
            gone = server.connect()
            gone.request("POST", "/", json.dumps({"inputs": "a cat"}), {"Content-Type": "application/json"})
            time.sleep(0.2)
            gone.close()
            deadline = time.monotonic() + 60
            while not log.read_text() and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual([json.loads(line)["status"] for line in log.read_text().splitlines()], [499])
            self.assertEqual(server.end()[0], 0)

    def test_a_picture_that_is_not_drawn_in_the_time_of_the_stop_is_given_up(self):
        with Served(ROOT / "tests/data/emoji-drawing", "serve.num_inference_steps=1000", "serve.drain_timeout_seconds=0.5", "serve.queue_timeout_seconds=3600") as server:
            failed = []

            def ask():
                try:
                    server.ask("/", {"inputs": "a cat"})
                except (ConnectionError, http.client.HTTPException) as error:
                    failed.append(error)

            client = threading.Thread(target=ask)
            client.start()
            while "bascule_connections 2\n" not in server.ask("/metrics")[2].decode():
                time.sleep(0.01)
            time.sleep(0.1)
            code, out, error = server.end()
            client.join()
            self.assertEqual((code, len(failed)), (0, 1), error)
            self.assertRegex(out, "Sealed +kept")
