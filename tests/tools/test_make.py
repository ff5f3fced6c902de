# SPDX-License-Identifier: Apache-2.0
"""`make build`, the demos and `make install` need the program alone: neither the tests nor the packages that only tests need."""
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(*command, **options):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, **options).stdout


class Make(unittest.TestCase):
    def steps(self, verb, folder="absent"):
        return [line for line in output_of("make", "-n", "--no-print-directory", f"BUILD={folder}", verb).splitlines()
                if "install_packages" in line or "ninja" in line]

    def test_the_program_is_built_without_the_tests(self):
        for verb in ("build", "demo", "demo-vit", "demo-bert", "demo-sentences", "demo-embeddings", "demo-t5", "demo-draw", "demo-serve", "install"):
            packages, configured, built, *more = self.steps(verb)
            self.assertEqual(packages, "tools/install_packages", verb)
            self.assertIn("-Dtests=false", configured, verb)
            self.assertEqual(built, "ninja -C absent bascule", verb)
            self.assertEqual(more, ["ninja -C absent installed"] if verb == "install" else [], verb)

    def test_the_tests_are_built_where_they_are_needed(self):
        for verb in ("test", "quick"):
            self.assertEqual(self.steps(verb)[0], "tools/install_packages test", verb)
            self.assertEqual(self.steps(verb)[-1], "ninja -C absent", verb)

    def test_bench_needs_one_of_the_programs_that_tests_build(self):
        self.assertEqual(self.steps("bench")[0], "tools/install_packages test")
        self.assertEqual(self.steps("bench")[-1], "ninja -C absent bascule tests/distributed/bench_allreduce")

    def test_a_build_folder_without_tests_needs_none_of_their_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            output_of("meson", "setup", "-Dtests=false", folder)
            names = {found["name"] for found in json.loads(output_of("meson", "introspect", "--dependencies", folder))}
            self.assertIn("nlohmann_json", names)
            self.assertNotIn("gtest", names)
            self.assertEqual(json.loads(output_of("meson", "introspect", "--tests", folder)), [])

            output_of("meson", "configure", "-Dtests=true", folder)  # as `make setup` does
            output_of("ninja", "-C", folder, "build.ninja")
            self.assertNotEqual(json.loads(output_of("meson", "introspect", "--tests", folder)), [])
