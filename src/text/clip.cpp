// SPDX-License-Identifier: Apache-2.0
#include "src/text/clip.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "src/text/clip_files.h"
#include "src/text/clip_text.h"
#include "src/text/merge.h"
#include "src/text/nfc.h"
#include "src/text/pieces.h"
#include "src/text/vocabulary.h"

namespace bascule {
namespace {

// The working memory of one text, laid over memory of the caller.
struct ClipWork {
  std::uint64_t* characters;
  char* text;
  MergeScratch merging;
};

class Clip final : public Tokenizer {
 public:
  Clip(TokenizerFacts facts, Vocabulary vocabulary, AddedTokens normalised)
      : Tokenizer(std::move(facts)), vocabulary_(std::move(vocabulary)), normalised_(std::move(normalised)) {}
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    const std::size_t normalised = clip_text_bytes(longest_text_bytes);
    return alignof(std::uint64_t) + nfc_code_points(longest_text_bytes) * sizeof(std::uint64_t) + normalised +
           MergeScratch::bytes(normalised);
  }

 private:
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override;
  void tokenize_between(std::string_view text, TokenOutput& output, ClipWork& work) const noexcept;
  void tokenize_normalised(std::string_view text, TokenOutput& output, MergeScratch& merging) const noexcept;
  void add_piece(std::string_view piece, TokenOutput& output, MergeScratch& merging) const noexcept;

  Vocabulary vocabulary_;
  AddedTokens normalised_;  // those that are found in the normalised text
};

void Clip::add_piece(std::string_view piece, TokenOutput& output, MergeScratch& merging) const noexcept {
  const std::int32_t word = vocabulary_.words.find(piece);
  if (word >= 0) return output.add(word);
  const PieceMerger merger(piece, vocabulary_, merging);
  for (std::int32_t i = merger.first(); i >= 0; i = merger.next(i)) output.add(merger.token(i));
}

void Clip::tokenize_normalised(std::string_view text, TokenOutput& output, MergeScratch& merging) const noexcept {
  for (std::size_t begin = skip_space(text, 0); begin < text.size() && !output.is_done();) {
    const std::size_t end = clip_piece_end(text, begin);
    // GPT-2's pattern cuts the name of a special token, which lower case may have made, where CLIP's does not.
    for (const std::string_view piece = text.substr(0, end); begin < end;) {
      const std::size_t next = piece_end(piece, begin);
      add_piece(piece.substr(begin, next - begin), output, merging);
      begin = next;
    }
    begin = skip_space(text, end);
  }
}

void Clip::tokenize_between(std::string_view text, TokenOutput& output, ClipWork& work) const noexcept {
  const std::string_view normalised(work.text, normalise_clip_text(text, work.characters, work.text));
  for (AddedMatch added; added.next < normalised.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = normalised_.find(normalised, added);
    tokenize_normalised(normalised.substr(place, added.begin - place), output, work.merging);
    if (added.id >= 0) output.add(added.id);
  }
}

Status Clip::tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  if (scratch.size() < scratch_bytes(text.size())) return Status{StatusCode::kBadSample, {0, kPieceTooLong}};
  const std::size_t size = scratch.size(),
                    skipped = -reinterpret_cast<std::uintptr_t>(scratch.data()) % alignof(std::uint64_t);
  const std::size_t text_begin = skipped + nfc_code_points(text.size()) * sizeof(std::uint64_t);
  const std::size_t merging_begin = text_begin + clip_text_bytes(text.size());
  void* const characters = scratch.data() + skipped;
  void* const normalised = scratch.data() + text_begin;
  ClipWork work{static_cast<std::uint64_t*>(characters), static_cast<char*>(normalised),
                MergeScratch(scratch.subspan(merging_begin, size - merging_begin))};
  for (AddedMatch added; added.next < text.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = vocabulary_.added.find(text, added);
    tokenize_between(text.substr(place, added.begin - place), output, work);
    if (added.id >= 0) output.add(added.id);
  }
  return ok_status();
}

}  // namespace

std::unique_ptr<const Tokenizer> load_clip(const TokenizerFolder& folder) {
  const BpeFiles files = read_clip_files(folder);
  TokenizerFacts facts;
  Vocabulary vocabulary = make_vocabulary(files, &facts);
  return std::make_unique<Clip>(std::move(facts), std::move(vocabulary), AddedTokens(files.added, true));
}

std::vector<std::string> clip_texts(const TokenizerFolder& folder) { return token_texts(read_clip_files(folder)); }

}  // namespace bascule
