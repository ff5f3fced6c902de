// SPDX-License-Identifier: Apache-2.0
#include "src/commands/unit.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/span.h"
#include "src/finish/contracts.h"
#include "src/seal/disk_demand.h"
#include "src/seal/sealed_records.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

constexpr std::int64_t kSlowDiskBytes = std::int64_t{32} << 20;  // a second, that a disk writes at least
constexpr std::int64_t kSlowlyDecodedPixels = 8192;              // a second, at least
constexpr std::int64_t kSpareSeconds = 10;
constexpr std::int64_t kLongestBatchSeconds = 300;  // of a service

// The facts of a planned run that its unit needs.
struct UnitRun {
  const Settings& settings;
  MemoryPlan plan;
  std::size_t threads = 1;              // of all ranks
  std::size_t processes = 1;            // ranks
  std::string last_work = {};           // before a run that is stopped ends, for people
  std::int64_t last_seconds = 0;        // that it may take
  std::vector<std::string> reads = {};  // files and folders
  std::string name = {}, socket = {};   // of a service; its socket unit
};

// The fields that differ between units; text is as the unit has it, with specifiers.
struct UnitFacts {
  std::string description, name, start;  // of the run or service; the command line
  std::string documentation;             // empty: no manual page is known to be installed
  std::string socket;                    // empty: the unit needs none
  std::string watchdog;                  // what it ends, for people
  std::int64_t watchdog_seconds = 0, stop_seconds = 0;
  std::size_t tasks = 512;  // processes and threads, at most
  std::string last_work;
  std::string again;                          // why it is started again, for people
  std::string memory_comment, memory, cores;  // empty: no limits
  std::string user;                           // empty: one that exists while the run does
  std::string state_folder;                   // in /var/lib
  std::string results;                        // output_dir, if it lies elsewhere
  std::string user_comment;                   // on these three
  std::set<std::string> mounted;              // paths in /tmp and /var/tmp that it reads
  bool has_ranks = true, generates_code = true, locks_memory = true, reads_homes = true;
};

template <typename Run>
std::size_t threads_of_ranks(const Run& run) {
  return static_cast<std::size_t>(run.threads) * run.plan.ranks;
}

class Unit {
 public:
  void section(const char* name) { text_ += (text_.empty() ? "[" : "\n[") + std::string(name) + "]\n"; }
  void set(const char* key, const std::string& value) { text_ += std::string(key) + "=" + value + "\n"; }
  void say(const std::string& comment) { text_ += "# " + comment + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One word of a unit's command line: '%' begins a specifier, '$' a variable.
std::string word(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '%' || c == '$') out += c;
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// A value of a path setting: no quotes, and no specifier. A colon would end a path of BindPaths.
std::string path_value(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '%') out += c;
    if (c == ':' || c == '\\' || c == ' ') out += '\\';
    out += c;
  }
  return out;
}

// Keeps letters, digits and what a folder's name may have without being quoted.
std::string plain_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (char& c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!is_plain) c = '_';
  }
  return name.empty() || name.front() == '.' ? "run" : name;
}

bool begins_with(const std::string& path, const std::string& folder) { return path.rfind(folder, 0) == 0; }

// Where the paths lie, where they lead if they are links, and where links lead that a folder among them holds.
std::set<std::string> places_of(const std::vector<std::string>& paths) {
  std::set<std::string> places;
  const auto add = [&](const std::string& path) {
    std::error_code failed;
    places.insert(path);
    places.insert(std::filesystem::weakly_canonical(path, failed).string());
  };
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    add(absolute_path(path));
    for (const std::string& name : names_in(path)) {
      std::error_code ignored;
      if (std::filesystem::is_symlink(path + "/" + name, ignored)) add(absolute_path(path + "/" + name));
    }
  }
  return places;
}

// The entries of folders of temporary files that hold one of the places: "/tmp/clone".
std::set<std::string> temporary_of(const std::set<std::string>& places) {
  std::set<std::string> held;
  for (const std::string& place : places) {
    for (const std::string folder : {"/tmp/", "/var/tmp/"}) {
      if (begins_with(place, folder)) held.insert(place.substr(0, place.find('/', folder.size())));
    }
  }
  return held;
}

