// SPDX-License-Identifier: Apache-2.0
// A reference case that differs in one value fails, and the value's own line says so. That the cases as they are pass:
// tests/faults/test_verify.py, with a process for each instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/verify/verify.h"
#include "src/verify/verify_case.h"
#include "tests/support/files.h"
#include "tests/verify/changed_case.h"

namespace bascule::test {
namespace {

TEST(ErrorOfATensor, IsRelativeToTheTruthUnlessThatIsZero) {
  const std::vector<float> one = {3.0F}, two = {3.0F, 4.0F}, zeros = {0.0F, 0.0F}, across = {-4.0F, 3.0F};
  for (const auto measure : {relative_l2, one_minus_cosine}) {
    EXPECT_EQ(measure(two, two), 0.0);
    EXPECT_EQ(measure(zeros, zeros), 0.0);
    EXPECT_TRUE(std::isnan(measure(one, two))) << "another number of elements";
    EXPECT_TRUE(std::isnan(measure(two, one))) << "another number of elements";
  }
  EXPECT_EQ(relative_l2(zeros, two), 1.0);
  EXPECT_EQ(relative_l2(two, zeros), 5.0);
  EXPECT_EQ(one_minus_cosine(across, two), 1.0);
  EXPECT_EQ(one_minus_cosine(two, zeros), 1.0);
  EXPECT_TRUE(std::isnan(one_minus_cosine(zeros, two)));
}

TEST(Verify, JudgesWhatEachHeadComputesAndEveryStepOfARun) {
  const auto names = [](const std::string& name) {
    std::vector<std::string> list;
    for (const VerifiedTensor& tensor :
         verify_case(golden(name), Precision::kFloat32, kernels_for(best_isa()), 1).tensors)
      list.push_back(tensor.name);
    return list;
  };
  const auto expect_all = [](const std::vector<std::string>& judged, const std::vector<std::string>& wanted) {
    for (const std::string& name : wanted) EXPECT_EQ(std::count(judged.begin(), judged.end(), name), 1) << name;
  };
  const std::vector<std::string> contrastive = names("itc_add");
  expect_all(contrastive, {"text_features", "image_features", "pooler_output", "text_embeds", "image_embeds",
                           "cross_embeds", "logits", "loss", "loss (training)", "grad.logit_scale"});
  for (int step = 0; step < 8; ++step) {
    const std::string s = "step" + std::to_string(step) + ".";
    expect_all(contrastive, {s + "loss", s + "grad_norm", s + "learning_rate", s + "learning_rate (log)"});
  }
  expect_all(contrastive, {"param.logit_scale", "update.logit_scale",
                           "param.bridgetower.text_model.pooler.dense.weight (no gradient)"});
  expect_all(names("mlm_interpolate"),
             {"text_features", "image_features", "pooler_output", "logits", "loss",
              "param.bridgetower.cross_modal_image_layers.1.output.dense.weight (no gradient)"});
}

TEST(Verify, OneChangedWeightFails) {
  ChangedCase changed("itc_add");
  changed.scale("model.safetensors", "bridgetower.text_model.embeddings.LayerNorm.weight", 3, 1.001f);
  EXPECT_NE(changed.failed(), std::vector<std::string>{});
}

// As files of PyTorch's format have it, which hold a tied parameter under both names.
TEST(Verify, ADecoderThatEqualsTheWordTableIsThatTable) {
  ChangedCase changed("mlm_tied");
  changed.copy("model.safetensors", "bridgetower.text_model.embeddings.word_embeddings.weight",
               "mlm_score.decoder.weight");
  EXPECT_EQ(changed.failed(), std::vector<std::string>{});
}

TEST(Verify, OneChangedOutputFails) {
  const std::pair<const char*, const char*> outputs[] = {
      {"itc_add", "logits"},          {"itc_add", "cross_embeds"},           {"itm_scaled_add", "logits"},
      {"mlm_interpolate", "logits"},  {"mlm_interpolate", "image_features"}, {"mlm_tied", "image_features"},
      {"base_model", "pooler_output"}};
  for (const auto& [name, tensor] : outputs) {
    SCOPED_TRACE(std::string(name) + " " + tensor);
    ChangedCase changed(name);
    changed.scale("expected.safetensors", tensor, 1, 1.01f);
    EXPECT_EQ(changed.failed(), std::vector<std::string>{tensor});
  }
}

TEST(Verify, OneChangedGradientFails) {
  ChangedCase changed("itm_scaled_add");
  changed.scale("expected.safetensors", "grad.itm_score.fc.bias", 1, 1.001f);
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"grad.itm_score.fc.bias"});
}

