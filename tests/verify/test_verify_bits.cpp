// SPDX-License-Identifier: Apache-2.0
// The small training run of `bascule verify --bits`. The command: tests/faults/test_verify.py.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "src/json/json.h"
#include "src/train/packed_batch.h"
#include "src/verify/verify_bits.h"

namespace bascule::test {
namespace {

TEST(VerifyBits, TheDigestIsTheRecordedOneOnEachInstructionSet) {
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(compute_bits(isa, 2), kRecordedBits) << isa_name(isa);
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
  padded.length = 1;
  padded.input_ids = {5, 6};
  padded.attention_mask = {1, 1};
  padded.first_sample = 40;
  padded.image_rows = 3;
  const Fields fields = {{"image", DType::kInt64, rows_per_sample(3), 1, FieldSource::kImageRowKeys},
                         {"samples", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys},
                         {"text", DType::kInt64, rows_of_stream(kFirstModelStream), 1, FieldSource::kTextRowKeys}};
  const PackedBatch packed(padded, 10, 10, 1, false, false, "here");
  const Batch batch = packed.batch(fields);
  EXPECT_EQ(batch.field<std::uint64_t>(0)[5], row_key(41, 2));
  EXPECT_EQ(batch.field<std::uint64_t>(1)[1], row_key(41, 0));
  EXPECT_EQ(batch.field<std::uint64_t>(2)[1], row_key(41, 0));
}

}  // namespace
}  // namespace bascule::test
