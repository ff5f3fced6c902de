// SPDX-License-Identifier: Apache-2.0
#include "src/json/json_stream.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/json/json.h"

namespace bascule {
namespace {

TEST(JsonStream, WritesDocumentsThatTheReaderTakes) {
  std::vector<char> buffer(500);
  JsonStream out(buffer);
  out.begin_object().line_break();
  out.key("a\"\n\\").string("é \x01 \"").key("list").begin_array().integer(-5).boolean(true).null();
  out.begin_object().end_object().begin_array().end_array().end_array().line_break();
  out.key("raw").raw("{\"x\": [1, 2]}").key("last").number(0.1);
  out.end_object();
  ASSERT_FALSE(out.overflowed());
  const Json expected = {{"a\"\n\\", "é \x01 \""},
                         {"list", {-5, true, nullptr, Json::object(), Json::array()}},
                         {"raw", {{"x", {1, 2}}}},
                         {"last", 0.1}};
  EXPECT_EQ(parse_json(out.text(), "stream"), expected);
}

// Names of files, for example, may be any bytes.
TEST(JsonStream, BytesThatAreNotUtf8AreReplaced) {
  std::vector<char> buffer(100);
  JsonStream out(buffer);
  out.begin_array().string("caf\xe9.jpg").string("caf\xc3\xa9 \xf0\x9f\x98\x82").string("\xf0\x9f\x98").end_array();
  const Json expected = {"caf\xef\xbf\xbd.jpg", "caf\xc3\xa9 \xf0\x9f\x98\x82", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"};
  EXPECT_EQ(parse_json(out.text(), "stream"), expected);
}

TEST(JsonStream, DoublesComeBackBitForBit) {
  std::vector<char> buffer(4096);
  const std::vector<double> numbers = {0.1,
                                       1.0 / 3,
                                       1e-5,
                                       2.5e300,
                                       std::numeric_limits<double>::denorm_min(),
                                       -1e-310,
                                       1e17,
                                       -0.0,
                                       std::nextafter(1.0, 2.0)};
  JsonStream out(buffer);
  out.begin_array();
  for (const double number : numbers) out.number(number);
  out.end_array();
  const Json read = parse_json(out.text(), "stream");
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(read[i].number(), numbers[i]);
}

TEST(JsonStream, FloatsHaveTheirOwnShortestTexts) {
  std::vector<char> buffer(400);
  JsonStream out(buffer);
  const std::vector<float> numbers = {0.1f, 1.0f / 3, 16777216.0f, 1e-45f, -3.4028235e38f, -0.0f};
  out.begin_array();
  for (const float number : numbers) out.float32(number);
  out.float32(std::numeric_limits<float>::infinity()).end_array();
  EXPECT_EQ(out.text().substr(0, 19), "[0.1, 0.33333334, 1");
  const Json read = parse_json(out.text(), "stream");
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(static_cast<float>(read[i].number()), numbers[i]);
}

TEST(JsonStream, BytesAreWrittenAsBase64) {
  std::vector<char> buffer(100);
  for (const auto& [bytes, text] : {std::pair<std::string, const char*>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"\xff\xfe\xfd", "//79"}}) {
    JsonStream out(buffer);
    out.base64({static_cast<const std::byte*>(static_cast<const void*>(bytes.data())), bytes.size()});
    EXPECT_EQ(out.text(), "\"" + std::string(text) + "\"");
  }
}

TEST(JsonStream, NumbersThatAreNotFiniteAreNull) {
  std::vector<char> buffer(100);
  JsonStream out(buffer);
  out.begin_array().number(std::numeric_limits<double>::quiet_NaN());
  out.number(-std::numeric_limits<double>::infinity()).end_array();
  EXPECT_EQ(out.text(), "[null, null]");
}

TEST(JsonStream, NeverWritesBeyondItsBufferAndSaysSo) {
  std::string buffer(12, '#');
  JsonStream out(Span<char>(buffer.data(), 8));
  out.begin_array().string("0123456789").end_array();
  EXPECT_TRUE(out.overflowed());
  EXPECT_EQ(buffer.substr(8), "####");
  out.clear();
  out.begin_array().integer(1).end_array();
  EXPECT_FALSE(out.overflowed());
  EXPECT_EQ(out.text(), "[1]");
}

}  // namespace
}  // namespace bascule
