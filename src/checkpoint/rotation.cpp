// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/rotation.h"

#include <algorithm>
#include <optional>

#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/state_file.h"

namespace bascule {
namespace {

// The checkpoints in a folder: of `newest` and `best` those that are there, and the steps of all others.
struct FoundSteps {
  const char* folder = nullptr;
  std::int64_t newest = 0, best = 0;
  bool keeps_later = false;
  std::int64_t protected_count = 0;
  std::int64_t first = 0, last = 0, count = 0;  // of the others
};

Status find_steps(const char* folder, FoundSteps* steps) noexcept {
  const auto visit = [](void* context, const char* name) noexcept {
    auto* found = static_cast<FoundSteps*>(context);
    const std::optional<std::int64_t> step = checkpoint_step(name);
    if (!step || !holds_state(PathBuffer(found->folder).append("/").append(name))) return ok_status();  // not ours
    if (found->keeps_later && *step > found->newest) return ok_status();
    if (*step == found->newest || *step == found->best) {
      ++found->protected_count;
      return ok_status();
    }
    found->first = found->count == 0 ? *step : std::min(found->first, *step);
    found->last = found->count == 0 ? *step : std::max(found->last, *step);
    ++found->count;
    return ok_status();
  };
  return visit_entries(folder, visit, steps);
}

}  // namespace

Status CheckpointRotation::remove(std::int64_t newest, std::int64_t best, std::int64_t limit,
                                  bool keeps_later) noexcept {
  for (;;) {
    FoundSteps steps;
    steps.folder = output_dir_.c_str();
    steps.newest = newest;
    steps.best = best;
    steps.keeps_later = keeps_later;
    BASCULE_TRY(find_steps(output_dir_.c_str(), &steps));
    const bool abandoned = steps.count > 0 && steps.last > newest;
    const bool too_many = limit > 0 && steps.count > 0 && steps.protected_count + steps.count > limit;
    if (!abandoned && !too_many) return ok_status();
    const PathBuffer name = checkpoint_name(abandoned ? steps.last : steps.first);
    failed_path_ = PathBuffer(output_dir_).append("/").append(name.text());
    BASCULE_TRY(remove_folder(output_dir_.c_str(), name.text()));
  }
}

}  // namespace bascule
