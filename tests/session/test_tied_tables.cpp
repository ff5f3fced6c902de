// SPDX-License-Identifier: Apache-2.0
// Word tables in files that hold them under the name of a tensor that is tied to them, as safetensors' save_model()
// writes: of tensors that share memory it keeps one name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/models/families.h"
#include "src/session/model_folder.h"
#include "src/session/parameter_values.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_tied_tables {
namespace {

constexpr char kBertSizes[] = R"("hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
  "intermediate_size": 12, "vocab_size": 30)";

struct TiedTable {
  const char* family;
  std::string sizes;  // of config.json
  std::string table;
  std::vector<std::string> others;
  bool asks_config;  // tie_word_embeddings says whether the tensors are tied
};

const std::vector<TiedTable>& tied_tables() {
  static const std::vector<TiedTable> all = {
      {"bert", kBertSizes, "bert.embeddings.word_embeddings.weight", {"cls.predictions.decoder.weight"}, true},
      {"roberta", kBertSizes, "roberta.embeddings.word_embeddings.weight", {"lm_head.decoder.weight"}, true},
      {"distilbert",
       R"("dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12, "vocab_size": 30)",
       "distilbert.embeddings.word_embeddings.weight",
       {"vocab_projector.weight"},
       true},
      {"bridgetower",
       R"("hidden_size": 64, "num_hidden_layers": 1, "contrastive_hidden_size": 4, "logit_scale_init_value": 2, "num_attention_heads": 2,
          "text_config": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 30},
          "vision_config": {"hidden_size": 64, "num_hidden_layers": 1, "image_size": 16, "patch_size": 8})",
       "bridgetower.text_model.embeddings.word_embeddings.weight",
       {"mlm_score.decoder.weight"},
       true},
      {"t5",
       R"("vocab_size": 30, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2,
          "decoder_start_token_id": 0)",
       "shared.weight",
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"},
       false}};
  return all;
}

// A model's parameters with values, beside each other.
struct Values {
  ParameterSet set;
  ParameterLayout layout;
  std::vector<float> values;

  explicit Values(const Model& model) {
    BatchCounts bounds;
    for (int stream = 0; stream < kMaxStreams; ++stream) bounds[stream] = 4;
    bounds[kSamplesOfAllRanks] = 0;
    Graph graph(set, bounds, model.fields({}));
    model.record(graph, Use::kTrain, {});
    std::int64_t elements = 0;
    for (int p = 0; p < set.size(); ++p) {
      layout.places.push_back({true, elements});
      elements += set[p].elements();
    }
    values.assign(static_cast<std::size_t>(elements), -1.0f);
  }
  ParameterMemory memory() { return {&set, &layout, values.data(), nullptr}; }
  std::vector<TensorToWrite> tensors() { return tensors_to_write(set, layout, values.data(), nullptr, ""); }
};

std::string config_of(const TiedTable& tied, bool says_tied) {
  return std::string(R"({"model_type": ")") + tied.family + R"(", "tie_word_embeddings": )" +
         (says_tied ? "true" : "false") + ", " + tied.sizes + "}";
}

LoadReport load(const std::string& folder, const std::string& head, Values* loaded) {
  const std::unique_ptr<Model> model = open_model(model_source(folder), head);
  *loaded = Values(*model);
  const TensorSource source = open_hf_weights(folder);
  Threads one(1, false);
  StartWork work;
  LoadReport report = load_parameters(&work, source, loaded->memory(), *model, 5);
  work.run(one);
  return report;
}

TEST(TiedTables, AreReadUnderTheNameOfEachTensorThatIsTiedToThem) {
  for (const TiedTable& tied : tied_tables()) {
    const TemporaryFolder folder;
    const std::string config = folder.write("config.json", config_of(tied, true));
    for (const FamilyHead& head : family_of(config).heads) {
      const std::unique_ptr<Model> model = open_model({config, {}}, head.words.name);
      Values stored(*model);
      StartWork work;
      Threads one(1, false);
      initialise_parameters(&work, stored.memory(), 11);
      work.run(one);
      for (const std::string& other : tied.others) {
        SCOPED_TRACE(other + " of " + head.architecture);
        std::vector<TensorToWrite> tensors = stored.tensors();
        // Without the prefix where the model is the body alone.
        const auto table = std::find_if(tensors.begin(), tensors.end(), [&](const TensorToWrite& tensor) {
          return tensor.name == tied.table || model->body_prefix() + tensor.name == tied.table;
        });
        ASSERT_NE(table, tensors.end());
        const std::string table_name = table->name;
        table->name = other;
        const SafetensorsWritePlan plan(std::move(tensors));
        ASSERT_TRUE(plan.write((folder.path() + "/model.safetensors").c_str()).ok());
        Values loaded(stored);
        const LoadReport report = load(folder.path(), head.words.name, &loaded);
        EXPECT_TRUE(report.missing.empty() && report.unused.empty());
        ASSERT_EQ(loaded.values.size(), stored.values.size());  // no decoder of its own
        EXPECT_EQ(std::memcmp(loaded.values.data(), stored.values.data(), stored.values.size() * sizeof(float)), 0);
        const FileNames names = open_model({config, {}}, head.words.name)->file_names();
        EXPECT_EQ(find_tensor(open_hf_weights(folder.path()), "other.weight", names), nullptr);
        // A row of the table less: the weights of another vocabulary.
        std::vector<TensorToWrite> shorter = stored.tensors();
        for (TensorToWrite& tensor : shorter) {
          if (tensor.name != table_name) continue;
          tensor.name = other;
          --tensor.shape[0];
        }
        ASSERT_TRUE(
            SafetensorsWritePlan(std::move(shorter)).write((folder.path() + "/model.safetensors").c_str()).ok());
        EXPECT_THROW(load(folder.path(), head.words.name, &loaded), Error);
        if (!tied.asks_config) continue;
        ASSERT_TRUE(plan.write((folder.path() + "/model.safetensors").c_str()).ok());  // all its rows
        folder.write("config.json", config_of(tied, false));
        EXPECT_THROW(load(folder.path(), head.words.name, &loaded), Error);
        folder.write("config.json", config_of(tied, true));
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_tied_tables
