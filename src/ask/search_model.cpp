// SPDX-License-Identifier: Apache-2.0
#include "src/ask/search_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>

#include "src/ask/asked_text.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/logs/progress.h"

namespace bascule {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kHowToMake =
    "a run of the contrastive head with a validation or test file and do_predict = true writes it";

std::vector<std::string> names_of(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw Error(ErrorKind::kData, path, "no \"" + key + "\" in its metadata", kHowToMake);
  const Json names = parse_json(found->second, path + ": " + key);
  if (!names.is_array()) throw Error(ErrorKind::kData, path, "\"" + key + "\" is not an array");
  std::vector<std::string> result;
  for (const Json& name : names) {
    if (!name.is_string())
      throw Error(ErrorKind::kData, path, "\"" + key + "\" holds " + json_text(name) + ", which is not a string");
    result.push_back(name.string());
  }
  return result;
}

std::vector<float> embeds_of(const TensorSource& source, const std::string& name, std::int64_t rows, std::int64_t width,
                             const std::string& path) {
  const StoredTensor* tensor = source.find(name);
  if (tensor == nullptr) throw Error(ErrorKind::kData, path, "no tensor \"" + name + "\"", kHowToMake);
  const std::vector<std::int64_t> shape = {rows, width};
  if (tensor->shape != shape) {
    throw Error(ErrorKind::kData, path, name + " is " + shape_text(tensor->shape) + ", not " + shape_text(shape),
                "file and model belong to different runs: run again");
  }
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  source.read_float32(values.data(), *tensor, 0, rows * width);
  refuse_not_finite(values, width, path + ": " + name);
  return values;
}

}  // namespace

SearchIndex read_search_index(const std::string& folder, std::int64_t width) {
  const std::string path = folder + "/embeddings.safetensors";
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::kData, folder,
                "has no embeddings.safetensors: it is not a finished run of the contrastive head",
                std::string(kHowToMake) + "; or search other pictures with --images DIR");
  }
  const Metadata metadata = read_safetensors_header(InputFile(path)).metadata;
  SearchIndex index;
  index.paths = names_of(metadata, "paths", path);
  index.captions = names_of(metadata, "captions", path);
  if (index.paths.size() != index.captions.size()) {
    throw Error(ErrorKind::kData, path,
                count_of(index.paths.size(), "path") + " but " + count_of(index.captions.size(), "caption"));
  }
  const auto split = metadata.find("split");
  index.split = split == metadata.end() ? "embeddings.safetensors" : split->second;
  const TensorSource source = open_safetensors(path);
  const std::int64_t rows = static_cast<std::int64_t>(index.paths.size());
  index.image_embeds = embeds_of(source, "image_embeds", rows, width, path);
  index.text_embeds = embeds_of(source, "text_embeds", rows, width, path);
  return index;
}

