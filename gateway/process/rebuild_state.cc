#include "gateway/process/rebuild_state.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/audit/stored_position.h"
#include "gateway/batches/batch.h"
#include "gateway/batches/bucket_removals.h"
#include "gateway/batches/stored_file.h"
#include "gateway/config/state_files.h"
#include "gateway/control/launching/open_launcher.h"
#include "gateway/control/launching/replica_keys.h"
#include "gateway/control/learned/model_memory.h"
#include "gateway/control/models/adapter.h"
#include "gateway/control/models/model_order.h"
#include "gateway/control/models/rollout.h"
#include "gateway/control/planning/cordon.h"
#include "gateway/control/workloads/workload_record.h"
#include "gateway/ledger/tail.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/people/grant.h"
#include "gateway/people/project.h"
#include "gateway/process/ledger_options.h"
#include "gateway/process/open_state.h"
#include "gateway/process/state_owner.h"
#include "gateway/store/followed.h"
#include "gateway/store/kinds.h"
#include "gateway/store/salvage.h"
#include "gateway/store/sqlite_file.h"
#include "plugins/auth/key_record.h"
#include "plugins/launchers/run_folder.h"

namespace gateway {
namespace {

using nlohmann::json;

constexpr conf::Duration kLauncherPatience = std::chrono::seconds(30);
constexpr conf::Duration kLauncherPause = std::chrono::milliseconds(200);
constexpr size_t kRecordsAtOnce = 4096;
constexpr size_t kBytesAtOnce = 4 << 20;
constexpr size_t kKindWithin = 96;
constexpr size_t kMaxPosition = 256;
constexpr char kDamaged[] = ".damaged-";
constexpr char kRebuilt[] = ".rebuilt";

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// --- What is wrong with the store ---

// Whether the objects of a file that is sound as a database can be read.
absl::Status CheckObjects(store::SqliteFile& file, const Config& config) {
  const auto keys = file.List(store::kKey);
  if (!keys.ok()) return keys.status();
  for (const store::Object& key : keys->objects) {
    if (const auto read = plugins::auth::DecodeKey(key.body); !read.ok())
      return absl::DataLossError(fmt::format("key {}: {}", key.id, conf::Std(read.status().message())));
  }
  const auto workloads = file.List(store::kWorkload);
  if (!workloads.ok()) return workloads.status();
  const auto submissions = file.List(store::kSubmission);
  if (!submissions.ok()) return submissions.status();
  const scheduler::Cluster none;
  return control::ReadWorkloads(workloads->objects, submissions->objects,
                                config.scaling ? config.scaling->nodes : none)
      .status();
}

// DataLoss says what is wrong; Ok: nothing is.
absl::Status CheckStore(const std::string& path, const Config& config) {
  store::SqliteFile::Options options;
  options.path = path;
  options.may_be_new = false;
  const auto file = store::SqliteFile::Open(std::move(options));
  return file.ok() ? CheckObjects(**file, config) : file.status();
}

// --- What is known ---

class Histories {
 public:
  explicit Histories(const scheduler::Cluster& cluster) : workloads(cluster) {}

  absl::Status Read(const std::string& ledger_dir) {
    if (!IsThere(ledger_dir)) return absl::OkStatus();
    ledger::Tail tail(ledger_dir, 0);
    ledger::RecordParser parser;
    ledger::Record record;
    while (true) {
      const auto batch = tail.Read(kRecordsAtOnce, kBytesAtOnce);
      if (!batch.ok()) return batch.status();
      if (batch->lines.empty()) return absl::OkStatus();
      records += batch->lines.size();
      for (const ledger::Tail::Line& line : batch->lines) {
        const std::string_view head = std::string_view(line.text).substr(0, kKindWithin);
        const bool tells = head.find("\"kind\":\"key\"") != std::string_view::npos ||
                           head.find("\"kind\":\"action\"") != std::string_view::npos ||
                           (!signed_in && head.find("\"kind\":\"admin\"") != std::string_view::npos);
        // A record that is damaged tells nothing; `audit verify` names it.
        if (tells && parser.Parse(line.text, &record).ok()) Take(record);
      }
    }
  }

