// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>

#include "src/ask/ask.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/bringup/bring_up.h"
#include "src/commands/check_outputs.h"
#include "src/commands/command_line.h"
#include "src/commands/report_error.h"
#include "src/record/picture_files.h"
#include "src/verify/verify.h"

namespace bascule {
namespace {

void add_run(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("run", "Train, evaluate, predict and report from a TOML file; run again to resume");
  auto source = std::make_shared<SettingsSource>();
  auto json = std::make_shared<bool>(false);
  add_settings(command, source.get());
  command->add_flag("--json", *json, "print the results as one JSON document on standard output");
  command->footer("`bascule settings` prints the keys of a settings file.");
  command->callback([=] { *chosen = [=] { return run_command(*source, *json); }; });
}

void add_plan(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("plan", "Print the memory plan of a run without loading weights");
  auto arguments = std::make_shared<PlanArguments>();
  add_settings(command, &arguments->settings);
  command->add_flag("--frontier", arguments->frontier,
                    "print up to ten plans from the smallest to the one that recomputes nothing");
  in_range(command->add_option("--memory-gib", arguments->memory_gib, "plan for a machine with this much memory"), 1e-3,
           1e6);
  as_integer(command->add_option(
                 "--threads", arguments->threads,
                 "plan for so many compute threads of each rank; also measures a few steps, as `bench --simulate` "
                 "does, and prints how fast one rank would be with them, and where they lose time"),
             1, 1024);
  as_output_file(
      command->add_option("--svg", arguments->svg, "write a picture of the arena over one step to this file"));
  as_output_file(command->add_option("--unit", arguments->unit, "write a systemd unit for the run to this file"));
  CLI::Option* json = command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->add_flag("--inputs", arguments->inputs, "list in it every file that the run reads")->needs(json);
  command->callback([=] { *chosen = [=] { return plan_command(*arguments); }; });
}

void add_doctor(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("doctor", "Look for faults in the data of a run before it trains");
  auto arguments = std::make_shared<DoctorArguments>();
  add_settings(command, &arguments->settings);
  as_path(
      command->add_option("--profile", arguments->profile,
                          "also predict the time of an epoch on the machine of this profile, which `bringup --save` "
                          "wrote"));
  as_output_file(
      command->add_option("--html", arguments->html, "write the result as a page with pictures to this file"));
  as_output_file(command->add_option("--list", arguments->list,
                                     "write all rows of the findings to this file, a JSON object a line"));
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->footer("Exit code 0: the run would train. 3: its data would stop it. 4: it does not fit the memory.");
  command->callback([=] { *chosen = [=] { return doctor_command(*arguments); }; });
}

void add_settings_command(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("settings", "Print a settings file with all defaults, or list all keys");
  auto source = std::make_shared<SettingsSource>();
  auto resume = std::make_shared<bool>(false), json = std::make_shared<bool>(false);
  auto markdown = std::make_shared<bool>(false);
  add_settings(command, source.get(), nullptr);
  CLI::Option* rules = command->add_flag(
      "--resume", *resume, "print for every key whether it may change before a run resumes from a checkpoint");
  CLI::Option* document = command->add_flag("--json", *json, "print one JSON document on standard output");
  command->add_flag("--markdown", *markdown, "print the keys as the tables of config/README.md")
      ->excludes(rules)
      ->excludes(document);
  command->callback([=] { *chosen = [=] { return settings_command(*source, *resume, *json, *markdown); }; });
}

CLI::Option* add_precision(CLI::App* command, std::string* precision) {
  return with_words(command->add_option("--precision", *precision, "number type of matrix products"), "float32,bf16");
}

void add_verify(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("verify", "Run reference cases and check every tensor, or check this machine's bits");
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::Option* folders =
      as_path(command->add_option("folders", arguments->folders, "case folders, or folders of them"));
  CLI::Option* bits =
      command
          ->add_flag(
              "--bits", arguments->bits,
              "instead of cases: train small models in both precisions and compare the digest with the recorded one; "
              "exit code 7 if they differ")
          ->excludes(folders);
  with_words(
      command->add_option("--isa", arguments->isa, "instruction set; scalar: plain C++, for checking, not for speed"),
      "auto,avx2,avx512,avx512_bf16,amx,scalar");
  add_precision(command, &arguments->precision)->excludes(bits);
  with_words(
      command->add_option("--bf16-sums", arguments->bf16_sums,
                          "order of sums in bf16, as machine.bf16_sums; default: tiles with --isa amx, else pairs"),
      "pairs,tiles");
  as_integer(command->add_option("--threads", arguments->threads, "compute threads; 0: every core"), 0, 1024);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] { *chosen = [=] { return verify_command(*arguments); }; });
}

