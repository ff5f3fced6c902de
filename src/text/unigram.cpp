// SPDX-License-Identifier: Apache-2.0
#include "src/text/unigram.h"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "src/base/span.h"
#include "src/base/utf8.h"
#include "src/text/byte_level_bpe.h"
#include "src/text/side_tokens.h"
#include "src/text/unicode_tables.h"
#include "src/text/unigram_files.h"

namespace bascule {

PieceTrie::PieceTrie(std::vector<std::pair<std::string, std::int32_t>> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // A node, and the pieces that begin with it: node by node, each one's children are put behind all nodes so far.
  struct Open {
    std::size_t node, depth, begin, end;
  };
  std::vector<Open> open = {{0, 0, 0, pieces.size()}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    Open at = open[next];
    for (; at.begin < at.end && pieces[at.begin].first.size() == at.depth; ++at.begin)
      if (at.depth > 0) nodes_[at.node].id = pieces[at.begin].second;
    longest_ = std::max(longest_, at.depth);
    nodes_[at.node].children = static_cast<std::uint32_t>(nodes_.size());
    while (at.begin < at.end) {
      const char byte = pieces[at.begin].first[at.depth];
      std::size_t end = at.begin;
      while (end < at.end && pieces[end].first[at.depth] == byte) ++end;
      Node child;
      child.byte = static_cast<std::uint8_t>(byte);
      open.push_back({nodes_.size(), at.depth + 1, at.begin, end});
      if (at.depth == 0) first_[child.byte] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(child);
      ++nodes_[at.node].count;
      at.begin = end;
    }
  }
}

namespace {

constexpr std::string_view kWordBegin = "\u2581";
constexpr std::uint32_t kWordBeginCharacter = 0x2581;
constexpr double kUnknownPenalty = 10.0;
// In the place of a piece's id: no way leads here yet; a character that no piece covers.
constexpr std::int32_t kNone = -1, kUncovered = -2;

std::vector<std::pair<std::string, std::int32_t>> numbered(const std::vector<UnigramFiles::Piece>& pieces) {
  std::vector<std::pair<std::string, std::int32_t>> all;
  all.reserve(pieces.size());
  for (const UnigramFiles::Piece& piece : pieces) all.emplace_back(piece.text, static_cast<std::int32_t>(all.size()));
  return all;
}

// The working memory of one call.
struct UnigramWork {
  char* text;            // normalised
  char* word;            // as it grows
  double* scores;        // best sums, by place in the word, in a ring
  std::int32_t* pieces;  // by place: the last piece of the best way there
  std::size_t size = 0;  // bytes of the word
};

// Drops white space at the end, and all but one of several spaces. Returns the bytes left.
std::size_t tidied(char* text, std::size_t size, bool joins_spaces) noexcept {
  size = skip_space_back({text, size}, size);
  if (!joins_spaces) return size;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (text[i] == ' ' && kept > 0 && text[kept - 1] == ' ') continue;
    text[kept++] = text[i];
  }
  return kept;
}

struct UnigramNormalizer {
  CharacterMap map;
  bool tidies, joins_spaces;

  explicit UnigramNormalizer(const UnigramFiles& files)
      : tidies(!files.splits_at_space), joins_spaces(files.joins_spaces) {
    if (!files.character_map.empty()) map = CharacterMap(files.character_map, files.where);
  }
  // Writes the normalised text to `out`, which has room for map.most_bytes(), and returns its bytes.
  std::size_t apply(std::string_view text, char* out) const noexcept {
    const std::size_t size = map.apply(text, out);
    return tidies ? tidied(out, size, joins_spaces) : size;
  }
};

UnigramFiles unigram_files_of(const TokenizerFolder& folder) {
  UnigramFiles files = read_unigram_files(folder);
  const UnigramNormalizer normalizer(files);
  const auto normalise = [&](std::string_view token) {
    std::string text(normalizer.map.most_bytes(token.size()), '\0');
    text.resize(normalizer.apply(token, text.data()));
    return text;
  };
  normalise_added(normalise, files.where, &files.added);
  return files;
}

class Unigram final : public Tokenizer {
 public:
  Unigram(TokenizerFacts facts, const UnigramFiles& files);
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    const std::size_t word = word_bytes(longest_text_bytes);
    return alignof(double) + ring_ * sizeof(double) + (word + 1) * sizeof(std::int32_t) + 2 * word;
  }

 private:
  // A word is never longer than the text with the sign of its beginning.
  std::size_t word_bytes(std::size_t text_bytes) const noexcept {
    return normalizer_.map.most_bytes(text_bytes) + kWordBegin.size();
  }
  UnigramWork work_in(Span<std::byte> scratch) const noexcept;
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override;
  void tokenize_between(std::string_view text, TokenOutput& output, UnigramWork& work) const noexcept;
  void tokenize_normalised(std::string_view normalised, TokenOutput& output, UnigramWork& work) const noexcept;
  void end_word(TokenOutput& output, UnigramWork& work) const noexcept;
  void find_best(const UnigramWork& work) const noexcept;

