// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/loader_run.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "src/base/span.h"

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

}  // namespace

Fields loader_fields(Task task, std::int64_t image_side) {
  const Extent samples = rows_per_sample(1), tokens = rows_of_stream(kTokens), masked = rows_of_stream(kMasked);
  Fields fields = {{"pixels", DType::kFloat32, samples, 3 * image_side * image_side, FieldSource::kPixels},
                   {"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
                   {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
                   {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
                   {"text_row_keys", DType::kInt64, tokens, 1, FieldSource::kTextRowKeys},
                   {"image_row_keys", DType::kInt64, rows_per_sample(5), 1, FieldSource::kImageRowKeys},
                   {"sample_keys", DType::kInt64, samples, 1, FieldSource::kSampleKeys}};
  if (task == Task::kMatching) fields.push_back({"labels", DType::kInt32, samples, 1, FieldSource::kMatchLabels});
  if (task == Task::kMasking) {
    fields.push_back({"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows});
    fields.push_back({"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels});
  }
  return fields;
}

Fields text_fields(int text, Reads reads) {
  const int first = tokens_of_text(text);
  const Extent tokens = rows_of_stream(first), masked = rows_of_stream(first + 1), read = rows_of_stream(first + 2);
  const Extent offsets = {kSamples, 1, 1};
  Fields fields;
  const auto add = [&](const char* name, DType type, Extent rows, FieldSource source) {
    fields.push_back({std::to_string(text) + "." + name, type, rows, 1, source, static_cast<std::uint8_t>(text)});
  };
  add("token_ids", DType::kInt32, tokens, FieldSource::kTokenIds);
  add("text_offsets", DType::kInt32, offsets, FieldSource::kTextOffsets);
  add("text_row_keys", DType::kInt64, tokens, FieldSource::kTextRowKeys);
  if (reads == Reads::kAttended) {
    add("position_ids", DType::kInt32, tokens, FieldSource::kPositionIds);
    add("token_types", DType::kInt32, tokens, FieldSource::kTokenTypes);
    return fields;
  }
  if (reads == Reads::kWritten) {
    add("decoder_ids", DType::kInt32, tokens, FieldSource::kDecoderIds);
    add("labelled_rows", DType::kInt32, masked, FieldSource::kLabelledRows);
    add("token_labels", DType::kInt32, masked, FieldSource::kTokenLabels);
    return fields;
  }
  add("masked_rows", DType::kInt32, masked, FieldSource::kMaskedRows);
  add("masked_labels", DType::kInt32, masked, FieldSource::kMaskedLabels);
  add("read_rows", DType::kInt32, read, FieldSource::kReadRows);
  add("read_offsets", DType::kInt32, offsets, FieldSource::kReadOffsets);
  add("read_row_keys", DType::kInt64, read, FieldSource::kReadRowKeys);
  add("masked_among_read", DType::kInt32, masked, FieldSource::kMaskedAmongRead);
  return fields;
}

FilledBatch::FilledBatch(const Batch& batch, const Fields& declared) : Batch(batch) {
  const auto read = [&](auto** array, const char* name) {
    *array = field<std::remove_const_t<std::remove_pointer_t<std::remove_pointer_t<decltype(array)>>>>(
        field_named(declared, name));
  };
  read(&pixels, "pixels");
  read(&token_ids, "token_ids");
  read(&position_ids, "position_ids");
  read(&text_offsets, "text_offsets");
  read(&selected_rows, "selected_rows");
  read(&labels, "labels");
  read(&text_row_keys, "text_row_keys");
  read(&image_row_keys, "image_row_keys");
  read(&sample_keys, "sample_keys");
}

std::string emoji_folder() { return std::string(BASCULE_TEST_DATA) + "/emoji-captions"; }

const Tokenizer& emoji_tokenizer() {
  static const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(emoji_folder() + "/tokenizer");
  return *tokenizer;
}

LoaderSettings emoji_settings(const Manifest& manifest) {
  LoaderSettings settings;
  settings.tokenizer = &emoji_tokenizer();
  settings.texts[0].max_length = 24;
  settings.texts[0].vocabulary_size = 3000;
  settings.texts[0].max_positions = 66;
  settings.texts[0].positions = {2, 1};
  settings.media.image_side = 32;
  settings.fields = loader_fields(Task::kPairs);
  settings.media.memory_bytes = std::size_t{96} << 20;  // a device, the host beside it, and workers
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
  Fingerprint print;
  for (const std::int64_t rows : batch.counts.rows) print.add(rows);
  for (const std::int64_t number : {batch.epoch, batch.index, batch.first_position}) print.add(number);
  for (std::size_t i = 0; i < settings.fields.size(); ++i) {
    const Field& field = settings.fields[i];
    print.add(static_cast<const unsigned char*>(batch.fields[i]),
              field.elements(batch.counts) * static_cast<std::int64_t>(element_bytes(field.dtype)));
  }
  print.add(batch.rows, batch.counts.samples());
  print.add(batch.rows_of_texts, batch.counts.samples());
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
