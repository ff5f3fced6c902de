// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder that from_pretrained loads without a warning: config.json, model.safetensors (or shards with an
// index), and the tokenizer and preprocessor files of the sources, byte for byte unless HfFolderContents has others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/readable.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/value.h"

namespace bascule {

// config.json for weights that we write: `source` with "architectures" = [model_class] and "dtype" = "float32".
Json config_to_write(const Json& source, const std::string& model_class);

// Transformers cuts weights into shards above this size (50 GB since its version 5).
constexpr std::int64_t kMaxShardBytes = 50'000'000'000;

struct HfFolderContents {
  std::string config_json;          // the text of config.json
  std::string tokenizer_folder;     // its tokenizer files are copied; empty: none
  std::string preprocessor_folder;  // its preprocessor files are copied; empty: none
  // Further files; one of the name of a tokenizer's file is written in its place. A name may have that of a folder
  // before it.
  std::vector<NamedText> texts;
  std::vector<TensorToWrite> tensors;  // by Hugging Face name; those that take no part in training too
  std::int64_t max_shard_bytes = kMaxShardBytes;
};

struct PlannedFile {
  std::string name;
  std::int64_t bytes = 0;
};

// Made before the seal: opens the files to copy, makes every header and path. Writing allocates nothing.
class HfFolderPlan {
 public:
  explicit HfFolderPlan(HfFolderContents contents);

  struct Shard {
    std::string name;
    SafetensorsWritePlan plan;
  };

  const std::vector<PlannedFile>& files() const { return files_; }
  const std::vector<Shard>& shards() const { return shards_; }

  // Into a folder that exists, each file at its final name and synced; for folders that are published as a whole.
  // digests: one for each of files(), or none are wanted.
  Status write_into(const char* folder, WriteProgress progress = {}, Span<std::uint64_t> digests = {}) const noexcept {
    return write_all_into(folder, false, progress, digests);
  }
  // Into a folder in use: each file beside, then renamed; weights first, config.json last.
  Status write_durably_into(const char* folder, WriteProgress progress = {}) const noexcept;

 private:
  struct Copy {
    std::string name;
    InputFile file;
  };

  Status write_all_into(const char* folder, bool durably, WriteProgress progress,
                        Span<std::uint64_t> digests) const noexcept;
  // Writes the file `index` of files() at `path` and syncs it. digest: may be null.
  Status write_file(std::size_t index, const char* path, WriteProgress progress, std::uint64_t* digest) const noexcept;

  std::string config_json_;
  std::string index_json_;  // empty if there is one shard
  std::vector<Copy> copies_;
  std::vector<NamedText> texts_;
  std::vector<Shard> shards_;
  std::vector<PlannedFile> files_;  // shards, index, copies, texts, config.json: in the order of writing
};

}  // namespace bascule
