# SPDX-License-Identifier: Apache-2.0
"""What stands around `bascule serve`: answers that are proved by the log, units, the second stop signal, nginx in front."""
import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest

from bascule_run import PROGRAM, ROOT, SharedFolderTest, run, run_ends, run_ok, wait_for
from serving import KEYWORDS, Served, has_parser, write_models

NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def is_open(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServeOperation(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_models(cls.folder)
        cls.texts = [" ".join(row["text"].split()[:8]) for row in map(json.loads, (KEYWORDS / "train.jsonl").read_text().splitlines()[:40])]

    def test_an_answer_can_be_computed_again_from_its_line_of_the_log(self):
        """Kept requests and brought ones, refusals among them; each lie is one line, with exit code 7."""
        log, brought = self.folder / "proved.jsonl", self.folder / "request.json"
        with Served(self.folder / "vectors", f"serve.access_log={log}", "serve.access_log_requests=true", "serve.auto_truncate=true") as server:
            for body in ({"inputs": self.texts[:3]}, {"inputs": "cat " * 30}, b'{"inputs": "\xff"}'):
                server.ask("/embed", body)
            server.ask("/v1/embeddings", {"input": self.texts[0], "encoding_format": "base64"})
            server.ask("/embed", b"{}", headers={"Content-Type": "text/plain"})
        keys = (self.folder / "vectors", "serve.auto_truncate=true", "machine.threads=1", "--answer")
        wanted = [(200, "body"), (200, "body"), (400, "body_base64"), (200, "body"), (415, "body")]
        lines = log.read_bytes().splitlines()
        for number, (status, member) in enumerate(wanted, 1):
            row = json.loads(lines[number - 1])
            self.assertEqual((row["status"], member in row), (status, True))
            done = run("reproduce", *keys, log, number, "--json")
            self.assertEqual((done.returncode, json.loads(done.stdout)["answer"]), (0, row["answer"]), done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout), {"log": str(log), "line": 5, "path": "/embed", "status": 415, "differences": [], "as_recorded": True, "answer": row["answer"]})

        def differs(*arguments):
            done = run_ends(7, "reproduce", *arguments)
            return [line.split(" ")[1] for line in done.stdout.splitlines()[:-1]]

        self.assertEqual(differs(self.folder / "vectors", "--answer", log, 2), ["model:", "status:", "answer:"])
        brought.write_text('{"inputs": "other"}')
        self.assertEqual(differs(*keys, log, 1, "--request", brought), ["request:"])
        log.write_bytes(b"\n".join([lines[0].replace(b'"status": 200', b'"status": 422'), *lines[1:2], *lines[3:]]) + b"\n")
        self.assertEqual(differs(*keys, log, 1), ["log:", "log:", "log:", "status:"])
        del row["body"]
        log.write_text(json.dumps({**row, "content_type": "application/json", "request": "sha256:" + hashlib.sha256(b'{"inputs": ""}').hexdigest(), "status": 429}) + "\n")
        self.assertIn("does not have the request", run("reproduce", *keys, log, 1).stderr)
        done = run("reproduce", *keys, log, 1, "--request", "-", input='{"inputs": ""}')
        self.assertEqual((done.returncode, "which depended on the load" in done.stdout), (0, True), done.stdout + done.stderr)
        self.assertEqual(run("reproduce", *keys, log, 2).returncode, 3)
        self.assertIn("\"two\" is not the number of a line", run("reproduce", *keys, log, "two").stderr)
        self.assertEqual(run("reproduce", self.folder / "vectors", "serve.auto_truncate=true").returncode, 2)

    def test_plan_draws_lists_and_writes_units(self):
        toml = self.folder / "serve.toml"
        text = '[model]\nmodel_name_or_path = "vectors"\n[serve]\nlisten = "LISTEN"\naccess_log = "/var/lib/bascule-vectors/log.jsonl"\n'
        toml.write_text(text.replace("LISTEN", "localhost:3999"))
        done = run_ok("plan", toml, "--json", "--inputs", "--unit", self.folder / "u.service", "--svg", self.folder / "a.svg")
        plan, unit = json.loads(done.stdout), (self.folder / "u.service").read_text()
        self.assertEqual(int(re.search(r"^MemoryMax=(\d+)$", unit, re.M)[1]), int(1.03 * plan["peak_bytes"] + (64 << 20)))
        for line in (f'ExecStart="{PROGRAM}" serve "{toml}"', "Requires=u.socket", "PrivateNetwork=yes", "TimeoutStopSec=41"):
            self.assertIn(f"\n{line}\n", unit)
        self.assertIn("\nListenStream=127.0.0.1:3999\n", (self.folder / "u.socket").read_text())
        self.assertTrue((self.folder / "a.svg").read_text().startswith("<svg"))
        listed = {f"{one['folder']}/{name}" for one in plan["inputs"] for name in one["files"]}
        self.assertLessEqual({"vectors/model.safetensors", "vectors/vocab.txt", "vectors/bascule.json", "vectors/modules.json", "vectors/1_Pooling/config.json"}, listed)
        if shutil.which("systemd-analyze"):
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", self.folder / "u.service"], capture_output=True, text=True, check=False)
            self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""))
        toml.write_text(text.replace("LISTEN", "unix:/run/x.sock").replace("/var/lib/bascule-vectors", "/var/log"))
        self.assertIn("may write to /var/lib/bascule-vectors alone", run("plan", toml, "--unit", self.folder / "u.service").stderr)
        toml.write_text(text.replace("LISTEN", "unix:/run/x.sock"))
        self.assertEqual(run("plan", toml, "--unit", self.folder / "u.service").returncode, 0)
        self.assertIn("\nListenStream=/run/x.sock\n", (self.folder / "u.socket").read_text())
        self.assertIn("does not end with .service", run("plan", toml, "--unit", self.folder / "u.txt").stderr)

    def test_the_page_is_one_file_under_a_policy(self):
        (self.folder / "key").write_text("secret\n")
        for model, field in (("vectors", 'data-task="vectors" data-pictures="no" data-mask=""'), ("words", 'data-task="words" data-pictures="no" data-mask="a [MASK] face"'), ("classes", 'data-task="classes"')):
            with self.subTest(model=model), Served(self.folder / model, "serve.ui=true", f"serve.api_key_file={self.folder}/key") as server:
                status, headers, body = server.ask("/ui")
                page, policy = body.decode(), headers["Content-Security-Policy"]
                self.assertEqual((status, headers["Content-Type"], field in page, server.ask("/info")[0]), (200, "text/html; charset=utf-8", True, 401))
                self.assertIn("default-src 'none'; connect-src 'self';", policy)
                self.assertIsNone(re.search(r"https?://|<link|@import| src=| style=| on[a-z]+=", page))
                for kind in ("script", "style"):
                    text = re.search(rf"<{kind}>(.*)</{kind}>", page, re.S)[1]
                    self.assertIn(f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'", policy)
        with Served(self.folder / "vectors") as server:
            self.assertEqual(server.ask("/ui")[0], 404)

    def test_a_second_stop_signal_ends_it_at_once(self):
        """At all addresses, which needs leave where there is no key."""
        with Served(self.folder / "vectors", "serve.allow_remote_without_key=true", listen="0.0.0.0:0") as server:
            connection = server.connect()
            connection.connect()  # may still send a request for a second
            server.log.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            code, _, error = server.end()
            self.assertEqual(code, 128 + signal.SIGTERM, error)
            self.assertTrue(error.endswith("bascule: serve: second signal: stopping at once; requests that were admitted get no answer\n"), error)
            connection.close()

    @unittest.skipUnless(NGINX and shutil.which("openssl"), "nginx or openssl is not installed")
    def test_nginx_stands_in_front(self):
        """With the file that tools/packaging has: TLS outside, the same bodies, no metrics, a limit of bodies, clients that are slow."""
        home, port = self.folder / "nginx", free_port()
        home.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bascule.example", "-keyout", home / "key.pem", "-out", home / "cert.pem"], capture_output=True, check=True)
        text = (ROOT / "tools/packaging/nginx.conf").read_text()
        for old, new in (("/run/bascule/serve.sock", home / "socket"), ("listen 443", f"listen 127.0.0.1:{port}"), ("/etc/ssl/certs/bascule.pem", home / "cert.pem"), ("/etc/ssl/private/bascule.key", home / "key.pem")):
            self.assertIn(old, text)
            text = text.replace(old, str(new))
        paths = "".join(f"{kind}_temp_path {home}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (home / "nginx.conf").write_text(f"user root;\ndaemon off;\npid {home}/pid;\nerror_log {home}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}}}\n")
        trusted = ssl.create_default_context(cafile=home / "cert.pem")
        with Served(self.folder / "vectors", "serve.max_connections=4", listen=f"unix:{home}/socket") as server:
            nginx = subprocess.Popen([NGINX, "-c", home / "nginx.conf", "-p", home], stderr=subprocess.PIPE, text=True)
            try:
                wait_for(lambda: is_open(port) or nginx.poll() is not None)

                def outside(path, body=None):
                    connection = http.client.HTTPSConnection("bascule.example", context=trusted)
                    connection.sock = trusted.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="bascule.example")
                    connection.request("GET" if body is None else "POST", path, body, {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    result = answer.status, dict(answer.getheaders()).get("Repr-Digest"), answer.read()
                    connection.close()
                    return result

                slow = [trusted.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="bascule.example") for _ in range(8)]
                for one in slow:  # twice as many as the server has slots
                    one.sendall(b"POST /embed HTTP/1.1\r\nHost: bascule.example\r\nContent-Length: 100\r\n\r\n{")
                body = json.dumps({"inputs": self.texts[:5]}).encode()
                status, headers, wanted = server.ask("/embed", body)
                self.assertEqual([outside("/embed", body) for _ in range(6)], [(200, headers["Repr-Digest"], wanted)] * 6)
                self.assertEqual([outside(path)[0] for path in ("/health", "/metrics", "/nowhere")], [200, 403, 404])
                self.assertEqual([outside("/embed", b" " * size)[0] for size in (2_000_001, 1_999_999)], [413, 400])
                for one in slow:
                    one.close()
            finally:
                nginx.terminate()
                nginx.communicate()
