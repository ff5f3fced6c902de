// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_facts.h"

#include <set>

#include "firmware_shims/media_engine.h"
#include "kernels/gemm/gemm.h"
#include "src/checkpoint/state_file.h"
#include "src/logs/readable.h"
#include "src/settings/settings.h"

namespace bascule {

ParameterCount count_parameters(const ParameterSet& parameters) {
  ParameterCount count;
  std::set<std::string> counted;  // first pieces: a copy in bf16 (element_types.h) has that of another parameter
  for (int p = 0; p < parameters.size(); ++p) {
    const Parameter& parameter = parameters[p];
    if (!parameter.pieces.empty() && !counted.insert(parameter.pieces.front().name).second) continue;
    count.all += parameter.elements();
    count.trained += parameter.trained ? parameter.elements() : 0;
  }
  return count;
}

std::string parameters_text(const ParameterSet& parameters) {
  const ParameterCount count = count_parameters(parameters);
  return std::string(readable_count(count.all).c_str()) + " parameters, " + readable_count(count.trained).c_str() +
         " trained";
}

std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa) {
  std::vector<NamedText> facts = {
      {"bascule", BASCULE_VERSION},
      {"compiler", __VERSION__},
      {"matrix products", run.settings.machine.products == Products::kOurs ? "ours" : onednn_version()},
      {"isa", isa_name(isa)},
      {"threads", std::to_string(run.threads)},
      {"media engine", media_engine_query(media_engine_builtin()).name},
      {"ranks", std::to_string(run.place.world_size)},
      {"seed", std::to_string(run.settings.run.seed)},
      {"settings digest", settings_digest(run.settings)}};
  for (const RecordedSplit& split : run.data.splits) {
    facts.push_back({std::string(split_name(split.split)) + " data digest",
                     std::string(DigestText(split.manifest->data_digest()).text())});
  }
  return facts;
}

}  // namespace bascule
