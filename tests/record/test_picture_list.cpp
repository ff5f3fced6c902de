// SPDX-License-Identifier: Apache-2.0
// Which pictures a run draws: prompts of the settings or of a file, their seeds, the noise that each begins with.
#include "src/record/picture_files.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/record/small_drawing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

PictureList list_of(const std::string& keys) {
  static const Pipeline pipeline = open_pipeline(pipeline_folder("sd_v1"));
  static const PromptTokenizer tokenizer(pipeline);
  return list_pictures(drawing_settings(keys), tokenizer);
}

class PictureLists : public ::testing::Test {
 protected:
  PictureList of_file(const std::string& name, const std::string& content, const std::string& keys = "") {
    file_ = folder_.write(name, content);
    return list_of("prompts_file = \"" + file_ + "\"\n" + keys);
  }
  // The problem that is found at `place` of the file: ":2", in some column, or "".
  std::string refusal(const std::string& name, const std::string& content, const std::string& place,
                      const std::string& keys = "") {
    const std::string line = error_of([&] { of_file(name, content, keys); });
    const std::string begin = file_ + place + ":";
    EXPECT_EQ(line.rfind(begin, 0), 0u) << line;
    const std::size_t problem = line.find(": ", std::min(begin.size() - 1, line.size()));
    return line.substr(std::min(problem + 2, line.size()));
  }
  static std::vector<std::string> prompts(const PictureList& list) {
    std::vector<std::string> texts;
    for (const ListedPicture& picture : list.pictures)
      texts.push_back(list.texts.at(static_cast<std::size_t>(picture.prompt)).text);
    return texts;
  }

  TemporaryFolder folder_;
  std::string file_;
};

using Texts = std::vector<std::string>;

TEST_F(PictureLists, HaveEachPromptSoManyTimesAndATextOnce) {
  const PictureList list = list_of(
      "prompts = [\"cat\", \"dog\", \"cat\"]\nnum_images_per_prompt = 2\nnegative_prompt = \"dog\"\nseed = 9\n");
  EXPECT_EQ(prompts(list), (Texts{"cat", "cat", "dog", "dog", "cat", "cat"}));
  EXPECT_EQ(list.texts.size(), 2u);
  for (std::size_t i = 0; i < list.pictures.size(); ++i) {
    EXPECT_EQ(list.pictures[i].seed, 9u);
    EXPECT_EQ(list.pictures[i].noise, static_cast<std::int64_t>(i));
    EXPECT_EQ(list.texts[static_cast<std::size_t>(list.pictures[i].negative)].text, "dog");
  }
  for (const DrawnText& text : list.texts) EXPECT_EQ(text.ids.size(), 77u);
}

TEST_F(PictureLists, WithoutGuidanceNoNegativePromptIsEncoded) {
  const PictureList list = list_of("prompts = [\"cat\", \"dog\"]\nguidance_scale = 1.0\n");
  EXPECT_EQ(list.texts.size(), 2u);
  EXPECT_EQ(list_of("prompts = [\"cat\", \"dog\"]\n").texts.size(), 3u) << "and the empty one";
}

TEST_F(PictureLists, LinesOfATextFileArePrompts) {
  EXPECT_EQ(prompts(of_file("p.txt", "a cat\n\n  \t\n two  dogs \r\n\r\n{\"prompt\": 1}\nno line break")),
            (Texts{"a cat", " two  dogs ", "{\"prompt\": 1}", "no line break"}));
  EXPECT_EQ(prompts(of_file("p", "a\n")), Texts{"a"});
  EXPECT_EQ(prompts(of_file("p.txt",
                            "\xEF\xBB\xBF"
                            "a\n")),
            Texts{"a"})
      << "a byte order mark is no text";
  EXPECT_EQ(prompts(of_file("p.jsonl", "\xEF\xBB\xBF{\"prompt\": \"a\"}\n")), Texts{"a"});
}

