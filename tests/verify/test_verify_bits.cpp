// SPDX-License-Identifier: Apache-2.0
// The small training run of `bascule verify --bits`. The command: tests/faults/test_verify.py.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/session/packed_batch.h"
#include "src/verify/verify.h"

namespace bascule::test {
namespace {

TEST(VerifyBits, TheDigestIsTheRecordedOneOnEachInstructionSet) {
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    if (isa != Isa::kAmx) {  // which is the best of the others but for sums of tiles
      EXPECT_EQ(compute_bits(isa, 2), kRecordedBits) << isa_name(isa);
    }
    EXPECT_EQ(compute_bits(isa, 2, Bf16Law::kTiles), kRecordedBitsOfTiles) << isa_name(isa);
  }
}

TEST(VerifyBits, AnotherDigestFailsWithItsOwnExitCode) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(print_bits(0x0123, 0x0123, Isa::kAvx2, 3, true), 0);
  EXPECT_EQ(print_bits(0x0123, 0x0124, Isa::kAvx2, 3, true), 7);
  EXPECT_EQ(print_bits(0x0123, 0x0124, Isa::kAvx2, 3, false), 7);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  const std::size_t second = printed.find('\n') + 1, third = printed.find('\n', second) + 1;
  const Json passed = parse_json(printed.substr(0, second), "first"),
             failed = parse_json(printed.substr(second, third - second), "second");
  const Json expected = {{"passed", true},
                         {"digest", "0000000000000123"},
                         {"expected", "0000000000000123"},
                         {"isa", "avx2"},
                         {"threads", 3}};
  EXPECT_EQ(passed, expected);
  EXPECT_EQ(get_bool(failed, "passed", "second", true), false);
  EXPECT_EQ(get_string(failed, "expected", "second"), "0000000000000124");
  EXPECT_EQ(printed.substr(third, 6), "FAILED");
}

TEST(PackedBatch, KeysOfDropoutCountSamplesOfTheWholeRun) {
  PaddedBatch padded;
  padded.samples = 2;
  padded.texts[0].length = 1;
  padded.texts[0].input_ids = {5, 6};
  padded.texts[0].attention_mask = {1, 1};
  padded.first_sample = 40;
  padded.image_rows = 3;
  const Fields fields = {{"image", DType::kInt64, rows_per_sample(3), 1, FieldSource::kImageRowKeys},
                         {"samples", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys},
                         {"text", DType::kInt64, rows_of_stream(kFirstModelStream), 1, FieldSource::kTextRowKeys}};
  ModelInputs inputs;
  inputs.texts[0].vocabulary_size = inputs.texts[0].max_positions = 10;
  const PackedBatch packed(padded, inputs, false, "here");
  const Batch batch = packed.batch(fields);
  EXPECT_EQ(batch.field<std::uint64_t>(0)[5], row_key(41, 2));
  EXPECT_EQ(batch.field<std::uint64_t>(1)[1], row_key(41, 0));
  EXPECT_EQ(batch.field<std::uint64_t>(2)[1], row_key(41, 0));
}

TEST(PackedBatch, NumbersTokensAsTheModelSaysAndTakesPicturesAlone) {
  PaddedBatch padded;
  padded.samples = 1;
  padded.texts[0].length = 3;
  padded.texts[0].input_ids = {5, 1, 6};
  padded.texts[0].attention_mask = {1, 1, 1};
  ModelInputs inputs;
  inputs.texts[0].vocabulary_size = 10;
  inputs.texts[0].max_positions = 4;
  const Fields fields = {{"at", DType::kInt32, rows_of_stream(kFirstModelStream), 1, FieldSource::kPositionIds}};
  const auto positions = [&] {
    const PackedBatch packed(padded, inputs, false, "here");
    const auto* const at = packed.batch(fields).field<std::int32_t>(0);
    return std::vector<std::int32_t>(at, at + 3);
  };
  EXPECT_EQ(positions(), (std::vector<std::int32_t>{0, 1, 2}));
  inputs.texts[0].positions = {2, 1};
  EXPECT_EQ(positions(), (std::vector<std::int32_t>{2, 1, 3}));
  inputs.texts[0].positions = {3, 1};
  EXPECT_THROW(positions(), Error) << "the last token has position 4, of a table of 4";
  padded = PaddedBatch();
  padded.samples = 2;
  padded.pixels = {1.0f, 2.0f};
  EXPECT_EQ(PackedBatch(padded, inputs, false, "here").samples(), 2);
}

}  // namespace
}  // namespace bascule::test
