// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_evaluation.h"

#include "src/record/record_graphs.h"

#include <cstdint>

#include "src/base/span.h"
#include "src/replay/evaluate.h"
#include "src/seal/sealed_weights.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

namespace {

// The outputs of the evaluation's tape, and, where texts are generated, those.
std::vector<JudgedOutput> outputs_of(const RecordedRun& run) {
  const auto& [number, recording] = run.graphs[Use::kEvaluate];
  std::vector<JudgedOutput> outputs = judged_outputs(recording, run.session.graph(number), &run.session.tape(number));
  if (!run.graphs.texts) return outputs;
  const GeneratedRows& rows = *run.graphs.texts->rows;
  outputs.push_back({"generated", rows.most_ids(), rows.ids()});
  outputs.push_back({"generated_counts", 1, rows.counts()});
  outputs.push_back({"generated_scores", 1, rows.scores()});
  return outputs;
}

std::unique_ptr<BatchRunner> runner_of(const Tape& tape, const std::optional<RecordedTexts>& texts,
                                       Generator* generator) {
  if (!texts) return std::make_unique<TapeRunner>(tape);
  if (generator == nullptr) return std::make_unique<NotGeneratingRunner>(tape, *texts->rows);
  return std::make_unique<GeneratingRunner>(tape, *generator, *texts->rows);
}

}  // namespace

SealedEvaluation::SealedEvaluation(RecordedRun& run, const Arena& arena, Group& group) {
  Judge* const judge = run.graphs.judge.get();
  if (run.graphs.has(Use::kEvaluate)) {
    const std::size_t number = run.graphs[Use::kEvaluate].number;
    const std::int64_t batch = run.settings.training.per_device_eval_batch_size;
    std::optional<RecordedTexts>& texts = run.graphs.texts;
    if (texts) seal_texts(run, arena);
    std::byte* const own = judge->own_bytes() > 0 ? arena.at(run.plan[kEvaluationScratch]) : nullptr;
    judge->seal(arena.at(run.plan[kEvaluationMemory]), own, outputs_of(run), run.session.products());
    runner_ = runner_of(run.session.tape(number), texts, texts ? texts->generator.get() : nullptr);
    of_weights_.emplace(*judge, batch, *runner_, group);
    if (averages_of(run) != nullptr) {
      averaged_runner_ = runner_of(run.session.averaged_tape(number), texts, texts ? texts->averaged.get() : nullptr);
      of_average_.emplace(*judge, batch, *averaged_runner_, group);
    }
  }
  if (group.is_first() && judge != nullptr && judge->names_tokens())
    token_texts_ = load_token_texts(run.settings.model.tokenizer_name.resolved);
}

void SealedEvaluation::seal_texts(RecordedRun& run, const Arena& arena) {
  RecordedTexts& texts = *run.graphs.texts;
  std::byte* memory = arena.at(run.plan[kGenerationMemory]);
  texts.generator->seal(memory, run.session);
  memory += align_up(texts.generator->bytes(), kCacheLine);
  if (texts.averaged) {
    texts.averaged->seal(memory, run.session, true);
    memory += align_up(texts.averaged->bytes(), kCacheLine);
  }
  texts.rows->seal(memory);
}

}  // namespace bascule
