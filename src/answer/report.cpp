// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/base/error.h"

namespace bascule {
namespace {

// Whether two evaluations have the same weights and the same result.
bool is_same(const EvaluationRecord& a, const EvaluationRecord& b) {
  // Compares bits: two figures that could not be computed are both NaN, and count as the same.
  return a.global_step == b.global_step && a.samples == b.samples &&
         // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
         std::memcmp(&a.loss, &b.loss, sizeof a.loss) == 0 && std::memcmp(a.metric, b.metric, sizeof a.metric) == 0;
}

const char* state_word(ContractState state) {
  constexpr const char* kWords[] = {"kept", "BROKEN", "not checked"};
  return kWords[static_cast<int>(state)];
}

std::string device_text(const DeviceReport& device) {
  std::string text = device.engine + ": " + count_of(device.resets, "reset") + ", " +
                     count_of(device.retries, "picture") + " resubmitted";
  for (const DeviceReport::Fault& fault : device.faults) text += ", " + std::to_string(fault.count) + " " + fault.name;
  if (device.fell_back) text += "; DEVICE FAILED, the host engine took over";
  return text;
}

std::string best_text(const BestSummary& best) {
  const auto step = [](std::int64_t number) { return "step " + readable_count(number); };
  return best.figure + " " + readable_number(best.value) + " at " + step(best.step) +
         "; the folder holds the weights of " + step(best.weights_of);
}

std::string wire_text(const WireSummary& wire) {
  const std::uint64_t updates = static_cast<std::uint64_t>(std::max<std::int64_t>(1, wire.updates));
  return std::string("sent ") + readable_bytes(wire.sent_bytes / updates) + " per update, for " +
         readable_bytes(wire.gradient_bytes) + " of gradients; waited " +
         readable_seconds(wire.wait_seconds / static_cast<double>(updates));
}

std::string loader_text(const LoaderSummary& loader) {
  return can_deliver(loader.could_deliver_samples_per_second) + "; training waited " +
         readable_seconds(loader.step_waited_seconds) +
         formatted("; %.2f of %lld slots ready", loader.ring_occupancy, static_cast<long long>(loader.ring_slots));
}

// suffix: whose figures they are, if not those of the weights.
void add_metrics(std::vector<NamedText>& pairs, Metrics metrics, const EvaluationRecord& record, const char* suffix) {
  for (const Metric& metric : metrics) {
    if (std::isnan(record[metric])) continue;
    pairs.push_back(
        {std::string(split_name(record.split)) + " " + metric.title + suffix, readable_metric(metric, record[metric])});
  }
}

void add_headline(std::vector<NamedText>& pairs, const Report& report) {
  if (report.train.done) {
    pairs.push_back({"steps", readable_count(report.global_step) + formatted("  (%.2f epochs)", report.epoch)});
    if (!report.best.stopped_early.empty()) pairs.push_back({"stopped early", report.best.stopped_early});
    if (report.best.is_known) pairs.push_back({"best evaluation", best_text(report.best)});
    pairs.push_back({"mean training loss", readable_number(report.train.train_loss)});
    const WholeRun& whole = report.train.whole;
    const bool resumed = whole.processes > 1;
    const char* const here = resumed ? ", this process" : "";
    const std::string whole_run = ", whole run";
    if (report.train.trained_here()) {
      pairs.push_back({std::string("throughput") + here, readable_number(report.train.samples_per_second) +
                                                             " samples/s, " +
                                                             throughput_counts(report.train.counts_warmup)});
    }
    if (resumed) {
      pairs.push_back({"throughput" + whole_run, readable_number(whole.samples_per_second) + " samples/s over " +
                                                     readable_count(whole.steps) + " steps of " +
                                                     std::to_string(whole.processes) + " processes"});
    }
    if (report.train.trained_here()) pairs.push_back({"loader", loader_text(report.loader)});
    if (report.wire.is_there) pairs.push_back({"between machines", wire_text(report.wire)});
    if (report.train.trained_here()) {
      pairs.push_back(
          {std::string("training time") + here, readable_seconds(report.train.seconds) + ", " + kTrainingTimeCounts});
    }
    if (resumed) pairs.push_back({"training time" + whole_run, readable_seconds(whole.seconds)});
  }
  if (report.planned_bytes != 0) {
    std::string memory = std::string("planned ") + readable_bytes(report.planned_bytes);
    if (report.resident_bytes != 0) memory += std::string(", resident ") + readable_bytes(report.resident_bytes);
    pairs.push_back({"memory", memory});
  }
  if (report.device.is_there) pairs.push_back({"media engine", device_text(report.device)});
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const EvaluationRecord* const record = last_evaluation(report, split);
    if (record == nullptr) continue;
    if (!std::isnan(record->loss))
      pairs.push_back({std::string(split_name(split)) + " loss", readable_number(record->loss)});
    for (const SplitRows& rows : report.rows) {
      if (rows.split == split && rows.skipped > 0)
        pairs.push_back({std::string(split_name(split)) + " rows",
                         std::to_string(record->samples) + " evaluated, " + std::to_string(rows.skipped) + " skipped"});
    }
    add_metrics(pairs, report.metrics, *record, "");
    const EvaluationRecord* const averaged = averaged_evaluation(report, split);
    if (averaged == nullptr) continue;
    const char* const suffix = ", averaged weights";
    if (!std::isnan(averaged->loss))
      pairs.push_back({std::string(split_name(split)) + " loss" + suffix, readable_number(averaged->loss)});
    add_metrics(pairs, report.metrics, *averaged, suffix);
  }
}

}  // namespace

