// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/serve/access_log.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;
using Texts = std::vector<std::string>;

std::string line_of(int sequence, const std::string& previous, const std::string& members = "") {
  return R"({"path": "/embed", "status": 200, "model": "m", "request": "r", "answer": "a", "sequence": )" +
         std::to_string(sequence) + R"(, "previous": ")" + previous + "\"" + members + "}";
}

// Lines from this number on, each of which names the one before.
Texts chain(int first, int count, std::string previous) {
  Texts lines;
  for (int i = 0; i < count; ++i) {
    lines.push_back(line_of(first + i, previous));
    previous = Sha256Text(lines.back()).text();
  }
  return lines;
}

std::string joined(const Texts& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// What is wrong with the lines of a log.
Texts broken_of(const std::string& text) {
  const TemporaryFolder folder;
  Texts broken;
  read_logged_answer(folder.write("log.jsonl", text), 1, &broken);
  return broken;
}

TEST(LoggedAnswer, EachLineContinuesTheOneBefore) {
  const Texts whole = chain(0, 3, "");
  EXPECT_EQ(broken_of(joined(whole)), Texts());
  EXPECT_EQ(broken_of(joined(chain(7, 3, "of another file"))), Texts());
  const std::string all = joined(whole);
  EXPECT_EQ(broken_of(all.substr(0, all.size() - 1)), Texts{"line 3 is cut off"});
  EXPECT_EQ(broken_of(joined({whole[0], whole[2]})),
            (Texts{"line 2 is not the one that followed line 1 when it was written",
                   "line 2 has the sequence 2 in place of 1"}));
  EXPECT_EQ(broken_of(joined(chain(0, 1, "something"))),
            Texts{"line 1 is not the one that followed nothing when it was written"});
  EXPECT_EQ(broken_of(joined(chain(1, 1, ""))),
            Texts{"line 1 is not the one that followed nothing when it was written"});
  EXPECT_EQ(broken_of(joined({whole[0], line_of(5, std::string(Sha256Text(whole[0]).text()))})),
            Texts{"line 2 has the sequence 5 in place of 1"});
}

TEST(LoggedAnswer, IsThatOfItsLine) {
  const TemporaryFolder folder;
  const std::string log = folder.write(
      "log.jsonl",
      joined({line_of(0, "", R"(, "body": "{}")"),
              line_of(1, "", R"(, "body_base64": "AGE=", "content_type": "text/plain")"), line_of(2, "")}));
  Texts broken;
  EXPECT_EQ(read_logged_answer(log, 1, &broken).body, "{}");
  const LoggedAnswer second = read_logged_answer(log, 2, &broken);
  EXPECT_EQ(second.body, std::string("\0a", 2));
  EXPECT_EQ(second.content_type, "text/plain");
  EXPECT_EQ(second.path, "/embed");
  EXPECT_EQ(second.model + second.request + second.answer, "mra");
  EXPECT_EQ(read_logged_answer(log, 3, &broken).body, std::nullopt);
  for (const std::int64_t status : {429, 499, 503})
    EXPECT_FALSE((LoggedAnswer{"", "", status, "", "", "", {}}).is_of_model());
  EXPECT_TRUE(second.is_of_model());
}

// A request that has no room in its line is not logged, and the next line continues the one before.
TEST(AccessLog, HoldsRequestsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string file = folder.write("log.jsonl", "{\"sequ"), invalid = "caf\xE9", large(1 << 16, 'a');
  {
    AccessLog log(file, true, 100, "m");
    for (const std::string& request : {std::string("{}"), large, invalid}) {
      AccessRecord record;
      record.request = request;
      log.add(record);
    }
    EXPECT_EQ(log.lost(), 1u);
  }
  AccessLog(file, false, 0, "m").add(AccessRecord());
  Texts broken;
  EXPECT_EQ(read_logged_answer(file, 1, &broken).body, "{}");
  EXPECT_EQ(read_logged_answer(file, 2, &broken).body, invalid);
  EXPECT_EQ(read_logged_answer(file, 3, &broken).body, std::nullopt);
  EXPECT_EQ(broken, Texts());
}

TEST(LoggedAnswer, AFileThatNoServiceWroteIsRefused) {
  for (const auto& [members, problem] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(, "body_base64": "a")", "\"body_base64\" is not base64"},
           {R"(, "content_type": "a\r\nX: b")", "has a line break where a service writes none"},
           {R"(, "content_type": "a\nX: b")", "has a line break where a service writes none"},
           {"", "has 1 lines, and no line 2"}}) {
    const TemporaryFolder folder;
    Texts broken;
    try {
      read_logged_answer(folder.write("log.jsonl", line_of(0, "", members) + "\n"), *members == '\0' ? 2 : 1, &broken);
      ADD_FAILURE() << "taken: " << members;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(error.problem(), problem);
    }
  }
}

}  // namespace
}  // namespace bascule