// Columns are told apart by their numbers.
void refuse_twice(const char* option, std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
  if (twice != numbers.end())
    throw Error(ErrorKind::kSettings, option, std::to_string(*twice) + " is given twice", "give each number once");
}

void add_bench(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure training, evaluation or drawing beside this machine's limits");
  auto arguments = std::make_shared<BenchArguments>();
  add_settings(command, &arguments->settings);
  as_integer(command->add_option("--steps", arguments->steps, "number of updates, batches or replays to measure"), 1,
             1'000'000);
  as_integer(command->add_option("--warmup", arguments->warmup, "so many before them are not measured"), 0, 1'000'000);
  struct AxisOption {
    BenchAxis axis;
    const char* option;
    const char* help;
    std::optional<std::string> values = {};
  };
  auto axes = std::make_shared<std::vector<AxisOption>>(std::vector<AxisOption>{
      {BenchAxis::kWorkers, "--workers", "a,b,c: one column for each number of loader workers"},
      {BenchAxis::kBatch, "--batch", "a,b,c: one column for each batch size"},
      {BenchAxis::kImageSize, "--image-size", "a,b,c: one column for each side of pictures, in pixels"},
      {BenchAxis::kSequenceLength, "--max-seq-length", "a,b,c: one column for each length of texts, in tokens"},
      {BenchAxis::kSourceLength, "--max-source-length", "a,b,c: one column for each length of sources, in tokens"},
      {BenchAxis::kTargetLength, "--max-target-length", "a,b,c: one column for each length of targets, in tokens"},
      {BenchAxis::kBeams, "--num-beams", "a,b,c: one column for each number of beams"},
      {BenchAxis::kThreads, "--threads",
       "a,b,c: one column for each number of compute threads; simulated above the number of cores"},
      {BenchAxis::kSide, "--side", "a,b,c: one column for each side of pictures that are drawn, in pixels"}});
  CLI::Option* threads = nullptr;
  for (AxisOption& axis : *axes) {
    CLI::Option* const option = command->add_option(axis.option, axis.values, axis.help);
    if (axis.axis == BenchAxis::kThreads) threads = option;
  }
  command
      ->add_flag("--simulate", arguments->simulates,
                 "with --threads: simulate up to the number of cores too, to compare with what is measured")
      ->needs(threads);
  command
      ->add_option("--use", arguments->use,
                   "train: measure updates; evaluate: batches of the evaluation; generate: texts written for them; "
                   "draw: prompts, calls of the UNet, and decoding; default: draw or train where the run does")
      ->check(CLI::IsMember({"train", "evaluate", "generate", "draw"}));
  as_integer(
      command->add_option("--new-tokens", arguments->new_tokens, "with --use generate: every text has so many tokens"),
      1, 65535);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] {
    const AxisOption* chosen_axis = nullptr;
    for (const AxisOption& axis : *axes) {
      if (!axis.values) continue;
      if (chosen_axis != nullptr)
        throw Error(ErrorKind::kSettings, axis.option, std::string("is given beside ") + chosen_axis->option,
                    "give one of them");
      chosen_axis = &axis;
      arguments->axis = axis.axis;
      arguments->values = numbers_of<std::int64_t>(axis.option, *axis.values, 0);
      refuse_twice(axis.option, arguments->values);
    }
    *chosen = [=] { return bench_command(*arguments); };
  });
}

void add_bringup(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("bringup", "Measure this machine, check the bits of every core, and explain slow results");
  auto arguments = std::make_shared<BringUpArguments>();
  CLI::Option* quick =
      command->add_flag("--quick", arguments->quick, "about 10 seconds on an idle machine, instead of 60");
  in_range(command->add_option("--long", arguments->long_minutes,
                               "then compute and compare the same bits on all cores for this many minutes"),
           0.01, 1e5)
      ->excludes(quick);
  command->add_option("--only", arguments->only, "items, separated by commas: " + joined(item_names()))->delimiter(',');
  as_folder(command->add_option("--folder", arguments->folder, "folder whose disk is measured; default: this one"));
  as_output_file(command->add_option("--save", arguments->save, "write a profile of the machine to this file"));
  as_path(command->add_option("--against", arguments->against,
                              "judge every figure against this profile; exit code 7 if one is slower"));
  as_output_file(command->add_option("--html", arguments->html, "write the result as a page to this file"));
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] { *chosen = [=] { return bringup_command(*arguments); }; });
}

