// SPDX-License-Identifier: Apache-2.0
// The index of a data set: which picture, which caption, which label each row has. Read once before the seal from
// .jsonl, .json, .csv, .tsv or a folder with metadata.jsonl; afterwards constant, and reading a row allocates nothing.
//
// Per row 17 bytes, per different picture 8 bytes and its path, per row the caption's bytes; nothing else is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bascule {

struct ManifestColumns {
  std::string image =
      "image";  // in a folder with metadata.jsonl this default means "file_name", as Hugging Face has it
  std::string caption = "caption";
  std::string label;  // empty: rows have no label
};

struct ManifestRow {
  std::string_view
      image_path;            // as written, relative to Manifest::folder() unless absolute; data() ends with a zero byte
  std::string_view caption;  // UTF-8
  int label = -1;            // 0 or 1; -1 without a label column
  std::int64_t image_id = 0;  // equal for rows with the same picture; 0 .. pictures() - 1 in order of first use
};

class Manifest {
 public:
  // Throws Error (kData) naming file and line: no file, no rows, a column missing, a value that is no string, no UTF-8
  // or no label, malformed JSON or CSV.
  static Manifest load(const std::string& path, const ManifestColumns& columns);

  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(image_of_row_.size()); }
  // Different pictures, told apart by their path as written.
  std::int64_t pictures() const noexcept { return static_cast<std::int64_t>(path_begin_.size()) - 1; }
  bool has_labels() const noexcept { return !labels_.empty(); }
  ManifestRow row(std::int64_t row) const noexcept;
  std::int64_t image_id(std::int64_t row) const noexcept;
  std::string_view image_path(std::int64_t image_id) const noexcept;
  std::size_t longest_caption_bytes() const noexcept { return longest_caption_bytes_; }

  // The folder that relative picture paths start from.
  const std::string& folder() const noexcept { return folder_; }
  // Where a row was written, for messages: "train.jsonl:17". Allocates.
  std::string where(std::int64_t row) const;
  // XXH3 of the manifest file's bytes.
  std::uint64_t digest() const noexcept { return digest_; }
  // XXH3 of digest() and the size of every picture in order of image id (a picture that cannot be asked counts as 2^64
  // - 1). One system call a picture; before the seal or after the last step.
  std::uint64_t data_digest() const;

 private:
  friend class ManifestBuilder;
  Manifest() = default;

  std::string file_;
  std::string folder_;
  std::string captions_;                     // all captions, end to end
  std::vector<std::uint64_t> caption_end_;   // per row; a caption begins where the one before ends
  std::vector<std::uint32_t> image_of_row_;  // per row
  std::vector<std::uint32_t> line_;          // per row: line of the manifest
  std::vector<std::uint8_t> labels_;         // per row, or empty
  std::string paths_;                        // all picture paths, each with its zero byte
  std::vector<std::uint64_t> path_begin_;    // per picture and one past the last
  std::size_t longest_caption_bytes_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace bascule