std::vector<Neighbour> nearest_names(const std::vector<float>& query, const std::vector<float>& embeds,
                                     const std::vector<std::string>& names, std::size_t top, std::size_t* candidates) {
  BASCULE_CHECK(embeds.size() == names.size() * query.size());
  std::vector<std::int64_t> rows(names.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Neighbour> ranked = nearest(query, embeds.data(), rows);
  std::set<std::string_view> seen;
  const auto is_repeated = [&](const Neighbour& one) {
    return !seen.insert(names[static_cast<std::size_t>(one.row)]).second;
  };
  ranked.erase(std::remove_if(ranked.begin(), ranked.end(), is_repeated), ranked.end());
  *candidates = ranked.size();
  ranked.resize(std::min(ranked.size(), top));
  return ranked;
}

void refuse_not_finite(Span<const float> embeds, std::int64_t width, const std::string& where) {
  const float* const found =
      std::find_if(embeds.begin(), embeds.end(), [](float value) { return !std::isfinite(value); });
  if (found == embeds.end()) return;
  throw Error(ErrorKind::kData, where,
              "row " + std::to_string((found - embeds.begin()) / width) + " holds " + std::to_string(*found) +
                  ": the model diverged",
              "train it again, with a lower learning rate");
}

namespace {

namespace fs = std::filesystem;

}  // namespace

bool has_picture_name(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return !extension.empty() && is_picture_ending(std::string_view(extension).substr(1));
}

std::vector<std::string> find_pictures(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failure;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failure);
  while (!failure && at != fs::recursive_directory_iterator()) {
    std::error_code ignored;  // a link to nothing is no file
    if (has_picture_name(at->path().string()) && at->is_regular_file(ignored)) found.push_back(at->path().string());
    at.increment(failure);
  }
  if (failure) throw Error(ErrorKind::kData, folder, "cannot be searched: " + failure.message());
  if (found.empty())
    throw Error(ErrorKind::kData, folder, std::string("has no ") + kPictureEndings + " file in it or its subfolders");
  std::sort(found.begin(), found.end());
  return found;
}

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
    : model_(model), needs_(model.inputs()), folder_(folder), asked_(model, folder, isa, threads) {
  const auto record = [&](const BatchCounts& bounds, Use use, const char* output) {
    return model.record(asked_.session().add_graph(bounds, asked_.fields()), use, {}).output(output);
  };
  if (wanted.texts) {
    tokenizer_ = load_tokenizer(folder);
    longest_text_ = std::min(read_run_inputs(folder).max_seq_length,
                             needs_.texts[0].max_positions - needs_.texts[0].positions.first);
    if (longest_text_ < 2)
      throw Error(ErrorKind::kData, folder + "/config.json", "max_position_embeddings leaves no room for a text");
    text_embeds_ = record(AskedModel::bounds_of(asked_.fields(), 1, longest_text_, 0), Use::kEmbedText, "text_embeds");
  }
  if (wanted.pictures > 0) {
    if (needs_.image_channels != 3)
      throw Error(ErrorKind::kData, folder + "/config.json", "num_channels is not 3: pictures are RGB");
    decoder_.emplace(media_settings_of_model(folder, needs_.image_side));
    batch_ = static_cast<std::int64_t>(std::min(wanted.pictures, kMostPicturesAtOnce));
    image_graph_ = wanted.texts ? 1 : 0;
    image_embeds_ = record(AskedModel::bounds_of({}, batch_, 0, 0), Use::kEmbedPicture, "image_embeds");
  }
  pixels_.resize(static_cast<std::size_t>(batch_ * 3 * needs_.image_side * needs_.image_side));
  Session whole;
  model.record(whole.add_graph(AskedModel::bounds_of(asked_.fields(), 1, 2, 0), asked_.fields()), Use::kReference, {});
  asked_.load(&whole.parameters());
}

std::vector<float> SearchModel::embed_text(const std::string& text) {
  constexpr char kSearched[] = "the text to search for";
  std::vector<EncodedText> encoded(1);
  try {
    encoded[0].ids = tokenizer_->encode(text, longest_text_);
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, kSearched, error.problem(), error.what_to_do());
  }
  const float* embeds = asked_.run(padded_texts(encoded), text_embeds_, kSearched);
  std::vector<float> embed(embeds, embeds + model_.embedding_width());
  refuse_not_finite(embed, model_.embedding_width(), folder_ + ": the text's embedding");
  return embed;
}

void SearchModel::embed_batch(std::int64_t count, std::vector<float>* embeds) {
  if (count == 0) return;
  Batch batch;
  batch.counts[kSamples] = count;
  batch.fields[field_from(asked_.fields(), FieldSource::kPixels)] = pixels_.data();
  const float* rows = asked_.run(batch, image_embeds_, image_graph_);
  embeds->insert(embeds->end(), rows, rows + count * model_.embedding_width());
}

PictureEmbeddings SearchModel::embed_pictures(const std::vector<std::string>& paths) {
  const std::int64_t side = needs_.image_side;
  PictureEmbeddings result;
  std::int64_t waiting = 0;
  Progress progress = paths.size() > kMostPicturesAtOnce ? Progress::on_stderr() : Progress::silent();
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
