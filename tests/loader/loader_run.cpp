// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/loader_run.h"

#include <gtest/gtest.h>

#include "src/base/align.h"

namespace bascule::test {
namespace {

class Fingerprint {
 public:
  template <typename T>
  void add(const T* values, std::int64_t count) {
    if (values == nullptr) return;
    const auto* bytes = static_cast<const unsigned char*>(static_cast<const void*>(values));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) * sizeof(T); ++i) add(bytes[i]);
  }
  void add(std::int64_t value) { add(&value, 1); }
  std::uint64_t value() const { return value_; }

 private:
  void add(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }  // FNV-1a
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::int64_t label_count(const Batch& batch, const LoaderSettings& settings) {
  if (settings.head == Head::kContrastive) return 0;
  return settings.head == Head::kMaskedLm ? batch.counts.selected_rows : batch.counts.samples;
}

}  // namespace

std::string emoji_folder() { return std::string(BASCULE_TEST_DATA) + "/emoji-captions"; }

const Tokenizer& emoji_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(emoji_folder() + "/tokenizer");
  return tokenizer;
}

LoaderSettings emoji_settings(const Manifest& manifest) {
  LoaderSettings settings;
  settings.tokenizer = &emoji_tokenizer();
  settings.max_seq_length = 24;
  settings.vocabulary_size = 3000;
  settings.max_positions = 66;
  settings.image_side = 32;
  settings.image_rows = 5;
  settings.media_memory_bytes = std::size_t{96} << 20;  // a device, the host beside it, and workers
  StreamSettings stream;
  stream.manifest = &manifest;
  stream.batch_per_rank = 7;
  settings.streams.push_back(stream);
  return settings;
}

LoaderRun::LoaderRun(const LoaderSettings& settings, const LoaderPlan& plan) : plan_(plan) {
  const std::size_t bytes = align_up(plan_.total_bytes(), kCacheLine);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
  loader_ = std::make_unique<Loader>(settings, plan_, Span<std::byte>(memory_.get(), bytes));
}

std::uint64_t fingerprint(const Batch& batch, const LoaderSettings& settings) {
  const std::int64_t samples = batch.counts.samples;
  const std::int64_t text_rows = batch.counts.text_rows;
  Fingerprint print;
  for (const std::int64_t number :
       {samples, text_rows, batch.counts.selected_rows, batch.epoch, batch.index, batch.first_position}) {
    print.add(number);
  }
  print.add(batch.pixels, samples * 3 * settings.image_side * settings.image_side);
  print.add(batch.token_ids, text_rows);
  print.add(batch.position_ids, text_rows);
  print.add(batch.text_offsets, samples + 1);
  print.add(batch.text_row_keys, text_rows);
  print.add(batch.image_row_keys, samples * settings.image_rows);
  print.add(batch.sample_keys, samples);
  print.add(batch.selected_rows, batch.counts.selected_rows);
  print.add(batch.labels, label_count(batch, settings));
  print.add(batch.rows, samples);
  print.add(batch.caption_rows, samples);
  return print.value();
}

std::vector<std::uint64_t> fingerprints(Stream& stream, const LoaderSettings& settings, std::int64_t first,
                                        std::int64_t end) {
  std::vector<std::uint64_t> prints;
  stream.start(first, end);
  for (std::int64_t number = first; number < end; ++number) {
    const Batch* batch = nullptr;
    const Status status = stream.next(&batch);
    EXPECT_TRUE(status.ok()) << "batch " << number << ": " << describe(status, *settings.streams[0].manifest);
    if (!status.ok()) return prints;
    prints.push_back(fingerprint(*batch, settings));
    stream.release();
  }
  const Batch* none = nullptr;
  EXPECT_EQ(stream.next(&none).code, StatusCode::kEndOfEpoch);
  return prints;
}

std::vector<std::uint64_t> fingerprints(const LoaderSettings& settings, std::int64_t first, std::int64_t end) {
  LoaderRun run(settings);
  return fingerprints(run.stream(), settings, first, end);
}

}  // namespace bascule::test
