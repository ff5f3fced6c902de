# SPDX-License-Identifier: Apache-2.0
"""tools/settings_from_command_line.py makes settings of a run that draws from command lines of text_to_image_generation.py."""
import tomllib
import unittest

from converted import ROOT, convert, published

SCRIPT = "python text_to_image_generation.py --model_name_or_path m --prompts 'a cat' "


class SettingsOfDrawing(unittest.TestCase):
    def refused(self, text, words):
        code, settings, said = convert(text)
        self.assertEqual((code, settings, len(said)), (2, {}, 1), text)
        self.assertIn(words, said[0])

    def test_the_published_command_gives_the_published_settings(self):
        code, settings, said = convert(published("text_to_image.sh"))
        self.assertEqual((code, settings["model.model_name_or_path"]), (0, '"models/stable-diffusion-v1-4"'))
        file = tomllib.loads((ROOT / "config/sd_v1.toml").read_text())
        ours = tomllib.loads("\n".join(f"{key.split('.')[1]} = {value}" for key, value in settings.items() if key.startswith("draw.")))
        # The script of that time had no --timestep_spacing. The model's side is 512, Bascule has 50 steps and guidance 7.5 by default.
        self.assertEqual({"output_dir": "../runs/sd_v1", "height": 512, "width": 512, "num_inference_steps": 50, "guidance_scale": 7.5},
                         {key: file["draw"].pop(key) for key in ("output_dir", "height", "width", "num_inference_steps", "guidance_scale")})
        self.assertEqual((ours.pop("output_dir"), ours.pop("timestep_spacing")), ("/tmp/stable_diffusion_images", "linspace"))
        self.assertEqual(ours, file["draw"])
        self.assertEqual({key.split(".")[0] for key in settings}, {"model", "draw"})
        self.assertIn("to do: copy the files of huggingface.co/CompVis/stable-diffusion-v1-4 to models/stable-diffusion-v1-4 beside the settings file", said)
        self.assertIn("not carried over: --gaudi_config_name: specific to Gaudi", said)

    def test_the_published_command_of_stable_diffusion_2(self):
        code, settings, said = convert(published("text_to_image_v2.sh"))
        expected = {"model.model_name_or_path": '"models/stable-diffusion-2-1"', "draw.num_images_per_prompt": "28", "draw.batch_size": "7",
                    "draw.height": "768", "draw.width": "768", "draw.scheduler": '"ddim"', "model.precision": '"bf16"'}
        self.assertEqual((code, {key: settings.get(key) for key in expected}), (0, expected))
        self.assertNotIn("no such setting", "\n".join(said))

    def test_defaults_of_the_script_that_differ_from_ours_are_written_down(self):
        code, settings, _ = convert("text_to_image_generation.py")
        self.assertEqual((code, settings), (0, {
            "model.model_name_or_path": '"models/stable-diffusion-v1-4"', "draw.output_dir": '"stable-diffusion-generated-images"',
            "draw.prompts": '["An image of a squirrel in Picasso style"]', "draw.scheduler": '"ddim"', "draw.timestep_spacing": '"linspace"'}))

    def test_every_value_is_carried_over(self):
        code, settings, said = convert("text_to_image_generation.py --model_name_or_path ./sd --prompts 'a \"cat\"' dog --negative_prompts blur --num_images_per_prompt 2 "
                                       "--batch_size 4 --height 256 --width 384 --num_inference_steps 20 --guidance_scale 5 --scheduler euler_discrete "
                                       "--timestep_spacing trailing --seed 7 --image_save_dir out --throughput_warmup_steps 1 --eta 0.0 --output_type pil")
        self.assertEqual((code, said, settings), (0, [], {
            "model.model_name_or_path": '"./sd"', "draw.output_dir": '"out"', "draw.prompts": '["a \\"cat\\"", "dog"]', "draw.negative_prompt": '"blur"',
            "draw.num_images_per_prompt": "2", "draw.batch_size": "4", "draw.num_inference_steps": "20", "draw.guidance_scale": "5.0", "draw.seed": "7",
            "draw.throughput_warmup_batches": "1", "draw.height": "256", "draw.width": "384", "draw.scheduler": '"euler"', "draw.timestep_spacing": '"trailing"'}))

    def test_schedulers(self):
        for name, ours, spacing in (("ddim", "ddim", '"linspace"'), ("euler_discrete", "euler", '"linspace"'), ("pndm", "pndm", None), ("default", "default", None)):
            _, settings, _ = convert(SCRIPT + "--scheduler " + name)
            self.assertEqual((settings["draw.scheduler"], settings.get("draw.timestep_spacing")), (f'"{ours}"', spacing), name)
        _, settings, said = convert(SCRIPT + "--scheduler default --timestep_spacing leading")
        self.assertNotIn("draw.timestep_spacing", settings)
        self.assertIn("not carried over: --timestep_spacing: with the model's own scheduler the script keeps its spacing", said)
        self.refused(SCRIPT + "--scheduler euler_ancestral_discrete", "it draws new noise in every step")
        self.refused(SCRIPT + "--scheduler flow_match_euler_discrete", "flow matching")
        self.refused(SCRIPT + "--scheduler heun", "--scheduler heun: not supported; known: ddim, euler_discrete, pndm, default")

    def test_negative_prompts(self):
        _, settings, said = convert(SCRIPT + "dog --negative_prompts blur text")
        self.assertNotIn("draw.negative_prompt", settings)
        self.assertIn("not carried over: --negative_prompts: the settings have one for all prompts", said)
        self.assertIn('a row for each: {"prompt": "...", "negative_prompt": "..."}', "\n".join(said))
        self.assertEqual(convert(SCRIPT + "dog --negative_prompts blur blur")[1]["draw.negative_prompt"], '"blur"')
        self.assertNotIn("draw.negative_prompt", convert(SCRIPT + "--negative_prompts ''")[1])
        _, settings, said = convert(SCRIPT + "--negative_prompts blur --guidance_scale 1.0")
        self.assertNotIn("draw.negative_prompt", settings)
        self.assertIn("not carried over: --negative_prompts: has no effect without guidance: --guidance_scale is 1 or less", said)
        self.refused(SCRIPT + "--negative_prompts blur text", "2 for 1 of --prompts")

    def test_a_file_of_prompts_goes_before_prompts(self):
        _, settings, said = convert(SCRIPT + "--prompts_file p.txt")
        self.assertEqual(settings["draw.prompts_file"], '"p.txt"')
        self.assertNotIn("draw.prompts", settings)
        self.assertIn("not carried over: --prompts: prompts_file takes precedence, as in the script", said)
        self.assertIn("give prompts_file another ending", "\n".join(convert("text_to_image_generation.py --prompts_file p.jsonl")[2]))

    def test_a_size_is_a_height_and_a_width(self):
        _, settings, said = convert(SCRIPT + "--height 256")
        self.assertNotIn("draw.height", settings)
        self.assertIn("not carried over: --height: the script takes height and width only together", said)
        self.assertEqual([line for line in convert(SCRIPT + "--height 0 --width 0")[2] if "together" in line], [])

    def test_every_other_flag_of_the_script_is_named_with_its_reason(self):
        flags = ("use_habana", "use_hpu_graphs", "gaudi_config_name g", "sdp_on_bf16", "profiling_warmup_steps 3", "profiling_steps 3", "distributed",
                 "unet_adapter_name_or_path a", "text_encoder_adapter_name_or_path a", "lora_id a", "lora_scale 0.5", "use_cpu_rng", "use_compel", "use_freeu", "use_zero_snr",
                 "optimize", "quant_mode measure", "use_distributed_cfg", "prompts_2 a b", "prompts_3 a", "negative_prompts_2 a", "negative_prompts_3 a", "eta 0.5",
                 "output_type np", "pipeline_save_dir d", "controlnet_model_name_or_path c", "control_preprocessing_type canny", "clip_skip 1", "use_lora", "dtype bf16")
        code, settings, said = convert(SCRIPT + " ".join("--" + flag for flag in flags))
        self.assertEqual((code, settings), convert(SCRIPT)[:2])
        for flag in flags:
            self.assertTrue(any(line.startswith(f"not carried over: --{flag.split()[0]}: ") for line in said), flag)
        self.assertNotIn("no such setting", "\n".join(said))
        self.assertIn("not carried over: --kwargs: no such setting", convert(SCRIPT + "--kwargs 1")[2])

    def test_the_ranks_of_one_machine_draw(self):
        code, settings, said = convert("python ../gaudi_spawn.py --world_size 8 --use_mpi --hostfile h " + SCRIPT.replace("python ", ""))
        self.assertEqual((code, {key: value for key, value in settings.items() if key.startswith("distributed.")}), (0, {"distributed.world_size": "8"}))
        self.assertIn("not carried over: --use_mpi: distributed.world_size is all that Bascule needs: it starts its ranks itself", said)
        self.assertIn("not carried over: --hostfile: the ranks of a run that draws are on one machine", said)
        self.assertEqual(convert("mpirun -np 1 " + SCRIPT)[2], [])

    def test_pictures_of_another_kind_are_refused(self):
        for name in ("stabilityai/stable-diffusion-xl-base-1.0", "stabilityai/sdxl-turbo", "stabilityai/stable-diffusion-3-medium-diffusers", "black-forest-labs/FLUX.1-dev",
                     "Qwen/Qwen-Image", "Intel/ldm3d-4c", "stabilityai/stable-diffusion-2-inpainting"):
            self.refused(SCRIPT + "--model_name_or_path " + name, f"{name}: Bascule draws with Stable Diffusion 1 and 2")
        for flag, words in (("control_image i.png", "ControlNet"), ("base_image i.png", "inpainting"), ("mask_image i.png", "inpainting"), ("ldm3d", "depth maps"),
                            ("prompt 'a dog'", "the script's flag is --prompts"), ("negative_prompt blur", "the script's flag is --negative_prompts")):
            self.refused(SCRIPT + "--" + flag, words)

    def test_nonsense_is_one_line_and_exit_code_2(self):
        for flags, words in (("--prompts", "at least one prompt"), ("--seed x", "an integer"), ("--guidance_scale nan", "a number"), ("--height 1.5", "an integer"),
                             ("--eta x", "a number"), ("--image_save_dir ''", "one value"), ("--scheduler", "one value")):
            self.refused(SCRIPT + flags, words)
