// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_writer.h"

#include <cerrno>
#include <utility>

#include <unistd.h>

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

// Upper bounds of one element of bascule_state.json in characters: five 64-bit integers; a short name and a double;
// size and digest of a file.
constexpr std::int64_t kReplacementChars = 120;
constexpr std::int64_t kNumberChars = 128;
constexpr std::int64_t kBadRowChars = 72;
constexpr std::int64_t kFileChars = 96;  // without the name
constexpr std::int64_t kSpareChars = 1024;

// The part of the state that is known before the seal.
std::string fixed_state(const CheckpointContents& contents) {
  const auto object = [](const std::vector<NamedText>& values) {
    Json json = Json::object();
    for (const NamedText& one : values) json[one.name] = one.value;
    return json_text(json);
  };
  return "\"resumed_from\": " + json_text(Json(contents.resumed_from)) +
         ",\n \"settings_digest\": " + json_text(Json(contents.settings_digest)) +
         ",\n \"settings\": " + object(contents.settings) +
         ",\n \"other_settings\": " + object(contents.other_settings) +
         ",\n \"history\": " + json_text(history_json(contents.history)) + ",\n \"rows\": " +
         json_text(Json{{"count", contents.rows.count},
                        {"blocks", contents.rows.blocks},
                        {"taken_out", contents.rows.taken_out}}) +
         ",\n \"data\": " + object(contents.data);
}

void write_file_entry(JsonStream& out, std::string_view name, std::int64_t bytes, std::uint64_t digest) noexcept {
  out.key(name).begin_object();
  out.key("bytes").integer(bytes);
  out.key("xxh3").string(DigestText(digest).text());
  out.end_object();
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointContents contents)
    : output_dir_(contents.output_dir),
      rotation_(contents.output_dir, contents.save_total_limit, contents.keeps_later),
      model_(std::move(contents.model)),
      optimizer_(std::move(contents.optimizer)),
      text_files_(contents.text_files),
      fixed_state_(fixed_state(contents)),
      digests_(model_.files().size() + 1 + text_files_.size()) {
  std::int64_t chars = static_cast<std::int64_t>(fixed_state_.size()) + kSpareChars +
                       contents.max_replacements * kReplacementChars + contents.max_numbers * kNumberChars +
                       contents.max_bad_rows * kBadRowChars;
  const auto count_entry = [&](std::string_view name) { chars += static_cast<std::int64_t>(name.size()) + kFileChars; };
  for (const PlannedFile& file : model_.files()) count_entry(file.name);
  count_entry(kTrainingStateFile);
  for (const std::string& name : text_files_) count_entry(name);
  state_.resize(static_cast<std::size_t>(chars));
}

std::int64_t CheckpointWriter::checkpoint_bytes() const {
  std::int64_t bytes = optimizer_.file_bytes() + static_cast<std::int64_t>(state_.size());
  for (const PlannedFile& file : model_.files()) bytes += file.bytes;
  return bytes;
}

Status CheckpointWriter::save(const CheckpointMoment& moment, WriteProgress progress) noexcept {
  const PathBuffer name = checkpoint_name(moment.global_step);
  PathBuffer path(output_dir_);
  failed_path_ = path.append("/").append(name.text());
  if (::access(path.c_str(), F_OK) == 0 && !holds_state(path)) return Status{StatusCode::kDiskFailed, {EEXIST, 0}};
  path.cut(output_dir_.size() + 1);
  path.append(kTemporaryPrefix).append(name.text());
  const std::size_t folder_length = path.length();
  failed_path_ = path;
  Status status = remove_tree(path.c_str());
  if (status.ok()) status = make_folder(path.c_str());
  if (status.ok()) status = write_files(moment, path, progress);
  if (status.ok()) status = publish_folder(output_dir_.c_str(), name.text());
  if (!status.ok()) {
    path.cut(folder_length);
    const Status removed = remove_tree(path.c_str());  // the next start tries again if this fails too
    static_cast<void>(removed);
    return status;
  }
  status = rotation_.remove_old(moment.global_step, moment.best_step);
  if (!status.ok()) failed_path_ = rotation_.failed_path();
  return status;
}

