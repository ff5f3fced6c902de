# SPDX-License-Identifier: Apache-2.0
"""precision = "bf16": the contract of bits, less memory than float32, weights that go from one precision to the other, refusals."""
import json
import re
import signal
import unittest

from bascule_run import DEMO_MODEL, EMOJI, FolderTest, digest, has_mpi, has_onednn, has_tiles, instruction_sets, is_sanitized, run, run_ends, run_ok, run_until, settings
from rank_runs import STRATEGIES

SETTINGS = 2
HEADS = ("contrastive", "image_text_matching", "masked_lm")
BF16 = {"model__precision": '"bf16"', "model__dropout": '"config"', "training__max_steps": "4", "training__save_steps": "0"}


class Bf16(FolderTest):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def weights(self, **changes):
        self.runs += 1
        folder = self.folder / str(self.runs)
        folder.mkdir()
        done = run_ok("run", settings(folder, **{**BF16, **changes}))
        if "distributed__world_size" not in changes and not is_sanitized():
            self.assertIn("libraries allocated nothing", done.stdout)
        return digest(folder / "run" / "model.safetensors")

    def test_the_same_bits_for_every_head_on_every_instruction_set_and_number_of_threads(self):
        for head in HEADS:
            first = self.weights(model__head=f'"{head}"', machine__threads="1")
            self.assertNotEqual(first, self.weights(model__head=f'"{head}"', model__precision='"float32"'))
            for threads, isa in enumerate((isa for isa in instruction_sets() if isa != "scalar" or head == HEADS[0]), 1):
                with self.subTest(head=head, isa=isa, threads=threads):
                    self.assertEqual(first, self.weights(model__head=f'"{head}"', machine__isa=f'"{isa}"', machine__threads=str(threads)))

    def test_sums_of_tiles_have_the_same_bits_on_every_instruction_set(self):
        tiles = {"machine__bf16_sums": '"tiles"'}
        first = self.weights(**tiles, machine__threads="1")
        self.assertNotEqual(first, self.weights())
        for threads, isa in enumerate([*instruction_sets(), *(["amx"] if has_tiles() else [])], 1):
            with self.subTest(isa=isa, threads=threads):
                self.assertEqual(first, self.weights(**tiles, machine__isa=f'"{isa}"', machine__threads=str(threads)))

    def test_a_file_names_its_sums(self):
        file = settings(self.folder, **BF16, machine__bf16_sums='"tiles"')
        done = run_ok("run", file)
        fastest = re.search(r"this machine: (\w+)", run("--version").stdout)[1]  # not avx512_bf16 where its instruction is slow
        self.assertIn(f"seal: {'amx' if has_tiles() else fastest}, bf16 sums of tiles, ", done.stderr)
        text = file.read_text()
        file.write_text(text.replace("max_steps = 4", "max_steps = 5").replace('"tiles"', '"pairs"'))
        self.assertRegex(run_ends(SETTINGS, "run", file).stderr, r'machine\.bf16_sums is "pairs", but .* was trained with "tiles"')
        planned = run("plan", file, "training.resume=never")
        self.assertEqual("matrix tiles (AMX), which are not used" in planned.stdout + planned.stderr, has_tiles())

    def test_the_same_bits_with_recomputation_and_accumulation(self):
        micro = {"training__gradient_accumulation_steps": "2"}
        self.assertEqual(self.weights(**micro), self.weights(**micro, training__gradient_checkpointing='"full"'))

    @unittest.skipUnless(has_mpi(), "this build has no MPI")
    def test_the_same_bits_with_every_strategy(self):
        for ranks in ("2", "4"):
            found = {name: self.weights(model__model_name_or_path=f'"{DEMO_MODEL}"', distributed__world_size=ranks, training__per_device_train_batch_size="3", **STRATEGIES[name])
                     for name in (("fast_ddp", "ddp1", "stage1", "stage2", "stage3") if ranks == "2" else ("fast_ddp", "stage2"))}
            self.assertEqual(len(set(found.values())), 1, found)

    def test_a_killed_run_goes_on_to_the_same_bits(self):
        changes = {"training__max_steps": "6", "training__save_steps": "1"}
        whole = self.weights(**changes)
        file = settings(self.folder, **{**BF16, **changes})
        run_until("step 4/6|checkpoint-3", signal.SIGKILL, "run", file)
        run_ok("run", file)
        self.assertEqual(digest(self.folder / "run" / "model.safetensors"), whole)

    def test_memory_is_less_than_in_float32(self):
        for checkpointing, share in (("off", 0.65), ("selective", 0.8)):
            peaks = {}
            for precision in ("float32", "bf16"):
                changes = {"model__precision": f'"{precision}"', "training__gradient_checkpointing": f'"{checkpointing}"'}
                file = settings(self.folder, training__per_device_train_batch_size="64", **changes)
                document = json.loads(run("plan", file, "--json").stdout)
                peaks[precision] = document["categories"]["workspace"]
            self.assertLess(peaks["bf16"], share * peaks["float32"], checkpointing)

    def test_where_nothing_trains_weights_are_bf16_and_figures_those_of_the_training_run(self):
        rows = {"data__validation_file": f'"{EMOJI}/validation.jsonl"', "model__precision": '"bf16"'}
        run_ok("run", settings(self.folder, **rows, training__max_steps="2", training__save_steps="0", training__eval_steps="2"))
        folder = self.folder / "evaluated"
        folder.mkdir()
        file = settings(folder, **rows, model__model_name_or_path=f'"{self.folder}/run"', model__from_scratch="false", data__train_file=None, training__do_train="false")
        planned = json.loads(run("plan", "--json", file).stdout)["categories"]
        self.assertGreater(planned["parameters, bf16"], 0)
        run_ok("run", file)
        first, second = (json.loads((path / "run" / "all_results.json").read_text()) for path in (self.folder, folder))
        figures = [key for key in second if key.startswith("validation_") and not key.endswith(("runtime", "per_second"))]
        self.assertIn("validation_loss", figures)
        self.assertEqual({key: second[key] for key in figures}, {key: first[key] for key in figures})

    def test_weights_go_from_float32_to_bf16_and_back_but_a_resume_does_not(self):
        first = settings(self.folder, training__max_steps="2", training__save_steps="0")
        self.assertEqual(run("run", first).returncode, 0)
        first.write_text(first.read_text().replace("max_steps = 2", "max_steps = 4").replace("[model]", '[model]\nprecision = "bf16"'))
        self.assertRegex(run_ends(SETTINGS, "run", first).stderr, r'model\.precision is "bf16", but .* was trained with "float32"')
        source = self.folder / "run"
        for number, precision in enumerate(("bf16", "float32")):
            folder = self.folder / f"next{number}"
            folder.mkdir()
            file = settings(folder, model__model_name_or_path=f'"{source}"', model__from_scratch="false", model__precision=f'"{precision}"',
                            training__max_steps="2", training__save_steps="0")
            run_ok("run", file)
            source = folder / "run"

    @unittest.skipUnless(has_onednn(), "this build has no oneDNN")
    def test_the_library_s_products_are_refused(self):
        for command in ("run", "plan", "bench"):
            done = run_ends(SETTINGS, command, settings(self.folder, **BF16, machine__products='"onednn"'))
            self.assertTrue(re.search(r"run\.toml:\d+.*machine\.products.*bf16", done.stderr), done.stderr)
