// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "src/answer/page.h"
#include "src/ask/search_model.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/pictures/picture_decoder.h"
#include "tests/ask/finished_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;
using test::FinishedRun;
using test::kThreads;

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

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

  // search() fails with this kind, and the message speaks of `part`.
  static void expect_refused(const SearchArguments& arguments, ErrorKind kind, const std::string& part) {
    EXPECT_TRUE(test::fails([&] { answer_to(arguments); }, part, kind));
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

TEST_F(Search, ATextRanksPicturesByTheirCosine) {
  SearchArguments asked = arguments(run().captions()[5]);
  asked.top = 1000;
  const SearchAnswer answer = answer_to(asked);
  std::vector<double> scores;
  for (std::size_t row = 0; row < run().paths().size(); ++row)
    scores.push_back(dot(run().text_embed(5), run().image_embed(row)));
  const std::vector<std::size_t> order = order_of(scores);
  ASSERT_EQ(answer.hits.size(), order.size());
  EXPECT_EQ(answer.candidates, order.size());
  EXPECT_EQ(answer.searched, "validation");
  EXPECT_FALSE(answer.from_picture);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(answer.hits[i].path, run().paths()[order[i]]) << i;
    EXPECT_EQ(answer.hits[i].caption, run().captions()[order[i]]) << i;
    EXPECT_NEAR(answer.hits[i].score, scores[order[i]], 1e-6) << i;
    EXPECT_EQ(answer.hits[i].right, order[i] == 5) << i;
  }
}

// A text needs the text tower alone, but the other weights are of the model.
TEST_F(Search, WeightsThatNoHeadReadsAreNamedAndOthersNot) {
  const auto said = [&](const SearchArguments& asked) {
    ::testing::internal::CaptureStderr();
    answer_to(asked);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(arguments("a ghost")), "");
  test::TemporaryFolder folder;
  run().copy_to(folder.path(), {"model.safetensors"});
  const TensorSource all = open_hf_weights(run().path());
  std::vector<TensorToWrite> more;
  for (const StoredTensor& tensor : all.tensors())
    more.push_back({tensor.name, DType::kFloat32, tensor.shape, nullptr, &all, &tensor});
  const float value = 1.0f;
  more.push_back({"bridgetower.vision_model.more", DType::kFloat32, {1}, &value});
  ASSERT_TRUE(SafetensorsWritePlan(more).write((folder.path() + "/model.safetensors").c_str()).ok());
  SearchArguments asked = arguments("a ghost");
  asked.folder = folder.path();
  EXPECT_EQ(said(asked), "bascule: weights: not used: bridgetower.vision_model.more\n");
}

TEST_F(Search, APictureRanksCaptionsByTheirCosineHoweverItIsNamed) {
  SearchArguments asked = arguments(run().paths()[3]);
  asked.top = 4;
  const SearchAnswer answer = answer_to(asked);
  std::vector<double> scores;
  for (std::size_t row = 0; row < run().paths().size(); ++row)
    scores.push_back(dot(run().image_embed(3), run().text_embed(row)));
  const std::vector<std::size_t> order = order_of(scores);
  ASSERT_EQ(answer.hits.size(), 4u);
  EXPECT_TRUE(answer.from_picture);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.hits[i].caption, run().captions()[order[i]]) << i;
    EXPECT_NEAR(answer.hits[i].score, scores[order[i]], 1e-6) << i;
    EXPECT_EQ(answer.hits[i].right, order[i] == 3) << i;
  }
  test::TemporaryFolder folder;
  fs::copy(run().paths()[3], folder.path() + "/no extension");
  asked.query = "";
  asked.picture = folder.path() + "/no extension";
  const SearchAnswer other = answer_to(asked);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(other.hits[i].caption, answer.hits[i].caption);
    EXPECT_FALSE(other.hits[i].right);  // the run does not know this file
  }
}

TEST_F(Search, TheCaptionsOfAPictureAreMarkedHoweverItsPathIsWritten) {
  const fs::path path = run().paths()[3];
  SearchArguments asked = arguments((path.parent_path() / "." / path.filename()).string());
  ASSERT_NE(asked.query, run().paths()[3]);
  asked.top = run().paths().size();
  for (const SearchHit& hit : answer_to(asked).hits)
    EXPECT_EQ(hit.right, hit.caption == run().captions()[3]) << hit.caption;
}

