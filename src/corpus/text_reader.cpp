// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/text_reader.h"

#include <limits>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/index/line_reader.h"

namespace bascule {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos; }

void check_line(const std::string& path, std::int64_t number, std::string_view line) {
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error{ErrorKind::kData, path + ":" + std::to_string(number), what, what_to_do};
  };
  if (number > std::numeric_limits<std::uint32_t>::max()) refuse("too many lines", "split the file");
  if (line.size() > kLongestLine) {
    refuse("the line has more than " + std::to_string(kLongestLine) + " bytes",
           "write one sentence a line and an empty line between documents");
  }
  if (line.find('\0') != std::string_view::npos) refuse("has NUL bytes: it is not a text", "remove them");
  const std::size_t invalid = first_invalid_utf8(line);
  if (invalid < line.size())
    refuse("byte " + std::to_string(invalid) + " of the line is not UTF-8", "write the text in UTF-8");
}

}  // namespace

std::uint64_t read_text(const DataFiles& files, const TextVisitor& visitor) {
  std::vector<std::uint64_t> digests;
  std::int64_t sentences = 0;
  for (const DataFile& file : files.manifests) {
    LineReader reader(file.path, kLongestLine);
    for (std::string_view line; reader.next(&line);) {
      if (is_blank(line)) {
        visitor.end_document();
        continue;
      }
      check_line(file.path, reader.line(), line);
      if (++sentences > std::numeric_limits<std::uint32_t>::max())
        throw Error{ErrorKind::kData, files.name, "has more than 4,294,967,295 sentences", "train on a part of it"};
      visitor.sentence(line, reader.line());
    }
    visitor.end_document();
    visitor.end_file();
    digests.push_back(reader.digest());
  }
  if (sentences == 0) {
    throw Error{ErrorKind::kData, files.name, "has no text: all of its lines are empty",
                "write one sentence a line and an empty line between documents"};
  }
  if (digests.size() == 1) return digests.front();
  Digest all;
  for (const std::uint64_t digest : digests) all.add_number(digest);
  return all.value();
}

}  // namespace bascule
