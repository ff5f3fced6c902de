// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_run.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/seal/short_run.h"
#include "tests/support/files.h"
#include "tests/support/sanitized.h"

namespace bascule::test {
namespace {

bool was_said(const std::string& line) {
  return std::count(ShortRun::said().begin(), ShortRun::said().end(), line) == 1;
}

TEST(SealedRun, SaysTheCheckpointThatItGoesOnFromByTheNameThatTheUserGave) {
  const TemporaryFolder first, second;
  std::string checkpoint;
  {
    ShortRun run(first.path(), "max_steps = 2\nsave_steps = 1\n");
    ASSERT_TRUE(run->loop().run().ok());
    checkpoint = run.folder() + "/checkpoint-1";
  }
  const std::string more = "max_steps = 2\nsave_steps = 1\n";
  ShortRun again(first.path(), more, read_checkpoint(checkpoint));
  EXPECT_TRUE(was_said("resume: from checkpoint-1"));
  ShortRun named(second.path(), more + "resume = \"" + checkpoint + "\"\n", read_checkpoint(checkpoint));
  EXPECT_TRUE(was_said("resume: from " + checkpoint));
}

// The demo's model has no tokenizer in its folder.
TEST(SealedRun, TheFinishedFolderHasTheTokenizerThatTheSettingsName) {
  const TemporaryFolder folder, finished;
  ShortRun run(folder.path(), "max_steps = 2\n");
  ASSERT_TRUE(run->final_model()->write_into(finished.path().c_str()).ok());
  const std::string tokenizer = "/tokenizer/tokenizer_config.json";
  EXPECT_EQ(read_file(finished.path() + "/tokenizer_config.json"),
            read_file(reference_dir() + "/emoji-captions" + tokenizer));
}

// Locked memory of this process, in KiB.
std::int64_t locked_kib() {
  const std::string status = read_file("/proc/self/status");
  const std::size_t at = status.find("VmLck:");
  return at == std::string::npos ? -1 : std::stoll(status.substr(at + 6));
}

TEST(SealedMemory, LocksWhatTheRanksShareToo) {
  rlimit allowed = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &allowed), 0);
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer keeps memory from being locked";
  if (allowed.rlim_cur < (24 << 10)) GTEST_SKIP() << "this user may lock less memory (ulimit -l)";
  for (const bool shares : {false, true}) {
    std::vector<PlannedRange> ranges = {{"own", 16 << 10}};
    if (shares) ranges.push_back({"shared", 8 << 10, true});
    Group group(RankPlace{}, {});
    const SealedMemory memory(make_memory_plan(ranges, 0), HugePages::kOff, group);
    const std::int64_t before = locked_kib();
    memory.lock();
    EXPECT_EQ(locked_kib() - before, shares ? 24 : 16);
  }
}

}  // namespace
}  // namespace bascule::test
