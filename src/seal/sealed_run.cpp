// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_run.h"

#include <algorithm>
#include <cstddef>

#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/distributed/group.h"
#include "src/seal/sealed_weights.h"

namespace bascule {
namespace {

// As a user knows it.
std::string name_of_point(const ResumePoint& point, const RunSettings& run) {
  if (point.folder == run.output_dir.resolved + "/" + kLastStateFolder)
    return "the end of training, update " + std::to_string(point.global_step);
  return point.folder == run.resume_checkpoint.resolved ? run.resume_checkpoint.written
                                                        : name_of_checkpoint(point.global_step);
}

bool decays_any(const TrainingSettings& training) {
  return training.weight_decay > 0.0 ||
         std::any_of(training.groups.begin(), training.groups.end(),
                     [](const GroupSettings& group) { return group.weight_decay > 0.0; });
}

void say_how_it_begins(const RecordedRun& run, void (*say)(const std::string& line)) {
  const TrainingSettings& training = run.settings.training;
  if (run.graphs.trains() && training.optimizer == Optimizer::kLamb && !decays_any(training))
    say("optimizer: with weight_decay = 0, LAMB is the same as Adam");
  if (run.resume.point) say("resume: from " + name_of_point(*run.resume.point, run.settings.run));
}

}  // namespace

SealedRun::SealedRun(RecordedRun& run, Isa isa, const volatile int* stop, void (*say)(const std::string& line),
                     Group& group, StartTimes* times)
    : run_(run), isa_(isa), group_(group) {
  check_same_files(run, group);
  own_indexes(run.data);
  memory_.emplace(run.plan, run.settings.machine.huge_pages, group);
  const Arena& arena = memory_->arena();
  loader_.emplace(run.data, run.plan, arena, group);
  tapes_.emplace(run, isa, arena, group);
  if (run.graphs.trains()) memory_->keep_near(run.session.training().own_memory(), group);
  times->end("loader, threads and tapes");

  StartWork work;
  memory_->touch(&work, tapes_->threads(), group);
  weights_.emplace(run, tapes_->threads(), group, say, &work);
  if (run.settings.machine.lock_memory) memory_->lock();
  if (group.is_first()) {
    memory_->say_small_pages(say);
    memory_->say_far_pages(say);
    tapes_->say_unpinned(say);
  }
  times->end("memory and weights", work.figures());

  records_.emplace(run, arena);
  if (run.resume.point) loader_->resume(*run.resume.point, group);
  evaluation_.emplace(run, arena, group);
  writers_.emplace(run, *weights_, *evaluation_, group);
  share_samples();
  make_hashes();
  make_loop(stop);
  meet(group, "loading weights");
  if (group.is_first()) say_how_it_begins(run, say);
}

// A run that ends by an error may end between an update's beginning and its sums.
SealedRun::~SealedRun() {
  if (run_.graphs.trains()) run_.session.training().update().rest();
}

// Memory by which the ranks tell each other of their samples.
void SealedRun::share_samples() {
  const Arena& arena = memory_->arena();
  if (group_.size() > 1)
    replaced_ = std::make_unique<ReplacedSamples>(group_, run_.data.loader.max_replacements,
                                                  arena.at(run_.plan[kReplacedMemory]));
  if (run_.pace.length.gathered_samples > 0)
    gathered_ = std::make_unique<GatheredRows>(group_, arena.at(run_.plan[kGatheredMemory]),
                                               run_.graphs.of_loss().recording.gathered_cols);
}

void SealedRun::make_hashes() {
  if (!run_.graphs.trains() || run_.settings.report.hash_steps <= 0) return;
  const PlannedRange& memory = run_.plan[kTensorHashes];
  hashes_ = std::make_unique<TensorHashes>(run_.session.parameter_memory(),
                                           Span<std::byte>(memory_->arena().at(memory), memory.bytes));
}

void SealedRun::open_files(void (*say)(const std::string& line), StartTimes* times) {
  records_->open_files(run_, group_, say);
  if (group_.is_first() && hashes_ != nullptr && !run_.resume.finished) open_hashes(say);
  times->end("writers and logs");
}

void SealedRun::open_hashes(void (*say)(const std::string& line)) {
  const Settings& settings = run_.settings;
  const std::string kept =
      hashes_->open(settings.run.output_dir.resolved, records_->position().global_step,
                    {run_.place.world_size, settings.training.per_device_train_batch_size,
                     settings.training.gradient_accumulation_steps, settings.training.mini_batch_size});
  if (!kept.empty())
    say("report.hash_steps: the hashes so far are damaged, have another version's format or are of other tensors; they "
        "are kept in " +
        shown_path(kept));
}

void SealedRun::make_loop(const volatile int* stop) {
  if (group_.is_first() && run_.graphs.trains()) stop_request_ = StopRequest(run_.settings.run.output_dir.resolved);
  const TrainingLoop::Parts parts{
      run_.session,    group_, loader(),      tapes_->threads(),         evaluation_->of_weights(),
      gathered_.get(), stop,   hashes_.get(), evaluation_->of_average(), &stop_request_,
      tapes_->pieces()};
  const TrainingLoop::Saving saving{replaced_.get(), writers_->checkpoints(), writers_->state_exchange(),
                                    writers_->best_weights(), loader_->saved_digests()};
  loop_.emplace(run_, parts, saving, &records_->outputs(), records_->position());
}

}  // namespace bascule
