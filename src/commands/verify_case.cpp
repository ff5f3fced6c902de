// SPDX-License-Identifier: Apache-2.0
#include "src/commands/verify_case.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "src/checkpoint/hf_folder.h"
#include "src/commands/verify_files.h"
#include "src/graph/backward.h"
#include "src/models/bridgetower.h"
#include "src/train/packed_batch.h"
#include "src/train/session.h"

namespace bascule {
namespace {

constexpr double kFloor = 2e-6;         // of every limit, README "Passing"
constexpr double kUpdateFloor = 1e-3;   // of the limit on what a run changed
constexpr double kZeroGradient = 1e-6;  // of the gradient norm, where a gradient is zero in exact arithmetic

PackedBatch pack(const CaseFiles& files, const PaddedBatch& padded, bool every_row) {
  const BridgeTowerConfig::Text& text = files.config.text;
  return PackedBatch(padded, text.vocab_size, text.max_position_embeddings,
                     static_cast<std::int32_t>(text.pad_token_id), files.head == ModelHead::kMaskedLm, every_row,
                     files.folder);
}

double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth) {
  double difference = 0.0, norm = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    difference += d * d;
    norm += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

// Rows of a padded (B, length, cols) tensor in the order of the packed rows.
std::vector<float> pack_rows(const std::vector<float>& padded, const std::vector<std::int64_t>& rows,
                             std::int64_t cols) {
  std::vector<float> packed;
  packed.reserve(rows.size() * static_cast<std::size_t>(cols));
  for (const std::int64_t row : rows)
    packed.insert(packed.end(), padded.begin() + row * cols, padded.begin() + (row + 1) * cols);
  return packed;
}

// Runs and judges one case.
class CaseRun {
 public:
  CaseRun(const std::string& folder, Isa isa, int threads);
  VerifiedCase judge();

 private:
  void record();
  void compare_outputs(const PackedBatch& batch);
  void compare_gradients();
  void compare_one_gradient(const ParameterPiece& piece, const float* gradient);
  void train();
  void compare_training(const std::vector<double>& losses, const std::vector<double>& norms);
  double step(const std::vector<std::int64_t>& batches, bool every_row);
  void add(const std::string& name, double error, double reference, double floor, bool is_norm = false,
           double limit = -1.0);
  void compare_output(const std::string& name, Tensor tensor, const std::vector<std::int64_t>& padded_rows,
                      bool first_rows);
  const Slice* zero_slice(const std::string& name) const;

  CaseFiles files_;
  std::vector<PaddedBatch> batches_;
  Session session_;
  BridgeTowerOutputs outputs_;
  std::vector<std::pair<Tensor, Tensor>> cotangents_;
  std::vector<std::string> cotangent_names_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Threads> threads_;
  VerifiedCase result_;
};

CaseRun::CaseRun(const std::string& folder, Isa isa, int threads) : files_(open_case(folder)) {
  const std::int64_t count = get_int(files_.description, "batches", folder);
  for (std::int64_t k = 0; k < count; ++k) batches_.push_back(read_batch(files_, k));
  record();
  MemoryPlan plan = make_memory_plan(session_.plan(true, threads), 0);
  arena_ = std::make_unique<Arena>(plan, ArenaOptions{});
  threads_ = std::make_unique<Threads>(threads, false);
  session_.seal(*arena_, plan, kernels_for(isa), threads);
  const TensorSource weights = open_hf_weights(folder);
  load_parameters(weights, session_.parameter_memory(), 0);
}

void CaseRun::record() {
  BatchCounts bounds;
  for (const PaddedBatch& batch : batches_) {
    const BatchCounts counts = pack(files_, batch, true).view().counts;
    bounds.samples = std::max(bounds.samples, counts.samples);
    bounds.text_rows = std::max(bounds.text_rows, counts.text_rows);
    bounds.selected_rows = std::max(bounds.selected_rows, counts.selected_rows);
  }
  Graph& graph = session_.add_graph(bounds);
  BridgeTowerOptions options;
  options.head = files_.head;
  for (const std::string& name : get_strings(files_.description, "freeze", files_.folder)) {
    options.freeze.vision_model = options.freeze.vision_model || name == "vision_model";
    options.freeze.text_model = options.freeze.text_model || name == "text_model";
  }
  const bool tie =
      files_.config.tie_word_embeddings && open_hf_weights(files_.folder).find("mlm_score.decoder.weight") == nullptr;
  options.tie_word_embeddings = tie;
  options.keep_logits = true;
  options.height = files_.height;
  options.width = files_.width;
  outputs_ = record_bridgetower(graph, files_.config, options);
  if (files_.head == ModelHead::kBase) {
    const std::pair<const char*, Tensor> all[] = {{"text_features", outputs_.text_features},
                                                  {"image_features", outputs_.image_features},
                                                  {"pooler_output", outputs_.pooler_output}};
    for (const auto& [name, tensor] : all) {
      cotangents_.emplace_back(tensor,
                               graph.input(std::string("cotangent.") + name, graph[tensor].rows, graph[tensor].cols));
      cotangent_names_.push_back(name);
    }
    outputs_.loss = cotangent_loss(graph, cotangents_);
  }
  derive_backward(graph);
}

double CaseRun::step(const std::vector<std::int64_t>& batches, bool every_row) {
  double loss = 0.0;
  const double weight = 1.0 / static_cast<double>(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const PackedBatch packed = pack(files_, batches_[static_cast<std::size_t>(batches[i])], every_row);
    for (std::size_t c = 0; c < cotangents_.size(); ++c) {
      const std::string name = "batch" + std::to_string(batches[i]) + ".cotangent." + cotangent_names_[c];
      std::vector<float> values = read_floats(files_.batches, name, files_.folder);
      if (cotangent_names_[c] == "text_features")
        values = pack_rows(values, packed.padded_row(), session_.graph(0)[cotangents_[c].first].cols);
      std::copy(values.begin(), values.end(), session_.tape(0).at(cotangents_[c].second));
    }
    Replay replay;
    replay.batch = packed.view();
    replay.loss_weight = static_cast<float>(weight);
    replay.add_to_gradients = i > 0;
    session_.tape(0).replay(*threads_, replay);
    loss += weight * static_cast<double>(*session_.tape(0).at(outputs_.loss));
  }
  return loss;
}

void CaseRun::add(const std::string& name, double error, double reference, double floor, bool is_norm, double limit) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.relative_l2 = error;
  tensor.reference_relative_l2 = reference;
  tensor.limit = limit >= 0.0 ? limit : std::max(3.0 * reference, floor);
  tensor.is_norm = is_norm;
  result_.tensors.push_back(tensor);
}

void CaseRun::compare_output(const std::string& name, Tensor tensor, const std::vector<std::int64_t>& padded_rows,
                             bool first_rows) {
  const Json& errors = get_object(files_.errors, "outputs", files_.folder);
  if (!tensor || files_.expected.find(name) == nullptr || find_member(errors, name, files_.folder) == nullptr) return;
  const std::int64_t cols = session_.graph(0)[tensor].cols;
  std::vector<float> truth = read_floats(files_.expected, name, files_.folder);
  if (first_rows) {
    const std::int64_t samples = batches_[0].samples, rows = static_cast<std::int64_t>(truth.size()) / cols / samples;
    std::vector<std::int64_t> wanted;
    for (std::int64_t s = 0; s < samples; ++s) wanted.push_back(s * rows);
    truth = pack_rows(truth, wanted, cols);
  } else if (!padded_rows.empty()) {
    truth = pack_rows(truth, padded_rows, cols);
  }
  const float* ours = session_.tape(0).at(tensor);
  const std::vector<float> values(ours, ours + truth.size());
  const Json& error = get_object(errors, name, files_.folder);
  add(name, relative_l2(values, truth), get_number(error, "rel_l2_worst", files_.folder), kFloor);
}

void CaseRun::compare_outputs(const PackedBatch& batch) {
  const bool first = outputs_.first_rows_only;
  const bool masked_lm = files_.head == ModelHead::kMaskedLm;
  compare_output("text_features", outputs_.text_features, first ? std::vector<std::int64_t>{} : batch.padded_row(),
                 first);
  compare_output("image_features", outputs_.image_features, {}, first);
  compare_output("pooler_output", outputs_.pooler_output, {}, false);
  compare_output("text_embeds", outputs_.text_embeds, {}, false);
  compare_output("image_embeds", outputs_.image_embeds, {}, false);
  compare_output("cross_embeds", outputs_.cross_embeds, {}, false);
  if (files_.head != ModelHead::kContrastive)
    compare_output("logits", outputs_.logits, masked_lm ? batch.padded_row() : std::vector<std::int64_t>{}, false);
  compare_output("loss", outputs_.loss, {}, false);
}

const Slice* CaseRun::zero_slice(const std::string& name) const {
  for (const Slice& slice : files_.zero_gradient) {
    if (slice.parameter == name) return &slice;
  }
  return nullptr;
}

void CaseRun::compare_one_gradient(const ParameterPiece& piece, const float* gradient) {
  const Json& errors = get_object(files_.errors, "gradients", files_.folder);
  std::vector<float> ours(gradient, gradient + piece.elements);
  if (const Slice* slice = zero_slice(piece.name)) {
    double squares = 0.0;
    for (std::int64_t i = slice->start; i < slice->stop; ++i)
      squares += static_cast<double>(ours[static_cast<std::size_t>(i)]) *
                 static_cast<double>(ours[static_cast<std::size_t>(i)]);
    add("grad." + piece.name + " (zero part)", std::sqrt(squares), 0.0, 0.0, true,
        kZeroGradient * files_.gradient_norm);
    if (slice->start == 0 && slice->stop == piece.elements) return;
    std::fill(ours.begin() + slice->start, ours.begin() + slice->stop, 0.0f);
  }
  const Json* error = find_member(errors, piece.name, files_.folder);
  const double reference = error == nullptr ? 0.0 : get_number(*error, "rel_l2_worst", files_.folder);
  if (files_.expected.find("grad." + piece.name) != nullptr) {
    std::vector<float> truth = read_floats(files_.expected, "grad." + piece.name, files_.folder);
    if (const Slice* slice = zero_slice(piece.name))
      std::fill(truth.begin() + slice->start, truth.begin() + slice->stop, 0.0f);
    add("grad." + piece.name, relative_l2(ours, truth), reference, kFloor);
    return;
  }
  // A sampled case: the norm, and elements k * max(1, count / S).
  const std::int64_t samples = get_int(files_.description, "gradient_sample", files_.folder);
  const std::vector<float> truth = read_floats(files_.expected, "grad_sample." + piece.name, files_.folder);
  const std::int64_t stride = std::max<std::int64_t>(1, piece.elements / samples);
  std::vector<float> sampled;
  for (std::size_t k = 0; k < truth.size(); ++k) sampled.push_back(ours[k * static_cast<std::size_t>(stride)]);
  const double sample_reference =
      error == nullptr ? 0.0 : get_number(get_object(*error, "sample", files_.folder), "rel_l2", files_.folder);
  add("grad_sample." + piece.name, relative_l2(sampled, truth), std::max(reference, sample_reference), kFloor);
  double squares = 0.0;
  for (const float v : ours) squares += static_cast<double>(v) * static_cast<double>(v);
  add("grad_l2." + piece.name,
      relative_l2({static_cast<float>(std::sqrt(squares))},
                  read_floats(files_.expected, "grad_l2." + piece.name, files_.folder)),
      reference, kFloor);
}

void CaseRun::compare_gradients() {
  const ParameterSet& set = session_.parameters();
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = session_.layout().places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterPiece& piece : set[p].pieces)
      compare_one_gradient(piece, session_.gradients() + place.offset + piece.first_element);
  }
}

