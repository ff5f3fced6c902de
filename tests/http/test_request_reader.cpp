// SPDX-License-Identifier: Apache-2.0
#include "src/http/request_reader.h"

#include <gtest/gtest.h>

#include "tests/http/read_requests.h"
#include "tests/support/seeded.h"

namespace bascule {
namespace {

using namespace std::string_literals;
using test::read_requests;
using test::read_whole;

struct Row {
  std::string bytes, seen;
};

std::string get(const std::string& more) { return "GET / HTTP/1.1\r\nHost: a\r\n" + more + "\r\n"; }
std::string post(const std::string& more, const std::string& body) {
  return "POST /e HTTP/1.1\r\nHost: a\r\n" + more + "\r\n" + body;
}
std::string chunked(const std::string& body) { return post("Transfer-Encoding: chunked\r\n", body); }
std::string line(const std::string& request_line) { return request_line + "\r\nHost: a\r\n\r\n"; }

const Row kAccepted[] = {
    {line("GET / HTTP/1.1"), "GET /\n"},
    {line("HEAD /health HTTP/1.1"), "HEAD /health\n"},
    {line("OPTIONS /embed HTTP/1.1"), "OPTIONS /embed\n"},
    {line("DELETE /embed HTTP/1.1"), "other /embed\n"},
    {line("GET /a?b=c&d=%zz HTTP/1.1"), "GET /a?b=c&d=%zz\n"},
    {line("GET /v1%2Dx/%41 HTTP/1.1"), "GET /v1-x/A\n"},
    {line("GET http://host:1/a?b HTTP/1.1"), "GET /a?b\n"},
    {line("GET HTTP://h HTTP/1.1"), "GET /\n"},
    {line("GET http://h?q HTTP/1.1"), "GET /?q\n"},
    {line("GET /../etc HTTP/1.1"), "GET /../etc\n"},
    {"GET / HTTP/1.0\r\n\r\n", "GET / closes\n"},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /\n"},
    {get("Connection: close\r\n"), "GET / closes\n"},
    {get("Connection: Keep-Alive, Upgrade\r\nUpgrade: h2c\r\n"), "GET /\n"},
    {get("X-Empty:\r\nX-Tab: \t a\tb \r\nX-Utf: \xc3\xa9\r\n"), "GET /\n"},
    {get("Cookie: a\r\nCookie: b\r\n"), "GET /\n"},
    {get("Content-Length: 0\r\n"), "GET /\n"},
    {get("Content-Length: 2\r\n") + "ab", "GET / [ab]\n"},
    {post("Content-Length: 5\r\n", "hello"), "POST /e [hello]\n"},
    {post("content-length:5\r\n", "a\0b\r\n"s), "POST /e [a\0b\r\n]\n"s},
    {post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), "POST /e expects [hello]\n"},
    {"POST /e HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\na", "POST /e closes [a]\n"},
    {post("Content-Length: 5\r\n", "hello") + get("") + post("Content-Length: 1\r\n", "x"),
     "POST /e [hello]\nGET /\nPOST /e [x]\n"},
    {post("Content-Length: 10\r\n", "hello"), "waits"},
    {chunked("5\r\nhello\r\n0\r\n\r\n"), "POST /e [hello]\n"},
    {chunked("2\r\nhe\r\n003\r\nllo\r\n0\r\n\r\n"), "POST /e [hello]\n"},
    {chunked("A;name=value;b=\"c d\"\r\n0123456789\r\n00\r\n\r\n"), "POST /e [0123456789]\n"},
    {chunked("1\r\na\r\n0\r\nX-Trailer: 1\r\nConnection: close\r\n\r\n"), "POST /e [a]\n"},
    {chunked("0\r\n\r\n") + get(""), "POST /e\nGET /\n"},
    {chunked("5\r\nhel"), "waits"},
    {post("transfer-encoding: CHUNKED\r\n", "1\r\na\r\n0\r\n\r\n"), "POST /e [a]\n"},
    {"GE", "waits"},
    {"", ""},
};

const Row kRefused[] = {
    // the request line
    {"GET /\r\n\r\n", "400"},
    {line("GET  / HTTP/1.1"), "400"},
    {line("GET / HTTP/1.1 "), "400"},
    {line("GET / x HTTP/1.1"), "400"},
    {line(" GET / HTTP/1.1"), "400"},
    {"\r\n" + line("GET / HTTP/1.1"), "400"},
    {"\n" + line("GET / HTTP/1.1"), "400"},
    {line("GET\t/ HTTP/1.1"), "400"},
    {line("GET / http/1.1"), "400"},
    {line("GET / HTTP/1.1x"), "400"},
    {line("GET / HTTP/11"), "400"},
    {line("GET / HTTP/1.2"), "505"},
    {line("GET / HTTP/2.0"), "505"},
    {line("GET / HTTP/0.9"), "505"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
    {line("G@T / HTTP/1.1"), "400"},
    {line("get / HTTP/1.1"), "501"},
    {line("GETS / HTTP/1.1"), "501"},
    {line("BREW / HTTP/1.1"), "501"},
    {line("CONNECT h:1 HTTP/1.1"), "400"},
    {line("OPTIONS * HTTP/1.1"), "400"},
    {line("GET a HTTP/1.1"), "400"},
    {line("GET ftp://a/ HTTP/1.1"), "400"},
    {line("GET https://a/ HTTP/1.1"), "400"},
    {line("GET http:///a HTTP/1.1"), "400"},
    {line("GET http://user@h/ HTTP/1.1"), "400"},
    {line("GET /a#b HTTP/1.1"), "400"},
    {line("GET /\x80 HTTP/1.1"), "400"},
    {line("GET /a\0b HTTP/1.1"s), "400"},
    {line("GET /%00 HTTP/1.1"), "400"},
    {line("GET /%0d%0a HTTP/1.1"), "400"},
    {line("GET /%7f HTTP/1.1"), "400"},
    {line("GET /a%2fb HTTP/1.1"), "400"},
    {line("GET /% HTTP/1.1"), "400"},
    {line("GET /%4 HTTP/1.1"), "400"},
    {line("GET /%4g HTTP/1.1"), "400"},
    {"\x16\x03\x01\x02\x01\x01", "400"},
    {"GET /" + std::string(8200, 'a'), "414"},
    // the headers
    {"GET / HTTP/1.1\r\n\r\n", "400"},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"},
    {get("Host: a\r\n"), "400"},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"},
    {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400"},
    {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400"},
    {"GET / HTTP/1.1\nHost: a\n\n", "400"},
    {"GET / HTTP/1.1\r\nHost: a\n\r\n", "400"},
    {"GET / HTTP/1.1\rHost: a\r\r", "400"},
    {"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "400"},
    {get("X: a\r\n b\r\n"), "400"},
    {get("X: a\r\n\tb\r\n"), "400"},
    {get(" X: a\r\n"), "400"},
    {get("X : a\r\n"), "400"},
    {get("X\t: a\r\n"), "400"},
    {get(": a\r\n"), "400"},
    {get("X\r\n"), "400"},
    {get("X(Y): a\r\n"), "400"},
    {get("X\x80: a\r\n"), "400"},
    {get("X\0: a\r\n"s), "400"},
    {get("X: a\0b\r\n"s), "400"},
    {get("X: a\x01\r\n"), "400"},
    {get("X: a\x7f\r\n"), "400"},
    {get("X: a\x0b\r\n"), "400"},
    {get("X: a\rY: b\r\n"), "400"},
    {get("X: " + std::string(8200, 'a') + "\r\n"), "431"},
    {get([] {
       std::string many;
       for (int i = 0; i < 100; ++i) many += "X: a\r\n";
       return many;
     }()),
     "431"},
    {get("Connection: \x22\r\n"), "400"},
    {get("Content-Type: a\r\nContent-Type: a\r\n"), "400"},
    {get("Authorization: a\r\nauthorization: a\r\n"), "400"},
    {get("Expect: 100-continue\r\nExpect: 100-continue\r\n"), "400"},
    {get("Expect: 200-ok\r\n"), "417"},
    // where a body ends
    {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), "400"},
    {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), "400"},
    {post("Content-Length: 5, 5\r\n", "hello"), "400"},
    {post("Content-Length: 5,\r\n", "hello"), "400"},
    {post("Content-Length: +5\r\n", "hello"), "400"},
    {post("Content-Length: -5\r\n", "hello"), "400"},
    {post("Content-Length: 0x5\r\n", "hello"), "400"},
    {post("Content-Length: 5 5\r\n", "hello"), "400"},
    {post("Content-Length: 5.0\r\n", "hello"), "400"},
    {post("Content-Length: 5;a\r\n", "hello"), "400"},
    {post("Content-Length: \"5\"\r\n", "hello"), "400"},
    {post("Content-Length:\r\n", "hello"), "400"},
    {post("Content-Length: 18446744073709551616\r\n", "hello"), "400"},
    {post("Content-Length: 18446744073709551621\r\n", "hello"), "400"},
    {post("Content-Length: 18446744073709551615\r\n", "hello"), "413"},
    {post("Content-Length: 1073741824\r\nExpect: 100-continue\r\n", ""), "413"},
    {post("Content-Length: 40001\r\n", "hello"), "413"},
    {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
    {post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "400"},
    {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
    {post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: gzip\r\n", "hello"), "501"},
    {post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: chunked, identity\r\n", "hello"), "501"},
    {post("Transfer-Encoding: identity\r\n", "hello"), "501"},
    {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding: \x0b"
          "chunked\r\n",
          "0\r\n\r\n"),
     "400"},
    {post("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding:\r\n", "0\r\n\r\n"), "501"},
    {post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), "400"},
    {post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "400"},
    {post("Content-Length: 5\r\nTransfer-Encoding: gzip\r\n", "hello"), "400"},
    {"POST /e HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
    // chunks
    {chunked("\r\n0\r\n\r\n"), "400"},
    {chunked("-1\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("+1\r\na\r\n0\r\n\r\n"), "400"},
    {chunked(" 1\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1 \r\na\r\n0\r\n\r\n"), "400"},
    {chunked("0x1\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("g\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1\na\n0\n\n\r\n"), "400"},
    {chunked("1\ra\r0\r\r"), "400"},
    {chunked("1\r\nab\r\n0\r\n\r\n"), "400"},
    {chunked("2\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1\r\na0\r\n\r\n"), "400"},
    {chunked("1\r\na\n0\r\n\r\n"), "400"},
    {chunked("10000000000000000\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("10000000000000001\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("FFFFFFFFFFFFFFFF\r\na\r\n0\r\n\r\n"), "413"},
    {chunked("9C41\r\n"), "413"},
    {chunked("1;\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=\"\x01\"\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=\"\n\"\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=\"b\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=\"\\\"\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1000;a=\"\r\n" + std::string(900, '"')), "400"},
    {chunked("1;a=\x01\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=" + std::string(300, 'b') + "\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("1;a=" + std::string(100000, 'b') + "\r\na\r\n0\r\n\r\n"), "400"},
    {chunked(std::string(100000, '0') + "1\r\na\r\n0\r\n\r\n"), "400"},
    {chunked("0\r\nX: " + std::string(100000, 'b') + "\r\n\r\n"), "400"},
    {chunked("0\r\nX: a\0b\r\n\r\n"s), "400"},
    {chunked("0\r\nX: a\nY: b\r\n\r\n"), "400"},
    {chunked("0\r\nX : a\r\n\r\n"), "400"},
    {chunked("0\r\nContent-Length: 1\r\n\r\n"), "400"},
    {chunked("0\r\nTransfer-Encoding: chunked\r\n\r\n"), "400"},
};

// In one piece, byte by byte, and cut at every place (long ones at some).
void expect_in_any_cut(const std::string& bytes, const std::string& seen) {
  SCOPED_TRACE(bytes.substr(0, 200));
  ASSERT_EQ(read_whole(bytes), seen);
  ASSERT_EQ(read_requests(bytes, [] { return 1; }), seen) << "byte by byte";
  const std::size_t step = bytes.size() > 1000 ? bytes.size() / 50 : 1;
  for (std::size_t cut = 1; cut < bytes.size(); cut += step) {
    std::size_t part = cut;
    ASSERT_EQ(read_requests(bytes, [&] { return std::exchange(part, bytes.size()); }), seen) << "cut at " << cut;
  }
}

TEST(RequestReader, ReadsWhatClientsSendInAnyCut) {
  for (const Row& row : kAccepted) expect_in_any_cut(row.bytes, row.seen);
}

TEST(RequestReader, RefusesWhatIsHostileInAnyCut) {
  for (const Row& row : kRefused) expect_in_any_cut(row.bytes, row.seen);
}

// Two requests behind one that is refused are no requests: its connection is at its end.
TEST(RequestReader, AnswersOnlyWhatCameBeforeAFault) {
  for (const Row& row : kRefused) {
    if (row.bytes.size() >= 1000) continue;
    EXPECT_EQ(read_whole(get("") + row.bytes + get("")), "GET /\n" + row.seen) << row.bytes;
  }
}

TEST(RequestReader, BodiesOfEverySizeComeWhole) {
  for (const std::size_t size : {0u, 1u, 8191u, 16000u, 16384u, 16385u, 39999u, 40000u}) {
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 37 % 251);
    const std::string plain = post("Content-Length: " + std::to_string(size) + "\r\n", body);
    std::string chunks;
    for (std::size_t at = 0, part = 1; at < size; at += part, part = part * 3 + 1) {
      char length[20];
      const std::size_t here = std::min(part, size - at);
      std::snprintf(length, sizeof length, "%zx\r\n", here);
      chunks += length + body.substr(at, here) + "\r\n";
    }
    const std::string seen = read_whole(plain + get(""));
    EXPECT_NE(seen.find("GET /\n"), seen.npos) << seen;
    for (const std::size_t part : {1u, 7u, 4096u, 100000u}) {
      EXPECT_EQ(read_requests(plain + get(""), [&] { return part; }), seen);
      EXPECT_EQ(read_requests(chunked(chunks + "0\r\n\r\n") + get(""), [&] { return part; }), seen);
    }
  }
}

// A body of 40,000 chunks of one byte is six times as long on the wire: no client sends that.
TEST(RequestReader, FramingIsBoundedByWhatItHolds) {
  std::string small, large;
  for (int i = 0; i < 4000; ++i) small += "1\r\na\r\n";
  for (int i = 0; i < 40000; ++i) large += "1\r\na\r\n";
  EXPECT_EQ(read_whole(chunked(small + "0\r\n\r\n")).substr(0, 21), "POST /e [4000 bytes, ");
  expect_in_any_cut(chunked(large + "0\r\n\r\n"), "400");
}

// Views into the head stay as they are while a body is read behind it, and while a target was decoded in it.
TEST(RequestReader, TheHeadIsThereWithTheBody) {
  std::vector<char> memory(kReaderBytes);
  RequestReader reader;
  reader.attach(memory.data());
  reader.reset();
  const std::string bytes = post(
      "Content-Type: application/json; charset=utf-8\r\nOrigin: http://o\r\n"
      "Authorization: Bearer k\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n",
      "abc");
  std::copy(bytes.begin(), bytes.end(), reader.space().data());
  ASSERT_EQ(reader.take(bytes.size()), ReadState::kHeadRead);
  ASSERT_TRUE(reader.fits_behind_head());
  ASSERT_EQ(reader.read_body({}, 3), ReadState::kWhole);
  EXPECT_EQ(reader.head().content_type, "application/json; charset=utf-8");
  EXPECT_EQ(reader.head().origin, "http://o");
  EXPECT_EQ(reader.head().authorization, "Bearer k");
  EXPECT_EQ(reader.head().content_encoding, "gzip");
  EXPECT_EQ(reader.head().content_length, 3u);
}

TEST(RequestReader, AnyBytesGiveTheSameInAnyCut) {
  test::Seeded random;
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(end) - 1));
  };
  const std::string alphabet = "\r\n\r\n\r\n: ,;\"\\=/%0123456789abcdefGETPOST HTTP/1.1\t\x01";
  for (int i = 0; i < 3000; ++i) {
    const bool refused = below(3) == 0;
    std::string bytes =
        refused ? kRefused[below(std::size(kRefused))].bytes : kAccepted[below(std::size(kAccepted))].bytes;
    if (bytes.size() > 1000) continue;
    bytes += get("");
    for (std::size_t changes = below(4); changes > 0; --changes)
      bytes[below(bytes.size())] = alphabet[below(alphabet.size())];
    const std::string seen = read_whole(bytes);
    ASSERT_EQ(read_requests(bytes, [&] { return 1 + below(9); }), seen) << bytes;
  }
}

}  // namespace
}  // namespace bascule
