// SPDX-License-Identifier: Apache-2.0
// The data of a run, opened for the checks: also where a run would refuse it. Missing pictures and empty texts are
// rows like others here; rows that a run refuses are a finding, and so is a split that cannot be opened at all. Before
// the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/doctor/finding.h"
#include "src/record/recorded_run.h"
#include "src/settings/settings.h"

namespace bascule {

class OpenedData {
 public:
  // Throws Error for settings and a model that cannot be opened, as a run does. findings: those of rows and splits that
  // cannot be read are appended.
  OpenedData(const Settings& settings, std::vector<Finding>* findings, std::size_t most_examples = kMostExamples);

  const RunData& data() const { return run_.data; }
  const OpenedModel& model() const { return run_.opened; }
  const Settings& settings() const { return settings_; }
  // The most examples of one finding.
  std::size_t most_examples() const { return most_examples_; }
  // The run's own data.on_bad_sample.
  bool stops_at_bad_samples() const { return stops_at_bad_samples_; }
  std::string name(std::size_t split) const { return split_name(run_.data.splits[split].split); }  // "train"
  // "train.jsonl:17", "shard-003.tar". For examples.
  std::string where(std::size_t split, std::int64_t row) const;

 private:
  std::size_t most_examples_;
  bool stops_at_bad_samples_;
  Settings settings_;  // bad samples are skipped
  RecordedRun run_;
};

// The advice for content of a later split that split `in` has too.
std::string advice_for_shared(const OpenedData& opened, std::size_t in);

}  // namespace bascule
