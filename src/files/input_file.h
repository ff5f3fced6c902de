// SPDX-License-Identifier: Apache-2.0
// Reading files: how they are opened, read, summed and listed; and the files of a model.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/paths.h"
#include "src/base/status.h"

namespace bascule {

// A file open for reading, anywhere in it and by many threads at once.

// A file open for reading. Its descriptor keeps the content alive when the name is removed or replaced.
class InputFile {
 public:
  explicit InputFile(std::string path);  // throws Error{kData} unless it is a regular file that can be read

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }

  // Exactly `bytes` bytes from `offset` on; kReadFailed (detail: -1, errno; errno 0 if the file ended) otherwise.
  Status try_read(void* destination, std::int64_t offset, std::size_t bytes) const noexcept;
  void read(void* destination, std::int64_t offset, std::size_t bytes) const;  // the same; throws Error{kData}

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

// All of a file. Throws Error{kData} as InputFile does, and for one that is larger.
std::string text_of_file(const std::string& path, std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max());

// For messages, of a status that try_read() returned: "the file is truncated", "cannot be read: Input/output error".
std::string read_problem(const Status& status);

// Opening what is to be a regular file. A pipe or device that stands in its place is refused, not waited for.

// The error of open_regular_file() for anything that is neither a regular file nor a folder.
constexpr int kNotAFile = EINVAL;

// For reading; relative paths start from `folder`, a descriptor or AT_FDCWD. A descriptor, or -errno: -EISDIR for a
// folder, -kNotAFile. Allocates nothing.
int open_regular_file(int folder, const char* path) noexcept;

// For messages: "is not a file", "cannot be read: Permission denied". Allocates.
std::string file_problem(int reason);

// SHA-256 of whole files. Before the seal or after the last step.

// 64 hexadecimal digits. Throws Error{kData} where it is no file that can be read.
std::string sha256_of_file(const std::string& path);

// The files that a run reads: what must be on another machine for the same run. Before the seal.

// Files of a folder, sorted; each once.
struct InputFolder {
  std::string folder;              // as the settings name it: relative to where their paths start, or absolute
  std::vector<std::string> files;  // relative to it, or absolute, as manifests name pictures
};

class InputList {
 public:
  // A file of a folder; "": where the paths of the settings start.
  void add(const std::string& folder, std::string file);
  // A file with its folder, as it is written.
  void add_path(const std::string& written);
  // Those of the names that are there. folder: as written; resolved: the same folder, where it is.
  template <typename Names>
  void add_found(const std::string& folder, const std::string& resolved, const Names& names) {
    for (const char* const name : names) {
      if (is_file(resolved + "/" + name)) add(folder, name);
    }
  }

  // By folder.
  std::vector<InputFolder> sorted() const;

 private:
  std::map<std::string, std::vector<std::string>> folders_;
};

// The files that a folder of a model may have beside config.json and weights. They are read, copied, summed and listed
// by several rooms.

// The files of a tokenizer, in any of its forms. A folder has some of them.
inline constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "added_tokens.json",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "vocab.txt"};
// Those of an image processor.
inline constexpr const char* kPreprocessorFiles[] = {"preprocessor_config.json", "processor_config.json"};

// Those of a model that makes vectors of texts, as patterns; files of its modules lie in folders of their own.
inline constexpr const char* kSentenceFiles[] = {"modules.json", "config_sentence_transformers.json",
                                                 "sentence_*_config.json"};
inline constexpr const char* kSentenceFolders[] = {"[0-9]_Pooling", "[0-9]_Normalize"};

// How a model's texts are generated.
inline constexpr const char* kGenerationFiles[] = {"generation_config.json"};

}  // namespace bascule
