// SPDX-License-Identifier: Apache-2.0
#include "src/ask/search_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "kernels/table.h"
#include "src/ask/search_index.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/json/json.h"
#include "src/logs/progress.h"
#include "src/session/packed_batch.h"

namespace bascule {
namespace {

constexpr std::size_t kMaxBatch = 8;  // pictures: enough rows for full matrix tiles, and little memory

}  // namespace

std::unique_ptr<Model> open_embedding_model(const std::string& folder) {
  std::unique_ptr<Model> model = open_finished_model(folder, "search");
  const std::string path = folder + "/config.json";
  const Json json = read_json_file(path);
  if (find_member(json, "architectures", path) == nullptr) return model;
  const std::vector<std::string> classes = get_strings(json, "architectures", path);
  if (std::find(classes.begin(), classes.end(), model->architecture()) != classes.end()) return model;
  throw Error(
      ErrorKind::kData, path,
      (classes.empty() ? "a model without a class" : "a " + classes.front()) + " has no embeddings to search with",
      "search needs a " + std::string(model->architecture()));
}

SearchModel::SearchModel(const std::string& folder, const Model& model, Wanted wanted, Isa isa, int threads)
    : model_(model),
      needs_(model.inputs()),
      folder_(folder),
      inputs_(read_run_inputs(folder)),
      threads_(threads, false) {
  record(wanted);
  seal(folder, isa);
}

void SearchModel::record(Wanted wanted) {
  fields_ = model_.fields({});
  if (wanted.texts) {
    tokenizer_ = load_tokenizer(folder_);
    longest_text_ = std::min(inputs_.max_seq_length, needs_.texts[0].max_positions - needs_.texts[0].positions.first);
    if (longest_text_ < 2) {
      throw Error(ErrorKind::kData, folder_ + "/config.json", "max_position_embeddings leaves no room for a text");
    }
    BatchCounts bounds;
    bounds[kSamples] = 1;
    bounds[fields_[static_cast<std::size_t>(field_from(fields_, FieldSource::kTokenIds))].rows.stream] = longest_text_;
    text_embeds_ = model_.record(session_.add_graph(bounds, fields_), Use::kEmbedText, {}).output("text_embeds");
  }
  if (wanted.pictures > 0) {
    const std::int64_t side = needs_.image_side;
    if (needs_.image_channels != 3)
      throw Error(ErrorKind::kData, folder_ + "/config.json", "num_channels is not 3: pictures are RGB");
    decoder_.emplace(media_settings_of_model(folder_, side));
    batch_ = static_cast<std::int64_t>(std::min(wanted.pictures, kMaxBatch));
    image_graph_ = wanted.texts ? 1 : 0;
    BatchCounts bounds;
    bounds[kSamples] = batch_;
    image_embeds_ = model_.record(session_.add_graph(bounds, fields_), Use::kEmbedPicture, {}).output("image_embeds");
  }
}

void SearchModel::seal(const std::string& folder, Isa isa) {
  pixels_.resize(static_cast<std::size_t>(batch_ * 3 * needs_.image_side * needs_.image_side));
  Session whole;
  BatchCounts bounds;
  bounds[kSamples] = 1;
  bounds[fields_[static_cast<std::size_t>(field_from(fields_, FieldSource::kTokenIds))].rows.stream] = 2;
  model_.record(whole.add_graph(bounds, fields_), Use::kReference, {});
  seal_with_weights(&session_, model_, folder, isa, threads_, &whole.parameters());
}

std::vector<float> SearchModel::embed_text(const std::string& text) {
  PaddedBatch padded;
  padded.samples = 1;
  PaddedText& one = padded.texts[0];
  try {
    const std::vector<std::int32_t> ids = tokenizer_->encode(text, longest_text_);
    one.input_ids.assign(ids.begin(), ids.end());
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, "the text to search for", error.problem(), error.what_to_do());
  }
  one.length = static_cast<std::int64_t>(one.input_ids.size());
  one.attention_mask.assign(one.input_ids.size(), 1);
  const PackedBatch packed(padded, needs_, false, "the text to search for");
  Replay replay;
  replay.batch = packed.batch(fields_);
  session_.tape(0).replay(threads_, replay);
  const float* embeds = session_.tape(0).at(text_embeds_);
  std::vector<float> embed(embeds, embeds + model_.embedding_width());
  refuse_not_finite(embed, model_.embedding_width(), folder_ + ": the text's embedding");
  return embed;
}

void SearchModel::embed_batch(std::int64_t count, std::vector<float>* embeds) {
  if (count == 0) return;
  Replay replay;
  replay.batch.counts[kSamples] = count;
  replay.batch.fields[field_from(fields_, FieldSource::kPixels)] = pixels_.data();
  session_.tape(image_graph_).replay(threads_, replay);
  const float* rows = session_.tape(image_graph_).at(image_embeds_);
  embeds->insert(embeds->end(), rows, rows + count * model_.embedding_width());
}

PictureEmbeddings SearchModel::embed_pictures(const std::vector<std::string>& paths) {
  const std::int64_t side = needs_.image_side;
  PictureEmbeddings result;
  std::int64_t waiting = 0;
  Progress progress = paths.size() > kMaxBatch ? Progress::on_stderr() : Progress::silent();
  progress.begin("embed pictures", 0, static_cast<std::int64_t>(paths.size()), monotonic_seconds());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string reason = decoder_->decode(paths[i], pixels_.data() + waiting * 3 * side * side, nullptr);
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
  refuse_not_finite(result.embeds, model_.embedding_width(), folder_ + ": the pictures' embeddings");
  return result;
}

}  // namespace bascule
