// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_model.h"

#include <algorithm>

#include "src/checkpoint/hf_folder.h"
#include "src/graph/backward.h"
#include "src/verify/verify_judgement.h"

namespace bascule {

CaseModel::CaseModel(const CaseFiles& files, Isa isa, int threads)
    : files_(files), fields_(bridgetower_fields(files.config, files.head, files.height, files.width, false)) {
  const std::int64_t count = get_int(files_.description, "batches", files_.folder);
  for (std::int64_t k = 0; k < count; ++k) batches_.push_back(read_batch(files_, k));
  threads_ = std::make_unique<Threads>(threads, false);
  for (Use* use : {&training_, &evaluation_}) {
    const bool trains = use == &training_;
    record(use, trains);
    seal(use, trains, isa, threads);
  }
}

PackedBatch CaseModel::pack(std::int64_t batch, bool every_row) const {
  const BridgeTowerConfig::Text& text = files_.config.text;
  return PackedBatch(batches_[static_cast<std::size_t>(batch)], text.vocab_size, text.max_position_embeddings,
                     static_cast<std::int32_t>(text.pad_token_id), files_.head == ModelHead::kMaskedLm, every_row,
                     files_.folder);
}

void CaseModel::record(Use* use, bool trains) {
  BatchCounts bounds;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(batches_.size()); ++k) {
    const BatchCounts counts = pack(k, true).counts();
    for (int stream = 0; stream < kMaxStreams; ++stream) bounds[stream] = std::max(bounds[stream], counts[stream]);
  }
  Graph& graph = use->session.add_graph(bounds, fields_);
  BridgeTowerOptions options;
  options.head = files_.head;
  for (const std::string& name : get_strings(files_.description, "freeze", files_.folder)) {
    options.freeze.vision_model = options.freeze.vision_model || name == "vision_model";
    options.freeze.text_model = options.freeze.text_model || name == "text_model";
  }
  options.tie_word_embeddings =
      files_.config.tie_word_embeddings && open_hf_weights(files_.folder).find("mlm_score.decoder.weight") == nullptr;
  options.every_output = !trains;
  options.height = files_.height;
  options.width = files_.width;
  use->outputs = record_bridgetower(graph, files_.config, options);
  if (!trains) return;
  if (files_.head == ModelHead::kBase) {
    std::vector<std::pair<Tensor, Tensor>> pairs;
    const std::pair<const char*, Tensor> all[] = {{"text_features", use->outputs.text_features},
                                                  {"image_features", use->outputs.image_features},
                                                  {"pooler_output", use->outputs.pooler_output}};
    for (const auto& [name, tensor] : all) {
      const Tensor input = graph.input(std::string("cotangent.") + name, graph[tensor].rows, graph[tensor].cols);
      cotangents_.emplace_back(name, input);
      pairs.emplace_back(tensor, input);
    }
    use->outputs.loss = cotangent_loss(graph, pairs);
  }
  derive_backward(graph);
}

void CaseModel::seal(Use* use, bool trains, Isa isa, int threads) {
  const MemoryPlan plan = make_memory_plan(use->session.plan(trains, threads), 0);
  use->arena = std::make_unique<Arena>(plan, ArenaOptions{});
  use->session.seal(*use->arena, plan, kernels_for(isa), threads);
  load_parameters(open_hf_weights(files_.folder), use->session.parameter_memory(), 0);
}

void CaseModel::read_cotangents(std::int64_t batch, const PackedBatch& packed) {
  for (const auto& [name, input] : cotangents_) {
    std::vector<float> values =
        read_floats(files_.batches, "batch" + std::to_string(batch) + ".cotangent." + name, files_.folder);
    if (name == "text_features")
      values = pick_rows(values, packed.padded_row(), training_.session.graph(0)[input].cols);
    std::copy(values.begin(), values.end(), training_.session.tape(0).at(input));
  }
}

double CaseModel::step(const std::vector<std::int64_t>& batches) {
  const Tape& tape = training_.session.tape(0);
  const double weight = 1.0 / static_cast<double>(batches.size());
  double loss = 0.0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const PackedBatch packed = pack(batches[i], false);  // masked LM: logits of labelled rows only
    read_cotangents(batches[i], packed);
    Replay replay;
    replay.batch = packed.batch(fields_);
    replay.loss_weight = static_cast<float>(weight);
    replay.add_to_gradients = i > 0;
    tape.replay(*threads_, replay);
    loss += weight * static_cast<double>(*tape.at(training_.outputs.loss));
  }
  return loss;
}

PackedBatch CaseModel::evaluate() {
  PackedBatch packed = pack(0, true);
  Replay replay;
  replay.batch = packed.batch(fields_);
  evaluation_.session.tape(0).replay(*threads_, replay);
  return packed;
}

}  // namespace bascule
