// SPDX-License-Identifier: Apache-2.0
// Each struct's facts are listed once, as members with their names: a writer and a reader walk the same list.
#include "src/machine/machine_json.h"

#include <tuple>
#include <type_traits>

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

template <typename Struct, typename Member>
struct Named {
  const char* name;
  Member Struct::*member;
};
template <typename Struct, typename Member>
constexpr Named<Struct, Member> named(const char* name, Member Struct::*member) {
  return {name, member};
}

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

template <typename Value>
struct IsVector : std::false_type {};
template <typename Element>
struct IsVector<std::vector<Element>> : std::true_type {};
template <typename Value>
struct IsOptional : std::false_type {};
template <typename Content>
struct IsOptional<std::optional<Content>> : std::true_type {};

template <typename Value>
Json written(const Value& value) {
  if constexpr (IsOptional<Value>::value) {
    return value ? Json(*value) : Json();
  } else if constexpr (IsVector<Value>::value) {
    Json list = Json::array();
    for (const auto& element : value) list.push_back(written(element));
    return list;
  } else if constexpr (std::is_class_v<Value> && !std::is_same_v<Value, std::string>) {
    Json object = Json::object();
    std::apply([&](const auto&... one) { ((object[one.name] = written(value.*one.member)), ...); }, members_of(&value));
    return object;
  } else {
    return value;
  }
}

struct Place {
  const std::string& file;
  std::string path;  // "machine.cores[2].package"

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kData, file, path + " " + problem, "the file is damaged, or another version wrote it");
  }
};

void read(const Json& json, const Place& place, std::int64_t* value) {
  if (!json.is_integer()) place.refuse("is not an integer");
  *value = json.integer();
}
void read(const Json& json, const Place& place, double* value) {
  if (!json.is_number()) place.refuse("is not a number");
  *value = json.number();
}
void read(const Json& json, const Place& place, bool* value) {
  if (!json.is_boolean()) place.refuse("must be true or false");
  *value = json.boolean();
}
void read(const Json& json, const Place& place, std::string* value) {
  if (!json.is_string()) place.refuse("is not a string");
  *value = json.string();
}
template <typename Struct>
void read(const Json& json, const Place& place, Struct* value);

template <typename Content>
void read(const Json& json, const Place& place, std::optional<Content>* value) {
  if (!json.is_null()) read(json, place, &value->emplace());
}
template <typename Element>
void read(const Json& json, const Place& place, std::vector<Element>* value) {
  if (!json.is_array()) place.refuse("is not a list");
  for (std::size_t i = 0; i < json.size(); ++i)
    read(json[i], Place{place.file, place.path + "[" + std::to_string(i) + "]"}, &value->emplace_back());
}

template <typename Struct>
void read(const Json& json, const Place& place, Struct* value) {
  if (!json.is_object()) place.refuse("is not an object");
  const auto member = [&](const auto& one) {
    const Place at{place.file, place.path + "." + one.name};
    const Json* const found = json.find(one.name);
    if (found == nullptr) at.refuse("is missing");
    read(*found, at, &(value->*one.member));
  };
  const auto members = members_of(value);
  std::apply([&](const auto&... one) { (member(one), ...); }, members);
  if (json.size() == std::tuple_size_v<decltype(members)>) return;
  for (const auto& [name, content] : json.items()) {
    const bool is_ours =
        std::apply([&, &key = name](const auto&... one) { return ((key == one.name) || ...); }, members);
    if (!is_ours) Place{place.file, place.path + "." + name}.refuse("is not known to this version");
  }
}

}  // namespace

Json machine_json(const Machine& machine) { return written(machine); }

Machine machine_from(const Json& json, const std::string& where) {
  Machine machine;
  read(json, Place{where, "machine"}, &machine);
  return machine;
}

}  // namespace bascule
