// SPDX-License-Identifier: Apache-2.0
#include "src/ask/finished_model.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "kernels/table.h"
#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/hf_folder.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/pictures/picture_decoder.h"
#include "src/pictures/preprocessor.h"
#include "src/session/model_folder.h"
#include "src/session/parameter_values.h"

namespace bascule {
namespace {

// The record of the run that made a folder; for a run's averaged weights and its checkpoints that of the run's folder.
std::string record_of(const std::string& folder) {
  std::string own = folder + "/bascule.json";
  if (std::filesystem::exists(own)) return own;
  const std::filesystem::path path = absolute_path(folder);
  const std::string name = path.filename().string();
  const bool is_of_run = name == kAveragedFolder || checkpoint_step(name);
  return is_of_run ? (path.parent_path() / "bascule.json").string() : own;
}

MediaSettings settings_by(const RunInputs& inputs, const std::string& folder, const Family& family,
                          std::int64_t image_side) {
  try {
    return media_settings_of(folder, inputs.preprocessing, image_side, family.image_processor, family.processor_fit);
  } catch (const Error& error) {
    // The folder has no settings in which to change the key that the advice may name.
    if (inputs.are_of_run || error.what_to_do().find("data.preprocessing") == std::string::npos) throw;
    throw Error(error.kind(), error.where(), error.problem(),
                "change it: pictures of a folder that no run left are prepared as this file says");
  }
}

// The head of the folder's family that the command asks: of several the one that config.json's architectures name, else
// the first. Throws Error kData where there is none.
const FamilyHead& asked_head(const std::string& folder, const std::string& command) {
  const std::string path = folder + "/config.json";
  if (std::filesystem::exists(folder) && !std::filesystem::exists(path)) {
    throw Error(ErrorKind::kData, folder, "holds no model: no config.json",
                "name the folder of a finished training; a run that only evaluates leaves no copy of its model");
  }
  const Family& family = family_of(path);
  const Json json = read_json_file(path);
  const std::vector<std::string> classes = find_member(json, "architectures", path) == nullptr
                                               ? std::vector<std::string>()
                                               : get_strings(json, "architectures", path);
  const FamilyHead* first = nullptr;
  for (const FamilyHead& head : family.heads) {
    if (head.command != command) continue;
    if (first == nullptr) first = &head;
    if (std::find(classes.begin(), classes.end(), head.architecture) != classes.end()) return head;
  }
  if (first != nullptr) return *first;
  std::vector<std::string> others;
  for (const Family* other : families()) {
    for (const FamilyHead& one : other->heads) {
      if (one.command == command) others.push_back(one.architecture);
    }
  }
  throw Error(ErrorKind::kData, path,
              std::string("bascule ") + command + " does not work with a " + family.model_type + " model",
              "it needs a " + or_list(others));
}

}  // namespace

std::unique_ptr<Model> open_finished_model(const std::string& folder, const std::string& command) {
  const std::string body = body_folder(folder);
  const FamilyHead& head = asked_head(body, command);
  return family_of(body + "/config.json").open(model_source(body), head.words.name);
}

std::unique_ptr<Model> open_sentence_model(const std::string& folder, SentenceFolder* sentence) {
  const std::string body = body_folder(folder), head = asked_head(body, "embed").words.name;
  const Family& family = family_of(body + "/config.json");
  *sentence = sentence_folder_of(folder, family, head);
  ModelSource source = model_source(body);
  source.pooling = sentence->pooling;
  source.normalize = sentence->normalize;
  return family.open(source, head);
}

RunInputs read_run_inputs(const std::string& folder) {
  const std::string path = record_of(folder);
  RunInputs inputs;
  if (!std::filesystem::exists(path)) return inputs;
  const Json json = read_json_file(path);
  inputs.are_of_run = true;
  const std::string name = get_string(json, "preprocessing", path, "training");
  if (name != "training" && name != "processor") {
    throw Error(ErrorKind::kData, path, "preprocessing = \"" + name + "\" is not valid", "use training or processor");
  }
  if (name == "training") inputs.preprocessing = Preprocessing::kTraining;
  const std::string filter = get_string(json, "interpolation", path, "bicubic");
  if (filter != "bicubic" && filter != "bilinear") {
    throw Error(ErrorKind::kData, path, "interpolation = \"" + filter + "\" is not valid", "use bicubic or bilinear");
  }
  if (filter == "bilinear") inputs.interpolation = Interpolation::kBilinear;
  inputs.eval_crop_ratio = get_number(json, "eval_crop_ratio", path, inputs.eval_crop_ratio);
  if (!(inputs.eval_crop_ratio >= 0.1 && inputs.eval_crop_ratio <= 1.0))
    throw Error(ErrorKind::kData, path, "eval_crop_ratio is not between 0.1 and 1");
  inputs.max_seq_length = get_int(json, "max_seq_length", path, inputs.max_seq_length);
  if (inputs.max_seq_length < 2) throw Error(ErrorKind::kData, path, "max_seq_length is less than 2");
  inputs.reads_pairs = get_bool(json, "reads_pairs", path, inputs.reads_pairs);
  if (find_member(json, "source_prefix", path) != nullptr)
    inputs.source_prefix = get_string(json, "source_prefix", path);
  inputs.max_source_length = get_int(json, "max_source_length", path, inputs.max_source_length);
  if (inputs.max_source_length < 1) throw Error(ErrorKind::kData, path, "max_source_length is less than 1");
  return inputs;
}

std::string source_prefix(const std::string& folder, const RunInputs& run, const char* what_to_do) {
  if (run.source_prefix) return *run.source_prefix;
  const std::string path = folder + "/config.json";
  const Json config = read_json_file(path);
  const Json* const tasks = find_member(config, "task_specific_params", path);
  const Json* const task = tasks == nullptr ? nullptr : find_member(*tasks, "summarization", path);
  std::string prefix = task == nullptr ? "" : get_string(*task, "prefix", path, "");
  if (!prefix.empty()) {
    std::fprintf(stderr, "bascule: prefix \"%s\", of task_specific_params in config.json%s\n", prefix.c_str(),
                 what_to_do);
  }
  return prefix;
}

MediaSettings media_settings_of_model(const std::string& folder, std::int64_t image_side) {
  const RunInputs inputs = read_run_inputs(folder);
  const std::string config = folder + "/config.json";
  const Family& family = std::filesystem::exists(config) ? family_of(config) : usual_family();
  if (family.needs_processor_file) require_statistics(folder);
  MediaSettings media = settings_by(inputs, folder, family, image_side);
  media.interpolation = inputs.interpolation;
  media.centre_crop_ratio = inputs.eval_crop_ratio;
  return media;
}

void load_weights(Session* session, const Model& model, const std::string& folder, StartWork* work, Threads& threads,
                  const ParameterSet* whole) {
  const TensorSource source = open_hf_weights(folder);
  LoadReport report = load_parameters(work, source, session->parameter_memory(), model, 0);
  if (!report.missing.empty()) {
    throw Error(ErrorKind::kData, folder,
                "no tensor " + report.missing.front() + " among the weights: the head was never trained",
                "train it first");
  }
  work->run(threads);
  for (int p = 0; whole != nullptr && p < whole->size(); ++p) {
    for (const ParameterPiece& piece : (*whole)[p].pieces) {
      const StoredTensor* const stored = find_tensor(source, piece.name, model.file_names());
      const auto unused =
          stored == nullptr ? report.unused.end() : std::find(report.unused.begin(), report.unused.end(), stored->name);
      if (unused != report.unused.end()) report.unused.erase(unused);
    }
  }
  const std::string left_out = names_left_out(report, model);
  if (!left_out.empty()) std::fprintf(stderr, "bascule: weights: not used: %s\n", left_out.c_str());
}

int threads_of_process() { return threads_within(read_process_limits(), usable_cores(), 1); }

BatchCounts AskedModel::bounds_of(const Fields& fields, std::int64_t texts, std::int64_t tokens, std::int64_t longest) {
  BatchCounts bounds;
  bounds[kSamples] = texts;
  for (const FieldSource source : {FieldSource::kTokenIds, FieldSource::kLabelledRows}) {
    const int field = field_from(fields, source);
    if (field < 0) continue;
    const int stream = fields[static_cast<std::size_t>(field)].rows.stream;
    bounds[stream] = tokens;
    bounds.longest[stream] = longest;
  }
  return bounds;
}

Tensor AskedModel::record_logits(const BatchCounts& bounds) {
  return reference_logits(model_.record(session_.add_graph(bounds, fields_), Use::kReference, {}));
}

void AskedModel::load(const ParameterSet* whole) {
  session_.allow_packing();
  session_.seal_alone(kernels_for(isa_), threads_.count());
  StartWork work;
  load_weights(&session_, model_, folder_, &work, threads_, whole);
  session_.pack(threads_);
}

const float* AskedModel::run(const Batch& batch, Tensor output, std::size_t graph) {
  Replay replay;
  replay.batch = batch;
  session_.tape(graph).replay(threads_, replay);
  return session_.tape(graph).at(output);
}

const float* AskedModel::run(const PaddedBatch& texts, Tensor output, const std::string& where) {
  return run(PackedBatch(texts, model_.inputs(), false, where).batch(fields_), output);
}

void AskedModel::check_finite(const float* logits, std::int64_t count) const {
  if (!std::all_of(logits, logits + count, [](float x) { return std::isfinite(x); })) refuse_not_finite();
}

void AskedModel::refuse_not_finite() const {
  throw Error(ErrorKind::kData, folder_, "the model's logits are not finite", "its weights may be damaged");
}

Tensor reference_logits(const Recording& recording) {
  const auto found = std::find_if(recording.reference.begin(), recording.reference.end(),
                                  [](const ReferenceOutput& output) { return output.name == "logits"; });
  if (found == recording.reference.end()) throw Error(ErrorKind::kInternal, "predict", "the model has no logits");
  return found->tensors.front();
}

void most_probable(const float* logits, std::int64_t count, Span<TokenOrClass> best) noexcept {
  const auto is_before = [logits](const TokenOrClass& a, const TokenOrClass& b) {
    return logits[a.id] > logits[b.id] || (!(logits[b.id] > logits[a.id]) && a.id < b.id);
  };
  // A heap whose first is the last of the best so far.
  const std::int64_t kept = static_cast<std::int64_t>(best.size());
  for (std::int64_t id = 0; id < kept; ++id) best[static_cast<std::size_t>(id)] = {id, 0.0};
  std::make_heap(best.begin(), best.end(), is_before);
  for (std::int64_t id = kept; kept > 0 && id < count; ++id) {
    if (!is_before({id, 0.0}, best[0])) continue;
    std::pop_heap(best.begin(), best.end(), is_before);
    best[best.size() - 1] = {id, 0.0};
    std::push_heap(best.begin(), best.end(), is_before);
  }
  std::sort_heap(best.begin(), best.end(), is_before);
  const double largest = static_cast<double>(*std::max_element(logits, logits + count));
  const auto power = [largest](float x) { return fixed_exp(static_cast<double>(x) - largest); };
  const double sum =
      std::accumulate(logits, logits + count, 0.0, [&](double total, float x) { return total + power(x); });
  for (TokenOrClass& one : best) one.probability = power(logits[one.id]) / sum;
}

std::vector<TokenOrClass> most_probable(const float* logits, std::int64_t count, std::size_t top) {
  std::vector<TokenOrClass> best(std::min(top, static_cast<std::size_t>(count)));
  most_probable(logits, count, Span<TokenOrClass>(best));
  return best;
}

std::string shown_guess(double probability, const std::string& name) {
  const double percent = 100.0 * probability;
  char number[32];
  std::snprintf(number, sizeof number, percent < 1.0 ? "%#.2g" : "%.1f", percent);
  char shown[48];
  std::snprintf(shown, sizeof shown, "  %7s %%  ", number);
  return printable_line(shown + name) + "\n";
}

}  // namespace bascule
