// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_weights.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/checkpoint/checkpoint.h"
#include "src/files/input_file.h"
#include "src/seal/sealed_writers.h"
#include "src/session/parameter_values.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

// A run saves what it trains and what it passes on. Anything else was trained by a program that divided the model
// otherwise, a tied table in two for example, and would be lost.
void check_all_are_used(const LoadReport& report, const Model& model, const std::string& folder) {
  const std::string left_out = names_left_out(report, model);
  if (!left_out.empty())
    throw Error(ErrorKind::kData, folder, "has tensors unknown to this program: " + left_out,
                "resume with the version that wrote it, or choose another output_dir");
}

// Weights, states and average of a checkpoint.
void resume_weights(const RecordedRun& run, Threads& threads, int node, StartWork* work) {
  const ResumePoint& point = *run.resume.point;
  const ParameterMemory memory = run.session.parameter_memory();
  const TensorSource weights = open_hf_weights(point.folder);
  const LoadReport report =
      load_parameters(work, weights, memory, *run.opened.model, static_cast<std::uint64_t>(run.settings.run.seed));
  check_all_are_used(report, *run.opened.model, point.folder);
  const TensorSource state = open_training_state(point);
  std::vector<WantedTensor> wanted = wanted_states(run.session.training().optimizer_states(), memory, node);
  if (float* const averages = averages_of(run)) {
    for (int p = 0; p < memory.set->size(); ++p) {
      const ParameterLayout::Place& place = memory.layout->places[static_cast<std::size_t>(p)];
      if (!place.trained) continue;
      for (const ParameterPiece& piece : (*memory.set)[p].pieces)
        wanted.push_back(
            {ema_name(piece.name), piece.shape, averages + place.offset + piece.first_element, 0, -1, true});
    }
  }
  load_tensors(work, state, wanted, "");
  work->run(threads);
}

// The finished model and its average, without an optimizer's states: nothing is trained.
void load_finished(const RecordedRun& run, Threads& threads, StartWork* work) {
  const FinishedWeights& finished = *run.resume.finished;
  const std::string what_to_do =
      "restore the weights of update " + std::to_string(finished.step) + ", or choose another output_dir";
  try {
    const TensorSource weights = open_hf_weights(finished.folder);
    const LoadReport report = load_parameters(work, weights, run.session.parameter_memory(), *run.opened.model, 0);
    if (!report.missing.empty())
      throw Error(ErrorKind::kData, finished.folder, "lacks the tensor " + report.missing.front());
    check_all_are_used(report, *run.opened.model, finished.folder);
    work->run(threads);
    if (float* const averages = averages_of(run)) {
      ParameterMemory memory = run.session.parameter_memory();
      memory.trained = averages;
      const TensorSource averaged = open_hf_weights(run.settings.run.output_dir.resolved + "/" + kAveragedFolder);
      load_parameters(work, averaged, memory, *run.opened.model, 0);
      work->run(threads);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMemory) throw;
    throw Error(error.kind(), error.where(), error.problem(), what_to_do);
  }
}

// Before the first update the average is a copy of the weights.
void begin_average(const RecordedRun& run) {
  if (float* const averages = averages_of(run))
    std::copy_n(run.session.parameter_memory().trained, run.session.layout().trained_elements, averages);
}

}  // namespace

float* averages_of(const RecordedRun& run) { return run.graphs.trains() ? run.session.training().averages() : nullptr; }

SealedWeights::SealedWeights(const RecordedRun& run, Threads& threads, Group& group,
                             void (*say)(const std::string& line), StartWork* work)
    : run_(run) {
  if (group.is_first()) {
    fill(threads, group.node(), say, work);
  } else {
    work->run(threads);
  }
  if (group.nodes() == 1) return;
  meet(group, "loading weights");
  if (group.is_leader() && !group.is_first()) {
    StartWork weights;
    fill(
        threads, group.node(), [](const std::string&) {}, &weights);
  }
  check_same_weights(run.settings.origin, group, run.session.parameter_memory(), run.resume.point.has_value());
}

void SealedWeights::fill(Threads& threads, int node, void (*say)(const std::string& line), StartWork* work) {
  const ModelSettings& model = run_.settings.model;
  const ResumeState& resume = run_.resume;
  unused_ = run_.opened.model->unused_tensors();
  if (!model.from_scratch) source_ = open_hf_weights(run_.opened.model_folder);
  if (resume.finished) {
    load_finished(run_, threads, work);
  } else if (resume.point) {
    resume_weights(run_, threads, node, work);
  } else if (model.from_scratch) {
    const auto seed = static_cast<std::uint64_t>(run_.settings.run.seed);
    initialise_parameters(work, run_.session.parameter_memory(), seed);
    work->run(threads);
    say("weights: initialised with seed " + std::to_string(seed));
  } else {
    read_model_folder(threads, say, work);
  }
  make_unused();
  if (resume.point || resume.finished) return;
  begin_average(run_);
  const std::string left_behind = run_.graphs.trains() ? files_left_behind(run_) : "";
  if (!left_behind.empty())
    say("model: " + model.model_name_or_path.shown() + " has files that the finished folder will lack: " + left_behind);
}

