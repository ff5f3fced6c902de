// SPDX-License-Identifier: Apache-2.0
#include "src/text/word_piece_files.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters
constexpr std::size_t kWordBytes = 4 * kLongestWord;
constexpr char kContinuation[] = "##";

// FNV-1a, one byte further: the hashes of all prefixes of a word come from one pass over it.
constexpr std::uint64_t kHashOfNothing = 14695981039346656037u;
std::uint64_t hash_with(std::uint64_t hash, char c) noexcept {
  return (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
}

// Pieces of words -> ids: those that begin a word, or those that continue it. Open addressing in one flat array.
class PieceTable {
 public:
  explicit PieceTable(std::size_t pieces = 0) {
    std::size_t size = 16;
    while (size < 2 * pieces) size *= 2;
    entries_.resize(size);
  }
  void insert(std::string_view piece, std::int32_t id) {
    std::uint64_t hash = kHashOfNothing;
    for (const char c : piece) hash = hash_with(hash, c);
    std::size_t i = slot(hash);
    while (entries_[i].id >= 0) i = (i + 1) & (entries_.size() - 1);
    entries_[i] = {hash, text_.size(), piece.size(), id};
    text_ += piece;
    longest_ = std::max(longest_, piece.size());
  }
  std::size_t longest() const noexcept { return longest_; }
  // -1: there is none.
  std::int32_t find(std::string_view piece, std::uint64_t hash) const noexcept {
    for (std::size_t i = slot(hash); entries_[i].id >= 0; i = (i + 1) & (entries_.size() - 1)) {
      const Entry& entry = entries_[i];
      if (entry.hash == hash && entry.bytes == piece.size() &&
          std::memcmp(text_.data() + entry.place, piece.data(), piece.size()) == 0)
        return entry.id;
    }
    return -1;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::size_t place = 0, bytes = 0;
    std::int32_t id = -1;
  };
  std::size_t slot(std::uint64_t hash) const noexcept { return (hash ^ hash >> 32) & (entries_.size() - 1); }

  std::vector<Entry> entries_;
  std::string text_;
  std::size_t longest_ = 0;
};

// A word as it grows, in the working memory.
struct Word {
  char* bytes;
  std::uint64_t* hashes;  // of the prefixes of what is left
  std::int32_t* pieces;
  std::int32_t* piece_ends;  // bytes of the word's pieces up to each one
  std::size_t size = 0, characters = 0;
  std::size_t begin = 0, end = 0;  // in the text
  BytePlaces places = {};

  // Adds a character of the normalised text, made of [from, to) of the text.
  void add(std::uint32_t code_point, std::size_t from, std::size_t to) {
    if (characters == 0) begin = from;
    end = to;
    if (++characters > kLongestWord) return;
    size += put_utf8(code_point, bytes + size);
    places.extend(size, from, to);
  }
  // The same of a letter of ASCII that normalising leaves alone.
  void add_letter(char letter, std::size_t from) {
    if (characters == 0) begin = from;
    end = from + 1;
    if (++characters > kLongestWord) return;
    bytes[size++] = letter;
    places.extend(size, from, from + 1);
  }
  void add_piece(std::size_t number, std::int32_t id, std::size_t piece_end) {
    pieces[number] = id;
    piece_ends[number] = static_cast<std::int32_t>(piece_end);
  }
  void put_pieces(std::size_t count, TokenOutput& output) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (!places.are_kept()) {
        output.add(pieces[i]);
      } else {
        output.add(pieces[i], places.begins[i == 0 ? 0 : piece_ends[i - 1]], places.ends[piece_ends[i] - 1]);
      }
    }
  }
  void clear() { size = characters = places.size = 0; }
};

constexpr std::size_t kScratchBytes =
    kWordBytes * (sizeof(char) + sizeof(std::uint64_t) + 2 * sizeof(std::int32_t)) + 16;
constexpr std::size_t kPlaceBytes = 2 * sizeof(std::size_t);  // of each byte whose place is kept

// From the front of `memory`.
BytePlaces take_places(std::byte** memory, std::size_t bytes) noexcept {
  std::size_t* const begins = static_cast<std::size_t*>(static_cast<void*>(*memory));
  *memory += kPlaceBytes * bytes;
  return {begins, begins + bytes, 0};
}