void CaseRun::train() {
  const std::string where = files_.folder + "/case.json";
  const Json& train = get_object(files_.description, "train", where);
  const std::vector<double> betas = get_numbers(train, "betas", where);
  const std::int64_t steps = get_int(train, "steps", where), warmup = get_int(train, "warmup_steps", where);
  std::vector<double> losses, norms;
  const double peak = get_number(train, "learning_rate", where);
  std::int64_t s = 0;
  for (const Json& batches : get_array(train, "batches_of_step", where)) {
    losses.push_back(step(batches.get<std::vector<std::int64_t>>(), false));
    UpdateSettings settings;
    const double at = static_cast<double>(s), warm = static_cast<double>(warmup);
    settings.learning_rate =
        s < warmup ? peak * at / warm : peak * (static_cast<double>(steps) - at) / (static_cast<double>(steps) - warm);
    settings.beta1 = betas.at(0);
    settings.beta2 = betas.at(1);
    settings.epsilon = get_number(train, "eps", where);
    settings.weight_decay = get_number(train, "weight_decay", where);
    settings.max_grad_norm = get_number(train, "max_grad_norm", where);
    settings.step = ++s;
    norms.push_back(session_.update().run(*threads_, settings));
  }
  compare_training(losses, norms);
}

void CaseRun::compare_training(const std::vector<double>& losses, const std::vector<double>& norms) {
  const std::string where = files_.folder + "/float32_error.json";
  const Json& errors = get_object(files_.errors, "steps", where);
  const auto compare_series = [&](const std::string& name, const std::vector<double>& ours) {
    const std::vector<float> truth = read_floats(files_.steps, name, files_.folder);
    const std::vector<double> reference = get_numbers(errors, name + "_rel_worst", where);
    for (std::size_t i = 0; i < truth.size(); ++i) {
      add("step" + std::to_string(i) + "." + name, std::fabs(ours.at(i) / static_cast<double>(truth[i]) - 1.0),
          reference.at(i), kFloor);
    }
  };
  compare_series("loss", losses);
  compare_series("grad_norm", norms);
  double rates = 0.0;
  for (const float rate : read_floats(files_.steps, "learning_rate", files_.folder)) rates += static_cast<double>(rate);

  const Json& parameters = get_object(errors, "parameters", where);
  const TensorSource initial = open_hf_weights(files_.folder);
  const ParameterMemory memory = session_.parameter_memory();
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      const StoredTensor* start = find_tensor(initial, piece.name, "bridgetower.");
      std::vector<float> before(static_cast<std::size_t>(piece.elements));
      initial.read_float32(before.data(), *start, 0, piece.elements);
      std::vector<float> ours(memory.at(p) + piece.first_element, memory.at(p) + piece.first_element + piece.elements);
      if (files_.steps.find("param." + piece.name) == nullptr) {
        add("param." + piece.name + " (unchanged)", ours == before ? 0.0 : 1.0, 0.0, 0.0, true, 0.0);
        continue;
      }
      std::vector<float> truth = read_floats(files_.steps, "param." + piece.name, files_.folder);
      if (const Slice* slice = zero_slice(piece.name)) {
        double moved = 0.0;
        for (std::int64_t i = slice->start; i < slice->stop; ++i) {
          const std::size_t at = static_cast<std::size_t>(i);
          moved = std::max(moved, std::fabs(static_cast<double>(ours[at]) - static_cast<double>(before[at])));
          ours[at] = truth[at] = before[at];
        }
        add("param." + piece.name + " (zero part)", moved, 0.0, 0.0, true, 4.0 * rates);
        if (slice->start == 0 && slice->stop == piece.elements) continue;
      }
      const Json& error = get_object(parameters, piece.name, where);
      add("param." + piece.name, relative_l2(ours, truth), get_number(error, "rel_l2_worst", where), kFloor);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ours[i] -= before[i];
        truth[i] -= before[i];
      }
      add("update." + piece.name, relative_l2(ours, truth), get_number(error, "update_rel_l2_worst", where),
          kUpdateFloor);
    }
  }
}

VerifiedCase CaseRun::judge() {
  result_.name = get_string(files_.description, "case", files_.folder, files_.folder);
  step({0}, true);
  compare_outputs(pack(files_, batches_[0], true));
  step({0}, false);  // masked LM: logits of labelled rows only, as in training
  compare_gradients();
  if (files_.has_steps) train();
  return result_;
}

}  // namespace

bool VerifiedCase::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const VerifiedTensor& tensor) { return tensor.passed(); });
}

VerifiedCase verify_case(const std::string& folder, Isa isa, int threads) {
  return CaseRun(folder, isa, threads).judge();
}

}  // namespace bascule
