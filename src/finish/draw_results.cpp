// SPDX-License-Identifier: Apache-2.0
#include "src/finish/draw_results.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "src/answer/page.h"
#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/base/utf8.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/pictures/picture_decoder.h"
#include "src/plan/choose_recompute.h"
#include "src/runtime/choose_isa.h"
#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

constexpr std::size_t kNotes = 20;
constexpr std::size_t kNoteBytes = 400;

// Indented by four: a block of code, whatever the values hold. Values have no line breaks.
void add_keys(std::string* out, const KeyValues& keys) {
  for (const auto& [key, value] : keys) *out += "    " + key + " = " + value + "\n";
}

std::string short_line(const std::string& note) {
  if (note.size() <= kNoteBytes) return printable_line(note);
  return printable_line(note.substr(0, utf8_cut(note, kNoteBytes))) + "…";
}

}  // namespace

std::vector<std::string> short_notes(const std::vector<std::string>& notes) {
  std::vector<std::string> lines;
  for (const std::string& note : notes) {
    if (lines.size() == kNotes) break;
    lines.push_back(short_line(note));
  }
  const std::size_t more = notes.size() - lines.size();
  if (more > 0) lines.push_back("and " + std::to_string(more) + " more, which the run printed");
  return lines;
}

std::string draw_card(const RecordedDrawRun& run) {
  const std::filesystem::path folder = run.settings.run.output_dir.resolved;
  const std::size_t pictures = run.list.pictures.size();
  std::string out = "# " + folder.filename().string() + "\n\n" + count_of(pictures, "picture") + " of " +
                    std::to_string(run.options.width) + " x " + std::to_string(run.options.height) +
                    " pixels, drawn by Bascule " BASCULE_VERSION
                    " with the Stable Diffusion pipeline named below. [images.jsonl](images.jsonl) "
                    "has the prompt, the seed and the digest of each. The same settings draw the same pixels.\n";
  if (!run.notes.empty()) out += "\n## Notes\n\n";
  for (const std::string& note : short_notes(run.notes)) out += "    " + note + "\n";
  out += "\n## Settings\n\n";
  add_keys(&out, number_keys(run.settings));
  add_keys(&out, other_keys(run.settings));
  return out;
}

namespace {

std::string count(std::int64_t number) { return readable_count(number); }

double per(double amount, double count) { return count > 0.0 ? amount / count : 0.0; }

// The figures of a run, for the summary and the page; names that begin with spaces are parts of the one before.
std::vector<NamedText> figures_of(const RecordedDrawRun& run, const DrawResults& results) {
  const double drawn = static_cast<double>(results.pictures), timed = static_cast<double>(results.timed_pictures);
  std::vector<NamedText> figures;
  figures.push_back({"pictures", count(results.pictures + results.found) +
                                     (results.found > 0 ? ", " + count(results.found) + " of them found" : "")});
  figures.push_back({"size", std::to_string(run.options.width) + " x " + std::to_string(run.options.height) +
                                 " pixels, " + count_of(run.program.calls.size(), "call") +
                                 " of the UNet for each picture"});
  if (results.pictures > 0) {
    figures.push_back({"time", readable_seconds(results.seconds) + ", " +
                                   readable_seconds(per(results.seconds, drawn)) + " a picture"});
    figures.push_back({"  prompts", readable_seconds(results.stages.prompts) + ", " +
                                        count_of(results.encoded_texts, "text") + " encoded"});
    figures.push_back({"  calls of the UNet", readable_seconds(results.stages.calls)});
    figures.push_back({"  decoding", readable_seconds(results.stages.decoding)});
    figures.push_back({"  writing", readable_seconds(results.writing_seconds)});
  }
  if (results.timed_pictures > 0)
    figures.push_back({"throughput", readable_number(per(timed, results.timed_seconds)) + " pictures/s, with" +
                                         (run.settings.draw.throughput_warmup_batches > 0 ? "out" : "") + " warm-up"});
  figures.push_back({"memory", "planned " + readable_bytes(run.plan.peak_bytes()) + ", resident " +
                                   readable_bytes(results.resident_bytes)});
  if (results.guarded)
    figures.push_back({"allocations after the seal",
                       "none of ours, " + count(static_cast<std::int64_t>(results.foreign_calls)) + " of libraries" +
                           (results.foreign_calls > 0 ? ", " + readable_bytes(results.foreign_bytes) : "")});
  return figures;
}

// With sides of 96 pixels the copies in a page take less than 2.5 MB, whatever the pictures show.
constexpr std::size_t kShownPictures = 64;
constexpr std::int64_t kShownSide = 96;
constexpr double kLeastWork = 20.0;  // of a run, in that of measuring the limits

}  // namespace

MachineLimits limits_for_report(const RecordedDrawRun& run, std::int64_t missing, Isa isa) {
  const GemmType type = run.settings.model.precision == Precision::kBf16 ? GemmType::kBf16 : GemmType::kFloat32;
  const double calls = static_cast<double>(run.program.calls.size()) / static_cast<double>(run.options.batch);
  const double picture =
      calls * flops_of(run.session.graph(run.recorded.noise)) + flops_of(run.session.graph(run.recorded.decode));
  if (!run.settings.report.html || run.plan.peak_bytes() < kLimitsBytes ||
      static_cast<double>(missing) * picture < kLeastWork * limits_flops(type))
    return {};
  return measure_limits(run.settings.machine.products, type, kernels_for(isa, run.settings.machine), run.threads);
}

