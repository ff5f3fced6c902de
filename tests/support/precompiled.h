// SPDX-License-Identifier: Apache-2.0
// Precompiled for the rooms with the most test files; it takes time and 74 MB of the build folder for each of them.
#include <gtest/gtest.h>
