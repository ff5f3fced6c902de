// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_names.h"

#include <unistd.h>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::int64_t kMaxStateBytes = std::int64_t{1} << 30;

// How a sound file ends whose bytes before that have this digest.
std::string end_of_state(std::uint64_t digest) {
  return ", \"" + std::string(kStateDigestKey) + "\": \"" + std::string(DigestText(digest).text()) + "\"}\n";
}

bool is_sound(std::string_view text) {
  const std::size_t end_bytes = end_of_state(0).size();
  if (text.size() < end_bytes) return false;
  Digest digest;
  digest.add(text.data(), text.size() - end_bytes);
  return text.substr(text.size() - end_bytes) == end_of_state(digest.value());
}

}  // namespace

DigestText::DigestText(std::uint64_t digest) noexcept {
  for (std::size_t i = sizeof digits_; i-- > 0; digest >>= 4) digits_[i] = "0123456789abcdef"[digest & 15];
}

bool holds_state(const PathBuffer& folder) noexcept {
  return ::access(PathBuffer(folder).append("/").append(kStateFile).c_str(), F_OK) == 0;
}

Json read_state(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMaxStateBytes) throw Error{ErrorKind::kData, path, "is larger than 1 GiB: it is damaged", ""};
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), 0, text.size());
  Json state = parse_json(text, path);
  const std::int64_t format = get_int(state, "format", path);
  if (format < kOldestStateFormat || format > kStateFormat) {
    throw Error{ErrorKind::kData, path,
                "has format " + std::to_string(format) + ", this program reads " + std::to_string(kOldestStateFormat) +
                    " to " + std::to_string(kStateFormat),
                "use the version of Bascule that saved it"};
  }
  if (format > kOldestStateFormat && !is_sound(text))
    throw Error{ErrorKind::kData, path, "is damaged: its content does not match the checksum at its end", ""};
  return state;
}

}  // namespace bascule
