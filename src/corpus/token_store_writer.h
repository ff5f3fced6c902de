// SPDX-License-Identifier: Apache-2.0
// The file of a token store: ids, then the tables of ends and lines, then a trailer that says what it is. All of it is
// appended, as the text is read. Inside this room only; before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/files/durable_write.h"

namespace bascule {

// Raised whenever the layout changes, or what is made of the same text.
inline constexpr std::uint64_t kTokenStoreFormat = 4;

// The text and the tokenizer that a store was made from.
struct TokenSource {
  std::uint64_t state = 0;  // size, time of change and inode of every file
  std::uint64_t tokenizer = 0;
  bool operator==(const TokenSource& other) const { return state == other.state && tokenizer == other.tokenizer; }
};

struct TokenStoreTrailer {
  char magic[8] = {'B', 'A', 'S', 'C', 'T', 'O', 'K', '\n'};
  std::uint64_t format = kTokenStoreFormat;
  TokenSource source;
  std::uint64_t text_digest = 0;
  std::uint64_t id_bytes = 0;
  std::uint64_t tokens = 0, sentences = 0, documents = 0, files = 0;
  std::uint64_t longest_sentence = 0;
  std::uint64_t others = 0;           // TokenStore::others()
  std::uint64_t contents_digest = 0;  // XXH3 of everything before the trailer
  std::uint64_t own_digest = 0;       // of everything before this
};

class TokenStoreWriter {
 public:
  // shown: the file's path for messages.
  TokenStoreWriter(OutputFile& file, bool is_wide, std::string shown);

  // Nothing may be added to a document after its end. Empty sentences and documents leave nothing. Throws Error
  // (kDisk), as finish() does.
  void add_sentence(Span<const std::int32_t> ids, std::int64_t line);
  void end_document();
  void end_file();
  // Completes and syncs the file. Returns its trailer.
  TokenStoreTrailer finish(const TokenSource& source, std::uint64_t text_digest, std::int64_t others);

 private:
  void write(const void* data, std::size_t bytes);
  void fill_up(std::size_t written);
  void write_ids();
  template <typename T>
  void write_table(const std::vector<T>& table);

  OutputFile& file_;
  const std::string shown_;
  TokenStoreTrailer trailer_;
  std::vector<std::uint16_t> narrow_;  // ids that are not written yet: here or in wide_
  std::vector<std::uint32_t> wide_;
  std::vector<std::uint64_t> sentence_end_, document_end_, file_end_;
  std::vector<std::uint32_t> line_;
};

}  // namespace bascule
