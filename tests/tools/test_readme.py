# SPDX-License-Identifier: Apache-2.0
"""The pages say what is so: generated tables are fresh, links lead somewhere, and the verbs, commands and files that a page names exist."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["config", "kernels", "firmware_shims", "src", "tests", "tools"]
PROGRAM = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build"), "bascule")
FIRST_PAGE_BYTES = 12000
PAGES = [ROOT / "README.md", *sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("README.md"))]
OURS = [page for page in PAGES if ROOT / "tests/data" not in page.parents]  # those of the data name scripts of the reference set
# The pages that list folders.
LISTS = {ROOT: FOLDERS, ROOT / "src": sorted(room.name for room in (ROOT / "src").iterdir() if room.is_dir())}


def prose(text):
    """The text without code blocks and code in a line: there nothing is a heading or a link."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        numbered = [name, *(f"{name}-{number}" for number in range(1, 100))]
        found.add(next(one for one in numbered if one not in found))
    return found


def links(page):
    """The links of a page that lead into this repository: (as written, path, anchor)."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path if path else page), anchor


def shown(page):
    return page.relative_to(ROOT).as_posix()


def words_of(pattern):
    """What the pattern finds in the pages: (page, word)."""
    return sorted({(shown(page), word) for page in OURS for word in re.findall(pattern, page.read_text(), re.M)})


class Pages(unittest.TestCase):
    def test_the_first_page_is_short(self):
        self.assertLessEqual((ROOT / "README.md").stat().st_size, FIRST_PAGE_BYTES)

    def test_every_link_leads_to_a_file_and_a_heading_of_it(self):
        for page in PAGES:
            for target, path, anchor in links(page):
                with self.subTest(page=shown(page), link=target):
                    self.assertTrue(path.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(path.read_text()))

    def test_every_room_is_listed_and_its_page_linked(self):
        for folder, rooms in LISTS.items():
            text = (folder / "README.md").read_text()
            linked = {path.resolve() for _, path, _ in links(folder / "README.md")}
            for room in rooms:
                with self.subTest(folder=folder.name, room=room):
                    self.assertRegex(text, rf"(?m)^\| \[?{room}/")
                    page = folder / room / "README.md"
                    self.assertTrue(not page.exists() or page in linked)

    def test_its_verbs_are_those_of_the_makefile(self):
        targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
        for page, verb in words_of(r"(?:^|`)make ([a-z0-9-]+)"):
            self.assertIn(verb, targets, page)

    def test_the_files_that_a_page_names_exist(self):
        for page, path in words_of(rf"`((?:{'|'.join(FOLDERS)})/[\w/.]*)"):
            self.assertTrue((ROOT / path).exists(), f"{page}: {path}")

    def test_the_pages_that_code_names_exist(self):
        files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in (".h", ".cpp", ".py")]
        for file in files:
            for path in re.findall(rf"\b(?:{'|'.join(FOLDERS)})/(?:\w+/)*README\.md", file.read_text()):
                self.assertTrue((ROOT / path).exists(), f"{shown(file)}: {path}")


@unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
class PagesAndProgram(unittest.TestCase):
    def run_well(self, *command):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_generated_tables_are_fresh(self):
        self.run_well(sys.executable, "tools/update_readme.py", "--check", PROGRAM)

    def test_the_commands_that_a_page_names_are_those_of_the_program(self):
        for command in sorted({command for _, command in words_of(r"(?:`|^build/)bascule ([a-z]+)")}):
            self.assertIn(f"bascule {command} ", self.run_well(PROGRAM, command, "--help").splitlines()[1])  # its own help

    def test_the_plan_of_the_demo_prints(self):
        self.assertIn("bascule plan config/demo.toml", (ROOT / "README.md").read_text())
        self.run_well(PROGRAM, "plan", "config/demo.toml")


@unittest.skipUnless(os.environ.get("BASCULE_DEMO_RUN"), "BASCULE_DEMO_RUN names no run of `make demo`")
class PagesAndDemo(unittest.TestCase):
    """What the pages show of the demo is what the program gives, but for what depends on the machine."""

    def test_the_figures_of_the_run(self):
        run = pathlib.Path(os.environ["BASCULE_DEMO_RUN"])
        results, state = (json.loads((ROOT / run / name).read_text()) for name in ("all_results.json", "trainer_state.json"))
        shown = {line.strip() for line in re.sub(" {2,}", "  ", (ROOT / "README.md").read_text()).splitlines()}
        best = f"{state['best_metric']:.4f} at step {state['best_global_step']}"
        for line in (f"steps  {results['total_train_steps']}  ({state['epoch']:.2f} epochs)",
                     f"best evaluation  text_to_image_recall_at_5 {best}; the folder holds the weights of step {state['best_global_step']}",
                     f"mean training loss  {results['train_loss']:.4f}",
                     f"test image → text, R@5  {100 * results['test_image_to_text_recall_at_5']:.1f} %",
                     f"test text → image, R@5  {100 * results['test_text_to_image_recall_at_5']:.1f} %"):
            self.assertIn(line, shown)

    def test_the_search(self):
        done = subprocess.run([PROGRAM, "search", os.environ["BASCULE_DEMO_RUN"], "cat with tears of joy"], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = (ROOT / "src/answer/README.md").read_text()
        for line in done.stdout.splitlines()[:6]:
            self.assertIn(line + "\n", shown)
