// SPDX-License-Identifier: Apache-2.0
#include "src/judge/retrieval.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/judge/examples.h"
#include "src/judge/judge.h"

namespace bascule {

ScoreBlock::ScoreBlock(std::int64_t candidates, std::int64_t width, float* scores, GemmLibrary& products)
    : product_(products.make(
          {GemmKind::kForward, kQueries, candidates, width, width, width, candidates, false, true, false})),
      scores_(scores),
      stride_(candidates),
      step_{run, tasks, this, 0} {}

std::int64_t ScoreBlock::tasks(const void* arguments, const Replay&) {
  const ScoreBlock& block = *static_cast<const ScoreBlock*>(arguments);
  return block.product_->tasks(block.count_);
}

void ScoreBlock::run(const void* arguments, const Replay&, std::int64_t task, int thread) {
  const ScoreBlock& block = *static_cast<const ScoreBlock*>(arguments);
  block.product_->run(task, thread, {block.scores_, block.queries_, block.candidates_, nullptr, block.count_, false});
}

void ScoreBlock::compute(Threads& threads, const float* queries, std::int64_t count, const float* candidates) noexcept {
  queries_ = queries;
  candidates_ = candidates;
  count_ = count;
  threads.replay(Span<const Step>(&step_, 1), Replay(), {});
}

std::size_t Retrieval::bytes(std::int64_t max_rows) {
  return static_cast<std::size_t>(ScoreBlock::kQueries * max_rows) * sizeof(float) +
         2 * static_cast<std::size_t>(max_rows) * sizeof(std::int32_t);
}

// Scores are computed against all max_rows candidates; those past the rows of a measurement are not looked at.
Retrieval::Retrieval(std::int64_t max_rows, std::int64_t width, std::byte* memory, GemmLibrary& products)
    : max_rows_(max_rows),
      width_(width),
      scores_(max_rows, width, static_cast<float*>(static_cast<void*>(memory)), products) {
  first_row_ = static_cast<std::int32_t*>(
      static_cast<void*>(memory + static_cast<std::size_t>(ScoreBlock::kQueries * max_rows) * sizeof(float)));
  picture_rows_ = first_row_ + max_rows;
}

void Retrieval::list_pictures() noexcept {
  std::fill_n(first_row_, max_rows_, -1);
  distinct_ = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::int32_t& first = first_row_[pictures_[row]];
    if (first >= 0) continue;
    first = static_cast<std::int32_t>(row);
    picture_rows_[distinct_++] = first;
  }
}

// scores: of the row's caption with the picture of every row.
std::int64_t Retrieval::rank_of_picture(const float* scores, std::int64_t row) const noexcept {
  const std::int32_t own = first_row_[pictures_[row]];
  std::int64_t rank = 0;
  for (std::int64_t i = 0; i < distinct_; ++i) {
    const std::int32_t other = picture_rows_[i];
    if (other != own && !(scores[other] < scores[own])) ++rank;
  }
  return rank;
}

// scores: of the row's picture with the caption of every row.
std::int64_t Retrieval::rank_of_captions(const float* scores, std::int64_t row) const noexcept {
  const std::int32_t picture = pictures_[row];
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = 0; t < rows_; ++t) {
    if (pictures_[t] == picture && scores[t] > best) best = scores[t];
  }
  std::int64_t rank = 0;
  for (std::int64_t t = 0; t < rows_; ++t) {
    if (pictures_[t] != picture && !(scores[t] < best)) ++rank;
  }
  return rank;
}

template <typename IsQuery, typename RankOf>
Recall Retrieval::recall(Threads& threads, const float* queries, const float* candidates, IsQuery is_query,
                         RankOf rank_of) noexcept {
  std::int64_t asked = 0, hits[3] = {0, 0, 0};
  for (std::int64_t first = 0; first < rows_; first += ScoreBlock::kQueries) {
    const std::int64_t count = std::min(ScoreBlock::kQueries, rows_ - first);
    scores_.compute(threads, queries + first * width_, count, candidates);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!is_query(first + i)) continue;
      const std::int64_t rank = rank_of(scores_.scores(i), first + i);
      ++asked;
      hits[0] += rank < 1 ? 1 : 0;
      hits[1] += rank < 5 ? 1 : 0;
      hits[2] += rank < 10 ? 1 : 0;
    }
  }
  const double n = asked > 0 ? static_cast<double>(asked) : 1.0;
  return {static_cast<double>(hits[0]) / n, static_cast<double>(hits[1]) / n, static_cast<double>(hits[2]) / n};
}