  UnigramNormalizer normalizer_;
  PieceTrie trie_;
  std::vector<double> scores_;           // by id
  std::vector<std::uint32_t> lengths_;   // by id, bytes
  AddedTokens as_written_, normalised_;  // found before and after normalising
  std::int32_t unknown_;
  double unknown_score_;
  std::size_t ring_ = 8;  // a power of two, more than the bytes of any piece
  bool splits_at_space_;
};

Unigram::Unigram(TokenizerFacts facts, const UnigramFiles& files)
    : Tokenizer(std::move(facts)),
      normalizer_(files),
      trie_(numbered(files.pieces)),
      as_written_(files.added, false),
      normalised_(files.added, true),
      unknown_(files.unknown),
      splits_at_space_(files.splits_at_space) {
  for (const UnigramFiles::Piece& piece : files.pieces) {
    scores_.push_back(piece.score);
    lengths_.push_back(static_cast<std::uint32_t>(piece.text.size()));
  }
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  while (ring_ <= trie_.longest()) ring_ *= 2;
}

UnigramWork Unigram::work_in(Span<std::byte> scratch) const noexcept {
  const std::size_t skipped = align_up(reinterpret_cast<std::uintptr_t>(scratch.data()), alignof(double)) -
                              reinterpret_cast<std::uintptr_t>(scratch.data());
  const std::size_t fixed = alignof(double) + ring_ * sizeof(double) + sizeof(std::int32_t);
  const std::size_t word = (scratch.size() - fixed) / (sizeof(std::int32_t) + 2);
  std::byte* const memory = scratch.data() + skipped;
  void* const pieces = memory + ring_ * sizeof(double);
  void* const bytes = memory + ring_ * sizeof(double) + (word + 1) * sizeof(std::int32_t);
  void* const scores = memory;
  char* const text = static_cast<char*>(bytes);
  return {text, text + word, static_cast<double*>(scores), static_cast<std::int32_t*>(pieces)};
}

// Fills work.pieces for the word.
void Unigram::find_best(const UnigramWork& work) const noexcept {
  const std::string_view word(work.word, work.size);
  std::fill_n(work.pieces, word.size() + 1, kNone);
  work.scores[0] = 0.0;
  for (std::size_t place = 0; place < word.size();) {
    const double so_far = work.scores[place & (ring_ - 1)];
    const std::size_t character = utf8_character(word, place).bytes;
    bool has_character = false;
    const auto offer = [&](std::size_t bytes, std::int32_t id, double score) {
      const std::size_t end = place + bytes;
      if (work.pieces[end] != kNone && so_far + score <= work.scores[end & (ring_ - 1)]) return;
      work.pieces[end] = id;
      work.scores[end & (ring_ - 1)] = so_far + score;
    };
    trie_.find_all(word, place, [&](std::size_t bytes, std::int32_t id) {
      offer(bytes, id, scores_[static_cast<std::size_t>(id)]);
      has_character |= bytes == character;
    });
    if (!has_character) offer(character, kUncovered, unknown_score_);
    place += character;
  }
}

void Unigram::end_word(TokenOutput& output, UnigramWork& work) const noexcept {
  if (work.size == 0) return;
  find_best(work);
  // From the end to the beginning; the pieces of the best way go where places have been read already.
  std::size_t first = work.size + 1;
  for (std::size_t end = work.size; end > 0;) {
    const std::int32_t id = work.pieces[end] == kUncovered ? unknown_ : work.pieces[end];
    if (work.pieces[end] == kUncovered) {
      do --end;
      while ((static_cast<unsigned char>(work.word[end]) & 0xC0) == 0x80);
    } else {
      end -= lengths_[static_cast<std::size_t>(id)];
    }
    const bool joins = id == unknown_ && first <= work.size && work.pieces[first] == unknown_;
    if (!joins) work.pieces[--first] = id;
  }
  for (; first <= work.size; ++first) output.add(work.pieces[first]);
  work.size = 0;
}

void Unigram::tokenize_between(std::string_view text, TokenOutput& output, UnigramWork& work) const noexcept {
  const std::string_view normalised(work.text, normalizer_.apply(text, work.text));
  for (AddedMatch added; added.next < normalised.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = normalised_.find(normalised, added);
    tokenize_normalised(normalised.substr(place, added.begin - place), output, work);
    if (added.id >= 0) output.add(added.id);
  }
}

