// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/profile.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/files.h"

namespace bascule {
namespace {

BringUp some_bring_up() {
  BringUp run;
  run.program = "0.1.0";
  run.isa = "avx2";
  run.cores = 2;
  run.huge_share = 0.75;
  run.far_share = 0.25;
  run.machine = read_machine();
  Figure figure;
  figure.item = "memory";
  figure.name = "read";
  figure.place = "core <1>";
  figure.unit = "GB/s";
  figure.rounds = {10.0, 12.5, 11.0};
  figure.limit = 20.0;
  figure.taken.stolen = 0.125;
  run.figures = {figure};
  run.bits.passes = 3;
  run.bits.wrong = {{1, "float32 product, forward", 2}};
  return run;
}

class Profile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string refusal() const {
    return test::error_of([&] { read_profile(path_); });
  }
  const std::string path_ = testing::TempDir() + "profile_" + std::to_string(getpid()) + ".json";
};

TEST_F(Profile, ComesBackAsItWas) {
  const BringUp run = some_bring_up();
  write(json_text(bring_up_json(run, {})));
  const BringUp back = read_profile(path_);
  EXPECT_EQ(back.cores, 2);
  EXPECT_EQ(back.huge_share, 0.75);
  EXPECT_EQ(back.far_share, 0.25);
  ASSERT_EQ(back.figures.size(), 1u);
  EXPECT_EQ(back.figures[0].key(), run.figures[0].key());
  EXPECT_EQ(back.figures[0].rounds, run.figures[0].rounds);
  EXPECT_EQ(back.figures[0].taken.stolen, 0.125);
  EXPECT_EQ(bring_up_json(back, {})["machine"], bring_up_json(run, {})["machine"]);
}

// Older ones do not say how much of a rank's memory is remote.
TEST_F(Profile, OfAnOlderVersionIsRead) {
  std::string text = json_text(bring_up_json(some_bring_up(), {}));
  const std::size_t begin = text.find("\"far_memory_share\"");
  text.erase(begin, text.find(',', begin) + 1 - begin);
  write(text);
  EXPECT_FALSE(read_profile(path_).far_share);
}

TEST_F(Profile, ShowsMemoryNodesAndHowManyRanksSuitThem) {
  BringUp run = some_bring_up();
  run.machine.nodes.resize(1);
  run.machine.nodes[0].cores = "0-3";
  run.machine.process.cores = "0-3";
  EXPECT_NE(bring_up_text(run, {}).find("memory nodes: 1\nranks of a run here: 1 (this machine has one memory node)\n"),
            std::string::npos);
  run.machine.nodes.resize(2);
  run.machine.nodes[0].cores = "0-1";
  run.machine.nodes[0].distances = "10 21";
  run.machine.nodes[1].number = 1;
  run.machine.nodes[1].cores = "2-3";
  run.machine.nodes[1].distances = "21 10";
  for (const int reader : {0, 1}) {
    for (const int read : {0, 1}) {
      Figure figure = run.figures[0];
      figure.name = read_of_node(read);
      figure.place = cores_of_node(reader);
      figure.rounds = {reader == read ? 40.0 + reader : 20.0 + reader};
      run.figures.push_back(figure);
    }
  }
  const std::string line =
      "memory nodes: 2, distances 10 21; 21 10; cores read 40.5 GB/s of their own node's memory, 20.5 GB/s of "
      "another's";
  EXPECT_NE(bring_up_text(run, {}).find(line + "\nranks of a run here: 2 (one for each memory node"), std::string::npos)
      << bring_up_text(run, {});
  EXPECT_NE(bring_up_html(run, {}).find("distances 10 21; 21 10"), std::string::npos);
  EXPECT_EQ(bring_up_json(run, {})["proposed_ranks"]["world_size"].integer(), 2);
  run.machine.nodes.clear();
  EXPECT_NE(bring_up_text(run, {}).find("memory nodes: unknown\n"), std::string::npos);
}

TEST_F(Profile, BitsThatWereNotCheckedAreNotAsRecorded) {
  BringUp run = some_bring_up();
  run.bits = BitsResult{};
  EXPECT_FALSE(bring_up_json(run, {})["bits"]["as_recorded"].boolean());
  run.bits.passes = 1;
  EXPECT_TRUE(bring_up_json(run, {})["bits"]["as_recorded"].boolean());
  run.bits.none_as_recorded = true;
  EXPECT_FALSE(bring_up_json(run, {})["bits"]["as_recorded"].boolean());
}

TEST_F(Profile, CutShortAnywhereItIsOneClearError) {
  const std::string whole = json_text(bring_up_json(some_bring_up(), {}));
  for (std::size_t length = 0; length + 1 < whole.size(); length += 1 + whole.size() / 50) {
    write(whole.substr(0, length));
    const std::string line = refusal();
    EXPECT_NE(line.find("profile_"), std::string::npos) << length << ": " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST_F(Profile, AnotherDocumentIsRefused) {
  write("{}");
  EXPECT_NE(refusal().find("not a bringup profile"), std::string::npos);
  Json json = bring_up_json(some_bring_up(), {});
  json.items().erase("figures");
  write(json_text(json));
  EXPECT_NE(refusal().find("figures"), std::string::npos) << refusal();
}

TEST_F(Profile, PagesNameFiguresVerdictsCausesAndWrongCores) {
  const BringUp run = some_bring_up();
  FigureJudgement judgement;
  judgement.verdict = Verdict::kSlower;
  judgement.change = -0.25;
  judgement.causes = {{"quota", "0.6 cores", "raise it"}};
  const std::string text = bring_up_text(run, {judgement});
  for (const char* part :
       {"core <1>", "11 GB/s", "10 to 12.5", "55 %", "12 %", "slower -25 %", "cause quota: 0.6 cores",
        "remedy: raise it", "core 1 computes wrong bits: float32 product, forward; in 2 of 3 passes"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const std::string page = bring_up_html(run, {judgement});
  for (const char* part : {"core &lt;1&gt;", "slower -25 %", "quota", "core 1 computes wrong bits"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  judgement.causes.clear();
  EXPECT_NE(bring_up_text(run, {judgement}).find("cause unknown"), std::string::npos);
  EXPECT_NE(page.find("<div class=\"wide\" tabindex"), std::string::npos) << "a narrow window scrolls the table";
  EXPECT_NE(page.find("<td class=\"n\">11 GB/s</td>"), std::string::npos);
}

}  // namespace
}  // namespace bascule
