# SPDX-License-Identifier: Apache-2.0
"""tools/bench: every entry names settings that exist, a run writes one JSON and one page, disturbed entries are measured again, and an interrupted run goes on."""
import contextlib
import html.parser
import io
import json
import pathlib
import re
import subprocess
import sys
import unittest
from unittest import mock

from tool_modules import PROGRAM, ROOT, FolderTest, load
import bench_files

tool = load("bench")
STEPS = {"samples_per_second": {"median": 100.0}, "ceiling_samples_per_second": 200.0, "planned_bytes": 2**28, "resident_bytes": 2**27, "step_seconds": [0.1, 0.1],
         "operations": [{"name": "linear", "seconds": 0.06}, {"name": "add", "seconds": 0.04}], "precision": "float32"}
ONE = {"place": "all cores", "median": 1.0, "taken": {"others": 0.0}}
PROGRAM_SAYS = {"--version": "bascule 0.1.0", "settings": "x = 1", "plan": {"fits": True, "peak_bytes": 2**28}, "bench": STEPS,
                "bringup": {"started": "now", "cores": 2, "isa": "avx512", "machine": {"processor": {}, "kernel": {}, "caches": []},
                            "figures": [{**ONE, "item": "products", "name": "a"}, {**ONE, "item": "memory", "name": "b"}]}}