RecallBothWays Retrieval::measure(Threads& threads, float* text, float* images, const std::int32_t* pictures,
                                  std::int64_t rows) noexcept {
  pictures_ = pictures;
  rows_ = rows;
  list_pictures();
  RecallBothWays both;
  both.text_to_image = recall(
      threads, text, images, [](std::int64_t) { return true; },
      [this](const float* scores, std::int64_t row) { return rank_of_picture(scores, row); });
  both.image_to_text = recall(
      threads, images, text, [this](std::int64_t row) { return shows_first(row); },
      [this](const float* scores, std::int64_t row) { return rank_of_captions(scores, row); });
  return both;
}

// Judges a contrastive model: recall both ways, from the embeddings of captions and pictures (retrieval.h defines it).
// Leaves embeddings.safetensors, examples and a map in the report.

namespace {

constexpr Metric kImageToText1 = {"image_to_text_recall_at_1", "image → text, R@1", 0, true, false, 0, 3};
constexpr Metric kImageToText5 = {"image_to_text_recall_at_5", "image → text, R@5", 1, true, false, 2, 4};
constexpr Metric kImageToText10 = {"image_to_text_recall_at_10", "image → text, R@10", 2, true};
constexpr Metric kTextToImage1 = {"text_to_image_recall_at_1", "text → image, R@1", 3, true, false, 0, 1};
constexpr Metric kTextToImage5 = {"text_to_image_recall_at_5", "text → image, R@5", 4, true, false, 1, 2};
constexpr Metric kTextToImage10 = {"text_to_image_recall_at_10", "text → image, R@10", 5, true};
constexpr Metric kRetrievalMetrics[] = {kImageToText1, kImageToText5, kImageToText10,
                                        kTextToImage1, kTextToImage5, kTextToImage10};

constexpr char kRetrievalNote[] =
    "R@k is the fraction of queries whose match ranks among the first k; ties count against the query. Text to image: "
    "each caption ranks the distinct pictures. Image to text: each distinct picture ranks all captions; any of its own "
    "is a match.";

class ContrastiveRetrieval final : public Judge {
 public:
  explicit ContrastiveRetrieval(const JudgeShape& shape) : Judge(shape), width_(output("text_embeds").cols) {
    const std::int64_t rows = align_up<std::int64_t>(shape.max_rows, 16);
    for (Embeddings& one : embeddings_) {
      plan(Part::kRows, &one.of_rows, rows * width_);
      read(&one.of_batch, one.name);
    }
    plan(Part::kRows, &pictures_, rows);
    plan(Part::kScratch, &scratch_, static_cast<std::int64_t>(Retrieval::bytes(shape.max_rows)));
  }

  const char* file() const override { return "embeddings.safetensors"; }
  std::int64_t file_bytes(std::int64_t) const override { return static_cast<std::int64_t>(bytes()); }

  void write_files(const JudgedFiles& files, Report* report) const override {
    write_embeddings(files);
    if (!files.has_page) return;
    const RowEmbeddings embeddings = {rows(), embeddings_[0].of_rows, embeddings_[1].of_rows, width_};
    add_retrieval_examples(report, embeddings, files.manifest);
    add_embedding_map(report, embeddings, files.manifest);
  }

 protected:
  void found(GemmLibrary& products) override {
    retrieval_ = std::make_unique<Retrieval>(shape().max_rows, width_, scratch_, products);
  }

  void take_rows(const Batch& batch, const Manifest& manifest, Sums*) noexcept override {
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      const std::int64_t row = batch.rows[s];
      for (const Embeddings& one : embeddings_)
        std::copy_n(one.of_batch + s * width_, width_, one.of_rows + row * width_);
      pictures_[row] = static_cast<std::int32_t>(manifest.image_id(row));
    }
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override {
    for (const Embeddings& one : embeddings_)
      std::copy_n(one.of_rows + from * width_, width_, one.of_rows + to * width_);
    pictures_[to] = pictures_[from];
  }

  void judge_rows(Threads& threads, const Sums*, EvaluationRecord* record) noexcept override {
    const RecallBothWays recall =
        retrieval_->measure(threads, embeddings_[0].of_rows, embeddings_[1].of_rows, pictures_, record->samples);
    const Recall &text = recall.text_to_image, &image = recall.image_to_text;
    (*record)[kTextToImage1] = text.at_1;
    (*record)[kTextToImage5] = text.at_5;
    (*record)[kTextToImage10] = text.at_10;
    (*record)[kImageToText1] = image.at_1;
    (*record)[kImageToText5] = image.at_5;
    (*record)[kImageToText10] = image.at_10;
  }

 private:
  struct Embeddings {
    const char* name;
    const float* of_batch = nullptr;  // (samples, width)
    float* of_rows = nullptr;         // (rows, width)
  };

