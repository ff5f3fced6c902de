// SPDX-License-Identifier: Apache-2.0
// The vectors that a model makes of texts. A text has the same bits alone and in any batch: the texts of a batch are
// packed end to end, and no sum of one text's rows takes in another's. Every function allocates and may throw Error.
//
//   TextEmbedder embedder(folder, isa, threads);
//   std::vector<TextTokens> tokens; ...                    // embedder.encode(text, prompt, "text 1")
//   embedder.plan(kTokensAtOnce, vectors_bytes);           // once
//   embedder.embed(tokens, vectors);                       // (tokens.size(), embedder.width()), any number of times
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/ask/finished_model.h"
#include "src/base/span.h"
#include "src/models/sentence_folder.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

// Enough rows for full tiles of matrix products. A batch has at least room for one text.
inline constexpr std::int64_t kTokensAtOnce = 2048;

struct TextTokens {
  std::vector<std::int32_t> ids;
  std::int64_t all = 0;  // tokens of the text with special ones; above those of ids: it was cut
  std::string where;     // the text in messages

  bool is_cut() const { return all > static_cast<std::int64_t>(ids.size()); }
};

class TextEmbedder {
 public:
  // Reads the folder's configuration and its tokenizer, and no weights. Throws Error kData.
  explicit TextEmbedder(const std::string& folder, Isa isa = choose_isa("auto"), int threads = threads_of_process(),
                        Precision precision = Precision::kFloat32);

  const SentenceFolder& sentence() const { return sentence_; }
  std::int64_t width() const { return model_->embedding_width(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // What it computes with, for those who compare vectors. The products are there after plan().
  Threads& threads() { return asked_.threads(); }
  GemmLibrary& products() { return asked_.session().products(); }

  // The tokens of the prompt and the text. where: the text in messages. Throws Error kData where it is not UTF-8.
  TextTokens encode(const std::string& text, const std::string& prompt, const std::string& where) const;

  // Bytes of a process that embeds batches of so many tokens and keeps other_bytes.
  std::size_t planned_bytes(std::int64_t tokens, std::size_t other_bytes) const;
  // Plans, checks that it fits into this machine's memory, and loads the weights. Once. Throws Error kMemory, kData.
  void plan(std::int64_t tokens, std::size_t other_bytes);
  // After plan(). Batches are filled in order up to the planned tokens. Throws Error kData for numbers that are not
  // finite.
  void embed(Span<const TextTokens> texts, float* vectors);

 private:
  Tensor record(Session* session, std::int64_t tokens) const;
  void run(Span<const TextTokens> texts, float* vectors);

  SentenceFolder sentence_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  const Precision precision_;
  AskedModel asked_;
  std::int64_t tokens_ = 0;  // of a batch
  Tensor vectors_;
};

}  // namespace bascule
