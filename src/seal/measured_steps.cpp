// SPDX-License-Identifier: Apache-2.0
#include "src/seal/measured_steps.h"

#include <algorithm>
#include <limits>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/record/record_graphs.h"
#include "src/replay/evaluate.h"
#include "src/replay/loop.h"
#include "src/runtime/guard.h"
#include "src/runtime/start_work.h"
#include "src/seal/sealed_draw_run.h"
#include "src/seal/sealed_loader.h"
#include "src/session/parameter_values.h"
#include "src/session/sealed_memory.h"

namespace bascule {
namespace {

// The parts of a sealed run that a step needs, with initial weights, for a group of one.
struct Sealed {
  Group alone{RankPlace{}, GroupOptions{}};
  SealedMemory memory;
  SealedLoader loader;
  SealedTapes tapes;

  Sealed(RecordedRun& run, Isa isa, bool simulates)
      : memory(run.plan, run.settings.machine.huge_pages, alone),
        loader(run.data, run.plan, memory.arena(), alone),
        tapes(run, isa, memory.arena(), alone, simulates) {
    StartWork work;
    memory.touch(&work, tapes.threads(), alone);
    initialise_parameters(&work, run.session.parameter_memory(), static_cast<std::uint64_t>(run.settings.run.seed));
    work.run(tapes.threads());
    if (run.settings.machine.lock_memory) memory.lock();
  }
};

// The work of the steps since they began.
struct Progressed {
  double phases[kStepPhases] = {};  // seconds
  BatchCounts rows;
  std::int64_t tokens = 0;  // generated
  double loss_sum = 0.0;    // of updates
  std::int64_t batches = 0, pieces = 0;
};

class TrainingSteps {
 public:
  TrainingSteps(const RecordedRun& run, Sealed& sealed, Session& session)
      : loop_(run, parts_of(sealed, session), {}, &outputs_, {}) {}

  void begin(std::int64_t) noexcept { loop_.begin(); }
  Status step() noexcept { return loop_.step(); }
  Progressed so_far() const noexcept {
    Progressed all;
    std::copy_n(loop_.interval().seconds, kStepPhases, all.phases);
    all.rows = loop_.times().rows;
    all.batches = loop_.times().micro_batches;
    all.pieces = loop_.times().pieces;
    all.loss_sum = loop_.position().loss_sum;
    return all;
  }

 private:
  TrainingLoop::Parts parts_of(Sealed& sealed, Session& session) {
    TrainingLoop::Parts parts{session, sealed.alone, sealed.loader.loader(), sealed.tapes.threads(), nullptr,
                              nullptr, &never_};
    parts.pieces = sealed.tapes.pieces();
    return parts;
  }

  TrainingOutputs outputs_;
  const volatile int never_ = 0;
  TrainingLoop loop_;
};

// Generates the texts of a batch.
class TextRunner final : public BatchRunner {
 public:
  explicit TextRunner(Generator& generator) : generator_(generator) {}
  Status run(const Batch& batch, Threads& threads, DecodingWatch*) noexcept override {
    generator_.run(batch, threads);
    return ok_status();
  }

 private:
  Generator& generator_;
};

class EvaluationSteps {
 public:
  // generator: null: the evaluation's tape alone is measured.
  EvaluationSteps(Stream& stream, BatchRunner& runner, const Generator* generator, Threads& threads)
      : stream_(stream), runner_(runner), generator_(generator), threads_(threads) {}

  void begin(std::int64_t steps) noexcept { stream_.start(0, steps); }
  Status step() noexcept {
    const double began = monotonic_seconds();
    const Batch* batch = nullptr;
    BASCULE_TRY(stream_.next(&batch));
    const double loaded = monotonic_seconds();
    if (batch->counts.samples() > 0) BASCULE_TRY(runner_.run(*batch, threads_));
    for (int i = 0; i < kMaxStreams; ++i) so_far_.rows[i] += batch->counts[i];
    for (std::int64_t s = 0; generator_ != nullptr && s < batch->counts.samples(); ++s)
      so_far_.tokens += static_cast<std::int64_t>(generator_->search().generated(s).size());
    stream_.release();
    ++so_far_.batches;
    so_far_.phases[static_cast<int>(StepPhase::kWaitForData)] += loaded - began;
    so_far_.phases[static_cast<int>(StepPhase::kForward)] += monotonic_seconds() - loaded;
    return ok_status();
  }
  const Progressed& so_far() const noexcept { return so_far_; }

