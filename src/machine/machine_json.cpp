// SPDX-License-Identifier: Apache-2.0
#include "src/machine/machine_json.h"

#include "src/json/members.h"

namespace bascule {
constexpr auto members_of(const ProcessorFacts*) {
  using F = ProcessorFacts;
  return std::make_tuple(named("vendor", &F::vendor), named("name", &F::name), named("microcode", &F::microcode),
                         named("family", &F::family), named("model", &F::model), named("stepping", &F::stepping),
                         named("vector_flags", &F::vector_flags), named("hypervisor", &F::hypervisor));
}
constexpr auto members_of(const CoreFacts*) {
  using F = CoreFacts;
  return std::make_tuple(named("number", &F::number), named("package", &F::package), named("core", &F::core),
                         named("node", &F::node), named("siblings", &F::siblings), named("governor", &F::governor),
                         named("least_khz", &F::least_khz), named("most_khz", &F::most_khz));
}
constexpr auto members_of(const CacheFacts*) {
  using F = CacheFacts;
  return std::make_tuple(named("level", &F::level), named("bytes", &F::bytes), named("type", &F::type),
                         named("cores", &F::cores));
}
constexpr auto members_of(const NodeFacts*) {
  using F = NodeFacts;
  return std::make_tuple(named("number", &F::number), named("cores", &F::cores), named("distances", &F::distances),
                         named("memory_bytes", &F::memory_bytes));
}
constexpr auto members_of(const GroupFacts*) {
  using F = GroupFacts;
  return std::make_tuple(named("folder", &F::folder), named("version", &F::version),
                         named("processors", &F::processors), named("cores", &F::cores),
                         named("memory_bytes", &F::memory_bytes));
}
constexpr auto members_of(const MemoryFacts*) {
  using F = MemoryFacts;
  return std::make_tuple(named("bytes", &F::bytes), named("swap_bytes", &F::swap_bytes),
                         named("swappiness", &F::swappiness), named("huge_page_bytes", &F::huge_page_bytes),
                         named("huge_pages_reserved", &F::huge_pages_reserved), named("transparent", &F::transparent),
                         named("shared_transparent", &F::shared_transparent), named("channels", &F::channels),
                         named("channels_filled", &F::channels_filled));
}
constexpr auto members_of(const KernelFacts::Mitigation*) {
  using F = KernelFacts::Mitigation;
  return std::make_tuple(named("name", &F::name), named("state", &F::state));
}
constexpr auto members_of(const KernelFacts*) {
  using F = KernelFacts;
  return std::make_tuple(named("release", &F::release), named("build", &F::build),
                         named("clock_source", &F::clock_source), named("mitigations", &F::mitigations));
}
constexpr auto members_of(const ProcessFacts::Node*) {
  using F = ProcessFacts::Node;
  return std::make_tuple(named("number", &F::number), named("pages", &F::pages));
}
constexpr auto members_of(const ProcessFacts*) {
  using F = ProcessFacts;
  return std::make_tuple(named("address_bytes", &F::address_bytes), named("data_bytes", &F::data_bytes),
                         named("stack_bytes", &F::stack_bytes), named("locked_bytes", &F::locked_bytes),
                         named("may_lock_all", &F::may_lock_all), named("address_bytes_used", &F::address_bytes_used),
                         named("data_bytes_used", &F::data_bytes_used), named("cores", &F::cores),
                         named("nodes", &F::nodes), named("pages", &F::pages));
}
constexpr auto members_of(const Counters::Core*) {
  using F = Counters::Core;
  return std::make_tuple(named("number", &F::number), named("busy_ms", &F::busy_ms), named("stolen_ms", &F::stolen_ms),
                         named("khz", &F::khz), named("throttles", &F::throttles));
}
constexpr auto members_of(const Counters::Group*) {
  using F = Counters::Group;
  return std::make_tuple(named("folder", &F::folder), named("periods", &F::periods),
                         named("throttled_periods", &F::throttled_periods), named("throttled_ns", &F::throttled_ns));
}
constexpr auto members_of(const Counters*) {
  using F = Counters;
  return std::make_tuple(named("run_ns", &F::run_ns), named("run_delay_ns", &F::run_delay_ns),
                         named("cores", &F::cores), named("groups", &F::groups),
                         named("cpu_pressure_us", &F::cpu_pressure_us),
                         named("memory_pressure_us", &F::memory_pressure_us),
                         named("io_pressure_us", &F::io_pressure_us), named("pages_swapped", &F::pages_swapped));
}
constexpr auto members_of(const Machine*) {
  using F = Machine;
  return std::make_tuple(named("processor", &F::processor), named("cores", &F::cores), named("caches", &F::caches),
                         named("nodes", &F::nodes), named("groups", &F::groups), named("memory", &F::memory),
                         named("kernel", &F::kernel), named("process", &F::process), named("counters", &F::counters));
}

Json machine_json(const Machine& machine) { return written(machine); }

Machine machine_from(const Json& json, const std::string& where) {
  Machine machine;
  read_members(json, {where, "machine"}, &machine);
  return machine;
}

}  // namespace bascule
