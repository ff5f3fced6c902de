// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/draw_results.h"

#include <cstdio>

#include "src/json/json.h"
#include "src/records/readable.h"

namespace bascule {
namespace {

double per(double amount, double count) { return count > 0.0 ? amount / count : 0.0; }

// One line of the summary.
std::string line(const char* name, const std::string& value) {
  char text[64];
  std::snprintf(text, sizeof text, "  %-30.30s ", name);
  return text + value + "\n";
}

}  // namespace

std::string draw_results_json(const RecordedDrawRun& run, const DrawResults& results) {
  const double drawn = static_cast<double>(results.pictures), timed = static_cast<double>(results.timed_pictures);
  Json json = {{"pictures", results.pictures + results.found},
               {"pictures_drawn", results.pictures},
               {"pictures_found", results.found},
               {"draw_runtime", results.seconds},
               {"seconds_per_picture", per(results.seconds, drawn)},
               {"calls_per_picture", static_cast<std::int64_t>(run.program.calls.size())},
               {"prompt_seconds", results.stages.prompts},
               {"denoising_seconds", results.stages.calls},
               {"decoding_seconds", results.stages.decoding},
               {"writing_seconds", results.writing_seconds},
               {"planned_bytes", static_cast<std::int64_t>(results.planned_bytes)},
               {"resident_bytes", static_cast<std::int64_t>(results.resident_bytes)},
               {"library_allocations", static_cast<std::int64_t>(results.foreign_calls)}};
  if (results.timed_pictures > 0) json["draw_pictures_per_second"] = per(timed, results.timed_seconds);
  return json_text(json, 4) + "\n";
}

std::string draw_summary(const RecordedDrawRun& run, const DrawResults& results) {
  const double drawn = static_cast<double>(results.pictures), timed = static_cast<double>(results.timed_pictures);
  std::string text = "draw\n";
  text += line("pictures", std::to_string(results.pictures + results.found) +
                               (results.found > 0 ? "  (" + std::to_string(results.found) + " were there)" : ""));
  text += line("size", std::to_string(run.options.width) + " x " + std::to_string(run.options.height) + " pixels, " +
                           std::to_string(run.program.calls.size()) + " calls of the UNet each");
  if (results.pictures > 0) {
    text += line("time", std::string(readable_seconds(results.seconds).c_str()) + ", " +
                             readable_seconds(per(results.seconds, drawn)).c_str() + " a picture");
    text += line("  prompts", readable_seconds(results.stages.prompts).c_str());
    text += line("  calls of the UNet", readable_seconds(results.stages.calls).c_str());
    text += line("  decoding", readable_seconds(results.stages.decoding).c_str());
    text += line("  writing", readable_seconds(results.writing_seconds).c_str());
  }
  if (results.timed_pictures > 0)
    text += line("throughput", std::string(readable_number(per(timed, results.timed_seconds)).c_str()) +
                                   " pictures/s, without warm-up");
  text += line("memory", "planned " + std::string(readable_bytes(results.planned_bytes).c_str()) + ", resident " +
                             readable_bytes(results.resident_bytes).c_str());
  if (results.guarded)
    text +=
        line("allocations after the seal",
             "none of ours, " + std::to_string(results.foreign_calls) + " of libraries" +
                 (results.foreign_calls > 0 ? ", " + std::string(readable_bytes(results.foreign_bytes).c_str()) : ""));
  return text;
}

}  // namespace bascule
