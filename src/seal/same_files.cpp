// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"
#include "src/seal/sealed_weights.h"

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/settings/settings.h"

namespace bascule {
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
