// SPDX-License-Identifier: Apache-2.0
#include "src/train/retrieval_examples.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "src/data/picture_folder.h"

namespace bascule {
namespace {

constexpr std::int64_t kExamples = 8, kAnswers = 5;

struct Answer {
  std::int64_t row;
  double score;
};

std::vector<Answer> nearest(const float* query, Span<const float> candidates, std::int64_t width) {
  const std::int64_t rows = static_cast<std::int64_t>(candidates.size()) / width;
  std::vector<Answer> answers;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* candidate = candidates.data() + r * width;
    answers.push_back({r, static_cast<double>(std::inner_product(query, query + width, candidate, 0.0f))});
  }
  std::stable_sort(answers.begin(), answers.end(), [](const Answer& a, const Answer& b) { return a.score > b.score; });
  if (static_cast<std::int64_t>(answers.size()) > kAnswers) answers.resize(kAnswers);
  return answers;
}

// Pictures of the report, each read once.
class PictureShelf {
 public:
  PictureShelf(Report* report, const Manifest& manifest) : report_(report), manifest_(manifest), folder_(manifest) {}
  std::size_t add(std::int64_t row) {
    const std::int64_t id = manifest_.image_id(row);
    const auto [place, is_new] = index_.emplace(id, report_->pictures.size());
    if (!is_new) return place->second;
    const std::string name(manifest_.row(row).image_path);
    // Empty where it cannot be read any more.
    std::vector<std::uint8_t> jpeg(folder_.largest_file_bytes() + 1);
    std::size_t bytes = 0;
    if (folder_.read(row, Span<std::uint8_t>(jpeg), &bytes) != 0) bytes = 0;
    ReportPicture picture;
    picture.name = name;
    picture.jpeg.assign(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(bytes));
    report_->pictures.push_back(std::move(picture));
    return place->second;
  }

 private:
  Report* report_;
  const Manifest& manifest_;
  PictureFolder folder_;
  std::map<std::int64_t, std::size_t> index_;
};

}  // namespace

void add_retrieval_examples(Report* report, const Evaluation& evaluation, const Manifest& manifest,
                            std::int64_t width) {
  const std::int64_t rows =
      static_cast<std::int64_t>(evaluation.text_embeds().size()) / std::max<std::int64_t>(1, width);
  PictureShelf shelf(report, manifest);
  for (std::int64_t i = 0; i < std::min(kExamples, rows); ++i) {
    const std::int64_t place = i * rows / std::min(kExamples, rows);
    const auto row_of = [&](std::int64_t p) {
      return static_cast<std::int64_t>(evaluation.shown_rows()[static_cast<std::size_t>(p)]);
    };
    const std::int64_t row = row_of(place);
    CaptionExample by_caption;
    by_caption.caption = std::string(manifest.row(row).caption);
    for (const Answer& answer :
         nearest(evaluation.text_embeds().data() + place * width, evaluation.image_embeds(), width)) {
      by_caption.hits.push_back({shelf.add(row_of(answer.row)), answer.score,
                                 manifest.image_id(row_of(answer.row)) == manifest.image_id(row)});
    }
    report->caption_examples.push_back(std::move(by_caption));
    PictureExample by_picture;
    by_picture.picture = shelf.add(row);
    for (const Answer& answer :
         nearest(evaluation.image_embeds().data() + place * width, evaluation.text_embeds(), width)) {
      by_picture.hits.push_back({std::string(manifest.row(row_of(answer.row)).caption), answer.score,
                                 manifest.image_id(row_of(answer.row)) == manifest.image_id(row)});
    }
    report->picture_examples.push_back(std::move(by_picture));
  }
}

}  // namespace bascule
