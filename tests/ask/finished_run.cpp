// SPDX-License-Identifier: Apache-2.0
#include "tests/ask/finished_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/checkpoint/safetensors.h"
#include "src/index/manifest.h"
#include "src/json/json.h"
#include "src/models/bridgetower.h"
#include "src/models/families.h"
#include "src/pictures/picture_decoder.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {

namespace fs = std::filesystem;

FinishedRun::FinishedRun()
    : config_(read_bridgetower_config(demo() + "/model/config.json")),
      model_(open_model({demo() + "/model/config.json", {}}, "contrastive")) {
  for (const char* file : {"config.json", "preprocessor_config.json"}) {
    fs::copy(demo() + "/model/" + file, path() + "/" + file);
  }
  for (const fs::directory_entry& file : fs::directory_iterator(demo() + "/tokenizer")) {
    fs::copy(file.path(), path() + "/" + file.path().filename().string());
  }
  folder_.write("bascule.json", R"({"preprocessing": "training"})");
  read_rows();
  run_model();
}

std::string FinishedRun::demo() { return reference_dir() + "/emoji-captions"; }

std::map<std::string, std::string> FinishedRun::metadata() const {
  return {{"split", "validation"},
          {"manifest", demo() + "/validation.jsonl"},
          {"paths", json_text(Json(paths_))},
          {"captions", json_text(Json(captions_))}};
}

void FinishedRun::write_embeddings(const std::string& folder, const std::map<std::string, std::string>& metadata,
                                   std::int64_t columns) const {
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(text_embeds_.size()) / columns, columns};
  const SafetensorsWritePlan plan({{"text_embeds", DType::kFloat32, shape, text_embeds_.data()},
                                   {"image_embeds", DType::kFloat32, shape, image_embeds_.data()},
                                   {"cross_embeds", DType::kFloat32, shape, text_embeds_.data()}},
                                  metadata);
  ASSERT_TRUE(plan.write((folder + "/embeddings.safetensors").c_str()).ok());
}

void FinishedRun::copy_to(const std::string& folder, const std::vector<std::string>& without) const {
  for (const fs::directory_entry& file : fs::directory_iterator(path())) {
    const std::string name = file.path().filename().string();
    if (std::find(without.begin(), without.end(), name) == without.end()) fs::copy(file.path(), folder + "/" + name);
  }
}

std::vector<float> FinishedRun::row_of(const std::vector<float>& embeds, std::size_t row) const {
  const std::int64_t width = config_.contrastive_hidden_size;
  const auto first = embeds.begin() + static_cast<std::int64_t>(row) * width;
  return {first, first + width};
}

void FinishedRun::read_rows() {
  const Manifest manifest = Manifest::load(demo() + "/validation.jsonl", {});
  for (std::int64_t row = 0; row < kRows; ++row) {
    paths_.push_back(fs::absolute(manifest.folder() + "/" + std::string(manifest.row(row).image_path)).string());
    captions_.emplace_back(manifest.row(row).text);
  }
}

PaddedBatch FinishedRun::batch() const {
  const std::int64_t side = config_.vision.image_size, length = config_.text.max_position_embeddings - 2;
  PaddedBatch batch;
  batch.samples = kRows;
  batch.texts[0].length = length;
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(path());
  for (const std::string& caption : captions_) {
    const std::vector<std::int32_t> ids = tokenizer->encode(caption, length);
    for (std::int64_t t = 0; t < length; ++t) {
      const bool valid = t < static_cast<std::int64_t>(ids.size());
      batch.texts[0].input_ids.push_back(valid ? ids[static_cast<std::size_t>(t)] : tokenizer->pad_id());
      batch.texts[0].attention_mask.push_back(valid ? 1 : 0);
    }
  }
  PictureDecoder decoder(
      media_settings_of(path(), Preprocessing::kTraining, side, "BridgeTowerImageProcessor", PictureFit::kShorterSide));
  batch.pixels.resize(static_cast<std::size_t>(kRows * 3 * side * side));
  for (std::int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(
        decoder.decode(paths_[static_cast<std::size_t>(row)], batch.pixels.data() + row * 3 * side * side, nullptr),
        "");
  }
  return batch;
}

void FinishedRun::run_model() {
  const PackedBatch packed(batch(), open_model({path() + "/config.json", {}}, "contrastive")->inputs(), false, path());
  SealedSession whole;
  BridgeTowerOptions options;
  options.head = ModelHead::kContrastive;
  const std::int64_t side = config_.vision.image_size;
  const Fields fields = bridgetower_fields(config_, options.head, side, side, false);
  const BridgeTowerOutputs outputs =
      record_bridgetower(whole.session.add_graph(packed.counts(fields), fields), config_, options);
  whole.seal();
  StartWork work;
  initialise_parameters(&work, whole.session.parameter_memory(), 7);
  work.run(whole.threads);
  Replay replay;
  replay.batch = packed.batch(fields);
  const Tape& tape = whole.session.tape(0);
  tape.replay(whole.threads, replay);
  const std::int64_t elements = kRows * config_.contrastive_hidden_size;
  text_embeds_.assign(tape.at(outputs.text_embeds), tape.at(outputs.text_embeds) + elements);
  image_embeds_.assign(tape.at(outputs.image_embeds), tape.at(outputs.image_embeds) + elements);
  const ParameterMemory memory = whole.session.parameter_memory();
  const SafetensorsWritePlan weights(tensors_to_write(*memory.set, *memory.layout, memory.trained, memory.fixed, ""));
  ASSERT_TRUE(weights.write((path() + "/model.safetensors").c_str()).ok());
  write_embeddings(path(), metadata(), config_.contrastive_hidden_size);
}

}  // namespace bascule::test
