// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/graph/element_types.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr std::int64_t kLeastTokens = 2;  // of a text: the special ones

std::unique_ptr<const Tokenizer> tokenizer_of(const SentenceFolder& sentence) {
  std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(sentence.body);
  return sentence.lower_case ? lower_cased(std::move(tokenizer)) : std::move(tokenizer);
}

}  // namespace

TextEmbedder::TextEmbedder(const std::string& folder, Isa isa, int threads, Precision precision)
    : model_(open_sentence_model(folder, &sentence_)),
      tokenizer_(tokenizer_of(sentence_)),
      precision_(precision),
      asked_(*model_, sentence_.body, isa, threads) {}

TextTokens TextEmbedder::encode(const std::string& text, const std::string& prompt, const std::string& where) const {
  check_utf8(text, where);
  TextTokens tokens;
  tokens.where = where;
  tokens.ids = tokenizer_->encode(prompt + text);
  tokens.all = static_cast<std::int64_t>(tokens.ids.size());
  if (tokens.all > sentence_.max_seq_length) {
    const Span<const std::int32_t> after = tokenizer_->after();
    tokens.ids.resize(static_cast<std::size_t>(sentence_.max_seq_length));
    std::copy(after.begin(), after.end(), tokens.ids.end() - static_cast<std::ptrdiff_t>(after.size()));
  }
  return tokens;
}

Tensor TextEmbedder::record(Session* session, std::int64_t tokens) const {
  const BatchCounts bounds = AskedModel::bounds_of(asked_.fields(), std::max<std::int64_t>(1, tokens / kLeastTokens),
                                                   tokens, std::min(tokens, sentence_.max_seq_length));
  Graph& graph = session->add_graph(bounds, asked_.fields());
  const Tensor vectors = model_->record(graph, Use::kEmbedText, {}).output(kSentenceEmbedding);
  if (precision_ == Precision::kBf16) choose_element_types(graph);
  return vectors;
}

std::size_t TextEmbedder::planned_bytes(std::int64_t tokens, std::size_t other_bytes) const {
  Session session;
  record(&session, tokens);
  return make_memory_plan(session.plan(asked_.threads().count()), kProgramBytes + kProcessBytes).peak_bytes() +
         other_bytes;
}

void TextEmbedder::plan(std::int64_t tokens, std::size_t other_bytes) {
  const ProcessLimits limits = read_process_limits();
  const std::size_t needed = planned_bytes(tokens, other_bytes);
  if (needed > limits.memory_bytes) {
    throw Error(ErrorKind::kMemory, sentence_.folder,
                "needs " + std::string(readable_bytes(needed).c_str()) + ", and " + limits.memory_owner + " has " +
                    readable_bytes(limits.memory_bytes).c_str(),
                other_bytes == 0 ? "the model is too large" : "give it fewer texts at a time");
  }
  tokens_ = tokens;
  vectors_ = record(&asked_.session(), tokens);
  asked_.load();
}

void TextEmbedder::embed(Span<const TextTokens> texts, float* vectors) {
  for (std::size_t first = 0, end = 0; first < texts.size(); first = end) {
    std::int64_t tokens = 0;
    for (; end < texts.size(); ++end) {
      tokens += static_cast<std::int64_t>(texts[end].ids.size());
      if (tokens > tokens_) break;
    }
    run(texts.subspan(first, end - first), vectors + static_cast<std::int64_t>(first) * width());
  }
}

void TextEmbedder::run(Span<const TextTokens> texts, float* vectors) {
  std::copy_n(asked_.run(padded_texts(texts), vectors_), static_cast<std::int64_t>(texts.size()) * width(), vectors);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const float* const vector = vectors + static_cast<std::int64_t>(i) * width();
    const bool is_finite = std::all_of(vector, vector + width(), [](float x) { return std::isfinite(x); });
    if (is_finite && std::any_of(vector, vector + width(), [](float x) { return x != 0.0f; })) continue;
    throw Error(ErrorKind::kData, texts[i].where, std::string("its vector is ") + (is_finite ? "zero" : "not finite"),
                "the weights in " + sentence_.body + " may be damaged");
  }
}

}  // namespace bascule
