# SPDX-License-Identifier: Apache-2.0
"""Commands beside `run`, and what they print to: nothing hangs, nothing is lost without a word."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, patient, run, run_ends, run_ok, settings
from drawing import copy_pipeline, drawing

PICTURE = EMOJI / "images" / "1f004.jpg"
SETTINGS, DATA, DISK = 2, 3, 6


class CommandLine(FolderTest):
    def test_what_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w") as full:
            for arguments in (("plan", settings(self.folder)), ("decode", "--output", self.folder / "p.safetensors", PICTURE), ("--version",), ("--help",), ("run", "--help"), ("help",)):
                done = subprocess.run([str(PROGRAM), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=patient(60))
                self.assertEqual(done.returncode, DISK, done.stderr)
                self.assertIn("standard output", done.stderr)

    def test_results_that_a_run_cannot_print_are_an_error_but_for_a_reader_that_has_gone(self):
        for ranks in ("1", "2"):
            for place, code in (("full disk", DISK), ("closed pipe", 0), ("closed descriptor", 0)):
                with self.subTest(ranks=ranks, place=place), tempfile.TemporaryDirectory() as folder:
                    toml = settings(folder, distributed__world_size=ranks, training__max_steps="1")
                    reader, target = os.pipe() if place == "closed pipe" else (os.open("/dev/null", os.O_RDONLY), os.open("/dev/full", os.O_WRONLY))
                    os.close(reader)
                    command = [str(PROGRAM), "run", str(toml)]
                    if place == "closed descriptor":
                        command = ["sh", "-c", 'exec "$0" "$@" >&-', *command]
                    done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, timeout=patient(120))
                    os.close(target)
                    self.assertEqual(done.returncode, code, done.stderr)
                    last = "bascule: standard output: writing failed" if code == DISK else "bascule: run: finished"
                    self.assertIn(last, done.stderr.splitlines()[-1])
                    for file in ("model.safetensors", "all_results.json", "bascule.json"):
                        self.assertTrue(pathlib.Path(folder, "run", file).exists())

    def test_a_reader_that_stops_reading_ends_no_command(self):
        output = self.folder / "p.safetensors"
        for arguments, code in ((["settings"], 0), (["settings", "--json"], 0), (["plan", settings(self.folder), "--json"], 0), (["plan", "--json"], SETTINGS),
                                (["decode", "--output", output, PICTURE], 0), (["--help"], 0)):
            with self.subTest(arguments=arguments):
                reader, target = os.pipe()
                os.close(reader)
                done = subprocess.run([str(PROGRAM), *map(str, arguments)], stdout=target, stderr=subprocess.PIPE, text=True, timeout=patient(60))
                os.close(target)
                self.assertEqual(done.returncode, code, done.stderr)
        self.assertTrue(output.exists())

    def test_decode_takes_three_numbers_and_leaves_the_files_alone(self):
        output = self.folder / "p.safetensors"
        done = run_ok("decode", "--output", output, "--mean", "0.5,0.5,0.5", "--std", "0.5,0.25,1", PICTURE)
        self.assertTrue(json.loads(done.stdout)["ok"])
        wrong_ones = ("0.5", "a,b,c", "1,2,3,4", "1,2,", ",1,2", "inf,0,0")
        for option, wrong in (*(("--mean", wrong) for wrong in wrong_ones), *(("--std", wrong) for wrong in (*wrong_ones, "1,0,1", "1,1,-1"))):
            self.assertIn(option, run_ends(SETTINGS, "decode", "--output", output, option, wrong, PICTURE).stderr)

    def test_decode_does_not_write_over_a_picture(self):
        copy = self.folder / "copy.jpg"
        copy.write_bytes(PICTURE.read_bytes())
        run_ends(SETTINGS, "decode", "--output", copy, copy)
        self.assertEqual(copy.read_bytes(), PICTURE.read_bytes())

    def test_decode_does_not_wait_for_a_pipe_without_a_writer(self):
        pipe = self.folder / "pipe.jpg"
        os.mkfifo(pipe)
        done = run_ends(DATA, "decode", "--output", self.folder / "p.safetensors", pipe, PICTURE)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertFalse(first["ok"])
        self.assertIn("not a file", first["error"])
        self.assertTrue(second["ok"])
        self.assertEqual(done.stderr, f"bascule: decode: {pipe}: {first['error']}\n")
        done = run("decode", "--output", self.folder / "none.safetensors", pipe)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (DATA, 1), done.stderr)
        self.assertFalse((self.folder / "none.safetensors").exists())

    def test_a_pipe_in_place_of_a_file_is_refused_instead_of_waited_for(self):
        def is_refused(code, line, *arguments):
            done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=patient(60), stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, line in done.stderr), (code, True), done.stderr)
        output = self.folder / "p.safetensors"
        for name in ("config.json", "preprocessor_config.json", "bascule.json"):
            model = self.folder / name.split(".")[0]
            shutil.copytree(EMOJI / "model", model)
            (model / name).unlink(missing_ok=True)
            os.mkfifo(model / name)
            is_refused(DATA, f"{model}/{name}: is not a file", "decode", "--model", model, "--output", output, PICTURE)
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        (tokenizer / "vocab.json").write_text('{"a": 0}')
        os.mkfifo(tokenizer / "merges.txt")
        is_refused(DATA, f"{tokenizer}/merges.txt: is not a file", "tokenize", "--model", tokenizer)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        is_refused(DATA, f"{pipe}: is not a file", "bringup", "--quick", "--only", "cores", "--against", pipe)
        is_refused(SETTINGS, f'--output: "{pipe}" is not a file; name a file', "decode", "--output", pipe, PICTURE)

    def test_settings_may_come_from_a_pipe(self):
        toml = settings(self.folder)
        done = subprocess.run(["bash", "-c", '"$0" plan <(cat "$1")', str(PROGRAM), str(toml)], capture_output=True, text=True, timeout=patient(60))
        self.assertEqual((done.returncode, done.stdout), (0, run("plan", toml).stdout), done.stderr)

    def test_an_output_does_not_take_the_place_of_what_the_command_reads(self):
        toml, model, images, output = settings(self.folder), self.folder / "model", self.folder / "images", self.folder / "run"
        shutil.copytree(EMOJI / "model", model)
        for folder in (images / "deep", output / "checkpoint-3", output / "ema"):
            folder.mkdir(parents=True)
        picture, profile = images / "deep" / "a.jpg", self.folder / "profile.json"
        shutil.copy(PICTURE, picture)
        profile.write_text("{}")
        for name in ("model.safetensors", "bascule.json", "report.html", "checkpoint-3/config.json", "ema/anything"):
            (output / name).write_text("kept")
        for name in ("model.safetensors", "tokenizer.json"):
            (model / name).write_text("kept")
        os.link(model / "config.json", self.folder / "hard link")
        os.symlink("model/config.json", self.folder / "link")
        (self.folder / "also").symlink_to(".")
        of_model, of_run = f"a file of the model or the run in {model}", f"a file of the model or the run in {output}"
        decode, search, plan = ("decode", "--model", model, picture), ("search", output, "text"), ("plan", toml)
        own = json.dumps(str(model))
        planned = self.folder / "planned"
        planned.mkdir()
        of_plan = settings(planned, model__model_name_or_path=own, training__output_dir=json.dumps(str(output)))
        cases = [(decode, "--output", model / "model.safetensors", of_model), (decode, "--output", model / "tokenizer.json", of_model),
                 (decode, "--output", model / "vocab.txt", of_model), (decode, "--output", self.folder / "hard link", of_model),
                 (decode, "--output", self.folder / "link", of_model), (decode, "--output", picture, "one of the pictures"),
                 *[(search, "--html", output / name, of_run) for name in ("model.safetensors", "report.html", "all_results.json", "checkpoint-3/config.json", "ema/anything")],
                 ((*search, "--images", images), "--html", picture, "one of the pictures"), (("search", output, "--picture", picture), "--html", picture, "the picture that is asked for"),
                 (("search", output, picture), "--html", picture, "the picture that is asked for"),
                 (plan, "--svg", toml, "the settings file"), (plan, "--unit", self.folder / "also" / "run.toml", "the settings file"),
                 (("plan", of_plan), "--svg", model / "config.json", of_model), (("plan", of_plan), "--unit", output / "bascule.json", of_run),
                 ((*plan, "--svg", self.folder / "new"), "--unit", self.folder / "also" / "new", "the file of --svg too"),
                 (("bringup", "--save", profile), "--html", profile, "the file of --save too"),
                 (("bringup", "--against", profile), "--save", profile, "the profile of --against"),
                 (("doctor", toml), "--html", toml, "the settings file"), (("doctor", toml), "--html", EMOJI / "train.jsonl", "a file of the data"),
                 (("doctor", toml, "--profile", profile), "--html", profile, "the profile of --profile")]
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        for command, option, path, what in cases:
            with self.subTest(command=command[0], path=path):
                self.refused([*command, option, path], f"{option}: {path} is {what}; choose another file")
        self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}, before)

    def test_an_output_among_files_of_a_model_that_are_none_of_its_own(self):
        model = self.folder / "model"
        shutil.copytree(EMOJI / "model", model)
        for _ in range(2):
            run_ok("decode", "--model", model, "--output", model / "pixels.safetensors", PICTURE)
        (model / "search.html").write_text("of an earlier search")
        run_ends(DATA, "search", model, "text", "--html", model / "search.html")  # no embeddings: the output was not what is wrong

    def test_a_plan_is_not_drawn_over_the_data(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({**json.loads(line), "image": str(EMOJI / json.loads(line)["image"])}) + "\n" for line in (EMOJI / "train.jsonl").read_text().splitlines()))
        before = rows.read_bytes()
        self.refused(["plan", settings(self.folder, data__train_file=json.dumps(str(rows))), "--svg", rows], f"--svg: {rows} is a file of the data; choose another file")
        self.assertEqual(rows.read_bytes(), before)

    def test_no_output_takes_the_place_of_a_picture_of_the_data(self):
        shutil.copy(PICTURE, self.folder / "a.jpg")
        shutil.copy(EMOJI / "images" / "1f600.jpg", self.folder / "no ending")
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"image": name, "caption": name}) + "\n" for name in ("a.jpg", "no ending")))
        toml = settings(self.folder, data__train_file='"rows.jsonl"', data__test_file='"rows.jsonl"', training__max_steps="1", training__per_device_train_batch_size="2")
        run_ok("run", toml)
        os.link(self.folder / "no ending", self.folder / "linked")
        before = {name: (self.folder / name).read_bytes() for name in ("a.jpg", "no ending")}
        for command in (["plan", toml, "--svg"], ["plan", toml, "--unit"], ["search", self.folder / "run", "a text", "--html"]):
            for name in ("a.jpg", "linked"):
                with self.subTest(command=command, name=name):
                    self.refused([*command, self.folder / name], f"{command[-1]}: {self.folder / name} is one of the pictures; choose another file")
        self.assertEqual({name: (self.folder / name).read_bytes() for name in before}, before)

    def test_no_output_takes_the_place_of_a_file_of_a_run_that_draws(self):
        model, output = copy_pipeline(self.folder / "model"), self.folder / "run"
        toml = drawing(self.folder, model, prompts='["a cat"]', num_images_per_prompt="1", num_inference_steps="1")
        run_ok("run", toml)
        self.assertTrue((output / "00000.png").exists())
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        for command in (["plan", toml, "--svg"], ["plan", toml, "--unit"], ["doctor", toml, "--html"], ["list", output, "--html"]):
            for path in output.iterdir():
                with self.subTest(command=command, path=path.name):
                    self.refused([*command, path], f"{command[-1]}: {path} is a file of the model or the run in {output}; choose another file")
            if command[0] != "list":
                path = model / "unet" / "config.json"
                self.refused([*command, path], f"{command[-1]}: {path} is in the folder of the pipeline; choose another file")
        self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}, before)

    def test_tokenize_without_input(self):
        done = subprocess.run(["sh", "-c", '"$0" tokenize --model "$1" <&-', str(PROGRAM), str(EMOJI / "tokenizer")],
                              capture_output=True, text=True, timeout=patient(60))
        self.assertEqual(done.returncode, DATA, done.stderr)
        self.assertIn("standard input", done.stderr)

    def test_help_fits_eighty_columns(self):
        commands = re.findall(r"^  (\w+) ", run("--help").stdout.split("Subcommands:")[1], re.M)
        self.assertIn("run", commands)
        for arguments in ([], *([command] for command in commands)):
            done = run_ok(*arguments, "--help")
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)
        keys = run("settings")
        self.assertIn("per_device_train_batch_size", keys.stdout)
        self.assertLessEqual(max(map(len, keys.stdout.splitlines())), 80, keys.stdout)

    def test_help_is_a_command_too(self):
        self.assertEqual(run("help").stdout, run("--help").stdout)
        for command in ("run", "search", "help"):
            asked = run("help", command)
            self.assertEqual((asked.returncode, asked.stdout), (0, run(command, "--help").stdout))
        self.refused(["help", "serch"], 'unknown command "serch"; did you mean "search"?')

    def refused(self, arguments, line):
        done = run_ends(SETTINGS, *arguments)
        self.assertEqual(done.stderr, f"bascule: {line}\n")

    def test_a_misspelt_word_names_the_nearest(self):
        toml = settings(self.folder)
        self.refused(["rnu", toml], 'unknown command "rnu"; did you mean "run"?')
        self.refused(["plan", "--jsno", toml], 'plan: unknown option "--jsno"; did you mean "--json"?')
        self.refused(["bench", "--step=3", toml], 'bench: unknown option "--step"; did you mean "--steps"?')
        self.refused(["run", toml, "twice.toml"], 'command line: unexpected argument "twice.toml"; write a key of the settings as TABLE.KEY=VALUE, such as training.seed=7')
        self.refused(["plan"], "plan: file is required; see `bascule plan --help`")
        everything = "commands: run, plan, doctor, settings, list, stop, reproduce, diff, verify, bench, bringup, tokenize, decode, search, classify, fill, embed, serve, generate, draw, help"
        self.refused(["verify"], "verify: missing folder of reference cases; name one, or check the bits of this machine with --bits")
        self.refused(["verify", "--bits", "."], "verify: folders excludes --bits; see `bascule verify --help`")
        self.refused(["quantise"], f'unknown command "quantise"; {everything}')
        self.refused([], f"missing command; {everything}")

    def test_paths_that_a_shell_left_as_they_were(self):
        problem = 'is not expanded: only a shell does that'
        self.refused(["decode", "--output=~/p.safetensors", PICTURE], f'decode: --output: "~" {problem}; see `bascule decode --help`')
        self.refused(["run", "$HOME/run.toml"], f'run: file: "$HOME" {problem}; see `bascule run --help`')

    def test_an_empty_path_is_refused_before_any_work(self):
        for command, option, arguments in (("decode", "--output", ["", PICTURE]), ("bringup", "--save", [""]), ("bringup", "--html", [""]), ("bringup", "--against", [""]),
                                           ("reproduce", "--output", ["", self.folder]), ("plan", "--svg", ["", settings(self.folder)])):
            self.refused([command, option, *arguments], f"{command}: {option}: the path is empty; see `bascule {command} --help`")
        self.refused(["run", ""], "run: file: the path is empty; see `bascule run --help`")

    def test_settings_in_json(self):
        keys = {key["key"]: key for key in json.loads(run("settings", "--json").stdout)["keys"]}
        self.assertEqual(keys["data.ring_slots"], {"key": "data.ring_slots", "allowed": "an integer from 2 to 1024", "default": "3", "may_change": "yes",
                                                   "meaning": "batches in memory at once; one is filled while another is used"})
        self.assertEqual(keys["training.groups[].match"]["default"], "required")
        values = json.loads(run("settings", settings(self.folder, data__ring_slots="5"), "--json").stdout)["settings"]
        self.assertEqual((values["data.ring_slots"], values["model.head"]), ("5", '"contrastive"'))
        self.refused(["settings", "--resume", "--markdown"], "settings: --resume excludes --markdown; see `bascule settings --help`")
        self.refused(["settings", "--json", "--markdown"], "settings: --json excludes --markdown; see `bascule settings --help`")

    def json_error(self, *arguments, code=SETTINGS):
        done = run_ends(code, *arguments, "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual(list(error), ["exit_code", "kind", "what", "what_to_do", "where"])
        self.assertEqual(error["exit_code"], code)
        where = error["where"] and error["where"] + ": "
        advice = error["what_to_do"] and "; " + error["what_to_do"]
        self.assertEqual(done.stderr.splitlines()[-1], f"bascule: {where}{error['what']}{advice}")
        return error

    def test_with_json_an_error_is_a_document_too(self):
        missing = self.folder / "missing.toml"
        for command in (["run", missing], ["plan", missing], ["doctor", missing], ["bench", missing], ["settings", missing]):
            self.assertEqual(self.json_error(*command)["kind"], "settings")
        for command in (["verify", missing], ["search", missing, "a"], ["classify", missing, PICTURE], ["fill", missing, "a"], ["bringup", "--against", missing],
                        ["diff", missing, missing], ["reproduce", missing]):
            error = self.json_error(*command, code=DATA)
            self.assertEqual((error["kind"], "missing.toml" in error["where"]), ("data", True), error)
        self.assertEqual(self.json_error("rnu"), {"kind": "settings", "exit_code": 2, "where": "", "what": 'unknown command "rnu"', "what_to_do": 'did you mean "run"?'})
        self.assertEqual(self.json_error("bench", "--step=3", missing)["what_to_do"], 'did you mean "--steps"?')
        self.assertEqual(json.loads(run("plan", missing, "--json=true").stdout)["error"]["kind"], "settings")
        self.assertEqual(run("plan", missing).stdout, "")
        self.assertEqual(run("fill", missing, "--", "--json").stdout, "")  # a text that looks so

    def test_with_json_the_error_of_a_rank_is_one_document_too(self):
        (self.folder / "rows.jsonl").write_text('{"image": "no.jpg", "caption": "a"}\n')
        rows = {"data__train_file": f'"{self.folder}/rows.jsonl"'}
        for ranks in ("1", "2"):
            error = self.json_error("run", settings(self.folder, distributed__world_size=ranks, **rows), code=DATA)
            self.assertIn("no.jpg", error["where"] + error["what"])

    def test_what_does_not_fit_is_told_in_the_document_of_the_plan(self):
        done = run("plan", settings(self.folder), "--json", "--memory-gib", "0.01")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (4, 1), done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual((plan["fits"], plan["error"]["kind"], plan["error"]["exit_code"]), (False, "memory", 4))
        self.assertNotIn("error", json.loads(run("plan", settings(self.folder), "--json").stdout))

    def test_a_mistyped_place_for_a_file_is_named_before_any_work(self):
        toml, nowhere = settings(self.folder), self.folder / "nowhere"
        for option, arguments in (("--svg", ["plan", toml]), ("--unit", ["plan", toml]), ("--output", ["decode", PICTURE]), ("--html", ["search", self.folder, "a"]),
                                  ("--html", ["bringup"]), ("--html", ["doctor", toml]), ("--save", ["bringup"]), ("--output", ["reproduce", self.folder])):
            self.refused([*arguments, option, nowhere / "file"], f'{option}: there is no folder "{nowhere}"; create it, or correct the path')
        self.refused(["bringup", "--folder", nowhere], f'--folder: there is no folder "{nowhere}"; create it, or correct the path')
        self.refused(["bringup", "--save", self.folder], f'--save: "{self.folder}" is a folder; name a file')
        self.refused(["decode", PICTURE, "--output", f"{toml}/p"], f'--output: there is no folder "{toml}"; create it, or correct the path')

    def test_decode_prepares_pictures_as_the_folder_says(self):
        """As the run that left it, or as the image processor of one that no run left."""
        def pixels(model, *options):
            output = self.folder / "pixels.safetensors"
            run_ok("decode", "--model", model, "--output", output, *options, PICTURE)
            return output.read_bytes()
        model = self.folder / "model"
        shutil.copytree(EMOJI / "model", model)
        training, processor = (pixels(model, "--preprocessing", word) for word in ("training", "processor"))
        self.assertNotEqual(training, processor)
        self.assertEqual(pixels(model), processor)
        (model / "bascule.json").write_text('{"preprocessing": "training"}')
        self.assertEqual(pixels(model), training)

    def test_what_is_wrong_in_a_processors_file_has_its_own_remedy(self):
        model = self.folder / "model"
        shutil.copytree(EMOJI / "model", model)
        file = model / "preprocessor_config.json"
        rules = json.loads(file.read_text())
        for wrong, line in (({"image_mean": [0.5, 0.5]}, "image_mean has 2 numbers; it must have 3"),
                            ({"do_resize": 3}, "do_resize = 3: must be true or false; change it: pictures of a folder that no run left are prepared as this file says")):
            file.write_text(json.dumps({**rules, **wrong}))
            done = run("decode", "--model", model, "--output", self.folder / "p.safetensors", PICTURE)
            self.assertEqual((done.returncode, done.stderr), (DATA, f"bascule: {file}: {line}\n"))

    def test_decode_takes_the_models_size(self):
        output = self.folder / "pixels.safetensors"
        run_ok("decode", "--preprocessing", "processor", "--model", EMOJI / "model", "--output", output, PICTURE)
        header = output.read_bytes()
        shapes = [entry["shape"] for entry in json.loads(header[8:8 + int.from_bytes(header[:8], "little")]).values() if "shape" in entry]
        self.assertEqual(shapes, [[3, 64, 64]])

    def test_decode_takes_no_size_from_a_model_without_pictures(self):
        model = ROOT / "tests" / "data" / "text-corpus" / "model"
        self.assertRegex(run_ends(DATA, "decode", "--model", model, "--output", self.folder / "p.safetensors", PICTURE).stderr, "^bascule: .*text-corpus/model/config.json: the model reads no pictures; name the folder of one that does\n$")

    def test_a_folder_that_cannot_be_looked_at_is_named_with_the_reason(self):
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        (self.folder / "tokenizer.json").symlink_to(loop)
        done = run("tokenize", "--model", self.folder)
        self.assertEqual((done.returncode, done.stderr), (DATA, f"bascule: {self.folder}/tokenizer.json: cannot be read: Too many levels of symbolic links\n"))
        for command in (["classify", loop, PICTURE], ["fill", loop, "a"], ["search", loop, "a"], ["tokenize", "--model", loop], ["diff", loop, loop], ["reproduce", loop]):
            self.assertRegex(run_ends(DATA, *command).stderr, rf"^bascule: {loop}(/[a-z_.]+)?: cannot be (read|opened): Too many levels of symbolic links\n$")

    def test_a_folder_that_is_not_there_is_named(self):
        nowhere = self.folder / "nowhere"
        done = run("diff", nowhere, self.folder / "other")
        self.assertEqual((done.returncode, done.stderr), (DATA, f"bascule: {nowhere}: there is no such folder\n"))
        for name in (nowhere, "bert-base-uncased", "google/vit-base-patch16-224"):
            for command in (["tokenize", "--model", name], ["classify", name, PICTURE], ["fill", name, "a"], ["embed", name, "a"], ["generate", name, "a"], ["search", name, "a"], ["draw", name, "a", "--output", self.folder / "a.png"]):
                done = run(*command)
                self.assertEqual((done.returncode, done.stderr), (DATA, f"bascule: {name}: there is no such folder; models are local folders, and Bascule downloads nothing: `hf download NAME --local-dir FOLDER` downloads one from the hub\n"))
        done = run("tokenize", "--model", self.folder)
        self.assertEqual((done.returncode, done.stderr), (DATA, f"bascule: {self.folder}: has neither tokenizer.json nor vocab.json or vocab.txt; choose a folder with one of them\n"))

    def test_nan_is_in_no_range(self):
        self.refused(["plan", settings(self.folder), "--memory-gib", "nan"], "plan: --memory-gib: Value nan is not a number; see `bascule plan --help`")
        self.refused(["bringup", "--long", "NaN"], "bringup: --long: Value NaN is not a number; see `bascule bringup --help`")

    def test_integers_are_decimal_and_in_their_range(self):
        """Every option that takes one, as the help of its command names it."""
        commands = {"verify": 1, "bench": 3, "tokenize": 1, "decode": 1, "search": 1, "classify": 1, "fill": 1, "generate": 8, "draw": 5}
        for command, count in commands.items():
            options = re.findall(r"(--[a-z-]+) U?INT:INT in \[(\d+) - (\d+)\]", run(command, "--help").stdout)
            self.assertEqual(len(options), count, options)
            for option, least, most in options:
                for text in ("0x10", str(int(most) + 1)):
                    self.refused([command, f"{option}={text}"], f'{command}: {option}: "{text}" is not a decimal integer from {least} to {most}; see `bascule {command} --help`')
        for text in ("0", "1e1", "+5", "5.0", "-5"):
            self.refused(["search", f"--top={text}"], f'search: --top: "{text}" is not a decimal integer from 1 to 1000; see `bascule search --help`')
        done = run("tokenize", "--model", ROOT / "tests/data/tokenizer/wordpiece", "--max-length=010", "--padding=max_length", input='["a"]')
        self.assertEqual(len(json.loads(done.stdout)[0]), 10, done.stderr)
        self.refused(["draw", "--guidance-scale=nan"], "draw: --guidance-scale: Value nan is not a number; see `bascule draw --help`")

    def test_a_file_of_another_format_is_not_searched_as_a_text(self):
        toml = settings(self.folder, training__max_steps="1", training__save_steps="0", data__validation_file=f'"{EMOJI}/validation.jsonl"')
        self.assertEqual(run("run", toml).returncode, 0)
        other = self.folder / "a.gif"
        other.write_bytes(b"GIF89a" + bytes(64))
        self.assertIn("is GIF; convert it to JPEG or PNG", run_ends(DATA, "search", self.folder / "run", other).stderr)

    def test_every_promised_json_is_one_document(self):
        toml = settings(self.folder, training__max_steps="2", training__save_steps="0", data__validation_file=f'"{EMOJI}/validation.jsonl"')
        for command in (["plan"], ["bench", "--steps", "1", "--warmup", "0"], ["run"], ["run"]):  # the second time it is finished already
            done = run_ok(*command, toml, "--json")
            document = json.loads(done.stdout)
            if command == ["run"]:
                self.assertEqual(document, json.loads((self.folder / "run" / "all_results.json").read_text()))
        for command in (["verify", ROOT / "tests" / "data" / "goldens" / "itc_add"], ["search", self.folder / "run", "a cat"]):
            done = run_ok(*command, "--json")
            json.loads(done.stdout)
