// SPDX-License-Identifier: Apache-2.0
#include "tests/answer/sample_report.h"

#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/logs/sample_metrics.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kSteps = 400;
constexpr std::int64_t kInterval = 2;

void add_steps(Report& report) {
  std::mt19937 random(7);
  const auto noise = [&random] { return static_cast<double>(random() % 2000) / 1000.0 - 1.0; };
  for (std::int64_t step = kInterval; step <= kSteps; step += kInterval) {
    const double t = static_cast<double>(step) / static_cast<double>(kSteps);
    StepRecord record;
    record.global_step = step;
    record.steps = kInterval;
    record.samples = 64;
    record.epoch = 5.0 * t;
    record.loss = 3.3 * std::exp(-3.5 * t) + 0.35 + 0.12 * noise() * (1.2 - t);
    record.grad_norm = 2.0 + 6.0 * std::exp(-6.0 * t) + 0.5 * noise();
    record.learning_rate = 5e-4 * std::min(10.0 * t, (1.0 - t) / 0.9);
    const double shares[kStepPhases] = {0.012, 0.33, 0.58, 0.0, 0.055};
    record.wall_seconds = 0.46 + 0.02 * noise();
    for (int phase = 0; phase < kStepPhases; ++phase) record.seconds[phase] = record.wall_seconds * shares[phase];
    record.samples_per_second = static_cast<double>(record.samples) / record.wall_seconds;
    report.steps.push_back(record);
    report.train.totals.add(record);
  }
}

EvaluationRecord evaluation(std::int64_t step, Split split, double progress) {
  EvaluationRecord record;
  record.global_step = step;
  record.split = split;
  record.epoch = 5.0 * static_cast<double>(step) / static_cast<double>(kSteps);
  record.samples = 300;
  record.steps = 19;
  record.seconds = 2.31;
  record.loss = 3.1 * std::exp(-2.0 * progress) + 0.7;
  record[kImageToText1] = 0.31 * progress;
  record[kImageToText5] = 0.58 * progress;
  record[kImageToText10] = 0.71 * progress;
  record[kTextToImage1] = 0.29 * progress;
  record[kTextToImage5] = 0.55 * progress;
  record[kTextToImage10] = 0.69 * progress;
  return record;
}

void add_memory_and_time(Report& report) {
  const std::uint64_t mib = std::uint64_t{1} << 20;
  report.memory = {{"weights", 96 * mib, "read, not mapped"},
                   {"gradients", 96 * mib, ""},
                   {"moments", 192 * mib, "both, float32"},
                   {"activations", 142 * mib, "kept for backward; shares places with scratch"},
                   {"scratch", 23 * mib, ""},
                   {"loader ring", 12 * mib, "3 slots"},
                   {"media engine", 32 * mib, ""},
                   {"program and libraries", 41 * mib, "measured at the seal"}};
  for (const MemoryCategory& category : report.memory) report.planned_bytes += category.bytes;
  report.lower_bound_bytes = report.planned_bytes - 3 * mib;
  report.resident_bytes = report.planned_bytes - 5 * mib;
  report.machine_bytes = 15360 * mib;
  report.recomputation = "recomputed in 12 of 15 layers";
  report.arena_svg = "<svg viewBox=\"0 0 10 10\"></svg>\n";
  report.operations = {{"matrix product, forward", 48800, 24.1, 4.5067e+12},
                       {"matrix product, gradient of the input", 46400, 23.7, 4.2897e+12},
                       {"matrix product, gradient of the weight", 46400, 26.9, 4.41698e+12},
                       {"attention, forward", 4800, 3.9, 2.7807e+11},
                       {"attention, backward", 4800, 8.8, 6.864e+11},
                       {"GELU", 9600, 1.9, 0.0},
                       {"layer norm", 21600, 1.5, 0.0},
                       {"embeddings", 800, 0.2, 0.0},
                       {"AdamW", 400, 4.9, 0.0}};
}