void add_tokenize(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Convert a JSON array of strings, or of pairs of them, to arrays of token ids");
  auto arguments = std::make_shared<TokenizeArguments>();
  auto padding = std::make_shared<std::string>();
  as_path(command->add_option("--model", arguments->model, "folder with the tokenizer's files"))->required();
  CLI::Option* length =
      as_integer(command->add_option("--max-length", arguments->max_length, "truncate to this many ids"), 1, 1 << 20);
  CLI::Option* pad = command
                         ->add_option("--padding", *padding,
                                      "max_length: pad to --max-length; longest: pad to the longest text; without a "
                                      "value: max_length if --max-length is set, else longest")
                         ->expected(0, 1);
  with_words(pad, "max_length,longest");
  command->add_flag("--decode", arguments->decodes, "convert arrays of token ids to strings, without special tokens")
      ->excludes(length)
      ->excludes(pad);
  command->callback([=] {
    if (pad->count() > 0) arguments->padding = *padding;
    *chosen = [=] { return tokenize_command(*arguments); };
  });
}

void add_decode(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("decode", "Decode JPEG, PNG and WebP files to the pixels that the model would see");
  auto arguments = std::make_shared<DecodeArguments>();
  auto mean = std::make_shared<std::string>(), std = std::make_shared<std::string>();
  CLI::Option* size = as_integer(
      command->add_option("--size", arguments->size, "side of the square, pixels; default: the model's"), 1, 4096);
  command
      ->add_option(
          "--preprocessing", arguments->preprocessing,
          "training or processor; default: as `classify` and `search` prepare pictures for --model, without it "
          "training")
      ->check(CLI::IsMember({"training", "processor"}));
  CLI::Option* model =
      as_path(command->add_option("--model", arguments->model, "model folder, whose processor file counts"));
  command->add_option("--mean", *mean, "a,b,c: mean of R, G and B in 0..1")->excludes(model);
  command->add_option("--std", *std, "a,b,c: standard deviation of R, G and B in 0..1")->excludes(model);
  command->add_flag("--raw", arguments->raw, "keep pixels in 0..255, not normalised");
  as_output_file(command->add_option("--output", arguments->output, "safetensors file to write"))->required();
  as_path(command->add_option("files", arguments->files, "JPEG, PNG and WebP files"))->required();
  command->callback([=] {
    if (!mean->empty()) arguments->mean = numbers_of<double>("--mean", *mean, 3);
    if (!std->empty()) arguments->std = numbers_of<double>("--std", *std, 3);
    const bool asks_model = size->count() == 0 && model->count() > 0;
    *chosen = [=] {
      if (asks_model) arguments->size = image_size_of(arguments->model);
      return decode_command(*arguments);
    };
  });
}

void add_search(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("search", "Find pictures for a text, captions for a picture, or texts of a file for a text");
  auto arguments = std::make_shared<SearchArguments>();
  as_path(command->add_option("folder", arguments->folder, "output_dir of a finished run"))->required();
  command->add_option("query", arguments->query, "text, or path of a picture");
  as_path(command->add_option("--picture", arguments->picture, "search captions for this picture"));
  as_path(command->add_option("--images", arguments->images, "search the pictures in this folder and its subfolders"));
  as_path(command->add_option("--texts", arguments->texts,
                              "search the texts of this file, with a model that embeds texts: lines, or of .jsonl the "
                              "members title and text"));
  as_output_file(command->add_option("--index", arguments->index,
                                     "where the texts' vectors are kept (default: FILE.index.safetensors)"));
  command->add_option("--prompt", arguments->prompt, "name of the prompt before the query (default: query)");
  as_integer(command->add_option("--top", arguments->top, "number of results"), 1, 1000);
  as_output_file(
      command->add_option("--html", arguments->html, "page of results to write (default: search.html in the folder)"));
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] {
    *chosen = [=] {
      CommandReads reads;
      reads.files = {{arguments->picture, "the picture that is asked for"},
                     {arguments->query, "the picture that is asked for"}};
      reads.files.push_back({arguments->texts, "the file of texts"});
      reads.folders = {arguments->folder};
      const std::vector<OutputOption> page = {{"--html", arguments->html}};
      check_outputs({page.front(), {"--index", arguments->index}}, reads);
      if (is_any_there(page) && arguments->texts.empty()) {
        for (const std::string& picture : searched_pictures(*arguments))
          reads.files.push_back({picture, "one of the pictures"});
        check_outputs(page, reads);
      }
      return search_command(*arguments);
    };
  });
}

