// SPDX-License-Identifier: Apache-2.0
#include "src/replay/measured_drawing.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/replay/sealed_draw_run.h"
#include "src/runtime/arena.h"
#include "src/runtime/guard.h"

namespace bascule {
namespace {

// before(i) is not measured, work(i) is, after the warm-up.
template <typename Before, typename Work>
void measure(MeasuredStage* stage, std::int64_t warmup, const Before& before, const Work& work) noexcept {
  const std::int64_t count = static_cast<std::int64_t>(stage->seconds.size());
  for (std::int64_t i = 0; i < warmup + count; ++i) {
    before(i);
    const double began = monotonic_seconds();
    work(i);
    if (i >= warmup) stage->seconds[static_cast<std::size_t>(i - warmup)] = monotonic_seconds() - began;
  }
  stage->replays += warmup + count;
}

void measure_stages(SealedDrawRun& sealed, const RecordedDrawRun& run, std::int64_t warmup,
                    std::vector<DrawnPrompt>* prompts, MeasuredDrawing* measured) noexcept {
  Drawer& drawer = sealed.drawer();
  Threads& threads = sealed.threads();
  const std::int64_t places = run.options.prompts, texts = static_cast<std::int64_t>(run.list.texts.size());
  const auto encode = [&](std::int64_t i) {
    const std::vector<std::int32_t>& ids = run.list.texts[static_cast<std::size_t>(i % texts)].ids;
    drawer.keep_prompt(i % places, {ids.data(), ids.size()}, threads);
  };
  for (std::int64_t place = 0; place < places; ++place) encode(place);  // calls read all of them
  measured->encode.replays = places;
  measure(
      &measured->encode, warmup, [](std::int64_t) {}, encode);

  const std::int64_t calls = static_cast<std::int64_t>(run.program.calls.size()), batch = run.options.batch;
  const auto begin = [&](std::int64_t i) {
    for (std::int64_t p = 0; i % calls == 0 && p < batch; ++p)
      drawer.draw_noise(p, static_cast<std::uint64_t>(run.settings.run.seed), static_cast<std::uint64_t>(p));
  };
  measure(&measured->call, warmup, begin, [&](std::int64_t i) {
    drawer.call(static_cast<std::size_t>(i % calls), {prompts->data(), prompts->size()}, threads);
  });
  measure(
      &measured->decode, warmup, [](std::int64_t) {}, [&](std::int64_t i) { (void)sealed.decode(i % batch); });
  measured->resident_bytes = resident_bytes();
}

}  // namespace

MeasuredDrawing measure_drawing(RecordedDrawRun& run, Isa isa, std::int64_t warmup, std::int64_t count) {
  SealedDrawRun sealed(run, isa, [](const std::string&) {});
  MeasuredDrawing measured;
  MeasuredStage* const stages[] = {&measured.encode, &measured.call, &measured.decode};
  for (MeasuredStage* stage : stages) stage->seconds.resize(static_cast<std::size_t>(count));
  std::vector<DrawnPrompt> prompts(static_cast<std::size_t>(run.options.batch));
  for (DrawnPrompt& prompt : prompts)
    prompt.negative = static_cast<std::int32_t>(std::min<std::int64_t>(1, run.options.prompts - 1));
  seal_memory();
  measure_stages(sealed, run, warmup, &prompts, &measured);
  open_memory();
  const std::size_t graphs[] = {run.recorded.encode, run.recorded.noise, run.recorded.decode};
  for (std::size_t i = 0; i < 3; ++i)
    stages[i]->nodes = sealed.tape(graphs[i]).node_times(run.session.graph(graphs[i]).bounds());
  return measured;
}

}  // namespace bascule