void add_words(Report& report) {
  report.contracts = {
      {"Numbers", ContractState::kNotChecked, "run `bascule verify` to check"},
      {"Memory", ContractState::kKept,
       "resident 629 MiB, planned 634 MiB (-0.8 %); Bascule allocated nothing after the seal"},
      {"Bits", ContractState::kKept, "nothing that is computed read a clock; settings digest 41c0e5f2"},
      {"Durability", ContractState::kKept, "2 checkpoints, each written beside, synced, renamed"},
      {"Errors", ContractState::kBroken, "made up for this page: <one> \"odd\" line & another"},
      {"Honest figures", ContractState::kKept, "397 of 400 steps counted, warm-up updates excluded: 3"}};
  report.facts = {{"Loader",
                   "Waiting times of training and of the loader.",
                   {{"can deliver", "912 samples/s"},
                    {"training waited", "1.1 s (1.2 %)"},
                    {"workers waited for training", "88.2 s"},
                    {"bad samples skipped", "none"}}}};
  report.settings = {{"model.model_name_or_path", "model"},
                     {"model.head", "contrastive"},
                     {"model.from_scratch", "true"},
                     {"model.precision", "float32"},
                     {"data.train_file", "train.jsonl"},
                     {"data.validation_file", "validation.jsonl"},
                     {"data.caption_column", "caption"},
                     {"data.preprocessing", "training"},
                     {"media_engine.queue_depth", "16"},
                     {"training.output_dir", "output/emoji"},
                     {"training.seed", "42"},
                     {"training.num_train_epochs", "5"},
                     {"training.per_device_train_batch_size", "32"},
                     {"training.learning_rate", "0.0005"},
                     {"training.lr_scheduler_type", "linear"},
                     {"machine.isa", "auto"},
                     {"report.html", "true"}};
  report.all_settings = report.settings;
  report.provenance = {{"program", "Bascule 0.1.0, g++ 12.2.0, release"},
                       {"processor", "AMD EPYC 9R14, 2 cores"},
                       {"instruction set", "avx512"},
                       {"matrix products", "ours"},
                       {"media engine", "host (libjpeg-turbo 2.1.5)"},
                       {"seed", "42"},
                       {"settings digest", "41c0e5f2a8d3b7469e21f0c4d5a6b7c8"},
                       {"data digest", "9b1d77e05c4f4f8ab2b6c3d1e0f9a887"}};
}

