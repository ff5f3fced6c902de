// SPDX-License-Identifier: Apache-2.0
#include "src/sealed/sealed_evaluation.h"

#include <cstdint>

#include "src/sealed/sealed_weights.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

SealedEvaluation::SealedEvaluation(RecordedRun& run, const Arena& arena, Group& group) {
  Judge* const judge = run.graphs.judge.get();
  if (run.graphs.has(Use::kEvaluate)) {
    const auto& [number, recording] = run.graphs[Use::kEvaluate];
    const std::int64_t batch = run.settings.training.per_device_eval_batch_size;
    judge->seal(arena.at(run.plan[kEvaluationMemory]),
                judged_outputs(recording, run.session.graph(number), &run.session.tape(number)),
                run.session.products());
    runner_.emplace(run.session.tape(number));
    of_weights_.emplace(*judge, batch, *runner_, group);
    if (averages_of(run) != nullptr) {
      averaged_runner_.emplace(run.session.averaged_tape(number));
      of_average_.emplace(*judge, batch, *averaged_runner_, group);
    }
  }
  if (group.is_first() && judge != nullptr && judge->names_tokens())
    token_texts_ = load_token_texts(run.settings.model.tokenizer_name.resolved);
}

}  // namespace bascule
