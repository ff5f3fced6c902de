# SPDX-License-Identifier: Apache-2.0
"""`bascule run` with [draw], `bascule draw`, `bascule plan` and `bascule settings` of it: what they leave and print, and what is refused in one line.

Bits of pictures: tests/draw_run. Killed runs and full disks: test_draw_killed.py.
"""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from bascule_run import EMOJI, PROGRAM, FolderTest, instruction_sets, is_sanitized, patient, run, run_ends, run_ok, settings
from drawing import PIPELINES, change, copy_pipeline, damage, digests, drawing, pictures, pixels, rows
from small_run import small_settings

SETTINGS, DATA, MEMORY = 2, 3, 4
V1, V2 = PIPELINES / "sd_v1", PIPELINES / "sd_v2"


def texts_of(png):
    """The tEXt and iTXt chunks of a PNG file, and (width, height, bit depth, colour type)."""
    data, at, found, header = png.read_bytes(), 8, {}, None
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            header = (int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big"), body[8], body[9])
        elif kind in (b"tEXt", b"iTXt"):
            key, _, rest = body.partition(b"\0")
            found[key.decode()] = (rest if kind == b"tEXt" else rest[2:].split(b"\0", 2)[2]).decode()
    return found, header


class Drawing(FolderTest):
    def run_well(self, *arguments, **options):
        done = run_ok(*arguments, **options)
        return done

    def assert_refused(self, code, *words, arguments=None, **keys):
        """One line, without a word of progress before it where nothing had begun. Returns it."""
        done = run_ends(code, *(arguments or ("run", drawing(self.folder, **keys))))
        errors = [line for line in done.stderr.splitlines() if not re.match(r"bascule: (plan: (\d|this CPU)|weights: |seal: )", line)]
        self.assertEqual(len(errors), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), errors[0])
        self.assertNotIn("bug", errors[0])
        return errors[0]


