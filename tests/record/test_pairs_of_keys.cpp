// SPDX-License-Identifier: Apache-2.0
// Every family and head planned with every pair of keys that change graphs: each pair has a plan, or is refused in
// words.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

// Lines for tables of a settings file, and where its ranks are.
struct KeyChange {
  std::string name;  // changes of one name exclude each other
  std::string model = {}, data = {}, training = {}, other = {};
  int ranks = 1, nodes = 1;
};

struct PlannedModel {
  std::string type, folder, tokenizer;
};

std::string rows() {
  const std::string images = std::string(BASCULE_TEST_DATA) + "/emoji-captions/images/";
  const auto row = [&](const std::string& picture, const std::string& members) {
    return "{\"image\": \"" + images + picture + ".jpg\", " + members + "}\n";
  };
  return row("1f004",
             R"("caption": "a ed", "other": "e d", "label": 0, "value": 0.5, "tokens": ["a", "d"], "tags": ["O", "B-X"])") +
         row("1f170",
             R"("caption": "dad", "other": "a", "label": 1, "value": 2.25, "tokens": ["a", "e"], "tags": ["B-X", "I-X"])") +
         row("1f171", R"("caption": "a a", "other": "d", "label": 1, "value": 1.5, "tokens": ["e"], "tags": ["O"])");
}

// Tokenizers of a few tokens: a plan reads them anew.
std::vector<PlannedModel> write_models(const TemporaryFolder& folder) {
  const std::string data = BASCULE_TEST_DATA, bytes = data + "/run_goldens/tokenizer";
  const auto write = [&](const std::string& type, const std::string& members) {
    std::filesystem::create_directory(folder.path() + "/" + type);
    folder.write(type + "/config.json", "{\"model_type\": \"" + type + "\", " + members + "}");
    return folder.path() + "/" + type;
  };
  const std::string sizes =
      R"("hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, )";
  std::vector<PlannedModel> models = {
      {"bridgetower", data + "/emoji-captions/tiny_model", bytes},
      {"vit", data + "/emoji-classes/model", ""},
      {"deit", write("deit", sizes + R"("image_size": 32, "patch_size": 8, "num_labels": 10)"), ""},
      {"bert", write("bert", sizes + R"("vocab_size": 16, "max_position_embeddings": 32)"), ""},
      {"roberta", write("roberta", sizes + R"("vocab_size": 300, "max_position_embeddings": 34)"), bytes},
      {"distilbert",
       write(
           "distilbert",
           R"("dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, "vocab_size": 16, "max_position_embeddings": 32)"),
       ""},
      {"t5",
       write(
           "t5",
           R"("vocab_size": 300, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0)"),
       ""}};
  folder.write("deit/preprocessor_config.json", R"({"image_mean": 0.5, "image_std": 0.5, "size": 36, "resample": 3,
                                                   "do_center_crop": true, "crop_size": 32})");
  for (const char* type : {"bert/", "distilbert/"})
    folder.write(std::string(type) + "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nd\ne\n##a\n##d\n##e\n");
  Json unigram = read_json_file(data + "/tokenizer/unigram/tokenizer.json");
  Json pieces = Json::array();
  for (std::size_t i = 0; i < 100; ++i) pieces.push_back(unigram["model"]["vocab"][i]);
  unigram["model"]["vocab"] = pieces;
  unigram["normalizer"] = Json();
  unigram["added_tokens"] = Json::array();
  folder.write("t5/tokenizer.json", json_text(unigram));
  folder.write("t5/tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  return models;
}

// The columns that a head reads.
std::string columns_of(const std::string& head) {
  if (head.rfind("image_classification", 0) == 0 || head == "sequence_classification")
    return "label_column = \"label\"\n";
  if (head == "conditional_generation") return "text_column = \"caption\"\nsummary_column = \"other\"\n";
  if (head == "token_classification") return "text_column = \"tokens\"\nlabel_column = \"tags\"\n";
  if (head == "sentence_embedding") return "text_pair_column = \"other\"\n";
  if (head == "pretraining") return "text_pair_column = \"other\"\nlabel_column = \"label\"\n";
  return "";
}

std::string lines_of(const KeyChange& change) { return change.model + change.data + change.training + change.other; }

KeyChange change_to(const std::string& head, const std::string& columns) {
  return {"head", "head = \"" + head + "\"\n", columns};
}

