// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/corpus.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/philox.h"
#include "src/index/manifest_builder.h"

namespace bascule {
namespace {

// Keys of their own among those derived from the run's seed.
constexpr std::uint32_t kPairsUse = 0x70616972u;
constexpr std::uint32_t kShortenUse = 0x73686f72u;

constexpr int kTries = 10;  // to find another document

// The draws of one pass over a document.
class Draws {
 public:
  Draws(PhiloxKey key, std::int64_t document, std::int64_t pass) noexcept
      : key_(key),
        counter_{{0, static_cast<std::uint32_t>(document),
                  static_cast<std::uint32_t>(static_cast<std::uint64_t>(document) >> 32),
                  static_cast<std::uint32_t>(pass)}} {}
  // From 0 to bound - 1.
  std::int64_t below(std::int64_t bound) noexcept { return bounded(word(), static_cast<std::uint32_t>(bound)); }
  bool chance(double probability) noexcept { return static_cast<double>(word()) * 0x1p-32 < probability; }

 private:
  std::uint32_t word() noexcept {
    const std::uint32_t drawn = philox4x32(counter_, key_).word[0];
    ++counter_.word[0];
    return drawn;
  }

  PhiloxKey key_;
  PhiloxCounter counter_;
};

// The pairs of one pass over a document.
class PassOverDocument {
 public:
  PassOverDocument(const TokenStore& store, const PairRules& rules, std::int64_t document, Draws draws) noexcept
      : store_(store), document_(document), draws_(draws), target_(rules.max_tokens) {
    if (draws_.chance(rules.short_seq_probability)) target_ = 2 + draws_.below(rules.max_tokens - 1);
  }

  void add_to(std::vector<SentencePair>* pairs) noexcept {
    const std::int64_t end = store_.document_begin(document_ + 1);
    for (std::int64_t begin = store_.document_begin(document_); begin < end;) {
      const std::int64_t chunk = take(begin, end, target_);
      const std::int64_t first = chunk >= 2 ? 1 + draws_.below(chunk - 1) : 1;
      SentencePair pair;
      pair.first = static_cast<std::uint32_t>(begin);
      pair.first_count = static_cast<std::uint32_t>(first);
      pair.is_random = chunk == 1 || draws_.chance(0.5);
      if (pair.is_random) {
        take_random(&pair, target_ - tokens(begin, begin + first));
        begin += first;  // the sentences behind the first text begin the next chunk
      } else {
        pair.second = static_cast<std::uint32_t>(begin + first);
        pair.second_count = static_cast<std::uint32_t>(chunk - first);
        begin += chunk;
      }
      pairs->push_back(pair);
    }
  }

 private:
  std::int64_t tokens(std::int64_t begin, std::int64_t end) const noexcept {
    return store_.sentence_begin(end) - store_.sentence_begin(begin);
  }
  // Sentences from `begin` on, before `end`, until they have so many tokens; at least one.
  std::int64_t take(std::int64_t begin, std::int64_t end, std::int64_t wanted) const noexcept {
    std::int64_t count = 1;
    while (begin + count < end && tokens(begin, begin + count) < wanted) ++count;
    return count;
  }
  void take_random(SentencePair* pair, std::int64_t wanted) noexcept {
    std::int64_t other = document_;
    for (int i = 0; i < kTries && other == document_; ++i) other = draws_.below(store_.documents());
    const std::int64_t begin = store_.document_begin(other), end = store_.document_begin(other + 1);
    const std::int64_t second = begin + draws_.below(end - begin);
    pair->second = static_cast<std::uint32_t>(second);
    pair->second_count = static_cast<std::uint32_t>(take(second, end, wanted));
  }