class Results(Drawing):
    def test_a_run_leaves_pictures_lines_and_figures(self):
        text = "caf\u00e9 \\\"\U0001f600\\\""
        done = self.run_well("run", drawing(self.folder, prompts=f'["a cat", "{text}"]', batch_size="3", throughput_warmup_batches="1", height="16", width="24"))
        folder = self.folder / "run"
        names = [f"0000{n}.png" for n in range(4)]
        self.assertEqual(sorted(pictures(folder)), names)
        lines = rows(folder)
        self.assertEqual([row["file"] for row in lines], names)
        self.assertEqual([row["prompt"] for row in lines], ["a cat"] * 2 + ["caf\u00e9 \"\U0001f600\""] * 2)
        self.assertEqual({row["seed"] for row in lines}, {42})
        self.assertEqual({row["negative_prompt"] for row in lines}, {""})
        self.assertEqual(len({row["digest"] for row in lines}), 4)
        self.assertEqual([len(row["latents"]) for row in lines], [4] * 4)  # of the noise, and after each call
        self.assertEqual(len({one for row in lines for one in row["latents"]}), 16)
        results = json.loads((folder / "all_results.json").read_text())
        self.assertEqual((results["pictures"], results["pictures_drawn"], results["pictures_found"], results["calls_per_picture"]), (4, 4, 0, 3))
        self.assertGreater(results["draw_pictures_per_second"], 0)
        contracts = {line[2:18].strip(): line[18:31].strip() for line in done.stdout[done.stdout.index("Contracts\n"):].splitlines()[1:]}
        self.assertEqual(contracts, {"Numbers": "not checked", "Memory": "kept", "Sealed": "not checked" if is_sanitized() else "kept", "Bits": "not checked", "Durability": "kept",
                                     "Errors": "not checked", "Honest figures": "kept"})
        self.assertIn("throughput counts 1 of 4 pictures drawn; warm-up pictures excluded: 3", done.stdout)
        self.assertEqual(results["texts_encoded"], 3)  # the empty one, and two prompts
        page = (folder / "report.html").read_text().replace("<wbr>", "")
        self.assertEqual(page.count('<img src="data:image/png;base64,iVBORw0KGgo'), 4)
        self.assertEqual(page.count('style="aspect-ratio:24/16"'), 4)
        self.assertIn("00003.png, seed 42, noise 3, ", page)
        settings = re.findall(r"^(\w+) = ", self.run_well("settings", self.folder / "run.toml").stdout, re.M)
        self.assertEqual(re.findall(r"<th scope=\"row\">(\w+)</th>", page.split("<h2>Settings</h2>")[1]), settings)
        self.assertIn("draw.width = 24\n", (folder / "README.md").read_text())
        found, header = texts_of(folder / names[3])
        self.assertEqual(header, (24, 16, 8, 2))
        self.assertEqual((found["prompt"], found["seed"]), ("caf\u00e9 \"\U0001f600\"", "42"))
        self.assertRegex(found["settings digest"], "^[0-9a-f]{16}$")
        self.assertIn("4", done.stdout)
        self.assertEqual([path.name for path in folder.iterdir() if path.name.startswith(".tmp")], [])
        again = self.run_well("run", self.folder / "run.toml", "--json")
        self.assertIn("already finished", again.stderr)
        self.assertEqual(json.loads(again.stdout), results)
        (folder / "all_results.json").unlink()
        written = json.loads(self.run_well("run", self.folder / "run.toml", "--json").stdout)
        self.assertEqual((set(results) - set(written), written["pictures"], written["pictures_found"]), ({"draw_pictures_per_second"}, 4, 4))

    def test_json_prints_the_results_and_nothing_else(self):
        done = self.run_well("run", "--json", drawing(self.folder, png_text="false"))
        self.assertEqual(json.loads(done.stdout), json.loads((self.folder / "run" / "all_results.json").read_text()))
        self.assertEqual(texts_of(self.folder / "run" / "00000.png")[0], {})

    def test_the_files_do_not_depend_on_batch_threads_or_instruction_set(self):
        first = None
        for number, (batch, threads, isa) in enumerate([(1, 1, "auto"), (3, 2, "auto"), *((4, 1, isa) for isa in instruction_sets() if isa != "avx512_bf16")]):
            folder = self.folder / str(number)
            folder.mkdir()
            self.run_well("run", drawing(folder, batch_size=str(batch), tables=f'[machine]\nthreads = {threads}\nisa = "{isa}"\n'))
            found = pictures(folder / "run"), digests(rows(folder / "run"))
            first = first or found
            self.assertEqual(found, first, (batch, threads, isa))

    def test_the_command_draws_what_the_run_does(self):
        self.run_well("run", drawing(self.folder, prompts='["a cat"]', num_images_per_prompt="1", negative_prompt='"blurry"', seed="7", guidance_scale="3.0", scheduler='"ddim"', timestep_spacing='"trailing"', width="24"))
        picture = self.folder / "one.png"
        done = self.run_well("draw", V1, "a cat", "-o", picture, "--steps", 2, "--negative-prompt", "blurry", "--seed", 7, "--guidance-scale", 3, "--scheduler", "ddim", "--timestep-spacing", "trailing",
                             "--width", 24, "--json")
        document = json.loads(done.stdout)
        self.assertEqual((document["file"], document["width"], document["height"], document["seed"]), (str(picture), 24, 16, 7))
        own, theirs = texts_of(picture), texts_of(self.folder / "run" / "00000.png")
        for key in ("prompt", "seed"):
            self.assertEqual(own[0][key], theirs[0][key])
        self.assertEqual(own[1], theirs[1])
        # The same pixels: the files differ in the digest of the settings alone.
        cut = lambda path: path.read_bytes()[path.read_bytes().index(b"IDAT") - 4:]
        self.assertEqual(cut(picture), cut(self.folder / "run" / "00000.png"))
        plain = self.run_well("draw", V2, "", "--steps", 1, cwd=self.folder)
        self.assertEqual(plain.stdout, "picture.png\n")
        self.assertEqual(texts_of(self.folder / "picture.png")[1][:2], (32, 32))

    def test_a_picture_of_a_list_is_drawn_alone_by_the_number_of_its_noise(self):
        """With the command, and as a row of a file; a seed may be as large as Diffusers takes it, and 010 is ten."""
        largest = 2**64 - 1
        (self.folder / "p.jsonl").write_text(f'{{"prompt": "a red heart", "noise": 3}}\n{{"prompt": "a cat", "seed": {largest}, "noise": 5}}\n{{"prompt": "a cat", "seed": {2**63}}}\n')
        self.run_well("run", drawing(self.folder, seed="10"))
        whole = self.folder / "whole"
        (self.folder / "run").rename(whole)
        self.assertEqual([row["noise"] for row in rows(whole)], [0, 1, 2, 3])
        self.run_well("run", drawing(self.folder, seed="10", prompts_file='"p.jsonl"', num_images_per_prompt="1"))
        alone = self.folder / "run"
        self.assertEqual(pixels(alone / "00000.png"), pixels(whole / "00003.png"))
        self.assertEqual([(row["seed"], row["noise"]) for row in rows(alone)], [(10, 3), (largest, 5), (2**63, 0)])
        for number, prompt, *options in ((0, "a red heart", "--seed", "010", "--noise", "3"), (1, "a cat", "--seed", largest, "--noise", "05"), (2, "a cat", "--seed", 2**63)):
            picture = self.folder / f"{number}.png"
            document = json.loads(self.run_well("draw", V1, prompt, "-o", picture, "--steps", "02", "--json", *options).stdout)
            self.assertEqual((document["seed"], document["noise"]), tuple(rows(alone)[number][key] for key in ("seed", "noise")))
            self.assertEqual(pixels(picture), pixels(alone / f"0000{number}.png"))
        self.assertNotEqual(pixels(alone / "00001.png"), pixels(alone / "00002.png"))
        again = self.run_well("run", self.folder / "run.toml")
        self.assertIn("already finished", again.stderr)

    def test_bf16_takes_less_memory_and_goes_through_every_command(self):
        toml = drawing(self.folder, prompts='["a cat"]', num_images_per_prompt="1")
        float32 = json.loads(self.run_well("plan", "--json", toml).stdout)["categories"]
        toml = drawing(self.folder, prompts='["a cat"]', num_images_per_prompt="1", precision="bf16")
        bf16 = json.loads(self.run_well("plan", "--json", toml).stdout)["categories"]
        self.assertNotIn("parameters, bf16", float32)
        self.assertLess(bf16["parameters, bf16"] + bf16["parameters, fixed"], 0.6 * float32["parameters, fixed"])
        self.assertLess(bf16["workspace"], float32["workspace"])
        done = self.run_well("run", "--json", toml)
        self.assertNotIn("less memory", done.stderr)  # where weights are few the plan is not smaller
        results = json.loads(done.stdout)
        if not is_sanitized():
            self.assertLess(results["resident_bytes"], results["planned_bytes"])
        whole = self.folder / "one.png"
        cut = lambda path: path.read_bytes()[path.read_bytes().index(b"IDAT") - 4:]
        self.run_well("draw", V1, "a cat", "-o", whole, "--steps", 2, "--precision", "bf16")
        self.assertEqual(cut(whole), cut(self.folder / "run" / "00000.png"))
        self.run_well("draw", V1, "a cat", "-o", whole, "--steps", 2)
        self.assertNotEqual(cut(whole), cut(self.folder / "run" / "00000.png"))
        self.assert_refused(SETTINGS, "holds pictures of other settings: model.precision was \"bf16\"", prompts='["a cat"]', num_images_per_prompt="1")

    def test_the_plan_says_how_much_and_is_kept(self):
        toml = drawing(self.folder, batch_size="2")
        plan = json.loads(self.run_well("plan", "--json", toml).stdout)
        text = self.run_well("plan", toml, "--svg", self.folder / "a.svg").stdout
        self.assertIn("4 pictures of 16 x 16 pixels, 2 at a time, 3 calls of the UNet for each picture", text)
        self.assertIn("<svg", (self.folder / "a.svg").read_text())
        self.assertFalse((self.folder / "run").exists())
        results = json.loads(self.run_well("run", "--json", toml).stdout)
        if not is_sanitized():
            self.assertLess(results["resident_bytes"], results["planned_bytes"])
        self.assertTrue(plan)

    def test_the_unit_lets_a_run_read_its_files(self):
        (self.folder / "p.txt").write_text("a cat\n")
        toml = drawing(self.folder, prompts_file='"p.txt"')
        self.run_well("plan", toml, "--unit", self.folder / "a.service")
        unit = (self.folder / "a.service").read_text()
        self.assertIn(f'ExecStart="{PROGRAM}" run "{toml}"\n', unit)
        self.assertIn("TimeoutStopSec=71\n", unit)
        temporary = pathlib.Path(*self.folder.parts[:4 if self.folder.parts[1] == "var" else 3])  # the prompts are in /tmp or /var/tmp
        self.assertIn(f"\nBindReadOnlyPaths={temporary}\n", unit)
        self.assert_refused(SETTINGS, "p.txt", arguments=("plan", toml, "--unit", self.folder / "p.txt"))
        self.assertEqual((self.folder / "p.txt").read_text(), "a cat\n")

    def test_settings_are_printed_and_read_back(self):
        toml = drawing(self.folder)
        printed = self.run_well("settings", toml).stdout
        self.assertIn("\n[draw]\n", printed)
        (self.folder / "again.toml").write_text(printed)
        self.assertEqual(self.run_well("settings", self.folder / "again.toml").stdout, printed)
        values = json.loads(self.run_well("settings", "--json", toml).stdout)["settings"]
        self.assertEqual(values["draw.num_inference_steps"], "2")
        self.assertFalse([key for key in values if key.startswith(("training.", "data."))])
        rules = {row["key"]: row["may_change"] for row in json.loads(self.run_well("settings", "--json", "--resume", toml).stdout)["keys"]}
        self.assertEqual((rules["draw.batch_size"], rules["draw.num_inference_steps"], rules["draw.prompts_file"]), ("yes", "no", "same content"))
        self.assertIn("### [draw]", self.run_well("settings", "--markdown").stdout)

    def test_a_long_prompt_is_cut_and_said(self):
        done = self.run_well("run", drawing(self.folder, prompts=f'["{"cat " * 80}end"]', num_images_per_prompt="1", guidance_scale="1.0"))
        self.assertRegex(done.stderr, r'run\.toml:\d+:\d+: prompt cut by 6 tokens to the length that the model reads: "cat cat cat cat cat end"')
        self.assertEqual(len(pictures(self.folder / "run")), 1)
        self.assertNotIn("not: ", (self.folder / "run" / "report.html").read_text())  # without guidance
        done = self.run_well("draw", V1, "cat " * 80, "-o", self.folder / "x.png", "--steps", 1)
        self.assertIn("cut by 5 tokens", done.stderr)

    def test_prompts_come_from_a_file(self):
        (self.folder / "p.jsonl").write_text('{"prompt": "cat", "seed": 9}\r\n\n{"prompt": "dog", "negative_prompt": "x"}\n')
        self.run_well("run", drawing(self.folder, prompts_file='"p.jsonl"', negative_prompt='"y"', num_images_per_prompt="1"))
        self.assertEqual([(row["prompt"], row["negative_prompt"], row["seed"]) for row in rows(self.folder / "run")], [("cat", "y", 9), ("dog", "x", 42)])
        (self.folder / "p.txt").write_bytes(b"a cat\ra dog\r\ra bird")
        listed = json.loads(self.run_well("doctor", drawing(self.folder, prompts_file='"p.txt"'), "--json").stdout)
        self.assertEqual(listed["splits"][0]["rows"], 3)


