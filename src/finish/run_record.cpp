// SPDX-License-Identifier: Apache-2.0
#include "src/finish/run_record.h"

#include <link.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/json/members.h"
#include "src/judge/examples.h"
#include "src/machine/machine_json.h"
#include "src/pictures/preprocessor.h"
#include "src/record/recorded_draw_run.h"
#include "src/settings/absolute_paths.h"
#include "src/settings/command_line_keys.h"

namespace bascule {

constexpr auto members_of(const SummedFile*) {
  return std::make_tuple(named("path", &SummedFile::path), named("sha256", &SummedFile::sha256));
}
constexpr auto members_of(const RecordedPace*) {
  using P = RecordedPace;
  return std::make_tuple(named("whole_run", &P::whole), named("least", &P::least), named("most", &P::most));
}
constexpr auto members_of(const RunRecord*) {
  using R = RunRecord;
  return std::make_tuple(named("settings", &R::settings), named("model_folder", &R::model_folder),
                         named("settings_file", &R::settings_file), named("program", &R::program),
                         named("libraries", &R::libraries), named("model_files", &R::model_files),
                         named("results", &R::results), named("samples_per_second", &R::pace));
}

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr std::size_t kDigits = 16;

[[noreturn]] void refuse(const std::string& path, std::int64_t line) {
  throw Error(ErrorKind::kData, path + ":" + std::to_string(line), "is not a line of a picture list",
              "restore the file");
}

constexpr char kOwnSum[] = "sha256";

// The program has no name here, and the kernel's own library no file.
int add_library(dl_phdr_info* info, std::size_t, void* libraries) {
  if (is_file(info->dlpi_name))
    static_cast<std::vector<std::string>*>(libraries)->push_back(std::filesystem::absolute(info->dlpi_name).string());
  return 0;
}

std::string bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return std::string(DigestText(bits).text());
}

// A file that is gone by now is no reason to lose a finished run: it is recorded without a sum.
SummedFile summed(const std::string& path, const std::string& read_from) {
  try {
    return {path, sha256_of_file(read_from)};
  } catch (const Error&) {
    return {path, ""};
  }
}
SummedFile summed(const std::string& path) { return summed(path, path); }

std::vector<SummedFile> model_files(const SealedRun& sealed, const RecordedRun& run) {
  std::vector<std::string> paths = {run.opened.config_path};
  const ModelSettings& model = run.settings.model;
  if (run.opened.inputs.image_side > 0) paths.push_back(processor_file_of(model.model_name_or_path.resolved));
  if (run.graphs.texts) paths.push_back(model.model_name_or_path.resolved + "/" + kGenerationFiles[0]);
  if (run.opened.tokenizer) {
    for (const char* name : kTokenizerFiles) paths.push_back(model.tokenizer_name.resolved + "/" + name);
  }
  if (run.opened.sentence) {
    for (const std::string& file : run.opened.sentence->files)
      paths.push_back(model.model_name_or_path.resolved + "/" + file);
  }
  for (const InputFile& file : sealed.weights_source().files()) paths.push_back(file.path());
  std::vector<SummedFile> files;
  for (const std::string& path : paths) {
    if (std::filesystem::is_regular_file(path)) files.push_back(summed(path));
  }
  return files;
}

std::string sum_of(const Json& json) {
  const std::string text = json_text(json);
  Sha256 sum;
  sum.add(text.data(), text.size());
  return sum.hex();
}

// oneDNN is loaded with the program; our own products call nothing in it, and its 40 MB take longest to sum.
bool runs_code_of(const std::string& library, const MachineSettings& machine) {
  return machine.products == Products::kOnednn ||
         std::filesystem::path(library).filename().string().rfind("libdnnl.", 0) != 0;
}

