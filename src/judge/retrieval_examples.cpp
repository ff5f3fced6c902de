// SPDX-License-Identifier: Apache-2.0
#include "src/judge/retrieval_examples.h"

#include <set>

#include "src/base/nearest.h"
#include "src/judge/examples.h"

namespace bascule {
namespace {

constexpr std::int64_t kExamples = 8, kAnswers = 5;

// The judged rows, and which rows show which picture.
struct Judged {
  Judged(const RowEmbeddings& embeddings, const Manifest& of_manifest) : of(embeddings), manifest(of_manifest) {
    std::set<std::int64_t> seen;
    for (std::size_t place = 0; place < of.rows.size(); ++place) {
      captions.push_back(static_cast<std::int64_t>(place));
      if (seen.insert(picture(captions.back())).second) pictures.push_back(captions.back());
    }
  }
  Span<const float> embedding(const float* embeds, std::int64_t place) const {
    return {embeds + place * of.width, static_cast<std::size_t>(of.width)};
  }
  std::int64_t row(std::int64_t place) const { return of.rows[static_cast<std::size_t>(place)]; }
  std::int64_t picture(std::int64_t place) const { return manifest.image_id(row(place)); }
  std::string caption(std::int64_t place) const { return std::string(manifest.row(row(place)).text); }

  const RowEmbeddings& of;
  const Manifest& manifest;
  std::vector<std::int64_t> captions;  // every place
  std::vector<std::int64_t> pictures;  // the first place of each distinct picture
};

CaptionExample search_by_caption(const Judged& judged, std::int64_t place, PictureShelf& shelf) {
  CaptionExample example;
  example.caption = judged.caption(place);
  std::int64_t rank = 0;
  for (const Neighbour& answer : nearest(judged.embedding(judged.of.text, place), judged.of.image, judged.pictures)) {
    const bool right = judged.picture(answer.row) == judged.picture(place);
    if (++rank > kAnswers && !right) continue;
    const PictureHit hit{shelf.add(judged.row(answer.row)), answer.score, right};
    if (rank <= kAnswers) example.hits.push_back(hit);
    if (right) {
      example.right_hit = hit;
      example.right_rank = rank;
    }
  }
  return example;
}

PictureExample search_by_picture(const Judged& judged, std::int64_t place, PictureShelf& shelf) {
  PictureExample example;
  example.picture = shelf.add(judged.row(place));
  std::int64_t rank = 0;
  for (const Neighbour& answer : nearest(judged.embedding(judged.of.image, place), judged.of.text, judged.captions)) {
    const bool right = judged.picture(answer.row) == judged.picture(place);
    const CaptionHit hit{judged.caption(answer.row), answer.score, right};
    if (++rank <= kAnswers) example.hits.push_back(hit);
    if (right && example.right_rank == 0) {
      example.right_hit = hit;
      example.right_rank = rank;
    }
  }
  return example;
}

}  // namespace

void add_retrieval_examples(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest) {
  const Judged judged(embeddings, manifest);
  PictureShelf shelf(report, manifest);
  for (const std::int64_t place : evenly_spaced(judged.captions, kExamples))
    report->caption_examples.push_back(search_by_caption(judged, place, shelf));
  for (const std::int64_t place : evenly_spaced(judged.pictures, kExamples))
    report->picture_examples.push_back(search_by_picture(judged, place, shelf));
}

void add_embedding_map(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest) {
  MapSource source;
  source.rows = static_cast<std::int64_t>(embeddings.rows.size());
  source.width = embeddings.width;
  source.text = embeddings.text;
  source.image = embeddings.image;
  source.row = [&](std::int64_t place) {
    const ManifestRow row = manifest.row(embeddings.rows[static_cast<std::size_t>(place)]);
    return MapRow{manifest.picture_location(row.image_id), std::string(row.text)};
  };
  report->map = make_embedding_map(source);
}

}  // namespace bascule
