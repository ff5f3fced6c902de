# SPDX-License-Identifier: Apache-2.0
"""What `bascule plan` answers: the largest batch that fits, what is alive at the peak, what memory costs in operations, another machine, which files it needs."""
import json
import resource
import xml.etree.ElementTree

from bascule_run import DEMO_MODEL, EMOJI, FolderTest, run, run_ends, settings
from rank_runs import some_rows

SETTINGS, MEMORY = 2, 4


class Plan(FolderTest):
    def plan(self, *options, code=0, **changes):
        done = run_ends(code, "plan", settings(self.folder, **{"model__model_name_or_path": f'"{DEMO_MODEL}"', **changes}), "--json", *options)
        return json.loads(done.stdout)

    def test_the_plan_of_other_threads_stands_where_their_speed_cannot_be_simulated(self):
        limit = 400 << 20  # bytes of address space: a plan takes them, a run more
        small = settings(self.folder, model__model_name_or_path=f'"{DEMO_MODEL}"')
        plan = ("plan", small, "--json", "--memory-gib", 64, "--threads", 2)
        done, limited = run(*plan), run(*plan, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual((done.returncode, limited.returncode), (0, 0), limited.stderr)
        self.assertRegex(limited.stderr, "(?m)^bascule: plan: the speed of the threads cannot be simulated here: .* RLIMIT_AS")
        documents = [json.loads(one.stdout) for one in (done, limited)]
        self.assertEqual(documents[0].pop("simulated")["threads"], 2)
        self.assertEqual(documents[0], documents[1])
        self.assertNotIn("proposed_ranks", documents[0])  # which are of this machine
        self.assertIn("proposed_ranks", self.plan())

    def test_the_largest_batch_that_fits_does_and_the_next_does_not(self):
        gib = str(self.plan(training__per_device_train_batch_size="40", training__gradient_checkpointing='"off"')["peak_bytes"] / 2**30)
        largest = self.plan("--memory-gib", gib)["largest_batch"]
        self.assertEqual(largest["float32"]["off"], 40)
        for precision, batches in largest.items():
            self.assertEqual(sorted(batches), ["fit", "full", "off", "selective"])
            self.assertGreater(batches["full"], 1.5 * batches["off"])
            self.assertGreater(batches["selective"], (1.1 if precision == "float32" else 1.0) * batches["off"])
            self.assertGreaterEqual(batches["fit"], batches["full"])
            for word, batch in batches.items():
                changes = {"model__precision": f'"{precision}"', "training__gradient_checkpointing": f'"{word}"'}
                for samples, code in ((batch, 0), (batch + 1, MEMORY)):
                    self.plan("--memory-gib", gib, code=code, training__per_device_train_batch_size=str(samples), **changes)
        self.assertGreater(largest["bf16"]["off"], largest["float32"]["off"])

    def test_no_more_than_all_rows_are_looked_at(self):
        largest = self.plan("--memory-gib", "100", data__train_file=some_rows(self.folder, 13))["largest_batch"]
        self.assertEqual(largest, {precision: {"off": 13, "selective": 13, "fit": 13, "full": 13} for precision in ("float32", "bf16")})
        for drops, most in (("false", 7), ("true", 6)):
            ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "2", "data__dataloader_drop_last": drops, "data__train_file": some_rows(self.folder, 13)}
            self.assertEqual(self.plan("--memory-gib", "100", **ranks)["largest_batch"]["float32"]["off"], most)
        self.assertEqual(self.plan("--memory-gib", "0.01", code=MEMORY)["largest_batch"]["bf16"], {"off": 0, "selective": 0, "fit": 0, "full": 0})

    def test_another_machine_is_planned_for_without_its_settings(self):
        limit = {"machine__memory_limit_gib": "0.01"}
        self.assertFalse(self.plan(code=MEMORY, **limit)["fits"])
        self.assertTrue(self.plan("--memory-gib", "4", **limit)["fits"])
        done = run_ends(MEMORY, "plan", settings(self.folder, **limit), "--memory-gib", "0.02")
        self.assertRegex(done.stderr, r"^bascule: \S*run.toml: the plan needs [0-9.]+ MiB, but --memory-gib allows 20.5 MiB; ")
        self.assertNotIn("memory_limit_gib", done.stderr)
        self.assertIn("machine.memory_limit_gib allows", run("plan", settings(self.folder, **limit)).stderr)
        for gib in ("0", "-1", "x"):
            self.assertEqual(run("plan", settings(self.folder), "--memory-gib", gib).returncode, SETTINGS)

    def test_the_frontier_has_ten_points_each_of_which_is_a_plan(self):
        plan = self.plan("--frontier", training__gradient_checkpointing='"off"')
        points = plan["frontier"]
        self.assertEqual(len(points), 10)
        self.assertEqual(points[-1], {"peak_bytes": plan["peak_bytes"], "repeated_flops": 0.0, "share_of_step": 0.0})
        for one, other in zip(points, points[1:]):
            self.assertLess(one["peak_bytes"], other["peak_bytes"])
            self.assertGreater(one["repeated_flops"], other["repeated_flops"])
        self.assertLess(points[0]["share_of_step"], 0.34)
        for point in points:
            fitted = self.plan("--memory-gib", str(point["peak_bytes"] / 2**30), training__gradient_checkpointing='"fit"')
            self.assertLessEqual(fitted["peak_bytes"], point["peak_bytes"])
        self.assertNotIn("frontier", self.plan())

    def test_what_is_alive_at_the_peak_is_the_workspace(self):
        for word in ("off", "full"):
            plan = self.plan(training__gradient_checkpointing=f'"{word}"', training__per_device_train_batch_size="64")
            alive = {layers["name"]: layers for layers in plan["alive_at_peak"]}
            total = sum(layers[part] for layers in alive.values() for part in ("forward_bytes", "repeated_bytes", "backward_bytes"))
            held = plan["categories"]["workspace"] + plan["categories"]["gradients"]  # where activations may lie too
            self.assertLessEqual(total, held + 64)
            self.assertGreater(total, 0.9 * held)
            self.assertEqual(any(layers["repeated_bytes"] > 0 for layers in alive.values()), word == "full")
            if word == "off":
                self.assertEqual(alive["bridgetower.vision_model.visual.transformer.resblocks.*"]["layers"], 3)

    def test_the_picture_is_xml_and_no_tensor_leaves_it(self):
        path = self.folder / "arena.svg"
        self.plan("--svg", str(path))
        root = xml.etree.ElementTree.parse(path).getroot()
        width, height = (float(value) for value in root.get("viewBox").split()[2:])
        rectangles = [part for part in root.iter("{http://www.w3.org/2000/svg}rect") if len(part)]
        self.assertGreater(len(rectangles), 50)
        for rectangle in rectangles:
            x, y, w, h = (float(rectangle.get(name)) for name in ("x", "y", "width", "height"))
            self.assertTrue(0 <= x <= x + w <= width and 0 <= y <= y + h <= height, rectangle.attrib)

    def test_the_files_that_the_run_reads_are_listed_where_it_is_asked(self):
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({"image": f"{EMOJI}/images/{name}.jpg", "caption": "one"}) + "\n" for name in ("1f170", "1f004", "1f170")))
        rows = {"data__train_file": f'"{self.folder}/rows.jsonl"'}
        listed = {one["folder"]: one["files"] for one in self.plan("--inputs", **rows)["inputs"]}
        self.assertEqual(listed, {f"{EMOJI}/model": ["config.json", "preprocessor_config.json"], f"{EMOJI}/tokenizer": sorted(path.name for path in (EMOJI / "tokenizer").iterdir()),
                                  str(self.folder): [f"{EMOJI}/images/1f004.jpg", f"{EMOJI}/images/1f170.jpg", "rows.jsonl"]})
        self.assertIn("inputs", self.plan("--inputs", "--memory-gib", "0.01", code=MEMORY, **rows))
        self.assertNotIn("inputs", self.plan(**rows))
        self.assertEqual(run("plan", settings(self.folder), "--inputs").returncode, SETTINGS)

    def test_a_missing_picture_that_is_skipped_is_not_listed(self):
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({"image": f"{EMOJI}/images/{name}.jpg", "caption": "one"}) + "\n" for name in ("1f170", "gone", "1f004")))
        plan = self.plan("--inputs", data__train_file=f'"{self.folder}/rows.jsonl"', data__on_bad_sample='"skip"')
        listed = {one["folder"]: one["files"] for one in plan["inputs"]}[str(self.folder)]
        self.assertEqual(listed, [f"{EMOJI}/images/1f004.jpg", f"{EMOJI}/images/1f170.jpg", "rows.jsonl"])
