// SPDX-License-Identifier: Apache-2.0
#include "src/commands/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/commands/search_index.h"
#include "src/commands/search_model.h"
#include "src/commands/search_pictures.h"
#include "src/data/manifest.h"
#include "src/data/tokenizer.h"
#include "src/json/json.h"
#include "src/models/bridgetower.h"
#include "src/models/embed.h"
#include "src/report/html_text.h"
#include "src/runtime/arena.h"
#include "src/train/packed_batch.h"
#include "src/train/session.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/reference_dir.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;
using test::reference_dir;

constexpr int kThreads = 2;
constexpr std::int64_t kRows = 24;

std::vector<double> widened(const float* values, std::int64_t count) { return {values, values + count}; }

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double largest_difference(const std::vector<float>& a, const float* b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

// Sealed, with parameters that are still zero.
struct SealedSession {
  Session session;
  std::unique_ptr<Arena> arena;
  Threads threads{kThreads, false};

  void seal() {
    const MemoryPlan plan = make_memory_plan(session.plan(false, kThreads), 0);
    arena = std::make_unique<Arena>(plan, ArenaOptions{});
    session.seal(*arena, plan, kernels_for(best_isa()), kThreads);
  }
};

// The folder that a run of the demo's model would leave: fresh weights, and the embeddings that the whole model
// (cross-modal layers, loss and all) computes of the first validation rows, all in one batch.
class FinishedRun {
 public:
  FinishedRun() : config_(read_bridgetower_config(demo() + "/model/config.json")) {
    for (const char* file : {"config.json", "preprocessor_config.json"})
      fs::copy(demo() + "/model/" + file, path() + "/" + file);
    for (const fs::directory_entry& file : fs::directory_iterator(demo() + "/tokenizer"))
      fs::copy(file.path(), path() + "/" + file.path().filename().string());
    read_rows();
    run_model();
  }

  static std::string demo() { return reference_dir() + "/emoji-captions"; }
  const std::string& path() const { return folder_.path(); }
  const BridgeTowerConfig& config() const { return config_; }
  std::int64_t width() const { return config_.contrastive_hidden_size; }
  std::vector<double> text_embed(std::size_t row) const {
    return widened(text_embeds_.data() + static_cast<std::int64_t>(row) * width(), width());
  }
  std::vector<double> image_embed(std::size_t row) const {
    return widened(image_embeds_.data() + static_cast<std::int64_t>(row) * width(), width());
  }

  std::vector<std::string> paths, captions;
  std::vector<float> text_embeds_, image_embeds_;

  // The embeddings' file with other contents, in another folder beside copies of the model's files.
  void write_embeddings(const std::string& folder, const std::map<std::string, std::string>& metadata,
                        std::int64_t columns) const {
    const std::vector<std::int64_t> shape = {kRows * width() / columns, columns};
    const SafetensorsWritePlan plan({{"text_embeds", DType::kFloat32, shape, text_embeds_.data()},
                                     {"image_embeds", DType::kFloat32, shape, image_embeds_.data()},
                                     {"cross_embeds", DType::kFloat32, shape, text_embeds_.data()}},
                                    metadata);
    ASSERT_TRUE(plan.write((folder + "/embeddings.safetensors").c_str()).ok());
  }
  std::map<std::string, std::string> metadata() const {
    return {{"split", "validation"},
            {"manifest", demo() + "/validation.jsonl"},
            {"paths", json_text(Json(paths))},
            {"captions", json_text(Json(captions))}};
  }

 private:
  void read_rows() {
    const Manifest manifest = Manifest::load(demo() + "/validation.jsonl", {});
    for (std::int64_t row = 0; row < kRows; ++row) {
      paths.push_back(fs::absolute(manifest.folder() + "/" + std::string(manifest.row(row).image_path)).string());
      captions.emplace_back(manifest.row(row).caption);
    }
  }

  PaddedBatch batch() const {
    const std::int64_t side = config_.vision.image_size, length = config_.text.max_position_embeddings - 2;
    PaddedBatch batch;
    batch.samples = kRows;
    batch.length = length;
    const Tokenizer tokenizer = Tokenizer::load(path());
    for (const std::string& caption : captions) {
      std::vector<std::int32_t> ids = tokenizer.encode(caption, length);
      for (std::int64_t t = 0; t < length; ++t) {
        const bool valid = t < static_cast<std::int64_t>(ids.size());
        batch.input_ids.push_back(valid ? ids[static_cast<std::size_t>(t)] : 1);
        batch.attention_mask.push_back(valid ? 1 : 0);
      }
    }
    PictureDecoder decoder(path(), side);
    batch.pixels.resize(static_cast<std::size_t>(kRows * 3 * side * side));
    for (std::int64_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(decoder.decode(paths[static_cast<std::size_t>(row)], batch.pixels.data() + row * 3 * side * side), "");
    }
    return batch;
  }

  void run_model() {
    const BridgeTowerConfig::Text& text = config_.text;
    const PackedBatch packed(batch(), text.vocab_size, text.max_position_embeddings, 1, false, false, "test");
    SealedSession whole;
    BridgeTowerOptions options;
    options.head = ModelHead::kContrastive;
    const BridgeTowerOutputs outputs =
        record_bridgetower(whole.session.add_graph(packed.view().counts), config_, options);
    whole.seal();
    initialise_parameters(whole.session.parameter_memory(), 7);
    Replay replay;
    replay.batch = packed.view();
    whole.session.tape(0).replay(whole.threads, replay);
    const float* text_rows = whole.session.tape(0).at(outputs.text_embeds);
    const float* image_rows = whole.session.tape(0).at(outputs.image_embeds);
    text_embeds_.assign(text_rows, text_rows + kRows * width());
    image_embeds_.assign(image_rows, image_rows + kRows * width());
    const ParameterMemory memory = whole.session.parameter_memory();
    const SafetensorsWritePlan weights(tensors_to_write(*memory.set, *memory.layout, memory.trained, memory.fixed, ""));
    ASSERT_TRUE(weights.write((path() + "/model.safetensors").c_str()).ok());
    write_embeddings(path(), metadata(), width());
  }

  test::TemporaryFolder folder_;
  BridgeTowerConfig config_;
};

// Made once: nothing in it changes.
class Search : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { run_ = new FinishedRun; }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }
  static const FinishedRun& run() { return *run_; }
  static SearchArguments arguments(const std::string& query) {
    SearchArguments result;
    result.folder = run_->path();
    result.query = query;
    return result;
  }
  static SearchAnswer answer_to(const SearchArguments& arguments) { return search(arguments, best_isa(), kThreads); }

  // A folder with the files of the run, all but those named.
  static void copy_run(const std::string& to, const std::vector<std::string>& without) {
    for (const fs::directory_entry& file : fs::directory_iterator(run_->path())) {
      const std::string name = file.path().filename().string();
      if (std::find(without.begin(), without.end(), name) == without.end()) fs::copy(file.path(), to + "/" + name);
    }
  }
  // search() fails with this kind, and the message speaks of `part`.
  static void expect_refused(const SearchArguments& arguments, ErrorKind kind, const std::string& part) {
    try {
      answer_to(arguments);
      ADD_FAILURE() << "answered: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

 private:
  static FinishedRun* run_;
};

FinishedRun* Search::run_ = nullptr;

// Rows by descending score; what the search must say.
std::vector<std::size_t> order_of(const std::vector<double>& scores) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

TEST_F(Search, TheTowersAloneGiveTheEmbeddingsOfTheWholeModel) {
  SearchModel model(run().path(), run().config(), {true, run().paths.size()}, best_isa(), kThreads);
  const PictureEmbeddings pictures = model.embed_pictures(run().paths);
  ASSERT_EQ(pictures.paths, run().paths);
  EXPECT_LE(largest_difference(pictures.embeds, run().image_embeds_.data()), 1e-6);
  for (std::size_t row = 0; row < run().captions.size(); ++row) {
    const std::vector<float> embeds = model.embed_text(run().captions[row]);
    EXPECT_LE(largest_difference(embeds, run().text_embeds_.data() + static_cast<std::int64_t>(row) * run().width()),
              1e-6)
        << row;
  }
}

TEST_F(Search, ATextRanksPicturesByTheirCosine) {
  SearchArguments asked = arguments(run().captions[5]);
  asked.top = 1000;
  const SearchAnswer answer = answer_to(asked);
  std::vector<double> scores;
  for (std::size_t row = 0; row < run().paths.size(); ++row)
    scores.push_back(dot(run().text_embed(5), run().image_embed(row)));
  const std::vector<std::size_t> order = order_of(scores);
  ASSERT_EQ(answer.hits.size(), order.size());
  EXPECT_EQ(answer.candidates, order.size());
  EXPECT_EQ(answer.searched, "validation");
  EXPECT_FALSE(answer.from_picture);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(answer.hits[i].path, run().paths[order[i]]) << i;
    EXPECT_EQ(answer.hits[i].caption, run().captions[order[i]]) << i;
    EXPECT_NEAR(answer.hits[i].score, scores[order[i]], 1e-6) << i;
    EXPECT_EQ(answer.hits[i].right, order[i] == 5) << i;
  }
}