void Unigram::tokenize_normalised(std::string_view normalised, TokenOutput& output, UnigramWork& work) const noexcept {
  const auto put = [&](std::string_view what) {
    std::memcpy(work.word + work.size, what.data(), what.size());
    work.size += what.size();
  };
  for (std::size_t place = 0; place < normalised.size() && !output.is_done();) {
    const Utf8Character character = utf8_character(normalised, place);
    const bool is_begin =
        character.code_point == kWordBeginCharacter || (character.code_point == ' ' && !splits_at_space_);
    const bool is_space = splits_at_space_ && character_class(character.code_point) == CharacterClass::kSpace;
    if (is_begin || is_space) end_word(output, work);
    if (work.size == 0 && !is_space) put(kWordBegin);
    if (!is_begin && !is_space) put(normalised.substr(place, character.bytes));
    place += character.bytes;
  }
  end_word(output, work);
}

Status Unigram::tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  if (scratch.size() < scratch_bytes(text.size())) return Status{StatusCode::kBadSample, {0, kPieceTooLong}};
  UnigramWork work = work_in(scratch);
  for (AddedMatch added; added.next < text.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = as_written_.find(text, added);
    tokenize_between(text.substr(place, added.begin - place), output, work);
    if (added.id >= 0) output.add(added.id);
  }
  return ok_status();
}

std::vector<std::string> texts_of(const UnigramFiles& files) {
  std::vector<std::string> texts;
  for (const UnigramFiles::Piece& piece : files.pieces) texts.push_back(piece.text);
  for (const AddedToken& token : files.added) {
    texts.resize(std::max(texts.size(), static_cast<std::size_t>(token.id) + 1));
    texts[static_cast<std::size_t>(token.id)] = token.found_as();
  }
  return texts;
}

std::uint64_t digest_of(const UnigramFiles& files) {
  std::string said = std::string("Unigram ") + (files.splits_at_space ? "white space " : "spaces ") +
                     (files.joins_spaces ? "joined " : "");
  const auto add = [&](const std::string& text) { said += std::to_string(text.size()) + ":" + text; };
  for (const UnigramFiles::Piece& piece : files.pieces) {
    add(piece.text);
    said.append(reinterpret_cast<const char*>(&piece.score), sizeof piece.score);
  }
  for (const AddedToken& token : files.added) {
    add(token.text);
    add(said_of(token));
  }
  add(files.character_map);
  for (const std::int32_t id : {files.unknown, files.end, files.pad}) add(std::to_string(id));
  return XXH3_64bits(said.data(), said.size());
}

// By id; empty for those that a decoder leaves out.
std::vector<std::string> texts_to_write(const UnigramFiles& files) {
  std::vector<std::string> texts = texts_of(files);
  for (const AddedToken& token : files.added) {
    if (token.special) texts[static_cast<std::size_t>(token.id)].clear();
  }
  return texts;
}

class UnigramDecoder final : public TokenDecoder {
 public:
  explicit UnigramDecoder(std::vector<std::string> texts) : TokenDecoder(longest_of(texts)), texts_(std::move(texts)) {}

  std::size_t decode_into(Span<const std::int32_t> ids, Span<char> text) const noexcept override {
    std::size_t bytes = 0;
    const auto add = [&](char c) {
      if (bytes < text.size()) text[bytes] = c;
      ++bytes;
    };
    bool is_first = true;
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= texts_.size()) continue;
      const std::string& token = texts_[static_cast<std::size_t>(id)];
      if (token.empty()) continue;
      for (std::size_t place = 0; place < token.size();) {
        const std::size_t found = std::min(token.find(kWordBegin, place), token.size());
        for (; place < found; ++place) add(token[place]);
        if (found < token.size() && !is_first) add(' ');
        place = found + kWordBegin.size();
      }
      is_first = false;
    }
    return bytes;
  }

 private:
  static std::size_t longest_of(const std::vector<std::string>& texts) {
    std::size_t longest = 0;
    for (const std::string& text : texts) longest = std::max(longest, text.size());
    return longest;
  }

  std::vector<std::string> texts_;
};

}  // namespace

std::unique_ptr<const Tokenizer> load_unigram(const TokenizerFolder& folder) {
  const UnigramFiles files = unigram_files_of(folder);
  TokenizerFacts facts;
  facts.between = facts.after = {files.end};
  facts.pad_id = files.pad;
  facts.unknown_id = files.unknown;
  facts.special_ids = special_ids_of(files.added);
  facts.vocabulary_size = static_cast<std::int32_t>(texts_of(files).size());
  facts.digest = digest_of(files);
  return std::make_unique<Unigram>(std::move(facts), files);
}

std::vector<std::string> unigram_texts(const TokenizerFolder& folder) { return texts_of(unigram_files_of(folder)); }

std::unique_ptr<const TokenDecoder> load_unigram_decoder(const TokenizerFolder& folder) {
  return std::make_unique<UnigramDecoder>(texts_to_write(unigram_files_of(folder)));
}

}  // namespace bascule
