// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

// Upper bounds of one element of bascule_state.json in characters: five 64-bit integers; a short name and a double.
constexpr std::int64_t kReplacementChars = 120;
constexpr std::int64_t kNumberChars = 128;
constexpr std::int64_t kBadRowChars = 72;
constexpr std::int64_t kSpareChars = 1024;

// "settings", "data" and the sizes of the files whose sizes are known before the seal.
std::string fixed_state(const CheckpointContents& contents, const HfFolderPlan& model,
                        const SafetensorsWritePlan& optimizer) {
  const auto object = [](const std::vector<SettingValue>& values) {
    Json json = Json::object();
    for (const SettingValue& one : values) json[one.key] = one.value;
    return json_text(json);
  };
  std::string text =
      "\"settings_digest\": " + json_text(Json(contents.settings_digest)) +
      ",\n \"settings\": " + object(contents.settings) + ",\n \"other_settings\": " + object(contents.other_settings) +
      ",\n \"history\": " + json_text(history_json(contents.history)) + ",\n \"rows\": " +
      json_text(Json{
          {"count", contents.rows.count}, {"blocks", contents.rows.blocks}, {"taken_out", contents.rows.taken_out}}) +
      ",\n \"data\": " + object(contents.data) + ",\n \"files\": {";
  for (const PlannedFile& file : model.files()) {
    text += json_text(Json(file.name)) + ": " + std::to_string(file.bytes) + ", ";
  }
  return text + "\"" + kTrainingStateFile + "\": " + std::to_string(optimizer.file_bytes());
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointContents contents)
    : output_dir_(contents.output_dir),
      rotation_(contents.output_dir, contents.save_total_limit),
      model_(std::move(contents.model)),
      optimizer_(std::move(contents.optimizer)),
      text_files_(contents.text_files),
      fixed_state_(fixed_state(contents, model_, optimizer_)) {
  std::int64_t chars = static_cast<std::int64_t>(fixed_state_.size()) + kSpareChars +
                       contents.max_replacements * kReplacementChars + contents.max_numbers * kNumberChars +
                       contents.max_bad_rows * kBadRowChars;
  for (const std::string& name : text_files_) chars += static_cast<std::int64_t>(name.size()) + kNumberChars;
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
  path.append("/").append(name.text()).append(".tmp");
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
  BASCULE_TRY(model_.write_into(path.c_str(), progress));
  path.append("/");
  const std::size_t start = path.length();
  failed_path_ = path.append(kTrainingStateFile);
  BASCULE_TRY(optimizer_.write(path.c_str(), progress));
  for (std::size_t i = 0; i < text_files_.size(); ++i) {
    path.cut(start);
    failed_path_ = path.append(text_files_[i]);
    BASCULE_TRY(write_synced(path.c_str(), moment.texts[i]));
  }
  path.cut(start);
  failed_path_ = path.append(kStateFile);
  return write_state(moment, path.c_str());
}

Status CheckpointWriter::write_state(const CheckpointMoment& moment, const char* path) noexcept {
  JsonStream out(Span<char>(state_.data(), state_.size()));
  out.begin_object().line_break();
  out.key("format").integer(kStateFormat);
  out.key("global_step").integer(moment.global_step);
  out.key("samples_seen").integer(moment.samples_seen);
  out.key("epoch").number(moment.epoch);
  out.key("numbers").begin_object();
  for (const NamedNumber& number : moment.numbers) out.key(number.name).number(number.value);
  out.end_object().key("replacements").begin_array();
  for (const Replacement& one : moment.replacements) {
    out.begin_array().integer(one.epoch).integer(one.position).integer(one.row);
    out.integer(one.bad_row).integer(one.reason).end_array();
  }
  out.end_array();
  out.key("bad_rows").begin_array();
  for (const std::int64_t number : moment.bad_rows) out.integer(number);
  out.end_array();
  out.raw(fixed_state_);
  for (std::size_t i = 0; i < text_files_.size(); ++i) {
    out.key(text_files_[i]).integer(static_cast<std::int64_t>(moment.texts[i].size()));
  }
  out.end_object().line_break().end_object().line_break();
  if (out.overflowed()) return Status{StatusCode::kDiskFailed, {EOVERFLOW, 0}};
  return write_synced(path, out.text());
}

}  // namespace bascule
