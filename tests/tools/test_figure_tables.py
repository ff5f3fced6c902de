# SPDX-License-Identifier: Apache-2.0
"""The tables of tools/figures/README.md: comparisons write their figures into rows; rows of tools/figures say machine, commit and day; a file of tools/bench becomes rows with its machine and commit."""
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

from tool_modules import ROOT, load
import bench_files

import figure_rows
import figure_tables
import measured_settings

compare_families, compare_with_transformers = load("compare_families"), load("compare_with_transformers")

BEFORE = {"machine": "an old one", "commit": "0123456789ab", "date": "2026-01-01"}
TABLE = {"name": "t", "columns": ["subject", "measured", "comparison"],
         "row": [{"subject": "a model", "measured": "1", "comparison": "`vit`", **BEFORE}, {"subject": "two", "measured": "2", "comparison": "`bert`, `bert-large`", **BEFORE},
                 {"subject": "\"other\" – a | b", "measured": "3", "comparison": "`bascule bench FILE`", **BEFORE}]}
NOW = {"machine": "a new one", "commit": "ba9876543210", "date": "2026-02-02"}
ARGUMENTS = types.SimpleNamespace(python="python", reference=pathlib.Path("reference"), models=pathlib.Path("models"), steps=3)
OURS, PEER = [(4.0, 1024, 0.9, 400.0), (4.2, 1024, 0.9, 400.0), (4.4, 1024, 0.9, 400.0)], [(2.0, 2048, "a peer 1.0")] * 3


