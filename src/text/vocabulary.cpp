// SPDX-License-Identifier: Apache-2.0
#include "src/text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include <xxhash.h>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// At most half of a table is filled.
std::size_t table_size(std::size_t entries) {
  std::size_t size = 16;
  while (size < 2 * entries) size *= 2;
  return size;
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value *= 0x9E3779B97F4A7C15u;
  return value ^ (value >> 32);
}

std::uint64_t pair_of(std::int32_t left, std::int32_t right) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct PackedWord {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

PackedWord pack(std::string_view word) noexcept {
  unsigned char bytes[16] = {};
  std::memcpy(bytes, word.data(), word.size());
  bytes[15] = static_cast<unsigned char>(word.size());
  PackedWord packed;
  std::memcpy(&packed.low, bytes, 8);
  std::memcpy(&packed.high, bytes + 8, 8);
  return packed;
}

// The byte-level alphabet, code point -> byte or -1: printable Latin-1 characters stand for their own byte, U+0100 and
// on for the other bytes in their order.
std::array<std::int32_t, 324> byte_alphabet() {
  std::array<std::int32_t, 324> byte_of;
  byte_of.fill(-1);
  std::size_t next = 256;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    byte_of[printable ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return byte_of;
}

std::int32_t id_of(const std::string& token, const BpeFiles& files) { return id_in(files.tokens, files.added, token); }

std::int32_t required_id(const std::string& token, const BpeFiles& files) {
  const std::int32_t id = id_of(token, files);
  if (id < 0) throw Error{ErrorKind::kData, files.where, "the vocabulary has no token \"" + token + "\""};
  return id;
}

// The token of a piece's last letters without the mark of its end; nothing if it lacks the mark.
std::optional<std::string> without_end(const std::string& token, const std::string& end) {
  if (token.size() < end.size() || token.compare(token.size() - end.size(), end.size(), end) != 0) return std::nullopt;
  return token.substr(0, token.size() - end.size());
}

void put_single_byte(const std::string& token, std::int32_t id, std::int32_t (&table)[256]) {
  const std::optional<std::string> bytes = token_bytes(token);
  if (bytes && bytes->size() == 1) table[static_cast<unsigned char>((*bytes)[0])] = id;
}

MergeTable merge_table(const BpeFiles& files) {
  MergeTable table(files.merges.size());
  for (std::size_t rank = 0; rank < files.merges.size(); ++rank) {
    const auto& [left, right] = files.merges[rank];
    std::int32_t ids[3];
    const std::string tokens[3] = {left, right, left + right};
    for (int i = 0; i < 3; ++i) {
      ids[i] = id_in(files.tokens, tokens[i]);
      if (ids[i] < 0) {
        throw Error{ErrorKind::kData, files.merges_where,
                    "merge " + std::to_string(rank) + " (\"" + left + "\", \"" + right + "\") needs token \"" +
                        tokens[i] + "\", which the vocabulary lacks"};
      }
    }
    table.insert(ids[0], ids[1], Merge{static_cast<std::uint32_t>(rank), ids[2]});
  }
  return table;
}

// By id, so that nothing depends on the order of an unordered table. Ids must differ.
std::vector<std::pair<std::int32_t, std::string>> tokens_by_id(const BpeFiles& files) {
  std::vector<std::pair<std::int32_t, std::string>> tokens;
  tokens.reserve(files.tokens.size());
  for (const auto& [token, id] : files.tokens) tokens.emplace_back(id, token);
  std::sort(tokens.begin(), tokens.end());
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i].first == tokens[i - 1].first) {
      throw Error{ErrorKind::kData, files.where,
                  "tokens \"" + tokens[i - 1].second + "\" and \"" + tokens[i].second + "\" share id " +
                      std::to_string(tokens[i].first)};
    }
  }
  return tokens;
}

// The tokens that merging makes of their own bytes.
WordTable word_table(const std::vector<std::pair<std::string, std::int32_t>>& words, const Vocabulary& vocabulary) {
  WordTable table(words.size());
  std::vector<std::byte> memory(MergeScratch::bytes(WordTable::kLongest));
  MergeScratch scratch{Span<std::byte>(memory)};
  for (const auto& [bytes, id] : words) {
    const PieceMerger merger(bytes, vocabulary, scratch);
    const std::int32_t first = merger.first();
    if (first >= 0 && merger.next(first) < 0 && merger.token(first) == id) table.insert(bytes, id);
  }
  return table;
}

void set_added(const BpeFiles& files, Vocabulary* vocabulary, TokenizerFacts* facts) {
  vocabulary->added = AddedTokens(files.added, false);
  facts->special_ids = special_ids_of(files.added);
  for (const AddedToken& token : files.added) facts->vocabulary_size = std::max(facts->vocabulary_size, token.id + 1);
}

