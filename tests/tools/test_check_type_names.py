# SPDX-License-Identifier: Apache-2.0
"""tools/check_type_names.py finds two types of one name, and nothing else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check(*files):
    """Runs the tool over a tree with these texts; returns its exit code and its lines."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(files):
            file = pathlib.Path(folder, f"src/room_{number}/file.h")
            file.parent.mkdir(parents=True)
            file.write_text(text)
        done = subprocess.run([sys.executable, ROOT / "tools/check_type_names.py", folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class CheckTypeNames(unittest.TestCase):
    def test_two_types_of_one_name_are_refused(self):
        first = 'namespace bascule {\nstruct Row {\n  int at = 0;\n};\n}  // namespace bascule\n'
        for second in ("namespace bascule {\nclass Row final : public Base {\n};\n}", "namespace bascule {\nvoid f() { g(\"{\"); }\nenum class Row : int { kOne };\n}",
                       "namespace bascule {\nstruct [[nodiscard]] Row {\n};\n}", "namespace bascule {\nnamespace {\nint x = '{';\n}\ntemplate <typename T>\nstruct Row {};\n}"):
            code, lines = check(first, second)
            self.assertEqual((code, lines), (1, ["bascule::Row is defined in src/room_0/file.h and in src/room_1/file.h: rename one"]), second)

    def test_types_of_other_scopes_and_declarations_are_allowed(self):
        first = "namespace bascule {\nstruct Row {\n};\n}\n"
        for second in ("namespace bascule {\nnamespace {\nstruct Row {\n};\n}\n}", "namespace other {\nstruct Row {\n};\n}", "namespace bascule {\nclass Row;\nRow made();\n}",
                       "namespace bascule {\nclass Table {\n  struct Row {\n  };\n};\n}", "namespace bascule {\nvoid f() {\n  struct Row {\n  };\n}\n}",
                       "namespace bascule {\n// struct Row {\nconst char* text = R\"(struct Row {)\";\nstruct Row::Part {\n};\n}"):
            self.assertEqual(check(first, second)[0], 0, second)