std::vector<KeyChange> changes_of(const Family& family) {
  const char* const kAdafactor = "optimizer = \"adafactor\"\n";
  std::vector<KeyChange> changes = {
      {"groups", "", "", "", "[[training.groups]]\nmatch = \"*ttention*\"\nlearning_rate_multiplier = 2.0\n"},
      {"groups", "", "", "", "[[training.groups]]\nmatch = \"*.0.*\"\nfreeze = true\n"},
      {"groups", "", "", "", "[[training.groups]]\nmatch = \"*norm*\"\nfreeze = true\n"},
      {"precision", "precision = \"bf16\"\n"},
      {"dropout", "dropout = \"off\"\n"},
      {"checkpointing", "", "", "gradient_checkpointing = \"off\"\n"},
      {"checkpointing", "", "", "gradient_checkpointing = \"full\"\n"},
      {"checkpointing", "", "", "gradient_checkpointing = \"fit\"\n", "[machine]\nmemory_limit_gib = 0.05\n"},
      {"optimizer", "", "", kAdafactor},
      {"optimizer", "", "", "optimizer = \"lamb\"\n"},
      {"optimizer", "", "", std::string(kAdafactor) + "fused_update = true\nmax_grad_norm = 0.0\n"},
      {"accumulation", "", "", "gradient_accumulation_steps = 2\n"},
      {"average", "", "", "ema_decay = 0.5\n"},
      {"smoothing", "", "", "label_smoothing_factor = 0.1\n"},
      {"hashes", "", "", "", "[report]\nhash_steps = 1\n"},
      {"trains", "", "", "do_train = false\n"},
      {"evaluates", "", "", "do_eval = false\n"},
      {"predicts", "", "test_file = \"rows.jsonl\"\n", ""},
      {"ranks", "", "", "", "[distributed]\nworld_size = 2\n", 2},
      {"ranks", "", "", "", "[distributed]\nworld_size = 2\ndistribution_strategy = \"sharded\"\nsharded_stage = 2\n",
       2},
      {"ranks", "", "", "", "[distributed]\nworld_size = 2\ndistribution_strategy = \"sharded\"\n", 2, 2},
  };
  for (const std::string& part : family.parts) changes.push_back({"freeze", "freeze = [\"" + part + "\"]\n"});
  if (family.parts.size() > 1)
    changes.push_back({"freeze", "freeze = [\"" + family.parts[0] + "\", \"" + family.parts[1] + "\"]\n"});
  changes.push_back({"freeze", "freeze = []\n"});
  for (std::size_t i = 1; i < family.heads.size(); ++i) {
    const std::string& head = family.heads[i].words.name;
    changes.push_back(change_to(head, columns_of(head)));
    if (family.heads[i].words.embeds_texts) {
      changes.push_back({"head", "head = \"" + head + "\"\n", columns_of(head) + "label_column = \"value\"\n",
                         "loss = \"cosent\"\n"});
    } else if (!family.heads[i].judge_of_values.empty()) {
      changes.push_back(change_to(head, "label_column = \"value\"\n"));
    }
  }
  if (family.resizes_pictures) {
    changes.push_back({"mixing", "", "mixup_alpha = 0.2\n"});
    changes.push_back({"image_size", "image_size = 32\n"});
  }
  if (family.heads.front().command == "search") changes.push_back({"negatives", "", "", "gather_negatives = true\n"});
  if (family.heads.front().command == "generate") {
    const char* const kWrites = "predict_with_generate = true\n";
    changes.push_back({"generation", "", "", kWrites});
    changes.push_back({"generation", "", "", kWrites, "[generation]\nnum_beams = 3\nno_repeat_ngram_size = 2\n"});
    changes.push_back({"generation", "", "", "predict_with_generate = true\ngenerate_ema = true\nema_decay = 0.5\n"});
    changes.push_back({"padding", "", "pad_to_max_length = true\nignore_pad_token_for_loss = false\n"});
  }
  return changes;
}

class PairsOfKeys : public ::testing::Test {
 protected:
  PairsOfKeys() : models_(write_models(folder_)) {
    folder_.write("rows.jsonl", rows());
    set_last_words([](const char*) { std::fprintf(stderr, "in %s\n", planned_.c_str()); });
  }
  ~PairsOfKeys() override { set_last_words(nullptr); }

  // Whether the two have a plan together; false: they are refused.
  bool is_planned(const PlannedModel& model, const std::string& usual_head, const KeyChange& one,
                  const KeyChange& other) {
    const bool has_head = one.name == "head" || other.name == "head";
    const std::string text =
        "[model]\nmodel_name_or_path = \"" + model.folder + "\"\n" +
        (model.tokenizer.empty() ? "" : "tokenizer_name = \"" + model.tokenizer + "\"\n") + "from_scratch = true\n" +
        one.model + other.model + "[data]\ntrain_file = \"rows.jsonl\"\nvalidation_file = \"rows.jsonl\"\n" +
        "max_seq_length = 16\n" + (has_head ? "" : columns_of(usual_head)) + one.data + other.data +
        "[training]\nmax_steps = 3\noutput_dir = \"run\"\nper_device_train_batch_size = 2\n" + one.training +
        other.training + one.other + other.other;
    planned_ = text;
    RankPlace ranks;
    ranks.world_size = std::max(one.ranks, other.ranks);
    ranks.nodes = std::max(one.nodes, other.nodes);
    ranks.local_size = ranks.world_size / ranks.nodes;
    try {
      const Settings settings = read_settings_text(text, "test.toml", folder_.path(), model_words);
      const auto run = record_run(settings, ranks);
      EXPECT_GT(run->plan.peak_bytes(), 0u) << planned_;
      return true;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what() << "\nin " << planned_;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\nin " << planned_;
    }
    return false;
  }

  TemporaryFolder folder_;
  const std::vector<PlannedModel> models_;
  inline static std::string planned_;  // the pair under way
};

TEST_F(PairsOfKeys, HaveAPlanWithEachFamilyOrAreRefused) {
  for (const PlannedModel& model : models_) {
    const Family& family = family_of(model.folder + "/config.json");
    const std::vector<KeyChange> changes = changes_of(family);
    std::vector<bool> is_possible(changes.size());
    for (std::size_t i = 0; i < changes.size(); ++i) {
      for (std::size_t j = i; j < changes.size(); ++j) {
        if (i != j && changes[i].name == changes[j].name) continue;
        const KeyChange& other = i == j ? KeyChange{} : changes[j];
        if (is_planned(model, family.heads.front().words.name, changes[i], other))
          is_possible[i] = is_possible[j] = true;
      }
    }
    for (std::size_t i = 0; i < changes.size(); ++i)
      EXPECT_TRUE(is_possible[i]) << model.type << ", always refused: " << lines_of(changes[i]);
  }
}

}  // namespace
}  // namespace bascule::test
