// SPDX-License-Identifier: Apache-2.0
#include "src/reproduce/drawn_pictures.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/error.h"

namespace bascule {
namespace {

using Kind = PictureParting::Kind;

std::int64_t calls_of(const PictureLogRow& row) { return static_cast<std::int64_t>(row.latents.size()) - 1; }

// What differs first, in the order in which a picture is made.
Kind kind_of(const PictureLogRow& a, const PictureLogRow& b, std::int64_t* call) {
  if (a.prompt != b.prompt) return Kind::kPrompt;
  if (a.negative_prompt != b.negative_prompt) return Kind::kNegativePrompt;
  if (a.latents.size() != b.latents.size()) return Kind::kCalls;
  const auto latents = std::mismatch(a.latents.begin(), a.latents.end(), b.latents.begin()).first;
  if (latents != a.latents.end()) {
    *call = latents - a.latents.begin();
    return *call == 0 ? Kind::kNoise : Kind::kAfterCall;
  }
  return a.digest == b.digest ? Kind::kNone : Kind::kPixels;
}

}  // namespace

bool has_pictures(const std::string& folder) { return std::filesystem::exists(folder + "/" + kPictureLogFile); }

std::vector<PictureLogRow> drawn_pictures(const std::string& folder) {
  if (!std::filesystem::exists(folder)) throw Error(ErrorKind::kData, folder, "there is no such folder");
  std::vector<PictureLogRow> rows = read_picture_log(folder + "/" + kPictureLogFile);
  if (rows.empty()) throw Error(ErrorKind::kData, folder, "has no pictures", "name the folder of a run that draws");
  std::sort(rows.begin(), rows.end(), [](const PictureLogRow& a, const PictureLogRow& b) {
    return a.file.size() != b.file.size() ? a.file.size() < b.file.size() : a.file < b.file;
  });
  return rows;
}

PictureParting find_picture_parting(const std::vector<PictureLogRow>& a, const std::vector<PictureLogRow>& b) {
  std::map<std::string, const PictureLogRow*> others;
  for (const PictureLogRow& row : b) others[row.file] = &row;
  PictureParting parting;
  for (const PictureLogRow& row : a) {
    const auto other = others.find(row.file);
    if (other == others.end()) {
      ++parting.only_a;
      continue;
    }
    ++parting.common;
    std::int64_t call = 0;
    const Kind kind = kind_of(row, *other->second, &call);
    if (kind == Kind::kNone) {
      ++parting.equal;
    } else if (parting.kind == Kind::kNone) {
      parting.kind = kind;
      parting.picture = row.file;
      parting.call = call;
      parting.calls = calls_of(row);
      parting.calls_of_other = calls_of(*other->second);
    }
  }
  parting.only_b = others.size() - parting.common;
  return parting;
}

const char* kind_word(Kind kind) {
  switch (kind) {
    case Kind::kNone: return nullptr;
    case Kind::kPrompt: return "prompt";
    case Kind::kNegativePrompt: return "negative prompt";
    case Kind::kCalls: return "calls";
    case Kind::kNoise: return "noise";
    case Kind::kAfterCall: return "latents";
    case Kind::kPixels: return "pixels";
  }
  return nullptr;
}

std::string parting_text(const PictureParting& parting) {
  const std::string picture = parting.picture + ": ", calls = std::to_string(parting.calls);
  switch (parting.kind) {
    case Kind::kNone: return "";
    case Kind::kPrompt: return picture + "the prompts differ";
    case Kind::kNegativePrompt: return picture + "the negative prompts differ";
    case Kind::kCalls:
      return picture + "drawn with " + calls + " calls of the UNet, and with " + std::to_string(parting.calls_of_other);
    case Kind::kNoise: return picture + "the noise that it begins with differs";
    case Kind::kAfterCall:
      return picture + "the latents differ after call " + std::to_string(parting.call) + " of " + calls;
    case Kind::kPixels: return picture + "the pixels differ, but not the latents that they are decoded from";
  }
  return "";
}

}  // namespace bascule
