// SPDX-License-Identifier: Apache-2.0
#include "src/record/picture_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/utf8.h"
#include "src/files/input_file.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// One prompt as the user gave it.
struct PromptRow {
  std::string prompt;
  std::string negative;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> noise;  // of its first picture
  std::string where;
  std::string where_negative;
};

constexpr std::size_t kMostPictures = 10'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;  // of prompts_file

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

constexpr std::size_t kMostLineBytes = std::size_t{1} << 16;

// The member that numbers a picture's noise; it is written beside no other noise.
const Json* noise_member(const Json& json, const char* key, const std::string& where, const DrawSettings& draw) {
  const Json* const member = find_member(json, key, where);
  if (member != nullptr && draw.latents_file.is_given())
    throw Error(ErrorKind::kData, where, std::string(key) + " has no effect: the noise is that of draw.latents_file",
                "remove one of them");
  return member;
}

// {"prompt": "...", "negative_prompt": "...", "seed": 1, "noise": 2}
PromptRow row_of_json(const std::string& line, std::int64_t number, const std::string& where,
                      const std::string& where_negative, const DrawSettings& draw) {
  const Json json = parse_json(line, draw.prompts_file.shown(), number);
  if (!json.is_object()) throw Error(ErrorKind::kData, where, "is not a JSON object", "write {\"prompt\": \"...\"}");
  PromptRow row;
  row.where = where;
  row.where_negative = find_member(json, "negative_prompt", where) == nullptr ? where_negative : where;
  for (const auto& [key, value] : json.items()) {
    if (key != "prompt" && key != "negative_prompt" && key != "seed" && key != "noise")
      throw Error(ErrorKind::kData, where, "unknown key \"" + key + "\"",
                  "known: prompt, negative_prompt, seed, noise");
  }
  row.prompt = get_string(json, "prompt", where);
  row.negative = get_string(json, "negative_prompt", where, draw.negative_prompt);
  if (draw.guidance_scale <= 1.0 && find_member(json, "negative_prompt", where) != nullptr)
    throw Error(ErrorKind::kData, where, "negative_prompt has no effect without guidance",
                "remove it, or set draw.guidance_scale above 1");
  if (noise_member(json, "seed", where, draw) != nullptr) row.seed = get_unsigned(json, "seed", where);
  if (noise_member(json, "noise", where, draw) != nullptr) {
    row.noise = get_int(json, "noise", where);
    if (*row.noise < 0 || *row.noise > kLargestNoise)
      throw Error(ErrorKind::kData, where, "noise is " + std::to_string(*row.noise),
                  "write a number from 0 to " + std::to_string(kLargestNoise));
  }
  return row;
}

// where_negative: the place of draw.negative_prompt.
std::vector<PromptRow> rows_of_file(const DrawSettings& draw, const std::string& where_negative) {
  const std::string& path = draw.prompts_file.resolved;
  const bool is_json = ends_with(path, ".jsonl");
  const std::string text = text_of_file(path, kMostBytes);
  std::vector<PromptRow> rows;
  std::int64_t number = 0;
  const bool has_byte_order_mark = text.rfind("\xEF\xBB\xBF", 0) == 0;
  for (std::size_t at = has_byte_order_mark ? 3 : 0; at < text.size();) {
    const std::size_t end = find_line_break(text, at);
    const std::string line = text.substr(at, end - at);
    at = end + line_break_bytes(std::string_view(text).substr(end));
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string where = draw.prompts_file.shown() + ":" + std::to_string(number);
    if (line.size() > kMostLineBytes)
      throw Error(ErrorKind::kData, where, "has " + std::to_string(line.size()) + " bytes in one line",
                  "a model reads less than a hundred words of a prompt");
    rows.push_back(is_json ? row_of_json(line, number, where, where_negative, draw)
                           : PromptRow{line, draw.negative_prompt, {}, {}, where, where_negative});
  }
  if (rows.empty()) throw Error(ErrorKind::kData, draw.prompts_file.shown(), "has no prompt");
  return rows;
}

std::vector<PromptRow> rows_of(const Settings& settings) {
  const DrawSettings& draw = settings.draw;
  const std::string where_negative = where_written(settings, "draw.negative_prompt");
  if (draw.prompts_file.is_given()) return rows_of_file(draw, where_negative);
  std::vector<PromptRow> rows;
  for (const std::string& prompt : draw.prompts)
    rows.push_back({prompt, draw.negative_prompt, {}, {}, where_written(settings, "draw.prompts"), where_negative});
  return rows;
}

}  // namespace

PictureList list_pictures(const Settings& settings, const PromptTokenizer& tokenizer) {
  const std::vector<PromptRow> rows = rows_of(settings);
  const std::size_t each = static_cast<std::size_t>(settings.draw.num_images_per_prompt);
  if (rows.size() > kMostPictures / each)
    throw Error(ErrorKind::kSettings, where_written(settings, "draw.num_images_per_prompt"),
                "the run would draw more than " + std::to_string(kMostPictures) + " pictures", "draw fewer");
  PictureList list;
  std::map<std::string, std::int32_t> numbers;
  const auto number_of = [&](const std::string& text, const char* name, const std::string& where) {
    if (text.find('\0') != std::string::npos)
      throw Error(ErrorKind::kData, where, "has a NUL character", "remove it: the file of a picture cannot hold it");
    const auto [found, is_new] = numbers.try_emplace(text, static_cast<std::int32_t>(list.texts.size()));
    if (is_new) {
      EncodedPrompt encoded = tokenizer.encode(text, where);
      if (encoded.tokens_cut > 0)
        list.notes.push_back(where + ": " + name + " cut by " + count_of(encoded.tokens_cut, "token") +
                             " to the length that the model reads: \"" + encoded.text_cut + "\"");
      list.texts.push_back({text, std::move(encoded.ids)});
    }
    return found->second;
  };
  const bool is_guided = settings.draw.guidance_scale > 1.0;
  for (const PromptRow& row : rows) {
    ListedPicture picture;
    picture.prompt = number_of(row.prompt, "prompt", row.where);
    picture.negative = is_guided ? number_of(row.negative, "negative prompt", row.where_negative) : picture.prompt;
    picture.seed = row.seed.value_or(static_cast<std::uint64_t>(settings.run.seed));
    picture.noise = row.noise.value_or(row.seed ? 0 : static_cast<std::int64_t>(list.pictures.size()));
    for (std::size_t i = 0; i < each; ++i) {
      list.pictures.push_back(picture);
      ++picture.noise;
    }
  }
  return list;
}

}  // namespace bascule
