// SPDX-License-Identifier: Apache-2.0
#include "src/search/search_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/json/json.h"
#include "src/models/bridgetower_batch.h"
#include "src/models/embed.h"
#include "src/plan/memory_plan.h"
#include "src/report/progress.h"
#include "src/runtime/arena.h"
#include "src/search/search_index.h"
#include "src/train/packed_batch.h"

namespace bascule {
namespace {

constexpr std::size_t kMaxBatch = 8;  // pictures: enough rows for full matrix tiles, and little memory
constexpr char kPixels[] = "pixels";

}  // namespace

BridgeTowerConfig read_contrastive_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Json json = read_json_file(path);
  if (find_member(json, "architectures", path) != nullptr) {
    const std::vector<std::string> classes = get_strings(json, "architectures", path);
    const std::string wanted = architecture_name(ModelHead::kContrastive);
    if (std::find(classes.begin(), classes.end(), wanted) == classes.end()) {
      throw Error(
          ErrorKind::kData, path,
          (classes.empty() ? "a model of no class" : "a " + classes.front()) + " has no embeddings to search with",
          "search needs a " + wanted + " (model.head = \"contrastive\")");
    }
  }
  const BridgeTowerConfig config = read_bridgetower_config(path);
  check_bridgetower_config(config, ModelHead::kContrastive, path);
  return config;
}

RunInputs read_run_inputs(const std::string& folder) {
  const std::string path = folder + "/bascule.json";
  RunInputs inputs;
  if (!std::filesystem::exists(path)) return inputs;
  const Json json = read_json_file(path);
  const std::string name = get_string(json, "preprocessing", path, "training");
  if (name != "training" && name != "processor") {
    throw Error(ErrorKind::kData, path, "preprocessing = \"" + name + "\" is unknown", "training or processor");
  }
  if (name == "processor") inputs.preprocessing = Preprocessing::kProcessor;
  inputs.max_seq_length = get_int(json, "max_seq_length", path, inputs.max_seq_length);
  if (inputs.max_seq_length < 2) throw Error(ErrorKind::kData, path, "max_seq_length is less than 2");
  return inputs;
}

SearchModel::SearchModel(const std::string& folder, const BridgeTowerConfig& config, Use use, Isa isa, int threads)
    : config_(config), folder_(folder), inputs_(read_run_inputs(folder)), threads_(threads, false) {
  record(use);
  seal(folder, isa);
}

void SearchModel::record(Use use) {
  const std::int64_t side = config_.vision.image_size;
  fields_ = bridgetower_fields(config_, ModelHead::kContrastive, side, side, false);
  if (use.texts) {
    tokenizer_ = Tokenizer::load(folder_);
    const BridgeTowerConfig::Text& text = config_.text;
    longest_text_ = std::min(inputs_.max_seq_length, text.max_position_embeddings - text.pad_token_id - 1);
    if (longest_text_ < 2) {
      throw Error(ErrorKind::kData, folder_ + "/config.json", "max_position_embeddings leaves no room for a text");
    }
    text_embeds_ = record_text_embeds(session_.add_graph(bridgetower_counts(1, longest_text_), fields_), config_);
  }
  if (use.pictures > 0) {
    if (config_.vision.num_channels != 3)
      throw Error(ErrorKind::kData, folder_ + "/config.json", "num_channels is not 3: no picture file is like that");
    decoder_.emplace(media_settings_of(folder_, inputs_.preprocessing, side));
    batch_ = static_cast<std::int64_t>(std::min(use.pictures, kMaxBatch));
    image_graph_ = use.texts ? 1 : 0;
    image_embeds_ =
        record_image_embeds(session_.add_graph(bridgetower_counts(batch_, 0), fields_), config_, side, side);
  }
}

void SearchModel::seal(const std::string& folder, Isa isa) {
  std::vector<PlannedRange> categories = session_.plan(false, threads_.count());
  const std::size_t side = static_cast<std::size_t>(config_.vision.image_size);
  categories.push_back({kPixels, static_cast<std::size_t>(batch_) * 3 * side * side * sizeof(float)});
  const MemoryPlan plan = make_memory_plan(std::move(categories), 0);
  arena_ = std::make_unique<Arena>(plan, ArenaOptions{});
  pixels_ = arena_->as<float>(plan[kPixels]);
  session_.seal(*arena_, plan, kernels_for(isa), threads_.count());
  const LoadReport report = load_parameters(open_hf_weights(folder), session_.parameter_memory(), 0);
  if (!report.missing.empty()) {
    throw Error(ErrorKind::kData, folder,
                "no tensor " + report.missing.front() + " among the weights: the contrastive head was never trained",
                "train it first, with model.head = \"contrastive\"");
  }
}

std::vector<float> SearchModel::embed_text(const std::string& text) {
  const BridgeTowerConfig::Text& limits = config_.text;
  PaddedBatch padded;
  try {
    const std::vector<std::int32_t> ids = tokenizer_->encode(text, longest_text_);
    padded.input_ids.assign(ids.begin(), ids.end());
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, "the text to search for", error.problem(), error.what_to_do());
  }
  padded.samples = 1;
  padded.length = static_cast<std::int64_t>(padded.input_ids.size());
  padded.attention_mask.assign(padded.input_ids.size(), 1);
  const PackedBatch packed(padded, limits.vocab_size, limits.max_position_embeddings,
                           static_cast<std::int32_t>(limits.pad_token_id), false, false, "the text to search for");
  Replay replay;
  replay.batch = packed.batch(fields_);
  session_.tape(0).replay(threads_, replay);
  const float* embeds = session_.tape(0).at(text_embeds_);
  const std::vector<float> embed(embeds, embeds + config_.contrastive_hidden_size);
  refuse_not_finite(embed, config_.contrastive_hidden_size, folder_ + ": the text's embedding");
  return embed;
}

void SearchModel::embed_batch(std::int64_t count, std::vector<float>* embeds) {
  if (count == 0) return;
  Replay replay;
  replay.batch.counts[kSamples] = count;
  replay.batch.fields[field_from(fields_, FieldSource::kPixels)] = pixels_;
  session_.tape(image_graph_).replay(threads_, replay);
  const float* rows = session_.tape(image_graph_).at(image_embeds_);
  embeds->insert(embeds->end(), rows, rows + count * config_.contrastive_hidden_size);
}

PictureEmbeddings SearchModel::embed_pictures(const std::vector<std::string>& paths) {
  const std::int64_t side = config_.vision.image_size;
  PictureEmbeddings result;
  std::int64_t waiting = 0;
  Progress progress = paths.size() > kMaxBatch ? Progress::on_stderr() : Progress::silent();
  progress.begin("embed pictures", 0, static_cast<std::int64_t>(paths.size()), monotonic_seconds());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string reason = decoder_->decode(paths[i], pixels_ + waiting * 3 * side * side, nullptr);
    if (reason.empty()) {
      result.paths.push_back(paths[i]);
      ++waiting;
    } else {
      result.refused.push_back({paths[i], reason});
    }
    if (waiting < batch_) continue;
    embed_batch(waiting, &result.embeds);
    waiting = 0;
    progress.step({static_cast<std::int64_t>(i) + 1, -1.0, std::nan(""), 0.0}, monotonic_seconds());
  }
  embed_batch(waiting, &result.embeds);
  progress.end(monotonic_seconds());
  refuse_not_finite(result.embeds, config_.contrastive_hidden_size, folder_ + ": the pictures' embeddings");
  return result;
}

}  // namespace bascule
