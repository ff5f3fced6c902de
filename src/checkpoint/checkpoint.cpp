// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"

namespace bascule {
namespace {

bool is_safetensors(const std::string& name) {
  constexpr std::string_view kEnd = ".safetensors";
  return name.size() > kEnd.size() && name.compare(name.size() - kEnd.size(), kEnd.size(), kEnd) == 0;
}

std::vector<CheckpointFile> read_files(const Json& state, const std::string& where) {
  const bool has_digests = get_int(state, "format", where) > kOldestStateFormat;
  const Json& listed = get_object(state, "files", where);
  std::vector<CheckpointFile> files;
  for (const auto& [name, ignored] : listed.items()) {
    if (has_digests) {
      const Json& file = get_object(listed, name, where);
      files.push_back({name, get_int(file, "bytes", where), get_string(file, "xxh3", where)});
    } else {
      files.push_back({name, get_int(listed, name, where), ""});
    }
  }
  return files;
}

// Every file is there with its size; the weights' and moments' headers are sound.
void check_files(const ResumePoint& point) {
  for (const CheckpointFile& listed : point.files) {
    const InputFile file(point.folder + "/" + listed.name);
    if (listed.bytes != file.size()) {
      throw Error{ErrorKind::kData, file.path(),
                  "has " + std::to_string(file.size()) + " bytes instead of " + std::to_string(listed.bytes), ""};
    }
    if (is_safetensors(listed.name)) read_safetensors_header(file);
  }
}

std::vector<ReplacedSample> read_replacements(const Json& state, const std::string& where) {
  std::vector<ReplacedSample> replacements;
  for (const Json& one : get_array(state, "replacements", where)) {
    const std::vector<std::int64_t> numbers = get_ints(Json{{"replacement", one}}, "replacement", where);
    if (numbers.size() != 5)
      throw Error{ErrorKind::kData, where, "replacement " + json_text(one) + " does not have 5 numbers", ""};
    replacements.push_back({numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]});
  }
  return replacements;
}

// The members of an object of texts; none where it is absent.
std::vector<NamedText> read_values(const Json& state, const char* name, const std::string& where) {
  std::vector<NamedText> values;
  if (find_member(state, name, where) == nullptr) return values;
  const Json& object = get_object(state, name, where);
  for (const auto& [key, ignored] : object.items()) values.push_back({key, get_string(object, key, where)});
  return values;
}

RowsState read_rows(const Json& state, const std::string& where) {
  RowsState rows;
  if (find_member(state, "rows", where) == nullptr) return rows;
  const Json& object = get_object(state, "rows", where);
  rows.count = get_int(object, "count", where);
  if (rows.count < 0 || rows.count > std::numeric_limits<std::uint32_t>::max())
    throw Error{ErrorKind::kData, where, "rows has the count " + std::to_string(rows.count), ""};
  rows.blocks = get_ints(object, "blocks", where);
  rows.taken_out = get_ints(object, "taken_out", where);
  rows.bad = get_ints(state, "bad_rows", where);
  if (rows.bad.size() % 3 != 0) throw Error{ErrorKind::kData, where, "bad_rows is truncated", ""};
  return rows;
}

}  // namespace

std::vector<HistoryEntry> read_history(const Json& object, const std::string& where) {
  std::vector<HistoryEntry> history;
  if (find_member(object, "history", where) == nullptr) return history;
  for (const Json& one : get_array(object, "history", where)) {
    history.push_back({get_int(one, "step", where), get_string(one, "key", where), get_string(one, "from", where),
                       get_string(one, "to", where), get_string(one, "time", where)});
  }
  return history;
}

Json history_json(const std::vector<HistoryEntry>& history) {
  Json entries = Json::array();
  for (const HistoryEntry& one : history) {
    entries.push_back({{"step", one.step}, {"key", one.key}, {"from", one.from}, {"to", one.to}, {"time", one.time}});
  }
  return entries;
}

std::string name_of_checkpoint(std::int64_t step) { return std::string(kCheckpointPrefix) + std::to_string(step); }

double ResumePoint::number(const std::string& name) const {
  for (const auto& [key, value] : numbers) {
    if (key == name) return value;
  }
  throw Error{ErrorKind::kData, folder + "/" + kStateFile, "lacks the number \"" + name + "\"", ""};
}

double ResumePoint::number_or(const std::string& name, double otherwise) const noexcept {
  for (const auto& [key, value] : numbers) {
    if (key == name) return value;
  }
  return otherwise;
}

