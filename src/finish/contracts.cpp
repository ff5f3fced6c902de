// SPDX-License-Identifier: Apache-2.0
#include "src/finish/contracts.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/runtime/arena.h"
#include "src/runtime/guard.h"

namespace bascule {
namespace {

constexpr double kMemoryShare = 0.03, kMemoryBeside = 64.0 * 1048576.0;

ContractState kept_if(bool kept) { return kept ? ContractState::kKept : ContractState::kBroken; }

ContractResult numbers() { return {"Numbers", ContractState::kNotChecked, "run `bascule verify` to check"}; }
ContractResult no_errors() {
  return {"Errors", ContractState::kNotChecked, "none occurred in this run; the tests check them"};
}

ContractResult memory(const ContractFigures& figures) {
  if (figures.resident_bytes == 0)
    return {"Memory", ContractState::kNotChecked, "the kernel does not report the resident set"};
  const std::uint64_t resident = figures.resident_bytes, planned = figures.planned_bytes;
  const std::uint64_t apart = resident > planned ? resident - planned : planned - resident;
  const std::uint64_t allowed = memory_tolerance(planned);
  char text[160];
  const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
  const int length =
      std::snprintf(text, sizeof text, "resident %.1f MiB, planned %.1f MiB", mib(resident), mib(planned));
  if (apart > allowed)
    std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length),
                  ": %.1f MiB apart, where %.1f MiB are allowed", mib(apart), mib(allowed));
  return {"Memory", kept_if(apart <= allowed), text};
}

// Broken is never seen here: the guard ends the process at the first allocation of ours.
ContractResult sealed(const ContractFigures& figures) {
  if (!figures.guarded) return {"Sealed", ContractState::kNotChecked, "this build has no guard"};
  std::string detail = "Bascule allocated nothing after the seal (the first allocation would have ended the run); ";
  if (figures.foreign_calls == 0) {
    detail += "libraries allocated nothing";
  } else {
    detail += std::string("libraries made ") + readable_count(static_cast<std::int64_t>(figures.foreign_calls)) +
              " allocations, " + readable_bytes(figures.foreign_bytes) + " over the run";
  }
  return {"Sealed", ContractState::kKept, detail};
}

ContractResult durability(const ContractFigures& figures) {
  if (figures.checkpoints == 0) return {"Durability", ContractState::kNotChecked, "no checkpoint was due"};
  const std::string count = count_of(figures.checkpoints, "checkpoint");
  return {"Durability", kept_if(figures.newest_is_in_place),
          figures.newest_is_in_place ? count + ", each synced before it was renamed into place"
                                     : count + " saved, but the newest one is missing"};
}

// Every row of an evaluation is judged or named as left out, and every skipped sample is in the list while that has
// room.
ContractResult errors(const ContractFigures& figures) {
  std::string skipped, wrong;
  for (const SplitRows& split : figures.splits) {
    const std::string name = split_name(split.split);
    if (split.judged >= 0 && split.judged + split.skipped != split.rows) {
      wrong += (wrong.empty() ? "" : "; ") + name + ": " + count_of(split.judged, "row") + " evaluated and " +
               std::to_string(split.skipped) + " skipped of " + std::to_string(split.rows);
    }
    if (split.listed < split.skipped && !split.list_is_full)
      wrong += (wrong.empty() ? "" : "; ") + name + ": not every skipped sample is listed";
    if (split.skipped == 0) continue;
    skipped += (skipped.empty() ? "" : "; ") + skipped_text(split);
  }
  if (!wrong.empty()) return {"Errors", ContractState::kBroken, wrong};
  if (skipped.empty()) return no_errors();
  return {"Errors", ContractState::kKept, "bad samples are counted and listed: " + skipped};
}

std::string samples_of(std::int64_t count) {
  return std::string(readable_count(count)) + " " + noun_for(count, "sample");
}

// The samples of the records and those that the ranks' tapes were given must be the same ones.
ContractResult honest_figures(const ContractFigures& figures) {
  if (figures.updates == 0) return {"Honest figures", ContractState::kNotChecked, "nothing was trained"};
  if (figures.recorded_samples != figures.trained_samples || figures.counted_updates > figures.updates ||
      figures.counted_samples > figures.trained_samples) {
    return {"Honest figures", ContractState::kBroken,
            "the records have " + samples_of(figures.recorded_samples) + ", throughput counts " +
                std::string(readable_count(figures.counted_samples)) + " of " +
                count_of(figures.counted_updates, "update") + ", but " +
                std::string(readable_count(figures.trained_samples)) + " were trained in " +
                std::to_string(figures.updates)};
  }
  return {"Honest figures", ContractState::kKept,
          "throughput counts " + samples_of(figures.counted_samples) + " of " +
              count_of(figures.counted_updates, "update") +
              "; warm-up updates excluded: " + std::to_string(figures.updates - figures.counted_updates)};
}

