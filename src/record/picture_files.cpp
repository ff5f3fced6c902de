// SPDX-License-Identifier: Apache-2.0
#include "src/record/picture_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/files/durable_write.h"
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

namespace {

std::size_t longest_text(const PictureList& list) {
  std::size_t longest = 1;
  for (const DrawnText& text : list.texts) longest = std::max(longest, text.text.size());
  return longest;
}

constexpr std::size_t kPngTexts = 3;  // prompt, seed, settings digest
constexpr std::size_t kShortestLimit = 32;

}  // namespace

PictureName::PictureName(std::size_t number, std::size_t pictures) noexcept {
  int digits = 5;
  for (std::size_t most = 99'999; most + 1 < pictures; most = 10 * most + 9) ++digits;
  std::snprintf(text_, sizeof text_, "%0*zu.png", digits, number);
}

PictureFiles::PictureFiles(const PictureList& list, std::int64_t width, std::int64_t height, std::int64_t digests,
                           const Settings& settings)
    : list_(list),
      width_(width),
      height_(height),
      digests_(static_cast<std::size_t>(digests)),
      folder_(settings.run.output_dir.resolved),
      settings_digest_(settings_digest(settings)),
      is_guided_(settings.draw.guidance_scale > 1.0),
      writes_texts_(settings.draw.png_text),
      png_({width, height, kPngTexts, std::max(kShortestLimit, longest_text(list))}),
      log_(longest_text(list), static_cast<std::size_t>(digests)),
      is_done_(list.pictures.size(), false) {
  if (!writes_texts_) return;
  for (const DrawnText& one : list.texts) check_png_text({"prompt", one.text});
}

std::size_t PictureFiles::bytes() const noexcept { return align_up(png_.bytes(), kCacheLine) + log_.bytes(); }

PictureLogView PictureFiles::row_of(const DrawnPicture& picture, const PictureName& name,
                                    Span<const std::uint64_t> latents) const noexcept {
  const ListedPicture& listed = list_.pictures[picture.number];
  return {name.text(),
          text(listed.prompt),
          is_guided_ ? text(listed.negative) : std::string_view(),
          listed.seed,
          picture.seconds,
          picture.digest,
          listed.noise,
          latents};
}

void PictureFiles::read_done() {
  const std::string path = folder_ + "/" + kPictureLogFile;
  const std::vector<PictureLogRow> rows = read_picture_log(path);
  lines_ = rows.size();
  if (rows.empty()) return;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t n = 0; n < is_done_.size(); ++n) numbers[PictureName(n, is_done_.size()).text()] = n;
  for (std::size_t line = 0; line < rows.size(); ++line) {
    const PictureLogRow& row = rows[line];
    const auto found = numbers.find(row.file);
    if (found != numbers.end() && is_done_[found->second]) continue;
    if (const std::string problem = problem_of(row.file, row.digest, nullptr); !problem.empty()) {
      if (found != numbers.end()) problems_[found->second] = problem;
      continue;
    }
    if (found == numbers.end() || !is_of_list(row, found->second))
      throw Error(ErrorKind::kSettings, path + ":" + std::to_string(line + 1),
                  row.file + " was drawn of another prompt or seed than the settings have for it",
                  "choose another folder, or set draw.resume = \"never\" to draw all anew");
    if (row.latents.size() != digests_)
      throw Error(ErrorKind::kData, path + ":" + std::to_string(line + 1),
                  "latents has " + std::to_string(row.latents.size()) + " digests, but a picture has " +
                      std::to_string(digests_) + " here",
                  kDamagedLineAdvice);
    is_done_[found->second] = true;
    problems_.erase(found->second);
    done_.push_back({found->second, row.seconds, row.digest});
    found_.push_back(row);
  }
}

bool PictureFiles::is_of_list(const PictureLogRow& row, std::size_t number) const {
  const PictureLogView expected = row_of({number, row.seconds, row.digest}, PictureName(number, is_done_.size()), {});
  return row.prompt == expected.prompt && row.negative_prompt == expected.negative_prompt &&
         row.seed == expected.seed && row.noise == expected.noise;
}

std::string PictureFiles::problem_of(const std::string& name, std::uint64_t digest, std::string* content) const {
  const std::string path = folder_ + "/" + name;
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return "is missing";
  if (type != std::filesystem::file_type::regular) return "is not a file";  // but a link to one elsewhere
  std::string file;
  try {
    file = text_of_file(path, static_cast<std::int64_t>(png_.bytes()));  // ours fit
  } catch (const Error& failure) {
    return failure.problem();
  }
  const std::vector<std::uint8_t> pixels = png_pixels(file, width_, height_);
  if (pixels.empty()) return "is damaged";
  if (digest_of(pixels.data(), pixels.size()) != digest) return "shows another picture";
  if (content != nullptr) *content = std::move(file);
  return "";
}