TEST(Verify, OneChangedStepOfTheRunFails) {
  for (const char* const series : {"loss", "grad_norm", "learning_rate"}) {
    SCOPED_TRACE(series);
    ChangedCase changed("itm_frozen");
    changed.scale("steps.safetensors", series, 5, 1.00001f);
    EXPECT_EQ(changed.failed(), std::vector<std::string>{std::string("step5.") + series});
  }
}

TEST(Verify, OneChangedLearningRateOfTheLogFails) {
  ChangedCase changed("itm_frozen");
  changed.describe([](Json* description) {
    Json& rate = (*description)["train"]["log"]["learning_rate"][2];
    rate = rate.number() * (1.0 + 1e-12);
  });
  EXPECT_EQ(changed.failed(), std::vector<std::string>{"step2.learning_rate (log)"});
}

TEST(Verify, AListOfAnotherLengthIsRefusedByItsFileAndKey) {
  for (const char* key : {"betas", "learning_rate"}) {
    ChangedCase changed("itm_frozen");
    changed.describe([&](Json* description) {
      Json& train = (*description)["train"];
      (key == std::string("betas") ? train[key] : train["log"][key]) = Json::array({0.5});
    });
    const std::string line = error_of([&] { changed.failed(); });
    EXPECT_NE(line.find(std::string("case.json: \"") + key + "\" has 1 numbers, not "), std::string::npos) << line;
  }
}

TEST(Verify, LabelsOfTargetsNeedARowForEachSample) {
  for (const bool has_columns : {true, false}) {
    const ChangedCase changed("../goldens-families/t5_scale_key_untied");
    Rewrite batch(changed.folder() + "/batch.safetensors", [](const std::string&) { return false; });
    for (TensorToWrite& tensor : batch.tensors) {
      if (tensor.name != "batch0.labels") continue;
      tensor.shape = has_columns ? std::vector<std::int64_t>{1, element_count(tensor.shape)}
                                 : std::vector<std::int64_t>{tensor.shape[0], 0};
    }
    batch.write();
    const std::string line = error_of([&] { changed.failed(); });
    EXPECT_NE(line.find("batch0.labels has shape ["), std::string::npos) << line;
  }
}

TEST(Verify, NumbersThatNameWhatIsNotThereAreRefused) {
  const auto refusal = [](const std::function<void(Json*)>& change) {
    ChangedCase changed("itm_frozen");
    changed.describe(change);
    return error_of([&] { changed.failed(); });
  };
  const std::string batch = refusal([](Json* d) { (*d)["train"]["batches_of_step"][0] = Json::array({99}); });
  EXPECT_NE(batch.find("case.json: \"batches_of_step\" has [99], but the case has batches 0 to "), std::string::npos)
      << batch;
  const std::string none = refusal([](Json* d) { (*d)["batches"] = 0; });
  EXPECT_NE(none.find("\"batches\" is less than 1"), std::string::npos) << none;
  const std::string slice = refusal([](Json* d) { (*d)["zero_gradient"][0]["stop"] = 1 << 30; });
  EXPECT_NE(slice.find("\"zero_gradient\" of "), std::string::npos) << slice;
}

TEST(Verify, OneChangedParameterAfterTheRunFails) {
  ChangedCase changed("mlm_interpolate");
  changed.scale("steps.safetensors", "param.mlm_score.bias", 7, 1.1f);
  EXPECT_EQ(changed.failed(), (std::vector<std::string>{"param.mlm_score.bias", "update.mlm_score.bias"}));
}

TEST(Verify, AParameterThatIsUnusedForOneSideOnlyFails) {
  const std::string unused = "bridgetower.cross_modal_image_link_tower.LayerNorm.bias", trained = "itm_score.fc.bias";
  ChangedCase missing("itm_frozen");
  missing.describe([&](Json* description) {
    Json& names = (*description)["unused_parameters"];
    Json others = Json::array();
    for (const Json& name : names) {
      if (name != unused) others.push_back(name);
    }
    names = others;
  });
  EXPECT_EQ(missing.failed(), std::vector<std::string>{"param." + unused + " (no gradient)"});
  ChangedCase added("itm_frozen");
  added.describe([&](Json* description) { (*description)["unused_parameters"].push_back(trained); });
  EXPECT_EQ(added.failed(), std::vector<std::string>{"param." + trained + " (no gradient)"});
}

TEST(Verify, WhatOnlyTheReferenceComputesFails) {
  ChangedCase changed("itm_frozen");
  changed.rename("steps.safetensors", "param.itm_score.fc.bias", "param.text_model.gone__");
  const std::vector<std::string> failed = changed.failed();
  EXPECT_EQ(std::count(failed.begin(), failed.end(), "param.text_model.gone__ (not computed)"), 1);
  EXPECT_EQ(std::count(failed.begin(), failed.end(), "param.itm_score.fc.bias (unchanged)"), 1);
}

}  // namespace
}  // namespace bascule::test
