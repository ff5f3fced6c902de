// SPDX-License-Identifier: Apache-2.0
// Settings from the text of a test, and the error that a text gives.
#pragma once

#include <optional>
#include <string>

#include "src/base/error.h"
#include "src/settings/settings.h"

namespace bascule {

// The least that a settings file must have.
inline constexpr const char kLeast[] =
    "[model]\nmodel_name_or_path = \"m\"\n[data]\ntrain_file = \"t.jsonl\"\n[training]\noutput_dir = \"o\"\n";

// A model with three heads, wherever it is; those of other families, and a pipeline, in the demos' folders and in
// folders named after them.
inline ModelWords test_words(const std::string& folder = "") {
  const std::string name = folder.substr(folder.rfind('/') + 1);
  if (name.rfind("sd-", 0) == 0) return {{}, {}, {}, {}, true};
  if (name.rfind("vit-", 0) == 0 || folder.find("emoji-classes") != std::string::npos)
    return {{{"image_classification", true, false, true, {}, true}}, {"vit"}, {}, {}};
  if (name.rfind("deit-", 0) == 0)
    return {{{"image_classification", true, false, true, {}, true},
             {"image_classification_with_teacher", true, false, true, {}, true}},
            {"deit"},
            {},
            {}};
  if (name.rfind("bert-", 0) == 0 || folder.find("text-corpus") != std::string::npos ||
      folder.find("module-sentences") != std::string::npos || folder.find("library-names") != std::string::npos)
    return {{{"masked_lm", false, false, true, {}, false, true},
             {"pretraining", true, false, true, {}, false, true},
             {"sequence_classification", true, false, true, {}, false, true},
             {"token_classification", true, false, true, {}, false, false, false, true},
             {"sentence_embedding", true, true, false, {}, false, true, false, false, true}},
            {"bert"},
            {},
            {}};
  if (name.rfind("roberta-", 0) == 0)
    return {{{"masked_lm", false, false, true, {}, false, true},
             {"sequence_classification", true, false, true, {}, false, true}},
            {"roberta"},
            {},
            {}};
  if (name.find("t5-") != std::string::npos || folder.find("emoji-keywords") != std::string::npos)
    return {{{"conditional_generation", false, false, true, {}, false, false, true}},
            {"shared", "encoder", "decoder"},
            {},
            {}};
  return {{{"contrastive", false, true, false, {}},
           {"image_text_matching", true, false, true, {}, true},
           {"masked_lm", false, false, true, {"perplexity"}, false, true, true, true, true}},
          {"vision_model", "text_model", "text_pooler"},
          {"text_pooler"},
          {"text_pooler"}};
}

inline Settings settings_of(const std::string& text) {
  return read_settings_text(text, "test.toml", "/place", test_words);
}

// kLeast with a line put below one of its table headers, or at its end if it has no such header.
inline std::string least_with(const std::string& table, const std::string& line) {
  std::string text = kLeast;
  const std::string header = "[" + table + "]\n";
  const std::size_t at = text.find(header);
  if (at == std::string::npos) return text + header + line + "\n";
  return text.insert(at + header.size(), line + "\n");
}

// The line that main would print, or "" if the text is accepted.
inline std::string refusal_of(const std::string& text) {
  try {
    settings_of(text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kSettings ? error.what() : "wrong kind";
  }
  return "";
}

}  // namespace bascule
