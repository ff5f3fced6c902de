// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "src/base/error.h"
#include "src/settings/keys.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

void check_idle_keys(const Settings& s) {
  for (const Key& key : all_keys()) {
    const std::string name = qualified_name(key);
    if (is_idle_in_drawing(key) && is_written(s, name))
      refuse(s, name, name + " has no effect in a run that draws", "remove it");
  }
}

}  // namespace

void check_tables(const Settings& settings) {
  const bool draws = settings.draw.is_given;
  if (draws) {
    for (const char* table : {"training", "data", "media_engine", "generation"}) {
      if (is_written(settings, table))
        refuse(settings, table, std::string("[") + table + "] stands beside [draw]",
               "remove one of them: a run trains or draws");
    }
  }
  const std::string model = "model.model_name_or_path";
  if (!is_written(settings, model)) return;  // said elsewhere
  const std::string shown = settings.model.model_name_or_path.shown();
  if (draws && !settings.words.draws)
    refuse(settings, model, "the model in " + shown + " draws no pictures, but the file has [draw]",
           "name the folder of a pipeline (model_index.json), or write [training] in place of [draw]");
  if (!draws && settings.words.heads.empty())
    refuse(settings, model, shown + " holds a pipeline that draws pictures, and cannot be trained",
           "write [draw] in place of [training]");
}

void check_drawing(const Settings& s) {
  const DrawSettings& draw = s.draw;
  if (draw.prompts.empty() == !draw.prompts_file.is_given())
    refuse(s, draw.prompts.empty() ? "draw" : "draw.prompts_file",
           draw.prompts.empty() ? "[draw] has neither prompts nor prompts_file"
                                : "draw.prompts and draw.prompts_file are both set",
           draw.prompts.empty() ? "write prompts = [\"...\"]" : "remove one");
  if (draw.guidance_scale <= 1.0 && !draw.negative_prompt.empty())
    refuse(s, "draw.negative_prompt",
           "draw.negative_prompt has no effect without guidance: draw.guidance_scale is 1 or less",
           "remove it, or raise guidance_scale");
  if (draw.latents_file.is_given() && is_written(s, "draw.seed"))
    refuse(s, "draw.seed", "draw.seed has no effect: the noise is that of draw.latents_file", "remove one of them");
  const std::string& output = s.run.output_dir.resolved;
  const bool is_of_model = output == s.model.model_name_or_path.resolved || output == s.model.tokenizer_name.resolved;
  if (s.run.output_dir.is_given() && is_of_model)
    refuse(s, "draw.output_dir", "draw.output_dir is also the folder of the model or tokenizer", "choose another");
  if (!(draw.guidance_scale >= 0.0))
    refuse(s, "draw.guidance_scale", "draw.guidance_scale is not a number", "write 7.5, or another number");
  check_idle_keys(s);
}

}  // namespace bascule
