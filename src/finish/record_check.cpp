// SPDX-License-Identifier: Apache-2.0
#include "src/finish/run_record.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/files/input_file.h"
#include "src/index/picture_folder.h"
#include "src/json/json.h"
#include "src/pictures/picture_log.h"
#include "src/record/opened_model.h"
#include "src/record/recorded_draw_run.h"
#include "src/settings/absolute_paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/read_canonical.h"
#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

// Libraries whose arithmetic is part of a result: pictures are decoded by these, and with oneDNN's products that too.
constexpr std::string_view kComputing[] = {"libjpeg", "libpng", "libwebp", "libz.",
                                           "libm.",   "libm-",  "libmvec", "libdnnl"};

constexpr std::int64_t kListedPictures = 10;

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string text_of(const TextFact& fact) { return fact ? *fact : "unknown"; }
std::string text_of(const Fact& fact) { return fact ? std::to_string(*fact) : "unknown"; }

// Too many open files say nothing about the file that was to be opened.
void throw_if_of_limit(const Error& error) {
  if (is_open_files_limit(error.reason())) throw Error(error);
}

// "" where it has the sum.
std::string problem_of(const SummedFile& recorded, const std::string& path) {
  try {
    if (recorded.sha256.empty()) return "its content was not recorded";
    return sha256_of_file(path) == recorded.sha256 ? "" : "its content differs";
  } catch (const Error& error) {
    throw_if_of_limit(error);
    return error.problem();
  }
}

class Check {
 public:
  explicit Check(const RecordedFolder& recorded) : recorded_(recorded), record_(recorded.record) {}

  std::vector<Difference> run() {
    check_program();
    check_settings();
    const char* const kind = recorded_.draws() ? "input file " : "model file ";
    for (const SummedFile& file : record_.model_files) check_file(kind, file, file.path, Promise::kNothing);
    for (const SummedFile& file : record_.results)
      check_file("result ", file, recorded_.folder + "/" + file.path, Promise::kBits);
    recorded_.draws() ? check_drawing() : check_data();
    check_machine();
    return std::move(differences_);
  }

 private:
  void add(const std::string& what, Promise promise) { differences_.push_back({what, promise}); }

  void check_file(const char* kind, const SummedFile& file, const std::string& path, Promise promise) {
    const std::string problem = problem_of(file, path);
    if (!problem.empty()) add(kind + shown_path(path) + ": " + problem, promise);
  }

  // Libraries by name: those that this process has loaded, and else those that the run had.
  void check_program() {
    const SummedFile own = running_program();
    if (own.sha256 != record_.program.sha256)
      add("program " + shown_path(own.path) + ": it is not the one that ran (" + record_.program.path + ")",
          Promise::kFigures);
    std::map<std::string, std::string> loaded;
    for (const std::string& path : loaded_libraries()) loaded[name_of(path)] = path;
    for (const SummedFile& library : record_.libraries) {
      const std::string name = name_of(library.path);
      const auto here = loaded.find(name);
      const bool computes = std::any_of(std::begin(kComputing), std::end(kComputing), [&](std::string_view begin) {
        return std::string_view(name).substr(0, begin.size()) == begin;
      });
      check_file("library ", library, here != loaded.end() ? here->second : library.path,
                 computes ? Promise::kFigures : Promise::kBits);
    }
  }

  void check_settings() {
    const SummedFile& file = record_.settings_file;
    if (file.path.empty()) return;
    const std::string problem = problem_of(file, file.path);
    if (problem.empty()) return;
    const std::string shown = "settings file " + shown_path(file.path) + ": ";
    try {
      const Settings now = settings_of_run({file.path, record_.settings_keys}, model_words);
      const std::vector<SettingChange> changes =
          setting_changes(number_keys(recorded_.written), other_keys(recorded_.written), now);
      for (const SettingChange& change : changes)
        add(shown + change.key + " is " + change.to + ", was " + change.from,
            change.effect == KeyEffect::kFree ? Promise::kBits : Promise::kNothing);
      if (changes.empty()) add(shown + problem + ", but no setting does", Promise::kBits);
    } catch (const Error& error) {
      throw_if_of_limit(error);
      add(shown + error.problem(), Promise::kBits);  // the record has the settings itself
    }
  }