class Refused(Drawing):
    def test_pipelines_that_are_none(self):
        name = iter(range(100))

        def changed(file=None, remove=None, **members):
            model = copy_pipeline(self.folder / f"m{next(name)}")
            if remove:
                (model / remove).unlink()
            if file:
                change(model / file, **members)
            return model

        index, unet, vae, scheduler = "model_index.json", "unet/config.json", "vae/config.json", "scheduler/scheduler_config.json"
        for words, model in [
            ("\"unet\" is a UNet3DConditionModel, which is not supported", changed(index, unet=["diffusers", "UNet3DConditionModel"])),
            ("has no \"vae\", which the pipeline needs", changed(index, vae=None)),
            ("StableDiffusionXLPipeline, which is not supported", changed(index, _class_name="StableDiffusionXLPipeline")),
            ("in_channels = 9", changed(unet, in_channels=9)),
            ("addition_embed_type = \"text_time\" is not supported", changed(unet, addition_embed_type="text_time")),
            ("transformer_layers_per_block = [1,2,10] is not supported", changed(unet, transformer_layers_per_block=[1, 2, 10])),
            ("but the text encoder's hidden_size is 24", changed(unet, cross_attention_dim=32)),
            ("shift_factor = 0.1 is not supported", changed(vae, shift_factor=0.1)),
            ("latent_channels = 16 is not supported", changed(vae, latent_channels=16)),
            ("has 1514 tokens, but the text encoder has only 1000", changed("text_encoder/config.json", vocab_size=1000)),
            ("_class_name = \"DPMSolverMultistepScheduler\" is not supported", changed(scheduler, _class_name="DPMSolverMultistepScheduler")),
            ("beta_schedule = \"squaredcos_cap_v2\" is not supported", changed(scheduler, beta_schedule="squaredcos_cap_v2")),
            ("prediction_type = \"sample\" is not supported", changed(scheduler, prediction_type="sample")),
            ("skip_prk_steps = false", changed(scheduler, skip_prk_steps=False)),
            ("thresholding = true", changed(scheduler, thresholding=True)),
            ("use_karras_sigmas = true", changed(scheduler, use_karras_sigmas=True)),
            ("rescale_betas_zero_snr = true", changed(scheduler, rescale_betas_zero_snr=True)),
            ("trained_betas = [0.1]", changed(scheduler, trained_betas=[0.1])),
            ("scheduler_config.json", changed(remove=scheduler)),
            ("unet", changed(remove=unet)),
            ("diffusion_pytorch_model", changed(remove="unet/diffusion_pytorch_model.safetensors")),
            ("tokenizer", changed(remove="tokenizer/vocab.json")),
        ]:
            with self.subTest(words=words):
                line = self.assert_refused(DATA, words, str(model), model=model, output_dir=f'"{model}-run"')
                self.assertEqual(self.assert_refused(DATA, words, arguments=("draw", model, "x", "-o", self.folder / "x.png", "--steps", 1)), line)
        self.assertEqual(list(self.folder.glob("*.png")), [])

    def test_weights_that_are_not_numbers_are_named(self):
        for file in ("unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"):
            with self.subTest(file=file), tempfile.TemporaryDirectory() as folder:
                model = copy_pipeline(pathlib.Path(folder) / "m")
                tensor = damage(model / file)
                name = f"{file.split('/')[0]}/{tensor}"
                self.assert_refused(DATA, f"tensor {name} has numbers that are not finite", "the weights are damaged", model=model, output_dir=f'"{folder}/run"')
                for precision in ("float32", "bf16"):
                    self.assert_refused(DATA, f"tensor {name} has numbers", arguments=("draw", model, "a", "--steps", 1, "-o", f"{folder}/x.png", "--precision", precision))

    def test_settings_that_cannot_be(self):
        for words, keys in [
            ("draw.height = 20 is not a multiple of 8", {"height": "20"}),
            ("draw.width = 12 is not a multiple of 8", {"width": "12"}),
            ("draw.num_inference_steps = 0 is out of range", {"num_inference_steps": "0"}),
            ("draw.num_inference_steps: 1000 steps of timestep_spacing leading would begin at timestep 1000", {"num_inference_steps": "1000"}),
            ("draw.guidance_scale = -1 is out of range", {"guidance_scale": "-1"}),
            ("draw.scheduler: \"heun\" is unknown", {"scheduler": '"heun"'}),
            ("draw.timestep_spacing: \"uniform\" is not supported", {"timestep_spacing": '"uniform"'}),
            ("[draw] has neither prompts nor prompts_file", {"prompts": None}),
        ]:
            with self.subTest(keys=keys):
                self.assertIn("run.toml", self.assert_refused(SETTINGS, words, **keys))
        for words, arguments in [("--steps", ("--steps", 0)), ("--guidance-scale", ("--guidance-scale", -1)), ("\"heun\" is unknown", ("--scheduler", "heun")), ("not a multiple of 8", ("--width", 12)),
                                 ("1000", ("--steps", 1000)), ("--seed", ("--seed", -1)), ("--precision: \"half\" is not a number type; use float32 or bf16", ("--precision", "half")), ("no effect without guidance", ("--guidance-scale", 1, "--negative-prompt", "x"))]:
            with self.subTest(arguments=arguments):
                self.assert_refused(SETTINGS, words, arguments=("draw", V1, "x", "-o", self.folder / "x.png", *arguments))

    def test_what_does_not_fit_into_memory(self):
        line = self.assert_refused(MEMORY, "machine.memory_limit_gib allows 64.0 MiB", "pixels would fit", height="1024", width="1024", tables="[machine]\nmemory_limit_gib = 0.0625\n")
        side = int(re.search(r"pictures of (\d+) x \1 pixels would fit", line).group(1))
        self.run_well("plan", drawing(self.folder, height=str(side), width=str(side), tables="[machine]\nmemory_limit_gib = 0.0625\n"))
        self.assertEqual(run("plan", drawing(self.folder, height=str(side + 8), width=str(side + 8), tables="[machine]\nmemory_limit_gib = 0.0625\n")).returncode, MEMORY)

    def test_what_is_advised_for_memory_fits_and_what_does_not_is_not_advised(self):
        def advice(mib, **keys):
            limit = f"machine.memory_limit_gib={mib / 1024}"
            done = run_ends(MEMORY, "plan", drawing(self.folder, **keys), limit)
            words = done.stderr.strip().splitlines()[-1].partition(" allows ")[2].partition("; ")[2]
            side = re.search(r"pictures of (\d+) x", words)
            changes = re.findall(r'[a-z]+\.\w+ = [\w"]+', words) + ([f"draw.height = {side[1]}", f"draw.width = {side[1]}"] if side else [])
            apart = [changes] if words.endswith("together") else [[change] for change in changes if "draw.height" not in change and "draw.width" not in change]
            for some in apart:
                self.run_well("plan", drawing(self.folder, **keys), limit, *(change.replace(" = ", "=") for change in some))
            return words

        peak = lambda **keys: json.loads(self.run_well("plan", "--json", drawing(self.folder, **keys)).stdout)["peak_bytes"] / 2**20
        keys = {"batch_size": "4", "height": "64", "width": "64"}
        four, one, rounded = peak(**keys), peak(**{**keys, "batch_size": "1"}), peak(**keys, precision="bf16")
        self.assertIn("draw.batch_size = 1", advice((four + one) / 2, **keys))
        self.assertIn('model.precision = "bf16"', advice((four + max(one, rounded)) / 2, **keys))
        self.assertRegex(advice(49, **keys), r"^no size of pictures fits: the weights alone take [\d.]+ .iB$")
        least = peak(batch_size="1", height="8", width="8")
        self.assertRegex(advice(least, **keys), "^draw.batch_size = 1 and pictures of 8 x 8 pixels would fit together$")

    def test_prompts_that_cannot_be_read(self):
        self.assert_refused(DATA, "UTF-8", arguments=("draw", V1, b"a \xff cat".decode(errors="surrogateescape"), "-o", self.folder / "x.png"))
        for name, content, words in [("p.txt", b"a cat\nb \xff\n", "p.txt:2: "), ("p.jsonl", b'{"prompt": "a", "sed": 1}\n', "p.jsonl:1: unknown key \"sed\""), ("p.txt", b"\n\r\n", "p.txt: has no prompt"),
                                     ("p.jsonl", b'{"prompt": 1}\n', "p.jsonl:1: "), ("p.jsonl", b'{"prompt": "a", "seed": -1}\n', "p.jsonl:1: \"seed\" is -1; it must be an integer from 0 to 18446744073709551615")]:
            with self.subTest(words=words):
                (self.folder / name).write_bytes(content)
                self.assert_refused(DATA, words, prompts_file=f'"{name}"')
        self.assert_refused(DATA, "missing.txt", prompts_file='"missing.txt"')
        self.assert_refused(DATA, str(self.folder), prompts_file=f'"{self.folder}"')

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_a_huge_file_of_prompts_is_refused_without_being_read(self):
        with open(self.folder / "p.txt", "wb") as file:
            file.truncate(1 << 30)
        line = subprocess.run(["sh", "-c", 'ulimit -v 2000000; exec "$0" "$@"', str(PROGRAM), "run", str(drawing(self.folder, prompts_file='"p.txt"'))], capture_output=True, text=True, timeout=patient(60), check=False)
        self.assertEqual(line.returncode, DATA, line.stderr)
        self.assertEqual(len(line.stderr.splitlines()), 1, line.stderr)
        self.assertIn("p.txt", line.stderr)

    def test_settings_that_did_not_work_may_be_mended(self):
        """A folder without a picture takes pictures of any settings."""
        model = copy_pipeline(self.folder / "m")
        weights = model / "vae" / "diffusion_pytorch_model.safetensors"
        weights.rename(self.folder / "weights")
        self.assert_refused(DATA, "diffusion_pytorch_model", model=model)
        (self.folder / "weights").rename(weights)
        self.run_well("run", drawing(self.folder, model=model, num_inference_steps="3"))

    def test_latents_that_do_not_fit(self):
        self.assert_refused(DATA, "has no tensor \"latents\"", latents_file=f'"{V1}/batch.safetensors"')
        self.assert_refused(DATA, "missing.safetensors", latents_file='"missing.safetensors"')
        (self.folder / "l.safetensors").write_bytes(b"no tensors at all, but a text")
        self.assert_refused(DATA, "l.safetensors", latents_file='"l.safetensors"')

    def test_a_folder_that_is_not_ours(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "00000.png").write_bytes(b"somebody's")
        self.assert_refused(SETTINGS, "run.toml:4:14", "choose an empty folder")
        self.assertEqual((self.folder / "run" / "00000.png").read_bytes(), b"somebody's")
        self.assertEqual(len(list((self.folder / "run").iterdir())), 1)
        self.assert_refused(SETTINGS, "is not a folder", output_dir=f'"{self.folder}/run.toml"')
        self.assert_refused(SETTINGS, "also the folder of the model", output_dir=f'"{V1}"')

    def test_the_folder_of_a_training_run(self):
        self.run_well("run", small_settings(self.folder, training__max_steps="1"))
        self.assert_refused(SETTINGS, "holds a run that trains or evaluates", "choose another folder")
        self.assert_refused(SETTINGS, "holds a run that trains or evaluates", resume='"never"')

    def test_a_training_run_leaves_the_folder_of_pictures_alone(self):
        self.run_well("run", drawing(self.folder))
        before = pictures(self.folder / "run")
        self.assert_refused(SETTINGS, "choose another folder", arguments=("run", small_settings(self.folder, training__max_steps="1")))
        self.assertEqual(pictures(self.folder / "run"), before)
        self.assertEqual(len(rows(self.folder / "run")), 4)

    def test_pictures_of_other_settings(self):
        self.run_well("run", drawing(self.folder))
        before = pictures(self.folder / "run")
        self.assert_refused(SETTINGS, "holds pictures of other settings", "draw.resume = \"never\"", num_inference_steps="3")
        self.assertEqual(pictures(self.folder / "run"), before)
        self.run_well("run", drawing(self.folder, num_inference_steps="3", resume='"never"'))
        after = pictures(self.folder / "run")
        self.assertEqual(sorted(after), sorted(before))
        self.assertFalse([name for name in after if after[name] == before[name]])
        self.assertEqual(len(rows(self.folder / "run")), 4)

    def test_pictures_of_other_prompts(self):
        """Of a prompts_file that was changed in place, or of a seed that is now the row's own."""
        path = self.folder / "p.jsonl"
        path.write_text('{"prompt": "a cat"}\n{"prompt": "a dog"}\n')
        self.run_well("run", drawing(self.folder, prompts_file='"p.jsonl"', seed="7"))
        before = pictures(self.folder / "run")
        for text in ('{"prompt": "a dog"}\n{"prompt": "a cat"}\n', '{"prompt": "a cat"}\n', '{"prompt": "a cat"}\n{"prompt": "a dog", "seed": 7}\n'):
            with self.subTest(text=text):
                path.write_text(text)
                self.assert_refused(SETTINGS, "of another prompt or seed", "images.jsonl:", prompts_file='"p.jsonl"', seed="7")
                self.assertEqual(pictures(self.folder / "run"), before)
        path.write_text('{"prompt": "a cat"}\n{"prompt": "a dog"}\n{"prompt": "a hen"}\n')
        self.run_well("run", drawing(self.folder, prompts_file='"p.jsonl"', seed="7"))
        after = pictures(self.folder / "run")
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(len(after), 6)

    def test_pictures_of_another_negative_prompt(self):
        path = self.folder / "p.jsonl"
        path.write_text('{"prompt": "a cat", "negative_prompt": "a dog"}\n')
        guided = {"prompts_file": '"p.jsonl"', "guidance_scale": "2.0", "num_images_per_prompt": "1"}
        self.run_well("run", drawing(self.folder, **guided))
        path.write_text('{"prompt": "a cat", "negative_prompt": "a hen"}\n')
        self.assert_refused(SETTINGS, "of another prompt or seed", "images.jsonl:1", **guided)

    def test_damaged_weights_cost_no_picture(self):
        model = copy_pipeline(self.folder / "m")
        self.run_well("run", drawing(self.folder, model=model))
        before = pictures(self.folder / "run")
        damage(model / "unet" / "diffusion_pytorch_model.safetensors")
        self.assert_refused(DATA, "numbers that are not finite", model=model, resume='"never"')
        self.assertEqual(pictures(self.folder / "run"), before)
        self.assertEqual(len(rows(self.folder / "run")), 4)

    def test_a_picture_that_is_not_finite_is_not_written(self):
        """Latents are finite, but the decoder's numbers overflow."""
        model = copy_pipeline(self.folder / "m")
        damage(model / "vae" / "diffusion_pytorch_model.safetensors", bits=0x7f7f)
        self.assert_refused(DATA, "00000.png: its numbers are not finite", model=model)
        self.assertEqual(pictures(self.folder / "run"), {})
        self.assert_refused(DATA, "the picture is not finite", arguments=("draw", model, "x", "-o", self.folder / "x.png", "--steps", 1))
        self.assertFalse((self.folder / "x.png").exists())

    def test_what_the_rules_let_change_may_change(self):
        """As `bascule settings --resume` says: paths to the same content, and what is written into files from there on."""
        (self.folder / "p.txt").write_text("a cat\n")
        (self.folder / "moved.txt").write_text("a cat\n")
        self.run_well("run", drawing(self.folder, prompts_file='"p.txt"'))
        before = pictures(self.folder / "run")
        for keys in ({"prompts_file": '"moved.txt"'}, {"prompts_file": '"p.txt"', "png_text": "false"}):
            with self.subTest(keys=keys):
                done = self.run_well("run", drawing(self.folder, **keys))
                self.assertIn("already finished", done.stderr)
                self.assertEqual(pictures(self.folder / "run"), before)

    def test_two_runs_in_one_folder(self):
        toml = drawing(self.folder, num_images_per_prompt="20", num_inference_steps="30")
        first = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        for line in first.stderr:
            if line.startswith("bascule: seal"):
                break
        while first.poll() is None and not (self.folder / "run" / "bascule.json").exists():
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)
        self.assertIn("run.toml:4:14: another run is using this folder; wait for it to end", run_ends(SETTINGS, "run", toml).stderr)
        one, = json.loads(self.run_well("list", self.folder, "--json").stdout)["runs"]
        self.assertEqual((one["state"], one["draws"]), ("running", True))
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(timeout=patient(60)), 0)
        self.assertEqual(len(rows(self.folder / "run")), 40)

    def test_where_a_picture_may_go(self):
        model = copy_pipeline(self.folder / "m")
        (self.folder / "folder").mkdir()
        (self.folder / "link.png").symlink_to(model / "unet" / "config.json")
        before = (model / "unet" / "config.json").read_bytes()
        for target, words in ((model / "x.png", "in the folder of the pipeline"), (model / "unet" / "config.json", "in the folder of the pipeline"), (self.folder / "link.png", "in the folder of the pipeline"),
                              (self.folder / "missing" / "x.png", "there is no folder"), (self.folder / "folder", "folder")):
            with self.subTest(target=target):
                self.assert_refused(SETTINGS, words, arguments=("draw", model, "x", "-o", target, "--steps", 1))
        self.assertFalse((model / "x.png").exists())
        self.assertEqual((model / "unet" / "config.json").read_bytes(), before)

    def test_models_that_draw_and_models_that_train(self):
        self.assert_refused(SETTINGS, "draws no pictures, but the file has [draw]", model=EMOJI / "model")
        self.assert_refused(SETTINGS, "holds a pipeline that draws pictures, and cannot be trained", "write [draw]", arguments=("run", settings(self.folder, model__model_name_or_path=f'"{V1}"')))
        self.assert_refused(DATA, "is missing: the folder holds no pipeline", arguments=("draw", EMOJI / "model", "x", "-o", self.folder / "x.png"))
        self.assert_refused(DATA, "nowhere", arguments=("draw", self.folder / "nowhere", "x", "-o", self.folder / "x.png"))
        self.assert_refused(DATA, "nowhere", model=self.folder / "nowhere")
        for command in ("search", "classify", "fill", "generate"):
            with self.subTest(command=command):
                arguments = {"search": (V1, "x"), "classify": (V1, EMOJI), "fill": (V1, "[MASK]"), "generate": (V1, "x")}[command]
                done = run(command, *arguments)
                self.assertIn(done.returncode, (SETTINGS, DATA), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertNotIn("bug", done.stderr)
        self.assert_refused(SETTINGS, "--frontier", arguments=("plan", "--json", "--frontier", drawing(self.folder)))

    def test_json_errors(self):
        for arguments, code in ((("run", "--json", drawing(self.folder, scheduler='"x"')), SETTINGS), (("draw", self.folder / "nowhere", "x", "--json"), DATA), (("plan", "--json", drawing(self.folder, height="20")), SETTINGS)):
            done = run_ends(code, *arguments)
            document = json.loads(done.stdout)
            self.assertEqual(document["error"]["exit_code"], code)

    def test_descriptors_that_are_closed_and_readers_that_go_away(self):
        expected = None
        for name, shell in [("plain", ""), ("out", ">&-"), ("err", "2>&-"), ("in", "<&-"), ("all", "<&- >&- 2>&-"), ("reader", "2>&1 | true")]:
            with self.subTest(name=name):
                folder = self.folder / name
                folder.mkdir()
                done = subprocess.run(["sh", "-c", f'"$0" "$@" {shell}', str(PROGRAM), "run", str(drawing(folder))], capture_output=True, timeout=patient(60), check=False)
                self.assertEqual(done.returncode, 0)
                found = pictures(folder / "run")
                expected = expected or found
                self.assertEqual(found, expected)
                self.assertEqual(len(rows(folder / "run")), 4)
                subprocess.run(["sh", "-c", f'"$0" "$@" {shell}', str(PROGRAM), "draw", str(V1), "x", "--steps", "1", "-o", str(folder / "x.png")], capture_output=True, timeout=patient(60), check=False)
                self.assertTrue((folder / "x.png").read_bytes().endswith(b"IEND\xaeB`\x82"))
