// SPDX-License-Identifier: Apache-2.0
// Examples for report.html: captions with the pictures that the model finds for them, and the other way round; and
// the map of the embeddings. Finish phase.
#pragma once

#include <cstdint>

#include "src/answer/report.h"
#include "src/base/span.h"
#include "src/index/manifest.h"

namespace bascule {

// The embeddings of the judged rows.
struct RowEmbeddings {
  Span<const std::int32_t> rows;                  // the manifest row that each of them is
  const float *text = nullptr, *image = nullptr;  // (rows, width)
  std::int64_t width = 0;
};

// Eight evenly spaced captions, each with the five distinct pictures that are nearest, and eight evenly spaced distinct
// pictures, each with the five nearest captions.
void add_retrieval_examples(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest);

// Report::map, without thumbnails.
void add_embedding_map(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest);

}  // namespace bascule