class Recording(unittest.TestCase):
    """tools/compare_families --record, without programs that are measured."""

    def record(self, *names, table=TABLE, source=NOW):
        """The table after those comparisons, each with the figures of OURS and PEER."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "table.toml")
            file.write_text(figure_rows.text_of(table))
            with mock.patch.multiple(compare_families, measure_ours=mock.Mock(side_effect=OURS * 9), measure_peer=mock.Mock(side_effect=PEER * 9), print=mock.Mock(), create=True), \
                    mock.patch.object(figure_rows, "source_of", return_value=source), \
                    mock.patch.object(sys, "argv", ["compare_families", "--reference", "none", "--python", "none", "--record", str(file), *names]):
                compare_families.main()
            return figure_rows.read(file)

    def test_figures_machine_commit_and_day_of_a_row_are_written_and_its_words_stay(self):
        table = self.record("vit")
        measured = "ViT-B/16: 4.20 samples/s, 400 GFLOP/s, 90 % of the ceiling, 2.10 times as fast (2.00 to 2.20) as the peer's 2.00 samples/s, 50 % of the memory"
        self.assertEqual(table["row"], [{"subject": "a model", "measured": measured, "comparison": "`vit`", **NOW}, *TABLE["row"][1:]])

    def test_of_each_peer_the_figure_is_taken_that_ours_is_compared_with(self):
        """The members of their lines that are rates or times, each with a value of its own."""
        self.assertEqual(self.measured(slow=True), {"vit": {4.0}, "vit-optimizers": {4.0}, "bert": {0.99}, "bert-lengths": {0.99}, "bert-sequences": {3.0}, "embeddings": {12.0}, "embed": {12.0}, "t5-small": {0.5}, "t5-generate": {64.0},
                                                    "t5-beams": {64.0}, "sd-unet": {4.0}, "sd-vae": {8.0}, "sd-text": {2.0}, "sd-picture": {0.5}, "evaluation": {4.0, 0.99, 0.5}})

    def test_of_several_peers_the_fastest_counts_and_is_named(self):
        raced = {name: rates for name, rates in self.measured(slow=False).items() if 1e3 in rates}
        self.assertEqual(raced, {"t5-generate": {1e3}, "t5-beams": {1e3}, "sd-unet": {1e3}, "sd-vae": {1e3}, "sd-text": {1e3}, "sd-picture": {1e3}, "evaluation": {1e3, 0.5}})
        line = compare_families.COMPARISONS["sd-picture"][0]
        words = compare_families.in_words(line, [(0.5, None, None, None)], [(0.25, 7, "openvino 2026.4")])
        self.assertEqual(words, f"{line.name}: 2.00 s, 2.00 times as fast (2.00 to 2.00) as the peer (openvino 2026.4)'s 4.00 s")

    def measured(self, slow):
        """Rates of the lines of comparisons, where other peers than PyTorch are `slow`, or faster than anything."""
        stage = {"seconds": {"text": 0.5, "unet": 0.25, "vae": 0.125}}
        other = {"software": "another 1.0", "rate": 1e-3 if slow else 1e3, "unit": "samples/s"}
        printed = {"peer_vit.py": {"seconds_per_step": 8.0, "samples_per_second": 4.0}, "peer_bert.py": {"seconds_per_step": 32.3, "samples_per_second": 0.99, "tokens_per_second": 126.4},
                   "peer_t5.py": {"samples_per_second": 0.5, "tokens_per_second": 64.0}, "peer_sequences.py": {"samples_per_second": 3.0},
                   "peer_embeddings.py": {"texts_per_second": 24.0, "samples_per_second": 12.0, "tokens_per_second": 658.0}, "peer_sd.py": {**stage, "seconds_per_picture": 2.0},
                   "peer_openvino.py": other, "peer_ctranslate2.py": other}
        names = ("vit", "vit-optimizers", "bert", "bert-lengths", "bert-sequences", "embeddings", "embed", "t5-small", "t5-generate", "t5-beams", "sd-unet", "sd-vae", "sd-text", "sd-picture", "evaluation")
        with mock.patch.object(compare_families, "output_of", side_effect=lambda command: f"a warning\n{json.dumps({**printed[command[1].name], 'peak_rss_mib': 7})}\n"):
            return {name: {compare_families.measure_peer(ARGUMENTS, line)[0] for line in compare_families.COMPARISONS[name] if line.peer} for name in names}

    def test_a_comparison_without_a_row_gets_one(self):
        table = self.record("t5-base")
        self.assertEqual(table["row"][:3], TABLE["row"])
        self.assertRegex(table["row"][3].pop("measured"), "^T5 base, 512 \\+ 64 tokens: 4.20 samples/s, ")
        self.assertEqual(table["row"][3:], [{"subject": "t5-base", "comparison": "`t5-base`", **NOW}])

    def test_a_row_of_two_comparisons_needs_both(self):
        with self.assertRaisesRegex(SystemExit, '^compare_families: "two" is of bert-large, too: measure all of them$'):
            self.record("bert")
        row = self.record("bert-large", "bert")["row"][1]
        self.assertRegex(row["measured"], "^128 tokens, all rows .*; 128 tokens, labelled rows .*; 128 tokens: 4.20 samples/s")
        self.assertEqual(row["commit"], NOW["commit"])

    def test_two_rows_of_one_comparison_become_one(self):
        twice = {**TABLE, "row": [TABLE["row"][0], TABLE["row"][2], {**TABLE["row"][0], "subject": "the same"}]}
        self.assertEqual([row["subject"] for row in self.record("vit", table=twice)["row"]], ["a model", TABLE["row"][2]["subject"]])

    def test_the_steps_of_bridgetower_are_a_row_of_their_command(self):
        figures = lambda rate, mib, faster=1.0: {"samples_per_second": rate, "ours_is_faster": faster, "resident_mib": mib}
        step = {"size": "base", "mode": "train", "precision": "bf16", "batch": 8, "caption": 25}
        words = compare_with_transformers.in_words([{**step, "contenders": {"ours": figures(0.75, 2000), "eager": figures(0.3, 3000, 2.5)}}], ["eager"])
        self.assertEqual(words, "base, train, bf16, batch 8, captions of 25 tokens: 0.750 samples/s, 2,000 MiB, 2.50 times as fast as eager's 0.300, 67 % of its memory")
        table = figure_rows.read(ROOT / "tools/figures/speed.toml")
        after = figure_rows.put(table, {compare_with_transformers.COMMAND: words}, NOW)
        self.assertEqual([row["measured"] for row in after["row"] if row not in table["row"]], [words])
        self.assertEqual(len(after["row"]), len(table["row"]))

    def test_what_is_no_table_is_refused_before_anything_is_measured(self):
        for table, words in (({**TABLE, "columns": ["subject", "comparison"]}, "no table of figures"), ({**TABLE, "columns": ["subject", "comparison", "measured"]}, 'its last column is "measured"')):
            with self.assertRaisesRegex(SystemExit, words), mock.patch.object(compare_families, "compare", side_effect=AssertionError):
                self.record("vit", table=table)

    def test_a_program_that_is_of_no_commit_is_refused(self):
        for commit in ((None, None), ("0123456789ab", False)):
            with mock.patch.object(figure_rows.bench_machine, "commit_of", return_value=commit), self.assertRaisesRegex(ValueError, "not built from a commit without changes"):
                figure_rows.source_of(pathlib.Path("build/bascule"))

    def test_an_instruction_set_limits_ours_and_is_not_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = pathlib.Path(folder) / "run.toml"
            settings.write_text("[model]\n")
            measured_settings.limit_isa(settings, None)
            self.assertEqual(settings.read_text(), "[model]\n")
            measured_settings.limit_isa(settings, "avx2")
            self.assertEqual(settings.read_text(), '[model]\n[machine]\nisa = "avx2"\n')
        words = ["compare_families", "--reference", "r", "--python", "p", "--isa", "avx2", "--record", "t.toml", "vit"]
        with mock.patch.object(sys, "argv", words), mock.patch("sys.stderr"), self.assertRaises(SystemExit):
            compare_families.read_arguments()
        with mock.patch.object(sys, "argv", words[:-3] + ["vit"]):
            self.assertEqual(compare_families.read_arguments().isa, "avx2")

    def test_the_published_tables_are_written_as_they_are_read(self):
        for file in (ROOT / "tools/figures").glob("*.toml"):
            self.assertEqual(figure_rows.text_of(figure_rows.read(file)), file.read_text(), file.name)


class FigureTables(unittest.TestCase):
    def test_every_recorded_row_says_where_it_comes_from(self):
        for name, text in figure_tables.tables().items():
            if name != "figures of make bench":
                rows = [line for line in text.splitlines()[2:] if line.startswith("|")]
                self.assertTrue(rows)
                for row in rows:
                    self.assertRegex(row, r"\| [^|]+; `[0-9a-f]{8}`, \d{4}-\d\d-\d\d \|$", name)

    def test_a_file_of_figures_becomes_rows_with_the_name_that_repeats_each(self):
        document = bench_files.document(0, entries=2)
        document["entries"][1].update(state="not measured: a | b", figures=[])
        text = figure_tables.bench_table(document)
        self.assertIn("A processor (6-1-1), 2 cores", text)
        self.assertIn("commit c0ffeec0ffee", text)
        self.assertRegex(text, r"(?m)^\| `entry-0` \| subject of entry-0 \| \S+ samples/s \(\S+ to \S+\) \| \d+ % \| 300, 28\d \|$")
        self.assertRegex(text, r"(?m)^\| `entry-1` \| subject of entry-1 \| not measured: a \\\| b \|")
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(cells, {6})

    def test_a_command_and_a_text_too_long_for_a_cell_stand_once_below_the_table(self):
        rows = [{"subject": subject, "measured": measured, "command": "`tool`", **BEFORE} for subject, measured in (("a", "1"), ("b", "2" * 201))]
        text = figure_tables.recorded_table({"name": "t", "columns": ["subject", "measured", "command"], "row": rows})
        self.assertEqual(text.splitlines(), [
            "| row | subject | measured | machine; commit, day |", "|---|---|---|---|", "| 1 | a | 1 | an old one; `01234567`, 2026-01-01 |",
            "| 2 | b | below the table | an old one; `01234567`, 2026-01-01 |", "", f"- **2**: {'2' * 201}", "", "Commands, by row:", "", "- **1, 2**: `tool`"])

    def test_no_cell_of_the_published_tables_is_long(self):
        for name, text in figure_tables.tables().items():
            for line in text.splitlines():
                if line.startswith("|"):
                    self.assertLessEqual(max(map(len, line.split(" | "))), 205, name)

    def test_a_row_with_a_cell_too_few_is_refused(self):
        self.assertRaises(ValueError, figure_tables.markdown, ["a", "b"], [["c"]])
