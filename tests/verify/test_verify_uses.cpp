// SPDX-License-Identifier: Apache-2.0
// A reference case without some of its parts is judged by the rest; what it holds and we do not compute is listed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "src/verify/verify.h"
#include "src/verify/verify_case.h"
#include "tests/verify/changed_case.h"

namespace bascule::test::test_verify_uses {
namespace {

const std::string kExpected = "expected.safetensors", kSteps = "steps.safetensors", kBatch = "batch.safetensors";

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }
bool is_gradient(const std::string& name) { return begins_with(name, "grad."); }

std::function<bool(const std::string&)> is(const std::string& wanted) {
  return [wanted](const std::string& name) { return name == wanted; };
}

Json without(const Json& object, const std::vector<std::string>& keys) {
  Json kept = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) kept[key] = value;
  }
  return kept;
}

void erase_keys(ChangedCase* changed, const std::vector<std::string>& keys, const std::string& file = "case.json") {
  changed->describe([&](Json* document) { *document = without(*document, keys); }, file);
}

void erase_run(ChangedCase* changed) {
  erase_keys(changed, {"train"});
  changed->erase(kSteps);
}

// Leaves outputs, labels and lists of parameters.
void erase_loss_and_gradients(ChangedCase* changed) {
  changed->remove(kExpected, [](const std::string& name) { return name == "loss" || is_gradient(name); });
}

std::size_t count_of(const VerifiedCase& result, const std::string& prefix) {
  return static_cast<std::size_t>(
      std::count_if(result.tensors.begin(), result.tensors.end(),
                    [&](const VerifiedTensor& tensor) { return begins_with(tensor.name, prefix); }));
}

std::vector<std::string> not_compared(const VerifiedCase& result) {
  std::vector<std::string> lines;
  for (const NotCompared& tensor : result.not_compared) lines.push_back(tensor.name + ": " + tensor.reason);
  return lines;
}

struct Graphs {
  bool trains, evaluates;
};

Graphs graphs_of(const ChangedCase& changed) {
  const CaseFiles files = open_case(changed.folder(), Precision::kFloat32);
  const CaseModel model(files, Precision::kFloat32, kernels_for(best_isa()), 1);
  return {model.trains(), model.evaluates()};
}

struct Printed {
  int code;
  std::string text;
};

Printed print(const ChangedCase& changed, bool json, const std::string& precision = "float32") {
  VerifyArguments arguments;
  arguments.folders = {changed.folder()};
  arguments.isa = "auto";
  arguments.precision = precision;
  arguments.threads = 1;
  arguments.json = json;
  ::testing::internal::CaptureStdout();
  const int code = verify_command(arguments);
  return {code, ::testing::internal::GetCapturedStdout()};
}

TEST(VerifyUses, ACaseWithoutGradientsIsJudgedByTheRest) {
  ChangedCase changed("itm_frozen");
  changed.remove(kExpected, is_gradient);
  erase_keys(&changed, {"gradient_norm", "gradient_sample"});
  erase_keys(&changed, {"gradients"}, "float32_error.json");
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(not_compared(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "grad."), 0u);
  for (const char* const name : {"logits", "loss (training)", "step7.loss", "update.itm_score.fc.bias"})
    EXPECT_EQ(count_of(result, name), 1u) << name;
  EXPECT_TRUE(result.passed());
}

TEST(VerifyUses, ACaseWithoutLossesIsJudgedByTheRest) {
  ChangedCase changed("itm_frozen");
  changed.remove(kExpected, is("loss"));
  changed.remove(kSteps, is("loss"));
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(not_compared(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "loss") + count_of(result, "step0.loss"), 0u);
  for (const char* const name : {"logits", "grad.itm_score.fc.bias", "step7.grad_norm", "param.itm_score.fc.bias"})
    EXPECT_EQ(count_of(result, name), 1u) << name;
}

TEST(VerifyUses, ACaseWithoutARunIsJudgedByTheRest) {
  ChangedCase changed("itm_frozen");
  erase_run(&changed);
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(not_compared(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "step") + count_of(result, "update."), 0u);
  EXPECT_EQ(count_of(result, "grad.itm_score.fc.bias"), 1u);
}