  void write_embeddings(const JudgedFiles& files) const {
    const std::int64_t count = static_cast<std::int64_t>(rows().size());
    Json paths = Json::array(), captions = Json::array();
    for (const std::int32_t number : rows()) {
      const ManifestRow row = files.manifest.row(number);
      paths.push_back(files.manifest.picture_location(row.image_id));
      captions.push_back(std::string(row.text));
    }
    std::vector<TensorToWrite> tensors;
    for (const Embeddings& one : embeddings_) {
      TensorToWrite tensor;
      tensor.name = one.name;
      tensor.shape = {count, width_};
      tensor.data = one.of_rows;
      tensors.push_back(std::move(tensor));
    }
    const SafetensorsWritePlan plan(std::move(tensors), {{"format", "pt"},
                                                         {"split", split_name(files.split)},
                                                         {"manifest", files.manifest.name()},
                                                         {"paths", json_text(paths)},
                                                         {"captions", json_text(captions)}});
    const std::string path = files.folder + "/" + file();
    throw_if_failed(plan.write((files.folder + "/" + kTemporaryPrefix + file()).c_str()), path, "writing");
    throw_if_failed(publish_file(files.folder.c_str(), file()), path, "renaming");
  }

  std::int64_t width_;
  Embeddings embeddings_[3] = {{"text_embeds"}, {"image_embeds"}, {"cross_embeds"}};
  std::int32_t* pictures_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::unique_ptr<Retrieval> retrieval_;
};

}  // namespace

extern const JudgeKind kContrastiveRetrieval;
const JudgeKind kContrastiveRetrieval =
    judge_kind<ContrastiveRetrieval>("contrastive_retrieval", kRetrievalMetrics, false, kRetrievalNote);

namespace {

constexpr std::int64_t kMrrRank = 10, kNdcgRank = 10;

// The discount of log2(rank + 1), whose base divides out of a quotient of such sums.
double discount(std::int64_t rank) noexcept { return 1.0 / fixed_log(static_cast<double>(rank + 1)); }

double ideal_gain(std::int64_t relevant) noexcept {
  double sum = 0.0;
  for (std::int64_t rank = 1; rank <= std::min(relevant, kNdcgRank); ++rank) sum += discount(rank);
  return sum;
}

}  // namespace

void BestDocuments::take(const float* scores, std::int64_t first, std::int64_t count) noexcept {
  // A later document is better only with a greater score, or with any where the last one's is no number.
  const auto is_better = [](float score, float than) { return score > than || (than != than && score == score); };
  for (std::int64_t d = 0; d < count; ++d) {
    const float score = scores[d];
    if (count_ == kMost && !is_better(score, scores_[kMost - 1])) continue;
    std::int64_t place = count_ < kMost ? count_++ : kMost - 1;
    for (; place > 0 && is_better(score, scores_[place - 1]); --place) {
      scores_[place] = scores_[place - 1];
      documents_[place] = documents_[place - 1];
    }
    scores_[place] = score;
    documents_[place] = static_cast<std::int32_t>(first + d);
  }
}

void RankingFigures::add(Span<const std::int32_t> ranked, Span<const std::int32_t> relevant) noexcept {
  BASCULE_DCHECK(!relevant.empty());
  const std::int64_t all = static_cast<std::int64_t>(relevant.size());
  std::int64_t hits = 0, first = 0, at_cutoff[kCutoffs] = {};
  double gain = 0.0, precisions = 0.0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const std::int64_t rank = static_cast<std::int64_t>(i) + 1;
    if (!std::binary_search(relevant.begin(), relevant.end(), ranked[i])) continue;
    ++hits;
    if (first == 0) first = rank;
    for (int c = 0; c < kCutoffs; ++c) at_cutoff[c] += rank <= kCutoff[c] ? 1 : 0;
    if (rank <= kNdcgRank) gain += discount(rank);
    precisions += static_cast<double>(hits) / static_cast<double>(rank);
  }
  for (int c = 0; c < kCutoffs; ++c) {
    const double found = static_cast<double>(at_cutoff[c]);
    accuracy_[c] += at_cutoff[c] > 0 ? 1.0 : 0.0;
    precision_[c] += found / static_cast<double>(kCutoff[c]);
    recall_[c] += found / static_cast<double>(all);
  }
  mrr_ += first > 0 && first <= kMrrRank ? 1.0 / static_cast<double>(first) : 0.0;
  ndcg_ += gain / ideal_gain(all);
  map_ += precisions / static_cast<double>(std::min(all, BestDocuments::kMost));
  ++queries_;
}

}  // namespace bascule