  // Our own products give the same bits on every machine that runs them; a library's may not on another processor.
  void check_machine() {
    const Machine &then = record_.machine, now = lasting_facts();
    const bool is_ours = recorded_.settings.machine.products == Products::kOurs;
    const auto compare = [&](const char* fact, const std::string& is, const std::string& was, Promise promise) {
      if (is != was) add(std::string("machine: ") + fact + " is " + is + ", was " + was, promise);
    };
    const Promise computes = is_ours ? Promise::kBits : Promise::kFigures;
    compare("the processor", text_of(now.processor.name), text_of(then.processor.name), computes);
    compare("its instruction set", joined(now.processor.vector_flags, " "), joined(then.processor.vector_flags, " "),
            computes);
    compare("the microcode", text_of(now.processor.microcode), text_of(then.processor.microcode), Promise::kBits);
    compare("the hypervisor", text_of(now.processor.hypervisor), text_of(then.processor.hypervisor), Promise::kBits);
    compare("the number of cores", std::to_string(now.cores.size()), std::to_string(then.cores.size()), Promise::kBits);
    compare("the number of NUMA nodes", std::to_string(now.nodes.size()), std::to_string(then.nodes.size()),
            Promise::kBits);
    compare("memory in bytes", text_of(now.memory.bytes), text_of(then.memory.bytes), Promise::kBits);
    compare("the kernel", text_of(now.kernel.release), text_of(then.kernel.release), Promise::kBits);
  }

  // Its files were compared; whether they still make a run.
  void check_drawing() {
    try {
      (void)record_draw_run(recorded_.settings,
                            planned_place(recorded_.settings.distributed, recorded_.settings.origin));
    } catch (const Error& error) {
      throw_if_of_limit(error);
      add(std::string("the run cannot be repeated: ") + error.what(), Promise::kNothing);
    }
  }

  // Rows and pictures, as a run of these settings would read them.
  void check_data() {
    std::unique_ptr<RecordedRun> run;
    try {
      run = record_run(recorded_.settings, planned_place(recorded_.settings.distributed, recorded_.settings.origin));
    } catch (const Error& error) {
      throw_if_of_limit(error);
      return add(std::string("the run cannot be repeated: ") + error.what(), Promise::kNothing);
    }
    for (const RecordedSplit& split : run->data.splits) {
      const std::string name = split_name(split.split);
      const std::string* const then = find_value(record_.data, name);
      const std::string now(DigestText(split.manifest->data_digest()).text());
      if (then == nullptr || *then == now) continue;
      const DataSettings& data = recorded_.settings.data;
      const bool is_retrieval = (split.split == Split::kValidation && data.validation_corpus.is_given()) ||
                                (split.split == Split::kTest && data.test_corpus.is_given());
      add(name + " data " + split.manifest->name() +
              (is_retrieval ? ": documents, queries or relevance differ" : ": rows, or sizes of pictures, differ"),
          Promise::kNothing);
    }
    check_pictures(run->data);
  }

  void check_pictures(const RunData& data) {
    if (record_.picture_list_sha256.empty()) return;
    const SummedFile list{recorded_.folder + "/" + kPictureListFile, record_.picture_list_sha256};
    if (const std::string problem = problem_of(list, list.path); !problem.empty())
      return add("list of pictures " + shown_path(list.path) + ": " + problem + ", so that pictures were not compared",
                 Promise::kNothing);
    // The list has replacement characters for names that are not UTF-8, and so several pictures may have one name.
    std::map<std::pair<std::string, std::string>, std::set<std::uint64_t>> then;
    for (ReadPicture& picture : read_picture_list(recorded_.folder))
      then[{std::move(picture.split), std::move(picture.place)}].insert(picture.digest);
    std::vector<std::uint8_t> memory;
    for (const RecordedSplit& split : data.splits) {
      if (!split.manifest->has_pictures()) continue;
      const PictureFolder folder(*split.manifest);
      memory.resize(folder.largest_file_bytes() + 1);
      for (std::int64_t id = 0; id < split.manifest->pictures(); ++id) {
        const std::string place = split.manifest->picture_location(id);
        const auto found = then.find({split_name(split.split), listed_name(place)});
        if (found == then.end()) continue;
        std::size_t bytes = 0;
        const int failure = folder.read_picture(id, memory, &bytes);
        if (is_open_files_limit(failure))
          throw Error(ErrorKind::kData, place, file_problem(failure), advice_for_open(failure), failure);
        if (failure != 0) {
          add_picture(place, "cannot be read");
        } else if (found->second.count(picture_digest(memory.data(), bytes)) == 0) {
          add_picture(place, "its content differs");
        }
      }
    }
    if (pictures_ > kListedPictures)
      add("and " + std::to_string(pictures_ - kListedPictures) + " more pictures", Promise::kNothing);
  }

