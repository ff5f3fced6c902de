// SPDX-License-Identifier: Apache-2.0
// The long part of the seal: memory is touched and weights are put into it, by all threads.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/align.h"
#include "src/base/error.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/sealed/same_files.h"
#include "src/sealed/sealed_run.h"

namespace bascule {

// All memory is touched, and weights are put into it by the first rank of every node: rank 0 before all others, so that
// what is wrong with the files is said once. Where ranks share memory each touches its part of it, and then maps what
// the others have touched.
StartWork::Figures SealedRun::fill_memory(const std::optional<ResumePoint>& point, void (*say)(const std::string&)) {
  StartWork work;
  // First, and so ahead of the weights, which lie at its beginning: reading then meets pages of the better kind.
  work.touch(arena_->memory(), arena_->huge_pages(), false);
  const HugePages pages = run_.settings.machine.huge_pages;
  const std::size_t ranks = static_cast<std::size_t>(group_.local_size());
  if (ranks > 1 && shared_.bytes() > 0) {
    const std::size_t part = align_up(divide_up(shared_.bytes(), ranks), kHugePage);
    const std::size_t begin = std::min(part * static_cast<std::size_t>(group_.local_rank()), shared_.bytes());
    const std::size_t end = std::min(begin + part, shared_.bytes());
    work.touch(shared_.memory().subspan(begin, end - begin), pages, true);
    work.run(*threads_);
    meet("memory");
    work.touch(shared_.memory().first(begin), pages, true);
    work.touch(shared_.memory().subspan(end, shared_.bytes() - end), pages, true);
  } else {
    work.touch(shared_.memory(), pages, true);
  }
  if (group_.is_first()) {
    load_weights(point, say, &work);
  } else {
    work.run(*threads_);
  }
  if (group_.nodes() > 1) {
    meet("loading weights");
    StartWork weights;
    if (group_.is_leader() && !group_.is_first())
      load_weights(
          point, [](const std::string&) {}, &weights);
    check_same_weights(run_.settings, group_, run_.session.parameter_memory(), point.has_value());
  }
  if (run_.settings.machine.lock_memory) {
    arena_->lock();
    if (shared_.bytes() > 0) shared_.lock();
  }
  if (group_.is_first()) say_small_pages(say);
  if (group_.is_first() && threads_->pin_error() != 0)
    say(std::string("threads: the system refused to pin them to cores (") + std::strerror(threads_->pin_error()) +
        "): they may share a core or move, which is slower");
  return work.figures();
}

// That there are no large pages is no error, but the user should know why it is slower.
void SealedRun::say_small_pages(void (*say)(const std::string&)) const {
  const HugePages wanted = run_.settings.machine.huge_pages;
  if (wanted == HugePages::kOff) return;
  if (wanted == HugePages::kReserved && arena_->huge_pages() != wanted)
    say("memory: the reserved large pages do not suffice (see vm.nr_hugepages): using transparent ones");
  const HugePageBytes large = huge_page_bytes();
  const auto check = [&](const char* name, std::size_t bytes, std::size_t in_large, const char* file) {
    if (in_large >= bytes / 2 / kHugePage * kHugePage) return;
    say(std::string(name) + ": only " + std::to_string(in_large >> 20) + " of " + std::to_string(bytes >> 20) +
        " MiB are in large pages: this system has no more of them, or is slow to provide them (see "
        "/sys/kernel/mm/transparent_hugepage/" +
        file + ")");
  };
  check("memory", arena_->memory().size(), large.anonymous, "enabled");
  check("shared memory", shared_.bytes(), large.shared, "shmem_enabled");
}

// Runs the work, with what it adds to it.
void SealedRun::load_weights(const std::optional<ResumePoint>& point, void (*say)(const std::string&),
                             StartWork* work) {
  const ModelSettings& model = run_.settings.model;
  const std::uint64_t seed = static_cast<std::uint64_t>(run_.settings.run.seed);
  const ParameterMemory memory = run_.session.parameter_memory();
  unused_ = run_.opened.model->unused_tensors();
  if (!model.from_scratch) source_ = open_hf_weights(model.model_name_or_path.resolved);
  if (run_.resume.finished) {
    load_finished(*run_.resume.finished, work);
  } else if (point) {
    const TensorSource weights = open_hf_weights(point->folder);
    load_parameters(work, weights, memory, *run_.opened.model, seed);
    const TensorSource state = open_training_state(*point);
    std::vector<WantedTensor> wanted = wanted_states(run_.session.training().optimizer_states(), memory, group_.node());
    if (float* const averages = this->averages()) {
      for (int p = 0; p < memory.set->size(); ++p) {
        const ParameterLayout::Place& place = memory.layout->places[static_cast<std::size_t>(p)];
        if (!place.trained) continue;
        for (const ParameterPiece& piece : (*memory.set)[p].pieces)
          wanted.push_back(
              {ema_name(piece.name), piece.shape, averages + place.offset + piece.first_element, 0, -1, true});
      }
    }
    load_tensors(work, state, wanted, "");
    work->run(*threads_);
  } else if (model.from_scratch) {
    initialise_parameters(work, memory, seed);
    work->run(*threads_);
    say("weights: initialised with seed " + std::to_string(seed));
  } else {
    const LoadReport report =
        load_parameters(work, source_, memory, *run_.opened.model, seed, run_.opened.has_new_classes);
    work->run(*threads_);
    say("weights: " + std::to_string(report.loaded) + " tensors from " + model.model_name_or_path.shown());
    for (const std::string& name : report.missing)
      say("weights: " + name + " missing from the checkpoint; initialised");
    std::string left_out;
    for (const std::string& name : report.unused) {
      const bool passes = std::any_of(unused_.begin(), unused_.end(), [&](const ParameterPiece& piece) {
        return piece.name == name || run_.opened.model->body_prefix() + name == piece.name;
      });
      if (!passes) left_out += (left_out.empty() ? "" : ", ") + name;
    }
    if (!left_out.empty()) say("weights: not used: " + left_out);
  }
  make_unused_tensors();
  if (!point && !run_.resume.finished) begin_average();
}

// Before the first update the average is a copy of the weights.
void SealedRun::begin_average() {
  const Session& session = run_.session;
  if (averages() != nullptr)
    std::copy_n(session.parameter_memory().trained, session.layout().trained_elements, averages());
}

// Without an optimizer's states: nothing is trained.
void SealedRun::load_finished(const FinishedWeights& finished, StartWork* work) {
  const std::string what_to_do =
      "restore the weights of update " + std::to_string(finished.step) + ", or choose another output_dir";
  try {
    const TensorSource weights = open_hf_weights(finished.folder);
    const LoadReport report = load_parameters(work, weights, run_.session.parameter_memory(), *run_.opened.model, 0);
    if (!report.missing.empty())
      throw Error(ErrorKind::kData, finished.folder, "lacks the tensor " + report.missing.front());
    work->run(*threads_);
    if (averages() != nullptr) {
      ParameterMemory memory = run_.session.parameter_memory();
      memory.trained = averages();
      const TensorSource averaged = open_hf_weights(run_.settings.run.output_dir.resolved + "/" + kAveragedFolder);
      load_parameters(work, averaged, memory, *run_.opened.model, 0);
      work->run(*threads_);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMemory) throw;
    throw Error(error.kind(), error.where(), error.problem(), what_to_do);
  }
}

void SealedRun::make_unused_tensors() {
  for (const ParameterPiece& piece : unused_) {
    const bool there = find_tensor(source_, piece.name, run_.opened.model->file_names()) != nullptr;
    unused_values_.emplace_back(there ? 0 : static_cast<std::size_t>(piece.elements));
    if (!there)
      fill_initial(unused_values_.back().data(), 0, piece.elements, piece.initial,
                   static_cast<std::uint64_t>(run_.settings.run.seed), piece.name);
  }
}

}  // namespace bascule