  uint64_t records = 0;
  bool signed_in = false;  // somebody; the record does not name the role
  KeyHistory keys;
  control::WorkloadHistory workloads;
  std::map<std::string, std::optional<std::string>> cordons;  // bodies; none: lifted
  std::map<std::string, control::OrdersOfModel> orders;       // by model
  std::map<std::string, control::Adapter> adapters;           // by id
  std::map<std::string, control::Rollout> rollouts;           // by model

 private:
  void Take(const ledger::Record& record) {
    if (record.kind == ledger::Kind::kAdmin) {
      signed_in = signed_in || record.action == "session.begin";
      return;
    }
    keys.Take(record);
    workloads.Take(record);
    const conf::TimePoint at_time = conf::FromUnixMicros(record.time_us);
    if (control::TakeRecord(
            control::AdapterRecord{record.action, record.actor, record.subject, record.detail, at_time},
            adapters) ||
        control::TakeRecord(
            control::RolloutRecord{record.action, record.actor, record.subject, record.detail, at_time},
            rollouts))
      return;
    control::OrdersOfModel of_model;
    if (const auto at = orders.find(std::string(record.subject)); at != orders.end()) of_model = at->second;
    if (TakeRecord({.action = record.action,
                    .actor = record.actor,
                    .detail = record.detail,
                    .at = conf::FromUnixMicros(record.time_us)},
                   of_model)) {
      orders[std::string(record.subject)] = std::move(of_model);
      return;
    }
    std::optional<control::Cordon> cordon = control::CordonOfId(record.subject);
    if (!cordon) return;
    if (record.action == control::kUncordonAction || record.action == control::kUndrainAction)
      cordons[record.subject].reset();
    cordon->drains = record.action == control::kDrainAction;
    if (record.action != control::kCordonAction && !cordon->drains) return;
    const json detail = conf::ParseJson(record.detail);
    if (detail.is_object()) cordon->reason = detail.value("reason", "");
    cordon->by = record.actor;
    cordon->since = conf::FromUnixMicros(record.time_us);
    cordons[record.subject] = BodyOf(*cordon);
  }
};

// What the launcher has.
struct Running {
  std::vector<plugins::launchers::RunStatus> runs{};
  scheduler::Cluster cluster{};  // of a launcher that finds the nodes
};

net::Task<absl::StatusOr<Running>> ListRuns(net::Loop& loop, plugins::launchers::Launcher& launcher) {
  const conf::TimePoint until = net::Now() + kLauncherPatience;
  net::Sleep pause(loop.watchdog);
  while (true) {
    auto runs = co_await launcher.List();
    const plugins::launchers::FoundCluster* const found = launcher.found();
    if (runs.ok() && found != nullptr && found->version == 0)
      runs = absl::UnavailableError(fmt::format("the nodes of {} are not known yet", launcher.name()));
    if (runs.ok() || net::Now() >= until) {
      Running running;
      if (found != nullptr) running.cluster = found->cluster;
      co_await launcher.Close();
      if (!runs.ok()) co_return runs.status();
      running.runs = *std::move(runs);
      co_return running;
    }
    co_await pause.For(kLauncherPause);
  }
}

absl::StatusOr<Running> FindRuns(net::Loop& loop, const Config& config) {
  if (!config.scaling) return Running();
  const auto launcher = control::OpenLauncher(loop, config, control::RunUsers(), nullptr);
  if (!launcher.ok()) return launcher.status();
  return net::Await(loop, ListRuns(loop, **launcher));
}

// --- The files ---

// A try that was killed has put the log of changes aside, and not yet the file.
absl::Status TakeBackLog(const std::string& path) {
  struct stat file{};
  if (IsThere(path + "-wal") || stat(path.c_str(), &file) != 0) return absl::OkStatus();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path();
    struct stat aside{};
    const bool same = name.starts_with(path + kDamaged) && stat(name.c_str(), &aside) == 0 &&
                      aside.st_ino == file.st_ino && aside.st_dev == file.st_dev;
    if (same && IsThere(name + "-wal")) return net::RenameFile(name + "-wal", path + "-wal");
  }
  return absl::OkStatus();
}

absl::Status WriteStore(const std::string& path, uint64_t number, const std::vector<store::Write>& writes) {
  for (const char* part : {"", "-wal", "-shm"}) {
    if (absl::Status removed = net::RemoveFile(path + part); !removed.ok()) return removed;
  }
  store::SqliteFile::Options options;
  options.path = path;
  const auto file = store::SqliteFile::Open(std::move(options));
  if (!file.ok()) return file.status();
  if (absl::Status skipped = (*file)->SkipTo(number); !skipped.ok()) return skipped;
  return writes.empty() ? absl::OkStatus() : (*file)->Commit(writes).status();
}

// `fresh` takes the place of `path`, whose content stays under the name `aside`.
absl::Status PutInPlace(const std::string& path, const std::string& fresh, const std::string& aside) {
  if (IsThere(path) && link(path.c_str(), aside.c_str()) != 0) {
    if (absl::Status renamed = net::RenameFile(path, aside); !renamed.ok()) return renamed;
  }
  // The log of one database would be taken for the other's.
  if (IsThere(path + "-wal")) {
    if (absl::Status renamed = net::RenameFile(path + "-wal", aside + "-wal"); !renamed.ok()) return renamed;
  }
  if (absl::Status removed = net::RemoveFile(path + "-shm"); !removed.ok()) return removed;
  return net::RenameFile(fresh, path);
}

std::string AsideOf(const std::string& path, conf::TimePoint now) {
  std::string at = conf::FormatTime(now).substr(0, 19);
  std::erase_if(at, [](char c) { return c == '-' || c == ':'; });
  std::string name = path + kDamaged + at;
  for (int i = 2; IsThere(name); ++i) name = fmt::format("{}{}{}.{}", path, kDamaged, at, i);
  return name;
}

// --- What is written ---

void TakeCordons(const Histories& histories, const std::vector<store::Object>& stored, RebuiltState& out,
                 std::vector<store::Write>& writes) {
  std::map<std::string, std::optional<std::string>> cordons = histories.cordons;
  for (const store::Object& object : stored) {
    if (object.kind == store::kCordon && control::ReadCordon(object.id, object.body).ok())
      cordons.try_emplace(object.id, object.body);
  }
  for (auto& [id, body] : cordons) {
    if (!body) continue;
    writes.push_back(store::Write::Create(store::kCordon, id, *std::move(body)));
    ++out.cordons;
  }
}

void TakeModels(const Histories& histories, std::vector<store::Write>& writes) {
  for (const auto& [id, adapter] : histories.adapters)
    writes.push_back(store::Write::Create(store::kAdapter, id, BodyOf(adapter)));
  for (const auto& [model, rollout] : histories.rollouts)
    writes.push_back(store::Write::Create(store::kRollout, model, BodyOf(rollout)));
}

// The ledger has every order; the store adds none.
void TakeOrders(const Histories& histories, std::vector<store::Write>& writes) {
  for (const auto& [model, orders] : histories.orders) {
    if (!orders.empty()) writes.push_back(store::Write::Create(store::kModelOrder, model, BodyOf(orders)));
  }
}

// Tenants made at run time, their members, grants and requests; what cannot be read would have no effect.
void TakePeople(const std::vector<store::Object>& stored, std::vector<store::Write>& writes) {
  for (const store::Object& object : stored) {
    const bool readable = object.kind == store::kTenant    ? DecodeProject(object.body).ok()
                          : object.kind == store::kMember  ? DecodeMember(object.body).ok()
                          : object.kind == store::kGrant   ? DecodeGrant(object.body).ok()
                          : object.kind == store::kRequest ? DecodeRequest(object.body).ok()
                                                           : object.kind == store::kThreshold;
    if (readable) writes.push_back(store::Write::Create(object.kind, object.id, object.body));
  }
}

// That there was an admin turns the bootstrap key off for good. Somebody who signed in may have been none; the key stays
// off all the same, since the shell of this machine makes another admin key.
void TakeFirstAdmin(const Config& config, const Histories& histories,
                    const std::vector<store::Object>& stored, RebuiltState& out,
                    std::vector<store::Write>& writes) {
  out.had_admin = histories.signed_in || histories.keys.had_admin_key() ||
                  std::ranges::any_of(stored, [](const store::Object& object) {
                    if (object.kind != store::kKey) return object.kind == store::kFirstAdmin;
                    const auto key = plugins::auth::DecodeKey(object.body);
                    return key.ok() && key->role == plugins::auth::Role::kAdmin;
                  });
  if (out.had_admin) {
    writes.push_back(store::Write::Create(store::kFirstAdmin, store::kFirstAdminId, "{}"));
  } else {
    out.bootstrap_works = !config.admin.bootstrap_key.empty();
  }
}

// What scaling has learned; without it, the laws learn anew.
void TakeMemories(const Config& config, const std::vector<store::Object>& stored, RebuiltState& out,
                  std::vector<store::Write>& writes) {
  for (const store::Object& object : stored) {
    if (object.kind != store::kModelMemory || !control::ReadModelMemory(object.id, object.body).ok())
      continue;
    writes.push_back(store::Write::Create(object.kind, object.id, object.body));
    out.learned.push_back(object.id);
  }
  if (out.read_whole || !config.scaling) return;
  for (const config::ModelPolicy& policy : config.scaling->models) {
    if (std::ranges::find(out.learned, policy.model()) == out.learned.end())
      out.learned_anew.push_back(policy.model());
  }
}

// Files and batches of applications; where a batch goes on, its result files say.
void TakeBatches(const std::vector<store::Object>& stored, std::vector<store::Write>& writes) {
  for (const store::Object& object : stored) {
    const bool readable = object.kind == store::kFile    ? batches::DecodeFile(object.body).ok()
                          : object.kind == store::kBatch ? batches::DecodeBatch(object.body).ok()
                                                         : object.kind == store::kFileRemoval &&
                                                               batches::DecodeRemoval(object.body).ok();
    if (readable) writes.push_back(store::Write::Create(object.kind, object.id, object.body));
  }
}

// Without what the keys of replicas are made of, engines that run refuse the gateway, and are replaced.
void TakeSecrets(const std::vector<store::Object>& stored, const std::string& state_dir,
                 std::vector<store::Write>& writes) {
  absl::StatusOr<std::string> copy = control::ReplicaKeys::ReadCopy(ReplicaSecretPath(state_dir));
  for (const store::Object& object : stored) {
    if (object.kind == store::kSecret && (object.id != store::kReplicaKeys || !copy.ok()))
      writes.push_back(store::Write::Create(object.kind, object.id, object.body));
  }
  if (copy.ok())
    writes.push_back(store::Write::Create(store::kSecret, store::kReplicaKeys, *std::move(copy)));
}

// The ledger does not say how far its readers have come.
void TakePositions(const Config& config, const std::vector<store::Object>& stored, RebuiltState& out,
                   std::vector<store::Write>& writes) {
  std::vector<std::string> known;
  for (const store::Object& object : stored) {
    if (object.kind == store::kImport)
      writes.push_back(store::Write::Create(object.kind, object.id, object.body));
    if (object.kind != store::kPosition || object.body.size() > kMaxPosition) continue;
    writes.push_back(store::Write::Create(object.kind, object.id, object.body));
    known.push_back(object.id);
  }
  out.positions = known.size();
  for (const config::Sink& sink : config.ledger.sinks) {
    if (std::ranges::find(known, ReaderOfSink(sink.name)) == known.end()) out.sinks_anew.push_back(sink.name);
  }
}

absl::Status WriteDown(const Config& config, const RebuiltState& state) {
  auto ledger = ledger::Ledger::Open(LedgerOptions(config));
  if (!ledger.ok()) return ledger.status();
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "state.rebuild";
  event.actor = "cli";
  event.subject = StorePath(config.server.state_dir);
  event.detail = json{{"damage", state.damage},
                      {"kept_as", state.kept_as},
                      {"keys", state.keys},
                      {"lost_keys", state.lost_keys.size()},
                      {"had_admin", state.had_admin},
                      {"learned", state.learned},
                      {"learned_anew", state.learned_anew},
                      {"replicas", state.workloads.replicas.size()},
                      {"running_jobs", state.workloads.running.size()},
                      {"waiting_jobs", state.workloads.waiting.size()}}
                     .dump(-1, ' ', false, json::error_handler_t::replace);
  const absl::Status recorded = (*ledger)->Append(event);
  const absl::Status stopped = (*ledger)->Stop();
  return recorded.ok() ? stopped : recorded;
}

}  // namespace

