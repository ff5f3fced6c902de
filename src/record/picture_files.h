// SPDX-License-Identifier: Apache-2.0
// The pictures of a run that draws: their list, and their files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/distributed/shared_memory.h"
#include "src/generate/pipeline.h"
#include "src/pictures/picture_log.h"
#include "src/pictures/png_file.h"
#include "src/settings/settings.h"

namespace bascule {

// The pictures of a run that draws, in order: each prompt num_images_per_prompt times. Before the seal.

// A text, tokenised once wherever it is used.
struct DrawnText {
  std::string text;
  std::vector<std::int32_t> ids;
};

// The largest number of a picture alone or first in its row: the numbers of all that may follow are integers too.
inline constexpr std::int64_t kLargestNoise = (std::int64_t{1} << 62) - 1;

struct ListedPicture {
  std::int32_t prompt = 0, negative = 0;  // numbers of texts; negative: "" without guidance
  std::uint64_t seed = 0;
  std::int64_t noise = 0;  // the number of its noise under that seed
};

struct PictureList {
  std::vector<DrawnText> texts;  // different ones
  std::vector<ListedPicture> pictures;
  std::vector<std::string> notes;  // for people: texts that were cut
};

// A picture's noise is that of (seed, its number in the list), or, where its row of prompts_file has a seed of its own,
// of (that seed, its number among the row's pictures): it then does not depend on its place in the list. A row that has
// a number of the noise counts from that one.
// Throws Error kSettings for the settings, kData naming the file and the line.
PictureList list_pictures(const Settings& settings, const PromptTokenizer& tokenizer);

// The files of a drawing run's pictures: NNNNN.png of each, and images.jsonl with a line of each, in the order
// in which they were made, and of a run that is over in the order of the list. A picture is done once its line is
// there, and its file: both are written whole or not at all. What another start has left counts as far as it was
// checked: the line by its checksum, the file by the digest of its pixels, which the line has.
//
//   PictureFiles files(list, width, height, digests, settings);   // before the seal: reads what is there
//   files.seal(memory); files.open();                             // files.bytes() of it
//   status = files.write(number, pixels, seconds, &drawn);        // sealed: allocates nothing
//   status = files.log(drawn, latents);

// "00042.png": five digits, or as many as the largest number needs.
class PictureName {
 public:
  PictureName(std::size_t number, std::size_t pictures) noexcept;
  const char* text() const noexcept { return text_; }

 private:
  char text_[32];
};

class PictureFiles {
 public:
  // Borrows the list and the settings. digests: of a picture's latents. Throws Error kData for a prompt that no PNG
  // file can hold.
  PictureFiles(const PictureList& list, std::int64_t width, std::int64_t height, std::int64_t digests,
               const Settings& settings);

  std::size_t bytes() const noexcept;
  // Reads images.jsonl and the pictures. A line does not count without a whole file of its pixels: the picture is drawn
  // again, and drawn_again() says so. Throws Error kData for a line that is none, kSettings for a picture that the list
  // does not have as the line says.
  void read_done();
  // "00003.png is damaged": of each picture that is drawn again although it has a line.
  std::vector<std::string> drawn_again() const;
  const std::vector<DrawnPicture>& done() const { return done_; }
  // In the order in which they are drawn: all of a prompt one after another, so that its text is encoded once.
  std::vector<std::int64_t> missing() const;

  // Before the seal. memory: bytes(), 64-byte aligned.
  void seal(std::byte* memory);
  // Goes on behind the lines that count; where some do not, images.jsonl is written anew. Throws Error kDisk.
  void open();
  // Sealed. kDiskFailed with an errno.
  // The file; what its line will say.
  Status write(std::size_t number, const std::uint8_t* pixels, double seconds, DrawnPicture* drawn) noexcept;
  // The line, once the file is there: then the picture is done.
  Status log(const DrawnPicture& picture, Span<const std::uint64_t> latents) noexcept;

  // Finish phase: done() and images.jsonl in the order of the list, whoever drew what when. Throws Error kDisk, and
  // kData where images.jsonl has other lines than this process has read or written.
  void put_in_order();
  // SHA-256 of the picture's file. Throws Error kData where its pixels are not those that were drawn or found.
  std::string checked_sum(const DrawnPicture& picture) const;

 private:
  bool is_of_list(const PictureLogRow& row, std::size_t number) const;
  // "" where the file has the pixels of that digest, and then, unless it is null, *content is the file's.
  std::string problem_of(const std::string& name, std::uint64_t digest, std::string* content) const;
  PictureLogView row_of(const DrawnPicture& picture, const PictureName& name,
                        Span<const std::uint64_t> latents) const noexcept;
  void write_anew(const std::vector<PictureLogRow>& rows);
  std::string_view text(std::int32_t number) const noexcept {
    return list_.texts[static_cast<std::size_t>(number)].text;
  }

  const PictureList& list_;
  const std::int64_t width_, height_;
  const std::size_t digests_;  // of a picture's latents
  const std::string folder_;
  const std::string settings_digest_;
  const bool is_guided_, writes_texts_;
  PngWriter png_;
  PictureLog log_;
  std::vector<DrawnPicture> done_;
  std::vector<PictureLogRow> found_;  // the rows of done_ that were there
  std::vector<bool> is_done_;
  std::map<std::size_t, std::string> problems_;  // of pictures that have a line and are not done
  std::size_t lines_ = 0;                        // of images.jsonl, counted or not
};

}  // namespace bascule
