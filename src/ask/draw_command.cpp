// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <cstdio>
#include <memory>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/json/json.h"
#include "src/logs/progress.h"
#include "src/pictures/png_file.h"
#include "src/runtime/choose_isa.h"
#include "src/seal/sealed_draw_run.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

constexpr char kCommandLine[] = "command line";

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

// The settings that a file of a run with these arguments would have. Keys of [draw] are options here.
Settings settings_of(const DrawArguments& arguments) {
  ModelWords words;
  words.draws = true;
  Settings settings = default_settings(words);
  settings.origin.file = kCommandLine;
  settings.model.model_name_or_path = {arguments.folder, arguments.folder};
  settings.model.precision = read_number_type(arguments.precision);
  settings.draw = arguments.draw;
  settings.draw.is_given = true;
  settings.run.seed = static_cast<std::int64_t>(arguments.seed);  // which the list of pictures undoes
  return settings;
}

}  // namespace

int draw_command(const DrawArguments& arguments, const volatile int* stop) {
  const Settings settings = settings_of(arguments);
  check_settings(settings);
  const std::unique_ptr<RecordedDrawRun> run = record_draw_run(settings);
  run->list.pictures.front().noise = arguments.noise;
  for (const std::string& note : run->notes) say(note);
  check_fits(*run, limits_of_plan(settings.machine, read_process_limits()));
  SealedDrawRun sealed(*run, choose_isa("auto"), [](const std::string&) {});
  BatchDrawer& drawer = sealed.drawer();
  const std::size_t calls = drawer.calls();
  Progress progress = Progress::on_stderr();
  const double since = monotonic_seconds();
  progress.begin("draw", 0, 1, since);
  const std::int64_t first[] = {0};
  (void)drawer.begin({first, 1});
  for (std::size_t call = 0; call < calls && *stop == 0; ++call) {
    drawer.call(call);
    progress.step(drawing_step(0, 1, call + 1, calls), monotonic_seconds());
  }
  progress.end(monotonic_seconds());
  if (*stop != 0) {
    say("draw: stopped; no picture was written");
    return 128 + *stop;
  }
  const std::uint8_t* const pixels = drawer.decode(0);
  if (pixels == nullptr)
    throw Error(ErrorKind::kData, arguments.folder, "the picture is not finite",
                "the weights may be damaged, or --guidance-scale too large");
  const double seconds = monotonic_seconds() - since;
  write_png(arguments.output, {pixels, run->options.width, run->options.height},
            {{"prompt", settings.draw.prompts.front()},
             {"seed", std::to_string(arguments.seed)},
             {"settings digest", settings_digest(settings)}});
  if (arguments.json) {
    std::printf("%s\n", json_text({{"file", arguments.output},
                                   {"width", run->options.width},
                                   {"height", run->options.height},
                                   {"seed", arguments.seed},
                                   {"noise", arguments.noise},
                                   {"seconds", seconds}})
                            .c_str());
  } else {
    std::printf("%s\n", arguments.output.c_str());
    say("draw: " + count_of(calls, "call") + " of the UNet and the decoder in " + readable_seconds(seconds).c_str());
  }
  return 0;
}

}  // namespace bascule
