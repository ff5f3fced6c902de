# SPDX-License-Identifier: Apache-2.0
"""`bascule serve` with a BridgeTower: vectors of texts, pictures and pairs, and whether a text fits a picture, as the run's own evaluation has them."""
import base64
import json
import struct
import threading
import unittest

from bascule_run import SharedFolderTest
from run_files import tensors
from serving import Served, has_parser, write_pairs
from small_run import ROWS


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServedPairs(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pictures = [picture for picture, _ in write_pairs(cls.folder)]

    def answer(self, server, path, body, **options):
        status, _, text = server.ask(path, body, **options)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def uri(self, row):
        return "data:image/jpeg;base64," + base64.b64encode(self.pictures[row]).decode()

    def test_vectors_are_those_of_the_run_in_any_batch(self):
        path = self.folder / "pairs" / "embeddings.safetensors"
        size = struct.unpack("<Q", path.read_bytes()[:8])[0]
        captions = json.loads(json.loads(path.read_bytes()[8:8 + size])["__metadata__"]["captions"])
        rows = [captions.index(row["caption"]) for row in ROWS[:6]]
        embeds = {name: [values[row * (len(values) // len(captions)):(row + 1) * (len(values) // len(captions))] for row in rows] for name, values in tensors(path).items()}
        bits = lambda vector: struct.pack(f"<{len(vector)}f", *vector)
        for precision in ("float32", "bf16"):
            with Served(self.folder / "pairs", f"model.precision={precision}", "serve.max_batch_requests=3", "serve.ui=true") as server:
                self.assertIn(b'data-task="vectors" data-pictures="yes"', server.ask("/ui")[2])
                listed = self.answer(server, "/v1/embeddings", {"input": [row["caption"] for row in ROWS[:6]]})
                texts = [row["embedding"] for row in listed["data"]]
                pictures = [row["embedding"] for row in self.answer(server, "/v1/embeddings", {"input": [self.uri(i) for i in range(6)], "modality": "image"})["data"]]
                if precision == "float32":
                    self.assertEqual([bits(vector) for vector in texts], [vector.tobytes() for vector in embeds["text_embeds"]])
                    self.assertEqual([bits(vector) for vector in pictures], [vector.tobytes() for vector in embeds["image_embeds"]])
                    self.assertEqual(self.answer(server, "/embed", {"inputs": ROWS[0]["caption"]}), texts[:1])
                    self.assertEqual(self.answer(server, "/", self.pictures[1], headers={"Content-Type": "image/jpeg"}), pictures[1:2])
                    message = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": self.uri(0)}}, {"type": "text", "text": ROWS[0]["caption"]}]}]}
                    (pair,) = self.answer(server, "/v1/embeddings", message)["data"]
                    self.assertEqual([pair["embedding"]], self.answer(server, "/embed", {"inputs": {"image": self.uri(0), "text": ROWS[0]["caption"]}}))
                    for body, said in (({"messages": []}, "messages"), ({"input": [["data:"]], "modality": "image"}, "must be a string"), ({"input": ["https://a.example/a.png"], "modality": "image"}, "no address"),
                                       ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}, "one text")):
                        status, _, text = server.ask("/v1/embeddings", body)
                        self.assertEqual((status, said in text.decode()), (422, True), text)
                kinds = [{"text": ROWS[i]["caption"]} if i % 3 == 0 else {"image": self.uri(i)} if i % 3 == 1 else {"image": self.uri(i), "text": ROWS[i]["caption"]} for i in range(6)]
                bodies = [("/embed", {"inputs": kinds[i:i + 3]}) for i in range(6)]
                alone = [server.ask(*one)[2] for one in bodies]
                self.assertEqual([json.loads(alone[0])[:2], json.loads(alone[3])[:2]], [[texts[0], pictures[1]], [texts[3], pictures[4]]])
                results = {}
                threads = [threading.Thread(target=lambda n=n: results.setdefault(n, server.ask(*bodies[n % 6])[2])) for n in range(24)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual([results[n] for n in range(24)], [alone[n % 6] for n in range(24)])
                code, out, error = server.end()
                self.assertEqual(code, 0, error)
                self.assertIn("Sealed          kept", out)
                self.assertIn("Memory          kept", out)

    def test_whether_a_text_fits_is_as_the_run_has_predicted(self):
        predicted = [json.loads(line) for line in (self.folder / "matching" / "predictions.jsonl").read_text().splitlines()]
        with Served(self.folder / "matching", "serve.ui=true") as server:
            self.assertIn(b'data-task="classes" data-pictures="yes"', server.ask("/ui")[2])
            inputs = [{"image": self.uri(row["row"]), "text": row["caption"]} for row in predicted[:5]]  # some captions were exchanged
            together = self.answer(server, "/predict", {"inputs": inputs})
            for row, labels in zip(predicted, together):
                self.assertAlmostEqual({one["label"]: one["score"] for one in labels}["1"], row["probability"], places=6)
            self.assertEqual([self.answer(server, "/", {"inputs": one}) for one in inputs], together)
            for one in ({"inputs": "a"}, {"inputs": {"image": self.uri(0)}}):
                status, _, text = server.ask("/predict", one)
                self.assertEqual((status, "cannot be asked about" in text.decode()), (422, True), text)
            self.assertEqual(server.ask("/predict", self.pictures[0], headers={"Content-Type": "image/jpeg"})[0], 422)
            status, _, text = server.ask("/predict", {"inputs": {"image": base64.b64encode(b"no picture").decode(), "text": "a"}})
            self.assertEqual((status, "cannot be read" in text.decode()), (422, True), text)
