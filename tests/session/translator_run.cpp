// SPDX-License-Identifier: Apache-2.0
#include "tests/session/translator_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "src/checkpoint/hf_write.h"
#include "src/graph/backward.h"
#include "src/loader/masking.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

std::string number(const char* name, std::int64_t value) {
  return ", \"" + std::string(name) + "\": " + std::to_string(value);
}

void write(const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << text;
}

void add(PaddedText* text, std::int64_t length, const Ids& ids) {
  text->length = length;
  for (std::int64_t t = 0; t < length; ++t) {
    const bool is_there = t < static_cast<std::int64_t>(ids.size());
    text->input_ids.push_back(is_there ? ids[static_cast<std::size_t>(t)] : 0);
    text->attention_mask.push_back(is_there ? 1 : 0);
  }
}

}  // namespace

void write_translator(const std::string& folder, std::int64_t source_positions) {
  write(folder + "/model_index.json",
        R"({"_class_name": "Translator", "encoder": ["tests", "Encoder"], "decoder": ["tests", "Decoder"]})");
  write(folder + "/encoder/config.json", R"({"model_type": "translator_encoder")" + number("hidden_size", kWidth) +
                                             number("vocab_size", kSourceWords) + number("positions", kSourceLength) +
                                             "}");
  write(folder + "/decoder/config.json", R"({"model_type": "translator_decoder")" + number("hidden_size", kWidth) +
                                             number("vocab_size", kTargetWords) + number("positions", kTargetLength) +
                                             number("source_positions", source_positions) + "}");
}

BatchCounts most_of(std::int64_t samples) {
  BatchCounts counts;
  counts[kSamples] = samples;
  counts[kSourceTokens] = samples * kSourceLength;
  counts[kTargetTokens] = counts[kPredictedTokens] = samples * kTargetLength;
  return counts;
}

PackedBatch packed(const std::vector<Sample>& samples, const std::vector<Part>& parts) {
  PaddedBatch batch;
  batch.samples = static_cast<std::int64_t>(samples.size());
  for (const Sample& sample : samples) {
    add(&batch.texts[kSource], kSourceLength, sample.source);
    add(&batch.texts[kTarget], kTargetLength, sample.target);
    Ids labels = sample.labels;
    labels.resize(kTargetLength, kUnlabelled);
    Ids& all = batch.texts[kTarget].token_labels;
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return PackedBatch(batch, translator_inputs(parts), false, "here");
}

TranslatorRun::TranslatorRun(const std::string& folder, const BatchCounts& bounds) : parts(open_translator(folder)) {
  for (std::size_t i = 0; i < std::size(kUses); ++i) {
    Graph& graph = session.add_graph(bounds, translator_fields(parts, kUses[i]));
    recordings[i] = record_translator(graph, parts, kUses[i]);
    if (kUses[i] == Use::kTrain) derive_backward(graph);
  }
  session.train({});
  session.seal_alone(kernels_for(best_isa()), 2);
}

void TranslatorRun::initialise(std::uint64_t seed) {
  StartWork work;
  initialise_parameters(&work, session.parameter_memory(), seed);
  work.run(threads);
}

void TranslatorRun::load() {
  for (const Part& part : parts) {
    const TensorSource source = open_hf_weights(part.folder);
    StartWork work;
    const LoadReport report =
        load_parameters(&work, source, session.parameter_memory(), *part.model, 0, false, part.name);
    work.run(threads);
    EXPECT_EQ(report.unused, std::vector<std::string>{}) << part.name;
  }
}

void TranslatorRun::save(const std::string& folder) const {
  const ParameterMemory memory = session.parameter_memory();
  for (const Part& part : parts) {
    const std::string own = folder + "/" + part.name;
    std::filesystem::create_directories(own);
    HfFolderContents contents;
    contents.config_json = read_file(part.folder + "/config.json");
    contents.tensors = tensors_to_write(*memory.set, *memory.layout, memory.trained, memory.fixed, "", part.name);
    ASSERT_TRUE(HfFolderPlan(std::move(contents)).write_into(own.c_str()).ok());
  }
}

void TranslatorRun::replay(std::size_t graph, const Batch& batch) {
  Replay replay;
  replay.batch = batch;
  session.tape(graph).replay(threads, replay);
}

void TranslatorRun::replay(std::size_t graph, const std::vector<Sample>& samples) {
  const PackedBatch batch = packed(samples, parts);
  replay(graph, batch.batch(session.graph(graph).fields()));
}

float TranslatorRun::loss(std::size_t graph) const { return *session.tape(graph).at(recordings[graph].losses[0].loss); }

std::vector<float> TranslatorRun::logits(std::size_t graph, std::size_t rows) const {
  const float* const first = session.tape(graph).at(recordings[graph].output("logits"));
  return {first, first + rows * static_cast<std::size_t>(kTargetWords)};
}

std::vector<float> TranslatorRun::values() const {
  const ParameterMemory memory = session.parameter_memory();
  return {memory.trained, memory.trained + session.layout().trained_elements};
}

Steps::Steps(TranslatorRun& run, const Ids& source) : run_(run) {
  run.replay(kEncoding, {{source, {2}, {}}});
  for (std::size_t i = 0; i < source.size(); ++i) source_.push_back(static_cast<std::int32_t>(i));
}

std::vector<float> Steps::take(std::int64_t token) {
  const std::int32_t step = static_cast<std::int32_t>(written_.size()), id = static_cast<std::int32_t>(token);
  written_.push_back(step);
  const std::int32_t source_offsets[] = {0, static_cast<std::int32_t>(source_.size())},
                     target_offsets[] = {0, step + 1};
  Batch batch;
  batch.counts[kSamples] = 1;
  batch.counts[kSourceTokens] = source_offsets[1];
  batch.counts[kTargetTokens] = target_offsets[1];
  const auto fill = [&](const char* name, const std::int32_t* values) {
    batch.fields[field_named(run_.session.graph(kStep).fields(), name)] = values;
  };
  fill("source_position_ids", source_.data());
  fill("source_offsets", source_offsets);
  fill("target_token_ids", &id);
  fill("target_position_ids", &step);
  fill("written_rows", written_.data());
  fill("target_offsets", target_offsets);
  run_.replay(kStep, batch);
  return run_.logits(kStep, written_.size());
}

}  // namespace bascule::test