class WordPiece final : public Tokenizer {
 public:
  WordPiece(TokenizerFacts facts, const WordPieceFiles& files);
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return kScratchBytes + normalised_bytes(longest_text_bytes);
  }
  std::size_t place_scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return scratch_bytes(longest_text_bytes) + kPlaceBytes * (kWordBytes + normalised_bytes(longest_text_bytes));
  }

 private:
  std::size_t normalised_bytes(std::size_t text_bytes) const noexcept {
    return normalised_.empty() ? 0 : WordPieceNormalizer::most_bytes(text_bytes);
  }
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override;
  // [place, end) of the text.
  void tokenize_between(std::string_view text, std::size_t place, std::size_t end, TokenOutput& output,
                        Word& word) const noexcept;
  // The same with the tokens that are looked for in the normalised text, for which there is room.
  void find_normalised(std::string_view text, std::size_t place, std::size_t end, TokenOutput& output, Word& word,
                       NormalisedText normalised) const noexcept;
  void add_character(std::uint32_t code_point, std::size_t from, std::size_t to, TokenOutput& output,
                     Word& word) const noexcept;
  void end_word(TokenOutput& output, Word& word) const noexcept;

  PieceTable first_, further_;
  WordPieceNormalizer normalizer_;
  AddedTokens as_written_, normalised_;  // found before and after normalising
  std::int32_t unknown_;
};

std::int32_t required_id(const std::string& token, const WordPieceFiles& files) {
  const std::int32_t id = id_in(files.tokens, files.added, token);
  if (id >= 0) return id;
  throw Error{ErrorKind::kData, files.where, "there is no token \"" + token + "\"",
              "a WordPiece tokenizer has [CLS], [SEP], [PAD], [MASK] and [UNK]"};
}

WordPiece::WordPiece(TokenizerFacts facts, const WordPieceFiles& files)
    : Tokenizer(std::move(facts)),
      first_(files.tokens.size()),
      further_(files.tokens.size()),
      normalizer_{files.normalizer},
      as_written_(files.added, false),
      normalised_(files.added, true),
      unknown_(required_id(files.unk, files)) {
  const std::size_t prefix = std::strlen(kContinuation);
  for (const auto& [token, id] : files.tokens) {
    first_.insert(token, id);
    if (token.compare(0, prefix, kContinuation) == 0) further_.insert(std::string_view(token).substr(prefix), id);
  }
}

void WordPiece::end_word(TokenOutput& output, Word& word) const noexcept {
  std::size_t place = 0, count = 0;
  const bool is_too_long = word.characters > kLongestWord;
  while (!is_too_long && place < word.size) {
    const PieceTable& table = place == 0 ? first_ : further_;
    const std::size_t most = std::min(word.size - place, table.longest());
    std::uint64_t hash = kHashOfNothing;
    for (std::size_t i = 0; i < most; ++i) word.hashes[i] = hash = hash_with(hash, word.bytes[place + i]);
    std::int32_t id = -1;
    std::size_t length = most;
    for (; length > 0 && id < 0; --length) id = table.find({word.bytes + place, length}, word.hashes[length - 1]);
    if (id < 0) break;
    place += length + 1;  // the loop has counted one further
    word.add_piece(count++, id, place);
  }
  if (word.size > 0) {
    if (is_too_long || place < word.size) {
      output.add(unknown_, word.begin, word.end);
    } else {
      word.put_pieces(count, output);
    }
  }
  word.clear();
}

// The code point is one of the normalised text.
void WordPiece::add_character(std::uint32_t code_point, std::size_t from, std::size_t to, TokenOutput& output,
                              Word& word) const noexcept {
  if (code_point >= 'a' && code_point <= 'z') return word.add_letter(static_cast<char>(code_point), from);
  const WordPieceClass kind = word_piece_class(code_point);
  if (kind == WordPieceClass::kSpace) {
    end_word(output, word);
    return;
  }
  if (kind == WordPieceClass::kPunctuation) end_word(output, word);
  word.add(code_point, from, to);
  if (kind == WordPieceClass::kPunctuation) end_word(output, word);
}

void WordPiece::tokenize_between(std::string_view text, std::size_t place, std::size_t end, TokenOutput& output,
                                 Word& word) const noexcept {
  normalizer_.normalise(
      text, place, end, [&] { return output.is_done(); },
      [&](std::uint32_t code_point, std::size_t from, std::size_t to) {
        add_character(code_point, from, to, output, word);
      });
  end_word(output, word);
}