ResumePoint read_checkpoint(const std::string& folder, std::optional<std::int64_t> step) {
  const std::string path = folder + "/" + kStateFile;
  const Json state = read_state(path);
  ResumePoint point;
  point.folder = folder;
  point.global_step = get_int(state, "global_step", path);
  if (step && point.global_step != *step) {
    throw Error{ErrorKind::kData, path, "belongs to step " + std::to_string(point.global_step), ""};
  }
  point.resumed_from = get_string(state, "resumed_from", path, "");
  point.samples_seen = get_int(state, "samples_seen", path);
  point.epoch = get_number(state, "epoch", path);
  point.settings_digest = get_string(state, "settings_digest", path);
  get_object(state, "settings", path);  // every format has them
  point.settings = read_values(state, "settings", path);
  point.other_settings = read_values(state, "other_settings", path);
  point.data = read_values(state, "data", path);
  point.rows = read_rows(state, path);
  point.history = read_history(state, path);
  point.replacements = read_replacements(state, path);
  const Json& numbers = get_object(state, "numbers", path);
  for (const auto& [name, ignored] : numbers.items()) {  // NaN and Infinity are written as null
    const double not_finite = std::numeric_limits<double>::quiet_NaN();
    point.numbers.emplace_back(name, get_number(numbers, name, path, not_finite));
  }
  point.files = read_files(state, path);
  check_files(point);
  return point;
}

void check_contents(const ResumePoint& point) {
  std::vector<char> block(std::size_t{1} << 20);
  for (const CheckpointFile& listed : point.files) {
    if (listed.digest.empty()) continue;
    const InputFile file(point.folder + "/" + listed.name);
    Digest digest;
    for (std::int64_t done = 0; done < file.size();) {
      const auto part = std::min<std::int64_t>(file.size() - done, static_cast<std::int64_t>(block.size()));
      file.read(block.data(), done, static_cast<std::size_t>(part));
      digest.add(block.data(), static_cast<std::size_t>(part));
      done += part;
    }
    if (DigestText(digest.value()).text() != listed.digest)
      throw Error{ErrorKind::kData, file.path(), "is damaged: its checksum differs from the saved one", ""};
  }
}

TensorSource open_training_state(const ResumePoint& point) {
  return open_safetensors(point.folder + "/" + kTrainingStateFile);
}

namespace {

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;  // read between two heartbeats

Status failed(int error) noexcept { return {StatusCode::kReadFailed, {WeightsReader::kUnreadable, error}}; }

Status read_exactly(int descriptor, char* to, std::int64_t bytes, std::int64_t offset) noexcept {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, to, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failed(got < 0 ? errno : 0);
    to += got;
    offset += got;
    bytes -= got;
  }
  return ok_status();
}

Status check_header(int descriptor, const std::string& header) noexcept {
  char block[4096];
  for (std::size_t at = 0; at < header.size(); at += sizeof block) {
    const std::size_t part = std::min(header.size() - at, sizeof block);
    BASCULE_TRY(read_exactly(descriptor, block, static_cast<std::int64_t>(part), static_cast<std::int64_t>(at)));
    if (std::memcmp(block, header.data() + at, part) != 0) return failed(0);
  }
  return ok_status();
}

}  // namespace

WeightsReader::WeightsReader(const HfFolderPlan& plan, Span<float> memory) {
  for (const HfFolderPlan::Shard& shard : plan.shards()) {
    File file;
    file.name = shard.name;
    file.header = shard.plan.header();
    file.bytes = shard.plan.file_bytes();
    std::int64_t offset = static_cast<std::int64_t>(file.header.size());
    for (const TensorToWrite& tensor : shard.plan.tensors()) {
      const std::int64_t bytes = element_count(tensor.shape) * static_cast<std::int64_t>(element_bytes(tensor.dtype));
      const float* const from = static_cast<const float*>(tensor.data);
      if (from >= memory.begin() && from < memory.end()) {
        float* const to = memory.data() + (from - memory.begin());
        file.pieces.push_back({offset, static_cast<char*>(static_cast<void*>(to)), bytes});
      }
      offset += bytes;
    }
    files_.push_back(std::move(file));
  }
}

Status WeightsReader::read_file(const File& file, int descriptor, WriteProgress progress) const noexcept {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return failed(errno);
  if (about.st_size != file.bytes) return failed(0);
  BASCULE_TRY(check_header(descriptor, file.header));
  for (const Piece& piece : file.pieces) {
    for (std::int64_t at = 0; at < piece.bytes; at += kPartBytes) {
      const std::int64_t part = std::min(kPartBytes, piece.bytes - at);
      BASCULE_TRY(read_exactly(descriptor, piece.to + at, part, piece.offset + at));
      if (progress.tell != nullptr) progress.tell(progress.context, part);
    }
  }
  return ok_status();
}

Status WeightsReader::read(const char* folder, WriteProgress progress) const noexcept {
  PathBuffer path(folder);
  path.append("/");
  const std::size_t start = path.length();
  for (const File& file : files_) {
    path.cut(start);
    const Descriptor opened(::open(path.append(file.name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened.is_open()) return failed(errno);
    BASCULE_TRY(read_file(file, opened.number(), progress));
  }
  return ok_status();
}

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
