# SPDX-License-Identifier: Apache-2.0
"""tools/settings_from_command_line.py carries over what it can, and names what it cannot."""
import subprocess
import sys
import unittest

from converted import TOOL, convert, published

VIT = "run_image_classification.py --output_dir o --do_train "
BERT = "run_mlm.py --model_name_or_path bert --output_dir o --do_train "
T5 = "run_summarization.py --model_name_or_path google-t5/t5-small --output_dir o --do_train "
LEAST = "run_bridgetower.py --model_name_or_path m --output_dir o --train_file t.jsonl --do_train "


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

    def test_adafactor_is_carried_over_without_the_numbers_of_adam(self):
        code, settings, said = convert(T5 + "--train_file t.jsonl --text_column a --summary_column b --optim adafactor --adam_beta1 0.8 --use_habana")
        self.assertEqual((code, settings["training.optimizer"]), (0, '"adafactor"'))
        self.assertEqual([key for key in settings if key.startswith("training.adam_")], [])
        self.assertIn("not carried over: --adam_beta1: has no effect with --optim adafactor, as in the script", said)

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

    def test_where_runs_are_watched(self):
        _, settings, said = convert(LEAST + "--report_to mlflow")
        self.assertEqual((settings["report.tensorboard"], settings["report.tracking"]), ("false", '"mlflow"'))
        self.assertEqual(said, [])
        _, settings, said = convert(LEAST + "--report_to tensorboard wandb comet_ml")
        self.assertEqual((settings["report.tensorboard"], settings.get("report.tracking")), ("true", None))
        self.assertEqual(said, ["not carried over: --report_to wandb comet_ml: Bascule writes files for TensorBoard and MLflow, JSON and HTML reports"])
        _, settings, said = convert(LEAST + "--report_to all")
        self.assertEqual((settings["report.tensorboard"], settings.get("report.tracking")), ("true", None))
        self.assertEqual(len(said), 1)
        self.assertIn("perhaps MLflow too: for that, set report.tracking = \"mlflow\"", said[0])
        _, settings, said = convert(LEAST + "--report_to none")
        self.assertEqual((settings["report.tensorboard"], settings.get("report.tracking"), said), ("false", None, []))

    def test_booleans_have_four_forms(self):
        for form, value in (("--dataloader_drop_last", "true"), ("--dataloader_drop_last=False", "false"),
                            ("--dataloader_drop_last True", "true"), ("--no_dataloader_drop_last", "false")):
            self.assertEqual(convert(LEAST + form)[1]["data.dataloader_drop_last"], value, form)
        self.assertEqual(convert(LEAST + "--freeze_vision_model --freeze_text_pooler False")[1]["model.freeze"],
                         '["vision_model"]')

    def test_quotes_reach_the_value(self):
        _, settings, _ = convert(LEAST + "--tokenizer_name='a \"b\" \\ c'  # a remark")
        self.assertEqual(settings["model.tokenizer_name"], '"a \\"b\\" \\\\ c"')

    def test_a_path_is_no_name_of_the_hub(self):
        for path in ("./m", "../m", "a/b/c"):
            _, settings, said = convert(LEAST.replace("path m", "path " + path))
            self.assertEqual((settings["model.model_name_or_path"], said), (f'"{path}"', []))

    def test_the_last_of_two_goes_before_the_first(self):
        self.assertEqual(convert(LEAST + "--seed 1 --seed=2")[1]["training.seed"], "2")

    def test_steps_go_before_epochs_and_warmup_before_its_ratio(self):
        _, settings, said = convert(LEAST + "--max_steps 9 --num_train_epochs 2 --warmup_steps 3 --warmup_ratio 0.1")
        self.assertEqual(settings["training.max_steps"], "9")
        self.assertNotIn("training.num_train_epochs", settings)
        self.assertNotIn("training.warmup_ratio", settings)
        self.assertEqual(sum("takes precedence" in line for line in said), 2)
        self.assertNotIn("training.max_steps", convert(LEAST + "--max_steps -1")[1])

    def test_warmup_steps_below_one_are_a_share(self):
        _, settings, _ = convert(LEAST + "--max_steps 9 --warmup_steps 0.1")
        self.assertEqual((settings["training.warmup_ratio"], settings.get("training.warmup_steps")), ("0.1", None))
        written = subprocess.run([sys.executable, TOOL], input=LEAST + "--warmup_steps 0.1", capture_output=True, text=True, check=False).stdout
        self.assertIn("warmup_ratio = 0.1  # --warmup_steps below 1 is a share\n", written)
        for written, steps in (("3.0", "3"), ("1", "1")):
            self.assertEqual(convert(LEAST + f"--warmup_steps {written}")[1].get("training.warmup_steps"), steps)
        self.assertNotIn("training.warmup_ratio", convert(LEAST + "--lr_scheduler_type constant --warmup_steps 0.1")[1])

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

    def test_published_commands_of_image_classification(self):
        code, settings, said = convert(published("image_classification.sh"))
        self.assertEqual(code, 0)
        expected = {
            "model.model_name_or_path": '"models/vit-base-patch16-224-in21k"', "model.head": '"image_classification"', "data.label_column": '"label"',
            "data.augment": '"crop_flip"', "data.interpolation": '"bilinear"', "data.train_file": '"data/beans/train.jsonl"',
            "data.validation_file": '"data/beans/validation.jsonl"', "training.learning_rate": "2e-05", "training.num_train_epochs": "5.0",
            "training.per_device_train_batch_size": "8", "training.eval_strategy": '"epoch"', "training.save_strategy": '"epoch"',
            "training.load_best_model_at_end": "true", "training.save_total_limit": "3", "training.seed": "1337", "training.do_predict": "false",
        }
        self.assertEqual({key: settings.get(key) for key in expected}, expected)
        self.assertNotIn("model.freeze", settings)
        self.assertIn("to do: make the data set's files beside the settings file: tools/export_dataset.py beans --output data/beans --image_column image "
                      "--class_column labels --validation_fraction 0.15", said)
        self.assertIn("not carried over: --push_to_hub_model_id: Bascule uploads nothing", said)
        self.assertNotIn("no such setting", "\n".join(said))

        code, settings, said = convert(published("image_classification_gaudi.sh"))
        expected = {"model.precision": '"bf16"', "training.learning_rate": "0.0002", "training.per_device_train_batch_size": "128",
                    "training.adam_epsilon": "1e-06", "training.throughput_warmup_steps": "3", "distributed.world_size": "8"}
        self.assertEqual((code, {key: settings.get(key) for key in expected}), (0, expected))
        self.assertIn("--image_column img", "\n".join(said))
        self.assertNotIn("no such setting", "\n".join(said))

    def test_published_commands_of_masked_language_modelling(self):
        code, settings, said = convert(published("mlm.sh"))
        self.assertEqual(code, 0)
        expected = {
            "model.model_name_or_path": '"models/roberta-base"', "model.head": '"masked_lm"', "data.masking": '"bernoulli"', "data.max_seq_length": "512",
            "data.train_file": '"data/wikitext-wikitext-2-raw-v1/train.txt"', "data.validation_file": '"data/wikitext-wikitext-2-raw-v1/validation.txt"',
            "training.num_train_epochs": "3.0", "training.learning_rate": "5e-05", "training.per_device_train_batch_size": "8",
        }
        self.assertEqual({key: settings.get(key) for key in expected}, expected)
        self.assertNotIn("data.text_layout", settings)
        self.assertNotIn("model_name_or_path", "\n".join(said))
        self.assertIn("--text_column text --config wikitext-2-raw-v1 --validation_fraction 0.05", said[-1])

        code, settings, said = convert(published("mlm_gaudi.sh"))
        self.assertEqual((code, settings["model.precision"], settings["distributed.world_size"]), (0, '"bf16"', "8"))
        self.assertNotIn("no such setting", "\n".join(said))

    def test_folders_of_classes(self):
        _, settings, said = convert(VIT + "--train_dir pictures/ --do_eval --label_smoothing_factor 0.1 --ignore_mismatched_sizes")
        self.assertEqual((settings["data.train_file"], settings["data.validation_share"]), ('"pictures/"', "0.15"))
        self.assertNotIn("data.validation_file", settings)
        self.assertEqual(settings["training.label_smoothing_factor"], "0.1")
        self.assertNotIn("data.label_column", settings)
        self.assertIn("not carried over: --ignore_mismatched_sizes: a classifier of other classes is always initialised", said)
        _, settings, said = convert(VIT + "--train_dir a --validation_dir b --do_eval --model_name_or_path microsoft/swin-tiny")
        self.assertEqual((settings["data.train_file"], settings["data.validation_file"]), ('"a"', '"b"'))
        self.assertIn("Bascule trains ViT", "\n".join(said))

    def test_texts_in_blocks_and_lines(self):
        _, settings, said = convert(BERT + "--train_file a.txt --validation_file b.txt --do_eval --max_seq_length 128 --mlm_probability 0.2")
        self.assertEqual({key: settings[key] for key in ("data.train_file", "data.validation_file", "data.max_seq_length", "data.mlm_probability")},
                         {"data.train_file": '"a.txt"', "data.validation_file": '"b.txt"', "data.max_seq_length": "128", "data.mlm_probability": "0.2"})
        self.assertIn("put an empty line between the lines", "\n".join(said))
        _, settings, said = convert(BERT + "--train_file a.txt --line_by_line --pad_to_max_length")
        self.assertEqual(settings["data.text_layout"], '"lines"')
        self.assertIn("not carried over: --pad_to_max_length: padding is never computed", said)
        self.assertNotIn("empty line", "\n".join(said))
        _, settings, said = convert(BERT + "--train_file a.csv")
        self.assertEqual(settings["data.text_column"], '"text"')
        self.assertIn("rows of other files are samples", said[-1])
        _, settings, said = convert(BERT + "--train_file a.csv --line_by_line --do_eval")
        self.assertEqual((settings["data.text_column"], settings["data.validation_share"]), ('"text"', "0.05"))
        self.assertNotIn("data.text_layout", settings)

    def test_classifiers_of_texts(self):
        common = " --model_name_or_path bert --output_dir o --do_train --do_eval "
        keys = lambda settings: {key: value for key, value in settings.items() if key.startswith("data.")}
        for name in ("FacebookAI/roberta-base", "distilbert-base-uncased"):
            code, settings, said = convert("run_glue.py --task_name mrpc" + common.replace("_path bert", f"_path {name}"))
            self.assertEqual((code, settings["model.head"], settings["model.model_name_or_path"]), (0, '"sequence_classification"', f'"models/{name.rsplit("/")[-1]}"'))
            self.assertNotIn("Bascule trains", "\n".join(said))
        self.assertIn("Bascule trains BERT, RoBERTa and DistilBERT", "\n".join(convert("run_glue.py --task_name mrpc" + common.replace("_path bert", "_path albert-base-v2"))[2]))
        code, settings, said = convert("run_glue.py --task_name mrpc --do_predict" + common)
        self.assertEqual((code, settings["model.head"], settings["training.do_predict"]), (0, '"sequence_classification"', "false"))
        self.assertEqual(keys(settings), {"data.train_file": '"data/glue-mrpc/train.jsonl"', "data.validation_file": '"data/glue-mrpc/validation.jsonl"', "data.text_column": '"text"',
                                          "data.text_pair_column": '"text_pair"', "data.label_column": '"label"', "data.max_seq_length": "128"})
        self.assertIn("nyu-mll/glue --output data/glue-mrpc --text_column sentence1 --text_pair_column sentence2 --class_column label --config mrpc", "\n".join(said))
        self.assertIn("GLUE's test split", "\n".join(said))
        _, settings, _ = convert("run_glue.py --task_name mnli" + common)
        self.assertEqual(settings["data.validation_file"], '"data/glue-mnli/validation_matched.jsonl"')
        _, settings, said = convert("run_glue.py --task_name cola --max_seq_length 64 --pad_to_max_length" + common)
        self.assertNotIn("data.text_pair_column", settings)
        self.assertEqual(settings["data.max_seq_length"], "64")
        self.assertIn("not carried over: --pad_to_max_length: padding is never computed", said)
        self.assertIn("wanted", convert("run_glue.py --task_name squad" + common)[2][0])
        _, settings, said = convert("run_glue.py --train_file a.csv --validation_file b.csv" + common)
        self.assertEqual(keys(settings), {"data.train_file": '"a.csv"', "data.validation_file": '"b.csv"', "data.label_column": '"label"', "data.max_seq_length": "128"})
        self.assertIn("data.text_column", said[-1])
        _, settings, said = convert("run_classification.py --dataset_name org/reviews --text_column_names title,body --label_column_name stars --metric_name accuracy" + common)
        self.assertIn("--text_column title --class_column stars", "\n".join(said))
        self.assertIn("not carried over: --text_column_names title,body", "\n".join(said))
        _, settings, said = convert("run_classification.py --train_file a.json --text_column_names body --do_regression True" + common)
        self.assertEqual((settings["data.text_column"], settings["data.label_column"]), ('"body"', '"label"'))
        # Labels of the script may be integers, which would train classes.
        self.assertIn("to do: write the labels as decimal numbers (3.0)", "\n".join(said))
        self.assertIn("decimal numbers (3.0)", "\n".join(convert("run_classification.py --train_file a.json --do_regression" + common)[2]))
        self.assertNotIn("decimal numbers (3.0)", "\n".join(convert("run_classification.py --train_file a.json --text_column_names body --do_regression False" + common)[2]))

    def test_the_columns_of_every_task_of_glue(self):
        columns = {"cola": "sentence", "mnli": "premise hypothesis", "mrpc": "sentence1 sentence2", "qnli": "question sentence", "qqp": "question1 question2",
                   "rte": "sentence1 sentence2", "sst2": "sentence", "stsb": "sentence1 sentence2", "wnli": "sentence1 sentence2"}
        for task, names in columns.items():
            _, settings, said = convert(f"run_glue.py --task_name {task} --model_name_or_path bert --output_dir o --do_train")
            text, _, pair = names.partition(" ")
            pair_column = f" --text_pair_column {pair}" if pair else ""
            self.assertIn(f"--output data/glue-{task} --text_column {text}{pair_column} --class_column label --config {task}", "\n".join(said))
            self.assertEqual(settings.get("data.text_pair_column"), '"text_pair"' if pair else None, task)

    def test_words_with_tags(self):
        common = " --model_name_or_path distilbert-base-cased --output_dir o --do_train --do_eval "
        keys = lambda settings: {key: value for key, value in settings.items() if key.startswith("data.")}
        code, settings, said = convert("run_ner.py --dataset_name conll2003 --return_entity_level_metrics" + common)
        self.assertEqual((code, settings["model.head"]), (0, '"token_classification"'))
        self.assertEqual(keys(settings), {"data.train_file": '"data/conll2003/train.jsonl"', "data.validation_file": '"data/conll2003/validation.jsonl"', "data.text_column": '"tokens"',
                                          "data.label_column": '"tags"', "data.max_seq_length": "512"})
        self.assertIn("conll2003 --output data/conll2003 --text_column tokens --tag_column ner_tags", "\n".join(said))
        self.assertIn("not carried over: --return_entity_level_metrics: report.html has the figures of each type", said)
        _, settings, said = convert("run_ner.py --dataset_name conll2003 --task_name pos --label_all_tokens --max_seq_length 64" + common)
        self.assertEqual((settings["data.label_all_tokens"], settings["data.max_seq_length"]), ("true", "64"))
        self.assertIn("--tag_column pos_tags", "\n".join(said))
        _, settings, said = convert("run_ner.py --train_file a.json --validation_file b.csv --text_column_name words --label_column_name labels" + common)
        self.assertEqual(keys(settings), {"data.train_file": '"a.json"', "data.validation_file": '"b.csv"', "data.text_column": '"words"', "data.label_column": '"labels"', "data.max_seq_length": "512"})
        self.assertIn("to do: write b.csv as JSON lines: lists of words are not read from other files", said)
        self.assertIn("--train_file and --validation_file are missing", convert("run_ner.py" + common)[2][0])

    def test_bert_from_scratch(self):
        text = "run_mlm.py --output_dir o --do_train --train_file a.txt --tokenizer_name org/pieces "
        _, settings, said = convert(text + "--model_type bert --config_overrides hidden_size=64")
        self.assertEqual({key: value for key, value in settings.items() if key.startswith("model.")},
                         {"model.head": '"masked_lm"', "model.model_name_or_path": '"models/bert"', "model.from_scratch": "true", "model.tokenizer_name": '"models/pieces"'})
        self.assertIn("to do: copy the files of huggingface.co/org/pieces to models/pieces beside the settings file", said)
        self.assertIn("not carried over: --config_overrides: write the values into the model folder's config.json", said)
        self.assertEqual(convert(text + "--config_name bert-base-uncased")[1]["model.model_name_or_path"], '"models/bert-base-uncased"')
        for kind in ("roberta", "distilbert"):
            _, settings, said = convert(text + f"--model_type {kind}")
            self.assertEqual(settings["model.model_name_or_path"], f'"models/{kind}"')
            self.assertNotIn("not carried over: --model_type", "\n".join(said))
        self.assertIn("Bascule trains BERT, RoBERTa and DistilBERT", "\n".join(convert(text + "--model_type albert")[2]))
        for name in ("xlm-roberta-base", "cardiffnlp/twitter-xlm-roberta-base", "microsoft/deberta-base", "albert-base-v2", "google/mobilebert-uncased"):
            self.assertIn(f"--model_name_or_path {name}: of the script's models Bascule trains BERT, RoBERTa and DistilBERT", "\n".join(convert(BERT.replace("_path bert", f"_path {name}") + "--train_file a.txt")[2]))
        for name in ("FacebookAI/roberta-large", "cardiffnlp/twitter-roberta-base", "allenai/biomed_roberta_base", "distilroberta-base", "distilbert/distilbert-base-uncased", "bert-base-cased"):
            self.assertNotIn("--model_name_or_path", "\n".join(convert(BERT.replace("_path bert", f"_path {name}") + "--train_file a.txt")[2]))

    def test_published_commands_of_summarization(self):
        code, settings, said = convert(published("summarization.sh"))
        self.assertEqual(code, 0)
        expected = {
            "model.model_name_or_path": '"models/t5-small"', "model.head": '"conditional_generation"', "data.text_column": '"text"', "data.summary_column": '"summary"',
            "data.source_prefix": '"summarize: "', "data.train_file": '"data/cnn_dailymail-3.0.0/train.jsonl"',
            "data.validation_file": '"data/cnn_dailymail-3.0.0/validation.jsonl"', "training.num_train_epochs": "3.0", "training.learning_rate": "5e-05",
            "training.per_device_train_batch_size": "4", "training.per_device_eval_batch_size": "4", "training.predict_with_generate": "true",
        }
        self.assertEqual({key: settings.get(key) for key in expected}, expected)
        self.assertNotIn("data.ignore_pad_token_for_loss", settings)
        self.assertIn("to do: make the data set's files beside the settings file: tools/export_dataset.py cnn_dailymail --output data/cnn_dailymail-3.0.0 "
                      "--text_column article --summary_column highlights --config 3.0.0", said)
        self.assertNotIn("no such setting", "\n".join(said))

        code, settings, said = convert(published("summarization_gaudi.sh"))
        expected = {"data.source_prefix": '"summarize: "', "data.ignore_pad_token_for_loss": "false", "data.pad_to_max_length": "true",
                    "training.save_strategy": '"epoch"', "training.throughput_warmup_steps": "2", "distributed.world_size": "8",
                    "data.train_file": '"data/cnn_dailymail-3.0.0/train.jsonl"'}
        self.assertEqual((code, {key: settings.get(key) for key in expected}), (0, expected))
        self.assertNotIn("no such setting", "\n".join(said))

    def test_lengths_and_columns_of_summaries(self):
        _, settings, said = convert(T5 + "--train_file a.csv --test_file c.csv --text_column long --summary_column short --max_source_length 512 --max_target_length 64 "
                                    "--val_max_target_length 100 --label_smoothing_factor 0.1")
        expected = {"data.train_file": '"a.csv"', "data.test_file": '"c.csv"', "data.text_column": '"long"', "data.summary_column": '"short"',
                    "data.max_source_length": "512", "data.max_target_length": "64", "data.val_max_target_length": "100", "training.label_smoothing_factor": "0.1"}
        self.assertEqual({key: settings.get(key) for key in expected}, expected)
        self.assertIn("set data.source_prefix", said[-1])
        _, settings, said = convert(T5 + "--train_file a.csv --source_prefix '' --num_beams 4")
        self.assertNotIn("data.source_prefix", settings)
        self.assertEqual([line for line in said if "name the column" in line],
                         ["to do: name the column in data.text_column: the script takes the first one", "to do: name the column in data.summary_column: the script takes the second one"])
        self.assertEqual(settings["generation.num_beams"], "4")
        _, settings, _ = convert(T5 + "--train_file a.csv --generation_max_length 60 --generation_num_beams 2")
        self.assertEqual((settings["generation.max_length"], settings["generation.num_beams"]), ("60", "2"))

    def test_data_sets_of_summaries(self):
        for name, columns in (("EdinburghNLP/xsum", "--text_column document --summary_column summary"), ("samsum", "--text_column dialogue --summary_column summary"),
                              ("xsum --text_column other", "--text_column other --summary_column summary")):
            self.assertIn(columns, convert(T5 + "--dataset_name " + name)[2][-1], name)
        said = convert(T5 + "--dataset_name somebody/else")[2]
        self.assertIn("to do: name the columns of texts and summaries in the next command: the script takes the first two", said)
        self.assertIn("--text_column NAME --summary_column NAME", said[-1])

    def test_padding_counts_only_where_its_length_is_known(self):
        _, settings, said = convert(T5 + "--train_file a.csv --ignore_pad_token_for_loss False")
        self.assertNotIn("data.ignore_pad_token_for_loss", settings)
        self.assertIn("not carried over: --ignore_pad_token_for_loss: without --pad_to_max_length", "\n".join(said))

    def test_other_models_of_summaries_are_named(self):
        for name, is_named in (("facebook/bart-large-cnn", True), ("google/mt5-small", True), ("google/flan-t5-base", False), ("pszemraj/led-base", True), ("t5-base-distilled-x", False)):
            said = convert(T5.replace("google-t5/t5-small", name) + "--train_file a.csv")[2]
            self.assertEqual("Bascule trains T5" in "\n".join(said), is_named, name)

    def test_the_beginning_of_a_flag_stands_for_the_only_one_that_begins_so(self):
        _, settings, said = convert(T5 + "--dataset_name cnn_dailymail --dataset_config 3.0.0 --per_device_train 2")
        self.assertEqual((settings["training.per_device_train_batch_size"], settings["data.train_file"]), ("2", '"data/cnn_dailymail-3.0.0/train.jsonl"'))
        self.assertIn("not carried over: --adam_beta: no such setting", convert(LEAST + "--adam_beta 0.5")[2])

    def test_an_unknown_flag_is_named(self):
        said = convert(LEAST + "--frobnicate 3")[2]
        self.assertIn("not carried over: --frobnicate: no such setting", said)

    def test_nonsense_is_one_line_and_exit_code_2(self):
        for text in ("", "python train.py", LEAST + "--seed x", LEAST + "--seed 1 2", "run_bridgetower.py stray",
                     LEAST.replace("--do_train", ""), LEAST.replace("--output_dir o", ""), LEAST + "'",
                     LEAST.replace("--model_name_or_path m", ""), "mpirun -np x " + LEAST, VIT, BERT, T5, VIT + "--do_eval",
                     "run_mlm.py --output_dir o --do_train --train_file a.txt --model_type bert", BERT + "--train_file ''",
                     VIT + "--train_dir d --do_eval --train_val_split 1.5", BERT + "--train_file a.txt --validation_split_percentage 0",
                     *(LEAST + f"--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs '{value}'" for value in ('{"min_lr": "x"}', '{"min_lr_rate": [1]}', "[1]")),
                     LEAST + "--learning_rate nan", LEAST + "--learning_rate 0 --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs '{\"min_lr\": 1e-6}'"):
            code, settings, said = convert(text)
            self.assertEqual((code, settings, len(said)), (2, {}, 1), text)

    def test_settings_that_cannot_be_written_are_exit_code_6(self):
        for redirection in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, TOOL, LEAST], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (6, 1), done.stderr)
            self.assertIn("standard output: ", done.stderr)