TEST_F(Search, APictureRanksCaptionsByTheirCosineHoweverItIsNamed) {
  SearchArguments asked = arguments(run().paths[3]);
  asked.top = 4;
  const SearchAnswer answer = answer_to(asked);
  std::vector<double> scores;
  for (std::size_t row = 0; row < run().paths.size(); ++row)
    scores.push_back(dot(run().image_embed(3), run().text_embed(row)));
  const std::vector<std::size_t> order = order_of(scores);
  ASSERT_EQ(answer.hits.size(), 4u);
  EXPECT_TRUE(answer.from_picture);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.hits[i].caption, run().captions[order[i]]) << i;
    EXPECT_NEAR(answer.hits[i].score, scores[order[i]], 1e-6) << i;
    EXPECT_EQ(answer.hits[i].right, order[i] == 3) << i;
  }
  test::TemporaryFolder folder;
  fs::copy(run().paths[3], folder.path() + "/no extension");
  asked.query = "";
  asked.picture = folder.path() + "/no extension";
  const SearchAnswer other = answer_to(asked);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(other.hits[i].caption, answer.hits[i].caption);
    EXPECT_FALSE(other.hits[i].right);  // the run does not know this file
  }
}

TEST_F(Search, OtherPicturesAreEmbeddedNowAndUnreadableOnesNamed) {
  test::TemporaryFolder folder, model_alone;
  copy_run(model_alone.path(), {"embeddings.safetensors"});
  fs::create_directories(folder.path() + "/below/deep");
  fs::copy(run().paths[0], folder.path() + "/a.JPG");
  fs::copy(run().paths[1], folder.path() + "/below/deep/b.jpeg");
  folder.write("broken.jpg", "no picture at all");
  folder.write("notes.txt", "not looked at");
  SearchArguments asked = arguments(run().captions[1]);
  asked.folder = model_alone.path();
  asked.images = folder.path();
  const SearchAnswer answer = answer_to(asked);
  ASSERT_EQ(answer.refused.size(), 1u);
  EXPECT_EQ(answer.refused[0].path, folder.path() + "/broken.jpg");
  EXPECT_FALSE(answer.refused[0].reason.empty());
  ASSERT_EQ(answer.hits.size(), 2u);
  const std::vector<double> scores = {dot(run().text_embed(1), run().image_embed(0)),
                                      dot(run().text_embed(1), run().image_embed(1))};
  const bool first_wins = scores[0] > scores[1];
  EXPECT_EQ(answer.hits[0].path, folder.path() + (first_wins ? "/a.JPG" : "/below/deep/b.jpeg"));
  EXPECT_NEAR(answer.hits[0].score, std::max(scores[0], scores[1]), 1e-6);
  EXPECT_NEAR(answer.hits[1].score, std::min(scores[0], scores[1]), 1e-6);
}