  const TokenStore& store_;
  std::int64_t document_;
  Draws draws_;
  std::int64_t target_;
};

}  // namespace

std::vector<SentencePair> make_pairs(const TokenStore& store, const PairRules& rules) {
  BASCULE_CHECK(store.documents() >= 2 && rules.max_tokens >= 2);
  const PhiloxKey key = derive_key(rules.seed, kPairsUse);
  std::vector<SentencePair> pairs;
  for (std::int64_t document = 0; document < store.documents(); ++document) {
    for (std::int64_t pass = 0; pass < rules.passes; ++pass)
      PassOverDocument(store, rules, document, Draws(key, document, pass)).add_to(&pairs);
  }
  pairs.shrink_to_fit();
  return pairs;
}

PairTokens tokens_of_pair(const TokenStore& store, const SentencePair& pair, std::int64_t row,
                          const PairRules& rules) noexcept {
  PairTokens left = {store.sentence_begin(pair.first), store.sentence_begin(pair.first + pair.first_count),
                     store.sentence_begin(pair.second), store.sentence_begin(pair.second + pair.second_count)};
  const PhiloxKey key = derive_key(rules.seed, kShortenUse);
  const std::uint64_t wide_row = static_cast<std::uint64_t>(row);
  PhiloxCounter counter = {{0, static_cast<std::uint32_t>(wide_row), static_cast<std::uint32_t>(wide_row >> 32), 0}};
  PhiloxBlock block = {};
  for (std::uint32_t draw = 0;; ++draw) {
    const std::int64_t first = left.first_end - left.first, second = left.second_end - left.second;
    if (first + second <= rules.max_tokens) return left;
    if (draw % 4 == 0) {
      counter.word[0] = draw / 4;
      block = philox4x32(counter, key);
    }
    const bool drops_first_token = block.word[draw % 4] < 0x80000000u;
    std::int64_t& begin = first > second ? left.first : left.second;
    std::int64_t& end = first > second ? left.first_end : left.second_end;
    if (drops_first_token) {
      ++begin;
    } else {
      --end;
    }
  }
}

Corpus::Corpus(std::unique_ptr<const TokenStore> store, const DataFiles& files, const Tokenizer& tokenizer,
               const CorpusRules& rules)
    : store_(std::move(store)),
      files_(files),
      before_(tokenizer.before()),
      between_(tokenizer.between()),
      after_(tokenizer.after()),
      rules_(rules) {
  if (store_->documents() == 0) {
    throw Error{ErrorKind::kData, files_.name, "has no text: the tokenizer leaves nothing of its lines",
                "use the tokenizer that belongs to the text"};
  }
  if (rules_.pairs) {
    index_pairs();
    return;
  }
  const std::int64_t tokens = block_begin(store_->documents());
  longest_ =
      rules_.by_line ? std::min(rules_.max_seq_length, store_->longest_sentence() + special()) : rules_.max_seq_length;
  rows_ = rules_.by_line ? store_->sentences() : tokens / rules_.max_seq_length;
  if (rows_ == 0) {
    throw Error{ErrorKind::kData, files_.name,
                "has " + std::to_string(tokens) + " tokens, special ones included: fewer than one block of " +
                    std::to_string(rules_.max_seq_length),
                "add text, lower data.max_seq_length, or set data.text_layout = \"lines\""};
  }
}

void Corpus::index_pairs() {
  if (store_->documents() < 2) {
    throw Error{ErrorKind::kData, files_.name, "has one document: a random second text is one of another document",
                "write an empty line between documents"};
  }
  const std::int64_t around = special() + static_cast<std::int64_t>(between_.size());
  PairRules& rules = *rules_.pairs;
  rules.max_tokens = rules_.max_seq_length - around;
  pairs_ = make_pairs(*store_, rules);
  rows_ = static_cast<std::int64_t>(pairs_.size());
  const auto tokens = [&](std::int64_t sentence, std::int64_t count) {
    return store_->sentence_begin(sentence + count) - store_->sentence_begin(sentence);
  };
  for (const SentencePair& pair : pairs_) {
    const std::int64_t both = tokens(pair.first, pair.first_count) + tokens(pair.second, pair.second_count);
    longest_ = std::max(longest_, std::min(both, rules.max_tokens) + around);
  }
}

// The position of a document's first special token among the documents laid end to end.
std::int64_t Corpus::block_begin(std::int64_t document) const noexcept {
  return store_->sentence_begin(store_->document_begin(document)) + document * special();
}

// The last document that begins at or before a position.
std::int64_t Corpus::document_of(std::int64_t position) const noexcept {
  std::int64_t first = 0, end = store_->documents();
  while (end - first > 1) {
    const std::int64_t middle = first + (end - first) / 2;
    (block_begin(middle) <= position ? first : end) = middle;
  }
  return first;
}

std::int64_t Corpus::first_sentence(std::int64_t row) const noexcept {
  if (rules_.pairs) return pairs_[static_cast<std::size_t>(row)].first;
  if (rules_.by_line) return row;
  const std::int64_t position = row * rules_.max_seq_length, document = document_of(position);
  const std::int64_t first_token = store_->sentence_begin(store_->document_begin(document));
  const std::int64_t behind =
      std::max<std::int64_t>(0, position - block_begin(document) - static_cast<std::int64_t>(before_.size()));
  // A block that begins with a document's last special tokens is said to begin with its last sentence.
  const std::int64_t last_token = store_->sentence_begin(store_->document_begin(document + 1)) - 1;
  return store_->sentence_of(std::min(first_token + behind, last_token));
}

Encoded Corpus::write(std::int64_t row, Span<std::int32_t> ids) const noexcept {
  BASCULE_CHECK(row >= 0 && row < rows_ && static_cast<std::int64_t>(ids.size()) >= longest());
  if (rules_.pairs) return write_pair(row, ids.data());
  return rules_.by_line ? write_line(row, ids.data()) : write_block(row, ids.data());
}

Encoded Corpus::write_line(std::int64_t row, std::int32_t* ids) const noexcept {
  const std::int64_t first = store_->sentence_begin(row);
  const std::int64_t count = std::min(store_->sentence_begin(row + 1) - first, rules_.max_seq_length - special());
  ids = std::copy(before_.begin(), before_.end(), ids);
  store_->copy(first, count, ids);
  std::copy(after_.begin(), after_.end(), ids + count);
  return {count + special(), count + special()};
}

Encoded Corpus::write_pair(std::int64_t row, std::int32_t* ids) const noexcept {
  const PairTokens texts = tokens_of_pair(*store_, pairs_[static_cast<std::size_t>(row)], row, *rules_.pairs);
  const std::int64_t first = texts.first_end - texts.first, second = texts.second_end - texts.second;
  std::int32_t* to = std::copy(before_.begin(), before_.end(), ids);
  store_->copy(texts.first, first, to);
  to = std::copy(between_.begin(), between_.end(), to + first);
  const std::int64_t second_begin = to - ids;
  store_->copy(texts.second, second, to);
  to = std::copy(after_.begin(), after_.end(), to + second);
  return {to - ids, second_begin};
}

Encoded Corpus::write_block(std::int64_t row, std::int32_t* ids) const noexcept {
  const std::int64_t length = rules_.max_seq_length;
  std::int64_t written = 0, skipped = 0;
  const auto part = [&](std::int64_t count, const auto& copy) {
    const std::int64_t skip = std::min(skipped, count), taken = std::min(count - skip, length - written);
    copy(skip, taken, ids + written);
    skipped -= skip;
    written += taken;
  };
  const auto special_part = [&](Span<const std::int32_t> tokens) {
    part(static_cast<std::int64_t>(tokens.size()), [&](std::int64_t skip, std::int64_t taken, std::int32_t* to) {
      std::copy_n(tokens.data() + skip, taken, to);
    });
  };
  std::int64_t document = document_of(row * length);
  skipped = row * length - block_begin(document);
  while (written < length) {
    const std::int64_t first = store_->sentence_begin(store_->document_begin(document));
    const std::int64_t count = store_->sentence_begin(store_->document_begin(document + 1)) - first;
    special_part(before_);
    part(count,
         [&](std::int64_t skip, std::int64_t taken, std::int32_t* to) { store_->copy(first + skip, taken, to); });
    special_part(after_);
    ++document;
  }
  return {length, length};
}

Manifest Corpus::manifest() const {
  ManifestColumns columns;
  columns.image = "";
  ManifestBuilder builder(files_, columns);
  std::int64_t row = 0;
  for (std::int64_t file = 0; file < store_->files(); ++file) {
    builder.begin_file(files_.manifests[static_cast<std::size_t>(file)]);
    for (; row < rows_; ++row) {
      const std::int64_t sentence = first_sentence(row);
      if (sentence >= store_->file_begin(file + 1)) break;
      const int label = !rules_.pairs ? -1 : pairs_[static_cast<std::size_t>(row)].is_random ? 1 : 0;
      builder.add("", {}, {label}, store_->line(sentence));
    }
    builder.end_file();
  }
  return builder.finish(store_->text_digest());
}

}  // namespace bascule
