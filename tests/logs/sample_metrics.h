// SPDX-License-Identifier: Apache-2.0
// Metrics as judges list them. The report knows no judge.
#pragma once

#include "src/logs/step_record.h"

namespace bascule::test {

inline constexpr Metric kImageToText1 = {"image_to_text_recall_at_1", "image → text, R@1", 0, true, false, 0, 3};
inline constexpr Metric kImageToText5 = {"image_to_text_recall_at_5", "image → text, R@5", 1, true, false, 2, 4};
inline constexpr Metric kImageToText10 = {"image_to_text_recall_at_10", "image → text, R@10", 2, true};
inline constexpr Metric kTextToImage1 = {"text_to_image_recall_at_1", "text → image, R@1", 3, true, false, 0, 1};
inline constexpr Metric kTextToImage5 = {"text_to_image_recall_at_5", "text → image, R@5", 4, true, false, 1, 2};
inline constexpr Metric kTextToImage10 = {"text_to_image_recall_at_10", "text → image, R@10", 5, true};
inline constexpr Metric kRecalls[] = {kImageToText1, kImageToText5, kImageToText10,
                                      kTextToImage1, kTextToImage5, kTextToImage10};
inline constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
inline constexpr Metric kPerplexity = {"perplexity", "perplexity", 8, false, true, 2};
inline constexpr Metric kOfWords[] = {kAccuracy, kPerplexity};

}  // namespace bascule::test
