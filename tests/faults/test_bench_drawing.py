# SPDX-License-Identifier: Apache-2.0
"""`bascule bench` of a run that draws."""
import json
import os

from bascule_run import FolderTest, is_sanitized, run, run_ends, run_ok, settings
from drawing import PARTS, copy_pipeline, drawing

SETTINGS = 2
STAGES = ("encode", "call", "decode")


class BenchDrawing(FolderTest):
    def bench(self, toml, *arguments):
        done = run_ok("bench", toml, "--steps", 3, "--warmup", 1, "--json", *arguments)
        return json.loads(done.stdout)

    def test_measures_the_stages_and_leaves_nothing_behind(self):
        toml = drawing(self.folder, batch_size="3", num_inference_steps="4")
        figures = self.bench(toml, "--use", "draw")
        self.assertEqual((figures["measured"], figures["precision"]), ("drawing", "float32"))
        self.assertEqual((figures["batch"], figures["calls_per_picture"]), (3, 5))
        for stage in STAGES:
            one = figures[stage]
            self.assertEqual(len(one["seconds"]), 3)
            self.assertGreater(one["median_seconds"], 0)
            for figure, whole in (("flops", one["flops"]), ("limit_seconds", one["limit_seconds"])):
                for parts in ("operations", "layers"):
                    self.assertAlmostEqual(sum(part[figure] for part in one[parts]) / whole, 1, places=9)
        self.assertIn("cached_attention", [operation["name"] for operation in figures["call"]["operations"]])
        self.assertIn("store_keys", [operation["name"] for operation in figures["encode"]["operations"]])
        of_a_batch = 5 * figures["call"]["median_seconds"] + 3 * figures["decode"]["median_seconds"]
        self.assertAlmostEqual(figures["pictures_per_second"] * of_a_batch, 3, places=6)
        if not is_sanitized():
            self.assertLessEqual(figures["resident_bytes"], 1.03 * figures["planned_bytes"] + (64 << 20))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.toml"])
        toml.write_text(toml.read_text() + "[distributed]\nworld_size = 2\n")
        done = run("bench", toml, "--steps", 1, "--warmup", 0)
        self.assertIn("measuring one rank of 2, alone", done.stderr)
        text = done.stdout
        for words in ("3 pictures\n", "operation of a call", "operation of decoding", "operation of encoding", "reached", "pictures/s"):
            self.assertIn(words, text)

    def test_columns_for_batches_and_sides(self):
        toml = drawing(self.folder, prompts='["a cat"]', num_images_per_prompt="1", latents_file=f'"{self.folder}/none"')  # noise of one size is not read
        figures = self.bench(toml, "--batch", "1,4")
        self.assertEqual([column["batch"] for column in figures["columns"]], [1, 4])
        flops = [column["call"]["flops"] for column in figures["columns"]]
        self.assertGreater(flops[1], 3.5 * flops[0])
        self.assertEqual(figures["columns"][0]["decode"]["flops"], figures["columns"][1]["decode"]["flops"])
        figures = self.bench(toml, "--side", "64,96")
        self.assertEqual([(column["height"], column["width"]) for column in figures["columns"]], [(64, 64), (96, 96)])
        self.assertLess(figures["columns"][0]["planned_bytes"], figures["columns"][1]["planned_bytes"])
        # A column is the run whose file says so.
        alone = self.bench(drawing(self.folder, prompts='["a cat"]', num_images_per_prompt="1", height="96", width="96"))
        self.assertEqual(alone["planned_bytes"], figures["planned_bytes"])

    def test_threads_are_simulated(self):
        toml, threads = drawing(self.folder), 16 * len(os.sched_getaffinity(0))
        real, simulated = self.bench(toml, "--threads", f"1,{threads}")["columns"]
        self.assertEqual([(column["threads"], column["simulated"]) for column in (real, simulated)], [(1, False), (threads, True)])
        for stage in STAGES:
            self.assertEqual(real[stage]["lost"], [])
            self.assertEqual({kind["name"] for kind in simulated[stage]["lost"]}, {operation["name"] for operation in real[stage]["operations"]})
        self.assertIn("lost by call, ms", run("bench", toml, "--steps", 1, "--threads", threads).stdout)
        done = run("plan", toml, "--threads", threads)
        self.assertRegex(done.stdout, rf"\n{threads} threads, simulated: [0-9.,]+ pictures/s, ")
        self.assertIn("lost by call, ms", done.stdout)

    def test_weights_are_those_of_the_folder_or_fresh(self):
        model = copy_pipeline(self.folder / "m")
        for part in PARTS:
            for file in [*(model / part).glob("*.safetensors"), *(model / part).glob("*.bin")]:
                file.unlink()
        toml = drawing(self.folder, model=model)
        run_ends(3, "bench", toml, "--steps", 1)
        toml.write_text(toml.read_text().replace("[model]\n", "[model]\nfrom_scratch = true\n"))
        self.assertGreater(self.bench(toml)["pictures_per_second"], 0)

    def test_what_cannot_be_measured_is_refused(self):
        toml = drawing(self.folder)
        for arguments, words in ((("--use", "train"), "--use train: the run draws pictures"), (("--workers", "1"), "--workers: does not apply"), (("--max-seq-length", "8"), "--max-seq-length: does not apply"),
                                 (("--new-tokens", "3"), "--new-tokens: does not apply"), (("--batch", "0"), "--batch: 0 pictures; write numbers from 1 to 1024"),
                                 (("--side", "20"), "--side: draw.height = 20 is not a multiple of 8"), (("--side", "64,9000"), "--side: 9000 pixels"),
                                 (("--side", "64", "--batch", "2"), "is given beside")):
            done = run("bench", toml, *arguments)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (SETTINGS, 1), done.stderr)
            self.assertIn(words, done.stderr)
        trains = settings(self.folder)
        for arguments in (("--use", "draw"), ("--side", "64")):
            self.assertIn(f"{' '.join(arguments) if arguments[0] == '--use' else '--side'}: the run draws nothing", run_ends(SETTINGS, "bench", trains, *arguments).stderr)

    def test_a_size_that_does_not_fit_is_refused_before_any_is_measured(self):
        toml = drawing(self.folder, tables="[machine]\nmemory_limit_gib = 0.07\n")
        done = run("bench", toml, "--side", "64,512")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (4, 1), done.stderr)
        self.assertIn("would fit", done.stderr)
