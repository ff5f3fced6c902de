// SPDX-License-Identifier: Apache-2.0
// Whether a repeated run gave what was recorded, pictures among it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/pictures/picture_log.h"
#include "src/reproduce/run_record.h"

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

}  // namespace bascule
