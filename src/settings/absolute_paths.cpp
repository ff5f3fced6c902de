// SPDX-License-Identifier: Apache-2.0
#include "src/settings/absolute_paths.h"

#include <cstddef>

#include "src/base/paths.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

std::vector<std::string_view> parts_of(const std::string& written) {
  if (names_shards(written)) return list_parts(written);
  return {written};
}

std::string absolute_path(const PathsSetting& paths, const std::string& path) {
  if (path.empty()) return path;
  return paths.stays_inside ? path_inside(paths.start, path) : path_from(paths.start, path);
}

bool has_any(std::string_view text, const char* signs) { return text.find_first_of(signs) != std::string_view::npos; }

}  // namespace

std::string absolute_data_path(const PathsSetting& paths, const std::string& written) {
  std::string absolute;
  for (const std::string_view part : parts_of(written))
    absolute += (part.data() == written.data() ? "" : ",") + absolute_path(paths, std::string(part));
  return absolute;
}

PathProblem data_path_problem(const PathsSetting& paths, const std::string& written) {
  for (const std::string_view part : parts_of(written)) {
    if (part.empty() || part.front() == '/') continue;
    const bool is_braced = names_shards(written) && part.front() == '{';
    if (is_braced && (part.find("{/") != std::string_view::npos || part.find(",/") != std::string_view::npos))
      return {"an absolute path stands inside braces", "list the paths with commas instead"};
    if ((names_shards(written) && has_any(paths.start, "{},")) || (has_any(part, "*?[") && has_any(paths.start, "*?[")))
      return {"the name of the folder " + paths.start + " has signs of a pattern itself",
              "give the key from another folder, or write it into the file"};
  }
  return {};
}

Settings with_absolute_paths(Settings settings) {
  for (PathSetting* path : {&settings.model.model_name_or_path, &settings.model.tokenizer_name,
                            &settings.run.output_dir, &settings.run.resume_checkpoint, &settings.distributed.hostfile,
                            &settings.draw.prompts_file, &settings.draw.latents_file, &settings.serve.api_key_file,
                            &settings.serve.access_log, &settings.report.tracking_dir}) {
    // The tokenizer of a pipeline lies in a folder of its own.
    if ((settings.draw.is_given || only_serves(settings)) && !path->is_given()) continue;
    if (path->resolved.empty()) path->resolved = path->written;
    path->written = path->resolved;
  }
  DataSettings& data = settings.data;
  for (PathsSetting* paths :
       {&data.train_file, &data.validation_file, &data.test_file, &data.validation_corpus, &data.validation_queries,
        &data.validation_relevance, &data.test_corpus, &data.test_queries, &data.test_relevance}) {
    for (std::string& path : paths->written) {
      if (data_path_problem(*paths, path).what.empty()) path = absolute_data_path(*paths, path);
    }
  }
  return settings;
}

std::vector<NamedText> absolute_path_values(const Settings& settings) {
  const Settings absolute = with_absolute_paths(settings);
  std::vector<NamedText> values;
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    const std::string value = value_text(key, absolute);
    if (value != value_text(key, settings)) values.push_back({qualified_name(key), value});
  }
  return values;
}

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

}  // namespace

std::string_view unexpanded_part(std::string_view path) {
  if (!path.empty() && path[0] == '~') return path.substr(0, path.find('/'));
  for (std::size_t at = path.find('$'); at != std::string_view::npos; at = path.find('$', at + 1)) {
    std::size_t end = at + 1;
    const bool braced = end < path.size() && path[end] == '{';
    if (braced) ++end;
    if (end >= path.size() || !is_letter(path[end])) continue;
    while (end < path.size() && is_name_character(path[end])) ++end;
    if (braced && end < path.size() && path[end] == '}') ++end;
    return path.substr(at, end - at);
  }
  return {};
}

std::string unexpanded_problem(std::string_view path) {
  const std::string_view part = unexpanded_part(path);
  if (part.empty()) return "";
  return "\"" + std::string(part) + "\" is not expanded: only a shell does that";
}

}  // namespace bascule
