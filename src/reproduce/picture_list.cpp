// SPDX-License-Identifier: Apache-2.0
#include "src/reproduce/picture_list.h"

#include <charconv>
#include <filesystem>
#include <sstream>

#include "src/base/error.h"
#include "src/checkpoint/state_file.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/files/temporary_name.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr std::size_t kDigits = 16;

[[noreturn]] void refuse(const std::string& path, std::int64_t line) {
  throw Error(ErrorKind::kData, path + ":" + std::to_string(line), "is not a line of a picture list",
              "restore the file");
}

}  // namespace

PictureCount write_picture_list(const std::string& folder, const RunData& data, Loader& loader) {
  PictureCount count;
  const std::string path = folder + "/" + kTemporaryPrefix + kPictureListFile;
  OutputFile file;
  std::string block;
  throw_if_failed(file.create(path.c_str()), path, "cannot be created");
  for (const RecordedSplit& split : data.splits) {
    const Span<PictureDigest> digests = loader.picture_digests(split.stream);
    for (std::size_t id = 0; id < digests.size(); ++id) {
      ++count.pictures;
      const std::uint64_t digest = digests[id].load();
      if (digest == 0) continue;
      ++count.listed;
      block += DigestText(digest).text();
      block += std::string("  ") + split_name(split.split) + "  ";
      block += json_text(Json(split.manifest->picture_location(static_cast<std::int64_t>(id)))) + "\n";
      if (block.size() < kBlockBytes) continue;
      throw_if_failed(file.write(block.data(), block.size()), path, "writing");
      block.clear();
    }
  }
  throw_if_failed(file.write(block.data(), block.size()), path, "writing");
  throw_if_failed(file.sync_and_close(), path, "writing");
  throw_if_failed(publish_file(folder.c_str(), kPictureListFile), folder, "writing pictures");
  return count;
}

std::string listed_name(const std::string& location) {
  return parse_json(json_text(Json(location)), location).string();
}

std::vector<ReadPicture> read_picture_list(const std::string& folder) {
  const std::string path = folder + "/" + kPictureListFile;
  std::vector<ReadPicture> pictures;
  if (!std::filesystem::exists(path)) throw Error(ErrorKind::kData, path, "cannot be read", "restore the file");
  std::istringstream file(text_of_file(path));
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    ReadPicture picture;
    const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), picture.digest, 16);
    const std::size_t gap = line.find("  ", kDigits + 2);
    if (failure != std::errc() || end != line.data() + kDigits || gap == std::string::npos) refuse(path, number);
    picture.split = line.substr(kDigits + 2, gap - kDigits - 2);
    const Json place = parse_json(std::string_view(line).substr(gap + 2), path, number);
    if (!place.is_string()) refuse(path, number);
    picture.place = place.string();
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace bascule
