// SPDX-License-Identifier: Apache-2.0
#include "src/record/picture_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/pictures/png_file.h"

namespace bascule {
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