class Tags(html.parser.HTMLParser):
    """Whether every element of a page is closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.open, self.names = [], []
        self.feed(page)

    def handle_startendtag(self, tag, attrs):
        self.names.append((tag, dict(attrs)))

    def handle_starttag(self, tag, attrs):
        self.names.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> where none was open")


class Bench(FolderTest):
    def setUp(self):
        super().setUp()
        self.ran, self.off = [], []  # names of entries in the order of their commands; what each bring-up but the first says
        self.code = None

    def run_tool(self, *words):
        """In place of the program: commands that are answered at once."""
        def bring_up(_program, _folder, number):
            return {"number": number, "started": f"at {number}", "figures": {"products: a, all cores": 1.0}, "off": self.off.pop(0) if number and self.off else []}

        def measure(entry, sides, repeats):
            self.ran.append(entry.name)
            return {side: [STEPS] * repeats for side in sides}

        with mock.patch.multiple(tool.bench_machine, bring_up=bring_up, machine_of=lambda *_: bench_files.MACHINE, program_of=lambda _: bench_files.PROGRAM, settings_digest=lambda *_: "d1"), \
                mock.patch.multiple(tool, measure=measure, plan_of=lambda entry, _: (None, "needs 99.0 GiB") if entry.name == "t5-demo" else (2**28, None)), \
                mock.patch.object(sys, "argv", ["bench", "--program", sys.executable, "--out", str(self.folder), "--only", *words]), contextlib.redirect_stdout(io.StringIO()) as output:
            self.code = tool.main()
        return output.getvalue(), json.loads((self.folder / "bench.json").read_text())

    def run_program(self, said, *words):
        """The tool with a program that answers as `said` says: {word of its command: JSON, text, or None where it fails}. Returns (exit code, standard output and error)."""
        def output_of(command, _allowed=(0,)):
            found = {**PROGRAM_SAYS, **said}[command[1]]
            if found is None:
                raise tool.bench_machine.Failed("it failed | here")
            return found if isinstance(found, str) else json.dumps(found)

        program = self.folder / "program"
        program.touch()
        with mock.patch.object(sys, "argv", ["bench", "--program", str(program), "--out", str(self.folder), "--repeats", "1", *(words or ("--only", "vit-demo"))]), \
                mock.patch.object(tool.bench_machine, "output_of", output_of), contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
            code = tool.main()
        return code, output.getvalue()

    def states(self, name="bench"):
        return [(entry["name"], entry["state"]) for entry in json.loads((self.folder / f"{name}.json").read_text())["entries"]]

    def test_entries_have_names_of_their_own_and_settings_that_exist(self):
        names = [entry.name for entry in tool.bench_entries.ENTRIES]
        self.assertEqual(len(names), len(set(names)))
        for entry in tool.bench_entries.ENTRIES:
            self.assertIn(entry.group, tool.bench_entries.GROUPS)
            self.assertTrue(not entry.settings or (ROOT / entry.settings).is_file(), entry.settings)
            self.assertIn(entry.kind, tool.bench_figures.READERS)

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_the_settings_of_every_entry_are_accepted(self):
        for entry in tool.bench_entries.ENTRIES:
            if entry.settings:
                done = subprocess.run([PROGRAM, "settings", entry.settings, *entry.keys], cwd=ROOT, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), entry.name)

    def test_a_run_writes_figures_of_every_repeat_and_what_is_not_measured(self):
        output, document = self.run_tool("t5-demo", "vit-demo")
        self.assertEqual([(entry["name"], entry["state"]) for entry in document["entries"]], [("vit-demo", "measured"), ("t5-demo", "not measured: needs 99.0 GiB")])
        figures = {figure["name"]: figure["values"] for figure in document["entries"][0]["figures"]}
        self.assertEqual(figures, {"samples/s": [100.0] * 3, "of the ceiling": [50.0] * 3, "memory planned": [256.0] * 3, "memory resident": [128.0] * 3, "linear": [60.0] * 3, "add": [40.0] * 3})
        self.assertEqual((document["complete"], document["machine"], document["program"]), (True, bench_files.MACHINE, bench_files.PROGRAM))
        self.assertIn("vit-demo: 100 samples/s", output)
        self.assertIn("build/bascule bench config/vit_demo.toml --steps 60", document["entries"][0]["command"])

    def test_a_loader_that_loaded_nothing_has_no_figure(self):
        columns = [{"workers": workers, "loader_samples_per_second": rate} for workers, rate in ((1, None), (2, 9.0))]
        figures = tool.bench_figures.figures_of("loader", {"columns": columns})
        self.assertEqual([(one["name"], one["value"]) for one in figures], [("workers: 2, loads", 9.0)])

    def test_a_disturbed_entry_is_measured_again_and_says_so(self):
        self.off = [["others took 40 % of the time"], [], []]
        output, document = self.run_tool("vit-demo", "bert-demo")
        self.assertEqual(self.ran, ["vit-demo", "vit-demo", "bert-demo"])
        self.assertIn("vit-demo: disturbed (others took 40 % of the time); again", output)
        first, second = document["entries"]
        self.assertEqual((len(first["attempts"]), first["disturbed"], first["bringups"]), (2, [], ["at 1", "at 2"]))
        self.assertEqual((len(second["attempts"]), second["bringups"]), (1, ["at 2", "at 3"]))

    def test_an_entry_that_stays_disturbed_is_recorded_as_such(self):
        self.off = [["products: slower by 20 %"]] * 9
        output, document = self.run_tool("vit-demo")
        self.assertEqual(self.ran, ["vit-demo"] * 3)
        self.assertEqual(document["entries"][0]["disturbed"], ["products: slower by 20 %"])
        self.assertIn("DISTURBED", output)

    def test_an_interrupted_run_goes_on_and_a_complete_one_begins_again(self):
        with mock.patch.object(tool, "say", side_effect=[None, KeyboardInterrupt]), contextlib.redirect_stderr(io.StringIO()) as error:
            self.run_tool("vit-demo", "bert-demo", "sentences-demo")
        self.assertEqual((self.code, error.getvalue()), (130, "bench: interrupted; the same command goes on with the entry that was cut off\n"))
        self.ran.clear()
        self.run_tool("vit-demo", "bert-demo", "sentences-demo")
        self.assertEqual(self.ran, ["sentences-demo"])
        self.run_tool("vit-demo")
        self.assertEqual(self.ran, ["sentences-demo", "vit-demo"])

    def test_a_file_that_is_none_of_a_run_is_replaced(self):
        for content in ("", "[1]", '{"complete":', '{"complete": false}'):
            (self.folder / "bench.json").write_text(content)
            self.run_tool("vit-demo")
            self.assertEqual(self.states(), [("vit-demo", "measured")], content)

    def test_what_only_one_of_two_programs_has_is_measured_again(self):
        """A run that was killed between the two files."""
        both = ("--only", "vit-demo", "bert-demo", "--against", sys.executable)
        self.assertEqual(self.run_program({}, *both)[0], 0)
        for name, count in (("old", 1), ("new", 2)):
            document = json.loads((self.folder / f"{name}.json").read_text())
            document.update(complete=name == "new", entries=document["entries"][:count])
            (self.folder / f"{name}.json").write_text(json.dumps(document))
        code, output = self.run_program({}, *both)
        self.assertEqual((code, "vit-demo" in output), (0, False), output)
        self.assertEqual([self.states("old"), self.states("new")], [[("vit-demo", "measured"), ("bert-demo", "measured")]] * 2)
        pairs = {json.loads((self.folder / f"{name}.json").read_text())["pair"] for name in ("old", "new")}
        self.assertEqual(len(pairs), 1)

    def test_a_program_that_fails_is_recorded_and_where_nothing_is_measured_the_exit_code_says_so(self):
        self.assertEqual((self.run_program({})[0], self.states()), (0, [("vit-demo", "measured")]))
        lacking = {key: value for key, value in STEPS.items() if key != "operations"}
        for said, reason in (({"bench": None}, "it failed | here"), ({"settings": None}, "it failed | here"), ({"plan": None}, "it failed | here"), ({"bench": "hello"}, "printed no JSON"),
                             ({"bench": lacking}, "printed other figures than expected: KeyError('operations')")):
            code, output = self.run_program(said)
            [(_, state)] = self.states()
            self.assertRegex(state, f"^not measured: .*{re.escape(reason)}$")
            self.assertEqual((code, output.splitlines()[-1]), (1, state.replace("not measured", "bench: nothing could be measured; vit-demo")))

    def test_a_program_that_is_none_is_refused_in_one_line(self):
        for said, words in (({"--version": None}, "it failed | here"), ({"--version": ""}, "--version printed nothing"), ({"bringup": "hello"}, "printed no JSON")):
            code, output = self.run_program(said)
            self.assertEqual((code, output.count("\n")), (1, 1), output)
            self.assertIn(words, output)

    def test_a_command_fails_with_its_last_line(self):
        for command, words in (([self.folder / "none"], "/none: No such file or directory$"), (["/bin/sh", "-c", "echo one >&2; echo two >&2; exit 5"], "^two$"), (["/bin/false"], "exit code 1 without a word$")):
            with self.assertRaisesRegex(tool.bench_machine.Failed, words):
                tool.bench_machine.output_of(command)

    def test_a_full_disk_ends_the_run_in_one_line_and_leaves_what_was_done(self):
        self.run_tool("vit-demo")
        before = (self.folder / "bench.json").read_bytes()
        with mock.patch.object(pathlib.Path, "write_text", side_effect=OSError(28, "No space left on device")), contextlib.redirect_stderr(io.StringIO()) as error:
            self.run_tool("bert-demo")
        self.assertEqual((self.code, error.getvalue().count("\n"), (self.folder / "bench.json").read_bytes()), (1, 1, before))

    def test_without_git_the_commit_is_unknown(self):
        build = self.folder / "build"
        build.mkdir()
        (build / "build.ninja").touch()
        self.assertEqual(tool.bench_machine.commit_of(build / "bascule"), (None, None))
        with mock.patch.object(tool.bench_machine.subprocess, "run", side_effect=FileNotFoundError):
            self.assertEqual(tool.bench_machine.commit_of(build / "bascule"), (None, None))
        with mock.patch.object(tool.bench_machine, "said_by", return_value=f"{self.folder}\n"):  # another tree around a copy
            self.assertEqual(tool.bench_machine.commit_of(build / "bascule"), (None, None))

    def test_two_programs_take_turns(self):
        order = []
        with mock.patch.object(tool.bench_machine, "output_of", side_effect=lambda command, _: order.append(command[0]) or "{}"):
            tool.measure(tool.bench_entries.ENTRIES[0], [Side("a"), Side("b")], 3)
        self.assertEqual(order, ["a", "b", "b", "a", "a", "b"])

    def test_the_page_is_whole_and_asks_for_nothing_from_elsewhere(self):
        document = bench_files.document(0)
        document["entries"][0]["subject"] = "<b>&"
        document["entries"][1].update(state="not measured: needs 99.0 GiB", figures=[])
        page = tool.bench_page.page(document)
        tags = Tags(page)
        self.assertEqual(tags.open, [])
        self.assertIn("&lt;b&gt;&amp;", page)
        self.assertNotRegex(page, r"<script|https?://|@import|url\(")
        self.assertIn("needs 99.0 GiB", page)
        for svg in (attributes for tag, attributes in tags.names if tag == "svg" and attributes.get("aria-hidden") != "true"):
            self.assertEqual((svg["role"], bool(svg["aria-label"])), ("img", True))
        for word in ("A processor (6-1-1), 2 cores", "commit c0ffeec0ffee", "model.precision=bf16", "Time by kind of operation", "Share of the ceiling"):
            self.assertIn(word, page)
        anchors = set(re.findall(r'id="([a-z]+)"', page))
        self.assertEqual(set(re.findall(r'href="#([a-z]+)"', page)), anchors)

    def test_numbers_are_short(self):
        shown = tool.bench_page.shown
        self.assertEqual([shown(value) for value in (0, 0.01234, 1.234, 12.34, 123.4, 1234.5)], ["0", "0.0123", "1.23", "12.3", "123", "1,234"])

    def test_an_unknown_entry_is_refused(self):
        done = subprocess.run([sys.executable, ROOT / "tools/bench", "--only", "nothing"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing: no entry of this name; see --list", done.stderr)

    def test_a_reader_that_stops_is_no_failure(self):
        for tool in ("bench", "mutate", "release_check"):
            with subprocess.Popen([ROOT / "tools" / tool, "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
                listing.stdout.close()
                self.assertEqual(listing.stderr.read(), b"", tool)

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_the_program_is_measured(self):
        """One entry, once, without the bring-ups around it, which take seconds."""
        small = tool.bench_entries.demo("small", "the smoke test's model", "config/smoke.toml", steps=2, warmup=1)
        around = {"number": 0, "started": "now", "figures": {}, "off": []}
        with mock.patch.object(tool.bench_entries, "ENTRIES", [small]), mock.patch.object(tool.bench_machine, "bring_up", return_value=around), \
                mock.patch.object(tool.bench_machine, "machine_of", return_value=bench_files.MACHINE), contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(sys, "argv", ["bench", "--program", str(PROGRAM), "--out", str(self.folder), "--repeats", "1"]):
            tool.main()
        entry = json.loads((self.folder / "bench.json").read_text())["entries"][0]
        self.assertEqual((entry["state"], entry["planned_bytes"] > 2**20, len(entry["settings_digest"]), len(entry["step_seconds"][0])), ("measured", True, 64, 2))
        self.assertIn("linear", [figure["name"] for figure in entry["figures"]])
        self.assertTrue((self.folder / "bench.html").is_file())


class Side:
    """One of two programs."""

    def __init__(self, program):
        self.program = program
