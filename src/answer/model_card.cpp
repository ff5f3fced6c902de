// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr char kSentenceTransformers[] = "sentence-transformers";

// A string of YAML in double quotes: JSON's are that too.
std::string quoted(const std::string& text) { return json_text(Json(text)); }

// Text inside a Markdown table or code span: no line breaks, no pipes, no back ticks.
std::string cell(std::string text) {
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c == '`' ? '\'' : c;
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string row(const std::string& name, const std::string& value) { return "| " + name + " | " + value + " |\n"; }

// The publishable part of a path, or of a list of paths that text may stand before: of one from the root its last
// name.
std::string published(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(", ", at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t root = part.find('/');
    const bool is_absolute = root == 0 || (root < part.size() && part[root - 1] == ' ');
    if (is_absolute) {
      const std::string path = part.substr(root, part.find_last_not_of('/') + 1 - root);
      out += part.substr(0, root) + path.substr(path.rfind('/') + 1);
    } else {
      out += part;
    }
    if (end < text.size()) out += ", ";
    at = end + 2;
  }
  return out;
}

// YAML has no thousands separators, and no number for a value that is not finite.
void add_metric(std::string& out, const std::string& name, const char* type, double value) {
  if (!std::isfinite(value)) return;
  out += "    - name: " + quoted(name) + "\n      type: " + type + formatted("\n      value: %.6g\n", value);
}

// One split's entry of the model index.
void add_split_results(std::string& out, const Report& report, const EvaluationRecord* record,
                       const std::string& dataset) {
  if (record == nullptr) return;
  out += "  - task:\n      type: " + report.pipeline_tag + "\n    dataset:\n      name: " + quoted(dataset) +
         "\n      type: " + quoted(dataset) + "\n      split: " + split_name(record->split) + "\n    metrics:\n";
  add_metric(out, "Loss", "loss", record->loss);
  for (const Metric& metric : report.metrics) add_metric(out, metric.title, metric.key, (*record)[metric]);
}

void add_header(std::string& out, const Report& report) {
  out += "---\nlibrary_name: " + report.library + "\nbase_model: " + quoted(published(report.model_name)) + "\ntags:\n";
  for (const std::string& tag : report.tags) out += "- " + tag + "\n";
  out += "- bascule\npipeline_tag: " + report.pipeline_tag + "\n";
  const EvaluationRecord* const validation = last_evaluation(report, Split::kValidation);
  const EvaluationRecord* const test = last_evaluation(report, Split::kTest);
  if (validation != nullptr || test != nullptr)
    out += "model-index:\n- name: " + quoted(report.title) + "\n  results:\n";
  add_split_results(out, report, validation, published(report.validation_dataset));
  add_split_results(out, report, test, published(report.test_dataset));
  out += "---\n\n";
}

void add_evaluation(std::string& out, const EvaluationRecord* record, Metrics metrics, const char* title,
                    const std::string& dataset) {
  if (record == nullptr) return;
  out += "\n### " + std::string(title) + ": `" + cell(dataset) + "`\n\n| figure | value |\n|---|---|\n";
  if (!std::isnan(record->loss)) out += row("loss", readable_number(record->loss));
  for (const Metric& metric : metrics) {
    if (!std::isnan((*record)[metric])) out += row(metric.title, readable_metric(metric, (*record)[metric]));
  }
  out += row("samples", readable_count(record->samples));
}

void add_loading(std::string& out, const Report& report) {
  const bool has_code = !report.auto_class.empty();
  const std::string &name = has_code ? report.auto_class : report.architecture, &prepares = report.processor;
  if (prepares.empty()) {
    out += "\n## Usage\n\nTransformers has no class that can load this folder; `bascule run` can start from it.\n";
    return;
  }
  if (report.library == kSentenceTransformers) {
    out +=
        "\n## Usage\n\n```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        "folder = \".\"  # the path of this folder\n"
        "vectors = SentenceTransformer(folder).encode([\"a text\", \"another\"])\n```\n";
    return;
  }
  const std::string variable = prepares == "AutoTokenizer" ? "tokenizer" : "processor";
  out += "\n## Usage\n\n```python\nfrom transformers import " + prepares + ", " + name +
         "\n\nfolder = \".\"  # the path of this folder\n" + variable + " = " + prepares +
         ".from_pretrained(folder)\nmodel = " + name + ".from_pretrained(folder" +
         (has_code ? ", trust_remote_code=True" : "") + ")\n```\n";
}

// The processor prepares a picture differently from the run.
void add_preparation(std::string& out, const Report& report) {
  const auto is_training = [](const NamedText& setting) {
    return setting.name == "data.preprocessing" && setting.value.find("training") != std::string::npos;
  };
  if (report.preparation_note.empty() || std::none_of(report.settings.begin(), report.settings.end(), is_training))
    return;
  out +=
      "\nThis model was trained with `data.preprocessing = \"training\"`, the preprocessing of the published recipe. " +
      report.preparation_note + "\n";
}

void add_reproducing(std::string& out, const Report& report) {
  const bool is_of_one_kind_of_cpu = std::any_of(report.settings.begin(), report.settings.end(),
                                                 [](const NamedText& one) { return one.name == "machine.products"; });
  out +=
      "\n## Reproducing the bits\n\nWrite the settings below to a file and run\n\n```\nbascule run " +
      cell(report.settings_file.empty() ? "settings.toml" : published(report.settings_file)) +
      "\n```\n\nwith the build and data listed here and in `bascule.json`, on " +
      (is_of_one_kind_of_cpu ? "a CPU of the same kind and with the same `isa`" : "any x86-64 CPU with AVX2 and FMA") +
      ".\n";
  if (report.best.schedule_steps > 0)
    out += "\n`bascule stop` ended this run, so write `training.max_steps = " + std::to_string(report.global_step) +
           "` and `training.lr_schedule_steps = " + std::to_string(report.best.schedule_steps) +
           "` in place of the length below, or repeat it with `bascule reproduce`.\n";
  if (report.provenance.empty()) return;
  out += "\n| | |\n|---|---|\n";
  for (const NamedText& fact : report.provenance) out += row(cell(fact.name), "`" + cell(fact.value) + "`");
}

}  // namespace

