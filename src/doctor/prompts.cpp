// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/doctor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/doctor/finding.h"
#include "src/record/check_fits.h"
#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"

namespace bascule {
namespace {

constexpr std::size_t kShown = 100;

Example shown(const std::string& text, const std::string& more = "") {
  const std::string line = printable_line(text);
  return {"\"" + line.substr(0, utf8_cut(line, kShown)) + (line.size() > kShown ? "..." : "") + "\"" + more, {}};
}

void find_cut(const PictureList& list, std::size_t most, std::vector<Finding>* findings) {
  if (list.notes.empty()) return;
  const std::int64_t count = static_cast<std::int64_t>(list.notes.size());
  Finding finding{Level::kWarning, "cut_texts",
                  counted(count, "prompt") + " " + verb_of(count) + " cut at the length that the model reads",
                  "shorten them: what is behind the cut has no effect", count};
  for (std::size_t i = 0; i < std::min(most, list.notes.size()); ++i)
    finding.examples.push_back({printable_line(list.notes[i]), {}});
  findings->push_back(std::move(finding));
}

void find_empty(const PictureList& list, const std::vector<std::int32_t>& prompts, std::vector<Finding>* findings) {
  const std::int64_t count = std::count_if(prompts.begin(), prompts.end(), [&](std::int32_t prompt) {
    return list.texts[static_cast<std::size_t>(prompt)].text.find_first_not_of(" \t") == std::string::npos;
  });
  if (count == 0) return;
  findings->push_back({Level::kWarning, "empty_texts", counted(count, "prompt") + " " + has_of(count) + " no words",
                       "write a text, or remove the row", count});
}

void find_equal(const PictureList& list, const std::vector<std::int32_t>& prompts, std::size_t most,
                std::vector<Finding>* findings) {
  std::map<std::int32_t, std::int64_t> rows;
  for (const std::int32_t prompt : prompts) ++rows[prompt];
  Finding repeated{Level::kNote, "repeated_texts", "", "", 0};
  for (const auto& [prompt, count] : rows) {
    if (count < 2) continue;
    repeated.count += count - 1;
    if (repeated.examples.size() < most)
      repeated.examples.push_back(
          shown(list.texts[static_cast<std::size_t>(prompt)].text, ", " + count_text(count) + " times"));
  }
  repeated.what =
      counted(repeated.count, "prompt") + (repeated.count == 1 ? " repeats" : " repeat") + " an earlier one";
  if (repeated.count > 0) findings->push_back(std::move(repeated));
  // With the noise of a row's own seed, pictures are equal too.
  std::map<std::tuple<std::int32_t, std::int32_t, std::uint64_t, std::int64_t>, std::int64_t> pictures;
  for (const ListedPicture& picture : list.pictures)
    ++pictures[{picture.prompt, picture.negative, picture.seed, picture.noise}];
  const std::int64_t twice = static_cast<std::int64_t>(list.pictures.size() - pictures.size());
  if (twice == 0) return;
  Finding equal{Level::kWarning, "equal_pictures",
                counted(twice, "picture") + " would be drawn with the prompt and the noise of an earlier one",
                "change the seed of the row, or remove it", twice};
  for (const auto& [picture, count] : pictures) {
    if (count > 1 && equal.examples.size() < most)
      equal.examples.push_back(shown(list.texts[static_cast<std::size_t>(std::get<0>(picture))].text,
                                     ", seed " + std::to_string(std::get<2>(picture))));
  }
  findings->push_back(std::move(equal));
}

}  // namespace

void diagnose_prompts(const Settings& settings, const DoctorOptions& options, Diagnosis* diagnosis) {
  std::unique_ptr<RecordedDrawRun> run;
  try {
    run = record_draw_run(settings, planned_place(settings.distributed, settings.origin));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kSettings) throw;
    diagnosis->findings.push_back(
        {Level::kFails, "run_refused", error.where() + ": " + error.problem(), error.what_to_do(), 1});
    diagnosis->exit_code = exit_code(error.kind());
    return;
  }
  const std::size_t each = static_cast<std::size_t>(settings.draw.num_images_per_prompt);
  std::vector<std::int32_t> prompts;
  for (std::size_t i = 0; i < run->list.pictures.size(); i += each) prompts.push_back(run->list.pictures[i].prompt);
  SplitFigures figures;
  figures.name = "prompts";
  figures.file = settings.draw.prompts_file.is_given() ? settings.draw.prompts_file.shown() : settings.origin.file;
  figures.rows = static_cast<std::int64_t>(prompts.size());
  diagnosis->splits.push_back(std::move(figures));
  find_cut(run->list, options.most_examples, &diagnosis->findings);
  find_empty(run->list, prompts, &diagnosis->findings);
  find_equal(run->list, prompts, options.most_examples, &diagnosis->findings);
  const ProcessLimits now = limits_of_machine(options.profile);
  TimeFigures time;
  time.planned_bytes = static_cast<std::int64_t>(run->plan.peak_bytes());
  time.memory_bytes = static_cast<std::int64_t>(memory_of_plan(settings.machine, now));
  time.batch = settings.draw.batch_size;
  diagnosis->time = time;
  try {
    check_fits(*run, limits_of_plan(settings.machine, now));
  } catch (const Error& error) {
    diagnosis->findings.push_back({Level::kFails, "too_large", error.problem(), error.what_to_do(), 1});
    diagnosis->exit_code = exit_code(error.kind());
  }
}

}  // namespace bascule
