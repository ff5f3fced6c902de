# SPDX-License-Identifier: Apache-2.0
"""Texts that a T5 writes: in evaluations and by `bascule generate`, their bits, their files, and what is refused."""
import html
import json
import re
import shutil
import subprocess
import unittest

from bascule_run import PROGRAM, ROOT, SharedFolderTest, has_mpi, instruction_sets, run, run_ends, run_ok, settings

UNIGRAM = ROOT / "tests" / "data" / "tokenizer" / "unigram"
KEYWORDS = ROOT / "tests" / "data" / "emoji-keywords"
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
CONFIG = {"model_type": "t5", "vocab_size": 2100, "d_model": 48, "d_kv": 10, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3,
          "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def make_model(folder, **members):
    folder.mkdir(parents=True)
    for file in UNIGRAM.iterdir():
        shutil.copy(file, folder)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **members}))
    return folder


def make_settings(folder, model, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    return settings(folder, **{
        "model__model_name_or_path": f'"{model}"', "model__tokenizer_name": None, "data__train_file": f'"{KEYWORDS}/train.jsonl"',
        "data__validation_file": f'"{KEYWORDS}/validation.jsonl"', "data__test_file": f'"{KEYWORDS}/test.jsonl"', "data__text_column": '"text"',
        "data__summary_column": '"summary"', "data__source_prefix": '"keywords: "', "data__max_source_length": "32", "data__max_target_length": "12",
        "data__max_eval_samples": "40", "data__max_predict_samples": "30", "data__max_seq_length": None, "data__preprocessing": None,
        "media_engine__memory_mib": None, "training__max_steps": "60", "training__per_device_train_batch_size": "32", "training__learning_rate": "3e-3",
        "training__save_steps": "20", "training__predict_with_generate": "true", **changes})


class Generate(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = make_model(cls.folder / "model")
        run_ok("run", make_settings(cls.folder / "base", cls.model, training__max_steps="250", training__save_steps="250"))
        cls.run_folder = cls.folder / "base" / "run"

    def predictions(self, folder=None):
        return [json.loads(line) for line in ((folder or self.run_folder) / "predictions.jsonl").read_text().split("\n") if line]

    def generate(self, *arguments, code=0, stdin=None, folder=None):
        done = subprocess.run([str(PROGRAM), "generate", str(folder or self.run_folder), *map(str, arguments)], capture_output=True, input=stdin, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode() if code == 0 else done.stderr.decode()

    def test_an_evaluation_leaves_figures_and_texts(self):
        results = json.loads((self.run_folder / "all_results.json").read_text())
        for split in ("validation", "test"):
            for name in ROUGE:
                self.assertTrue(0 < results[f"{split}_{name}"] < 100, name)
            self.assertTrue(0 < results[f"{split}_gen_len"] <= 11)
        rows = self.predictions()
        self.assertEqual([row["row"] for row in rows], list(range(30)))
        truth = [json.loads(line) for line in (KEYWORDS / "test.jsonl").read_text().splitlines()[:30]]
        for row, own in zip(rows, truth):
            self.assertEqual((row["text"], row["summary"]), (own["text"], own["summary"]))
            self.assertEqual(set(row), {"row", "text", "summary", "generated", "tokens", "score"})
        self.assertEqual((self.run_folder / "generated_predictions.txt").read_text().splitlines(), [row["generated"] for row in rows])
        mean = sum(row["tokens"] for row in rows) / len(rows)
        self.assertAlmostEqual(results["test_gen_len"], mean, 1)  # but for padding that a live row may write
        page = (self.run_folder / "report.html").read_text().replace("<wbr>", "")
        self.assertIn("Generated texts", page)
        self.assertIn("ROUGE-Lsum", page)
        written = run("settings", self.folder / "base" / "run.toml").stdout
        shown = re.findall(r'<th scope="row">(\w+)</th><td>(.*?)</td>', page.split("<h2>Settings</h2>")[1].split("</section>")[0])
        self.assertEqual([(key, html.unescape(value)) for key, value in shown], re.findall(r"^(\w+) = (.*)$", written, re.M))

    def test_the_command_writes_what_the_run_did(self):
        rows = self.predictions()
        lines = "".join(row["text"] + "\n" for row in rows).encode()
        texts = self.generate("-", stdin=lines).splitlines()
        self.assertEqual(texts, [row["generated"] for row in rows])
        for batch in (1, 7):
            self.assertEqual(self.generate("-", "--batch", batch, stdin=lines).splitlines(), texts, batch)
        self.assertEqual(self.generate(*[row["text"] for row in rows[:9]], "--batch", 4).splitlines(), texts[:9])

    def test_the_folder_says_how_the_run_wrote(self):
        said = json.loads((self.run_folder / "generation_config.json").read_text())
        self.assertEqual(said, {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "num_beams": 1, "max_length": 12, "min_length": 0, "length_penalty": 1.0,
                                "early_stopping": False, "no_repeat_ngram_size": 0})
        self.assertEqual(json.loads((self.run_folder / "checkpoint-250/generation_config.json").read_text()), said)

    def test_a_text_that_stops_at_a_limit_is_said(self):
        arguments = ["generate", self.run_folder, "red heart", "cat " * 100, "", "--max-new-tokens"]
        done = run(*arguments, 1, "--json")
        self.assertEqual([(row["tokens"], row["cut"], row["source_cut"]) for row in json.loads(done.stdout)["texts"]], [(1, True, False), (1, True, True), (0, False, False)])
        self.assertEqual([line for line in done.stderr.splitlines() if "generated" in line],
                         [f"bascule: text {number}: the generated text is cut at 1 token; raise --max-new-tokens" for number in (1, 2)])
        self.assertIn("; raise --max-length\n", run(*arguments[:3], "--max-length", 2).stderr)
        whole = run(*arguments[:3], "--max-new-tokens", 40, "--json")
        self.assertFalse(json.loads(whole.stdout)["texts"][0]["cut"], whole.stdout)
        self.assertEqual(whole.stderr, "")
        lines = run("generate", self.run_folder, "-", "--batch", 1, "--max-new-tokens", 1, input="red heart\n\ncat\n").stderr
        self.assertEqual([line.split(": the ")[0] for line in lines.splitlines()], ["bascule: standard input: line 1", "bascule: standard input: line 3"])

    def test_a_path_is_words_which_is_said(self):
        path = str(KEYWORDS / "train.jsonl")
        said = run("generate", self.run_folder, "cat", path).stderr.splitlines()
        self.assertEqual([line for line in said if "file" in line], [f'bascule: the model reads texts: "{path}" is taken as words, and the file of that name is not read'])

    def test_lines_are_answered_in_order_as_they_come(self):
        process = subprocess.Popen([str(PROGRAM), "generate", str(self.run_folder), "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdin.write(b"red heart\n")
        process.stdin.flush()
        self.assertTrue(process.stdout.readline().endswith(b"\n"))  # before the end of the input
        process.stdin.write(b"\ncat\r\nno line break")
        process.stdin.close()
        lines = process.stdout.read().decode().split("\n")
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], "")  # an empty line gives an empty line
        self.assertEqual(lines[1] + "\n", self.generate("cat"))
        for stream in (process.stdout, process.stderr):
            stream.close()

    def test_options_act(self):
        document = json.loads(self.generate("red heart", "cat", "--num-beams", 3, "--max-new-tokens", 9, "--json"))
        self.assertEqual([row["text"] for row in document["texts"]], ["red heart", "cat"])
        self.assertTrue(all(row["score"] < 0 and 0 < row["tokens"] <= 9 for row in document["texts"]))
        longest = json.loads(self.generate("red heart", "--min-new-tokens", 15, "--max-new-tokens", 15, "--json"))["texts"][0]
        self.assertEqual(longest["tokens"], 15)
        self.assertNotIn("score", longest)
        self.assertEqual(json.loads(self.generate("red heart", "--max-length", 1, "--json"))["texts"][0]["tokens"], 0)
        short, long = (json.loads(self.generate("red heart", "--num-beams", 4, "--length-penalty", penalty, "--early-stopping", "never", "--json"))["texts"][0]["tokens"]
                       for penalty in (-5, 5))
        self.assertLess(short, long)
        self.assertNotEqual(self.generate("cat", "--prefix", ""), self.generate("cat", "--prefix", "keywords of many things: "))
        nineteen = ["cat", "--min-new-tokens", 19, "--max-new-tokens", 20]
        self.assertNotEqual(self.generate(*nineteen, "--no-repeat-ngram-size", 1), self.generate(*nineteen))

    def test_bf16_gives_the_same_bits_for_any_batch(self):
        """6 rows read their weights without packing them; 30 pack them; for 72 the head's weights are no copy."""
        texts = [f"heart {number}" for number in range(12)]
        one, *others = (self.generate(*texts, "--num-beams", 6, "--max-new-tokens", 6, "--precision", "bf16", "--batch", batch, "--json") for batch in (1, 5, 12))
        self.assertEqual(len(json.loads(one)["texts"]), 12)
        for other in others:
            self.assertEqual(json.loads(other)["texts"], json.loads(one)["texts"])

    def test_bf16_gives_almost_the_scores_of_float32(self):
        float32, bf16 = (json.loads(self.generate("red heart", "cat", "--num-beams", 2, "--precision", precision, "--json"))["texts"] for precision in ("float32", "bf16"))
        for one, other in zip(float32, bf16):
            self.assertNotEqual(one["score"], other["score"])
            self.assertAlmostEqual(one["score"], other["score"], delta=0.05)
        self.generate("cat", "--precision", "half", code=2)

    def test_a_text_that_is_too_long_is_cut_and_said(self):
        done = run_ok("generate", self.run_folder, "cat " * 100)
        self.assertRegex(done.stderr, r"text 1 has \d+ tokens and is cut to 32")
        self.assertEqual(done.stdout, self.generate("cat " * 100, "--max-source-length", 32))
        cut, whole = (json.loads(self.generate("cat " * 100, "--num-beams", 2, "--max-source-length", length, "--json"))["texts"][0]["score"] for length in (32, 200))
        self.assertNotEqual(cut, whole)

    def test_the_prefix_of_a_folder_of_transformers_is_said(self):
        folder = self.folder / "foreign"
        shutil.copytree(self.run_folder, folder)
        (folder / "bascule.json").unlink()
        config = json.loads((folder / "config.json").read_text())
        config["task_specific_params"] = {"summarization": {"prefix": "keywords: ", "num_beams": 4}}
        (folder / "config.json").write_text(json.dumps(config))
        done = run("generate", folder, "cat")
        self.assertIn('prefix "keywords: "', done.stderr)
        self.assertIn("task_specific_params.summarization.prefix", run("generate", "--help").stdout)
        self.assertEqual(done.stdout, self.generate("cat"))

    def test_what_cannot_be_is_refused_in_one_line(self):
        for arguments, code, words in ((["cat", "--num-beams", 2101], 2, "above"), (["cat", "--num-beams", 1000, "--max-length", 3, "--min-length", 4], 2, "min_length = 4 is above"),
                                       (["cat", "--max-new-tokens", 0], 2, "max-new-tokens"), (["cat", "--max-new-tokens", 1 << 20], 2, "1 to 1048575"),
                                       (["cat", "--max-length", 9, "--max-new-tokens", 8], 2, "--max-new-tokens excludes --max-length"), (["cat", "--min-new-tokens", 8, "--min-length", 9], 2, "excludes"),
                                       (["\udcff"], 3, "UTF-8"), ([], 2, "texts")):
            line = self.generate(*arguments, code=code)
            self.assertIn(words, line, arguments)
            self.assertEqual(len(line.strip().splitlines()), 1, line)
        done = subprocess.run([str(PROGRAM), "generate", str(self.run_folder), "-"], capture_output=True, input=b"cat\n\xff\ncat\n", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"standard input: line 2", done.stderr)
        self.assertEqual(done.stdout.decode(), self.generate("cat"))  # the lines before it are answered
        done = subprocess.run([str(PROGRAM), "generate", str(self.run_folder), "-", "--json", "--batch", "1"], capture_output=True, input=b"cat\n\xff\ncat\n", check=False)
        self.assertEqual(done.returncode, 3)
        document = json.loads(done.stdout)  # one document
        self.assertEqual(document["texts"], json.loads(self.generate("cat", "--json"))["texts"])
        self.assertEqual((document["error"]["exit_code"], document["error"]["where"]), (3, "standard input: line 2"))
        self.assertEqual(self.generate("-", stdin=b""), "")
        self.assertEqual(self.generate(""), "\n")

    def test_a_prompt_of_nothing_but_the_prefix_is_a_source(self):
        line = self.generate(" ")
        self.assertEqual(line.count("\n"), 1)
        self.assertEqual(self.generate("keywords:", "--prefix", ""), line)  # white space at its end is no token

    def test_generation_config(self):
        folder = self.folder / "own"
        shutil.copytree(self.run_folder, folder)
        own = folder / "generation_config.json"
        own.write_text(json.dumps({"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "num_beams": 3, "max_new_tokens": 5}))
        self.assertEqual(self.generate("cat", folder=folder), self.generate("cat", "--num-beams", 3, "--max-new-tokens", 5))
        own.write_text(json.dumps({"decoder_start_token_id": 0, "eos_token_id": 1, "max_new_tokens": 30, "min_length": 25}))
        long, short = (json.loads(self.generate("cat", "--json", *least, folder=folder))["texts"][0]["tokens"] for least in ((), ("--min-new-tokens", 0)))
        self.assertTrue(short < 24 <= long, (short, long))
        own.write_text("{}")
        self.assertIn("that of config.json is used", run("generate", folder, "cat").stderr)
        for text, words in (("{", "generation_config.json"), ('{"decoder_start_token_id": 0, "do_sample": true}', "do_sample = true is not supported"),
                            ('{"decoder_start_token_id": 5000}', "decoder_start_token_id = 5000"),
                            ('{"decoder_start_token_id": 0, "max_length": 2147483648}', "max_length = 2147483648 is above"),
                            ('{"decoder_start_token_id": 0, "max_new_tokens": 9223372036854775807}', "max_new_tokens = 9223372036854775807 is not between"),
                            ('{"decoder_start_token_id": 0, "min_new_tokens": -5}', "min_new_tokens = -5"), ('{"decoder_start_token_id": 0, "length_penalty": 1e308}', "length_penalty"),
                            ('{"decoder_start_token_id": 0, "eos_token_id": []}', "eos_token_id")):
            own.write_text(text)
            self.assertIn(words, self.generate("cat", folder=folder, code=3))

    def test_a_closed_pipe_is_no_failure(self):
        texts = "".join("cat\n" for _ in range(300))
        done = subprocess.run(f"printf '{texts}' | '{PROGRAM}' generate {self.run_folder} - | head -1", shell=True, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, self.generate("cat"))
        self.assertNotIn("bug", done.stderr)

    def test_it_ends_when_nobody_reads_on(self):
        done = subprocess.run(["timeout", "60", "bash", "-c", f"yes cat | '{PROGRAM}' generate {self.run_folder} - | head -1"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, self.generate("cat")))

    def test_damaged_weights_are_no_text(self):
        folder = self.folder / "damaged"
        shutil.copytree(self.run_folder, folder)
        weights = bytearray((folder / "model.safetensors").read_bytes())
        header = json.loads(weights[8:8 + int.from_bytes(weights[:8], "little")])
        begin = 8 + int.from_bytes(weights[:8], "little") + header["decoder.final_layer_norm.weight"]["data_offsets"][0]
        weights[begin:begin + 4] = b"\x00\x00\xc0\x7f"  # a NaN
        (folder / "model.safetensors").write_bytes(weights)
        for arguments in ([], ["--num-beams", 3]):
            self.assertIn("logits are not finite", self.generate("cat", *arguments, folder=folder, code=3))
        done = run_ends(3, "run", make_settings(self.folder / "of-damaged", folder, model__from_scratch="false", data__train_file=None, training__max_steps=None,
                                                training__save_steps=None, training__learning_rate=None))
        self.assertIn("damaged: the model's logits are not finite; its weights may be damaged", done.stderr.splitlines()[-1])

    def test_many_beams_take_no_time_of_their_own(self):
        texts = self.generate("cat", "--num-beams", 512, "--max-length", 6)
        self.assertEqual(texts.count("\n"), 1)

    def test_another_model_is_refused(self):
        bert = ROOT / "tests" / "data" / "goldens-families" / "bert_masked_lm"
        self.assertIn("bascule generate does not work with", self.generate("cat", folder=bert, code=3))

    def texts_of(self, name, **changes):
        run_ok("run", make_settings(self.folder / name, self.run_folder, model__from_scratch="false", data__train_file=None, training__max_steps=None,
                                    training__save_steps=None, training__learning_rate=None, **changes))
        folder = self.folder / name / "run"
        results = json.loads((folder / "all_results.json").read_text())
        return (folder / "predictions.jsonl").read_bytes(), [results[f"{split}_{figure}"] for split in ("validation", "test") for figure in (*ROUGE, "gen_len", "loss")]

    def test_texts_and_figures_depend_on_nothing_but_the_settings(self):
        for beams in ("1", "3"):
            whole = self.texts_of(f"whole-{beams}", generation__num_beams=beams)
            for name, other in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("more", {"machine__threads": "4"}),
                                ("batch", {"training__per_device_eval_batch_size": "7"}),
                                *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar" or beams == "1")):
                texts, figures = self.texts_of(f"{name}-{beams}", generation__num_beams=beams, **other)
                self.assertEqual(texts, whole[0], name)
                self.assertEqual(figures[:5] + figures[6:11], whole[1][:5] + whole[1][6:11], name)
        self.assertNotEqual(self.texts_of("whole-1", generation__num_beams="1"), self.texts_of("whole-3", generation__num_beams="3"))

    def test_the_other_figures_are_those_of_a_run_that_writes_nothing(self):
        figures = []
        for name, value in (("writes", "true"), ("does-not-write", "false")):
            self.texts_of(name, training__predict_with_generate=value) if value == "true" else run("run", make_settings(
                self.folder / name, self.run_folder, model__from_scratch="false", data__train_file=None, training__max_steps=None, training__save_steps=None,
                training__learning_rate=None, training__predict_with_generate=value))
            results = json.loads((self.folder / name / "run" / "all_results.json").read_text())
            figures.append({key: value for key, value in results.items() if key.endswith(("_loss", "_accuracy", "_perplexity"))})
        self.assertEqual(len(figures[0]), 6)
        self.assertEqual(*figures)

    def test_a_run_that_only_evaluates_has_no_average(self):
        self.assertEqual(self.texts_of("no-average", training__ema_decay="0.9", training__generate_ema="true"), self.texts_of("no-average-asked"))

    def test_the_record_holds_the_texts(self):
        self.texts_of("recorded")
        folder = self.folder / "recorded" / "run"
        done = run_ok("reproduce", folder)
        self.assertIn("equal bits: 2 evaluations are as recorded", done.stdout)
        lines = (folder / "predictions.jsonl").read_text()
        (folder / "predictions.jsonl").write_text(lines.replace('"generated": "', '"generated": "x', 1))
        done = run_ends(7, "reproduce", folder, "--check")
        self.assertIn("result ", done.stdout)
        self.assertIn("predictions.jsonl", done.stdout)
        (folder / "predictions.jsonl").write_text(lines)
        self.assertEqual(run("reproduce", folder, "--check").returncode, 0)
        texts = (folder / "generated_predictions.txt").read_text()
        (folder / "generated_predictions.txt").write_text("x" + texts)
        self.assertEqual(run("reproduce", folder, "--check").returncode, 7)

    @unittest.skipUnless(has_mpi(), "built without MPI")
    def test_ranks_share_the_texts(self):
        whole = self.texts_of("one-rank")
        self.assertEqual(self.texts_of("two-ranks", distributed__world_size="2"), whole)

    def test_settings_are_refused_or_named(self):
        def refusal(**changes):
            done = run_ends(2, "run", make_settings(self.folder / "refused", self.model, **changes))
            return done.stderr.strip().splitlines()[-1]
        self.assertIn("asks for 13 tokens or more, but texts have 12 at most", refusal(generation__min_length="13"))
        self.assertIn("generate_ema", refusal(training__generate_ema="true"))
        self.assertIn("figure of generated texts", refusal(training__predict_with_generate="false", training__metric_for_best_model='"rougeLsum"', training__eval_strategy='"epoch"',
                                                           training__save_strategy='"epoch"', training__save_steps=None))
        self.assertIn('"gen_len" has no best value; choose one of: loss, accuracy, ', refusal(training__metric_for_best_model='"gen_len"', training__eval_strategy='"epoch"', training__save_strategy='"epoch"',
                                                                                             training__save_steps=None))
        done = run("run", make_settings(self.folder / "named", self.model, training__predict_with_generate="false", generation__num_beams="3", training__max_steps="2"))
        self.assertIn("generation.num_beams (no text is generated)", done.stderr)
        said = json.loads((self.folder / "named/run/generation_config.json").read_text())
        self.assertEqual(said, {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "max_length": 12})

    def test_the_best_is_chosen_by_rouge_and_the_average_is_judged_only_if_asked(self):
        for ema in (False, True):
            name = f"best-{ema}"
            run_ok("run", make_settings(self.folder / name, self.model, training__eval_strategy='"steps"', training__eval_steps="20", training__load_best_model_at_end="true",
                                        training__metric_for_best_model='"rougeLsum"', training__ema_decay="0.9", training__generate_ema=str(ema).lower()))
            folder = self.folder / name / "run"
            state = json.loads((folder / "trainer_state.json").read_text())
            figures = {entry["step"]: entry["eval_rougeLsum"] for entry in state["log_history"] if "eval_rougeLsum" in entry}
            self.assertEqual(state["best_metric"], max(figures.values()))
            results = json.loads((folder / "all_results.json").read_text())
            page = (folder / "report.html").read_text()
            for figure in ("ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum"):
                self.assertRegex(page, rf"</svg>{figure} <b>[\d.]+</b>")  # a line of a chart
            self.assertEqual(any("ema_rouge" in key for key in results), ema, sorted(results))

    def test_bench_measures_generation(self):
        path = make_settings(self.folder / "bench", self.model)
        found = json.loads(run("bench", path, "--use", "generate", "--num-beams", "2,3", "--new-tokens", "6", "--steps", "2", "--json").stdout)
        self.assertEqual(found["measured"], "generation")
        for column in found["columns"]:
            self.assertAlmostEqual(column["tokens_per_second"] / column["samples_per_second"]["median"], 6, delta=0.5)
            # A token reads each of the decoder's weights, those of keys and values of the source left out; its replay is a part of the step.
            width, inner = CONFIG["d_model"], CONFIG["num_heads"] * CONFIG["d_kv"]
            weights = CONFIG["num_decoder_layers"] * width * (6 * inner + 2 * CONFIG["d_ff"]) + CONFIG["vocab_size"] * width
            self.assertTrue(4 * weights < column["decoding"]["bytes"] < 40 * weights, column["decoding"])
            self.assertTrue(0 < column["decoding"]["seconds"] < max(column["step_seconds"]), column["decoding"])
        self.assertIn("cached_attention", [operation["name"] for operation in found["operations"]])
        self.assertGreater(found["limits"]["read_gigabytes_per_second"], 0)
        self.assertRegex(run("bench", path, "--use", "generate", "--steps", "1").stdout, r"tokens/s[^~]*decoder, next tokens +[\d.]+ ms\n +memory traffic +[\d.]+ MB\n +GB/s +[\d.]+\n +of reading memory +[\d.]+ %\n")
        self.assertEqual(run("bench", path, "--new-tokens", "6").returncode, 2)
        epochs = make_settings(self.folder / "bench", self.model, training__max_steps=None, training__num_train_epochs="2", training__save_steps=None, training__save_strategy='"epoch"',
                               training__eval_strategy='"epoch"', training__load_best_model_at_end="true")
        for arguments in (["--use", "generate", "--batch", "4,8"], ["--max-source-length", "8,16"], ["--use", "evaluate", "--max-target-length", "8"]):
            run_ok("bench", epochs, "--steps", "1", *arguments)

    def test_what_needs_too_much_memory_is_refused_with_what_fits(self):
        line = self.generate("cat", "--num-beams", 1000, "--max-length", 1000000, code=4)
        fitting = re.search(r"needs [0-9.]+ [GT]iB, and this machine has .*; --max-length (\d+) or --num-beams (\d+) would fit$", line.strip())
        for number, option in ((1, ("--num-beams", 1000, "--max-length", int(fitting[1]) + 1)), (2, ("--max-length", 1000000, "--num-beams", int(fitting[2]) + 1))):
            self.assertIn(f" {fitting[number]} ", self.generate("cat", *option, code=4))  # one more does not fit
        new_tokens = self.generate("cat", "--num-beams", 1000, "--max-new-tokens", 999999, code=4)
        self.assertIn(f"; --max-new-tokens {int(fitting[1]) - 1} or ", new_tokens)  # the word that the command has
        line = self.generate("-", "--batch", 4096, "--num-beams", 2000, "--max-length", 1000000, "--max-source-length", 65536, code=4, stdin=b"cat\n")
        self.assertRegex(line, r"; --num-beams 1, --batch 1 and --max-length \d+ would fit together$")