TEST(VerifyUses, StepsThatNoRunDescribesAreListed) {
  ChangedCase changed("itm_frozen");
  erase_keys(&changed, {"train"});
  EXPECT_EQ(not_compared(changed.verify()), std::vector<std::string>{"steps.safetensors: case.json has no \"train\""});
}

TEST(VerifyUses, PartsOfARunAreJudgedWithoutTheOthers) {
  ChangedCase series("itm_frozen");
  series.remove(kSteps, [](const std::string& name) { return begins_with(name, "param."); });
  series.describe([](Json* description) { (*description)["train"] = without((*description)["train"], {"log"}); });
  const VerifiedCase of_series = series.verify();
  EXPECT_EQ(failures(of_series), std::vector<std::string>{});
  EXPECT_EQ(count_of(of_series, "update."), 0u);
  EXPECT_EQ(count_of(of_series, "step7."), 3u);
  ChangedCase parameters("itm_frozen");
  parameters.remove(kSteps, [](const std::string& name) { return !begins_with(name, "param."); });
  const VerifiedCase of_parameters = parameters.verify();
  EXPECT_EQ(failures(of_parameters), std::vector<std::string>{});
  EXPECT_EQ(count_of(of_parameters, "step7."), 1u);  // the rate of the log
  EXPECT_EQ(count_of(of_parameters, "update.itm_score.fc.bias"), 1u);
}

TEST(VerifyUses, OutputsAloneNeedNoLabelsAndNoTrainingGraph) {
  for (const char* const name : {"itm_frozen", "mlm_tied", "base_model", "itc_add"}) {
    SCOPED_TRACE(name);
    ChangedCase changed(name);
    erase_loss_and_gradients(&changed);
    changed.remove(kBatch, [](const std::string& tensor) {
      return tensor.find(".labels") != std::string::npos || tensor.find(".cotangent.") != std::string::npos;
    });
    erase_run(&changed);
    erase_keys(&changed, {"unused_parameters", "frozen_parameters", "zero_gradient", "gradient_norm", "freeze"});
    const Graphs graphs = graphs_of(changed);
    EXPECT_TRUE(graphs.evaluates);
    EXPECT_FALSE(graphs.trains);
    const VerifiedCase result = changed.verify();
    EXPECT_EQ(failures(result), std::vector<std::string>{});
    EXPECT_EQ(not_compared(result), std::vector<std::string>{});
    EXPECT_EQ(result.tensors.size(), open_safetensors(changed.folder() + "/" + kExpected).tensors().size());
    changed.scale(kExpected, "pooler_output", 1, 1.01f);
    EXPECT_EQ(changed.failed(), std::vector<std::string>{"pooler_output"});
  }
}

TEST(VerifyUses, OutputsWithTheirLossNeedNoTrainingGraph) {
  ChangedCase changed("itm_frozen");
  changed.remove(kExpected, is_gradient);
  erase_run(&changed);
  const Graphs graphs = graphs_of(changed);
  EXPECT_TRUE(graphs.evaluates);
  EXPECT_FALSE(graphs.trains);
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "loss"), 1u);
}

TEST(VerifyUses, GradientsAloneNeedNoEvaluation) {
  ChangedCase changed("itm_frozen");
  changed.remove(kExpected, [](const std::string& name) { return !is_gradient(name); });
  erase_run(&changed);
  const Graphs graphs = graphs_of(changed);
  EXPECT_TRUE(graphs.trains);
  EXPECT_FALSE(graphs.evaluates);
  EXPECT_EQ(changed.failed(), std::vector<std::string>{});
}

TEST(VerifyUses, ALossWithoutLabelsIsRefused) {
  for (const char* const name : {"itm_frozen", "mlm_tied"}) {
    ChangedCase changed(name);
    changed.remove(kBatch, is("batch0.labels"));
    const std::string line = error_of([&] { changed.verify(); });
    EXPECT_NE(line.find("batch.safetensors: batch0 has no labels"), std::string::npos) << line;
  }
}

TEST(VerifyUses, ARunAloneNeedsNoOutputs) {
  ChangedCase changed("itm_frozen");
  changed.erase(kExpected);
  const Graphs graphs = graphs_of(changed);
  EXPECT_TRUE(graphs.trains);
  EXPECT_FALSE(graphs.evaluates);
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "step7.loss"), 1u);
  changed.scale(kSteps, "loss", 5, 1.00001f);
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"step5.loss"});
}

