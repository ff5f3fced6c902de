#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether MLflow's own reader shows what a run with report.tracking = "mlflow" wrote: every figure of log.jsonl as a point of a metric with its step and time, and nothing else; every setting as a parameter; state, times and results. Once from the store as it is, once after MLflow's own migration to SQLite, and once through the server behind `mlflow ui`.

    pip install mlflow
    tools/mlflow_check.py [--program build/bascule]          # trains a small model for a few seconds, kills and resumes it
    tools/mlflow_check.py --run runs/demo                    # of a run that is there
"""
import argparse
import collections
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
import mlflow  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "emoji-captions"


def points_of_log(run):
    """Per metric the points of log.jsonl: (step, milliseconds, value)."""
    points = collections.defaultdict(list)
    for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()):
        for key, value in line.items():
            if key not in ("step", "time") and value is not None:
                points[key].append((line["step"], int(line["time"] * 1000.0), float(value)))
    return points


def settings_of(run):
    """By "table.key"."""
    def flat(table, prefix):
        for key, value in table.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value
    return dict(flat(tomllib.loads(json.loads((run / "bascule.json").read_text())["settings"]), ""))


def compare(name, client, run, settings):
    """Counts of what is equal; ends the program with what is not."""
    problems = []
    runs = [one for one in client.search_runs(["0"], max_results=1000) if one.data.tags.get("bascule.output_dir") == str(run)]
    if len(runs) != 1:
        sys.exit(f"{name}: {len(runs)} runs of {run}")
    info, data = runs[0].info, runs[0].data
    logged = points_of_log(run)
    shown = {key: [(m.step, m.timestamp, m.value) for m in client.get_metric_history(info.run_id, key)] for key in data.metrics}
    for key in sorted(set(logged) | set(shown)):
        if sorted(logged.get(key, [])) != sorted(shown.get(key, [])):
            problems.append(f"{key}: log.jsonl has {len(logged.get(key, []))} points, MLflow shows {len(shown.get(key, []))}")
    settings = {"training.groups": [], **settings}  # a parameter also where there are none
    if set(data.params) != set(settings):
        problems.append(f"parameters: {sorted(set(data.params) ^ set(settings))}")
    for key in set(data.params) & set(settings):
        if data.params[key] != settings[key] and tomllib.loads(f"x = {data.params[key]}")["x"] != settings[key]:
            problems.append(f"parameter {key}: {data.params[key]!r}, the run has {settings[key]!r}")
    results = {entry.name for entry in run.iterdir() if entry.is_file() and not entry.name.startswith(".") and entry.suffix not in (".safetensors", ".bin") and entry.name != "bascule.json"}
    artifacts = {one.path: one.file_size for one in client.list_artifacts(info.run_id)}
    if set(artifacts) != results:
        problems.append(f"artifacts: {sorted(set(artifacts) ^ results)}")
    for path in ("report.html", "README.md", "all_results.json"):
        if path in results and pathlib.Path(client.download_artifacts(info.run_id, path)).read_bytes() != (run / path).read_bytes():
            problems.append(f"artifact {path}: other bytes")
    if (info.status, info.run_name) != ("FINISHED", run.name) or not info.start_time <= info.end_time:
        problems.append(f"{info.status} {info.run_name} {info.start_time} {info.end_time}")
    if problems:
        sys.exit(f"{name}: " + "\n".join(problems))
    count = sum(map(len, shown.values()))
    print(f"{name}: {len(shown)} metrics with {count} points, {len(data.params)} parameters, {len(artifacts)} artifacts: as the run wrote them")


def small_run(program, folder):
    """Trained, killed in between and resumed; the command that it printed."""
    (folder / "run.toml").write_text(f"""[model]
model_name_or_path = "{DATA}/model"
tokenizer_name = "{DATA}/tokenizer"
from_scratch = true
[data]
train_file = "{DATA}/train.jsonl"
validation_file = "{DATA}/validation.jsonl"
test_file = "{DATA}/test.jsonl"
max_seq_length = 32
preprocessing = "processor"
[training]
output_dir = "runs/small run"
max_steps = 60
save_steps = 6
eval_steps = 6
logging_steps = 2
ema_decay = 0.9
[report]
tracking = "mlflow"
""")
    killed = subprocess.Popen([program, "run", folder / "run.toml"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    log = folder / "runs" / "small run" / "log.jsonl"
    while killed.poll() is None and not (log.exists() and '"step": 16' in log.read_text()):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = subprocess.run([program, "run", folder / "run.toml"], capture_output=True, text=True)
    if done.returncode != 0 or "resume" not in done.stderr:
        sys.exit(done.stderr)
    command = re.search(r"MLFLOW_ALLOW_FILE_STORE=true (mlflow ui --backend-store-uri (\S+))", done.stderr)
    return folder / "runs" / "small run", command.group(2)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", default=str(ROOT / "build" / "bascule"))
    arguments.add_argument("--run", type=pathlib.Path)
    arguments.add_argument("--store", help="of --run; default: mlruns beside it")
    options = arguments.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary).resolve()
        if options.run:
            run = options.run.resolve()
            store = pathlib.Path(options.store).resolve().as_uri() if options.store else (run.parent / "mlruns").as_uri()
        else:
            run, store = small_run(program, folder)
        settings = settings_of(run)
        print(f"MLflow {mlflow.__version__}, {run}")
        compare("the store as it is", mlflow.MlflowClient(tracking_uri=store), run, settings)

        database = f"sqlite:///{folder}/mlflow.db"
        mlflow_program = pathlib.Path(sys.executable).parent / "mlflow"
        path = pathlib.Path(mlflow.utils.file_utils.local_file_uri_to_path(store))
        subprocess.run([mlflow_program, "migrate-filestore", "--source", path, "--target", database], check=True, capture_output=True)
        compare("migrated to SQLite", mlflow.MlflowClient(tracking_uri=database), run, settings)

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([mlflow_program, "ui", "--backend-store-uri", store, "--port", str(port), "--workers", "1"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            for _ in range(600):
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            compare("through mlflow ui", mlflow.MlflowClient(tracking_uri=f"http://127.0.0.1:{port}"), run, settings)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    main()
