// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/drawn_pictures.h"

#include <algorithm>
#include <filesystem>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/state_file.h"
#include "src/draw_run/picture_texts.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/pictures/png_file.h"

namespace bascule {
namespace {

// A line that says the same of a picture as the list does.
Json entry_of(const RecordedDrawRun& run, std::size_t number) {
  const ListedPicture& picture = run.list.pictures[number];
  const auto text = [&](std::int32_t index) { return run.list.texts[static_cast<std::size_t>(index)].text; };
  Json entry = {{"file", picture_file(number, run.list.pictures.size())},
                {"prompt", text(picture.prompt)},
                {"seed", static_cast<std::int64_t>(picture.seed)}};
  if (run.options.is_guided()) entry["negative_prompt"] = text(picture.negative);
  return entry;
}

bool says_the_same(const Json& line, const Json& entry) {
  return std::all_of(entry.items().begin(), entry.items().end(), [&](const auto& member) {
    const Json* const found = line.find(member.first);
    return found != nullptr && *found == member.second;
  });
}

}  // namespace

std::string picture_file(std::size_t number, std::size_t pictures) {
  const std::size_t digits = std::max<std::size_t>(5, std::to_string(pictures - 1).size());
  const std::string text = std::to_string(number);
  return std::string(digits - text.size(), '0') + text + ".png";
}

DrawnPictures::DrawnPictures(const RecordedDrawRun& run)
    : run_(run),
      folder_(run.settings.run.output_dir.resolved),
      settings_digest_(settings_digest(run.settings)),
      is_done_(run.list.pictures.size(), false) {
  const std::string path = folder_ + "/" + kImagesFile;
  if (!std::filesystem::exists(path)) return;
  const std::string text = text_of_file(path);
  std::int64_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // a line that a kill has cut
    const Json line = parse_json(std::string_view(text).substr(at, end - at), path, ++line_number);
    at = end + 1;
    const std::string file = get_string(line, "file", path);
    for (std::size_t n = 0; n < is_done_.size(); ++n) {
      // Lines commonly come in the order of the list.
      const std::size_t number = (n + done_.size()) % is_done_.size();
      if (picture_file(number, is_done_.size()) != file) continue;
      if (is_done_[number] || !says_the_same(line, entry_of(run, number)) ||
          !std::filesystem::is_regular_file(folder_ + "/" + file))
        break;
      is_done_[number] = true;
      done_.push_back({number, get_number(line, "seconds", path), get_string(line, "digest", path)});
      break;
    }
  }
}

std::vector<std::int64_t> DrawnPictures::missing() const {
  std::vector<std::int64_t> numbers;
  for (std::size_t n = 0; n < is_done_.size(); ++n) {
    if (!is_done_[n]) numbers.push_back(static_cast<std::int64_t>(n));
  }
  return numbers;
}

void DrawnPictures::clear() {
  done_.clear();
  std::fill(is_done_.begin(), is_done_.end(), false);
}

std::string DrawnPictures::line_of(const DrawnPicture& picture) const {
  Json line = entry_of(run_, picture.number);
  line["seconds"] = picture.seconds;
  line["digest"] = picture.digest;
  return json_text(line) + "\n";
}

void DrawnPictures::rewrite() const {
  std::string text;
  for (const DrawnPicture& picture : done_) text += line_of(picture);
  write_output_file(folder_ + "/" + kImagesFile, text);
}

void DrawnPictures::add(std::size_t number, const std::uint8_t* pixels, double seconds) {
  const ListedPicture& picture = run_.list.pictures[number];
  const std::uint64_t digest = digest_of(pixels, static_cast<std::size_t>(3 * run_.picture_pixels()));
  std::vector<PngText> texts;
  if (run_.settings.draw.png_text)
    texts =
        picture_texts(run_.list.texts[static_cast<std::size_t>(picture.prompt)].text, picture.seed, settings_digest_);
  write_png(folder_ + "/" + picture_file(number, is_done_.size()), {pixels, run_.options.width, run_.options.height},
            texts);
  done_.push_back({number, seconds, std::string(DigestText(digest).text())});
  is_done_[number] = true;
  rewrite();
}

}  // namespace bascule
