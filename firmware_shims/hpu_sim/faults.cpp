// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/hpu_sim/faults.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace bascule::hpu_sim {
namespace {

// In the order of the enumerators.
constexpr const char* kFaultNames[kFaultKinds] = {
    "lost_completion", "duplicated_completion", "late_completion", "corrupted_completion", "corrupted_descriptor",
    "short_dma",       "decode_error",          "stalled_unit",    "queue_overrun",        "wrong_firmware",
    "surprise_reset",  "reset_storm",           "hung_reset",      "device_gone",          "spurious_interrupt",
    "lost_doorbell"};

constexpr const char kNoOption[] = "the options are rate=, latency_ms=, seed=, fault=, polling= and timeout_ms=";
constexpr const char kNoFault[] =
    "the faults are lost_completion, duplicated_completion, late_completion, corrupted_completion, "
    "corrupted_descriptor, short_dma, decode_error, stalled_unit, queue_overrun, wrong_firmware, surprise_reset, "
    "reset_storm, hung_reset, device_gone, spurious_interrupt and lost_doorbell";
constexpr const char kNoProbability[] = "write a probability from 0 to 1 after the colon";
constexpr const char kNoPlace[] = "write the number of a picture, from 1, after the @";
constexpr const char kNoWhen[] = "write a fault as name:probability or name@picture";

constexpr std::size_t kLongestWord = 96;

// The number that `text` is, whole, up to its end.
bool read_number(double* value, const char* text) {
  char* end = nullptr;
  *value = std::strtod(text, &end);
  return end != text && *end == '\0' && std::isfinite(*value);
}

bool read_count(std::uint64_t* value, const char* text) {
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  *value = std::strtoull(text, &end, 10);
  return *end == '\0';
}

const char* parse_fault(FaultRule* rule, const char* text) {
  const std::size_t name = std::strcspn(text, ":@");
  int kind = 0;
  while (kind < kFaultKinds &&
         (std::strlen(kFaultNames[kind]) != name || std::strncmp(kFaultNames[kind], text, name) != 0)) {
    ++kind;
  }
  if (kind == kFaultKinds) return kNoFault;
  *rule = {static_cast<Fault>(kind), 0.0, 0};
  if (text[name] == '\0') return kNoWhen;
  if (text[name] == '@') return read_count(&rule->at, text + name + 1) && rule->at > 0 ? nullptr : kNoPlace;
  const bool fits =
      read_number(&rule->probability, text + name + 1) && rule->probability >= 0.0 && rule->probability <= 1.0;
  return fits ? nullptr : kNoProbability;
}

// One word "name=value"; null, or what is wrong with it.
const char* parse_word(Options* options, const char* word) {
  const char* const equals = std::strchr(word, '=');
  if (equals == nullptr) return kNoOption;
  const auto is = [&](const char* name) {
    return std::strlen(name) == static_cast<std::size_t>(equals - word) &&
           std::strncmp(word, name, std::strlen(name)) == 0;
  };
  const char* const value = equals + 1;
  std::uint64_t count = 0;
  if (is("rate"))
    return read_number(&options->rate, value) && options->rate >= 0.0 ? nullptr : "rate= must be 0 or more";
  if (is("latency_ms")) {
    const bool fits = read_number(&options->latency_ms, value) && options->latency_ms >= 0.0;
    return fits && options->latency_ms <= 1e6 ? nullptr : "latency_ms= must be from 0 to 1000000";
  }
  if (is("seed")) return read_count(&options->seed, value) ? nullptr : "seed= must be a whole number";
  if (is("polling")) return read_count(&count, value) && count <= 1 ? nullptr : "polling= must be 0 or 1";
  if (is("timeout_ms")) {
    return read_count(&count, value) && count >= 1 && count <= 1000000 ? nullptr
                                                                       : "timeout_ms= must be from 1 to 1000000";
  }
  if (!is("fault")) return kNoOption;
  if (options->rule_count == kMostRules) return "at most 32 faults are allowed";
  const char* const problem = parse_fault(&options->rules[options->rule_count], value);
  if (problem == nullptr) ++options->rule_count;
  return problem;
}

// splitmix64's finaliser over the three coordinates.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t fault, std::uint64_t number) noexcept {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15u + fault * 0xD1B54A32D192ED03u + number * 0x8CB92BA72F3D8DD7u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

const char* fault_name(int number) { return number >= 0 && number < kFaultKinds ? kFaultNames[number] : nullptr; }

const char* option_problem(const char* word) {
  if (std::strlen(word) >= kLongestWord) return "an option must have at most 95 characters";
  if (std::strpbrk(word, " \t\n") != nullptr) return "an option must not contain spaces";
  Options ignored;
  return parse_word(&ignored, word);
}

bool parse_options(Options* options, const char* text) {
  *options = Options();
  while (text != nullptr && *text != '\0') {
    const std::size_t length = std::strcspn(text, " ");
    char word[kLongestWord];
    if (length >= sizeof word) return false;
    std::memcpy(word, text, length);
    word[length] = '\0';
    if (length > 0 && parse_word(options, word) != nullptr) return false;
    text += length;
    text += *text == ' ' ? 1 : 0;
  }
  return true;
}

std::uint64_t draw(const Options& options, Fault fault, std::uint64_t number) noexcept {
  return mixed(options.seed, static_cast<std::uint64_t>(fault) + kFaultKinds, number);
}

bool strikes(const Options& options, Fault fault, std::uint64_t number) noexcept {
  for (int i = 0; i < options.rule_count; ++i) {
    const FaultRule& rule = options.rules[i];
    if (rule.fault != fault) continue;
    if (rule.at == number) return true;
    if (rule.at != 0) continue;
    constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
    const auto high = mixed(options.seed, static_cast<std::uint64_t>(fault), number) >> 11;
    if (static_cast<double>(high) * kUnit < rule.probability) return true;
  }
  return false;
}

}  // namespace bascule::hpu_sim
