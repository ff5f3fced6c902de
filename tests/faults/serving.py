# SPDX-License-Identifier: Apache-2.0
"""A served model: starts the program, asks it over HTTP, ends it; and small models that answer."""
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess

from bascule_run import PROGRAM, patient, run_ok, settings
from relatives import DATA, SETTINGS, write_relatives
from small_run import ROWS, small_settings
from test_generate import make_model, make_settings

KEYWORDS = DATA / "emoji-keywords"


def has_parser():
    """Whether the program was built with Boost.Beast, whose names it then holds."""
    return b"5boost5beast" in PROGRAM.read_bytes()


def write_models(folder):
    """Folders of a BERT that makes vectors of at most 16 tokens, fills in words, classifies the emoji keywords' rows, and tags their words: "vectors", "words", "classes", "tags"."""
    folder = pathlib.Path(folder)
    write_relatives(folder)
    names = {f"model__{key}": value.replace('"bert"', f'"{folder}/bert"') for key, value in SETTINGS["bert"].items()}
    data = {"data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "1", "training__save_steps": "0", "training__seed": "3"}
    rows = [json.loads(line) for line in (KEYWORDS / "train.jsonl").read_text().splitlines()[:60]]
    (folder / "classes.jsonl").write_text("".join(json.dumps({"text": row["text"], "label": ("short", "middle", "long \"x\"")[len(row["text"]) % 3]}) + "\n" for row in rows))
    (folder / "tags.jsonl").write_text("".join(json.dumps({"tokens": row["text"].split()[:9], "tags": [("B-C", "B-A", "I-A", "B-B")[len(word) % 4] for word in row["text"].split()[:9]]}) + "\n" for row in rows))
    for name, head, more in (("tags", "token_classification", {"data__train_file": f'"{folder}/tags.jsonl"', "data__text_column": '"tokens"', "data__label_column": '"tags"'}),
                             ("words", "masked_lm", {"data__train_file": f'"{KEYWORDS}/train.jsonl"'}),
                             ("classes", "sequence_classification", {"data__train_file": f'"{folder}/classes.jsonl"', "data__label_column": '"label"'})):
        (folder / f"{name}-run").mkdir()
        run_ok("run", settings(folder / f"{name}-run", **{**names, **data, "data__text_column": '"text"', **more, "model__head": f'"{head}"'}))
        shutil.move(folder / f"{name}-run" / "run", folder / name)
    shutil.copytree(folder / "words", folder / "vectors")
    library = "sentence_transformers.models."
    (folder / "vectors" / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": library + "Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": library + "Pooling"}]))
    (folder / "vectors" / "1_Pooling").mkdir()
    (folder / "vectors" / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}))
    (folder / "vectors" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    (folder / "vectors" / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "find ", "other": "other "}, "default_prompt_name": None}))


def write_pictures(folder):
    """A folder of a ViT that classifies the emoji classes: "pictures". Returns the files of some pictures."""
    data = DATA / "emoji-classes"
    run_ok("run", settings(folder, **{"model__model_name_or_path": f'"{data}/model"', "model__tokenizer_name": None, "data__train_file": f'"{data}/test.jsonl"', "data__max_seq_length": None,
                                      "data__label_column": '"label"', "training__max_steps": "1", "training__save_steps": "0", "training__output_dir": f'"{folder}/pictures"'}))
    return [data / json.loads(line)["image"] for line in (data / "test.jsonl").read_text().splitlines()[:10]]


def write_writer(folder):
    """A folder of a T5 that was trained on the emoji keywords: "texts". The same with three beams: "beams"."""
    folder = pathlib.Path(folder)
    run_ok("run", make_settings(folder / "texts-run", make_model(folder / "t5"), training__max_steps="60", training__predict_with_generate=None, data__test_file=None, data__validation_file=None,
                                data__max_eval_samples=None, data__max_predict_samples=None, training__save_steps="0"))
    shutil.move(folder / "texts-run" / "run", folder / "texts")
    shutil.copytree(folder / "texts", folder / "beams")
    config = folder / "beams" / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_beams": 3}))


def write_pairs(folder):
    """Folders of runs of a BridgeTower that makes vectors of texts, pictures and both, and that says whether a text fits a picture: "pairs", "matching". Returns rows of a picture's bytes and its caption."""
    folder = pathlib.Path(folder)
    for name, model, head in (("pairs", "itc_add", "contrastive"), ("matching", "itm_scaled_add", "image_text_matching")):
        (folder / f"{name}-run").mkdir()
        run_ok("run", small_settings(folder / f"{name}-run", model, model__head=f'"{head}"', training__max_steps="1", data__test_file=f'"{DATA}/run_goldens/rows.jsonl"'))
        shutil.move(folder / f"{name}-run" / "run", folder / name)
    return [((DATA / "run_goldens" / row["image"]).resolve().read_bytes(), row["caption"]) for row in ROWS]


def request_bytes(path, body, kind="application/json"):
    """A request as it is sent; a body that is no bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Wire:
    """A connection that sends bytes and reads whole answers, for much load from one process."""

    seconds = patient(60)  # that it waits

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=self.seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = b""

    def send(self, request):
        self.socket.sendall(request)

    def answer(self):
        """Status and body of the next one."""
        while (end := self.read.find(b"\r\n\r\n")) < 0:
            self.more()
        whole = end + 4 + int(re.search(rb"\r\ncontent-length: (\d+)", self.read[:end], re.I)[1])
        while len(self.read) < whole:
            self.more()
        status, body = int(self.read[9:12]), self.read[end + 4:whole]
        self.read = self.read[whole:]
        return status, body

    def more(self):
        part = self.socket.recv(1 << 20)
        if not part:
            raise ConnectionError("the server has closed the connection")
        self.read += part

    def ask(self, request):
        self.send(request)
        return self.answer()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Served:
    """A running `bascule serve`; its output once it has ended. sealed: a program with sealed settings, which takes no others."""

    def __init__(self, what, *keys, listen="127.0.0.1:0", environment=None, sealed=None):
        command = [str(sealed), "serve"] if sealed else [str(PROGRAM), "serve", str(what), f"serve.listen={listen}", *keys]
        self.log = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = []
        for line in self.log.stderr:
            self.lines.append(line)
            if "READY" in line:
                break
        assert self.lines and "READY" in self.lines[-1], "".join(self.lines)
        self.address = self.lines[-1].split(" at ")[1].split(",")[0]

    def connect(self):
        if self.address.startswith("unix:"):
            connection = http.client.HTTPConnection("localhost")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.address[5:])
            return connection
        host, port = self.address.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=patient(60))

    def ask(self, path, body=None, headers=None, connection=None):
        """Status, headers and body; a body that is no bytes is sent as JSON."""
        one = connection or self.connect()
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        one.request("GET" if body is None else "POST", path, content, {**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})})
        answer = one.getresponse()
        result = answer.status, dict(answer.getheaders()), answer.read()
        if connection is None:
            one.close()
        return result

    def resident_kib(self):
        return int(next(line.split()[1] for line in pathlib.Path(f"/proc/{self.log.pid}/status").read_text().splitlines() if line.startswith("VmRSS")))

    def end(self, number=signal.SIGTERM):
        """The exit code, standard output and standard error."""
        if number:
            self.log.send_signal(number)
        out, error = self.log.communicate(timeout=patient(60))
        return self.log.returncode, out, "".join(self.lines) + error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.log.poll() is None:
            self.log.kill()
            self.log.communicate()
        for stream in (self.log.stdout, self.log.stderr):
            stream.close()
