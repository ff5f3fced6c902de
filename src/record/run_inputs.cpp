// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_inputs.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>

#include "firmware_shims/media_engine.h"
#include "kernels/gemm/gemm.h"
#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/hf_folder.h"
#include "src/files/model_file_names.h"
#include "src/record/plan_data.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

void add_model(const RecordedRun& run, InputList* inputs) {
  const ModelSettings& model = run.settings.model;
  const auto& [folder, resolved] = model.model_name_or_path;
  const std::string& below = run.settings.words.body;
  const std::string body = below.empty() ? folder : folder + "/" + below;
  inputs->add(body, "config.json");
  if (run.opened.sentence) {
    for (const std::string& file : run.opened.sentence->files) inputs->add_path(folder + "/" + file);
  }
  inputs->add_found(folder, resolved, kPreprocessorFiles);
  if (serves(*run.opened.model, Use::kDecode)) inputs->add_found(folder, resolved, kGenerationFiles);
  if (!model.from_scratch) {
    for (std::string& file : hf_weight_files(run.opened.model_folder)) inputs->add(body, std::move(file));
  }
  if (run.opened.tokenizer == nullptr) return;
  const PathSetting& tokenizer = model.tokenizer_name;
  inputs->add_found(tokenizer.is_given() ? tokenizer.written : body, tokenizer.resolved, kTokenizerFiles);
}

// As its manifest names it. Paths of pictures are kept relative to a folder that all manifests are in.
std::string name_of_picture(std::string_view path, const std::string& prefix) {
  if (prefix.empty() || path.front() == '/') return std::string(path);
  return fs::path(path).lexically_relative(prefix.substr(0, prefix.size() - 1)).string();
}

// A picture may be in several manifests, each of which names it from its own folder. One that is missing is not read.
void add_pictures(const Manifest& manifest, InputList* inputs) {
  const DataFiles& files = manifest.files();
  std::vector<std::size_t> last_file(static_cast<std::size_t>(manifest.pictures()),
                                     std::numeric_limits<std::size_t>::max());
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    if (manifest.is_missing(row)) continue;
    const std::int64_t picture = manifest.image_id(row);
    const std::size_t number = manifest.file_number(row);
    std::size_t& last = last_file[static_cast<std::size_t>(picture)];
    if (last == number) continue;
    last = number;
    const DataFile& file = files.manifests[number];
    const std::string& written = files.written[number];
    inputs->add(file.is_class_folder ? written : fs::path(written).parent_path().string(),
                name_of_picture(manifest.image_path(picture), file.prefix));
  }
}

void add_data(const Manifest& manifest, InputList* inputs) {
  const DataFiles& files = manifest.files();
  for (std::size_t i = 0; i < files.written.size(); ++i) {
    if (files.shards.empty() && files.manifests[i].is_class_folder) continue;
    inputs->add_path(files.written[i]);
  }
  if (files.shards.empty() && manifest.has_pictures()) add_pictures(manifest, inputs);
}

void add_checkpoint(const PathSetting& checkpoint, InputList* inputs) {
  std::error_code failed;
  for (fs::directory_iterator entry(checkpoint.resolved, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) inputs->add(checkpoint.written, entry->path().filename().string());
  }
  if (failed) throw Error(ErrorKind::kData, checkpoint.resolved, failed.message());
}

}  // namespace

std::vector<InputFolder> run_inputs(const RecordedRun& run) {
  InputList inputs;
  add_model(run, &inputs);
  for (const RecordedSplit& split : run.data.splits) add_data(*split.manifest, &inputs);
  // Held-out rows are found by all pictures, also of rows that the run does not use.
  const DataSettings& data = run.settings.data;
  if (data.validation_share > 0.0 && !data.train_file.is_corpus()) add_data(whole_training_file(run), &inputs);
  const PathSetting& checkpoint = run.settings.run.resume_checkpoint;
  if (checkpoint.is_given()) add_checkpoint(checkpoint, &inputs);
  for (const PathSetting* path : {&run.settings.distributed.hostfile, &run.settings.serve.api_key_file}) {
    if (path->is_given()) inputs.add_path(path->written);
  }
  return inputs.sorted();
}

ParameterCount count_parameters(const ParameterSet& parameters) {
  ParameterCount count;
  std::set<std::string> counted;  // first pieces: a copy in bf16 (element_types.h) has that of another parameter
  for (int p = 0; p < parameters.size(); ++p) {
    const Parameter& parameter = parameters[p];
    if (!parameter.pieces.empty() && !counted.insert(parameter.pieces.front().name).second) continue;
    count.all += parameter.elements();
    count.trained += parameter.trained ? parameter.elements() : 0;
  }
  return count;
}

std::string parameters_text(const ParameterSet& parameters) {
  const ParameterCount count = count_parameters(parameters);
  return std::string(readable_count(count.all).c_str()) + " parameters, " + readable_count(count.trained).c_str() +
         " trained";
}

std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa) {
  std::vector<NamedText> facts = {
      {"bascule", BASCULE_VERSION},
      {"compiler", __VERSION__},
      {"matrix products", run.settings.machine.products == Products::kOurs ? "ours" : onednn_version()},
      {"isa", isa_name(isa)},
      {"threads", std::to_string(run.threads)},
      {"media engine", media_engine_query(media_engine_builtin()).name},
      {"ranks", std::to_string(run.place.world_size)},
      {"seed", std::to_string(run.settings.run.seed)},
      {"settings digest", settings_digest(run.settings)}};
  for (const RecordedSplit& split : run.data.splits) {
    facts.push_back({std::string(split_name(split.split)) + " data digest",
                     std::string(DigestText(split.manifest->data_digest()).text())});
  }
  return facts;
}

}  // namespace bascule
