// SPDX-License-Identifier: Apache-2.0
#include "src/plan/memory_plan.h"

#include <cstdio>

#include "src/base/check.h"
#include "src/base/span.h"

namespace bascule {
namespace {

std::string line(const std::string& name, std::size_t bytes, std::size_t total) {
  char text[160];
  const double mib = static_cast<double>(bytes) / 1048576.0;
  const double share = total > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(total) : 0.0;
  std::snprintf(text, sizeof text, "  %-28.80s %12.2f MiB %5.1f %%\n", name.c_str(), mib, share);
  return text;
}

}  // namespace

std::size_t MemoryPlan::lower_bound_bytes() const {
  std::size_t bound = ranks * index_bytes + server_bytes + program_of_ranks();
  for (const PlannedRange& category : categories) {
    const std::size_t bytes = category.name == "workspace" ? workspace_lower_bound_bytes : category.bytes;
    bound += category.shared ? bytes : ranks * bytes;
  }
  return bound;
}

const PlannedRange& MemoryPlan::operator[](const std::string& name) const {
  for (const PlannedRange& category : categories) {
    if (category.name == name) return category;
  }
  BASCULE_CHECK(false);  // no such category
  return categories.front();
}

MemoryPlan make_memory_plan(std::vector<PlannedRange> categories, std::size_t outside_bytes, std::size_t index_bytes,
                            std::size_t ranks) {
  MemoryPlan plan;
  plan.categories = std::move(categories);
  plan.outside_bytes = outside_bytes;
  plan.index_bytes = index_bytes;
  plan.ranks = ranks;
  for (PlannedRange& category : plan.categories) {
    std::size_t& end = category.shared ? plan.shared_bytes : plan.arena_bytes;
    category.offset = end;
    end = align_up(end + category.bytes, kPage);
  }
  return plan;
}

std::string print_memory_plan(const MemoryPlan& plan) {
  const std::size_t total = plan.peak_bytes();
  std::string text = "memory plan\n";
  const std::string times_ranks = plan.ranks > 1 ? " x " + std::to_string(plan.ranks) : "";
  for (const PlannedRange& category : plan.categories) {
    text += category.shared ? line(category.name, category.bytes, total)
                            : line(category.name + times_ranks, plan.ranks * category.bytes, total);
  }
  if (plan.server_bytes > 0) text += line("connections and bodies", plan.server_bytes, total);
  text += line("index of the data" + times_ranks, plan.ranks * plan.index_bytes, total);
  text += line("program and libraries", plan.program_of_ranks(), total);
  text += line("total", total, total);
  text += line("lower bound", plan.lower_bound_bytes(), total);
  if (!plan.largest.empty()) text += "largest buffers of the workspace\n";
  for (const LargestBuffer& buffer : plan.largest) {
    char row[200];
    std::snprintf(row, sizeof row, "  %-72.120s %10.2f MiB\n", buffer.name.c_str(),
                  static_cast<double>(buffer.bytes) / 1048576.0);
    text += row;
  }
  return text;
}

}  // namespace bascule
