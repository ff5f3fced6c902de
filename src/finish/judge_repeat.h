// SPDX-License-Identifier: Apache-2.0
// Whether a repeated run gave what was recorded, pictures among it; and where two runs part. Not sealed; throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/files/input_file.h"
#include "src/finish/run_record.h"
#include "src/pictures/picture_log.h"
#include "src/session/tensor_hashes.h"

namespace bascule {

// images.jsonl of two runs that draw, compared: the first picture that differs, and the first call of the UNet after
// which its latents do. Not sealed; throws Error.

// Whether the folder is of a run that draws.
bool has_pictures(const std::string& folder);
// Its pictures in the order of the list. Throws Error kData where it has none.
std::vector<PictureLogRow> drawn_pictures(const std::string& folder);

struct PictureParting {
  enum class Kind { kNone, kPrompt, kNegativePrompt, kCalls, kNoise, kAfterCall, kPixels };

  Kind kind = Kind::kNone;
  std::string picture;              // the first that differs
  std::int64_t call = 0;            // kAfterCall: the first after which they differ, from 1
  std::int64_t calls = 0;           // of that picture, in the first run
  std::int64_t calls_of_other = 0;  // in the second
  // Pictures that both runs have, and those of them that are equal.
  std::size_t common = 0, equal = 0;
  std::size_t only_a = 0, only_b = 0;  // pictures that one run has
};

PictureParting find_picture_parting(const std::vector<PictureLogRow>& a, const std::vector<PictureLogRow>& b);

// "prompt", "latents", ...; null: kNone.
const char* kind_word(PictureParting::Kind kind);
// "00003.png: the latents differ after call 7 of 51"; "": nothing differs.
std::string parting_text(const PictureParting& parting);

// Whether a run that was repeated gave what was recorded: bit for bit, or, where bits are not promised, by its figures.

struct RepeatJudgement {
  bool has_equal_bits = false;
  std::string first_difference;                // "update 30: its loss is ..., was ..."; empty: none
  std::size_t intervals = 0, evaluations = 0;  // that both have and that are equal
  std::size_t pictures = 0;                    // of runs that draw, the same
  double loss = 0.0, loss_then = 0.0;          // means over all updates
  bool has_equal_figures = false;              // the mean losses are within 1 % of each other
};

RepeatJudgement judge_repeat(const RunRecord& then, const RunRecord& now);
// For runs that draw, by their folders. Figures are equal where bits are. Throws Error kData.
RepeatJudgement judge_repeated_pictures(const std::string& then, const std::string& now);

// tensor_hashes.bin of a run (src/session/tensor_hashes.h), read; and where those of two runs part. Not sealed.

class HashLog {
 public:
  // folder: of a run. Throws Error{kData} where there are no hashes, or the file is damaged.
  explicit HashLog(const std::string& folder);

  const std::string& path() const { return file_.path(); }
  // Names of the tensors, in the order of the tape.
  const std::vector<std::string>& values() const { return values_; }
  const std::vector<std::string>& gradients() const { return gradients_; }
  const std::vector<std::int64_t>& elements() const { return elements_; }  // of values()
  // Updates that were hashed, ascending.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  // An update by its place in steps(): how it was divided; the values' hashes, then the gradients'.
  UpdateDivision division(std::size_t place) const;
  std::vector<std::uint64_t> hashes(std::size_t place) const;

 private:
  InputFile file_;
  std::vector<std::string> values_, gradients_;
  std::vector<std::int64_t> elements_;
  std::int64_t at(std::size_t place) const { return begin_ + static_cast<std::int64_t>(place) * stride_; }

  std::int64_t samples_of_piece_ = 0, begin_ = 0, stride_ = 0;
  std::vector<std::int64_t> steps_;
};

struct Parting {
  std::int64_t step = 0;                  // the first update that both runs hashed and that differs; 0: none
  bool is_gradient = false;               // else a value, before that update
  std::string tensor;                     // the first in the tape's order: values as they are read, then gradients
  std::size_t values = 0, gradients = 0;  // that differ in this update
  UpdateDivision division_of_a, division_of_b;     // of this update
  std::int64_t equal_updates = 0;                  // hashed by both and equal, before it
  std::int64_t first_common = 0, last_common = 0;  // updates that both hashed
};

// Throws Error{kData} where the runs have different tensors, or hashed no update in common.
Parting find_parting(const HashLog& a, const HashLog& b);

}  // namespace bascule
