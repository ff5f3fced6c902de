// SPDX-License-Identifier: Apache-2.0
#include "src/machine/machine_json.h"

#include <string>

#include <gtest/gtest.h>

#include "src/json/json.h"
#include "tests/support/files.h"

namespace bascule {
namespace {

Machine some_machine() {
  Machine machine;
  machine.processor.name = "Xeon";
  machine.processor.family = 6;
  machine.processor.vector_flags = {"avx2", "fma"};
  machine.cores = {{0, 0, 0, 0, "0,1", "performance", 800000, 3900000}, {1, 0, 0, {}, {}, {}, {}, {}}};
  machine.groups = {{"/sys/fs/cgroup", 2, 0.6, "0-1", 1 << 20}};
  machine.process.address_bytes = kUnlimited;
  machine.process.may_lock_all = false;
  machine.process.pages = {{0, 12}};
  machine.kernel.mitigations = {{"spectre_v2", "Vulnerable"}};
  machine.counters.groups = {{"/sys/fs/cgroup", 5, 4, 3}};
  return machine;
}

std::string refusal_of(const Json& json) {
  return test::error_of([&] { machine_from(json, "profile.json"); });
}

TEST(MachineJson, ComesBackAsItWas) {
  const Json json = machine_json(some_machine());
  EXPECT_TRUE(json["cores"][1]["node"].is_null());
  const Json again = machine_json(machine_from(parse_json(json_text(json), "profile.json"), "profile.json"));
  EXPECT_EQ(json_text(again), json_text(json));
  const Json here = machine_json(read_machine());
  EXPECT_EQ(machine_json(machine_from(here, "profile.json")), here);
}

TEST(MachineJson, AMissingFactIsNamed) {
  Json json = machine_json(some_machine());
  json["cores"][1].items().erase("node");
  EXPECT_NE(refusal_of(json).find("profile.json: machine.cores[1].node is missing"), std::string::npos)
      << refusal_of(json);
}

TEST(MachineJson, AFactOfAnotherTypeIsNamed) {
  Json json = machine_json(some_machine());
  json["processor"]["family"] = "six";
  EXPECT_NE(refusal_of(json).find("machine.processor.family is not an integer"), std::string::npos) << refusal_of(json);
  json = machine_json(some_machine());
  json["groups"] = Json::object();
  EXPECT_NE(refusal_of(json).find("machine.groups is not a list"), std::string::npos) << refusal_of(json);
  EXPECT_NE(refusal_of(Json(1)).find("machine is not an object"), std::string::npos);
}

TEST(MachineJson, ANameThatIsNoneIsRefused) {
  Json json = machine_json(some_machine());
  json["memory"]["colour"] = 1;
  EXPECT_NE(refusal_of(json).find("machine.memory.colour"), std::string::npos) << refusal_of(json);
}

}  // namespace
}  // namespace bascule
