// SPDX-License-Identifier: Apache-2.0
// The texts and files of a finished run: result files, summary, model card, report.html.
#pragma once

#include <string>
#include <vector>

#include "src/answer/report.h"

namespace bascule {

// The result files of a finished run, with Hugging Face's names, keys and roundings: all_results.json,
// train_results.json, validation_results.json, test_results.json, trainer_state.json. Finish phase: allocates, throws
// Error{kDisk}.

// The documents, each as the text of its file.
std::string train_results_json(const Report& report);
// The file of one split: keys start with eval_, as in the published runs. "" if the split was not evaluated.
std::string split_results_json(const Report& report, Split split);
// All of them: the keys of a split start with its name, train_, validation_ and test_.
std::string all_results_json(const Report& report);
std::string trainer_state_json(const Report& report);

// A trace for chrome://tracing and Perfetto: the mean step on one line, operation after operation, microseconds.
std::string trace_json(const Report& report);

// Writes those that apply into report.output_dir, each beside and renamed.
void write_result_files(const Report& report);

// The tables that a run prints at its end: headline figures, where the time went, contracts kept or broken. Plain text
// with line breaks, aligned for a terminal of 80 columns or more. Finish phase.

std::string summary_text(const Report& report);
// Parts of it.
std::string time_table(const Report& report);
std::string contract_table(const std::vector<ContractResult>& contracts);

// The model card: README.md of the output folder, as the Hugging Face hub reads it (YAML header, then Markdown). Finish
// phase.

std::string model_card(const Report& report);

// report.html: the whole run on one page, in one file that asks for nothing from anywhere: pictures are data URIs,
// charts are inline SVG, light and dark follow the reader. Everything that comes from outside is escaped. Finish phase:
// allocates; the text is about 250 KB plus 4/3 of the embedded pictures' bytes.

std::string report_html(const Report& report);

}  // namespace bascule