// The service runs as a user of its own, which neither owns these places nor is in a group of theirs.
void warn_of_closed(const std::set<std::string>& places) {
  namespace fs = std::filesystem;
  std::set<std::string> closed;
  for (const std::string& place : places) {
    for (fs::path path = place; path != path.root_path(); path = path.parent_path()) {
      std::error_code failed;
      const fs::file_status status = fs::status(path, failed);
      const fs::perms needed = fs::is_directory(status) ? fs::perms::others_exec : fs::perms::others_read;
      if (fs::exists(status) && (status.permissions() & needed) == fs::perms::none) closed.insert(path.string());
    }
  }
  for (const std::string& path : closed)
    std::fprintf(stderr,
                 "bascule: warning: --unit: %s: the service, which has a user of its own, cannot read it; allow it "
                 "(chmod o+rX), or use another place\n",
                 path.c_str());
}

// As many as the run has threads, of those that the process may use: "0 1 2".
std::string cores_of(const UnitRun& run, const std::vector<int>& usable) {
  std::string list;
  for (std::size_t i = 0; i < std::min(run.threads, usable.size()); ++i)
    list += (list.empty() ? "" : " ") + std::to_string(usable[i]);
  return list;
}

void add_limits(Unit* unit, const UnitFacts& facts) {
  unit->say(facts.watchdog);
  unit->set("WatchdogSec", std::to_string(facts.watchdog_seconds));
  unit->say(facts.last_work);
  unit->set("TimeoutStopSec", std::to_string(facts.stop_seconds));
  unit->set("TimeoutStartSec", "infinity");
  if (!facts.memory.empty()) {
    unit->say(facts.memory_comment);
    unit->set("MemoryMax", facts.memory);
    unit->set("AllowedCPUs", facts.cores);
  }
  unit->set("TasksMax", std::to_string(facts.tasks));
  if (facts.locks_memory) unit->set("LimitMEMLOCK", "infinity");
}

