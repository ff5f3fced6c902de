// SPDX-License-Identifier: Apache-2.0
#include "src/commands/unit.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "src/json/json.h"
#include "src/record/run_inputs.h"
#include "src/seal/disk_demand.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

std::int64_t value_of(const std::string& unit, const std::string& key) {
  const std::size_t at = unit.find("\n" + key + "=");
  return at == std::string::npos ? -1 : std::stoll(unit.substr(at + key.size() + 2));
}

const UnitPlace kPlace{"/bin/bascule", "/run.toml", {0}};

// The demo's model with many more words, so that its checkpoint takes a slow disk some seconds.
class LargeModel {
 public:
  LargeModel() {
    const std::string demo = reference_dir() + "/emoji-captions/model/";
    Json config = read_json_file(demo + "config.json");
    config["text_config"]["vocab_size"] = 60'000;
    folder_.write("config.json", json_text(config));
    std::filesystem::copy(demo + "preprocessor_config.json", folder_.path() + "/preprocessor_config.json");
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

// A checkpoint has the weights and, of those that are trained, both moments; a disk is taken to write 32 MiB a second.
TEST(Unit, BeforeItIsKilledARunHasTimeForItsUpdateAndACheckpoint) {
  const LargeModel model;
  for (const char* const frozen : {"", "freeze = [\"text_model\"]\n"}) {
    DemoRun run(frozen, "max_steps = 3\n[distributed]\ntimeout_seconds = 30\n", "", model.folder());
    const ParameterCount parameters = count_parameters(run->session.parameters());
    const std::int64_t seconds = 4 * (parameters.all + 2 * parameters.trained) / (std::int64_t{32} << 20);
    EXPECT_EQ(parameters.trained == parameters.all, *frozen == '\0');
    EXPECT_EQ(value_of(unit_text(*run, kPlace), "TimeoutStopSec"), 30 + seconds + 10);
    EXPECT_GT(seconds, 0) << "else this model shows nothing";
  }
}

TEST(Unit, APercentSignAndADollarInAPathStandForThemselves) {
  DemoRun run("", "max_steps = 3\n");
  const std::string unit = unit_text(*run, UnitPlace{"/opt/$a%b/bascule", "/etc/$HOME.toml", {0}});
  EXPECT_NE(unit.find("\"/opt/$$a%%b/bascule\""), std::string::npos) << unit;
  EXPECT_NE(unit.find("/etc/$$HOME.toml"), std::string::npos) << unit;
}

// The line of a key.
std::string line_of(const std::string& unit, const std::string& key) {
  const std::size_t at = unit.find("\n" + key + "=") + 1;
  return unit.substr(at, unit.find('\n', at) - at);
}

TEST(Unit, AllowsAsManyCoresAsAllRanksHaveThreads) {
  const Settings settings;
  RecordedRun run(settings);
  run.threads = 2;
  run.plan.ranks = 2;
  EXPECT_EQ(line_of(unit_text(run, {"/bin/bascule", "/run.toml", {3, 5, 7, 9, 11}}), "AllowedCPUs"),
            "AllowedCPUs=3 5 7 9");
  EXPECT_EQ(value_of(unit_text(run, kPlace), "MemoryMax"), 2 * (64 << 20))
      << "each rank may have so much beside its plan";
}

// A missing file ends a run for good: the service does not start again.
TEST(Unit, StartsAfterDisksOfOtherMachinesAreMounted) {
  const Settings settings;
  const RecordedRun run(settings);
  for (const std::string& unit : {unit_text(run, kPlace), template_unit_text("/bin/bascule")})
    EXPECT_LT(unit.find("\nAfter=remote-fs.target\n"), unit.find("[Service]")) << unit;
}

// The unit of a run that reads this model, with this program and this output_dir.
std::string unit_reading(const std::string& model, const std::string& program = "/bin/bascule",
                         const std::string& output = "/srv/run") {
  Settings settings;
  settings.model.model_name_or_path.resolved = model;
  settings.run.output_dir.resolved = output;
  return unit_text(RecordedRun(settings), UnitPlace{program, "/run.toml", {0}});
}

TEST(Unit, HomesAreReadWhereTheProgramOrFilesOfTheRunLieInThem) {
  const auto homes = [](const std::string& unit) { return line_of(unit, "ProtectHome"); };
  for (const char* const home : {"/root", "/home/someone", "/run/user/1000"}) {
    EXPECT_EQ(homes(unit_reading(std::string(home) + "/model")), "ProtectHome=read-only");
    EXPECT_EQ(homes(unit_reading("/srv/model", std::string(home) + "/clone/build/bascule")), "ProtectHome=read-only");
    EXPECT_EQ(homes(unit_reading("/srv/model", "/bin/bascule", std::string(home) + "/runs/a")),
              "ProtectHome=read-only");
  }
  EXPECT_EQ(homes(unit_reading("/srv/home/model")), "ProtectHome=yes");
  EXPECT_EQ(homes(unit_reading("/homes/model", "/run/users/bascule")), "ProtectHome=yes");
  // Where a link leads, and a link in a folder.
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/root", folder.path() + "/model");
  EXPECT_EQ(homes(unit_reading(folder.path() + "/model")), "ProtectHome=read-only");
  EXPECT_EQ(homes(unit_reading(folder.path())), "ProtectHome=read-only");
}

// systemd gives a dynamic user a /tmp and a /var/tmp of its own, whatever PrivateTmp says.
TEST(Unit, WhatItReadsOfTemporaryFilesIsMountedIntoItsOwn) {
  for (const std::string folder : {"/tmp/", "/var/tmp/"}) {
    for (const std::string& unit :
         {unit_reading(folder + "a b/model"), unit_reading("/srv/model", folder + "a b/build/bascule")})
      EXPECT_NE(unit.find("\nPrivateTmp=yes\nBindReadOnlyPaths=" + folder + "a\\ b\n"), std::string::npos) << unit;
  }
  EXPECT_EQ(unit_reading("/tmpfiles/model").find("BindReadOnlyPaths"), std::string::npos);
  EXPECT_EQ(line_of(unit_reading("/tmp/a:b\\c%/model"), "BindReadOnlyPaths"), R"(BindReadOnlyPaths=/tmp/a\:b\\c%%)");
  EXPECT_NE(template_unit_text("/tmp/tree/bin/bascule").find("\nBindReadOnlyPaths=/tmp/tree\n"), std::string::npos);
}

TEST(Unit, AFolderThatOthersMayNotEnterAndAFileThatTheyMayNotReadAreWarnedOf) {
  const TemporaryFolder folder;
  const std::string file = folder.write("settings.toml", "");
  const auto is_warned_of = [&](const std::string& place, int of_folder, int of_file) {
    std::filesystem::permissions(folder.path(), std::filesystem::perms(of_folder));
    std::filesystem::permissions(file, std::filesystem::perms(of_file));
    ::testing::internal::CaptureStderr();
    (void)unit_reading(file);
    return ::testing::internal::GetCapturedStderr().find(": " + place + ": the service") != std::string::npos;
  };
  EXPECT_FALSE(is_warned_of(folder.path(), 0711, 0644));
  EXPECT_FALSE(is_warned_of(file, 0711, 0644));
  EXPECT_TRUE(is_warned_of(folder.path(), 0754, 0644));
  EXPECT_TRUE(is_warned_of(file, 0711, 0751));
}

TEST(Unit, TheAverageOfTheWeightsIsInTheCheckpointToo) {
  const LargeModel model;
  DemoRun run("", "max_steps = 3\nema_decay = 0.9\n[distributed]\ntimeout_seconds = 30\n", "", model.folder());
  const std::int64_t seconds = 4 * 4 * count_parameters(run->session.parameters()).all / (std::int64_t{32} << 20);
  EXPECT_EQ(value_of(unit_text(*run, kPlace), "TimeoutStopSec"), 30 + seconds + 10);
}

// Adafactor keeps a row and a column of a matrix in place of two moments.
TEST(Unit, ACheckpointHasTheStatesOfTheRunsOptimizer) {
  const LargeModel model;
  const auto seconds = [&](const char* optimizer) {
    DemoRun run("", "max_steps = 3\n" + std::string(optimizer) + "[distributed]\ntimeout_seconds = 30\n", "",
                model.folder());
    const std::int64_t bytes = disk_demand(*run, tensors_to_hold(*run)).checkpoint_bytes;
    const std::string unit = unit_text(*run, kPlace);
    EXPECT_NE(unit.find("a checkpoint of " + std::to_string(bytes >> 20) + " MiB"), std::string::npos) << unit;
    return value_of(unit, "TimeoutStopSec") - 40;
  };
  EXPECT_LT(2 * seconds("optimizer = \"adafactor\"\n"), seconds(""));
}

TEST(Unit, ARunThatTrainsNothingSavesNothing) {
  DemoRun run("", "do_train = false\n[distributed]\ntimeout_seconds = 30\n");
  EXPECT_EQ(value_of(unit_text(*run, kPlace), "TimeoutStopSec"), 40);
}

// {key, as often as it occurs: value}
std::multimap<std::string, std::string> values_of(const std::string& unit) {
  std::multimap<std::string, std::string> values;
  std::istringstream lines(unit);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (!line.empty() && line.front() != '#' && equals != std::string::npos)
      values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return values;
}

TEST(Unit, TheTemplateAllowsWhatAnyRunNeedsAndIsElseThatOfAPlan) {
  Settings settings;
  settings.model.model_name_or_path.resolved = "/home/someone/model";
  settings.run.output_dir.resolved = "/srv/a";
  settings.distributed.world_size = 2;
  settings.machine.products = Products::kOnednn;
  settings.machine.lock_memory = true;
  std::multimap<std::string, std::string> planned = values_of(unit_text(RecordedRun(settings), kPlace));
  std::multimap<std::string, std::string> any = values_of(template_unit_text("/bin/bascule"));
  for (const char* const own : {"Description", "Documentation", "ExecStart", "TimeoutStopSec", "MemoryMax",
                                "AllowedCPUs", "DynamicUser", "User", "StateDirectory", "BindPaths", "Environment"}) {
    planned.erase(own);
    any.erase(own);
  }
  EXPECT_EQ(any, planned);
  EXPECT_GT(any.size(), 30U);
}

// Lines that are the same in each unit.
TEST(Unit, RestartsAndLimitsAreThoseOfEveryRun) {
  Settings settings;
  settings.distributed.timeout_seconds = 30;
  settings.run.output_dir.resolved = "/srv/.hidden";
  const std::string unit = unit_text(RecordedRun(settings), kPlace);
  for (const char* const line : {"WatchdogSec=41",
                                 "TimeoutStartSec=infinity",
                                 "Restart=on-failure",
                                 "RestartSec=5",
                                 "KillMode=mixed",
                                 "RestartPreventExitStatus=2 3 4 7",
                                 "SuccessExitStatus=129 130 143",
                                 "StartLimitIntervalSec=1h",
                                 "StartLimitBurst=20",
                                 "Type=notify",
                                 "NotifyAccess=main",
                                 "TasksMax=512",
                                 "ProtectSystem=strict",
                                 "ProtectHome=yes",
                                 "DevicePolicy=closed",
                                 "UMask=0077",
                                 "CapabilityBoundingSet=",
                                 "AmbientCapabilities=",
                                 "RestrictAddressFamilies=AF_UNIX",
                                 "IPAddressDeny=any",
                                 "SystemCallFilter=@system-service",
                                 "SystemCallFilter=~@privileged @resources",
                                 "SystemCallFilter=mbind sched_setaffinity setpriority",
                                 "SystemCallErrorNumber=EPERM",
                                 "MemoryDenyWriteExecute=yes",
                                 "DynamicUser=yes",
                                 "StateDirectory=bascule-run",
                                 "StateDirectoryMode=0700",
                                 "Environment=HOME=%S/bascule-run",
                                 "BindPaths=%S/bascule-run:/srv/.hidden",
                                 "WantedBy=multi-user.target",
                                 "# The batch under way.",
                                 "NoNewPrivileges=yes",
                                 "RemoveIPC=yes"})
    EXPECT_NE(unit.find("\n" + std::string(line) + "\n"), std::string::npos) << line << "\n" << unit;
  EXPECT_EQ(unit.find("IPAddressAllow"), std::string::npos);
  EXPECT_EQ(unit.find("LimitMEMLOCK"), std::string::npos);
  settings.run.output_dir.resolved = "/var/lib/bascule-a b";
  settings.distributed.world_size = 2;
  const std::string ranks = unit_text(RecordedRun(settings), kPlace);
  EXPECT_EQ(line_of(ranks, "NotifyAccess"), "NotifyAccess=all");
  EXPECT_EQ(line_of(ranks, "RestrictAddressFamilies"), "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK");
  EXPECT_EQ(line_of(ranks, "IPAddressAllow"), "IPAddressAllow=localhost");
  EXPECT_EQ(line_of(ranks, "StateDirectory"), "StateDirectory=bascule-bascule-a_b");
}

TEST(Unit, TheTemplateHasTimeForACheckpointOf28GiB) {
  EXPECT_EQ(value_of(template_unit_text("/bin/bascule"), "TimeoutStopSec"), 60 + 28 * 32 + 10);
}

}  // namespace
}  // namespace bascule::test
