// SPDX-License-Identifier: Apache-2.0
// The keys of a run that draws.
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kDrawResumes[] = {"auto", "never"};

using Draw = DrawSettings;

constexpr Key kDrawKeys[] = {
    {kDrawTable, "output_dir", path<&RunSettings::output_dir>(), kFree, "folder for pictures and results", "required",
     nullptr, "run"},
    {kDrawTable, "prompts", WordsKey{member<&Draw::prompts>()}, kNumbers, "texts to draw"},
    {kDrawTable, "prompts_file", path<&Draw::prompts_file>(), kSameFiles,
     "file of texts to draw: one a line, or `.jsonl` rows with `prompt` and, where a row has them, `negative_prompt`, "
     "`seed` and `noise`"},
    {kDrawTable, "negative_prompt", text<&Draw::negative_prompt>(true), kNumbers,
     "text that pictures shall not show, of all prompts without one of their own"},
    {kDrawTable, "num_images_per_prompt", integer<&Draw::num_images_per_prompt>(1, kMany), kNumbers,
     "pictures of each prompt"},
    {kDrawTable, "batch_size", integer<&Draw::batch_size>(1, 1024), kFree,
     "pictures drawn at a time, by each rank; a picture does not depend on it"},
    {kDrawTable, "height", integer<&Draw::height>(0, 8192), kNumbers,
     "height of pictures, pixels; 0: the size that the model was trained with"},
    {kDrawTable, "width", integer<&Draw::width>(0, 8192), kNumbers, "width of pictures, pixels; 0: the same"},
    {kDrawTable, "num_inference_steps", integer<&Draw::num_inference_steps>(1, 1000), kNumbers,
     "steps of the scheduler"},
    {kDrawTable, "guidance_scale", real<&Draw::guidance_scale>(0.0, 1e3), kNumbers,
     "factor on the difference that the prompt makes; 1 or less: drawn without guidance, in half the time"},
    {kDrawTable, "scheduler", text<&Draw::scheduler>(false), kNumbers,
     "`pndm`, `ddim`, `euler`, or `default`: that of the model folder"},
    {kDrawTable, "timestep_spacing", text<&Draw::timestep_spacing>(true), kNumbers,
     "`leading`, `linspace` or `trailing`; empty: as the model folder says"},
    {kDrawTable, "seed", integer<&RunSettings::seed>(0, kMaxSeed), kNumbers,
     "seed of the noise that pictures begin with, together with their number", nullptr, nullptr, "run"},
    {kDrawTable, "latents_file", path<&Draw::latents_file>(), kNumbers,
     "safetensors file whose tensor `latents` is that noise: (pictures, 4, height, width) of the latents"},
    {kDrawTable, "png_text", boolean<&Draw::png_text>(), kFromThereOn,
     "write prompt, seed and settings digest into each picture's file"},
    {kDrawTable, "throughput_warmup_batches", integer<&Draw::throughput_warmup_batches>(0, kMany), kFree,
     "batches at the start of the process to exclude from throughput"},
    {kDrawTable, "resume", choice<&Draw::resume>(kDrawResumes), kFree,
     "`auto`: keep finished pictures and draw the missing ones; `never`: delete them and start over"},
};

}  // namespace

Span<const Key> keys_of_drawing() { return {kDrawKeys, std::size(kDrawKeys)}; }

}  // namespace bascule