TEST(VerifyUses, TheLossOfABareModelIsThatOfItsTrainingGraph) {
  ChangedCase changed("base_model");
  changed.remove(kExpected, [](const std::string& name) { return name != "loss"; });
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(count_of(result, "loss (training)"), 1u);
  // The training graph is there for the loss: the list of unused parameters belongs to gradients.
  EXPECT_EQ(result.tensors.size(), 1u);
  EXPECT_EQ(not_compared(result).size(), 1u);
}

TEST(VerifyUses, AGradientThatTheCaseLacksIsListedUnlessItsErrorIsThere) {
  const std::string name = "itm_score.fc.bias";
  ChangedCase changed("itm_frozen");
  changed.remove(kExpected, is("grad." + name));
  const std::string line = error_of([&] { changed.verify(); });
  EXPECT_NE(line.find("no tensor \"grad_sample." + name), std::string::npos) << line;
  changed.describe([&](Json* errors) { (*errors)["gradients"] = without((*errors)["gradients"], {name}); },
                   "float32_error.json");
  const VerifiedCase result = changed.verify();
  EXPECT_EQ(failures(result), std::vector<std::string>{});
  EXPECT_EQ(not_compared(result), std::vector<std::string>{"grad." + name + ": the case does not hold it"});
}

TEST(VerifyUses, UnusedParametersNeedAGraphThatMakesGradients) {
  ChangedCase changed("itm_frozen");
  erase_loss_and_gradients(&changed);
  erase_run(&changed);
  EXPECT_EQ(not_compared(changed.verify()),
            std::vector<std::string>{"unused_parameters: no gradients and no training run are compared"});
}

TEST(VerifyUses, GeneratedTextsAreListedAndTheRestIsJudged) {
  ChangedCase changed("mlm_tied");
  changed.add(kExpected, "generated.greedy", {0, 7, 1});
  changed.add(kExpected, "generated_scores.beams", {3});
  const VerifiedCase result = changed.verify();
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(count_of(result, "generated"), 0u);
  std::vector<std::string> listed = not_compared(result);
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(listed, (std::vector<std::string>{"generated.greedy: the model generates no texts",
                                              "generated_scores.beams: the model generates no texts"}));
  changed.scale(kExpected, "logits", 1, 1.01f);
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"logits"});
}

TEST(VerifyUses, GeneratedTextsAndTheirScoresAreCompared) {
  ChangedCase changed("../goldens-families/t5_relu_tied");
  EXPECT_EQ(changed.failed(), std::vector<std::string>{});
  changed.scale(kExpected, "generated_scores.beams", 0, 1.001f);
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"generated_scores.beams"});
  changed.scale(kExpected, "generated_scores.beams", 0, 1.0f / 1.001f);
  changed.describe([](Json* description) { (*description)["generate"]["greedy"]["max_length"] = 9; });
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"generated.greedy"});
}

TEST(VerifyUses, TheRunOfAnotherOptimizerOrScheduleIsListedAndTheRestIsJudged) {
  const std::pair<const char*, const char*> others[] = {{"optimizer", "\"adamw\" or \"lamb\" or \"adafactor\""},
                                                        {"lr_scheduler_type", "\"linear\" or \"cosine\""}};
  for (const auto& [key, known] : others) {
    ChangedCase changed("itm_frozen");
    changed.describe([&, k = key](Json* description) { (*description)["train"][k] = "other"; });
    changed.scale(kSteps, "loss", 5, 2.0f);
    const VerifiedCase result = changed.verify();
    EXPECT_EQ(failures(result), std::vector<std::string>{});
    EXPECT_EQ(count_of(result, "step") + count_of(result, "update."), 0u);
    EXPECT_EQ(count_of(result, "grad.itm_score.fc.bias"), 1u);
    EXPECT_EQ(not_compared(result), std::vector<std::string>{std::string("training run: ") + key +
                                                             " \"other\" is not supported, only " + known});
  }
}

