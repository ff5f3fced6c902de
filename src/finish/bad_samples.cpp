// SPDX-License-Identifier: Apache-2.0
#include "src/finish/finish.h"

#include <set>

#include "src/base/paths.h"
#include "src/seal/sealed_run.h"

namespace bascule {
namespace {

// Rows on a page; all_results.json has all that are listed.
constexpr std::size_t kMostShown = 100;

std::string left_out(const Report& report) {
  const std::int64_t listed = static_cast<std::int64_t>(report.bad_samples.size());
  if (report.bad_sample_count <= listed) return "";
  return "the list is full: " + std::to_string(listed) + " of " + std::to_string(report.bad_sample_count) +
         " are listed";
}

// A row that was taken out of the file has no picture any more.
std::string named_reason(const BadSample& bad) { return (bad.picture.empty() ? "" : bad.picture + ": ") + bad.reason; }

FactTable table_of(const Report& report) {
  FactTable table{
      "Skipped samples",
      "A picture cannot be read, or a text is empty. Training used the next good row in place of each; evaluations "
      "skipped them.",
      {}};
  for (const SplitRows& split : report.rows) {
    if (split.skipped > 0) table.rows.push_back({"total", skipped_text(split)});
  }
  for (const BadSample& bad : report.bad_samples) {
    if (table.rows.size() > kMostShown) {
      table.rows.push_back({"...", "see all_results.json for the rest"});
      break;
    }
    const std::string then = bad.replaced_by.empty()
                                 ? ", skipped"
                                 : ", epoch " + std::to_string(bad.epoch) + ", replaced by " + bad.replaced_by;
    table.rows.push_back({bad.row, named_reason(bad) + "; in " + bad.split + then});
  }
  const std::string more = left_out(report);
  if (!more.empty()) table.rows.push_back({"...", more});
  return table;
}

}  // namespace

std::vector<SkippedSamples> gather_skipped(SealedRun& sealed, Group& group) {
  std::vector<SkippedSamples> all;
  for (const RecordedSplit& split : sealed.run().data.splits) {
    const Stream& stream = sealed.loader().stream(split.stream);
    ReplacedSamples* const shared = sealed.replaced();
    // The memory is that of the next split too. Where a rank has failed, the watch over ranks says so.
    const bool are_there = shared != nullptr && shared->gather(stream);
    const Span<const ReplacedSample> listed = are_there && group.is_first() ? shared->merge() : stream.replacements();
    all.push_back({&split,
                   {listed.begin(), listed.end()},
                   are_there ? shared->bad_samples() : stream.statistics().bad_samples,
                   sealed.run().data.loader.max_replacements});
    if (are_there && !group.barrier()) break;
  }
  return all;
}

void add_bad_samples(Report* report, const std::vector<SkippedSamples>& skipped) {
  for (const SkippedSamples& of_split : skipped) {
    const RecordedSplit& split = *of_split.split;
    const Manifest& manifest = *split.manifest;
    report->bad_sample_count += of_split.count;
    if (split.split == Split::kTrain) report->loader.bad_samples = of_split.count;
    std::set<std::int64_t> distinct;
    for (const ReplacedSample& one : of_split.listed) {
      distinct.insert(one.bad_row);
      report->bad_samples.push_back(
          {split_name(split.split), one.epoch, manifest.where(one.bad_row),
           manifest.is_taken_out(one.bad_row) ? std::string() : std::string(manifest.row(one.bad_row).image_path),
           bad_picture_text(one), one.row < 0 ? "" : manifest.where(one.row)});
    }
    SplitRows rows;
    rows.split = split.split;
    rows.rows = manifest.rows() - static_cast<std::int64_t>(manifest.taken_out().size());
    const EvaluationRecord* const record = last_evaluation(*report, split.split);
    if (record != nullptr && split.split != Split::kTrain) rows.judged = record->samples;
    rows.skipped = of_split.count;
    rows.skipped_rows = static_cast<std::int64_t>(distinct.size());
    rows.listed = static_cast<std::int64_t>(of_split.listed.size());
    rows.list_is_full = rows.listed >= of_split.list_room;
    report->rows.push_back(rows);
  }
  if (report->bad_sample_count > 0) report->facts.push_back(table_of(*report));
}

std::string bad_samples_note(const Report& report) {
  if (report.bad_sample_count == 0) return "";
  const std::string more = left_out(report);
  std::string note = "bad samples: ";
  for (const SplitRows& split : report.rows) {
    if (split.skipped > 0) note += skipped_text(split) + "; ";
  }
  note += "see all_results.json";
  if (!more.empty()) note += " (" + more + ")";
  if (!report.bad_samples.empty()) {
    const BadSample& first = report.bad_samples[0];
    note += "; first: " + shown_path(first.row) + ": " + named_reason(first);
  }
  return note;
}

}  // namespace bascule