// The common part of the records of all runs: settings, program, machine.
RunRecord begin_record(const Settings& settings) {
  RunRecord record;
  record.settings = print_settings(with_absolute_paths(settings));
  record.model_folder = settings.model.model_name_or_path.resolved;
  if (sealed_settings() == nullptr)
    record.settings_file = summed(std::filesystem::absolute(settings.origin.file).lexically_normal().string());
  record.settings_keys = command_line_keys(settings);
  record.machine = lasting_facts();
  record.program = running_program();
  for (const std::string& library : loaded_libraries()) {
    if (runs_code_of(library, settings.machine)) record.libraries.push_back(summed(library));
  }
  return record;
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

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> libraries;
  dl_iterate_phdr(&add_library, &libraries);
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

SummedFile running_program() {
  const std::string path = program_file(), own = "/proc/self/exe";  // which a new build does not replace
  return summed(path, std::filesystem::exists(own) ? own : path);
}

// Without counters and limits, which are of one moment or of one process.
Machine lasting_facts() {
  Machine machine;
  machine.processor = read_processor();
  machine.cores = read_cores();
  machine.caches = read_caches();
  machine.nodes = read_nodes();
  machine.groups = read_groups();
  machine.memory = read_memory();
  machine.kernel = read_kernel();
  return machine;
}

Settings repeating_settings(Settings settings, const RunRecord& record) {
  if (record.ended_at == 0) return settings;
  settings.training.max_steps = record.ended_at;
  settings.training.num_train_epochs = 0.0;
  settings.training.lr_schedule_steps = record.schedule_steps;
  return settings;
}

RecordedPace pace_of(const Report& report, std::int64_t warmup_steps) {
  RecordedPace pace;
  pace.whole = report.train.whole.samples_per_second;
  for (const StepRecord& step : report.steps) {
    if (step.global_step - step.steps < warmup_steps || step.samples_per_second <= 0.0) continue;
    pace.least = pace.least == 0.0 ? step.samples_per_second : std::min(pace.least, step.samples_per_second);
    pace.most = std::max(pace.most, step.samples_per_second);
  }
  return pace;
}

RunRecord make_record(SealedRun& sealed, const Report& report) {
  const RecordedRun& run = sealed.run();
  RunRecord record = begin_record(run.settings);
  record.model_files = model_files(sealed, run);
  const auto add_result = [&](const std::string& name) {
    record.results.push_back({name, sha256_of_file(report.output_dir + "/" + name)});
  };
  const auto add_shards = [&](const auto* model, const std::string& folder) {
    for (std::size_t i = 0; model != nullptr && i < model->shards().size(); ++i)
      add_result(folder + model->shards()[i].name);
  };
  add_shards(sealed.final_model(), "");
  add_shards(sealed.averaged_model(), std::string(kAveragedFolder) + "/");
  if (run.graphs.texts && run.data.find(Split::kTest) != nullptr) {
    for (const char* name : {kPredictionsFile, kGeneratedTextsFile}) add_result(name);
  }
  for (const RecordedSplit& split : run.data.splits)
    record.data.push_back({split_name(split.split), std::string(DigestText(split.manifest->data_digest()).text())});
  if (picture_digest_count(run.data.loader) > 0) {
    const PictureCount count = write_picture_list(report.output_dir, run.data, sealed.loader());
    record.picture_list_sha256 = sha256_of_file(report.output_dir + "/" + kPictureListFile);
    record.pictures_listed = count.listed;
    record.pictures = count.pictures;
  }
  for (const StepRecord& step : report.steps)
    record.steps.push_back({step.global_step, bits_of(step.loss), bits_of(step.grad_norm)});
  for (const EvaluationRecord& one : report.evaluations)
    record.evaluations.push_back({split_name(one.split), one.global_step, bits_of(one.loss)});
  if (run.graphs.trains() && sealed.loop().control().settings().total_updates < run.pace.length.total_updates) {
    record.ended_at = report.global_step;
    record.schedule_steps = run.pace.schedule.total_steps;
  }
  record.train_loss = report.train.train_loss;
  record.pace = pace_of(report, run.settings.training.throughput_warmup_steps);
  return record;
}

RunRecord make_record(const RecordedDrawRun& run, const DrawResults& results) {
  RunRecord record = begin_record(run.settings);
  for (const std::string& path : draw_input_paths(run)) record.model_files.push_back(summed(path));
  const std::string folder = run.settings.run.output_dir.resolved + "/";
  for (const DrawnPicture& picture : run.files->done())
    record.results.push_back(
        {PictureName(picture.number, run.list.pictures.size()).text(), run.files->checked_sum(picture)});
  record.results.push_back({kPictureLogFile, sha256_of_file(folder + kPictureLogFile)});
  // With the warm-up where there was nothing else.
  const bool is_timed = results.timed_pictures > 0;
  const double seconds = is_timed ? results.timed_seconds : results.seconds;
  const std::int64_t pictures = is_timed ? results.timed_pictures : results.pictures;
  if (seconds > 0.0) record.pace.whole = static_cast<double>(pictures) / seconds;
  return record;
}

Json record_json(const RunRecord& record) {
  Json json = written(record);
  json["format"] = kRecordFormat;
  json["machine"] = machine_json(record.machine);
  json["settings_keys"] = record.settings_keys;
  json["data"] = Json::object();
  for (const NamedText& split : record.data) json["data"][split.name] = split.value;
  json["pictures"] = {
      {"list_sha256", record.picture_list_sha256}, {"listed", record.pictures_listed}, {"pictures", record.pictures}};
  json["steps"] = json["evaluations"] = Json::array();
  for (const LoggedBits& step : record.steps) json["steps"].push_back(Json::array({step.step, step.loss, step.norm}));
  for (const EvaluatedBits& one : record.evaluations)
    json["evaluations"].push_back(Json::array({one.split, one.step, one.loss}));
  json["train_loss"] = record.train_loss;
  if (record.ended_at > 0)
    json["ended_early"] = {{"update", record.ended_at}, {"schedule_steps", record.schedule_steps}};
  json[kOwnSum] = sum_of(json);
  return json;
}

RunRecord read_record(const Json& json, const std::string& where) {
  const std::int64_t format = get_int(json, "format", where);
  if (format != kRecordFormat) {
    throw Error(
        ErrorKind::kData, where,
        "has a record of format " + std::to_string(format) + ", this program reads " + std::to_string(kRecordFormat),
        "use the version of Bascule that wrote it");
  }
  Json content = json;
  content.items().erase(kOwnSum);
  if (sum_of(content) != get_string(json, kOwnSum, where))
    throw Error(ErrorKind::kData, where, "is damaged: its record does not match its checksum", "restore it");
  RunRecord record;
  read_members(json, {where, "record", true}, &record);
  record.machine = machine_from(get_object(json, "machine", where), where);
  if (json.contains("settings_keys")) record.settings_keys = get_strings(json, "settings_keys", where);
  const Json& data = get_object(json, "data", where);
  for (const auto& [split, digest] : data.items()) record.data.push_back({split, digest.string()});
  const Json& pictures = get_object(json, "pictures", where);
  record.picture_list_sha256 = get_string(pictures, "list_sha256", where);
  record.pictures_listed = get_int(pictures, "listed", where);
  record.pictures = get_int(pictures, "pictures", where);
  for (const Json& step : get_array(json, "steps", where))
    record.steps.push_back({step[0].integer(), step[1].string(), step[2].string()});
  for (const Json& one : get_array(json, "evaluations", where))
    record.evaluations.push_back({one[0].string(), one[1].integer(), one[2].string()});
  if (json.contains("ended_early")) {
    const Json& ended = get_object(json, "ended_early", where);
    record.ended_at = get_int(ended, "update", where);
    record.schedule_steps = get_int(ended, "schedule_steps", where);
  }
  // Null where no update had a loss.
  record.train_loss = get_number(json, "train_loss", where, std::numeric_limits<double>::quiet_NaN());
  return record;
}

}  // namespace bascule