void SealedWeights::read_model_folder(Threads& threads, void (*say)(const std::string& line), StartWork* work) {
  const Model& model = *run_.opened.model;
  const LoadReport report =
      load_parameters(work, source_, run_.session.parameter_memory(), model,
                      static_cast<std::uint64_t>(run_.settings.run.seed), run_.opened.has_new_classes);
  work->run(threads);
  say("weights: " + count_of(report.loaded, "tensor") + " from " + run_.settings.model.model_name_or_path.shown());
  for (const std::string& name : report.missing) say("weights: " + name + " missing from the checkpoint; initialised");
  const std::string left_out = names_left_out(report, model);
  if (!left_out.empty()) say("weights: not used: " + left_out);
}

void SealedWeights::make_unused() {
  for (const ParameterPiece& piece : unused_) {
    const bool there = find_tensor(source_, piece.name, run_.opened.model->file_names()) != nullptr;
    unused_values_.emplace_back(there ? 0 : static_cast<std::size_t>(piece.elements));
    if (!there)
      fill_initial(unused_values_.back().data(), 0, piece.elements, piece.initial,
                   static_cast<std::uint64_t>(run_.settings.run.seed), piece.name);
  }
}

std::vector<TensorToWrite> SealedWeights::unused_to_write() const {
  std::vector<TensorToWrite> all;
  for (std::size_t i = 0; i < unused_.size(); ++i) {
    TensorToWrite tensor;
    tensor.name = unused_[i].name;
    tensor.shape = unused_[i].shape;
    if (unused_values_[i].empty()) {
      tensor.source = &source_;
      tensor.stored = find_tensor(source_, unused_[i].name, run_.opened.model->file_names());
    } else {
      tensor.data = unused_values_[i].data();
    }
    all.push_back(std::move(tensor));
  }
  return all;
}

namespace {

// A compared quantity, as a number that a double holds exactly, and its name in messages.
struct Seen {
  double number;
  std::string where;
  const char* what;
};

double number_of(const Digest& digest) { return static_cast<double>(digest.value() >> 11); }

double digest_of_settings(const Settings& settings) {
  Digest digest;
  const std::string text = print_settings(settings);
  digest.add(text.data(), text.size());
  return number_of(digest);
}

double digest_of_model(const RecordedRun& run) {
  Digest digest;
  const std::string text = text_of_file(run.opened.config_path);
  digest.add(text.data(), text.size());
  if (run.opened.tokenizer) digest.add_number(run.opened.tokenizer->digest());
  const MediaSettings& media = run.data.loader.media;
  digest.add(media.mean, sizeof media.mean);
  digest.add(media.std, sizeof media.std);
  const ProcessorRules& processor = media.processor;
  const double rules[] = {processor.does_resize ? 1.0 : 0.0, static_cast<double>(processor.shortest_edge),
                          static_cast<double>(processor.size_divisor), processor.levels};
  digest.add(rules, sizeof rules);
  digest.add_number(static_cast<std::uint64_t>(run.session.parameters().size()));
  return number_of(digest);
}

double digest_of_data(const RunData& data) {
  Digest digest;
  for (const RecordedSplit& split : data.splits) digest.add_number(split.manifest->data_digest());
  return number_of(digest);
}

double digest_of_weights(const ParameterMemory& memory) {
  Digest digest;
  for (int p = 0; p < memory.set->size(); ++p) {
    const Elements place = memory.elements(p);
    const std::size_t width = place.is_bf16() ? sizeof(std::uint16_t) : sizeof(float);
    digest.add(place.data, static_cast<std::size_t>((*memory.set)[p].elements()) * width);
  }
  return number_of(digest);
}

// The first ranks of the machines speak for them, or (stride 1) every rank for itself.
void compare(Group& group, const std::vector<Seen>& seen, int stride) {
  std::vector<double> mine;
  mine.reserve(seen.size());
  for (const Seen& one : seen) mine.push_back(one.number);
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  if (!group.exchange(Span<const double>(mine), Span<double>(all)))
    throw Error(ErrorKind::kRank, "comparing files", "another rank failed");
  for (int rank = stride; rank < group.size(); rank += stride) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (all[static_cast<std::size_t>(rank) * seen.size() + i] == all[i]) continue;
      if (!group.is_first()) meet(group, "comparing files");  // rank 0 says it, which ends this one
      throw Error(ErrorKind::kSettings, seen[i].where,
                  "rank " + std::to_string(rank) + "'s machine reads different " + seen[i].what + " than rank 0's",
                  "use a file system that all machines see at the same path");
    }
  }
}

}  // namespace

void check_same_files(const RecordedRun& run, Group& group) {
  if (group.nodes() == 1) return;
  const Settings& settings = run.settings;
  compare(group,
          {{digest_of_settings(settings), settings.origin.file, "settings"},
           {digest_of_data(run.data), where_written(settings, "data.train_file"), "data"},
           {digest_of_model(run), where_written(settings, "model.model_name_or_path"), "model or tokenizer files"},
           {run.resume.point ? static_cast<double>(run.resume.point->global_step) : -1.0,
            where_written(settings, "training.output_dir"), "checkpoints"}},
          1);
}

void check_same_weights(const SettingsOrigin& origin, Group& group, const ParameterMemory& memory, bool resumes) {
  if (group.nodes() == 1) return;
  const char* const key = resumes ? "training.output_dir" : "model.model_name_or_path";
  compare(group, {{group.is_leader() ? digest_of_weights(memory) : 0.0, where_written(origin, key), "weights"}},
          group.local_size());
}

}  // namespace bascule