std::vector<std::string> PictureFiles::drawn_again() const {
  std::vector<std::string> lines;
  for (const auto& [number, problem] : problems_)
    lines.push_back(std::string(PictureName(number, is_done_.size()).text()) + " " + problem);
  return lines;
}

std::string PictureFiles::checked_sum(const DrawnPicture& picture) const {
  const std::string name = PictureName(picture.number, is_done_.size()).text();
  std::string content;
  if (const std::string problem = problem_of(name, picture.digest, &content); !problem.empty())
    throw Error(ErrorKind::kData, folder_ + "/" + name, problem + ": it was changed while the run drew",
                "run the same command again, which draws it again");
  Sha256 sum;
  sum.add(content.data(), content.size());
  return sum.hex();
}

std::vector<std::int64_t> PictureFiles::missing() const {
  std::vector<std::int64_t> numbers;
  for (std::size_t n = 0; n < is_done_.size(); ++n) {
    if (!is_done_[n]) numbers.push_back(static_cast<std::int64_t>(n));
  }
  const auto prompt = [this](std::int64_t number) { return list_.pictures[static_cast<std::size_t>(number)].prompt; };
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](std::int64_t a, std::int64_t b) { return prompt(a) < prompt(b); });
  return numbers;
}

void PictureFiles::seal(std::byte* memory) {
  png_.seal(memory);
  log_.seal(memory + align_up(png_.bytes(), kCacheLine));
  done_.reserve(is_done_.size());
}

void PictureFiles::open() {
  if (lines_ != done_.size()) write_anew(found_);
  log_.open(folder_ + "/" + kPictureLogFile);
}

void PictureFiles::write_anew(const std::vector<PictureLogRow>& rows) {
  const std::string path = folder_ + "/" + kPictureLogFile;
  const std::string beside = folder_ + "/" + kTemporaryPrefix + kPictureLogFile;
  throw_if_failed(remove_tree(beside.c_str()), beside, "cannot be removed");
  log_.open(beside);
  for (const PictureLogRow& row : rows)
    throw_if_failed(log_.append({row.file,
                                 row.prompt,
                                 row.negative_prompt,
                                 row.seed,
                                 row.seconds,
                                 row.digest,
                                 row.noise,
                                 {row.latents.data(), row.latents.size()}}),
                    beside, "cannot be written");
  throw_if_failed(publish_file(folder_.c_str(), kPictureLogFile), path, "cannot be replaced");
}

Status PictureFiles::write(std::size_t number, const std::uint8_t* pixels, double seconds,
                           DrawnPicture* drawn) noexcept {
  *drawn = {number, seconds, digest_of(pixels, static_cast<std::size_t>(3 * width_ * height_))};
  char seed[32];
  std::snprintf(seed, sizeof seed, "%llu", static_cast<unsigned long long>(list_.pictures[number].seed));
  const PngTextView texts[kPngTexts] = {
      {"prompt", text(list_.pictures[number].prompt)}, {"seed", seed}, {"settings digest", settings_digest_}};
  return png_.write(folder_.c_str(), PictureName(number, is_done_.size()).text(), {pixels, width_, height_},
                    {texts, writes_texts_ ? kPngTexts : std::size_t{0}});
}

Status PictureFiles::log(const DrawnPicture& picture, Span<const std::uint64_t> latents) noexcept {
  BASCULE_TRY(log_.append(row_of(picture, PictureName(picture.number, is_done_.size()), latents)));
  done_.push_back(picture);  // room was reserved
  is_done_[picture.number] = true;
  return ok_status();
}

void PictureFiles::put_in_order() {
  const auto is_before = [](const auto& a, const auto& b) { return a.file < b.file; };  // names are equally long
  std::vector<PictureLogRow> rows = read_picture_log(folder_ + "/" + kPictureLogFile);
  if (!std::is_sorted(rows.begin(), rows.end(), is_before)) {
    std::sort(rows.begin(), rows.end(), is_before);
    write_anew(rows);
  }
  std::sort(done_.begin(), done_.end(),
            [](const DrawnPicture& a, const DrawnPicture& b) { return a.number < b.number; });
  const bool is_known = std::equal(rows.begin(), rows.end(), done_.begin(), done_.end(),
                                   [this](const PictureLogRow& row, const DrawnPicture& picture) {
                                     return row.file == PictureName(picture.number, is_done_.size()).text() &&
                                            row.digest == picture.digest;
                                   });
  if (!is_known)
    throw Error(ErrorKind::kData, folder_ + "/" + kPictureLogFile, "was changed while the run drew",
                "run the same command again: pictures without a line are drawn again");
}

}  // namespace bascule
