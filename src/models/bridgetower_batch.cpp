// SPDX-License-Identifier: Apache-2.0
#include "src/models/bridgetower_batch.h"

#include "src/models/bridgetower.h"

namespace bascule {

Fields bridgetower_fields(const BridgeTowerConfig& config, ModelHead head, std::int64_t height, std::int64_t width,
                          bool image_row_keys) {
  const Extent tokens = rows_of_stream(kTextTokens), samples = rows_per_sample(1);
  Fields fields = {
      {"pixels", DType::kFloat32, samples, config.vision.num_channels * height * width, FieldSource::kPixels},
      {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
      {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
      {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
      {"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys},
      {"sample_keys", DType::kInt64, samples, 1, FieldSource::kSampleKeys},
  };
  if (image_row_keys) {
    const Extent rows = rows_per_sample(image_rows(config, height, width));
    fields.push_back({"image_row_keys", DType::kInt64, rows, 1, FieldSource::kImageRowKeys});
  }
  if (head == ModelHead::kImageTextMatching)
    fields.push_back({"labels", DType::kInt32, samples, 1, FieldSource::kMatchLabels});
  if (head == ModelHead::kMaskedLm) {
    const Extent masked = rows_of_stream(kMaskedTokens);
    fields.push_back({"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows});
    fields.push_back({"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels});
  }
  return fields;
}

}  // namespace bascule