TEST_F(Search, OtherPicturesAreEmbeddedNowAndUnreadableOnesNamed) {
  test::TemporaryFolder folder, model_alone;
  run().copy_to(model_alone.path(), {"embeddings.safetensors"});
  fs::create_directories(folder.path() + "/below/deep");
  fs::copy(run().paths()[0], folder.path() + "/a.JPG");
  fs::copy(run().paths()[1], folder.path() + "/below/deep/b.jpeg");
  folder.write("broken.jpg", "no picture at all");
  folder.write("notes.txt", "not looked at");
  SearchArguments asked = arguments(run().captions()[1]);
  asked.folder = model_alone.path();
  asked.images = folder.path();
  const SearchAnswer answer = answer_to(asked);
  EXPECT_TRUE(answer.map.captions.empty());
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
  expect_refused(asked, ErrorKind::kData, "no .jpg, .jpeg, .png or .webp");
  asked.images = empty.path() + "/absent";
  expect_refused(asked, ErrorKind::kData, "absent");
  broken.write("broken.jpg", "");
  asked.images = broken.path();
  expect_refused(asked, ErrorKind::kData, "its only picture cannot be read; ");
}

TEST_F(Search, ArgumentsThatDoNotGoTogetherAreRefused) {
  expect_refused(arguments(""), ErrorKind::kSettings, "nothing to search for");
  expect_refused(arguments("nowhere/cat.jpg"), ErrorKind::kData, "no such picture");
  SearchArguments both = arguments("a ghost");
  both.picture = run().paths()[0];
  expect_refused(both, ErrorKind::kSettings, "both a text and a picture");
  SearchArguments picture_in_folder = arguments(run().paths()[0]);
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

  run().copy_to(folder.path(), {"embeddings.safetensors"});
  expect_refused(asked, ErrorKind::kData, "embeddings.safetensors");

  std::map<std::string, std::string> metadata = run().metadata();
  run().write_embeddings(folder.path(), metadata, run().config().contrastive_hidden_size / 2);
  expect_refused(asked, ErrorKind::kData, "not [24, 128]");
  metadata["captions"] = "[\"one\"]";
  run().write_embeddings(folder.path(), metadata, run().config().contrastive_hidden_size);
  expect_refused(asked, ErrorKind::kData, "24 paths but 1 caption");
  metadata["captions"] = "[1, 2";
  run().write_embeddings(folder.path(), metadata, run().config().contrastive_hidden_size);
  expect_refused(asked, ErrorKind::kData, "captions");
  metadata.erase("captions");
  run().write_embeddings(folder.path(), metadata, run().config().contrastive_hidden_size);
  expect_refused(asked, ErrorKind::kData, "no \"captions\"");

  Json config = read_json_file(run().path() + "/config.json");
  config["architectures"] = {"BridgeTowerForImageAndTextRetrieval"};
  folder.write("config.json", json_text(config));
  expect_refused(asked, ErrorKind::kData, "BridgeTowerForImageAndTextRetrieval has no embeddings");
}

TEST_F(Search, WeightsWithoutTheContrastiveHeadAreRefused) {
  test::TemporaryFolder folder;
  run().copy_to(folder.path(), {"model.safetensors"});
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

TEST_F(Search, EmbeddingsThatAreNotFiniteAreRefused) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    test::TemporaryFolder folder;
    run().copy_to(folder.path(), {});
    std::fstream file(folder.path() + "/embeddings.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-static_cast<std::streamoff>(sizeof value), std::ios::end);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
    file.close();
    SearchArguments asked = arguments("a ghost");
    asked.folder = folder.path();
    expect_refused(asked, ErrorKind::kData, "text_embeds: row 23 holds " + std::to_string(value));
  }
}

TEST_F(Search, AModelThatDivergedIsRefused) {
  test::TemporaryFolder folder;
  run().copy_to(folder.path(), {"model.safetensors"});
  const TensorSource all = open_hf_weights(run().path());
  const std::vector<float> nans(1 << 20, std::numeric_limits<float>::quiet_NaN());
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : all.tensors()) {
    if (tensor.name.rfind("itc_", 0) == 0) {
      tensors.push_back({tensor.name, DType::kFloat32, tensor.shape, nans.data(), nullptr, nullptr});
    } else {
      tensors.push_back({tensor.name, DType::kFloat32, tensor.shape, nullptr, &all, &tensor});
    }
  }
  ASSERT_TRUE(SafetensorsWritePlan(tensors).write((folder.path() + "/model.safetensors").c_str()).ok());
  SearchArguments asked = arguments("a ghost");
  asked.folder = folder.path();
  expect_refused(asked, ErrorKind::kData, "the text's embedding: row 0 holds nan");
  asked = arguments("");
  asked.folder = folder.path();
  asked.picture = run().paths()[0];
  expect_refused(asked, ErrorKind::kData, "the pictures' embeddings: row 0 holds nan");
}

