// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_embedder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/models/families.h"
#include "src/runtime/start_work.h"
#include "src/session/parameter_values.h"
#include "tests/ask/finished_run.h"
#include "tests/support/files.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kLength = 12;
constexpr char kLetters[] = "abcdefghij";

// A small BERT with initial weights, which has a token for each of ten letters alone and within a word.
class EmbeddingFolder {
 public:
  explicit EmbeddingFolder(const std::string& pooling = "mean", bool normalizes = false,
                           std::optional<float> last_norm = {}) {
    folder_.write("config.json",
                  R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 25, "hidden_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 16})");
    folder_.write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (const char letter : std::string(kLetters)) words += std::string(1, letter) + "\n##" + letter + "\n";
    folder_.write("vocab.txt", words);
    write_sentence_files(pooling, normalizes);
    write_weights(last_norm);
  }
  const std::string& path() const { return folder_.path(); }

 private:
  void write_sentence_files(const std::string& pooling, bool normalizes) const {
    SentenceFolder sentence;
    sentence.pooling = pooling == "cls" ? Pooling::kCls : pooling == "max" ? Pooling::kMax : Pooling::kMean;
    sentence.normalize = normalizes;
    sentence.max_seq_length = kLength;
    sentence.prompts = {{"query", "abc "}};
    std::filesystem::create_directory(path() + "/1_Pooling");
    for (const NamedText& file : sentence_files(sentence, 24)) folder_.write(file.name, file.value);
  }
  // last_norm: weight and bias of the last layer norm, which every number of a vector then is made of.
  void write_weights(std::optional<float> last_norm) const {
    const std::unique_ptr<Model> model = open_model({path() + "/config.json", {}}, kSentenceEmbedding);
    SealedSession whole;
    BatchCounts bounds;
    const Fields fields = model->fields({});
    const int stream = fields[static_cast<std::size_t>(field_from(fields, FieldSource::kTokenIds))].rows.stream;
    bounds[kSamples] = bounds[stream] = bounds.longest[stream] = 4;
    model->record(whole.session.add_graph(bounds, fields), Use::kEmbedText, {});
    whole.seal();
    StartWork work;
    initialise_parameters(&work, whole.session.parameter_memory(), 7);
    work.run(whole.threads);
    const ParameterMemory memory = whole.session.parameter_memory();
    for (int p = 0; last_norm && p < memory.set->size(); ++p) {
      for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
        const std::int64_t first = memory.layout->places[static_cast<std::size_t>(p)].offset + piece.first_element;
        if (piece.name.rfind("encoder.layer.1.output.LayerNorm", 0) == 0)
          std::fill_n(memory.trained + first, piece.elements, *last_norm);
      }
    }
    const SafetensorsWritePlan weights(tensors_to_write(*memory.set, *memory.layout, memory.trained, memory.fixed, ""));
    ASSERT_TRUE(weights.write((path() + "/model.safetensors").c_str()).ok());
  }

  TemporaryFolder folder_;
};

std::vector<std::string> random_texts(int count) {
  Seeded random;
  std::vector<std::string> texts = {""};
  while (static_cast<int>(texts.size()) < count) {
    std::string text;
    for (std::int64_t letters = random.integer(0, 30); letters > 0; --letters)
      text += random.integer(0, 4) == 0 ? ' ' : kLetters[random.integer(0, 9)];
    texts.push_back(text);
  }
  return texts;
}

std::vector<TextTokens> tokens_of(const TextEmbedder& embedder, const std::vector<std::string>& texts) {
  std::vector<TextTokens> tokens;
  for (const std::string& text : texts) tokens.push_back(embedder.encode(text, "", "text"));
  return tokens;
}

// In calls of so many texts.
std::vector<float> vectors_of(TextEmbedder& embedder, const std::vector<TextTokens>& tokens, std::size_t texts) {
  const std::size_t width = static_cast<std::size_t>(embedder.width());
  std::vector<float> vectors(tokens.size() * width);
  for (std::size_t first = 0; first < tokens.size(); first += texts) {
    const std::size_t count = std::min(texts, tokens.size() - first);
    embedder.embed({tokens.data() + first, count}, vectors.data() + first * width);
  }
  return vectors;
}

bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(TextEmbedder, ATextHasTheSameBitsAloneAndInAnyBatch) {
  for (const char* pooling : {"mean", "cls", "max"}) {
    const EmbeddingFolder folder(pooling, true);
    TextEmbedder embedder(folder.path(), best_isa(), kThreads);
    embedder.plan(kTokensAtOnce, 0);
    const std::vector<TextTokens> tokens = tokens_of(embedder, random_texts(1000));
    const std::vector<float> alone = vectors_of(embedder, tokens, 1);
    for (const std::size_t texts : {7u, 32u, 1000u})
      EXPECT_TRUE(are_same(vectors_of(embedder, tokens, texts), alone)) << pooling << " " << texts;
    const std::vector<TextTokens> backwards(tokens.rbegin(), tokens.rend());
    const std::vector<float> reversed = vectors_of(embedder, backwards, 32);
    const std::size_t width = static_cast<std::size_t>(embedder.width());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      ASSERT_EQ(0, std::memcmp(&reversed[(tokens.size() - 1 - i) * width], &alone[i * width], width * sizeof(float)));
  }
}

TEST(TextEmbedder, NamesATextWhoseVectorIsZeroOrNotFinite) {
  for (const auto& [last_norm, problem] :
       {std::pair{0.0f, "its vector is zero"}, {std::numeric_limits<float>::quiet_NaN(), "its vector is not finite"}}) {
    for (const bool normalizes : {false, true}) {
      const EmbeddingFolder folder("cls", normalizes, last_norm);
      TextEmbedder embedder(folder.path(), best_isa(), 1);
      embedder.plan(kTokensAtOnce, 0);
      std::vector<float> vector(static_cast<std::size_t>(embedder.width()));
      try {
        embedder.embed(std::vector<TextTokens>{embedder.encode("abc", "", "text 3")}, vector.data());
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.where(), "text 3");
        EXPECT_EQ(error.problem(), problem);
      }
    }
  }
}

TEST(TextEmbedder, TheBitsDependNeitherOnThreadsNorOnTheInstructionSetNorOnThePlan) {
  const EmbeddingFolder folder;
  TextEmbedder first(folder.path(), best_isa(), 1);
  first.plan(kTokensAtOnce, 0);
  const std::vector<TextTokens> tokens = tokens_of(first, random_texts(60));
  const std::vector<float> vectors = vectors_of(first, tokens, 60);
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (!isa_supported(isa)) continue;
    for (const int threads : {1, 3}) {
      TextEmbedder other(folder.path(), isa, threads);
      other.plan(kLength, 0);  // a batch of one long text
      EXPECT_TRUE(are_same(vectors_of(other, tokens, 60), vectors)) << isa_name(isa) << " " << threads;
    }
  }
}

TEST(TextEmbedder, ATextIsCutAtTheLengthOfTheFolderAndKeepsItsLastToken) {
  const EmbeddingFolder folder;
  const TextEmbedder embedder(folder.path(), best_isa(), 1);
  const TextTokens whole = embedder.encode("a b c d e f g h i j", "", "text");
  EXPECT_EQ(whole.all, kLength);
  EXPECT_FALSE(whole.is_cut());
  const TextTokens cut = embedder.encode("a b c d e f g h i j a a", "", "text");
  EXPECT_EQ(cut.all, kLength + 2);
  EXPECT_EQ(cut.ids, whole.ids);
  EXPECT_EQ(embedder.encode("", "", "text").ids.size(), 2u);
  EXPECT_EQ(embedder.encode("d", "abc ", "text").ids, embedder.encode("abc d", "", "text").ids);
  EXPECT_NE(error_of([&] { embedder.encode("ab\xff", "", "text 3"); }).find("text 3: byte 2 is not UTF-8"),
            std::string::npos);
}

TEST(TextEmbedder, TheNormGivesTheLengthOne) {
  const EmbeddingFolder plain("mean"), unit("mean", true);
  const auto length = [](const EmbeddingFolder& folder) {
    TextEmbedder embedder(folder.path(), best_isa(), 1);
    embedder.plan(kLength, 0);
    const std::vector<float> vector = vectors_of(embedder, tokens_of(embedder, {"abc"}), 1);
    return std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
  };
  EXPECT_NEAR(length(unit), 1.0, 1e-6);
  EXPECT_GT(length(plain), 2.0);
}

}  // namespace
}  // namespace bascule::test
