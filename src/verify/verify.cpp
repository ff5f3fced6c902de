// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify.h"

#include <cstdio>
#include <filesystem>

#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/generate/pipeline.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/models/families.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/threads.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

std::vector<std::string> find_cases(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  std::vector<std::string> cases;
  for (const std::string& folder : folders) {
    if (fs::exists(folder + "/case.json")) {
      cases.push_back(folder);
      continue;
    }
    const std::size_t before = cases.size();
    for (const std::string& entry : folder_entries(folder)) {
      if (fs::exists(folder + "/" + entry + "/case.json")) cases.push_back(folder + "/" + entry);
    }
    if (cases.size() == before)
      throw Error(ErrorKind::kData, folder, "holds no reference case (no case.json)",
                  "name a case or a folder of cases");
  }
  return cases;
}

constexpr const char* kNothing = "holds nothing that can be compared";

void print_case(const VerifiedCase& result) {
  if (!result.unknown.empty()) {
    std::printf("not compared %s: %s\n", result.name.c_str(), result.unknown.c_str());
    return;
  }
  for (const NotCompared& tensor : result.not_compared)
    std::printf("  not compared: %s: %s\n", tensor.name.c_str(), tensor.reason.c_str());
  if (result.tensors.empty()) {
    std::printf("FAILED %-24s %s\n", result.name.c_str(), kNothing);
    return;
  }
  double worst = 0.0;
  const VerifiedTensor* worst_tensor = nullptr;
  std::size_t failed = 0;
  for (const VerifiedTensor& tensor : result.tensors) {
    const double ratio = tensor.limit > 0.0 ? tensor.error / tensor.limit : tensor.error;
    if (!(ratio <= worst) || worst_tensor == nullptr) {
      worst = ratio;
      worst_tensor = &tensor;
    }
    if (tensor.passed()) continue;
    ++failed;
    std::printf("  FAILED %-90s %10.3e limit %10.3e reference %10.3e\n", tensor.name.c_str(), tensor.error,
                tensor.limit, tensor.reference);
  }
  std::printf("%s %-24s %4zu tensors, %zu failed; closest to its limit: %s at %.2f of it",
              result.passed() ? "passed" : "FAILED", result.name.c_str(), result.tensors.size(), failed,
              worst_tensor->name.c_str(), worst);
  if (result.bf16_draws > 1)
    std::printf("; limits by the worst of %lld runs of autocast", static_cast<long long>(result.bf16_draws));
  std::printf("\n");
}

Json json_of(const VerifiedCase& result) {
  Json tensors = Json::array();
  for (const VerifiedTensor& tensor : result.tensors) {
    Json entry = {{"name", tensor.name}};
    constexpr const char* kMeasures[] = {"relative_l2", "one_minus_cosine", "norm"};
    const std::string measure = kMeasures[static_cast<int>(tensor.measure)];
    entry[measure] = tensor.error;
    if (tensor.measure != Measure::kNorm) entry["reference_" + measure] = tensor.reference;
    entry["limit"] = tensor.limit;
    entry["passed"] = tensor.passed();
    tensors.push_back(entry);
  }
  Json not_compared = Json::array();
  for (const NotCompared& tensor : result.not_compared)
    not_compared.push_back({{"name", tensor.name}, {"reason", tensor.reason}});
  Json document = {{"case", result.name}, {"passed", result.passed()}, {"tensors", tensors}};
  document["not_compared"] = not_compared;
  if (!result.unknown.empty()) {
    document["passed"] = nullptr;
    document["problem"] = result.unknown;
  } else if (result.tensors.empty()) {
    document["problem"] = kNothing;
  }
  if (result.bf16_draws > 0) document["bf16_draws"] = result.bf16_draws;
  return document;
}

}  // namespace

VerifiedCase verify_case(const std::string& folder, Precision precision, const KernelTable& kernels, int threads) {
  const std::string description = folder + "/case.json";
  VerifiedCase result;
  result.name = get_string(read_json_file(description), "case", description, folder);
  try {
    if (is_pipeline_folder(folder)) {
      judge_drawing(folder, precision, kernels, threads, &result);
    } else {
      judge_model(folder, precision, kernels, threads, &result);
    }
  } catch (const UnknownFamily& unknown) {
    result.unknown = unknown.what();
  }
  return result;
}

int verify_threads(const VerifyArguments& arguments) {
  return arguments.threads > 0 ? arguments.threads : threads_within(read_process_limits(), usable_cores(), 1);
}

Bf16Law law_of(const VerifyArguments& arguments) {
  const bool are_tiles =
      arguments.bf16_sums.empty() ? arguments.isa == isa_name(Isa::kAmx) : arguments.bf16_sums == "tiles";
  return are_tiles ? Bf16Law::kTiles : Bf16Law::kPairs;
}

int verify_command(const VerifyArguments& arguments) {
  const Precision precision = read_number_type(arguments.precision);
  if (arguments.bits) return verify_bits_command(arguments);
  if (arguments.folders.empty()) {
    throw Error(ErrorKind::kSettings, "verify", "missing folder of reference cases",
                "name one, or check the bits of this machine with --bits");
  }
  const Bf16Law law = law_of(arguments);
  const KernelTable& kernels = kernels_for(choose_isa(arguments.isa, law), law);
  const int threads = verify_threads(arguments);
  bool passed = true;
  Json cases = Json::array();
  for (const std::string& folder : find_cases(arguments.folders)) {
    const VerifiedCase result = verify_case(folder, precision, kernels, threads);
    passed = passed && (result.passed() || !result.unknown.empty());
    if (arguments.json) {
      cases.push_back(json_of(result));
    } else {
      print_case(result);
    }
  }
  if (arguments.json) std::printf("%s\n", json_text({{"passed", passed}, {"cases", cases}}).c_str());
  return passed ? 0 : exit_code(ErrorKind::kData);
}

}  // namespace bascule
