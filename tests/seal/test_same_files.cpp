// SPDX-License-Identifier: Apache-2.0
// Two machines, simulated on one, that read files of the same names; run by mpirun, see meson.build.
#include "src/seal/sealed_weights.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/base/error.h"
#include "tests/distributed/place_on_nodes.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

Group* all = nullptr;

// What check_same_files() says of a run with these rows. Paths are relative, each rank has a folder of its own.
std::string refusal_of(const std::string& rows) {
  const TemporaryFolder folder;
  folder.write("rows.jsonl", rows);
  const std::string demo = reference_dir() + "/emoji-captions";
  const Settings settings =
      read_settings_text("[model]\nmodel_name_or_path = \"" + demo + "/model\"\ntokenizer_name = \"" + demo +
                             "/tokenizer\"\nfrom_scratch = true\n[data]\ntrain_file = "
                             "\"rows.jsonl\"\nmax_seq_length = 16\n[training]\noutput_dir = \"run\"\n",
                         "test.toml", folder.path(), model_words);
  const std::unique_ptr<RecordedRun> run = record_run(settings, RankPlace{});
  try {
    check_same_files(*run, *all);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSettings);
    EXPECT_TRUE(!all->is_first() || all->barrier());  // the others wait for it until it ends the run
    return error.problem();
  }
  return "";
}

TEST(SameFiles, OtherDataOfAsManyRowsAreRefused) {
  const std::string row = "{\"image\": \"" + reference_dir() + "/emoji-captions/images/1f47b.jpg\", \"caption\": ";
  const std::string rows[] = {row + "\"ghost\"}\n", row + "\"cloud\"}\n"};
  EXPECT_EQ(refusal_of(rows[0]), "");
  EXPECT_EQ(refusal_of(rows[all->rank()]), "rank 1's machine reads different data than rank 0's");
}

}  // namespace
}  // namespace bascule::test

int main(int argc, char** argv) { return bascule::test::run_on_nodes(argc, argv, &bascule::test::all); }
