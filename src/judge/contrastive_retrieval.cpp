// SPDX-License-Identifier: Apache-2.0
// Judges a contrastive model: recall both ways, from the embeddings of captions and pictures (retrieval.h defines it).
// Leaves embeddings.safetensors, examples and a map in the report.
#include <algorithm>
#include <string>
#include <utility>

#include "src/base/align.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/temporary_name.h"
#include "src/json/json.h"
#include "src/judge/judges.h"
#include "src/judge/retrieval.h"
#include "src/judge/retrieval_examples.h"

namespace bascule {
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
const JudgeKind kContrastiveRetrieval = {
    "contrastive_retrieval",
    {kRetrievalMetrics, std::size(kRetrievalMetrics)},
    false,
    kRetrievalNote,
    [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new ContrastiveRetrieval(shape)); }};

}  // namespace bascule
