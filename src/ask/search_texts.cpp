// SPDX-License-Identifier: Apache-2.0
// `bascule search FOLDER --texts FILE "text"`: the texts of a file that are nearest to a text, by an index beside it.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "src/ask/ask.h"
#include "src/ask/text_embedder.h"
#include "src/ask/text_index.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/files/input_file.h"
#include "src/judge/statistics.h"

namespace bascule {
namespace {

void add_file(Digest* digest, const InputFile& file) {
  std::vector<char> block(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const auto count = std::min(static_cast<std::int64_t>(block.size()), file.size() - at);
    file.read(block.data(), at, static_cast<std::size_t>(count));
    digest->add(block.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

// All that decides on a vector: weights, configuration, tokenizer, the folder's rules, and the prompt.
std::string digest_of_model(const TextEmbedder& embedder, const std::string& prompt) {
  const SentenceFolder& sentence = embedder.sentence();
  Digest digest;
  const TensorSource weights = open_hf_weights(sentence.body);
  for (const InputFile& file : weights.files()) add_file(&digest, file);
  add_file(&digest, InputFile(sentence.body + "/config.json"));
  digest.add_number(embedder.tokenizer().digest());
  for (const std::int64_t rule :
       {static_cast<std::int64_t>(sentence.pooling), std::int64_t{sentence.normalize}, sentence.max_seq_length,
        std::int64_t{sentence.lower_case}, static_cast<std::int64_t>(sentence.similarity)})
    digest.add_number(static_cast<std::uint64_t>(rule));
  digest.add(prompt.data(), prompt.size());
  return std::to_string(digest.value());
}

// Of the library's two: a folder that does not have it uses none.
std::string prompt_of(const SentenceFolder& sentence, const char* name) {
  const std::string its(name);
  return sentence.prompts.count(its) > 0 ? prompt_named(sentence, &its) : "";
}

// Embeds texts as the index keeps them: of length 1 where cosines compare them.
class IndexedVectors {
 public:
  IndexedVectors(TextEmbedder& embedder, std::string where) : embedder_(embedder), where_(std::move(where)) {}

  void append(const std::vector<std::string>& texts, const std::string& prompt, std::vector<float>* vectors) {
    std::vector<TextTokens> tokens;
    for (const std::string& text : texts) {
      tokens.push_back(embedder_.encode(text, prompt, where_));
      cut_ += tokens.back().is_cut() ? 1 : 0;
    }
    const std::int64_t width = embedder_.width();
    const std::size_t first = vectors->size();
    vectors->resize(first + texts.size() * static_cast<std::size_t>(width));
    embedder_.embed(tokens, vectors->data() + first);
    if (embedder_.sentence().similarity != Similarity::kCosine) return;
    for (float* row = vectors->data() + first; row != vectors->data() + vectors->size(); row += width) {
      const double length = vector_length(row, width);
      for (std::int64_t i = 0; i < width; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / length);
    }
  }
  std::size_t cut() const { return cut_; }

 private:
  TextEmbedder& embedder_;
  std::string where_;
  std::size_t cut_ = 0;
};

}  // namespace

SearchAnswer search_texts(const SearchArguments& arguments, Isa isa, int threads) {
  const auto refuse = [](const char* where, const char* what, const char* what_to_do) {
    throw Error(ErrorKind::kSettings, where, what, what_to_do);
  };
  if (!arguments.picture.empty() || !arguments.images.empty())
    refuse("--texts", "texts are searched with a text", "leave out --picture and --images");
  if (arguments.query.empty()) refuse("search", "nothing to search for", "give a text");
  TextEmbedder embedder(arguments.folder, isa, threads);
  const SentenceFolder& sentence = embedder.sentence();
  const std::string of_texts = prompt_of(sentence, "document");
  const std::string of_query =
      arguments.prompt ? prompt_named(sentence, &*arguments.prompt) : prompt_of(sentence, "query");
  const std::int64_t tokens = std::max(kTokensAtOnce, sentence.max_seq_length);
  IndexedVectors vectors(embedder, arguments.texts);
  std::size_t embedded = 0;
  const TextIndex index(
      {arguments.texts, arguments.index.empty() ? arguments.texts + ".index.safetensors" : arguments.index,
       digest_of_model(embedder, of_texts), embedder.width()},
      [&](std::size_t bytes) {
        const std::size_t ids = kTextsAtOnce * static_cast<std::size_t>(sentence.max_seq_length) * sizeof(std::int32_t);
        embedder.plan(tokens, bytes + ids);
      },
      [&](const std::vector<std::string>& texts, std::vector<float>* all) {
        vectors.append(texts, of_texts, all);
        embedded += texts.size();
        std::fprintf(stderr, "bascule: search: %zu texts embedded\n", embedded);
      },
      [](const std::string& line) { std::fprintf(stderr, "bascule: search: %s\n", line.c_str()); });
  if (vectors.cut() > 0) {
    std::fprintf(stderr, "bascule: search: %zu of %zu texts had more than %lld tokens and were cut\n", vectors.cut(),
                 embedded, static_cast<long long>(sentence.max_seq_length));
  }
  std::vector<float> query;
  IndexedVectors(embedder, "the text to search for").append({arguments.query}, of_query, &query);
  SearchAnswer answer;
  answer.of_texts = true;
  answer.model = arguments.folder;
  answer.query = arguments.query;
  answer.searched = arguments.texts;
  answer.candidates = static_cast<std::size_t>(index.texts());
  for (const Neighbour& one : index.nearest(query, arguments.top, embedder.products(), embedder.threads())) {
    FoundText text = index.text(one.row);
    answer.hits.push_back({std::move(text.name), std::move(text.text), one.score, false});
  }
  return answer;
}

}  // namespace bascule
