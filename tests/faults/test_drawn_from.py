# SPDX-License-Identifier: Apache-2.0
"""A drawing run that goes on draws the missing pictures from what the others were drawn from: weights, configurations, tokenizer and noise are told by their content."""
import json
import shutil
import struct
import subprocess

from bascule_run import PROGRAM, FolderTest, instruction_sets, run, run_ends, run_ok
from drawing import change, copy_pipeline, damage, digests, drawing, pictures, rows, wait_for_lines

DATA = 3
SMALLER = 0x3c00  # a finite number in bfloat16: 2^-7


def write_latents(path, seed):
    """Noise of four pictures of 16 x 16 pixels for sd_v1: 4 channels of 8 x 8."""
    values = [((seed + 7919 * i) % 2001) / 1000 - 1 for i in range(4 * 4 * 8 * 8)]
    header = json.dumps({"latents": {"dtype": "F32", "shape": [4, 4, 8, 8], "data_offsets": [0, 4 * len(values)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


class DrawnFrom(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = copy_pipeline(self.folder / "m")
        self.noise = self.folder / "noise.safetensors"
        write_latents(self.noise, 1)

    def drawing(self, **keys):
        return drawing(self.folder, model=self.model, **{"latents_file": f'"{self.noise}"', **keys})

    def broken(self):
        """A run that lacks a picture; returns the digests of all four."""
        self.assertEqual(run("run", self.drawing()).returncode, 0)
        whole = digests(rows(self.folder / "run"))
        (self.folder / "run" / "00002.png").unlink()
        return whole

    def assert_refused(self, *words, toml=None):
        before = pictures(self.folder / "run")
        done = run_ends(DATA, "run", toml or self.drawing())
        line = done.stderr.splitlines()[-1]
        for word in (*words, "what the pictures in", "were drawn with", 'choose another folder, or set draw.resume = "never" to draw all anew'):
            self.assertIn(word, line)
        self.assertEqual(pictures(self.folder / "run"), before)

    def test_a_run_whose_files_were_replaced_in_place_does_not_go_on(self):
        whole = self.broken()
        kept = self.folder / "kept"
        changes = {
            "unet/diffusion_pytorch_model.safetensors": ("the weights differ", lambda path: damage(path, SMALLER)),
            "vae/diffusion_pytorch_model.safetensors": ("the weights differ", lambda path: damage(path, SMALLER, last=True)),
            "text_encoder/model.safetensors": ("the weights differ", lambda path: damage(path, SMALLER)),
            "unet/config.json": ("unet/config.json differs", lambda path: change(path, norm_eps=1e-3)),
            "vae/config.json": ("vae/config.json differs", lambda path: change(path, scaling_factor=0.5)),
            "text_encoder/config.json": ("text_encoder/config.json differs", lambda path: change(path, layer_norm_eps=1e-3)),
            "scheduler/scheduler_config.json": ("scheduler/scheduler_config.json differs", lambda path: change(path, beta_end=0.02)),
            "tokenizer/merges.txt": ("the tokenizer differs", lambda path: path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))),
        }
        for name, (words, change_file) in changes.items():
            with self.subTest(name=name):
                path = self.model / name
                shutil.copy(path, kept)
                change_file(path)
                self.assert_refused("model.model_name_or_path: " + words)
                shutil.copy(kept, path)
        write_latents(self.noise, 2)
        self.assert_refused("draw.latents_file: the noise differs")
        write_latents(self.noise, 1)
        self.assertEqual(run("run", self.drawing()).returncode, 0)
        self.assertEqual(digests(rows(self.folder / "run")), whole)

    def test_a_run_that_was_stopped_is_bound_too(self):
        toml = self.drawing(batch_size="1", num_inference_steps="20")
        with subprocess.Popen([PROGRAM, "run", toml], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for_lines(self.folder, 1, process)
            process.kill()
        self.assertIn(len(pictures(self.folder / "run")), (1, 2, 3))
        damage(self.model / "unet/diffusion_pytorch_model.safetensors", SMALLER)
        self.assert_refused("model.model_name_or_path: the weights differ", toml=toml)

    def test_never_draws_all_anew_from_other_files(self):
        whole = self.broken()
        write_latents(self.noise, 2)
        self.assertEqual(run("run", self.drawing(resume='"never"')).returncode, 0)
        anew = digests(rows(self.folder / "run"))
        self.assertFalse([name for name in whole if anew[name] == whole[name]])
        (self.folder / "run" / "00001.png").unlink()  # the folder is bound to the new noise
        self.assertEqual(run("run", self.drawing()).returncode, 0)
        self.assertEqual(digests(rows(self.folder / "run")), anew)

    def test_what_changes_no_picture_changes_no_digest(self):
        whole = self.broken()
        config = self.model / "unet/config.json"
        config.write_text(json.dumps(dict(reversed(json.loads(config.read_text()).items())), indent=3))
        for isa in instruction_sets():
            with self.subTest(isa=isa):
                run_ok("run", self.drawing(batch_size="3", tables=f'[machine]\nisa = "{isa}"\nthreads = 1\n'))
                self.assertEqual(digests(rows(self.folder / "run")), whole)
                (self.folder / "run" / "00003.png").unlink()

    def test_a_folder_of_a_program_that_kept_no_digests_goes_on(self):
        whole = self.broken()
        change(self.folder / "run" / "bascule.json", drawn_from=None)
        self.assertEqual(run("run", self.drawing()).returncode, 0)
        self.assertEqual(digests(rows(self.folder / "run")), whole)
        self.assertEqual(len(json.loads((self.folder / "run" / "bascule.json").read_text())["drawn_from"]), 7)