TEST_F(Search, FoldersOfNothingToSearchAreRefused) {
  test::TemporaryFolder empty, broken;
  SearchArguments asked = arguments("a ghost");
  asked.images = empty.path();
  expect_refused(asked, ErrorKind::kData, "no .jpg or .jpeg");
  asked.images = empty.path() + "/absent";
  expect_refused(asked, ErrorKind::kData, "absent");
  broken.write("broken.jpg", "");
  asked.images = broken.path();
  expect_refused(asked, ErrorKind::kData, "none of its 1 pictures");
}

TEST_F(Search, ArgumentsThatDoNotGoTogetherAreRefused) {
  expect_refused(arguments(""), ErrorKind::kSettings, "one question");
  SearchArguments both = arguments("a ghost");
  both.picture = run().paths[0];
  expect_refused(both, ErrorKind::kSettings, "one question");
  SearchArguments picture_in_folder = arguments(run().paths[0]);
  picture_in_folder.images = FinishedRun::demo() + "/images";
  expect_refused(picture_in_folder, ErrorKind::kSettings, "--images");
  expect_refused(arguments("\xff\xfe"), ErrorKind::kSettings, "UTF-8");
  SearchArguments no_picture = arguments("");
  no_picture.picture = run().path() + "/config.json";
  expect_refused(no_picture, ErrorKind::kData, "config.json");
}