bool add_figures(const DrawTimes& times, SealedFigures figures, Group& group, DrawResults* results) {
  static_cast<DrawTimes&>(*results) = times;
  static_cast<SealedFigures&>(*results) = std::move(figures);
  DrawingSeconds& stages = results->stages;
  const std::initializer_list<double*> seconds = {&stages.prompts, &stages.calls, &stages.decoding,
                                                  &results->writing_seconds};
  std::uint64_t texts = static_cast<std::uint64_t>(times.encoded_texts);
  if (!sum_of_machine(group, {&results->resident_bytes, &results->foreign_calls, &results->foreign_bytes, &texts},
                      seconds))
    return false;
  results->encoded_texts = static_cast<std::int64_t>(texts);
  for (double* stage : seconds) *stage /= group.size();
  return true;
}

std::vector<ContractResult> contracts_of(const RecordedDrawRun& run, const DrawResults& results) {
  ContractFigures figures;
  static_cast<SealedFigures&>(figures) = results;
  figures.planned_bytes = run.plan.peak_bytes();
  figures.products = run.settings.machine.products;
  return judge_contracts(figures, {static_cast<std::int64_t>(run.list.pictures.size()), results.found, results.pictures,
                                   static_cast<std::int64_t>(run.files->missing().size()), results.timed_pictures});
}

std::string draw_results_json(const RecordedDrawRun& run, const DrawResults& results) {
  const double drawn = static_cast<double>(results.pictures), timed = static_cast<double>(results.timed_pictures);
  Json json = {{"pictures", results.pictures + results.found},
               {"pictures_drawn", results.pictures},
               {"pictures_found", results.found},
               {"draw_runtime", results.seconds},
               {"seconds_per_picture", per(results.seconds, drawn)},
               {"calls_per_picture", static_cast<std::int64_t>(run.program.calls.size())},
               {"texts_encoded", results.encoded_texts},
               {"prompt_seconds", results.stages.prompts},
               {"denoising_seconds", results.stages.calls},
               {"decoding_seconds", results.stages.decoding},
               {"writing_seconds", results.writing_seconds},
               {"planned_bytes", static_cast<std::int64_t>(run.plan.peak_bytes())},
               {"resident_bytes", static_cast<std::int64_t>(results.resident_bytes)},
               {"library_allocations", static_cast<std::int64_t>(results.foreign_calls)}};
  if (results.timed_pictures > 0) json["draw_pictures_per_second"] = per(timed, results.timed_seconds);
  return json_text(json, 4) + "\n";
}

std::string draw_summary(const RecordedDrawRun& run, const DrawResults& results) {
  return "draw\n" + text_of(figures_of(run, results));
}

DrawPage draw_page_of(const RecordedDrawRun& run, const DrawResults& results, const Tape& calls) {
  DrawPage page;
  page.title = std::filesystem::path(run.settings.run.output_dir.resolved).filename().string();
  page.figures = figures_of(run, results);
  for (const std::string& note : short_notes(run.notes)) page.figures.push_back({"note", note});
  BatchCounts counts = run.session.graph(run.recorded.noise).bounds();
  page.operations = times_by_kind(calls.node_times(counts), static_cast<double>(results.replays),
                                  results.limits.gigabytes_per_second > 0.0 ? &results.limits : nullptr);
  const std::size_t pictures = run.list.pictures.size();
  ThumbnailMaker maker(std::min({kShownSide, run.options.width, run.options.height}), CopyKind::kSqueezed);
  page.width = run.options.width;
  page.height = run.options.height;
  for (const DrawnPicture& picture : run.files->done()) {
    if (page.pictures.size() == kShownPictures) break;
    const ListedPicture& listed = run.list.pictures[picture.number];
    const std::string file = PictureName(picture.number, pictures).text();
    const auto text = [&](std::int32_t number) { return run.list.texts[static_cast<std::size_t>(number)].text; };
    page.pictures.push_back({file, text(listed.prompt), listed.negative == listed.prompt ? "" : text(listed.negative),
                             "seed " + std::to_string(listed.seed) + ", noise " + std::to_string(listed.noise) + ", " +
                                 readable_seconds(picture.seconds),
                             maker.make(run.settings.run.output_dir.resolved + "/" + file)});
  }
  page.all_pictures = pictures;
  page.settings = printed_keys(run.settings);
  return page;
}

void write_drawing(const RecordedDrawRun& run, const DrawResults& results, const Tape& calls) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  write_output_file(folder + "/all_results.json", draw_results_json(run, results));
  write_output_file(folder + "/README.md", draw_card(run));
  if (run.settings.report.html)
    write_output_file(folder + "/report.html", draw_html(draw_page_of(run, results, calls)));
}

}  // namespace bascule