ContractResult durability(const DrawnPictures& pictures) {
  if (pictures.drawn == 0) return {"Durability", ContractState::kNotChecked, "no picture was due"};
  if (pictures.missing > 0)
    return {"Durability", ContractState::kBroken, count_of(pictures.missing, "picture") + " drawn, but missing"};
  return {"Durability", ContractState::kKept,
          count_of(pictures.drawn, "picture") + ", each synced before it was renamed into place"};
}

ContractResult honest_figures(const DrawnPictures& pictures) {
  const std::string drawn = count_of(pictures.drawn, "picture");
  if (pictures.found + pictures.drawn != pictures.listed || pictures.timed > pictures.drawn) {
    return {"Honest figures", ContractState::kBroken,
            drawn + " drawn and " + std::to_string(pictures.found) + " found of " + std::to_string(pictures.listed) +
                "; throughput counts " + std::to_string(pictures.timed)};
  }
  if (pictures.timed == 0)
    return {"Honest figures", ContractState::kNotChecked, drawn + " drawn, no throughput measured"};
  return {"Honest figures", ContractState::kKept,
          "throughput counts " + std::to_string(pictures.timed) + " of " + drawn +
              " drawn; warm-up pictures excluded: " + std::to_string(pictures.drawn - pictures.timed)};
}

const char* bits(Products products) {
  return products == Products::kOurs
             ? "any x86-64 CPU with AVX2 and FMA gives the same; run again and compare to check"
             : "the same kind of CPU with the same machine.isa gives the same; run again and compare to check";
}

}  // namespace

SealedFigures measure_sealed(int processes) {
  SealedFigures figures;
  figures.guarded = guard_is_active();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, std::size(foreign));
  figures.resident_bytes = resident_bytes(processes);
  open_memory();
  for (const ForeignAllocations& one : Span<const ForeignAllocations>(foreign, count)) {
    figures.foreign_calls += one.calls;
    figures.foreign_bytes += one.bytes;
    figures.foreign_allocations.push_back(
        {one.library, count_of(one.calls, "call") + ", " + readable_bytes(one.bytes).c_str()});
  }
  return figures;
}

bool sum_of_machine(Group& group, std::initializer_list<std::uint64_t*> counts,
                    std::initializer_list<double*> seconds) {
  std::vector<double> own;
  for (const std::uint64_t* count : counts) own.push_back(static_cast<double>(*count));
  for (const double* number : seconds) own.push_back(*number);
  std::vector<double> all(own.size() * static_cast<std::size_t>(group.size()));
  if (!group.exchange(Span<const double>(own), Span<double>(all))) return false;
  std::fill(own.begin(), own.end(), 0.0);
  const double* next = all.data() + static_cast<std::size_t>(group.node() * group.local_size()) * own.size();
  for (int rank = 0; rank < group.local_size(); ++rank) {
    for (double& sum : own) sum += *next++;
  }
  next = own.data();
  for (std::uint64_t* count : counts) *count = static_cast<std::uint64_t>(*next++);
  for (double* number : seconds) *number = *next++;
  return true;
}

std::uint64_t memory_tolerance(std::uint64_t planned_bytes, std::size_t processes) {
  return static_cast<std::uint64_t>(kMemoryShare * static_cast<double>(planned_bytes) +
                                    kMemoryBeside * static_cast<double>(processes));
}

std::vector<ContractResult> judge_contracts(const ContractFigures& figures) {
  return {numbers(),
          memory(figures),
          sealed(figures),
          {"Bits", ContractState::kNotChecked, bits(figures.products)},
          durability(figures),
          errors(figures),
          honest_figures(figures)};
}

std::vector<ContractResult> judge_contracts(const ContractFigures& figures, const DrawnPictures& pictures) {
  return {numbers(),
          memory(figures),
          sealed(figures),
          {"Bits", ContractState::kNotChecked, bits(figures.products)},
          durability(pictures),
          no_errors(),
          honest_figures(pictures)};
}

std::vector<ContractResult> judge_contracts(const ContractFigures& figures, ServedRequests) {
  return {numbers(),
          memory(figures),
          sealed(figures),
          {"Bits", ContractState::kNotChecked,
           "an answer is a function of its request and the model, whatever the load; ask again to check"},
          {"Durability", ContractState::kNotChecked, "nothing is kept but the access log"},
          no_errors(),
          {"Honest figures", ContractState::kNotChecked, "no throughput is measured"}};
}

std::vector<MemoryCategory> planned_memory(const MemoryPlan& plan) {
  const std::size_t ranks = plan.ranks;
  const std::string note = ranks > 1 ? std::to_string(ranks) + " ranks together" : "";
  std::vector<MemoryCategory> memory;
  for (const PlannedRange& range : plan.categories)
    memory.push_back({range.name, range.shared ? range.bytes : ranks * range.bytes, range.shared ? "" : note});
  memory.push_back({"index of the data", ranks * plan.index_bytes, note});
  memory.push_back({"program and libraries", plan.program_of_ranks(), "estimated"});
  return memory;
}

}  // namespace bascule
