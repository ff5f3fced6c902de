# SPDX-License-Identifier: Apache-2.0
"""`bascule bench`, steps of a set length, and the batch size that a refusal names."""
import json
import os
import re

from bascule_run import EMOJI, ROOT, FolderTest, is_sanitized, run, run_ends, run_ok, settings

DATA = ROOT / "tests" / "data"
SETTINGS, MEMORY = 2, 4


class Bench(FolderTest):
    def test_measures_steps_and_leaves_nothing_behind(self):
        done = run_ok("bench", settings(self.folder), "--steps", 3, "--warmup", 1, "--workers", "0,2", "--json")
        figures = json.loads(done.stdout)
        self.assertEqual(len(figures["step_seconds"]), 3)
        rate = figures["samples_per_second"]
        self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"])
        self.assertGreater(figures["ceiling_samples_per_second"], 0)
        self.assertAlmostEqual(sum(figures["phases"].values()), 1.0, delta=0.2)
        if not is_sanitized():
            self.assertLessEqual(figures["resident_bytes"], 1.03 * figures["planned_bytes"] + (64 << 20))
        self.assertEqual([column["workers"] for column in figures["columns"]], [0, 2])
        self.assertGreater(figures["columns"][0]["loader_samples_per_second"], 0)  # where steps take what was loaded before it is null
        self.assertIn("linear", [operation["name"] for operation in figures["operations"]])
        self.assertEqual(figures["precision"], "float32")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.toml"])

    def test_layers_in_bf16_with_recomputation_account_for_all_operations(self):
        changes = {"model__precision": '"bf16"', "training__gradient_checkpointing": '"full"'}
        done = run_ok("bench", settings(self.folder, **changes), "--steps", 2, "--warmup", 1, "--json")
        figures = json.loads(done.stdout)
        self.assertEqual(figures["precision"], "bf16")
        self.assertGreater(figures["limits"]["bf16_gflops_per_second"], 0)
        for figure in ("seconds", "flops", "bytes", "limit_seconds"):
            layers = sum(layer[figure] for layer in figures["layers"])
            self.assertAlmostEqual(layers / sum(operation[figure] for operation in figures["operations"]), 1.0, places=9)
        for layer in figures["layers"]:
            parts = layer["forward_seconds"] + layer["backward_seconds"] + layer["recomputed_seconds"]
            self.assertAlmostEqual(parts, layer["seconds"], places=9)
        text = {layer["name"]: layer for layer in figures["layers"]}["bridgetower.text_model.encoder.layer.*"]
        self.assertGreater(text["layers"], 1)
        self.assertTrue(all(text[part] > 0 for part in ("forward_seconds", "backward_seconds", "recomputed_seconds")), text)

    def test_measures_the_evaluation_of_a_run_that_does_not_train_or_is_asked_to(self):
        validated = {"data__validation_file": json.dumps(str(EMOJI / "validation.jsonl"))}
        folders = [self.folder / "only", self.folder / "both"]
        for folder in folders:
            folder.mkdir()
        only = settings(folders[0], training__do_train="false", **validated)
        both = settings(folders[1], **validated)
        for arguments in ([only], [both, "--use", "evaluate"]):
            done = run_ok("bench", *arguments, "--steps", 40, "--warmup", 1, "--json")  # more than the file has
            figures = json.loads(done.stdout)
            self.assertEqual((figures["measured"], len(figures["step_seconds"])), ("evaluation", 40))
            self.assertGreater(figures["samples_per_second"]["median"], 0)
            self.assertGreater(figures["phases"]["forward"], 0)
            self.assertEqual([figures["phases"][phase] for phase in ("backward", "reduction", "update")], [0, 0, 0])
            self.assertFalse([o["name"] for o in figures["operations"] if o["name"].endswith("_backward")])
            self.assertEqual(sum(layer["backward_seconds"] for layer in figures["layers"]), 0)
        self.assertEqual(json.loads(run("bench", both, "--steps", 1, "--json").stdout)["measured"], "training")
        text = run("bench", only, "--steps", 2, "--batch", "3,6").stdout
        self.assertRegex(text, r"batch, median .* ms")
        self.assertNotRegex(text, "backward  +[0-9]")
        self.assertIn("6 samples", text)
        nothing = "the run evaluates nothing; set "
        for changes, use, words in (({}, "evaluate", nothing + "data.validation_file or data.test_file"), ({**validated, "training__do_eval": "false"}, "evaluate", nothing + "training.do_eval = true"),
                                    ({"data__test_file": validated["data__validation_file"], "training__do_predict": "false"}, "evaluate", nothing + "training.do_predict = true"),
                                    ({**validated, "training__do_train": "false"}, "train", "the run does not train")):
            self.assertIn(words, run_ends(SETTINGS, "bench", settings(self.folder, **changes), "--use", use).stderr)

    def test_a_step_of_a_set_length_takes_that_long(self):
        done = run_ok("bench", settings(self.folder, machine__step_seconds="0.05"), "--steps", 6, "--json")
        figures = json.loads(done.stdout)
        self.assertEqual(figures["ceiling_samples_per_second"], 8 / 0.05)
        self.assertTrue(all(seconds >= 0.05 for seconds in figures["step_seconds"]), figures["step_seconds"])
        self.assertEqual(figures["operations"], [])

    def test_steps_of_a_set_length_change_no_weight(self):
        changes = {"machine__step_seconds": "0.001", "training__max_steps": "5"}
        run_ok("run", settings(self.folder, **changes))
        first = (self.folder / "run" / "model.safetensors").read_bytes()
        run_ok("run", settings(self.folder, training__output_dir=f'"{self.folder}/other"', training__seed="42", **{**changes, "training__max_steps": "2"}))
        self.assertEqual(first, (self.folder / "other" / "model.safetensors").read_bytes())

    def test_what_does_not_fit_is_refused_with_the_batch_that_would(self):
        batches = {"training__per_device_train_batch_size": "64", "training__per_device_eval_batch_size": "48",
                   "data__validation_file": f'"{EMOJI}/validation.jsonl"'}

        def plan(limit, **changes):
            return run("plan", settings(self.folder, machine__memory_limit_gib=limit, **{**batches, **changes}), "--json")

        whole = json.loads(plan("0").stdout)["peak_bytes"]
        one = json.loads(plan("0", training__per_device_train_batch_size="1", training__per_device_eval_batch_size="1").stdout)["peak_bytes"]
        limit = str((0.5 * whole + 0.5 * one) / 2**30)
        refused = plan(limit)
        self.assertEqual(refused.returncode, MEMORY, refused.stderr)
        fitting = int(re.search(r"training.per_device_train_batch_size.* = (\d+) would fit", refused.stderr).group(1))
        for batch, code in ((fitting, 0), (fitting + 1, MEMORY)):
            sizes = {"training__per_device_train_batch_size": str(batch), "training__per_device_eval_batch_size": str(min(batch, 48))}
            self.assertEqual(plan(limit, **sizes).returncode, code, f"batch {batch}")
        none = plan(str(0.9 * one / 2**30))
        self.assertEqual(none.returncode, MEMORY)
        self.assertIn("no batch size fits", none.stderr)

    def test_columns_for_batches_sides_and_lengths(self):
        text = {"data__preprocessing": None, "media_engine__memory_mib": None, "model__model_name_or_path": f'"{DATA}/text-corpus/model"', "data__train_file": f'"{DATA}/text-corpus/train.txt"',
                "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "data__max_seq_length": None}
        pictures = {"model__model_name_or_path": f'"{DATA}/emoji-classes/model"', "data__train_file": f'"{DATA}/emoji-classes/train.jsonl"', "model__tokenizer_name": None,
                    "data__label_column": '"label"', "data__max_seq_length": None, "data__preprocessing": '"training"', "training__per_device_train_batch_size": "4"}
        for option, key, values, changes in (("--batch", "batch", [2, 6], pictures), ("--image-size", "image_size", [32, 72], pictures),
                                             ("--max-seq-length", "max_seq_length", [16, 64], text)):
            done = run_ok("bench", settings(self.folder, **changes), "--steps", 2, "--warmup", 1, option, ",".join(map(str, values)), "--json")
            columns = json.loads(done.stdout)["columns"]
            self.assertEqual([column[key] for column in columns], values)
            self.assertLess(columns[0]["planned_bytes"], columns[1]["planned_bytes"])
            # A column is the run whose file says so.
            name = {"batch": "training__per_device_train_batch_size", "image_size": "model__image_size", "max_seq_length": "data__max_seq_length"}[key]
            alone = run("plan", settings(self.folder, **{**changes, name: str(values[1])}), "--json")
            self.assertEqual(json.loads(alone.stdout)["peak_bytes"], columns[1]["planned_bytes"], alone.stderr)
        mixed = {**pictures, "data__mixup_alpha": "0.8"}
        for option, changes, said in (("--batch=2,3", mixed, "is odd"), ("--max-seq-length=4", {**text, "model__head": '"pretraining"'}, "--max-seq-length: "), ("--batch=0", pictures, "0 samples"), ("--batch=4,x", pictures, "not a list"), ("--image-size=3", pictures, "smaller than patch_size"),
                                      ("--max-seq-length=8", pictures, "reads no text"), ("--image-size=64", text, "--image-size: model.image_size")):
            done = run("bench", settings(self.folder, **changes), option)
            self.assertIn(done.returncode, (SETTINGS, 3), done.stderr)
            self.assertIn(said, done.stderr.splitlines()[-1])
        for option in ("--threads=1,2,1", "--batch=4,4"):
            done = run("bench", settings(self.folder, **pictures), option)
            name, number = option.split("=")[0], option[-1]
            self.assertEqual((done.returncode, done.stdout, done.stderr), (SETTINGS, "", f"bascule: {name}: {number} is given twice; give each number once\n"))
        done = run("bench", settings(self.folder, **pictures), "--batch=1", "--workers=1")
        self.assertEqual((done.returncode, done.stderr), (SETTINGS, "bascule: --batch: is given beside --workers; give one of them\n"))

    def test_threads_beyond_the_cores_are_simulated(self):
        cores = len(os.sched_getaffinity(0))
        for _ in range(4):  # beside other programs all steps of one may be held up
            done = run_ok("bench", settings(self.folder), "--steps", 2, "--warmup", 1, "--threads", f"1,{16 * cores}", "--json")
            real, simulated = json.loads(done.stdout)["columns"]
            outside = min(simulated["step_seconds"]) - sum(operation["seconds"] for operation in simulated["operations"])
            if outside < 0.5 * max(real["step_seconds"]):
                break
        self.assertEqual([(column["threads"], column["simulated"]) for column in (real, simulated)], [(1, False), (16 * cores, True)])
        self.assertEqual((real["losses"], real["lost"]), (simulated["losses"], []))
        self.assertLess(outside, 0.5 * max(real["step_seconds"]), "a simulated step is as long as its real one")
        self.assertIsNone(simulated["phases"]["forward"])
        self.assertIsNone(simulated["loader_samples_per_second"])
        for kind in simulated["lost"]:
            parts = sum(kind[f"{part}_seconds"] for part in ("few_tasks", "last_tasks", "barrier", "memory"))
            self.assertAlmostEqual(parts, kind["seconds"], places=9)
            self.assertGreaterEqual(min(kind.values(), key=lambda value: value if isinstance(value, float) else 0.0), -1e-6, kind)
        self.assertEqual({kind["name"] for kind in simulated["lost"]}, {operation["name"] for operation in simulated["operations"]})
        done = run("bench", settings(self.folder), "--steps", 1, "--threads", 16 * cores)
        self.assertIn(f"simulated: the tasks of {16 * cores} threads", done.stdout)
        self.assertNotIn("slower", done.stderr)  # no note on more threads than this machine has cores
        self.assertIn("--threads: 0 threads", run("bench", settings(self.folder), "--threads", "0").stderr)

    def test_threads_that_there_are_cores_for_are_simulated_where_asked(self):
        done = run_ok("bench", settings(self.folder), "--steps", 2, "--warmup", 1, "--threads", "1", "--simulate", "--json")
        simulated = json.loads(done.stdout)
        self.assertEqual((simulated["threads"], simulated["simulated"]), (1, True))
        barriers = [(kind["few_tasks_seconds"], kind["barrier_seconds"]) for kind in simulated["lost"]]
        self.assertEqual(barriers, [(0, 0)] * len(barriers))  # one thread waits for nobody
        self.assertIn("--threads", run_ends(SETTINGS, "bench", settings(self.folder), "--simulate").stderr)

    def test_a_plan_for_more_threads_says_how_fast_they_would_be(self):
        toml, threads = settings(self.folder), 16 * len(os.sched_getaffinity(0))
        planned, here = (json.loads(run("plan", toml, *words, "--json").stdout) for words in (["--threads", threads], []))
        self.assertNotIn("simulated", here)
        self.assertEqual(planned["categories"]["thread scratch"], json.loads(run("plan", toml, f"machine.threads={threads}", "--json").stdout)["categories"]["thread scratch"])
        benched = json.loads(run("bench", toml, "--steps", 3, "--warmup", 1, "--threads", threads, "--json").stdout)["columns"][0]
        self.assertEqual(set(planned["simulated"]), set(benched))
        for member in ("threads", "simulated", "batch", "losses", "planned_bytes"):
            self.assertEqual(planned["simulated"][member], benched[member], member)
        self.assertEqual({kind["name"] for kind in planned["simulated"]["lost"]}, {kind["name"] for kind in benched["lost"]})
        done = run("plan", toml, "--threads", threads)
        self.assertRegex(done.stdout, rf"\n{threads} threads, simulated: [0-9.,]+ samples/s, [0-9.]+ % of the ceiling, [0-9.,]+\n")
        self.assertIn("lost by batch, ms", done.stdout)
        self.assertNotIn("slower", done.stderr)
        refused = run("plan", toml, "--threads", threads, "--memory-gib", "0.01", "--json")
        self.assertEqual((refused.returncode, "simulated" in json.loads(refused.stdout)), (MEMORY, False))

    def test_a_batch_of_more_rows_than_there_are_is_named_as_it_is(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"image": str(EMOJI / "images/1f004.jpg"), "caption": "a tile"}) + "\n" for _ in range(5)))
        done = run_ok("bench", settings(self.folder, data__train_file=f'"{rows}"'), "--steps", 2, "--warmup", 1, "--batch", "64")
        self.assertIn(", 5 samples\n", done.stderr)
        self.assertNotIn("64 samples", done.stderr + done.stdout)

    def test_the_ceiling_is_that_of_a_batch_of_mean_size(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"image": str(EMOJI / "images/1f004.jpg"), "caption": "a tile"}) + "\n" for _ in range(10)))
        toml = settings(self.folder, data__validation_file=f'"{rows}"', training__do_train="false", training__per_device_eval_batch_size="8")
        figures = json.loads(run("bench", toml, "--steps", 4, "--warmup", 0, "--json").stdout)  # of 8, 2, 8 and 2 samples
        limit = sum(operation["limit_seconds"] for operation in figures["operations"])
        self.assertAlmostEqual(figures["ceiling_samples_per_second"] * limit, 5, places=6)

    def test_arguments(self):
        for workers in ("", "1,", "a", "-1", "2000", "0,2000"):
            self.assertNotIn("steps with", run_ends(SETTINGS, "bench", settings(self.folder), f"--workers={workers}").stderr)  # refused before anything was measured