void add_classify(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("classify", "Say what pictures show, which class or value texts have, or which entities");
  auto arguments = std::make_shared<ClassifyArguments>();
  as_path(command->add_option("folder", arguments->folder, "output_dir of a finished run, or a model folder"))
      ->required();
  command
      ->add_option("inputs", arguments->inputs,
                   "JPEG, PNG and WebP files; or texts, where the model's rows were pairs one or two: a pair; - alone: "
                   "the lines "
                   "of standard input, where a tab separates the texts of a pair")
      ->required();
  as_integer(command->add_option("--top", arguments->top, "number of classes for each picture or text"), 1, 1000);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] { *chosen = [=] { return classify_command(*arguments); }; });
}

void add_fill(CLI::App& app, Chosen* chosen) {
  CLI::App* command =
      app.add_subcommand("fill", "Say which words fit the masks of a text, with a masked language model");
  auto arguments = std::make_shared<FillArguments>();
  as_path(command->add_option("folder", arguments->folder, "output_dir of a finished run, or a model folder"))
      ->required();
  command->add_option("text", arguments->text, "text with the tokenizer's mask token, such as [MASK] or <mask>")
      ->required();
  as_integer(command->add_option("--top", arguments->top, "number of tokens for each mask"), 1, 1000);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] { *chosen = [=] { return fill_command(*arguments); }; });
}

void add_embed(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("embed", "Make vectors of texts, with a model of sentence-transformers");
  auto arguments = std::make_shared<EmbedArguments>();
  as_path(command->add_option("folder", arguments->folder,
                              "output_dir of a finished run, or a folder of sentence-transformers or of a body alone"))
      ->required();
  command->add_option("texts", arguments->texts, "texts; - alone: the lines of standard input")->required();
  auto prompt = std::make_shared<std::string>();
  CLI::Option* has_prompt = command->add_option(
      "--prompt", *prompt,
      "name of the folder's prompt to put before each text; empty: none; default: the folder's default_prompt_name");
  as_output_file(command->add_option(
      "--output", arguments->output,
      "safetensors file to write: the tensor embeddings, with a row for each text; without it they are printed"));
  add_precision(command, &arguments->precision);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] {
    if (has_prompt->count() > 0) arguments->prompt = *prompt;
    *chosen = [=] {
      CommandReads reads;
      reads.folders = {arguments->folder};
      check_outputs({{"--output", arguments->output}}, reads);
      return embed_command(*arguments);
    };
  });
}

void add_serve(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("serve", "Answer requests over HTTP with a finished model");
  auto source = std::make_shared<SettingsSource>();
  add_settings(command, source.get(),
               "output_dir of a finished run, or a model folder; or a TOML file with a table [serve], and [training] "
               "where it is to be trained first");
  command->footer("SIGTERM ends it once admitted requests are answered. `bascule settings` prints the keys.");
  command->callback([=] { *chosen = [=] { return serve_command(*source); }; });
}

void add_generate(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("generate", "Write what a model makes of texts, such as their summaries");
  auto arguments = std::make_shared<GenerateArguments>();
  as_path(command->add_option("folder", arguments->folder, "output_dir of a finished run, or a model folder"))
      ->required();
  command->add_option("texts", arguments->texts, "texts; - alone: the lines of standard input")->required();
  auto prefix = std::make_shared<std::string>(), stopping = std::make_shared<std::string>();
  CLI::Option* has_prefix =
      command->add_option("--prefix", *prefix,
                          "text put before each source; default: that of the run that made the folder, else "
                          "task_specific_params.summarization.prefix of config.json");
  struct Number {
    const char *option, *key, *help;
    std::uint64_t least, most = 1 << 20;
    std::optional<std::int64_t> value = {};
  };
  constexpr std::uint64_t kMostNew = (1 << 20) - 1;  // with the start token, which a length counts: 2^20
  auto numbers = std::make_shared<std::vector<Number>>(
      std::vector<Number>{{"--num-beams", "num_beams", "sequences that beam search follows; 1: greedy search", 1},
                          {"--max-new-tokens", "max_new_tokens", "the most tokens to write", 1, kMostNew},
                          {"--max-length", "max_length", "the same with the start token", 1},
                          {"--min-new-tokens", "min_new_tokens", "the fewest tokens to write", 0, kMostNew},
                          {"--min-length", "min_length", "the same with the start token", 0},
                          {"--no-repeat-ngram-size", "no_repeat_ngram_size",
                           "never write so many tokens twice in the same order; 0: no rule", 0}});
  for (Number& number : *numbers)
    as_integer(command->add_option(number.option, number.value, number.help), number.least, number.most);
  command->get_option("--max-length")->excludes("--max-new-tokens");
  command->get_option("--min-length")->excludes("--min-new-tokens");
  auto penalty = std::make_shared<std::optional<double>>();
  command->add_option("--length-penalty", *penalty,
                      "beams are ranked by log probability / length ^ this; above 0 favours long texts");
  command->add_option("--early-stopping", *stopping, "when beam search ends: false, true or never")
      ->check(CLI::IsMember({"false", "true", "never"}));
  as_integer(command->add_option("--batch", arguments->batch, "texts worked on together"), 1, 4096);
  as_integer(
      command->add_option("--max-source-length", arguments->max_source_length,
                          "truncate texts to so many tokens; default: as the run that made the folder, else 512"),
      1, 65536);
  add_precision(command, &arguments->precision);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->footer("Options that are not given are those of generation_config.json, else of config.json.");
  command->callback([=] {
    if (has_prefix->count() > 0) arguments->prefix = *prefix;
    for (const Number& number : *numbers) {
      if (number.value) arguments->options[number.key] = *number.value;
    }
    if (*penalty) arguments->options["length_penalty"] = **penalty;
    if (!stopping->empty())
      arguments->options["early_stopping"] = *stopping == "never" ? Json("never") : Json(*stopping == "true");
    *chosen = [=] { return generate_command(*arguments); };
  });
}

