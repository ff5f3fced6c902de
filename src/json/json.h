// SPDX-License-Identifier: Apache-2.0
// JSON documents in and out, errors among them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/json/value.h"

namespace bascule {

// Reading and writing JSON documents, before the seal: functions here allocate and throw Error{kData}.
// JSON that is written after the seal goes through json_stream.h.
//
// Strict: a key given twice, a nesting deeper than 200, bytes that are not UTF-8, NaN and Infinity are errors.
// Non-finite numbers in a document that is written become null.
//
//   const Json config = read_json_file(folder + "/config.json");
//   const std::int64_t width = get_int(config, "hidden_size", path);              // required
//   const double epsilon = get_number(config, "layer_norm_eps", path, 1e-5);      // absent or null: 1e-5

// where: the file's name. Errors say "where:line:column"; first_line is the line of the file that the text begins on.
Json parse_json(std::string_view text, const std::string& where, std::int64_t first_line = 1);

// The whole file. It is refused if it is larger than max_bytes, or no regular file: a pipe would be waited for.
Json read_json_file(const std::string& path, std::int64_t max_bytes = std::int64_t{1} << 30);

// XXH3 of the document, whatever its spaces and the order of its keys.
std::uint64_t json_digest(const Json& document);

// indent < 0: one line. Strings that are not UTF-8 get replacement characters; the text ends without a line break.
std::string json_text(const Json& document, int indent = -1);

// The member, or nullptr if it is absent or null. `object` must be an object: else Error naming `where`.
const Json* find_member(const Json& object, const std::string& key, const std::string& where);

// Members of a given type; the Error names where, key, the value found and the type wanted. Integers must be written as
// integers (1.0 is none) and fit into 64 bits. The forms with a fallback take absent or null for it.
std::int64_t get_int(const Json& object, const std::string& key, const std::string& where);
std::int64_t get_int(const Json& object, const std::string& key, const std::string& where, std::int64_t fallback);
std::uint64_t get_unsigned(const Json& object, const std::string& key, const std::string& where);
double get_number(const Json& object, const std::string& key, const std::string& where);
double get_number(const Json& object, const std::string& key, const std::string& where, double fallback);
bool get_bool(const Json& object, const std::string& key, const std::string& where);
bool get_bool(const Json& object, const std::string& key, const std::string& where, bool fallback);
std::string get_string(const Json& object, const std::string& key, const std::string& where);
std::string get_string(const Json& object, const std::string& key, const std::string& where,
                       const std::string& fallback);
const Json& get_object(const Json& object, const std::string& key, const std::string& where);
const Json& get_array(const Json& object, const std::string& key, const std::string& where);
std::vector<std::int64_t> get_ints(const Json& object, const std::string& key, const std::string& where);
std::vector<double> get_numbers(const Json& object, const std::string& key, const std::string& where);
std::vector<std::string> get_strings(const Json& object, const std::string& key, const std::string& where);

// An error as JSON, as every command that prints a document has it.

// {"exit_code", "kind", "what", "what_to_do", "where"}: the value of "error" in a document. Texts may be empty.
Json error_json(const Error& error);

}  // namespace bascule
