// SPDX-License-Identifier: Apache-2.0
// The sources of pictures, told by their content: digests of the pipeline's configurations, of its tokenizer, of the
// weights and of draw.latents_file. bascule.json keeps them, so that a run that goes on draws the missing pictures from
// what the others were drawn from. Before the seal ends.
#pragma once

#include <string>
#include <vector>

#include "src/logs/readable.h"
#include "src/replay/sealed_draw_run.h"

namespace bascule {

// By the rank that read the weights, whose digest was taken then. Reads the latents' file, and no weights.
std::vector<NamedText> drawn_from(const RecordedDrawRun& run, const SealedDrawRun& sealed);

// then: of the pictures that are there; what it does not name is not compared. Throws Error kData that names the
// setting whose files are others now.
void check_drawn_from(const Settings& settings, const std::vector<NamedText>& then, const std::vector<NamedText>& now);

}  // namespace bascule