void add_draw(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("draw", "Draw a picture of a text, with a Stable Diffusion pipeline");
  auto arguments = std::make_shared<DrawArguments>();
  auto prompt = std::make_shared<std::string>();
  DrawSettings& draw = arguments->draw;
  as_path(command->add_option("folder", arguments->folder, "folder of the pipeline (model_index.json)"))->required();
  command->add_option("prompt", *prompt, "text to draw")->required();
  as_output_file(command->add_option("-o,--output", arguments->output, "PNG file to write"))->capture_default_str();
  command->add_option("--negative-prompt", draw.negative_prompt, "text that the picture shall not show");
  as_integer(command->add_option("--steps", draw.num_inference_steps, "steps of the scheduler"), 1, 1000);
  in_range(command->add_option("--guidance-scale", draw.guidance_scale,
                               "factor on the difference that the prompt makes; 1 or less: without guidance"),
           0.0, 1000.0);
  as_integer(command->add_option("--height", draw.height, "pixels; default: the size that the model was trained with"),
             8, 8192);
  as_integer(command->add_option("--width", draw.width, "the same"), 8, 8192);
  with_words(
      command->add_option("--scheduler", draw.scheduler, "method that removes noise; default: that of the folder"),
      "default,pndm,ddim,euler");
  with_words(command->add_option("--timestep-spacing", draw.timestep_spacing,
                                 "spacing of the steps in time; default: that of the folder"),
             "leading,linspace,trailing");
  add_precision(command, &arguments->precision);
  as_integer(command->add_option("--seed", arguments->seed, "seed of the noise that the picture begins with"), 0,
             std::numeric_limits<std::uint64_t>::max());
  as_integer(command->add_option("--noise", arguments->noise,
                                 "number of the noise under that seed, as images.jsonl of a run names it"),
             0, kLargestNoise);
  command->add_flag("--json", arguments->json, "print one JSON document on standard output");
  command->callback([=] {
    arguments->draw.prompts = {*prompt};
    *chosen = [=] {
      CommandReads reads;
      reads.pipeline = arguments->folder;
      check_outputs({{"--output", arguments->output}}, reads);
      catch_stop_signals(false);
      const int code = draw_command(*arguments, stop_signal());
      if (arguments->json && code > 128)
        std::fputs(document_of_stop(code - 128, "stopped; no picture was written").c_str(), stdout);
      return code;
    };
  });
}

}  // namespace

void add_commands(CLI::App& app, Chosen* chosen) {
  add_run(app, chosen);
  add_plan(app, chosen);
  add_doctor(app, chosen);
  add_settings_command(app, chosen);
  add_commands_on_runs(app, chosen);
  add_verify(app, chosen);
  add_bench(app, chosen);
  add_bringup(app, chosen);
  add_tokenize(app, chosen);
  add_decode(app, chosen);
  add_search(app, chosen);
  add_classify(app, chosen);
  add_fill(app, chosen);
  add_embed(app, chosen);
  add_serve(app, chosen);
  add_generate(app, chosen);
  add_draw(app, chosen);
}

}  // namespace bascule