Status CheckpointWriter::write_files(const CheckpointMoment& moment, PathBuffer& path,
                                     WriteProgress progress) noexcept {
  BASCULE_CHECK(moment.texts.size() == text_files_.size());
  std::uint64_t* const of_model = digests_.data();
  std::uint64_t* const of_optimizer = of_model + model_.files().size();
  BASCULE_TRY(model_.write_into(path.c_str(), progress, {of_model, model_.files().size()}));
  path.append("/");
  const std::size_t start = path.length();
  failed_path_ = path.append(kTrainingStateFile);
  BASCULE_TRY(optimizer_.write(path.c_str(), progress, of_optimizer));
  path.cut(start);
  return write_texts_and_state(moment, path, true);
}

// path: the folder's, with a slash.
Status CheckpointWriter::write_texts_and_state(const CheckpointMoment& moment, PathBuffer& path,
                                               bool has_tensors) noexcept {
  const std::size_t start = path.length();
  std::uint64_t* const digests = digests_.data() + model_.files().size() + 1;
  for (std::size_t i = 0; i < text_files_.size(); ++i) {
    path.cut(start);
    failed_path_ = path.append(text_files_[i]);
    BASCULE_TRY(write_synced(path.c_str(), moment.texts[i], digests + i));
  }
  path.cut(start);
  failed_path_ = path.append(kStateFile);
  return write_state(moment, path.c_str(), has_tensors);
}

Status CheckpointWriter::save_last_state(const CheckpointMoment& moment) noexcept {
  PathBuffer path(output_dir_);
  path.append("/").append(kTemporaryPrefix).append(kLastStateFolder);
  failed_path_ = path;
  BASCULE_TRY(remove_tree(path.c_str()));
  BASCULE_TRY(make_folder(path.c_str()));
  path.append("/");
  BASCULE_TRY(write_texts_and_state(moment, path, false));
  return publish_folder(output_dir_.c_str(), kLastStateFolder);
}

Status CheckpointWriter::write_state(const CheckpointMoment& moment, const char* path, bool has_tensors) noexcept {
  JsonStream out(Span<char>(state_.data(), state_.size()));
  out.begin_object().line_break();
  out.key("format").integer(kStateFormat);
  out.key("global_step").integer(moment.global_step);
  out.key("samples_seen").integer(moment.samples_seen);
  out.key("epoch").number(moment.epoch);
  out.key("numbers").begin_object();
  for (const NamedNumber& number : moment.numbers) out.key(number.name).number(number.value);
  out.end_object().key("replacements").begin_array();
  for (const ReplacedSample& one : moment.replacements) {
    out.begin_array().integer(one.epoch).integer(one.position).integer(one.row);
    out.integer(one.bad_row).integer(one.reason).end_array();
  }
  out.end_array();
  out.key("bad_rows").begin_array();
  for (const std::int64_t number : moment.bad_rows) out.integer(number);
  out.end_array();
  out.raw(fixed_state_);
  out.key("files").begin_object();
  const std::uint64_t* digest = digests_.data() + model_.files().size() + 1;
  if (has_tensors) {
    const std::uint64_t* of_file = digests_.data();
    for (const PlannedFile& file : model_.files()) write_file_entry(out, file.name, file.bytes, *of_file++);
    write_file_entry(out, kTrainingStateFile, optimizer_.file_bytes(), *of_file);
  }
  for (std::size_t i = 0; i < text_files_.size(); ++i) {
    write_file_entry(out, text_files_[i], static_cast<std::int64_t>(moment.texts[i].size()), *digest++);
  }
  out.end_object();
  Digest own;
  own.add(out.text().data(), out.text().size());
  out.key(kStateDigestKey).string(DigestText(own.value()).text()).end_object().line_break();
  if (out.overflowed()) return Status{StatusCode::kDiskFailed, {EOVERFLOW, 0}};
  return write_synced(path, out.text());
}

}  // namespace bascule