TEST_F(Search, TheJsonDocumentHoldsTheAnswer) {
  SearchArguments asked = arguments(run().captions()[2]);
  asked.top = 3;
  const SearchAnswer answer = answer_to(asked);
  const Json json = parse_json(search_json(answer, "page.html"), "json");
  EXPECT_EQ(json["query"], run().captions()[2]);
  EXPECT_EQ(json["query_is_picture"], false);
  EXPECT_EQ(json["searched"], "validation");
  EXPECT_EQ(json["candidates"], 24);
  EXPECT_EQ(json["html"], "page.html");
  EXPECT_EQ(json["refused"], Json::array());
  ASSERT_EQ(json["results"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& result = json["results"][i];
    EXPECT_EQ(result["path"], answer.hits[i].path);
    EXPECT_EQ(result["caption"], answer.hits[i].caption);
    EXPECT_EQ(result["score"], answer.hits[i].score);
    EXPECT_EQ(result["right"], answer.hits[i].right);
  }
}

// The names are made in another order, so that no file system happens to give them as wanted.
TEST(FindPictures, GivesTheFilesOfAFolderInTheOrderOfTheirNames) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/e");
  std::vector<std::string> expected;
  for (const char* name :
       {"h.png", "b.jpg", "e/z.png", "j.JPEG", "a.webp", "e/c.jpg", "d.png", "i.jpg", "e.txt", "g.png"}) {
    const std::string path = folder.write(name, "");
    if (path.find(".txt") == std::string::npos) expected.push_back(path);
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(find_pictures(folder.path()), expected);
}

TEST(SearchText, NamesPicturesAsSeenFromTheCurrentFolder) {
  SearchAnswer answer;
  answer.hits = {{fs::current_path().string() + "/pictures/a.jpg", "a cat", 0.5, false}};
  for (const bool from_picture : {false, true}) {
    answer.from_picture = from_picture;
    const std::string text = search_text(answer);
    EXPECT_NE(text.find(from_picture ? "(pictures/a.jpg)" : " pictures/a.jpg "), std::string::npos) << text;
    EXPECT_EQ(text.find(fs::current_path().string()), std::string::npos) << text;
  }
}

std::string page_of(const SearchArguments& asked, Isa isa) {
  test::TemporaryFolder folder;
  SearchArguments written = asked;
  written.html = folder.path() + "/page.html";
  show_answer(written, search(asked, isa, kThreads));
  std::ifstream file(written.html);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(Search, ThePageHasAMapOfTheRunWithTheQueryOnEveryCpuTheSame) {
  SearchArguments asked = arguments("a ghost");
  const SearchAnswer answer = answer_to(asked);
  ASSERT_EQ(answer.map.captions.size(), run().captions().size());
  EXPECT_EQ(answer.map.pictures.size(), run().paths().size());
  EXPECT_TRUE(answer.map.has_query);
  for (const MapPicture& picture : answer.map.pictures) {
    if (picture.location != answer.hits[0].path) continue;
    EXPECT_TRUE(picture.has_thumbnail);
  }
  const std::string page = page_of(asked, best_isa());
  EXPECT_NE(page.find("<input type=\"radio\" name=\"map\""), std::string::npos);
  EXPECT_NE(page.find(" style=\"background-image:url(data:image/png;base64,"), std::string::npos);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) continue;
    EXPECT_TRUE(page_of(asked, isa) == page) << isa_name(isa);
  }
  asked = arguments(run().paths()[3]);
  EXPECT_TRUE(answer_to(asked).map.has_query);
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
  EXPECT_TRUE(test::fails([&] { show_answer(asked, answer); }, "", ErrorKind::kDisk));
}

TEST(SearchIndex, OfRowsWithOneNameTheBestIsRankedAndTiesGoToTheFirst) {
  const std::vector<float> embeds = {0.5f, 0.0f, /**/ 1.0f, 0.0f, /**/ 0.0f, 1.0f, /**/ 0.5f, 0.5f};
  const std::vector<std::string> names = {"a", "a", "b", "c"};
  std::size_t candidates = 0;
  const std::vector<Neighbour> ranked = nearest_names({1.0f, 0.0f}, embeds, names, 10, &candidates);
  EXPECT_EQ(candidates, 3u);
  ASSERT_EQ(ranked.size(), 3u);
  EXPECT_EQ(ranked[0].row, 1);
  EXPECT_EQ(ranked[1].row, 3);
  EXPECT_EQ(ranked[2].row, 2);
  EXPECT_EQ(nearest_names({1.0f, 0.0f}, embeds, names, 2, &candidates).size(), 2u);
  EXPECT_EQ(candidates, 3u);
}

}  // namespace
}  // namespace bascule
