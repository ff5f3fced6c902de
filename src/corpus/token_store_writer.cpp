// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/token_store_writer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/align.h"
#include "src/base/digest.h"

namespace bascule {
namespace {

constexpr std::size_t kBlockIds = std::size_t{1} << 19;

}  // namespace

TokenStoreWriter::TokenStoreWriter(OutputFile& file, bool is_wide, std::string shown)
    : file_(file), shown_(std::move(shown)) {
  trailer_.id_bytes = is_wide ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
}

void TokenStoreWriter::write(const void* data, std::size_t bytes) {
  throw_if_failed(file_.write(data, bytes), shown_, "writing the tokens of the corpus");
}

// Each table begins on a bound of eight bytes.
void TokenStoreWriter::fill_up(std::size_t written) {
  static constexpr char kZeros[sizeof(std::uint64_t)] = {};
  write(kZeros, align_up(written, sizeof kZeros) - written);
}

template <typename T>
void TokenStoreWriter::write_table(const std::vector<T>& table) {
  write(table.data(), table.size() * sizeof(T));
  fill_up(table.size() * sizeof(T));
}

void TokenStoreWriter::write_ids() {
  write(narrow_.data(), narrow_.size() * sizeof narrow_[0]);
  write(wide_.data(), wide_.size() * sizeof wide_[0]);
  narrow_.clear();
  wide_.clear();
}

void TokenStoreWriter::add_sentence(Span<const std::int32_t> ids, std::int64_t line) {
  if (ids.empty()) return;
  for (const std::int32_t id : ids) {
    if (trailer_.id_bytes == sizeof(std::uint16_t)) {
      narrow_.push_back(static_cast<std::uint16_t>(id));
    } else {
      wide_.push_back(static_cast<std::uint32_t>(id));
    }
  }
  trailer_.tokens += ids.size();
  trailer_.longest_sentence = std::max<std::uint64_t>(trailer_.longest_sentence, ids.size());
  sentence_end_.push_back(trailer_.tokens);
  line_.push_back(static_cast<std::uint32_t>(line));
  if (std::max(narrow_.size(), wide_.size()) >= kBlockIds) write_ids();
}

void TokenStoreWriter::end_document() {
  const std::uint64_t before = document_end_.empty() ? 0 : document_end_.back();
  if (sentence_end_.size() > before) document_end_.push_back(sentence_end_.size());
}

void TokenStoreWriter::end_file() { file_end_.push_back(sentence_end_.size()); }

TokenStoreTrailer TokenStoreWriter::finish(const TokenSource& source, std::uint64_t text_digest, std::int64_t others) {
  write_ids();
  fill_up(trailer_.tokens * trailer_.id_bytes);
  write_table(sentence_end_);
  write_table(document_end_);
  write_table(file_end_);
  write_table(line_);
  trailer_.source = source;
  trailer_.text_digest = text_digest;
  trailer_.sentences = sentence_end_.size();
  trailer_.documents = document_end_.size();
  trailer_.files = file_end_.size();
  trailer_.others = static_cast<std::uint64_t>(others);
  trailer_.contents_digest = file_.digest();
  trailer_.own_digest = digest_of(&trailer_, offsetof(TokenStoreTrailer, own_digest));
  write(&trailer_, sizeof trailer_);
  throw_if_failed(file_.sync_and_close(), shown_, "syncing the tokens of the corpus");
  return trailer_;
}

}  // namespace bascule
