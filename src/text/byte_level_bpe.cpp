// SPDX-License-Identifier: Apache-2.0
#include "src/text/byte_level_bpe.h"

#include <utility>

#include "src/text/merge.h"
#include "src/text/pieces.h"
#include "src/text/roberta_files.h"
#include "src/text/vocabulary.h"

namespace bascule {
namespace {

class ByteLevelBpe final : public Tokenizer {
 public:
  ByteLevelBpe(TokenizerFacts facts, Vocabulary vocabulary)
      : Tokenizer(std::move(facts)), vocabulary_(std::move(vocabulary)) {}
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return MergeScratch::bytes(longest_text_bytes);
  }

 private:
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override;
  Status tokenize_between(std::string_view text, std::size_t begin, std::size_t end, TokenOutput& output,
                          MergeScratch& scratch) const noexcept;

  Vocabulary vocabulary_;
};

Status ByteLevelBpe::tokenize_between(std::string_view text, std::size_t begin, std::size_t end, TokenOutput& output,
                                      MergeScratch& scratch) const noexcept {
  const std::string_view stretch = text.substr(0, end);
  while (begin < end && !output.is_done()) {
    const std::size_t next = piece_end(stretch, begin);
    const std::string_view piece = stretch.substr(begin, next - begin);
    const std::int32_t word = vocabulary_.words.find(piece);
    if (word >= 0) {
      output.add(word);
    } else if (piece.size() > scratch.longest_piece_bytes()) {
      return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(begin), kPieceTooLong}};
    } else {
      const PieceMerger merger(piece, vocabulary_, scratch);
      for (std::int32_t i = merger.first(); i >= 0; i = merger.next(i)) output.add(merger.token(i));
    }
    begin = next;
  }
  return ok_status();
}

Status ByteLevelBpe::tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  MergeScratch merging(scratch);
  std::size_t place = 0;
  while (place < text.size() && !output.is_done()) {
    const AddedMatch added = vocabulary_.added.find(text, place);
    BASCULE_TRY(tokenize_between(text, place, added.begin, output, merging));
    if (added.id >= 0) output.add(added.id);
    place = added.end;
  }
  return ok_status();
}

}  // namespace

std::unique_ptr<const Tokenizer> load_byte_level_bpe(const TokenizerFolder& folder) {
  TokenizerFacts facts;
  Vocabulary vocabulary = make_vocabulary(read_roberta_files(folder), &facts);
  return std::make_unique<ByteLevelBpe>(std::move(facts), std::move(vocabulary));
}

std::vector<std::string> byte_level_bpe_texts(const TokenizerFolder& folder) {
  return token_texts(read_roberta_files(folder));
}

}  // namespace bascule