TEST_F(Search, FoldersThatAreNoContrastiveRunAreRefused) {
  test::TemporaryFolder folder;
  SearchArguments asked = arguments("a ghost");
  asked.folder = folder.path();
  expect_refused(asked, ErrorKind::kData, "config.json");

  copy_run(folder.path(), {"embeddings.safetensors"});
  expect_refused(asked, ErrorKind::kData, "embeddings.safetensors");

  std::map<std::string, std::string> metadata = run().metadata();
  run().write_embeddings(folder.path(), metadata, run().width() / 2);
  expect_refused(asked, ErrorKind::kData, "not [24, 128]");
  metadata["captions"] = "[\"one\"]";
  run().write_embeddings(folder.path(), metadata, run().width());
  expect_refused(asked, ErrorKind::kData, "24 paths but 1 captions");
  metadata["captions"] = "[1, 2";
  run().write_embeddings(folder.path(), metadata, run().width());
  expect_refused(asked, ErrorKind::kData, "captions");
  metadata.erase("captions");
  run().write_embeddings(folder.path(), metadata, run().width());
  expect_refused(asked, ErrorKind::kData, "no \"captions\"");

  Json config = read_json_file(run().path() + "/config.json");
  config["architectures"] = {"BridgeTowerForImageAndTextRetrieval"};
  folder.write("config.json", json_text(config));
  expect_refused(asked, ErrorKind::kData, "BridgeTowerForImageAndTextRetrieval has no embeddings");
}

TEST_F(Search, WeightsWithoutTheContrastiveHeadAreRefused) {
  test::TemporaryFolder folder;
  copy_run(folder.path(), {"model.safetensors"});
  const TensorSource all = open_hf_weights(run().path());
  std::vector<TensorToWrite> kept;
  for (const StoredTensor& tensor : all.tensors()) {
    if (tensor.name.rfind("itc_", 0) == 0) continue;
    kept.push_back({tensor.name, DType::kFloat32, tensor.shape, nullptr, &all, &tensor});
  }
  ASSERT_TRUE(SafetensorsWritePlan(kept).write((folder.path() + "/model.safetensors").c_str()).ok());
  SearchArguments asked = arguments("a ghost");
  asked.folder = folder.path();
  expect_refused(asked, ErrorKind::kData, "itc_text_head");
}

TEST_F(Search, TheJsonDocumentHoldsTheAnswer) {
  SearchArguments asked = arguments(run().captions[2]);
  asked.top = 3;
  const SearchAnswer answer = answer_to(asked);
  const Json json = parse_json(search_json(answer, "page.html"), "json");
  EXPECT_EQ(json.at("query"), run().captions[2]);
  EXPECT_EQ(json.at("query_is_picture"), false);
  EXPECT_EQ(json.at("searched"), "validation");
  EXPECT_EQ(json.at("candidates"), 24);
  EXPECT_EQ(json.at("html"), "page.html");
  EXPECT_EQ(json.at("refused"), Json::array());
  ASSERT_EQ(json.at("results").size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& result = json.at("results")[i];
    EXPECT_EQ(result.at("path"), answer.hits[i].path);
    EXPECT_EQ(result.at("caption"), answer.hits[i].caption);
    EXPECT_EQ(result.at("score"), answer.hits[i].score);
    EXPECT_EQ(result.at("right"), answer.hits[i].right);
  }
}