  // A folder that has moved away would fill screens.
  void add_picture(const std::string& place, const char* problem) {
    if (++pictures_ <= kListedPictures) add("picture " + shown_path(place) + ": " + problem, Promise::kNothing);
  }

  const RecordedFolder& recorded_;
  const RunRecord& record_;
  std::vector<Difference> differences_;
  std::int64_t pictures_ = 0;  // that differ
};

// A model folder may have changed since; the check names its files.
ModelWords words_of_recorded(const std::string& model_folder) {
  try {
    return model_words(model_folder);
  } catch (const Error&) {
    return words_of_usual_family();
  }
}

// For a run that has the settings from its first update on, where the recorded one changed the key on its way to them.
Promise promise_of_change(const std::string& key, const Settings& settings) {
  switch (effect_of_key(key, settings)) {
    case KeyEffect::kFree:
    case KeyEffect::kSameFiles:
    case KeyEffect::kSameRows: return Promise::kBits;
    case KeyEffect::kSameProduct: return Promise::kFigures;
    case KeyEffect::kLonger: {
      const bool keeps_schedule = settings.training.lr_schedule_steps > 0 && key != "training.lr_schedule_steps";
      return keeps_schedule ? Promise::kBits : Promise::kNothing;
    }
    default: return Promise::kNothing;
  }
}

}  // namespace

RecordedFolder open_record(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  RecordedFolder recorded;
  recorded.folder = is_folder ? path : std::filesystem::absolute(path).parent_path().string();
  const std::string file = is_folder ? path + "/" + kRunMarkerFile : path;
  const Json json = read_json_file(file);
  if (!json.is_object() || !get_bool(json, "finished", file, false)) {
    throw Error(ErrorKind::kData, file, "is not the record of a finished run",
                "name the folder of a run that has finished");
  }
  const Json* const record = find_member(json, "record", file);
  if (record == nullptr) {
    throw Error(ErrorKind::kData, file, "has no record: an older version of Bascule wrote it",
                "run it again with this version");
  }
  recorded.record = read_record(*record, file);
  ModelWords words = words_of_recorded(recorded.record.model_folder);
  words.draws = recorded.record.settings.find("\n[draw]\n") != std::string::npos;
  recorded.settings = with_absolute_paths(read_canonical_settings(recorded.record.settings, file, words));
  recorded.written = read_canonical_settings(get_string(json, "settings", file), file, words);
  for (const HistoryEntry& one : read_history(json, file)) {
    recorded.changes.push_back("after update " + std::to_string(one.step) + ": " + one.key + " from " + one.from +
                               " to " + one.to);
    recorded.of_changes = std::min(recorded.of_changes, promise_of_change(one.key, recorded.written));
  }
  return recorded;
}

void check_picture_log(const RecordedFolder& recorded) {
  const std::string path = recorded.folder + "/" + kPictureLogFile;
  const std::vector<SummedFile>& results = recorded.record.results;
  const auto list =
      std::find_if(results.begin(), results.end(), [](const SummedFile& file) { return file.path == kPictureLogFile; });
  const std::string problem = list == results.end() ? "is not in the record" : problem_of(*list, path);
  if (!problem.empty())
    throw Error(ErrorKind::kData, path, problem, "restore it: a repeated run would be compared with it");
}

void check_finished_weights(const std::string& output_dir, const FinishedWeights& finished) {
  const bool is_own = finished.folder == output_dir;
  if (!is_own) check_contents(read_checkpoint(finished.folder, finished.step));
  const std::string marker = output_dir + "/" + kRunMarkerFile;
  const Json json = read_json_file(marker);
  const Json* const record = find_member(json, "record", marker);
  if (record == nullptr) return;
  for (const SummedFile& file : read_record(*record, marker).results) {
    const std::string path = output_dir + "/" + file.path;
    const bool is_read = is_own || file.path.rfind(kAveragedFolder, 0) == 0;
    if (!is_read || std::filesystem::path(path).extension() != ".safetensors" || !std::filesystem::exists(path))
      continue;
    if (!problem_of(file, path).empty())
      throw Error(ErrorKind::kData, path, "its content differs from the record of the run",
                  "restore the weights of update " + std::to_string(finished.step) + ", or choose another output_dir");
  }
}

std::vector<Difference> check_record(const RecordedFolder& recorded) { return Check(recorded).run(); }

}  // namespace bascule