TEST(VerifyUses, CasesOfFurtherFamiliesSayWhatTheyHold) {
  const auto contents = [](const std::string& name) {
    const std::string folder = reference_dir() + "/goldens-families/" + name;
    return contents_of(
        {folder, read_json_file(folder + "/case.json"), read_json_file(folder + "/float32_error.json"), name[0] == 't',
         open_safetensors(folder + "/" + kExpected), std::filesystem::exists(folder + "/" + kSteps)},
        Precision::kFloat32);
  };
  const CaseContents text = contents("t5_gated_untied");
  EXPECT_TRUE(text.loss && text.outputs && text.gradients);
  EXPECT_TRUE(text.run);
  EXPECT_EQ(text.not_compared.size(), 0u);
  EXPECT_TRUE(text.generated);
  EXPECT_TRUE(contents("t5_relu_tied").run);
  if (reference_file("goldens-families/sd_v1/case.json").empty()) return;  // only in the full reference set
  const CaseContents picture = contents("sd_v1");
  EXPECT_TRUE(picture.outputs);
  EXPECT_FALSE(picture.reads_labels());
  EXPECT_EQ(picture.not_compared.size(), 0u);
}

TEST(VerifyUses, BothOutputsSayWhatIsNotCompared) {
  ChangedCase changed("mlm_tied");
  changed.add(kExpected, "generated.greedy", {0, 7, 1});
  const Printed text = print(changed, false), json = print(changed, true);
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.text.find("  not compared: generated.greedy: the model generates no texts\n"), std::string::npos)
      << text.text;
  EXPECT_EQ(json.code, 0);
  const Json document = parse_json(json.text, "json");
  EXPECT_EQ(document["passed"], true);
  const Json& only = document["cases"][0];
  EXPECT_EQ(only["passed"], true);
  EXPECT_EQ(only["not_compared"],
            Json::array({{{"name", "generated.greedy"}, {"reason", "the model generates no texts"}}}));
  EXPECT_EQ(find_member(only, "problem", "json"), nullptr);
}

TEST(VerifyUses, ACaseOfAFamilyOrHeadThatThisProgramLacksIsListed) {
  struct Lacking {
    const char *folder, *name, *file, *key, *words;
  };
  const Lacking all[] = {{"mlm_tied", "mlm_tied", "case.json", "head", "unknown head \"other\"; BridgeTower has "},
                         {"mlm_tied", "mlm_tied", "config.json", "model_type", "model_type = \"other\"; only "},
                         {"../goldens-families/sd_v1", "sd_v1", "model_index.json", "_class_name",
                          "is of a other, which is not supported"}};
  for (const Lacking& one : all) {
    SCOPED_TRACE(one.file);
    ChangedCase changed(one.folder);
    changed.describe([&](Json* document) { (*document)[one.key] = "other"; }, one.file);
    const Printed text = print(changed, false), json = print(changed, true);
    EXPECT_EQ(text.code, 0);
    EXPECT_EQ(text.text.rfind(std::string("not compared ") + one.name + ": ", 0), 0u) << text.text;
    EXPECT_NE(text.text.find(one.words), std::string::npos) << text.text;
    EXPECT_EQ(json.code, 0);
    const Json document = parse_json(json.text, "json");
    EXPECT_EQ(document["passed"], true);
    EXPECT_TRUE(document["cases"][0]["passed"].is_null());
    EXPECT_NE(document["cases"][0]["problem"].string().find(one.words), std::string::npos);
  }
}

TEST(VerifyUses, ACaseWhoseConfigurationIsDamagedIsRefused) {
  ChangedCase changed("mlm_tied");
  changed.describe([](Json* document) { *document = without(*document, {"model_type"}); }, "config.json");
  EXPECT_NE(error_of([&] { changed.verify(); }).find("has no model_type"), std::string::npos);
}

TEST(VerifyUses, ACaseOfWhichNothingIsComparedFails) {
  ChangedCase changed("mlm_tied");
  changed.remove(kExpected, [](const std::string&) { return true; });
  changed.add(kExpected, "generated.greedy", {0, 7, 1});
  const Printed text = print(changed, false), json = print(changed, true);
  EXPECT_EQ(text.code, 3);
  EXPECT_NE(text.text.find("FAILED mlm_tied"), std::string::npos) << text.text;
  EXPECT_NE(text.text.find(" holds nothing that can be compared\n"), std::string::npos) << text.text;
  EXPECT_EQ(json.code, 3);
  const Json document = parse_json(json.text, "json");
  EXPECT_EQ(document["passed"], false);
  const Json& only = document["cases"][0];
  EXPECT_EQ(only["passed"], false);
  EXPECT_EQ(only["problem"], "holds nothing that can be compared");
  EXPECT_EQ(only["tensors"], Json::array());
}