TEST_F(Search, TheAnswerIsOneLineAHitAndAPageOfItsPictures) {
  test::TemporaryFolder folder;
  SearchArguments asked = arguments("a ghost & <more>");
  asked.top = 2;
  asked.html = folder.path() + "/page.html";
  const SearchAnswer answer = answer_to(asked);
  const std::string text = search_text(answer);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find("the nearest of 24 pictures of validation"), std::string::npos) << text;
  show_answer(asked, answer);
  std::ifstream file(asked.html);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_NE(page.find("a ghost &amp; &lt;more&gt;"), std::string::npos);
  EXPECT_EQ(page.find("<more>"), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  for (const SearchHit& hit : answer.hits) {
    EXPECT_NE(page.find(base64(read_picture_file(hit.path))), std::string::npos) << hit.path;
    EXPECT_NE(page.find(hit.path), std::string::npos) << hit.path;
  }
  asked.html = folder.path() + "/no such folder/page.html";
  try {
    show_answer(asked, answer);
    ADD_FAILURE() << "a page was written into nowhere";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDisk);
  }
}

TEST(SearchIndex, OfRowsWithOneNameTheBestIsRankedAndTiesGoToTheFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> embeds = {0.5f, 0.0f, /**/ 1.0f, 0.0f, /**/ 0.0f, 1.0f, /**/ nan, 0.0f, /**/ 0.5f, 0.5f};
  const std::vector<std::string> names = {"a", "a", "b", "c", "d"};
  std::size_t candidates = 0;
  const std::vector<Ranked> ranked = nearest({1.0f, 0.0f}, embeds, names, 10, &candidates);
  EXPECT_EQ(candidates, 4u);
  ASSERT_EQ(ranked.size(), 4u);
  EXPECT_EQ(ranked[0].row, 1u);
  EXPECT_EQ(ranked[1].row, 4u);
  EXPECT_EQ(ranked[2].row, 2u);
  EXPECT_EQ(ranked[3].row, 3u);  // what is no number is last
  EXPECT_EQ(nearest({1.0f, 0.0f}, embeds, names, 2, &candidates).size(), 2u);
  EXPECT_EQ(candidates, 4u);
}

// The reference's own answer (float64), for weights and inputs of its own.
std::vector<float> golden(const TensorSource& source, const std::string& name) {
  const StoredTensor* tensor = source.find(name);
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor->shape)));
  source.read_float32(values.data(), *tensor, 0, static_cast<std::int64_t>(values.size()));
  return values;
}

TEST(Embed, GivesTheEmbeddingsOfTheReference) {
  const std::string folder = reference_dir() + "/goldens/itc_add";
  const BridgeTowerConfig config = read_bridgetower_config(folder + "/config.json");
  const TensorSource inputs = open_safetensors(folder + "/batch.safetensors"),
                     expected = open_safetensors(folder + "/expected.safetensors");
  const std::vector<std::int64_t> ids = inputs.find("batch0.input_ids")->shape,
                                  pixels = inputs.find("batch0.pixel_values")->shape;
  PaddedBatch padded;
  padded.samples = ids[0];
  padded.length = ids[1];
  padded.input_ids.resize(static_cast<std::size_t>(ids[0] * ids[1]));
  padded.attention_mask.resize(padded.input_ids.size());
  inputs.read_bytes(padded.input_ids.data(), *inputs.find("batch0.input_ids"));
  inputs.read_bytes(padded.attention_mask.data(), *inputs.find("batch0.attention_mask"));
  padded.pixels = golden(inputs, "batch0.pixel_values");
  const PackedBatch packed(padded, config.text.vocab_size, config.text.max_position_embeddings,
                           static_cast<std::int32_t>(config.text.pad_token_id), false, false, folder);
  SealedSession towers;
  const BatchCounts counts = packed.view().counts;
  const Tensor text = record_text_embeds(towers.session.add_graph(counts), config);
  const Tensor image = record_image_embeds(towers.session.add_graph(counts), config, pixels[2], pixels[3]);
  towers.seal();
  const LoadReport report = load_parameters(open_hf_weights(folder), towers.session.parameter_memory(), 0);
  EXPECT_TRUE(report.missing.empty());
  for (const std::string& name : report.unused) EXPECT_EQ(name.find("itc_text"), std::string::npos) << name;
  Replay replay;
  replay.batch = packed.view();
  towers.session.tape(0).replay(towers.threads, replay);
  EXPECT_LE(largest_difference(golden(expected, "text_embeds"), towers.session.tape(0).at(text)), 2e-6);
  towers.session.tape(1).replay(towers.threads, replay);
  EXPECT_LE(largest_difference(golden(expected, "image_embeds"), towers.session.tape(1).at(image)), 2e-6);
}

}  // namespace
}  // namespace bascule