void add_retrieval(Report& report) {
  const struct {
    const char* file;
    const char* caption;
  } kPictures[] = {{"1f348.jpg", "melon | food fruit"},
                   {"1f6ae.jpg", "litter in bin sign | transport sign"},
                   {"1f3c3-200d-2642.jpg", "man running | person activity, marathon, racing"},
                   {"1f193.jpg", "FREE button | symbols, 'a' < \"b\" & <script>alert(1)</script>"},
                   {"1f0cf.jpg", "joker | game, card"},
                   {"1f004.jpg", "mahjong red dragon | game, סמל"}};
  const std::size_t count = sizeof kPictures / sizeof kPictures[0];
  for (const auto& picture : kPictures) {
    std::ifstream file(reference_dir() + "/emoji-captions/images/" + picture.file, std::ios::binary);
    if (!file.is_open()) return report.pictures.clear();
    report.pictures.push_back({std::string("images/") + picture.file,
                               picture.caption,
                               {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  for (std::size_t query = 0; query < 4; ++query) {
    RetrievalExample texts, pictures;
    texts.text = kPictures[query].caption;
    texts.right_hit = {query, "", 0.1234, true};
    pictures.picture = query;
    pictures.right_hit = {kNoPicture, kPictures[query].caption, 0.1234, true};
    const std::size_t right = query == 2 ? 16 : query % 2;  // one of them is not among the first five
    texts.right_rank = pictures.right_rank = static_cast<std::int64_t>(right) + 1;
    for (std::size_t rank = 0; rank < 5; ++rank) {
      const std::size_t other = rank == right ? query : (query + 1 + rank) % count;
      const double score = 0.71 - 0.09 * static_cast<double>(rank);
      texts.hits.push_back({other, "", score, rank == right});
      pictures.hits.push_back({kNoPicture, kPictures[other].caption, score, rank == right});
    }
    report.caption_examples.push_back(texts);
    report.picture_examples.push_back(pictures);
  }
}

// Four captions of three pictures in two folders.
void add_map(Report& report) {
  const float text[] = {1.0f, 0.0f, 0.2f, 0.0f, 1.0f, 0.1f, -0.6f, 0.8f, 0.3f, 0.7f, 0.7f, 0.0f};
  const float image[] = {0.9f, 0.1f, 0.0f, 0.1f, 0.8f, 0.4f, -0.8f, 0.6f, 0.0f, 0.9f, 0.1f, 0.0f};
  const MapRow rows[] = {{"cats/1.jpg", "a cat & its \"shadow\""},
                         {"dogs/2.jpg", "a dog"},
                         {"dogs/3.jpg", "two dogs"},
                         {"cats/1.jpg", "a sleeping cat"}};
  MapSource source;
  source.rows = 4;
  source.width = 3;
  source.text = text;
  source.image = image;
  source.row = [&](std::int64_t row) { return rows[row]; };
  report.map = make_embedding_map(source);
  add_thumbnails(&report.map, [](const std::string&) { return std::vector<std::uint8_t>{0x89, 'P', 'N', 'G'}; });
}

void add_predictions(Report& report) {
  report.class_accuracies = {{"face & hair", 4, 1}, {"food", 40, 32}, {"animal", 25, 25}};
  report.confusions = {{"food", "animal", 7}, {"face & hair", "food", 3}};
  report.class_examples = {{0, "food", {{"animal", 0.61, false}, {"food", 0.3, true}}},
                           {1, "animal", {{"animal", 0.97, true}}}};
  SentenceExample pair;
  pair.tokens = {
      {"[CLS]", "", {}}, {"the", "", {}}, {"[MASK]", "list", {{"list", 0.5, true}, {"<tuple>", 0.25, false}}},
      {"[SEP]", "", {}}, {"it", "", {}},  {"[SEP]", "", {}}};
  pair.is_pair = pair.predicted_to_follow = true;
  pair.probability = 0.75;
  SentenceExample single = pair;
  single.is_pair = false;
  report.sentence_examples = {pair, single};
}

}  // namespace

Report sample_report() {
  Report report;
  report.title = "emoji & captions";
  report.output_dir = "output/emoji";
  report.settings_file = "config/demo.toml";
  report.model_name = "tests/data/emoji-captions/model";
  report.architecture = "BridgeTowerForContrastiveLearning";
  report.head = "contrastive";
  report.model_kind = "BridgeTower";
  report.processor = "BridgeTowerProcessor";
  report.tags = {"bridgetower", "image-text"};
  report.pipeline_tag = "zero-shot-image-classification";
  report.preparation_note = "The processor resizes to multiples of 32 pixels and pads elongated pictures.";
  report.dataset = "train.jsonl";
  report.validation_dataset = "validation.jsonl";
  report.test_dataset = "test.jsonl";
  report.finished_at = "2026-11-21 14:03 UTC";
  report.global_step = report.max_steps = kSteps;
  report.epoch = report.num_train_epochs = 5.0;
  report.logging_steps = kInterval;
  report.eval_steps = 100;
  report.save_steps = 200;
  report.train_batch_size = 32;
  report.parameters = 25165824;
  report.trained_parameters = 25100288;
  add_steps(report);
  report.train.done = true;
  report.train.train_loss = 1.2345;
  report.train.seconds = 103.4;
  report.train.samples_per_second = 138.9;
  report.train.steps_per_second = 4.34;
  report.train.whole = {1, kSteps, 103.4, 138.9, 4.34};
  report.train.evaluation_seconds = 9.3;
  report.train.save_seconds = 1.2;
  report.train.total_flos = 1.7e13;
  report.metrics = {kRecalls, std::size(kRecalls)};
  report.metrics_note = "R@k is the fraction of queries whose match ranks among the first k.";
  for (int i = 1; i <= 4; ++i) report.evaluations.push_back(evaluation(i * 100, Split::kValidation, 0.25 * i));
  report.evaluations.push_back(evaluation(kSteps, Split::kTest, 0.97));
  add_memory_and_time(report);
  add_words(report);
  add_retrieval(report);
  add_predictions(report);
  add_map(report);
  return report;
}

EmbeddingMap largest_map(const std::string& caption_end) {
  std::mt19937 random(11);
  const std::int64_t width = 8, rows = 4 * kMostMapRows;
  std::vector<float> text, image;
  for (std::int64_t i = 0; i < rows * width; ++i) {
    text.push_back(static_cast<float>(random() % 1000) / 1000.0f);
    image.push_back(static_cast<float>(random() % 1000) / 1000.0f);
  }
  MapSource source;
  source.rows = rows;
  source.width = width;
  source.text = text.data();
  source.image = image.data();
  source.row = [&](std::int64_t row) {
    const std::string number = std::to_string(row);
    return MapRow{"folder" + std::to_string(row % 10) + "/" + number + ".jpg", "caption " + number + caption_end};
  };
  EmbeddingMap map = make_embedding_map(source);
  add_thumbnails(&map, [](const std::string&) { return std::vector<std::uint8_t>(7000, 0x89); });
  return map;
}

Report sample_report_with_average() {
  Report report = sample_report();
  for (StepRecord& record : report.steps) record.seconds[static_cast<int>(StepPhase::kReduction)] = 0.01;
  for (const EvaluationRecord& of_weights : report.evaluations) {
    EvaluationRecord record = evaluation(of_weights.global_step, of_weights.split, of_weights.epoch / 4.9);
    record.averaged = 1;
    if (record.split == Split::kValidation) report.averaged_curve.push_back(record);
  }
  report.averaged_evaluations = {report.averaged_curve.back(), report.averaged_curve.back()};
  report.averaged_evaluations.back().split = Split::kTest;
  return report;
}

}  // namespace bascule::test
