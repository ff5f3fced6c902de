// SPDX-License-Identifier: Apache-2.0
// The rules of a drawing run's output folder: whose it is, which settings may differ from those of the pictures in it,
// and how it is emptied. Before the seal; throws Error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

// That the folder is free, or holds a drawing run whose pictures these settings would draw; with draw.resume = "never",
// that it holds a drawing run. A folder without a picture may be of any settings. Throws Error kSettings.
void check_draw_folder(const Settings& settings);

// That no folder lies where one of so many pictures will be written. Throws Error kSettings that names it.
void check_picture_places(const Settings& settings, std::size_t pictures);

// Removes images.jsonl, and then the pictures that it and `names` name: so that a kill leaves no line of a picture of
// other settings. Other files stay. Throws Error kDisk.
void remove_pictures(const std::string& folder, const std::vector<std::string>& names);

}  // namespace bascule