void set_evaluations(Report* report, Span<const EvaluationRecord> curve, std::vector<EvaluationRecord> final_ones) {
  std::vector<EvaluationRecord>& all = report->evaluations;
  all.assign(curve.begin(), curve.end());
  for (const EvaluationRecord& last : final_ones) {
    if (last.split == Split::kTest) {
      all.push_back(last);
    } else if (std::none_of(curve.begin(), curve.end(), [&](const auto& kept) { return is_same(kept, last); })) {
      const auto later =
          std::find_if(all.begin(), all.end(), [&](const auto& kept) { return kept.global_step > last.global_step; });
      all.insert(later, last);
    }
  }
  report->final_evaluations = std::move(final_ones);
}

const EvaluationRecord* last_evaluation(const Report& report, Split split) {
  const EvaluationRecord* last = nullptr;
  for (const auto* records : {&report.evaluations, &report.final_evaluations}) {
    for (const EvaluationRecord& record : *records) {
      if (record.split == split) last = &record;
    }
  }
  return last;
}

const EvaluationRecord* averaged_evaluation(const Report& report, Split split) {
  for (const EvaluationRecord& record : report.averaged_evaluations) {
    if (record.split == split) return &record;
  }
  return nullptr;
}

std::string skipped_text(const SplitRows& split) {
  const std::string name = std::string(split_name(split.split)) + ": ";
  if (split.judged >= 0)
    return name + count_of(split.skipped, "row") + " skipped, " + std::to_string(split.judged) + " evaluated";
  return name + (split.list_is_full ? "at least " : "") + count_of(split.skipped_rows, "row") + " skipped, " +
         count_of(split.skipped, "time") + " in total, each replaced by another row";
}

std::vector<StepShare> step_shares(const StepTotals& totals) {
  if (totals.wall_seconds <= 0.0) return {};
  std::vector<StepShare> shares;
  double rest = totals.wall_seconds;
  const auto add = [&](const char* name, double seconds) {
    shares.push_back(
        {name, seconds / static_cast<double>(std::max<std::int64_t>(totals.steps, 1)), seconds / totals.wall_seconds});
    rest -= seconds;
  };
  for (int phase = 0; phase < kStepPhases; ++phase)
    add(step_phase_name(static_cast<StepPhase>(phase)), totals.seconds[phase]);
  add("other", std::max(rest, 0.0));
  return shares;
}

std::string time_table(const Report& report) {
  const std::vector<StepShare> shares = step_shares(report.train.totals);
  if (shares.empty()) return "";
  Table table{"Time per step", {"", number(""), number(""), {"", ColumnKind::kBar}}};
  for (const StepShare& one : shares)
    table.rows.push_back({one.name, readable_seconds(one.seconds), readable_percent(one.share), bar_cell(one.share)});
  std::string out = table.name + "\n" + text_of(table, true);
  if (report.train.evaluation_seconds > 0.0 || report.train.save_seconds > 0.0) {
    out += std::string("  not included: evaluation ") + readable_seconds(report.train.evaluation_seconds) +
           ", saving " + readable_seconds(report.train.save_seconds) + " in total\n";
  }
  return out;
}

std::string contract_table(const std::vector<ContractResult>& contracts) {
  if (contracts.empty()) return "";
  Table table{"Contracts", {"", "", ""}};
  for (const ContractResult& contract : contracts)
    table.rows.push_back({contract.name, state_word(contract.state), contract.detail});
  return table.name + "\n" + text_of(table, true);
}

std::string summary_text(const Report& report) {
  std::vector<NamedText> pairs;
  add_headline(pairs, report);
  std::string out = "\n" + report.title + "\n" + text_of(pairs);
  for (const std::string& part : {time_table(report), contract_table(report.contracts)}) {
    if (!part.empty()) out += "\n" + part;
  }
  return out;
}

}  // namespace bascule