void WordPiece::find_normalised(std::string_view text, std::size_t place, std::size_t end, TokenOutput& output,
                                Word& word, NormalisedText normalised) const noexcept {
  normalizer_.normalise(
      text, place, end, [] { return false; },
      [&](std::uint32_t code_point, std::size_t from, std::size_t to) { normalised.add(code_point, from, to); });
  const std::string_view bytes(normalised.bytes, normalised.size);
  for (AddedMatch added; added.next < bytes.size() && !output.is_done();) {
    std::size_t i = added.end;
    added = normalised_.find(bytes, added);
    while (i < added.begin && !output.is_done()) {
      const Utf8Character character = utf8_character(bytes, i);
      add_character(character.code_point, normalised.begin_of(i), normalised.end_of(i), output, word);
      i += character.bytes;
    }
    end_word(output, word);
    if (added.id < 0) break;
    const std::size_t last = added.end - 1;
    output.add(added.id, normalised.begin_of(std::min(added.begin, last)), normalised.end_of(last));
  }
}

Status WordPiece::tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  const bool keeps = output.keeps_places();
  if (scratch.size() < (keeps ? place_scratch_bytes(text.size()) : scratch_bytes(text.size())))
    return Status{StatusCode::kBadSample, {0, kPieceTooLong}};
  const std::size_t skipped = (8 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 8) % 8;
  std::byte* memory = scratch.data() + skipped;
  const BytePlaces word_places = keeps ? take_places(&memory, kWordBytes) : BytePlaces();
  const BytePlaces text_places = keeps ? take_places(&memory, normalised_bytes(text.size())) : BytePlaces();
  std::uint64_t* const hashes = static_cast<std::uint64_t*>(static_cast<void*>(memory));
  std::int32_t* const pieces = static_cast<std::int32_t*>(static_cast<void*>(hashes + kWordBytes));
  std::int32_t* const piece_ends = pieces + kWordBytes;
  char* const bytes = static_cast<char*>(static_cast<void*>(piece_ends + kWordBytes));
  Word word{bytes, hashes, pieces, piece_ends};
  word.places = word_places;
  for (AddedMatch added; added.next < text.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = as_written_.find(text, added);
    if (normalised_.empty()) {
      tokenize_between(text, place, added.begin, output, word);
    } else {
      find_normalised(text, place, added.begin, output, word, {word.bytes + kWordBytes, 0, text_places});
    }
    if (added.id >= 0) output.add(added.id, std::min(added.begin, added.end), added.end);
  }
  return ok_status();
}

// By id, so that the order of a hash table does not count.
std::map<std::int32_t, std::string> tokens_by_id(const WordPieceFiles& files) {
  std::map<std::int32_t, std::string> tokens;
  for (const auto& [token, id] : files.tokens) tokens[id] = token;
  for (const AddedToken& token : files.added) tokens[token.id] = token.found_as();
  return tokens;
}

std::uint64_t digest_of(const WordPieceFiles& files) {
  std::string said = std::string("WordPiece ") + (files.normalizer.lowers ? "lower " : "") +
                     (files.normalizer.strips_marks == files.normalizer.lowers ? "" : "marks kept ") +
                     (files.normalizer.splits_chinese ? "chinese " : "");
  const auto add = [&](const std::string& text) { said += std::to_string(text.size()) + ":" + text; };
  for (const auto& [id, token] : tokens_by_id(files)) add(std::to_string(id) + " " + token);
  for (const AddedToken& token : files.added) {
    add(token.text);
    add(said_of(token));
  }
  for (const std::string* role : {&files.cls, &files.sep, &files.pad, &files.mask, &files.unk}) add(*role);
  return XXH3_64bits(said.data(), said.size());
}

}  // namespace

std::unique_ptr<const Tokenizer> load_word_piece(const TokenizerFolder& folder) {
  const WordPieceFiles files = read_word_piece_files(folder);
  TokenizerFacts facts;
  const std::int32_t end = required_id(files.sep, files);
  facts.before = {required_id(files.cls, files)};
  facts.between = facts.after = {end};
  facts.second_type = files.has_types ? 1 : 0;
  facts.pad_id = required_id(files.pad, files);
  facts.mask_id = required_id(files.mask, files);
  facts.unknown_id = required_id(files.unk, files);
  facts.marks_continuation = true;
  facts.special_ids = special_ids_of(files.added);
  facts.vocabulary_size = tokens_by_id(files).rbegin()->first + 1;
  facts.digest = digest_of(files);
  return std::make_unique<WordPiece>(std::move(facts), files);
}

std::vector<std::string> word_piece_texts(const TokenizerFolder& folder) {
  std::vector<std::string> texts;
  for (const auto& [id, token] : tokens_by_id(read_word_piece_files(folder))) {
    texts.resize(static_cast<std::size_t>(id) + 1);
    texts.back() = token;
  }
  return texts;
}

}  // namespace bascule
