// SPDX-License-Identifier: Apache-2.0
// A run of the demo's model and data as far as it is sealed, in a folder of the test's. Memory is never closed: what
// follows may allocate.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/seal/sealed_run.h"
#include "tests/record/demo_run.h"

namespace bascule::test {

class ShortRun {
 public:
  // Lines of [training]; the checkpoint to go on from. Event files are named by second and process, and two runs of a
  // test may have both in common: none are written.
  ShortRun(const std::string& folder, const std::string& training, std::optional<ResumePoint> resume = std::nullopt)
      : settings_(demo_settings(folder, "", training + "[report]\ntensorboard = false\n")),
        run_(record_run(settings_, RankPlace{}, media_engine_builtin(), std::move(resume))),
        group_(RankPlace{}, {}) {
    said().clear();
    std::filesystem::create_directories(settings_.run.output_dir.resolved);
    StartTimes times;
    sealed_.emplace(
        *run_, best_isa(), &kNoSignal, [](const std::string& line) { said().push_back(line); }, group_, &times);
  }

  SealedRun& operator*() { return *sealed_; }
  SealedRun* operator->() { return &*sealed_; }
  const std::string& folder() const { return settings_.run.output_dir.resolved; }
  // The lines that the seal of the last one said.
  static std::vector<std::string>& said() {
    static std::vector<std::string> lines;
    return lines;
  }

 private:
  static constexpr int kNoSignal = 0;

  const Settings settings_;
  std::unique_ptr<RecordedRun> run_;
  Group group_;
  std::optional<SealedRun> sealed_;
};

}  // namespace bascule::test