TEST(VerifyUses, InBf16OutputsAndRunsAreListed) {
  const std::vector<std::string> of_head = not_compared(ChangedCase("itm_frozen").verify(Precision::kBf16)),
                                 of_body = not_compared(ChangedCase("base_model").verify(Precision::kBf16));
  EXPECT_EQ(of_head, (std::vector<std::string>{"outputs: bf16 has no limit for them",
                                               "training run: bf16 has no limit for it"}));
  EXPECT_EQ(of_body, (std::vector<std::string>{"outputs: bf16 has no limit for them",
                                               "loss: the bare model has none of its own"}));
}

TEST(VerifyUses, InBf16ACaseMayLackTheLossOrTheGradients) {
  ChangedCase loss("itm_frozen"), gradients("itm_frozen");
  loss.remove(kExpected, is_gradient);
  gradients.remove(kExpected, is("loss"));
  const VerifiedCase of_loss = loss.verify(Precision::kBf16), of_gradients = gradients.verify(Precision::kBf16);
  EXPECT_TRUE(of_loss.passed() && of_gradients.passed());
  EXPECT_EQ(count_of(of_loss, "loss"), 1u);
  EXPECT_EQ(count_of(of_loss, "grad."), 0u);
  EXPECT_EQ(count_of(of_gradients, "loss"), 0u);
  EXPECT_GT(count_of(of_gradients, "grad."), 0u);
}

TEST(VerifyUses, WithoutFiguresOfAutocastNothingIsComparedInBf16) {
  ChangedCase changed("mlm_tied");
  erase_keys(&changed, {"bf16_autocast"}, "float32_error.json");
  EXPECT_EQ(print(changed, false, "bf16").code, 3);
  const VerifiedCase result = changed.verify(Precision::kBf16);
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.tensors.size(), 0u);
  const std::string reason = ": float32_error.json has no \"bf16_autocast\", which sets the limits in bf16";
  const std::vector<std::string> listed = not_compared(result);
  for (const char* const name : {"loss", "gradients"})
    EXPECT_EQ(std::count(listed.begin(), listed.end(), name + reason), 1) << name;
}

TEST(VerifyUses, TheWorstOfSeveralRunsOfAutocastSetsTheLimit) {
  const std::string name = "mlm_score.transform.dense.weight";
  ChangedCase changed("mlm_tied");
  changed.describe([](Json* description) { (*description)["bf16_draws"] = 5; });
  changed.describe([&](Json* errors) { (*errors)["bf16_autocast"]["gradient_cosine"][name] = 0.875; },
                   "float32_error.json");
  const VerifiedCase result = changed.verify(Precision::kBf16);
  const auto found = std::find_if(result.tensors.begin(), result.tensors.end(),
                                  [&](const VerifiedTensor& tensor) { return tensor.name == "grad." + name; });
  ASSERT_NE(found, result.tensors.end());
  EXPECT_EQ(found->reference, 0.125);
  EXPECT_EQ(found->limit, 0.25);
  EXPECT_EQ(result.bf16_draws, 5);
  const Printed text = print(changed, false, "bf16"), json = print(changed, true, "bf16");
  EXPECT_NE(text.text.find("; limits by the worst of 5 runs of autocast\n"), std::string::npos) << text.text;
  EXPECT_EQ(parse_json(json.text, "json")["cases"][0]["bf16_draws"], 5);
  EXPECT_EQ(changed.verify().bf16_draws, 0);
}

TEST(VerifyUses, NoRunsOfAutocastAreRefused) {
  ChangedCase changed("mlm_tied");
  changed.describe([](Json* description) { (*description)["bf16_draws"] = 0; });
  const std::string line = error_of([&] { changed.verify(Precision::kBf16); });
  EXPECT_NE(line.find("case.json: \"bf16_draws\" is less than 1"), std::string::npos) << line;
}

}  // namespace
}  // namespace bascule::test::test_verify_uses