absl::StatusOr<RebuiltState> RebuildState(net::Loop& loop, const Config& config) {
  if (config.state) {
    return absl::FailedPreconditionError(
        "the state is in a PostgreSQL database, which this command does not rebuild: restore a backup of "
        "the database; the gateways continue from it");
  }
  const std::string path = StorePath(config.server.state_dir);
  if (!IsThere(path) && TraceOfStore(config.server.state_dir).empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: nothing shows that a gateway has kept its state here, so there is nothing to rebuild", path));
  }
  const uint64_t followed = store::LastFollowed(FollowedPath(config));
  store::Followed lock;  // held for as long as this runs
  if (absl::Status locked = lock.Open(FollowedPath(config)); !locked.ok()) return locked;
  lock.Set(followed);
  if (absl::Status taken = TakeBackLog(path); !taken.ok()) return taken;

  RebuiltState out;
  const absl::Status damage = CheckStore(path, config);
  if (damage.ok()) {
    return absl::FailedPreconditionError(fmt::format("{}: is sound, so there is nothing to rebuild", path));
  }
  if (!absl::IsDataLoss(damage)) return damage;
  out.damage = conf::Std(damage.message());

  const absl::StatusOr<store::Salvaged> salvaged = store::Salvage(path);
  if (!salvaged.ok()) return salvaged.status();
  out.read_whole = salvaged->complete;
  auto running = FindRuns(loop, config);
  if (!running.ok()) return running.status();
  const bool listed = config.scaling && !config::FindsNodes(*config.scaling);
  Histories histories(listed ? config.scaling->nodes : running->cluster);
  if (absl::Status read = histories.Read(LedgerDir(config)); !read.ok()) return read;
  out.ledger_records = histories.records;

  KeyHistory::Rebuilt keys = histories.keys.Rebuild(salvaged->objects, net::Now());
  std::vector<store::Write> writes = std::move(keys.writes);
  out.keys = keys.kept;
  out.lost_keys = std::move(keys.lost);
  out.workloads = histories.workloads.Rebuild(
      {.stored = salvaged->objects,
       .runs = std::move(running->runs),
       .record_of = [&](const std::string& run) {
         return plugins::launchers::RunFolder(LauncherDir(config.server.state_dir) + "/runs/" + run).Load();
       }});
  std::ranges::move(out.workloads.writes, std::back_inserter(writes));
  out.workloads.writes.clear();
  TakeCordons(histories, salvaged->objects, out, writes);
  TakeOrders(histories, writes);
  TakeModels(histories, writes);
  TakeMemories(config, salvaged->objects, out, writes);
  TakeFirstAdmin(config, histories, salvaged->objects, out, writes);
  TakePeople(salvaged->objects, writes);
  TakeBatches(salvaged->objects, writes);
  TakeSecrets(salvaged->objects, config.server.state_dir, writes);
  TakePositions(config, salvaged->objects, out, writes);

  const std::string aside = AsideOf(path, net::Now());
  if (IsThere(path)) out.kept_as = aside;
  const uint64_t skipped = std::max(salvaged->last, followed);
  if (absl::Status written = WriteStore(path + kRebuilt, skipped, writes); !written.ok()) return written;
  out.number = skipped + writes.size();
  if (absl::Status recorded = WriteDown(config, out); !recorded.ok()) return recorded;
  if (absl::Status exchanged = PutInPlace(path, path + kRebuilt, aside); !exchanged.ok()) return exchanged;
  GiveToOwner(config.server.state_dir);
  return out;
}

}  // namespace gateway
