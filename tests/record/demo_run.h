// SPDX-License-Identifier: Apache-2.0
// The demo's model and data, recorded as `bascule plan` does it. Nothing is allocated, and no picture is read.
#pragma once

#include <memory>
#include <string>

#include "src/record/opened_model.h"
#include "src/record/recorded_run.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

// Lines of [model], [training] and [data]; where the model is another one than the demo's, its folder. The run is
// folder/run.
inline Settings demo_settings(const std::string& folder, const std::string& model, const std::string& training,
                              const std::string& data = "", const std::string& model_folder = "", int train_batch = 8) {
  const std::string demo = reference_dir() + "/emoji-captions";
  return read_settings_text(
      "[model]\nmodel_name_or_path = \"" + (model_folder.empty() ? demo + "/model" : model_folder) +
          "\"\ntokenizer_name = \"" + demo + "/tokenizer\"\nfrom_scratch = true\n" + model + "[data]\ntrain_file = \"" +
          demo + "/train.jsonl\"\nvalidation_file = \"" + demo + "/validation.jsonl\"\nmax_seq_length = 16\n" + data +
          "[training]\noutput_dir = \"" + folder +
          "/run\"\nper_device_train_batch_size = " + std::to_string(train_batch) + "\n" + training,
      "test.toml", folder, model_words);
}

class DemoRun {
 public:
  // As demo_settings().
  DemoRun(const std::string& model, const std::string& training, const std::string& data = "",
          const std::string& model_folder = "", int train_batch = 8)
      : settings_(demo_settings(folder_.path(), model, training, data, model_folder, train_batch)),
        run_(record_run(settings_, RankPlace{})) {}
  RecordedRun& operator*() { return *run_; }
  RecordedRun* operator->() { return run_.get(); }

 private:
  TemporaryFolder folder_;
  Settings settings_;
  std::unique_ptr<RecordedRun> run_;
};

}  // namespace bascule::test
