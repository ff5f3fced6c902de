// SPDX-License-Identifier: Apache-2.0
// What a run has drawn: NNNNN.png for each picture, and images.jsonl with a line for each, in the order in which they
// were made. A picture is done once its line is there, and its file: both are written whole or not at all.
//
//   {"file": "00000.png", "prompt": "...", "negative_prompt": "...", "seed": 42, "seconds": 1.5, "digest": "..."}
//
// Before the seal, or while the door is open: allocates, throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/draw_run/recorded_draw_run.h"

namespace bascule {

inline constexpr char kImagesFile[] = "images.jsonl";

// "00042.png": five digits, or as many as the largest number of the list needs.
std::string picture_file(std::size_t number, std::size_t pictures);

struct DrawnPicture {
  std::size_t number = 0;  // in the list
  double seconds = 0.0;    // its share of its batch's
  std::string digest;      // of its pixels
};

class DrawnPictures {
 public:
  // Reads what is there. Lines of pictures that the list does not have as they are, and lines without a file, do not
  // count: their pictures are drawn again. Throws Error kData for a line that is none.
  explicit DrawnPictures(const RecordedDrawRun& run);

  const std::vector<DrawnPicture>& done() const { return done_; }
  bool is_done(std::size_t number) const { return is_done_[number]; }
  std::vector<std::int64_t> missing() const;
  // Forgets all that is there: the next picture begins a new images.jsonl.
  void clear();
  // Writes the file and then the line.
  void add(std::size_t number, const std::uint8_t* pixels, double seconds);

 private:
  void rewrite() const;
  std::string line_of(const DrawnPicture& picture) const;

  const RecordedDrawRun& run_;
  const std::string folder_;
  const std::string settings_digest_;
  std::vector<DrawnPicture> done_;
  std::vector<bool> is_done_;
};

}  // namespace bascule
