// SPDX-License-Identifier: Apache-2.0
#include "src/record/draw_inputs.h"

#include <utility>

#include "src/checkpoint/hf_folder.h"
#include "src/files/model_file_names.h"

namespace bascule {
namespace {

InputList listed(const RecordedDrawRun& run, bool resolved) {
  const auto path = [&](const PathSetting& setting) { return resolved ? setting.resolved : setting.written; };
  const ModelSettings& model = run.settings.model;
  const std::string folder = path(model.model_name_or_path);
  InputList inputs;
  inputs.add(folder, "model_index.json");
  inputs.add(folder + "/scheduler", "scheduler_config.json");
  for (const Part* part : {&run.pipeline.text_encoder, &run.pipeline.noise_predictor, &run.pipeline.decoder}) {
    const std::string of_part = folder + "/" + part->name;
    inputs.add(of_part, "config.json");
    if (model.from_scratch) continue;
    for (std::string& file : hf_weight_files(part->folder, part->stem)) inputs.add(of_part, std::move(file));
  }
  const bool has_own = model.tokenizer_name.is_given();
  inputs.add_found(has_own ? path(model.tokenizer_name) : folder + "/tokenizer",
                   has_own ? model.tokenizer_name.resolved : run.pipeline.tokenizer_folder(), kTokenizerFiles);
  for (const PathSetting* file : {&run.settings.draw.prompts_file, &run.settings.draw.latents_file}) {
    if (file->is_given()) inputs.add_path(path(*file));
  }
  return inputs;
}

}  // namespace

std::vector<InputFolder> draw_inputs(const RecordedDrawRun& run) { return listed(run, false).sorted(); }

std::vector<std::string> draw_input_paths(const RecordedDrawRun& run) {
  std::vector<std::string> paths;
  for (const InputFolder& one : listed(run, true).sorted()) {
    for (const std::string& file : one.files) paths.push_back(one.folder + "/" + file);
  }
  return paths;
}

}  // namespace bascule