std::uint64_t digest_of(const BpeFiles& files) {
  std::string said;
  const auto add = [&](const std::string& text) { said += std::to_string(text.size()) + ":" + text; };
  for (const auto& [id, token] : tokens_by_id(files)) add(std::to_string(id) + " " + token);
  for (const auto& [left, right] : files.merges) add(left + " " + right);
  for (const AddedToken& token : files.added) {
    add(token.text);
    add(said_of(token));
  }
  for (const std::string* role : {&files.unknown_byte, &files.bos, &files.eos, &files.pad, &files.mask, &files.unk}) {
    add(*role);
  }
  if (files.adds_space) add("add_prefix_space");
  if (files.has_bert_pairs) add("<s> a </s> b </s>");
  if (!files.word_end.empty()) add(files.word_end);
  return XXH3_64bits(said.data(), said.size());
}

}  // namespace

std::optional<std::string> token_bytes(const std::string& token) {
  static const std::array<std::int32_t, 324> byte_of = byte_alphabet();
  std::string bytes;
  for (std::size_t place = 0; place < token.size();) {
    const Utf8Character character = utf8_character(token, place);
    if (character.code_point >= byte_of.size() || byte_of[character.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of[character.code_point]));
    place += character.bytes;
  }
  return bytes;
}

MergeTable::MergeTable(std::size_t merges) : entries_(table_size(merges)), mask_(entries_.size() - 1) {}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t i = mix(pair) & mask_;
  while (entries_[i].merge.rank != kNoMerge && entries_[i].pair != pair) i = (i + 1) & mask_;
  entries_[i] = Entry{pair, merge};
}

Merge MergeTable::find(std::int32_t left, std::int32_t right) const noexcept {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t i = mix(pair) & mask_;
  while (entries_[i].merge.rank != kNoMerge && entries_[i].pair != pair) i = (i + 1) & mask_;
  return entries_[i].merge;
}

WordTable::WordTable(std::size_t words) : entries_(table_size(words)), mask_(entries_.size() - 1) {}

void WordTable::insert(std::string_view word, std::int32_t token) {
  const PackedWord packed = pack(word);
  std::size_t i = mix(packed.low ^ mix(packed.high)) & mask_;
  while (entries_[i].high != 0) i = (i + 1) & mask_;
  entries_[i] = Entry{packed.low, packed.high, token};
}

std::int32_t WordTable::find(std::string_view word) const noexcept {
  if (word.size() > kLongest) return -1;
  const PackedWord packed = pack(word);
  std::size_t i = mix(packed.low ^ mix(packed.high)) & mask_;
  while (entries_[i].high != 0 && (entries_[i].low != packed.low || entries_[i].high != packed.high))
    i = (i + 1) & mask_;
  return entries_[i].token;
}

Vocabulary make_vocabulary(const BpeFiles& files, TokenizerFacts* facts) {
  Vocabulary vocabulary;
  facts->digest = digest_of(files);
  std::fill(std::begin(vocabulary.byte_token), std::end(vocabulary.byte_token), -1);
  std::fill(std::begin(vocabulary.last_byte_token), std::end(vocabulary.last_byte_token), -1);
  std::vector<std::pair<std::string, std::int32_t>> words;
  for (const auto& [id, token] : tokens_by_id(files)) {
    facts->vocabulary_size = id + 1;
    put_single_byte(token, id, vocabulary.byte_token);
    const std::optional<std::string> word = without_end(token, files.word_end);
    if (!word) continue;
    put_single_byte(*word, id, vocabulary.last_byte_token);
    const std::optional<std::string> bytes = token_bytes(*word);
    if (bytes && !bytes->empty() && bytes->size() <= WordTable::kLongest) words.emplace_back(*bytes, id);
  }
  if (!files.unknown_byte.empty()) vocabulary.unknown_byte_token = required_id(files.unknown_byte, files);
  vocabulary.merges = merge_table(files);
  vocabulary.words = word_table(words, vocabulary);
  facts->unknown_id = vocabulary.unknown_byte_token;
  set_added(files, &vocabulary, facts);
  const std::int32_t end = required_id(files.eos, files);
  facts->before = {required_id(files.bos, files)};
  facts->between = files.has_bert_pairs ? std::vector{end} : std::vector{end, end};
  facts->after = {end};
  facts->second_type = files.has_bert_pairs ? 1 : 0;
  facts->pad_id = required_id(files.pad, files);
  facts->mask_id = files.mask.empty() ? -1 : id_of(files.mask, files);
  facts->unknown_id = files.unk.empty() ? -1 : id_of(files.unk, files);
  return vocabulary;
}

