// SPDX-License-Identifier: Apache-2.0
// Runs that draw with a small pipeline of the reference cases, without a folder: pictures as bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/seal/sealed_draw_run.h"
#include "src/settings/settings.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {

inline std::string pipeline_folder(const std::string& name) { return reference_dir() + "/goldens-families/" + name; }

inline ModelWords drawing_words(const std::string&) {
  ModelWords words;
  words.draws = true;
  return words;
}

// keys: of [draw], beside output_dir; more: other tables.
inline Settings drawing_settings(const std::string& keys, const std::string& model = "sd_v1",
                                 const std::string& more = "") {
  return read_settings_text("[model]\nmodel_name_or_path = \"" + pipeline_folder(model) +
                                "\"\n[draw]\noutput_dir = \"o\"\n" + keys + "\n" + more,
                            "test.toml", "/place", drawing_words);
}

using Pixels = std::vector<std::uint8_t>;

// A run, recorded and sealed.
class SmallDrawing {
 public:
  explicit SmallDrawing(const Settings& settings, Isa isa = best_isa())
      : run(record_draw_run(settings)), sealed(*run, isa, [](const std::string&) {}), drawer(sealed.drawer()) {}

  // The pictures with these numbers, as one batch.
  std::vector<Pixels> batch(const std::vector<std::int64_t>& numbers) {
    EXPECT_TRUE(drawer.begin({numbers.data(), numbers.size()}).ok());
    for (std::size_t call = 0; call < drawer.calls(); ++call) drawer.call(call);
    std::vector<Pixels> pictures;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::uint8_t* const bytes = drawer.decode(static_cast<std::int64_t>(i));
      if (bytes == nullptr) {
        ADD_FAILURE() << "latents that are not finite";
        pictures.emplace_back();
      } else {
        pictures.emplace_back(bytes, bytes + 3 * run->picture_pixels());
      }
    }
    return pictures;
  }
  // All pictures of the list, in its order, in batches as a run draws them.
  std::vector<Pixels> all() {
    std::vector<Pixels> pictures;
    const std::int64_t count = static_cast<std::int64_t>(run->list.pictures.size());
    for (std::int64_t first = 0; first < count; first += run->options.batch) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t n = first; n < std::min(count, first + run->options.batch); ++n) numbers.push_back(n);
      for (Pixels& picture : batch(numbers)) pictures.push_back(std::move(picture));
    }
    return pictures;
  }

  const std::unique_ptr<RecordedDrawRun> run;
  SealedDrawRun sealed;
  BatchDrawer& drawer;
};

inline std::vector<Pixels> drawn(const std::string& keys, const std::string& model = "sd_v1",
                                 const std::string& more = "", Isa isa = best_isa()) {
  return SmallDrawing(drawing_settings(keys, model, more), isa).all();
}

}  // namespace bascule::test
