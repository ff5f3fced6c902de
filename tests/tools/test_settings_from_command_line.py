# SPDX-License-Identifier: Apache-2.0
"""tools/settings_from_command_line.py carries over what it can, and names what it cannot."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/settings_from_command_line.py"
LEAST = "run_bridgetower.py --model_name_or_path m --output_dir o --train_file t.jsonl --do_train "


def convert(text):
    """A command line on standard input -> (exit code, settings as {"table.key": text}, lines of standard error)."""
    done = subprocess.run([sys.executable, TOOL], input=text, capture_output=True, text=True, check=False)
    settings, table = {}, ""
    for line in done.stdout.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif " = " in line and not line.startswith("#"):
            key, _, value = line.partition(" = ")
            settings[f"{table}.{key}"] = value.partition("  # ")[0]
    return done.returncode, settings, done.stderr.splitlines()


def published(name):
    return (ROOT / "tests/tools/command_lines" / name).read_text()


class SettingsFromCommandLine(unittest.TestCase):
    def test_the_published_command_carries_over_its_recipe(self):
        code, settings, said = convert(published("blog.sh"))
        self.assertEqual(code, 0)
        expected = {
            "model.model_name_or_path": '"models/bridgetower-large-itm-mlm-itc"',
            "model.freeze": '["text_pooler"]', "training.num_train_epochs": "5.0", "training.learning_rate": "1e-05",
            "training.per_device_train_batch_size": "40", "training.per_device_eval_batch_size": "16",
            "training.adam_epsilon": "1e-06", "training.do_predict": "true", "training.logging_steps": "10",
            "distributed.world_size": "8", "report.tensorboard": "true",
            "data.test_file": '"data/newyorker_caption_contest-matching/test.jsonl"',
        }
        self.assertEqual({key: settings.get(key) for key in expected}, expected)
        self.assertIn("--caption_column image_description", "\n".join(said))
        self.assertEqual(settings["model.precision"], '"bf16"')

    def test_every_flag_of_the_published_commands_is_carried_over_or_named(self):
        _, settings, said = convert(published("readme.sh"))
        named = "\n".join(said)
        for flag in ("--use_lazy_mode", "--mediapipe_dataloader", "--sdp_on_bf16", "--trust_remote_code",
                     "--overwrite_output_dir", "--remove_unused_columns", "PT_HPU_LAZY_MODE", "--use_mpi"):
            self.assertIn(f"not carried over: {flag}: ", named)
        self.assertEqual(settings["training.save_strategy"], '"no"')
        self.assertNotIn("training.save_steps", settings)
        self.assertEqual(settings["training.per_device_train_batch_size"], "48")
        self.assertEqual(settings["distributed.distribution_strategy"], '"fast_ddp"')
        self.assertEqual(settings["data.dataloader_num_workers"], "2")

    def test_defaults_of_the_script_that_differ_from_ours_are_written_down(self):
        _, settings, _ = convert(LEAST)
        self.assertEqual(settings["training.num_train_epochs"], "3.0")
        self.assertEqual(settings["training.per_device_train_batch_size"], "8")
        self.assertEqual(settings["training.learning_rate"], "5e-05")
        self.assertEqual(settings["training.do_eval"], "false")
        self.assertNotIn("training.adam_epsilon", settings)

    def test_booleans_have_four_forms(self):
        for form, value in (("--dataloader_drop_last", "true"), ("--dataloader_drop_last=False", "false"),
                            ("--dataloader_drop_last True", "true"), ("--no_dataloader_drop_last", "false")):
            self.assertEqual(convert(LEAST + form)[1]["data.dataloader_drop_last"], value, form)
        self.assertEqual(convert(LEAST + "--freeze_vision_model --freeze_text_pooler False")[1]["model.freeze"],
                         '["vision_model"]')

    def test_quotes_reach_the_value(self):
        _, settings, _ = convert(LEAST + "--tokenizer_name='a \"b\" \\ c'  # a remark")
        self.assertEqual(settings["model.tokenizer_name"], '"a \\"b\\" \\\\ c"')

    def test_the_last_of_two_goes_before_the_first(self):
        self.assertEqual(convert(LEAST + "--seed 1 --seed=2")[1]["training.seed"], "2")

    def test_steps_go_before_epochs_and_warmup_before_its_ratio(self):
        _, settings, said = convert(LEAST + "--max_steps 9 --num_train_epochs 2 --warmup_steps 3 --warmup_ratio 0.1")
        self.assertEqual(settings["training.max_steps"], "9")
        self.assertNotIn("training.num_train_epochs", settings)
        self.assertNotIn("training.warmup_ratio", settings)
        self.assertEqual(sum("takes precedence" in line for line in said), 2)
        self.assertNotIn("training.max_steps", convert(LEAST + "--max_steps -1")[1])

    def test_schedules_keep_their_keywords(self):
        for kind, given, key, value in (("polynomial", '{"power": 2.0, "lr_end": 1e-09}', "lr_power", "2.0"),
                                        ("cosine_with_restarts", '{"num_cycles": 3}', "lr_num_cycles", "3"),
                                        ("inverse_sqrt", '{"timescale": 400}', "lr_timescale", "400"),
                                        ("cosine_with_min_lr", '{"min_lr_rate": 0.25}', "min_lr_ratio", "0.25"),
                                        ("cosine_with_min_lr", '{"min_lr": 1e-05}', "min_lr_ratio", "0.2")):
            _, settings, said = convert(LEAST + f"--lr_scheduler_type {kind} --lr_scheduler_kwargs '{given}'")
            self.assertEqual(settings["training.lr_scheduler_type"], f'"{kind}"')
            self.assertAlmostEqual(float(settings["training." + key]), float(value))
            self.assertEqual(said, [])
        self.assertIn("not carried over: --lr_scheduler_kwargs power: the schedule has no such parameter",
                      convert(LEAST + "--lr_scheduler_type linear --lr_scheduler_kwargs '{\"power\": 2}'")[2])

    def test_the_best_checkpoint_is_carried_over(self):
        _, settings, said = convert(LEAST + "--load_best_model_at_end --metric_for_best_model eval_loss --greater_is_better False "
                                    "--eval_strategy epoch --save_strategy epoch --save_steps 10")
        self.assertEqual({key: value for key, value in settings.items() if "strategy" in key or "best" in key or "better" in key},
                         {"training.load_best_model_at_end": "true", "training.metric_for_best_model": '"eval_loss"',
                          "training.greater_is_better": "false", "training.eval_strategy": '"epoch"',
                          "training.save_strategy": '"epoch"'})
        self.assertNotIn("training.save_steps", settings)
        self.assertEqual(said, [])

    def test_launchers_give_the_world_size(self):
        for launcher in ("python gaudi_spawn.py --world_size=4 --use_mpi", "torchrun --nproc_per_node 4",
                         "mpirun -np 4 python3", "python -m torch.distributed.run --nproc-per-node=4"):
            self.assertEqual(convert(launcher + " " + LEAST)[1]["distributed.world_size"], "4", launcher)

    def test_an_unknown_flag_is_named(self):
        said = convert(LEAST + "--frobnicate 3")[2]
        self.assertIn("not carried over: --frobnicate: no such setting", said)

    def test_nonsense_is_one_line_and_exit_code_2(self):
        for text in ("", "python train.py", LEAST + "--seed x", LEAST + "--seed 1 2", "run_bridgetower.py stray",
                     LEAST.replace("--do_train", ""), LEAST.replace("--output_dir o", ""), LEAST + "'",
                     LEAST.replace("--model_name_or_path m", ""), "mpirun -np x " + LEAST):
            code, settings, said = convert(text)
            self.assertEqual((code, settings, len(said)), (2, {}, 1), text)


if __name__ == "__main__":
    unittest.main()