namespace {

constexpr std::size_t kQueueEntriesPerByte = 3;  // the first pair of each symbol, and two new pairs a merge
constexpr std::size_t kBytesPerByte = kQueueEntriesPerByte * sizeof(std::uint64_t) + 5 * sizeof(std::int32_t);
constexpr std::size_t kAlignmentBytes = alignof(std::uint64_t);

}  // namespace

std::size_t MergeScratch::bytes(std::size_t longest_text_bytes) noexcept {
  return longest_text_bytes * kBytesPerByte + kAlignmentBytes;
}

MergeScratch::MergeScratch(Span<std::byte> memory) noexcept {
  void* begin = memory.data();
  std::size_t size = memory.size();
  if (std::align(kAlignmentBytes, kBytesPerByte, begin, size) == nullptr) return;
  // Places are 32-bit numbers.
  const std::size_t n = std::min(size / kBytesPerByte, std::size_t{std::numeric_limits<std::int32_t>::max()});
  longest_piece_bytes_ = n;
  queue_ = static_cast<std::uint64_t*>(begin);
  void* arrays = queue_ + kQueueEntriesPerByte * n;
  symbol_ = static_cast<std::int32_t*>(arrays);
  previous_ = symbol_ + n;
  next_ = previous_ + n;
  merged_symbol_ = next_ + n;
  void* ranks = merged_symbol_ + n;
  pair_rank_ = static_cast<std::uint32_t*>(ranks);
}

PieceMerger::PieceMerger(std::string_view piece, const Vocabulary& vocabulary, MergeScratch& scratch) noexcept
    : scratch_(scratch) {
  BASCULE_CHECK(piece.size() <= scratch.longest_piece_bytes());
  place_bytes(piece, vocabulary);
  merge_all(vocabulary.merges);
}

void PieceMerger::place_bytes(std::string_view piece, const Vocabulary& vocabulary) noexcept {
  for (const char& c : piece) {
    const bool is_last = &c == &piece.back();
    const auto& tokens = is_last ? vocabulary.last_byte_token : vocabulary.byte_token;
    std::int32_t token = tokens[static_cast<unsigned char>(c)];
    if (token < 0) token = vocabulary.unknown_byte_token;
    if (token < 0) continue;
    scratch_.symbol_[symbols_] = token;
    scratch_.previous_[symbols_] = symbols_ - 1;
    scratch_.next_[symbols_] = symbols_ + 1;
    ++symbols_;
  }
  if (symbols_ == 0) return;
  first_ = 0;
  scratch_.next_[symbols_ - 1] = -1;
}

bool PieceMerger::rank_pair(std::int32_t place, const MergeTable& merges) noexcept {
  const std::int32_t right = scratch_.next_[place];
  const Merge merge = right < 0 ? Merge{} : merges.find(scratch_.symbol_[place], scratch_.symbol_[right]);
  scratch_.pair_rank_[place] = merge.rank;
  scratch_.merged_symbol_[place] = merge.token;
  return merge.rank != kNoMerge;
}

void PieceMerger::enqueue(std::int32_t place) noexcept {
  scratch_.queue_[queued_++] =
      static_cast<std::uint64_t>(scratch_.pair_rank_[place]) << 32 | static_cast<std::uint32_t>(place);
}

void PieceMerger::merge_all(const MergeTable& merges) noexcept {
  std::uint64_t* const queue = scratch_.queue_;
  const std::greater<std::uint64_t> lowest_first;
  for (std::int32_t place = 0; place < symbols_; ++place) {
    if (rank_pair(place, merges)) enqueue(place);
  }
  std::make_heap(queue, queue + queued_, lowest_first);
  while (queued_ > 0) {
    std::pop_heap(queue, queue + queued_, lowest_first);
    const std::uint64_t entry = queue[--queued_];
    const std::int32_t place = static_cast<std::int32_t>(entry & 0xffffffffu);
    // The pair that this entry meant is gone if either of its symbols has merged since.
    if (scratch_.pair_rank_[place] != static_cast<std::uint32_t>(entry >> 32)) continue;
    const std::int32_t right = scratch_.next_[place];
    const std::int32_t after = scratch_.next_[right];
    scratch_.symbol_[place] = scratch_.merged_symbol_[place];
    scratch_.next_[place] = after;
    scratch_.pair_rank_[right] = kNoMerge;
    if (after >= 0) scratch_.previous_[after] = place;
    for (const std::int32_t changed : {place, scratch_.previous_[place]}) {
      if (changed < 0 || !rank_pair(changed, merges)) continue;
      enqueue(changed);
      std::push_heap(queue, queue + queued_, lowest_first);
    }
  }
}

}  // namespace bascule