std::string model_card(const Report& report) {
  std::string out;
  add_header(out, report);
  out += "# " + cell(report.title) + "\n\nA " + report.model_kind + " model (" + cell(report.architecture) +
         ", head `" + cell(report.head) + "`) trained by Bascule from `" + cell(published(report.model_name)) +
         "` on `" + cell(published(report.dataset)) + "`.\n";
  const EvaluationRecord* const validation = last_evaluation(report, Split::kValidation);
  const EvaluationRecord* const test = last_evaluation(report, Split::kTest);
  if (validation != nullptr || test != nullptr) out += "\n## Evaluation\n";
  add_evaluation(out, validation, report.metrics, "Validation", published(report.validation_dataset));
  add_evaluation(out, test, report.metrics, "Test", published(report.test_dataset));
  if ((validation != nullptr || test != nullptr) && !report.metrics_note.empty())
    out += "\n" + report.metrics_note + "\n";

  if (!report.averaged_evaluations.empty())
    out += "\nThe folder `ema` holds the exponential moving average of the weights.\n";
  if (report.train.done) {
    out += "\n## Training\n\n| figure | value |\n|---|---|\n";
    const WholeRun& whole = report.train.whole;
    out += row("steps", readable_count(report.global_step));
    if (report.best.is_known)
      out += row("weights", "from step " + readable_count(report.best.weights_of) + "; best evaluation at step " +
                                readable_count(report.best.step) + ", with " + cell(report.best.figure) + " " +
                                readable_number(report.best.value));
    if (!report.best.stopped_early.empty()) out += row("stopped early", cell(report.best.stopped_early));
    out += row("epochs", readable_number(report.epoch));
    out += row("mean loss", readable_number(report.train.train_loss));
    out += row("throughput of the whole run", readable_number(whole.samples_per_second) + " samples/s, " +
                                                  throughput_counts(report.train.counts_warmup));
    out += row("time of the whole run",
               readable_seconds(whole.seconds) + ", " + kTrainingTimeCounts +
                   (whole.processes > 1 ? ", in " + std::to_string(whole.processes) + " processes" : ""));
    out += row("planned memory", readable_bytes(report.planned_bytes));
  }
  add_loading(out, report);
  add_preparation(out, report);
  add_reproducing(out, report);
  if (!report.settings.empty()) {
    out += "\n### Settings\n\n| key | value |\n|---|---|\n";
    for (const NamedText& setting : report.settings)
      out += row("`" + cell(setting.name) + "`", "`" + cell(setting.value) + "`");
  }
  return out;
}

}  // namespace bascule
