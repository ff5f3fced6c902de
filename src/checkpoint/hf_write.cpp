// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/hf_write.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "src/base/check.h"
#include "src/base/paths.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// Transformers' rule: tensors in order, a new shard when the next would make this one too large.
std::vector<std::vector<TensorToWrite>> cut_into_shards(std::vector<TensorToWrite> tensors, std::int64_t max_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite& a, const TensorToWrite& b) { return a.name < b.name; });
  std::vector<std::vector<TensorToWrite>> shards(1);
  std::int64_t bytes = 0;
  for (TensorToWrite& tensor : tensors) {
    if (!shards.back().empty() && bytes + tensor_bytes(tensor) > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor_bytes(tensor);
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

Status copy_file(const InputFile& from, const char* path, std::uint64_t* digest) noexcept {
  OutputFile to;
  BASCULE_TRY(to.create(path));
  char block[32768];
  for (std::int64_t done = 0; done < from.size();) {
    const auto part = std::min<std::int64_t>(from.size() - done, sizeof block);
    BASCULE_TRY(from.try_read(block, done, static_cast<std::size_t>(part)));
    BASCULE_TRY(to.write(block, static_cast<std::size_t>(part)));
    done += part;
  }
  if (digest != nullptr) *digest = to.digest();
  return to.sync_and_close();
}

// Cuts the path behind the last folder that a file's name names, and returns the rest of the name.
std::string_view enter_folder(PathBuffer* path, std::string_view name) noexcept {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return name;
  path->append("/").append(name.substr(0, slash));
  return name.substr(slash + 1);
}

}  // namespace

Json config_to_write(const Json& source, const std::string& model_class) {
  Json config = source;
  config["architectures"] = Json::array({model_class});
  config["dtype"] = "float32";
  config.items().erase("torch_dtype");  // the older name of dtype
  return config;
}

HfFolderPlan::HfFolderPlan(HfFolderContents contents) : config_json_(std::move(contents.config_json)) {
  Json weight_map = Json::object();
  std::int64_t total_bytes = 0;
  auto shards = cut_into_shards(std::move(contents.tensors), contents.max_shard_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    for (const TensorToWrite& tensor : shards[i]) {
      weight_map[tensor.name] = name;
      total_bytes += tensor_bytes(tensor);
    }
    shards_.push_back(Shard{name, SafetensorsWritePlan(std::move(shards[i]))});
    files_.push_back({name, shards_.back().plan.file_bytes()});
  }
  if (shards_.size() > 1) {
    index_json_ = json_text(Json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}}, 2) + "\n";
    files_.push_back({"model.safetensors.index.json", static_cast<std::int64_t>(index_json_.size())});
  }
  const auto copy = [&](const std::string& folder, const char* name) {
    if (find_value(contents.texts, name) != nullptr) return;
    if (folder.empty() || !is_there(folder + "/" + name)) return;
    copies_.push_back(Copy{name, InputFile(folder + "/" + name)});
    files_.push_back({name, copies_.back().file.size()});
  };
  for (const char* name : kTokenizerFiles) copy(contents.tokenizer_folder, name);
  for (const char* name : kPreprocessorFiles) copy(contents.preprocessor_folder, name);
  texts_ = std::move(contents.texts);
  for (const NamedText& one : texts_) files_.push_back({one.name, static_cast<std::int64_t>(one.value.size())});
  files_.push_back({"config.json", static_cast<std::int64_t>(config_json_.size())});
}

Status HfFolderPlan::write_file(std::size_t index, const char* path, WriteProgress progress,
                                std::uint64_t* digest) const noexcept {
  if (index < shards_.size()) return shards_[index].plan.write(path, progress, digest);
  index -= shards_.size();
  if (!index_json_.empty() && index-- == 0) return write_synced(path, index_json_, digest);
  if (index < copies_.size()) return copy_file(copies_[index].file, path, digest);
  index -= copies_.size();
  if (index < texts_.size()) return write_synced(path, texts_[index].value, digest);
  return write_synced(path, config_json_, digest);
}

Status HfFolderPlan::write_all_into(const char* folder, bool durably, WriteProgress progress,
                                    Span<std::uint64_t> digests) const noexcept {
  BASCULE_CHECK(digests.empty() || digests.size() == files_.size());
  PathBuffer path(folder);
  const std::size_t start = path.length();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    path.cut(start);
    const std::string_view name = enter_folder(&path, files_[i].name);
    const std::size_t end = path.length();
    if (end > start) BASCULE_TRY(make_folder(path.c_str()));
    path.append("/").append(durably ? kTemporaryPrefix : "").append(name);
    const Status written = write_file(i, path.c_str(), progress, digests.empty() ? nullptr : &digests[i]);
    if (!written.ok() && durably) ::unlink(path.c_str());
    BASCULE_TRY(written);
    path.cut(end);
    if (durably) BASCULE_TRY(publish_file(path.c_str(), name));
    if (!durably && end > start) BASCULE_TRY(sync_folder(path.c_str()));
  }
  return ok_status();
}

Status HfFolderPlan::write_durably_into(const char* folder, WriteProgress progress) const noexcept {
  BASCULE_TRY(write_all_into(folder, true, progress, {}));
  if (shards_.size() == 1) return ok_status();
  // An undivided file of an earlier run would be preferred to the shards.
  return ::unlink(PathBuffer(folder).append("/model.safetensors").c_str()) == 0 || errno == ENOENT
             ? ok_status()
             : Status{StatusCode::kDiskFailed, {errno, 0}};
}

}  // namespace bascule
