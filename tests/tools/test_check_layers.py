# SPDX-License-Identifier: Apache-2.0
"""tools/check_layers.py finds arrows that go back, and lets pass what the table allows."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tool_modules import ROOT
import check_layers


def check(files):
    """Runs the tool over a tree of {path: text}; returns its exit code and its lines."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run([sys.executable, ROOT / "tools/check_layers.py", folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class CheckLayers(unittest.TestCase):
    def assert_refused(self, path, include):
        code, lines = check({path: f"// a comment\n#include {include}\n"})
        self.assertEqual(code, 1, f"{path} may include {include}")
        self.assertTrue(lines[0].startswith(f"{path}:2: "), lines)

    def assert_allowed(self, path, include):
        code, lines = check({path: f"#include {include}\n"})
        self.assertEqual(code, 0, lines)

    def test_arrows_that_go_back_are_refused(self):
        for path, include in [("kernels/norm.h", "src/base/span.h"), ("src/base/span.h", "src/json/json.h"),
                              ("src/plan/place.h", "src/runtime/arena.h"), ("src/plan/place.h", "src/models/bridgetower.h"),
                              ("src/replay/loop.cpp", "src/commands/commands.h"), ("src/models/heads.cpp", "src/settings/keys.h"),
                              ("src/index/manifest.h", "src/loader/ring.h"), ("src/text/tokenizer.h", "src/index/manifest.h"),
                              ("src/ask/search.cpp", "src/commands/commands.h"), ("src/ask/fill.cpp", "src/replay/loop.h"), ("src/verify/verify.cpp", "src/seal/sealed_run.h"),
                              ("src/record/recorded_run.h", "src/seal/sealed_run.h"), ("src/run_folder/run_folder.cpp", "src/finish/finish.h"), ("src/logs/progress.h", "src/answer/report.h"), ("src/answer/report.h", "src/checkpoint/checkpoint.h"),
                              ("src/loader/media.cpp", "firmware_shims/codec/jpeg.h"), ("firmware_shims/host/engine.cpp", "kernels/norm.h"),
                              ("firmware_shims/hpu_sim/driver.cpp", "firmware_shims/codec/jpeg.h"), ("src/checkpoint/checkpoint.h", "src/replay/loop.h")]:
            self.assert_refused(path, f'"{include}"')

    def test_the_arrows_of_the_table_are_allowed(self):
        for path, include in [("kernels/simd/norms.cpp", "kernels/rows.h"), ("src/graph/graph.h", "kernels/rows.h"),
                              ("src/models/heads.cpp", "src/settings/settings.h"), ("src/loader/media.cpp", "firmware_shims/media_engine.h"),
                              ("firmware_shims/codec/jpeg.cpp", "kernels/resize.h"), ("src/commands/run.cpp", "src/replay/loop.h"),
                              ("src/index/index_file.cpp", "src/files/durable_write.h"), ("src/loader/ring.h", "src/text/tokenizer.h"),
                              ("src/plan/place.cpp", "src/plan/place.h"), ("firmware_shims/hpu_sim/driver.cpp", "firmware_shims/hpu_sim/registers.h")]:
            self.assert_allowed(path, f'"{include}"')

    def test_a_family_whose_name_is_a_plain_word_leaves_the_word_to_others(self):
        family = {"src/models/clip.cpp": 'const Family kClip = {"clip", kHeads};\n', "src/models/deit.cpp": 'const Family kDeit = {"deit", kHeads};\n'}
        for line in ("// the norm to clip to", "void clip_gradients();", "struct GradientClip {};", "double clip = 1.0;"):
            self.assertEqual(check({**family, "src/update/norm.h": line + "\n"})[0], 0, line)
        for line in ('is("clip")', "struct ClipConfig;", "ClipText text;", "// as deit does"):
            code, lines = check({**family, "src/update/norm.h": line + "\n"})
            self.assertEqual(code, 1, line)
            self.assertIn("the name of a family", lines[0])

    def test_a_library_has_one_place(self):
        self.assert_allowed("src/json/json.cpp", "<nlohmann/json.hpp>")
        self.assert_refused("src/answer/json.cpp", "<nlohmann/json.hpp>")
        self.assert_refused("kernels/gemm/own_gemm.cpp", "<oneapi/dnnl/dnnl.h>")
        self.assert_refused("kernels/gemm/gemm.h", "<Eigen/Core>")
        self.assert_refused("src/base/span.h", "<boost/span.hpp>")
        self.assert_allowed("src/base/span.h", "<cstddef>")
        self.assert_allowed("src/runtime/arena.cpp", "<sys/mman.h>")

    def test_isa_units_include_next_to_nothing(self):
        self.assert_allowed("kernels/simd/norms.cpp", "<immintrin.h>")
        self.assert_refused("kernels/simd/norms.cpp", "<cmath>")
        self.assert_allowed("kernels/reference/norm.h", "<cmath>")

    def test_the_c_header_stays_c(self):
        self.assert_allowed("firmware_shims/media_engine.h", "<stdint.h>")
        self.assert_refused("firmware_shims/media_engine.h", "<cstdint>")

    def test_ours_is_included_from_the_root(self):
        self.assert_refused("src/plan/place.cpp", '"place.h"')

    def test_a_word_of_one_model_stays_in_its_rooms(self):
        registered = {"src/models/tower_family.cpp": 'const Family kTower = {"two_tower", "X", heads()};\nFamilyHead a = head("pairs", "judge", true);\n',
                      "src/judge/pairs.cpp": 'constexpr Metric kHits = {"hit_rate", "hits", 0, true};\n'}
        for line, refused in [("// a Two_Tower model", True), ("std::string head = \"pairs\";", True), ('say("head = \\"pairs\\"");', True), ("// the key `hit_rate`", True),
                              ("// pairs of rows", False), ("int hit_rate = 0;", False)]:
            for path in ("src/replay/loop.cpp", "src/answer/html.cpp", "firmware_shims/host/engine.cpp"):
                code, lines = check({**registered, path: f"// first\n{line}\n"})
                self.assertEqual(code, int(refused), lines)
                self.assertTrue(not refused or lines[0].startswith(f"{path}:2: "), lines)
            code, lines = check({**registered, "src/models/layers.cpp": line + "\n", "src/graph/operations/pairs.cpp": line + "\n"})
            self.assertEqual(code, 0, lines)

    def test_the_words_of_all_models_are_found(self):
        words = {what: pattern.pattern for what, pattern, _ in check_layers.words_of_models(ROOT)}
        self.assertEqual(len(words), 3)
        for word in ("bridgetower", "image_text_matching", "masked_lm", "auc", "perplexity", "text_to_image_recall_at_10"):
            self.assertTrue(any(word in pattern for pattern in words.values()), word)

    def test_a_room_that_the_table_lacks_is_refused(self):
        self.assert_refused("src/utils/span.h", '"src/base/span.h"')