// Allows what a run needs of the system: files that it reads, one folder, and its cores. Three system calls of the
// group @resources stay allowed: memory is spread over nodes, threads are pinned, and loader workers give way to them.
void add_sandbox(Unit* unit, const UnitFacts& facts) {
  unit->set("ProtectSystem", "strict");
  unit->set("ProtectHome", facts.reads_homes ? "read-only" : "yes");
  unit->set("PrivateTmp", "yes");  // as systemd does for a dynamic user, whatever a unit says
  for (const std::string& path : facts.mounted) unit->set("BindReadOnlyPaths", path_value(path));
  for (const char* key : {"NoNewPrivileges", "PrivateDevices", "PrivateUsers", "PrivateIPC", "PrivateMounts",
                          "PrivateNetwork", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
                          "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictNamespaces",
                          "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "RemoveIPC"})
    unit->set(key, "yes");
  unit->set("ProtectProc", "invisible");
  unit->set("DevicePolicy", "closed");
  unit->set("CapabilityBoundingSet", "");
  unit->set("AmbientCapabilities", "");
  unit->set("UMask", "0077");
  unit->set("KeyringMode", "private");
  if (facts.generates_code) unit->say("oneDNN generates code.");
  unit->set("MemoryDenyWriteExecute", facts.generates_code ? "no" : "yes");
  if (facts.has_ranks) {
    unit->say("mpirun and its ranks talk over the loopback interface, which is their own.");
    unit->set("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK");
    unit->set("IPAddressAllow", "localhost");
  } else {
    unit->set("RestrictAddressFamilies", "AF_UNIX");
  }
  unit->set("IPAddressDeny", "any");
  unit->set("SystemCallArchitectures", "native");
  unit->set("SystemCallFilter", "@system-service");
  unit->set("SystemCallFilter", "~@privileged @resources");
  unit->set("SystemCallFilter", "mbind sched_setaffinity setpriority");
  unit->set("SystemCallErrorNumber", "EPERM");
}

void add_user(Unit* unit, const UnitFacts& facts) {
  unit->say(facts.user_comment);
  if (facts.user.empty()) {
    unit->set("DynamicUser", "yes");
  } else {
    unit->set("User", facts.user);
  }
  unit->set("StateDirectory", facts.state_folder);
  unit->set("StateDirectoryMode", "0700");
  unit->set("Environment", "HOME=%S/" + facts.state_folder);
  if (!facts.results.empty()) unit->set("BindPaths", "%S/" + facts.state_folder + ":" + facts.results);
}

std::string text_of(const UnitFacts& facts) {
  Unit unit;
  unit.section("Unit");
  unit.set("Description", facts.description);
  if (!facts.documentation.empty()) unit.set("Documentation", facts.documentation);
  unit.say("Model and data may lie on disks of other machines.");
  unit.set("After", "remote-fs.target" + (facts.socket.empty() ? "" : " " + facts.socket));
  if (!facts.socket.empty()) unit.set("Requires", facts.socket);
  unit.set("StartLimitIntervalSec", "1h");
  unit.set("StartLimitBurst", "20");
  unit.section("Service");
  unit.set("Type", "notify");
  unit.set("NotifyAccess", facts.has_ranks ? "all" : "main");
  unit.set("ExecStart", facts.start);
  unit.say(facts.again + " Settings, data and memory that are wrong stay wrong.");
  unit.set("Restart", "on-failure");
  unit.set("RestartSec", "5");
  unit.set("RestartPreventExitStatus", "2 3 4 7");
  unit.set("SuccessExitStatus", "129 130 143");
  unit.set("KillMode", "mixed");
  add_limits(&unit, facts);
  add_user(&unit, facts);
  add_sandbox(&unit, facts);
  unit.section("Install");
  unit.set("WantedBy", "multi-user.target");
  if (!facts.socket.empty()) unit.set("Also", facts.socket);
  return unit.text();
}

void describe_run(const std::string& name, std::int64_t timeout_seconds, std::int64_t last_seconds, UnitFacts* facts) {
  facts->name = name;
  facts->description = "Bascule run " + name;
  facts->again = "The same command resumes the run.";
  facts->watchdog =
      "Bascule ends a run that is silent for distributed.timeout_seconds. The watchdog ends one that can no longer do "
      "so.";
  facts->watchdog_seconds = timeout_seconds * 4 / 3 + 1;
  facts->stop_seconds = timeout_seconds + last_seconds + kSpareSeconds;
}

// Behind what describes the run before it, if there is one.
void describe_service(const std::string& name, const std::string& socket, const ServeSettings& serve,
                      UnitFacts* facts) {
  facts->name = name;
  facts->description = "Bascule service " + name;
  facts->socket = socket;
  const auto add = [](std::string* text, const char* sentence) {
    *text += std::string(text->empty() ? "" : " ") + sentence;
  };
  add(&facts->again, "Clients wait at the socket meanwhile.");
  add(&facts->watchdog, "The watchdog ends a service that has computed one batch for so long.");
  facts->watchdog_seconds = std::max(facts->watchdog_seconds, kLongestBatchSeconds);
  add(&facts->last_work, "The requests that were admitted: serve.drain_timeout_seconds.");
  facts->stop_seconds =
      std::max(facts->stop_seconds, static_cast<std::int64_t>(serve.drain_timeout_seconds) + 1 + kSpareSeconds);
}

// www-data is nginx's group on Debian.
std::string socket_text(const std::string& name, const std::string& listen) {
  Unit unit;
  unit.section("Unit");
  unit.set("Description", "Socket of Bascule service " + name);
  unit.section("Socket");
  unit.set("ListenStream", listen);
  unit.set("Backlog", "1024");
  if (listen.front() == '/') {
    unit.say("nginx's group, of Debian's package.");
    unit.set("SocketGroup", "www-data");
    unit.set("SocketMode", "0660");
  }
  unit.section("Install");
  unit.set("WantedBy", "sockets.target");
  return unit.text();
}

std::uint64_t most_memory(const MemoryPlan& plan, std::size_t processes) {
  return plan.peak_bytes() + memory_tolerance(plan.peak_bytes(), processes);
}

UnitFacts facts_of(const UnitRun& run, const UnitPlace& place) {
  const Settings& settings = run.settings;
  const std::string& output = settings.run.output_dir.resolved;
  std::vector<std::string> paths = run.reads;
  for (const std::string& path : {settings.model.model_name_or_path.resolved, settings.model.tokenizer_name.resolved,
                                  settings.origin.file, place.program})
    paths.push_back(path);
  std::set<std::string> places = places_of(paths);
  UnitFacts facts;
  facts.last_work = run.last_work;
  const bool trains = !only_serves(settings);
  if (trains) describe_run(plain_name(output), settings.distributed.timeout_seconds, run.last_seconds, &facts);
  if (settings.serve.is_given) describe_service(plain_name(run.name), run.socket, settings.serve, &facts);
  facts.start = word(place.program) + (settings.serve.is_given ? " serve" : " run");
  if (!place.settings_file.empty()) facts.start += " " + word(place.settings_file);
  for (const std::string& key : command_line_keys(settings)) facts.start += " " + word(key);
  facts.memory_comment =
      "The plan's " + std::to_string(run.plan.peak_bytes() >> 20) + " MiB, 3 % and 64 MiB for each process.";
  facts.memory = std::to_string(most_memory(run.plan, run.processes));
  facts.cores = cores_of(run, place.cores);
  facts.tasks = std::max(facts.tasks, run.threads + 256);
  facts.user_comment = trains ? "The run's folder belongs to a user that exists while the run does."
                              : "The user exists while the service runs; its access log lies here.";
  facts.state_folder = "bascule-" + facts.name;
  if (trains && output != "/var/lib/" + facts.state_folder) facts.results = path_value(output);
  facts.has_ranks = settings.distributed.world_size > 1;
  facts.generates_code = settings.machine.products != Products::kOurs;
  facts.locks_memory = settings.machine.lock_memory;
  facts.mounted = temporary_of(places);
  if (trains) places.merge(places_of({std::filesystem::path(output).parent_path().string()}));
  facts.reads_homes = std::any_of(places.begin(), places.end(), [](const std::string& read) {
    const std::string path = read + "/";
    return begins_with(path, "/home/") || begins_with(path, "/root/") || begins_with(path, "/run/user/");
  });
  warn_of_closed(places);
  return facts;
}

// The one folder that a unit may write to is output_dir.
void check_tracking(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return;
  const std::string store = tracking_store(settings);
  if (begins_with(store, absolute_path(settings.run.output_dir.resolved) + "/")) return;
  throw Error(ErrorKind::kSettings, where_written(settings, "report.tracking"),
              "report.tracking writes to " + store + ", but a unit may write to training.output_dir alone",
              "set report.tracking_dir to a folder in it");
}

// Where its files and its pictures are, which may lie anywhere.
void add_folders(const Manifest& manifest, std::set<std::string>* folders) {
  folders->insert(manifest.folder());
  for (const DataFile& file : manifest.files().manifests) folders->insert(file.path);
  folders->insert(manifest.files().shards.begin(), manifest.files().shards.end());
  if (!manifest.files().shards.empty()) return;
  for (std::int64_t picture = 0; picture < manifest.pictures(); ++picture)
    folders->insert(std::filesystem::path(manifest.picture_location(picture)).parent_path().string());
}

std::string template_text(UnitFacts facts, const std::string& program, const char* command) {
  facts.documentation = "man:bascule(1) man:bascule.toml(5)";
  facts.start = word(program) + command + "\"" + kSettingsFolder + "/%i.toml\"";
  facts.user = kServiceUser;
  facts.state_folder = "bascule/%i";
  facts.mounted = temporary_of({program});
  return text_of(facts);
}

UnitRun unit_run(const RecordedRun& run) {
  check_tracking(run.settings);
  const std::int64_t bytes = disk_demand(run, tensors_to_hold(run)).checkpoint_bytes;
  std::set<std::string> reads;
  for (const RecordedSplit& split : run.data.splits) add_folders(*split.manifest, &reads);
  for (const PathSetting* path : {&run.settings.run.resume_checkpoint, &run.settings.distributed.hostfile})
    if (path->is_given()) reads.insert(path->resolved);
  return {run.settings,
          run.plan,
          threads_of_ranks(run),
          run.plan.ranks,
          bytes > 0 ? "The update under way, and a checkpoint of " + std::to_string(bytes >> 20) +
                          " MiB on a disk that writes 32 MiB a second."
                    : "The batch under way.",
          bytes / kSlowDiskBytes,
          {reads.begin(), reads.end()}};
}

}  // namespace

std::string unit_text(const RecordedRun& run, const UnitPlace& place) {
  return text_of(facts_of(unit_run(run), place));
}

std::string unit_text(const RecordedDrawRun& run, const UnitPlace& place) {
  const std::int64_t seconds = divide_up(run.options.batch * run.picture_pixels(), kSlowlyDecodedPixels);
  return text_of(facts_of({run.settings, run.plan, threads_of_ranks(run), run.plan.ranks,
                           "The call of the UNet under way, or a batch that is being decoded, for which " +
                               std::to_string(seconds) + " s are allowed.",
                           seconds, draw_input_paths(run)},
                          place));
}

ServiceUnits service_units(const RecordedService& service, const RecordedRun* training, const UnitPlace& place,
                           const std::string& socket_unit) {
  const Settings& settings = training != nullptr ? training->settings : service.settings;
  const ServeSettings& serve = settings.serve;
  const std::string name = plain_name(service.name), folder = "/var/lib/bascule-" + name;
  if (serve.access_log.is_given() && !begins_with(serve.access_log.resolved, folder + "/"))
    throw Error(ErrorKind::kSettings, where_written(settings, "serve.access_log"),
                "serve.access_log is " + serve.access_log.shown() + ", but the unit may write to " + folder + " alone",
                "set it to a file in there");
  std::string listen = serve.listen;
  if (begins_with(listen, kUnixAddress)) listen = path_value(absolute_path(listen.substr(sizeof kUnixAddress - 1)));
  if (begins_with(listen, "localhost:")) listen.replace(0, 9, "127.0.0.1");
  UnitRun run = training != nullptr ? unit_run(*training) : UnitRun{settings, service.plan};
  if (most_memory(service.plan, 1) > most_memory(run.plan, run.processes)) {
    run.plan = service.plan;
    run.processes = 1;
  }
  run.threads = std::max(run.threads, static_cast<std::size_t>(service.threads));
  run.reads.push_back(serve.api_key_file.resolved);
  run.name = service.name;
  run.socket = socket_unit;
  return {text_of(facts_of(run, place)), socket_text(name, listen)};
}

std::string template_unit_text(const std::string& program) {
  constexpr std::int64_t kCheckpointBytes = std::int64_t{28} << 30;
  UnitFacts facts;
  describe_run("%i", DistributedSettings().timeout_seconds, kCheckpointBytes / kSlowDiskBytes, &facts);
  facts.last_work = "The update under way, and a checkpoint of " + std::to_string(kCheckpointBytes >> 30) +
                    " GiB on a disk that writes 32 MiB a second.";
  facts.user_comment =
      "output_dir of the settings is " + std::string(kResultsFolder) + "/%i, the one folder where it may write.";
  return template_text(std::move(facts), program, " run ");
}

std::string template_service_text(const std::string& program) {
  UnitFacts facts;
  describe_service("%i", "bascule-serve@%i.socket", ServeSettings(), &facts);
  facts.has_ranks = false;
  facts.user_comment =
      "An access log lies in " + std::string(kResultsFolder) + "/%i, the one folder where it may write.";
  return template_text(std::move(facts), program, " serve ");
}

std::string template_socket_text() { return socket_text("%i", "/run/bascule/%i.sock"); }

std::string service_user_text() {
  return std::string("u ") + kServiceUser + " - \"Bascule runs\" " + kResultsFolder + "\n";
}

}  // namespace bascule
