// SPDX-License-Identifier: Apache-2.0
// The keys of a run that draws, and of a model that is served.
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kDrawResumes[] = {"auto", "never"};

using Draw = DrawSettings;

constexpr Key kDrawKeys[] = {
    {kDrawTable, "output_dir", path<&RunSettings::output_dir>(), kFree, "folder for pictures and results", "required"},
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
     "seed of the noise that pictures begin with, together with their number"},
    {kDrawTable, "latents_file", path<&Draw::latents_file>(), kNumbers,
     "safetensors file whose tensor `latents` is that noise: (pictures, 4, height, width) of the latents"},
    {kDrawTable, "png_text", boolean<&Draw::png_text>(), kFromThereOn,
     "write prompt, seed and settings digest into each picture's file"},
    {kDrawTable, "throughput_warmup_batches", integer<&Draw::throughput_warmup_batches>(0, kMany), kFree,
     "batches at the start of the process to exclude from throughput"},
    {kDrawTable, "resume", choice<&Draw::resume>(kDrawResumes), kFree,
     "`auto`: keep finished pictures and draw the missing ones; `never`: delete them and start over"},
};

using Serve = ServeSettings;

constexpr double kMostSeconds = 86400.0;

constexpr Key kServeKeys[] = {
    {kServeTable, "listen", text<&Serve::listen>(false), kFree,
     "address and port, or `unix:PATH`; a socket that systemd hands over takes its place"},
    {kServeTable, "served_model_name", text<&Serve::served_model_name>(true), kFree,
     "name of the model in answers; empty: that of its folder"},
    {kServeTable, "api_key_file", path<&Serve::api_key_file>(), kFree,
     "file whose first line is the key that requests must bring (`Authorization: Bearer KEY`); `/health`, `/ready` and "
     "`/metrics` need none"},
    {kServeTable, "allow_remote_without_key", boolean<&Serve::allow_remote_without_key>(), kFree,
     "listen without a key where other machines can connect"},
    {kServeTable, "cors_allow_origin", WordsKey{member<&Serve::cors_allow_origin>()}, kFree,
     "origins whose pages may ask from a browser"},
    {kServeTable, "workers", integer<&Serve::workers>(0, 4096), kFree,
     "batches computed at a time, each by a share of the threads; an answer does not depend on it; 0: one "
     "below 16 threads, from there on one for each group of cores that share a cache"},
    {kServeTable, "max_concurrent_requests", integer<&Serve::max_concurrent_requests>(1, 65536), kFree,
     "inputs that may wait or be computed; more are refused (429)"},
    {kServeTable, "max_batch_tokens", integer<&Serve::max_batch_tokens>(1, kMany), kFree,
     "rows of a batch: tokens of its inputs together; an answer does not depend on it"},
    {kServeTable, "max_batch_requests", integer<&Serve::max_batch_requests>(1, 65536), kFree, "inputs of a batch"},
    {kServeTable, "max_client_batch_size", integer<&Serve::max_client_batch_size>(1, 65536), kFree,
     "inputs of one request; more are refused (422)"},
    {kServeTable, "auto_truncate", boolean<&Serve::auto_truncate>(), kNumbers,
     "cut inputs that are too long where a request does not say `truncate`; false: refuse them (422)"},
    {kServeTable, "payload_limit", integer<&Serve::payload_limit>(1024, kMany), kFree,
     "largest body of a request, bytes; larger ones are refused (413)"},
    {kServeTable, "max_picture_pixels", integer<&Serve::max_picture_pixels>(1, kMany), kFree,
     "largest picture, pixels; larger ones are refused (422) by their header"},
    {kServeTable, "max_new_tokens", integer<&Serve::max_new_tokens>(1, 65536), kFree,
     "most tokens of a text that a model writes; requests for more are refused (422)"},
    {kServeTable, "generation_slots", integer<&Serve::generation_slots>(1, 4096), kFree,
     "texts that each worker writes at a time, each with its caches; an answer does not depend on it"},
    {kServeTable, "num_inference_steps", integer<&Serve::num_inference_steps>(1, 1000), kNumbers,
     "steps of a picture that is drawn; requests for another number are refused (422)"},
    {kServeTable, "guidance_scale", real<&Serve::guidance_scale>(0.0, 1e3), kNumbers,
     "as `draw.guidance_scale`; requests for another one are refused (422)"},
    {kServeTable, "max_connections", integer<&Serve::max_connections>(1, 65536), kFree,
     "connections at a time; more wait"},
    {kServeTable, "latency_bound_ms", real<&Serve::latency_bound_ms>(0.0, 1e6), kFree,
     "time within which answers shall come, milliseconds: batches are made smaller, and requests that would wait "
     "longer are refused (429); 0: no bound"},
    {kServeTable, "queue_timeout_seconds", real_above<&Serve::queue_timeout_seconds>(0.0, kMostSeconds), kFree,
     "longest wait for a batch, seconds; requests that would wait longer are refused (429)"},
    {kServeTable, "request_timeout_seconds", real_above<&Serve::request_timeout_seconds>(0.0, kMostSeconds), kFree,
     "time to receive a whole request, and to send its answer, seconds"},
    {kServeTable, "idle_timeout_seconds", real_above<&Serve::idle_timeout_seconds>(0.0, kMostSeconds), kFree,
     "time after which a connection without a request is closed, seconds"},
    {kServeTable, "drain_timeout_seconds", real_above<&Serve::drain_timeout_seconds>(0.0, kMostSeconds), kFree,
     "time for admitted requests after a stop signal, seconds"},
    {kServeTable, "access_log", path<&Serve::access_log>(), kFree,
     "file to which a JSON line is appended for each request; each has the hash of the one before it; empty: no log"},
    {kServeTable, "access_log_requests", boolean<&Serve::access_log_requests>(), kFree,
     "keep the bodies of requests in the log, too"},
    {kServeTable, "ui", boolean<&Serve::ui>(), kFree, "a page at `/ui` from which people can ask in a browser"},
};

}  // namespace

Span<const Key> keys_of_drawing() { return {kDrawKeys, std::size(kDrawKeys)}; }
Span<const Key> keys_of_serving() { return {kServeKeys, std::size(kServeKeys)}; }

}  // namespace bascule