TEST_F(PictureLists, RowsOfAJsonFileHaveTextsAndSeedsOfTheirOwn) {
  const PictureList list = of_file("p.jsonl",
                                   "{\"prompt\": \"cat\"}\r\n\n"
                                   "{\"prompt\": \"dog\", \"negative_prompt\": \"\", \"seed\": 18446744073709551615}\n"
                                   "{\"prompt\": \"\", \"seed\": null}\n",
                                   "num_images_per_prompt = 2\nnegative_prompt = \"blurry\"\nseed = 4\n");
  EXPECT_EQ(prompts(list), (Texts{"cat", "cat", "dog", "dog", "", ""}));
  Texts negatives;
  std::vector<std::pair<std::uint64_t, std::int64_t>> noise;
  for (const ListedPicture& picture : list.pictures) {
    negatives.push_back(list.texts[static_cast<std::size_t>(picture.negative)].text);
    noise.emplace_back(picture.seed, picture.noise);
  }
  EXPECT_EQ(negatives, (Texts{"blurry", "blurry", "", "", "blurry", "blurry"}));
  const std::uint64_t own = 18446744073709551615u;
  EXPECT_EQ(noise,
            (std::vector<std::pair<std::uint64_t, std::int64_t>>{{4, 0}, {4, 1}, {own, 0}, {own, 1}, {4, 4}, {4, 5}}));
}

// So that one picture of a list can be drawn alone.
TEST_F(PictureLists, ARowMayNameTheNumberOfItsNoise) {
  const PictureList list = of_file("p.jsonl",
                                   "{\"prompt\": \"cat\", \"noise\": 7}\n{\"prompt\": \"dog\"}\n"
                                   "{\"prompt\": \"hen\", \"seed\": 5, \"noise\": 2}\n",
                                   "num_images_per_prompt = 2\nseed = 4\n");
  std::vector<std::pair<std::uint64_t, std::int64_t>> noise;
  for (const ListedPicture& picture : list.pictures) noise.emplace_back(picture.seed, picture.noise);
  EXPECT_EQ(noise,
            (std::vector<std::pair<std::uint64_t, std::int64_t>>{{4, 7}, {4, 8}, {4, 2}, {4, 3}, {5, 2}, {5, 3}}));
}

TEST_F(PictureLists, ABadRowIsRefusedByItsLine) {
  const std::tuple<const char*, const char*> kRows[] = {
      {"{\"prompt\": \"a\", \"promt\": \"b\"}", "unknown key \"promt\"; known: prompt, negative_prompt, seed, noise"},
      {"{\"prompt\": 3}", "\"prompt\""},
      {"{\"negative_prompt\": \"a\"}", "\"prompt\""},
      {"{\"prompt\": null}", "\"prompt\""},
      {"{\"prompt\": \"a\", \"negative_prompt\": [\"b\"]}", "\"negative_prompt\""},
      {"{\"prompt\": \"a\", \"seed\": -1}", "\"seed\" is -1; it must be an integer from 0 to 18446744073709551615"},
      {"{\"prompt\": \"a\", \"noise\": -1}", "noise is -1"},
      {"{\"prompt\": \"a\", \"noise\": 4611686018427387904}", "write a number from 0 to 4611686018427387903"},
      {"{\"prompt\": \"a\", \"noise\": 0.5}", "\"noise\""},
      {"{\"prompt\": \"a\", \"seed\": 1.5}", "\"seed\""},
      {"{\"prompt\": \"a\", \"seed\": \"1\"}", "\"seed\""},
      {"{\"prompt\": \"a\", \"seed\": 18446744073709551616}", "\"seed\""},
      {"[\"a\"]", "is not a JSON object"},
      {"a cat", "not JSON"},
      {"{\"prompt\": \"a\"", "not JSON"},
      {"{\"prompt\": \"a\"} {\"prompt\": \"b\"}", "not JSON"},
      {"{\"prompt\": \"a\xff\"}", "UTF-8"}};
  for (const auto& [row, words] : kRows) {
    const std::string line = refusal("p.jsonl", "{\"prompt\": \"fine\"}\n\n" + std::string(row) + "\n", ":3");
    EXPECT_NE(line.find(words), std::string::npos) << line;
  }
  EXPECT_NE(refusal("p.jsonl", "{\"prompt\": \"a\", \"negative_prompt\": \"b\"}\n", ":1", "guidance_scale = 1.0\n")
                .find("no effect without guidance"),
            std::string::npos);
  EXPECT_NE(refusal("p.jsonl", "{\"prompt\": \"a\", \"seed\": 3}\n", ":1", "latents_file = \"l\"\n")
                .find("seed has no effect"),
            std::string::npos);
  EXPECT_NE(refusal("p.jsonl", "{\"prompt\": \"a\", \"noise\": 3}\n", ":1", "latents_file = \"l\"\n")
                .find("noise has no effect"),
            std::string::npos);
  EXPECT_NE(refusal("p.jsonl", "{\"prompt\": \"a\\u0000b\"}\n", ":1").find("has a NUL character"), std::string::npos);
  EXPECT_NE(refusal("p.txt", std::string("a\nb\0c\n", 6), ":2").find("has a NUL character"), std::string::npos);
  EXPECT_NE(refusal("p.txt", "a\n" + std::string(65537, 'b') + "\n", ":2").find("has 65537 bytes in one line"),
            std::string::npos);
}