 private:
  Stream& stream_;
  BatchRunner& runner_;
  const Generator* generator_;
  Threads& threads_;
  Progressed so_far_;
};

template <typename Steps>
Status run_steps(Steps& steps, const Stream& stream, const Threads& threads, std::int64_t warmup,
                 MeasuredSteps* measured) noexcept {
  steps.begin(warmup + static_cast<std::int64_t>(measured->seconds.size()));
  for (std::int64_t i = 0; i < warmup; ++i) BASCULE_TRY(steps.step());
  const StreamStatistics loaded_before = stream.statistics();
  const Progressed before = steps.so_far();
  for (std::size_t i = 0; i < measured->seconds.size(); ++i) {
    const Progressed step_before = steps.so_far();
    const double began = monotonic_seconds(), gained = threads.simulated_gain();
    BASCULE_TRY(steps.step());
    measured->seconds[i] = monotonic_seconds() - began - (threads.simulated_gain() - gained);
    measured->samples[i] = steps.so_far().rows.samples() - step_before.rows.samples();
    measured->tokens[i] = steps.so_far().tokens - step_before.tokens;
    if (!measured->losses.empty()) measured->losses[i] = steps.so_far().loss_sum - step_before.loss_sum;
  }
  const Progressed after = steps.so_far();
  for (int phase = 0; phase < kStepPhases; ++phase)
    measured->phases[phase] = after.phases[phase] - before.phases[phase];
  measured->could_deliver = deliverable_samples_per_second(loaded_before, stream.statistics());
  measured->resident_bytes = resident_bytes();
  measured->micro_batches = after.batches;
  measured->pieces = static_cast<double>(after.pieces) / static_cast<double>(after.batches);
  for (int i = 0; i < kMaxStreams; ++i) measured->rows[i] = after.rows[i] / after.batches;
  return ok_status();
}

template <typename Steps>
Status run_sealed(Steps& steps, const Stream& stream, const Threads& threads, std::int64_t warmup,
                  MeasuredSteps* measured) {
  seal_memory();
  const Status status = run_steps(steps, stream, threads, warmup, measured);
  open_memory();
  return status;
}

// The nodes of both tapes: a batch replays one of them once, the other once a token.
void add_nodes_of_texts(const RecordedRun& run, const Generator& generator, MeasuredSteps* measured) {
  const RecordedGeneration& graphs = run.graphs.texts->graphs;
  measured->nodes = run.session.tape(graphs.encode).node_times(measured->rows);
  const double replays = static_cast<double>(std::max<std::int64_t>(1, generator.decoded_steps()));
  BatchCounts live;
  live[kSamples] = measured->rows.samples();
  live[kLiveRows] = generator.decoded_rows() / std::max<std::int64_t>(1, generator.decoded_steps());
  for (NodeTime node : run.session.tape(graphs.decode).node_times(live)) {
    measured->decoding.seconds += node.seconds / replays;
    measured->decoding.bytes += node.bytes;
    node.flops *= replays / static_cast<double>(measured->micro_batches);
    node.bytes *= replays / static_cast<double>(measured->micro_batches);
    measured->nodes.push_back(node);
  }
}

}  // namespace

MeasuredSteps measure_steps(RecordedRun& run, Isa isa, std::int64_t warmup, std::int64_t count, bool simulates) {
  own_indexes(run.data);
  Sealed sealed(run, isa, simulates);
  Threads& threads = sealed.tapes.threads();
  MeasuredSteps measured;
  measured.seconds.resize(static_cast<std::size_t>(count));
  measured.samples.resize(static_cast<std::size_t>(count));
  measured.tokens.resize(static_cast<std::size_t>(count));
  const bool trains = run.graphs.trains();
  if (trains) measured.losses.resize(static_cast<std::size_t>(count));
  const RecordedSplit& split = trains ? *run.data.find(Split::kTrain) : *run.data.last_judged();
  Generator* const generator = run.graphs.texts ? run.graphs.texts->generator.get() : nullptr;
  Stream& stream = sealed.loader.loader().stream(split.stream);
  Status status = ok_status();
  if (trains) {
    TrainingSteps steps(run, sealed, run.session);
    status = run_sealed(steps, stream, threads, warmup, &measured);
  } else if (generator != nullptr) {
    generator->seal(sealed.memory.arena().at(run.plan[kGenerationMemory]), run.session.tapes());
    TextRunner runner(*generator);
    EvaluationSteps steps(stream, runner, generator, threads);
    status = run_sealed(steps, stream, threads, warmup, &measured);
  } else {
    TapeRunner runner(run.session.tape(run.graphs[Use::kEvaluate].number));
    EvaluationSteps steps(stream, runner, nullptr, threads);
    status = run_sealed(steps, stream, threads, warmup, &measured);
  }
  if (!status.ok()) {
    const bool diverged = status.code == StatusCode::kNotFinite;
    const bool is_of_loss = diverged && status.detail[1] == 0;
    throw Error(ErrorKind::kData, "", is_of_loss ? "loss or gradient is not finite" : describe(status, *split.manifest),
                diverged ? "try a lower training.learning_rate" : "");
  }
  if (generator != nullptr) {
    add_nodes_of_texts(run, *generator, &measured);
  } else if (trains) {
    measured.nodes = training_nodes(run, measured.rows, std::max(1.0, measured.pieces));
  } else {
    measured.nodes = run.session.tape(run.graphs[Use::kEvaluate].number).node_times(measured.rows);
  }
  measured.stream = stream.statistics();
  measured.loading_seconds = measured.stream.processor_seconds /
                             static_cast<double>(std::max<std::int64_t>(1, measured.stream.loaded_samples));
  if (simulates) {
    std::fill_n(measured.phases, kStepPhases, std::numeric_limits<double>::quiet_NaN());
    measured.could_deliver = std::numeric_limits<double>::quiet_NaN();
  }
  return measured;
}

namespace {

// before(i) is not measured, work(i) is, after the warm-up.
template <typename Before, typename Work>
void measure(MeasuredStage* stage, const Threads& threads, std::int64_t warmup, const Before& before,
             const Work& work) noexcept {
  const std::int64_t count = static_cast<std::int64_t>(stage->seconds.size());
  for (std::int64_t i = 0; i < warmup + count; ++i) {
    before(i);
    const double began = monotonic_seconds(), gained = threads.simulated_gain();
    work(i);
    if (i < warmup) continue;
    stage->seconds[static_cast<std::size_t>(i - warmup)] =
        monotonic_seconds() - began - (threads.simulated_gain() - gained);
  }
  stage->replays += warmup + count;
}

void measure_stages(SealedDrawRun& sealed, const RecordedDrawRun& run, std::int64_t warmup,
                    std::vector<DrawnPrompt>* prompts, MeasuredDrawing* measured) noexcept {
  Drawer& drawer = sealed.drawer().drawer();
  Threads& threads = sealed.threads();
  const std::int64_t places = run.options.prompts, texts = static_cast<std::int64_t>(run.list.texts.size());
  const auto encode = [&](std::int64_t i) {
    const std::vector<std::int32_t>& ids = run.list.texts[static_cast<std::size_t>(i % texts)].ids;
    drawer.keep_prompt(i % places, {ids.data(), ids.size()}, threads);
  };
  for (std::int64_t place = 0; place < places; ++place) encode(place);  // calls read all of them
  measured->encode.replays = places;
  measure(
      &measured->encode, threads, warmup, [](std::int64_t) {}, encode);

  const std::int64_t calls = static_cast<std::int64_t>(run.program.calls.size()), batch = run.options.batch;
  const auto begin = [&](std::int64_t i) {
    for (std::int64_t p = 0; i % calls == 0 && p < batch; ++p)
      drawer.draw_noise(p, static_cast<std::uint64_t>(run.settings.run.seed), static_cast<std::uint64_t>(p));
  };
  measure(&measured->call, threads, warmup, begin, [&](std::int64_t i) {
    drawer.call(static_cast<std::size_t>(i % calls), {prompts->data(), prompts->size()}, threads);
  });
  measure(
      &measured->decode, threads, warmup, [](std::int64_t) {},
      [&](std::int64_t i) { (void)sealed.drawer().decode(i % batch); });
  measured->resident_bytes = resident_bytes();
}

}  // namespace

MeasuredDrawing measure_drawing(RecordedDrawRun& run, Isa isa, std::int64_t warmup, std::int64_t count,
                                bool simulates) {
  SealedDrawRun sealed(
      run, isa, [](const std::string&) {}, nullptr, simulates);
  MeasuredDrawing measured;
  MeasuredStage* const stages[] = {&measured.encode, &measured.call, &measured.decode};
  for (MeasuredStage* stage : stages) stage->seconds.resize(static_cast<std::size_t>(count));
  std::vector<DrawnPrompt> prompts(static_cast<std::size_t>(run.options.batch));
  for (DrawnPrompt& prompt : prompts)
    prompt.negative = static_cast<std::int32_t>(std::min<std::int64_t>(1, run.options.prompts - 1));
  seal_memory();
  measure_stages(sealed, run, warmup, &prompts, &measured);
  open_memory();
  const std::size_t graphs[] = {run.recorded.encode, run.recorded.noise, run.recorded.decode};
  for (std::size_t i = 0; i < 3; ++i)
    stages[i]->nodes = sealed.tape(graphs[i]).node_times(run.session.graph(graphs[i]).bounds());
  return measured;
}

}  // namespace bascule
