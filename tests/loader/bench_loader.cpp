// SPDX-License-Identifier: Apache-2.0
// The loader's speed, for tools/compare_loaders: files to normalised pixels and tokens in ring slots.
//
//   bench_loader TOKENIZER MANIFEST training|processor SIDE WORKERS      WORKERS 0: this thread loads
//
// Each line on standard input is answered, after one epoch, with a line on standard output: its wall seconds and its
// processor seconds, all threads together. The first epoch starts the stream; no picture is loaded ahead of a request.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <string>

#include "src/base/span.h"
#include "src/loader/loader.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr std::int64_t kBatch = 8;

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void load_epochs(const LoaderSettings& settings) {
  const LoaderPlan plan = plan_loader(settings);
  const std::size_t bytes = align_up(plan.total_bytes(), kCacheLine);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)), &std::free);
  std::memset(memory.get(), 0, bytes);
  Loader loader(settings, plan, Span<std::byte>(memory.get(), bytes));
  Stream& stream = loader.stream(0);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    stream.start(0, stream.batches_per_epoch());
    const Batch* batch = nullptr;
    Status status = stream.next(&batch);
    for (; status.ok(); status = stream.next(&batch)) stream.release();
    if (status.code != StatusCode::kEndOfEpoch) {
      std::fprintf(stderr, "bench_loader: %s\n", describe(status, *settings.streams[0].manifest).c_str());
      std::exit(1);
    }
    std::printf("%.6f %.6f\n", seconds_of(CLOCK_MONOTONIC) - wall, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor);
    std::fflush(stdout);
  }
}

void run(char** arguments) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(arguments[1]);
  const Manifest manifest = Manifest::load(std::string(arguments[2]), {"image", "caption", ""});
  LoaderSettings settings;
  settings.tokenizer = tokenizer.get();
  settings.texts[0].max_length = 24;
  settings.texts[0].vocabulary_size = 1 << 20;
  settings.texts[0].max_positions = 66;
  settings.media.preprocessing =
      std::strcmp(arguments[3], "training") == 0 ? Preprocessing::kTraining : Preprocessing::kProcessor;
  settings.media.image_side = std::atol(arguments[4]);
  settings.workers = std::atol(arguments[5]);
  const double mean[3] = {0.48145466, 0.4578275, 0.40821073}, std[3] = {0.26862954, 0.26130258, 0.27577711};
  std::memcpy(settings.media.mean, mean, sizeof mean);
  std::memcpy(settings.media.std, std, sizeof std);
  StreamSettings stream;
  stream.manifest = &manifest;
  stream.shuffled = false;
  stream.batch_per_rank = kBatch;
  settings.streams.push_back(stream);
  load_epochs(settings);
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "bench_loader TOKENIZER MANIFEST training|processor SIDE WORKERS\n");
    return 2;
  }
  try {
    bascule::run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_loader: %s\n", error.what());
    return 1;
  }
  return 0;
}