TEST_F(PictureLists, ATextThatIsNotUtf8IsRefusedByItsLine) {
  EXPECT_NE(refusal("p.txt", "a cat\na \xff dog\n", ":2").find("UTF-8"), std::string::npos);
}

TEST_F(PictureLists, AFileWithoutAPromptIsRefused) {
  for (const char* content : {"", "\n\r\n \t\n"}) {
    EXPECT_EQ(refusal("p.txt", content, ""), "has no prompt");
    EXPECT_EQ(refusal("p.jsonl", content, ""), "has no prompt");
  }
}

// What the model does not read is said once for each text, however many pictures it has.
TEST_F(PictureLists, ALongTextIsCutAndSaid) {
  std::string text;
  for (int i = 0; i < 76; ++i) text += "cat ";
  const PictureList list = list_of("prompts = [\"" + text + "\", \"" + text + "\"]\nnum_images_per_prompt = 2\n");
  ASSERT_EQ(list.notes.size(), 1u);
  EXPECT_NE(list.notes[0].find("test.toml:5:11: prompt cut by 1 token to the length that the model reads: \"cat\""),
            std::string::npos)
      << list.notes[0];
  EXPECT_EQ(list.texts[0].ids.size(), 77u);
  EXPECT_EQ(list_of("prompts = [\"" + text.substr(4) + "\"]\n").notes, Texts{});
}

// Its place is that of draw.negative_prompt, or of the row that has one.
TEST_F(PictureLists, ACutNegativePromptIsNamedAtItsOwnPlace) {
  std::string text;
  for (int i = 0; i < 76; ++i) text += "cat ";
  const std::string in_settings = "test.toml:6:19: negative prompt cut by 1 token ";
  const std::string settings = "\nnegative_prompt = \"" + text + "\"\n";
  for (const Texts& notes :
       {list_of("prompts = [\"dog\"]" + settings).notes, of_file("p.txt", "dog\ncat\n", settings.substr(1)).notes}) {
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find(in_settings), std::string::npos) << notes[0];
  }
  const Texts notes =
      of_file("p.jsonl", "{\"prompt\": \"dog\"}\n{\"prompt\": \"cat\", \"negative_prompt\": \"cat " + text + "\"}\n",
              settings.substr(1))
          .notes;
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find(in_settings), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("p.jsonl:2: negative prompt cut by 2 tokens "), std::string::npos) << notes[1];
}

TEST_F(PictureLists, MorePicturesThanARunMayDrawAreRefused) {
  const std::string line =
      error_of([] { list_of("prompts = [\"a\", \"b\"]\nnum_images_per_prompt = 5000001\n"); }, ErrorKind::kSettings);
  EXPECT_NE(line.find("more than 10000000 pictures"), std::string::npos) << line;
}

}  // namespace
}  // namespace bascule::test
