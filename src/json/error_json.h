// SPDX-License-Identifier: Apache-2.0
// An error as JSON, as every command that prints a document has it.
#pragma once

#include "src/base/error.h"
#include "src/json/value.h"

namespace bascule {

// {"exit_code", "kind", "what", "what_to_do", "where"}: the value of "error" in a document. Texts may be empty.
Json error_json(const Error& error);

}  // namespace bascule
