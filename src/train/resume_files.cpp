// SPDX-License-Identifier: Apache-2.0
#include "src/train/resume_files.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/data/digest.h"
#include "src/json/json.h"
#include "src/train/resume_check.h"

namespace bascule {
namespace {

constexpr char kModelFolder[] = "model.folder";
constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Free of spaces and of the order of keys.
std::string json_digest(const std::string& path) {
  Digest digest;
  const std::string text = json_text(read_json_file(path));
  digest.add(text.data(), text.size());
  return hex(digest.value());
}

std::string preprocessor_digest(const std::string& folder) {
  for (const char* name : {"/preprocessor_config.json", "/processor_config.json"}) {
    if (std::filesystem::exists(folder + name)) return json_digest(folder + name);
  }
  return "none";
}

const std::string* find(const std::vector<SettingValue>& values, const std::string& key) {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const SettingValue& one) { return one.key == key; });
  return found == values.end() ? nullptr : &found->value;
}

// what: "config.json", "its files". Throws.
[[noreturn]] void refuse(const RecordedRun& run, const std::string& key, const std::string& what,
                         const std::string& now, const std::string& then) {
  const ResumePoint& point = *run.resume;
  const KeyValues keys = number_keys(run.settings);
  const auto named = std::find_if(keys.begin(), keys.end(), [&](const auto& one) { return one.first == key; });
  const std::string* const path_then = find(point.settings, key);
  const std::string digests = " (digest " + now + ", was " + then + ")";
  if (path_then != nullptr && named != keys.end() && *path_then != named->second) {
    throw Error(ErrorKind::kSettings, where_written(run.settings, key),
                key + " is " + named->second + ", but " + point.folder + " was trained with " + *path_then + ", and " +
                    what + " there differs" + digests,
                "set it back, or choose another output_dir");
  }
  throw Error(ErrorKind::kData, where_written(run.settings, key),
              key + ": " + what + " differs from what " + point.folder + " was trained with" + digests,
              "put it back, or choose another output_dir");
}

struct ModelFile {
  const char* name;
  const char* what;
  const char* key;
};
constexpr ModelFile kModelFiles[] = {{"model.config", "config.json", "model.model_name_or_path"},
                                     {"model.preprocessor", "preprocessor_config.json", "model.model_name_or_path"},
                                     {"model.tokenizer", "the tokenizer", "model.tokenizer_name"},
                                     {kModelWeights, "the content of the weights", "model.model_name_or_path"}};

}  // namespace

std::vector<SettingValue> model_digests(const RecordedRun& run) {
  const ModelSettings& model = run.settings.model;
  return {{kModelFolder, model.model_name_or_path.resolved},
          {"model.config", json_digest(run.config_path)},
          {"model.preprocessor", preprocessor_digest(model.model_name_or_path.resolved)},
          {"model.tokenizer", hex(run.tokenizer->digest())}};
}

std::string weights_digest(const TensorSource& source) {
  Digest digest;
  std::vector<float> block(static_cast<std::size_t>(kBlockElements));
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string head = tensor.name + shape_text(tensor.shape);
    digest.add(head.data(), head.size());
    const std::int64_t count = element_count(tensor.shape);
    for (std::int64_t first = 0; first < count; first += kBlockElements) {
      const std::int64_t part = std::min(count - first, kBlockElements);
      source.read_float32(block.data(), tensor, first, part);
      digest.add(block.data(), static_cast<std::size_t>(part) * sizeof(float));
    }
  }
  return hex(digest.value());
}

std::vector<SettingValue> data_digests(const RecordedRun& run) {
  std::vector<SettingValue> values;
  for (const RecordedSplit& split : run.splits)
    values.push_back({std::string("data.") + split_name(split.split) + "_file", hex(split.manifest->data_digest())});
  return values;
}

void check_model_files(RecordedRun* run) {
  run->model_files = model_digests(*run);
  if (!run->resume) return;
  const std::vector<SettingValue>& then = run->resume->data;
  const ModelSettings& model = run->settings.model;
  const std::string* const folder = find(then, kModelFolder);
  const bool has_moved = folder == nullptr || *folder != model.model_name_or_path.resolved;
  if (const std::string* const weights = find(then, kModelWeights); weights != nullptr) {
    const std::string& now = model.model_name_or_path.resolved;
    run->model_files.push_back({kModelWeights, has_moved ? weights_digest(open_hf_weights(now)) : *weights});
  }
  for (const ModelFile& file : kModelFiles) {
    const std::string* const now = find(run->model_files, file.name);
    const std::string* const was = find(then, file.name);
    if (now != nullptr && was != nullptr && *now != *was) refuse(*run, file.key, file.what, *now, *was);
  }
  if (folder != nullptr) return;
  for (const SettingChange& change : changes_since(*run->resume, run->settings)) {
    if (change.effect != KeyEffect::kSameFiles) continue;
    throw Error(ErrorKind::kSettings, where_written(run->settings, change.key),
                change.key + " is " + change.to + ", but " + run->resume->folder + " was trained with " + change.from +
                    ", by an older program, which kept nothing to compare the files by",
                "set it back, or choose another output_dir");
  }
}

void check_data(RecordedRun* run) {
  if (!run->resume) return;
  for (const SettingValue& now : data_digests(*run)) {
    const std::string* const then = find(run->resume->data, now.key);
    if (then == nullptr || *then == now.value) continue;  // a split that was not read before is no conflict
    if (now.key == "data.train_file")
      refuse(*run, now.key, "the content of the rows or the size of a picture", now.value, *then);
    run->changes.push_back({now.key + " (content)", *then, now.value, KeyEffect::kFromThereOn});
  }
}

}  // namespace bascule
