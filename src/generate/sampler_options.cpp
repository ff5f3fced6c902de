// SPDX-License-Identifier: Apache-2.0
#include "src/generate/samplers.h"

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// Options that no sampler here has, whichever of diffusers' classes reads them.
constexpr OnlyValue kOnly[] = {{"trained_betas", "null", "null"},
                               {"thresholding", "false", "false"},
                               {"rescale_betas_zero_snr", "false", "false"},
                               {"use_karras_sigmas", "false", "false"},
                               {"use_exponential_sigmas", "false", "false"},
                               {"use_beta_sigmas", "false", "false"},
                               {"final_sigmas_type", "\"zero\"", "\"zero\""},
                               {"timestep_type", "\"discrete\"", "\"discrete\""},
                               {"interpolation_type", "\"linear\"", "\"linear\""}};

// Above this the angles of the time embedding leave the range of fixed_cos().
constexpr std::int64_t kMostTrainingSteps = 100000;
// Below this share of the picture at the last timestep, a step would multiply by more than float32 holds exactly.
constexpr double kLeastAlpha = 1e-12;

template <typename Value>
struct Named {
  const char* name;
  Value value;
};
constexpr Named<TimestepSpacing> kSpacings[] = {{"leading", TimestepSpacing::kLeading},
                                                {"linspace", TimestepSpacing::kLinspace},
                                                {"trailing", TimestepSpacing::kTrailing}};
constexpr Named<BetaSchedule> kBetaSchedules[] = {{"linear", BetaSchedule::kLinear},
                                                  {"scaled_linear", BetaSchedule::kScaledLinear}};
constexpr Named<Prediction> kPredictions[] = {{"epsilon", Prediction::kNoise}, {"v_prediction", Prediction::kVelocity}};

// "a", "b" or "c"
std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "\"" : i + 1 == names.size() ? " or \"" : ", \"") + names[i] + "\"";
  return list;
}

std::string sampler_names(const char* first) {
  std::vector<std::string> names;
  if (*first != '\0') names.emplace_back(first);
  for (const Sampler* sampler : samplers()) names.emplace_back(sampler->name);
  return listed(names);
}

// key: "" where `where` names it.
template <typename Value, std::size_t kCount>
Value value_named(const Named<Value> (&values)[kCount], const std::string& name, const char* key, ErrorKind kind,
                  const std::string& where) {
  std::vector<std::string> names;
  for (const Named<Value>& one : values) {
    if (name == one.name) return one.value;
    names.emplace_back(one.name);
  }
  throw Error(kind, where, (*key != '\0' ? std::string(key) + " = " : "") + "\"" + name + "\" is not supported",
              "use " + listed(names));
}

const Sampler& sampler_of(const Json& config, const std::string& where, const std::string& wanted) {
  const bool is_default = wanted == "default";
  const std::string class_name = is_default ? get_string(config, "_class_name", where) : "";
  for (const Sampler* sampler : samplers())
    if (is_default ? class_name == sampler->class_name : wanted == sampler->name) return *sampler;
  if (!is_default)
    throw Error(ErrorKind::kSettings, "scheduler", "\"" + wanted + "\" is unknown", "use " + sampler_names("default"));
  throw Error(ErrorKind::kData, where, "_class_name = \"" + class_name + "\" is not supported",
              "set scheduler to " + sampler_names(""));
}

void check_only(const Json& config, const std::string& where, const OnlyValue& only, const Sampler& sampler) {
  const Json* const stated = find_member(config, only.key, where);
  const Json value = stated != nullptr ? *stated : parse_json(only.fallback, where);
  if (value == parse_json(only.value, where)) return;
  const std::string of_class = stated != nullptr ? "" : std::string(", the default of ") + sampler.class_name + ",";
  const std::string advice = stated != nullptr && std::string(only.value) == only.fallback
                                 ? std::string("remove the key, or set it to ") + only.value
                                 : std::string("set it to ") + only.value + ", or choose another scheduler";
  throw Error(ErrorKind::kData, where,
              std::string(only.key) + " = " + json_text(value) + of_class + " is not supported", advice);
}

void read_betas(const Json& config, const std::string& where, SamplerOptions* options) {
  options->training_steps = get_int(config, "num_train_timesteps", where, 1000);
  if (options->training_steps < 2 || options->training_steps > kMostTrainingSteps) {
    throw Error(ErrorKind::kData, where,
                "num_train_timesteps = " + std::to_string(options->training_steps) + " is not between 2 and " +
                    std::to_string(kMostTrainingSteps));
  }
  const auto beta = [&](const char* key, double fallback) {
    const double value = get_number(config, key, where, fallback);
    if (value > 0.0 && value < 1.0) return value;
    throw Error(ErrorKind::kData, where, std::string(key) + " = " + json_text(value) + " is not between 0 and 1");
  };
  options->beta_start = beta("beta_start", 0.0001);
  options->beta_end = beta("beta_end", 0.02);
  options->beta_schedule = value_named(kBetaSchedules, get_string(config, "beta_schedule", where, "linear"),
                                       "beta_schedule", ErrorKind::kData, where);
  if (NoiseSchedule(*options).alpha(options->training_steps - 1) >= kLeastAlpha) return;
  throw Error(ErrorKind::kData, where, "the betas leave nothing of a picture at the last timestep",
              "check beta_start, beta_end and num_train_timesteps");
}

}  // namespace

SamplerOptions sampler_options_of(const Json& config, const std::string& where, const std::string& wanted,
                                  const std::string& spacing) {
  if (!config.is_object()) throw Error(ErrorKind::kData, where, "is not a JSON object");
  const Sampler& sampler = sampler_of(config, where, wanted);
  for (const OnlyValue& only : kOnly) check_only(config, where, only, sampler);
  for (const OnlyValue& only : sampler.only) check_only(config, where, only, sampler);
  SamplerOptions options;
  options.sampler = &sampler;
  options.is_final_alpha_one = get_bool(config, "set_alpha_to_one", where, sampler.is_final_alpha_one);
  read_betas(config, where, &options);
  options.prediction = value_named(kPredictions, get_string(config, "prediction_type", where, "epsilon"),
                                   "prediction_type", ErrorKind::kData, where);
  options.spacing = sampler.spacing;
  if (!spacing.empty()) {
    options.spacing = value_named(kSpacings, spacing, "", ErrorKind::kSettings, "timestep_spacing");
  } else if (find_member(config, "timestep_spacing", where) != nullptr) {
    options.spacing = value_named(kSpacings, get_string(config, "timestep_spacing", where), "timestep_spacing",
                                  ErrorKind::kData, where);
  }
  return options;
}

SamplerOptions read_sampler_options(const std::string& path, const std::string& wanted, const std::string& spacing) {
  return sampler_options_of(read_json_file(path), path, wanted, spacing);
}

}  // namespace bascule
