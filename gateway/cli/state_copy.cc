// tidegate state export, import, status: the store as a file, and what it is.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/config/state_files.h"
#include "gateway/control/gateways/gateways.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "gateway/net/loop.h"
#include "gateway/process/open_state.h"
#include "gateway/process/state_copy.h"
#include "gateway/store/followed.h"
#include "gateway/store/gateway_view.h"
#include "gateway/store/postgres_schema.h"
#include "gateway/store/sqlite_file.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

constexpr conf::Duration kCopyPatience = std::chrono::minutes(10);
constexpr size_t kMostCopyBytes = size_t{2} << 30;
constexpr char kImporter[] = "tidegate state import";

struct StateOptions {
  std::shared_ptr<std::string> config;
  std::string file;
  bool replace = false;
  bool json = false;
};

// The store of a configuration, for one command.
class OpenStore {
 public:
  explicit OpenStore(const Config& config) : store_(OpenBareState(loop_, config, kCopyPatience)) {}
  ~OpenStore() {
    if (store_.ok()) store_->reset();
    loop_.Stop();
    loop_.Run();
  }

  absl::Status status() const { return store_.status(); }
  store::Store& operator*() { return **store_; }
  template <class T>
  T Await(net::Task<T> task) {
    return net::Await(loop_, std::move(task));
  }
  // A gateway that uses the store, as far as it tells of itself there; empty: none.
  absl::StatusOr<std::string> Living() { return Await(control::LivingGateway(loop_, **store_)); }

 private:
  net::Loop loop_{[](const std::exception_ptr& error) { log::Exception("state", error); }};
  absl::StatusOr<std::unique_ptr<store::Store>> store_;
};

int ExportState(const StateOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  OpenStore open(*config);
  if (!open.status().ok()) return Fail(open.status());
  auto all = open.Await((*open).List(""));
  if (!all.ok()) return Fail(all.status());
  const StateCopy copy{all->number, std::move(all->objects)};
  if (const absl::Status written = net::ReplaceFile(options.file, WriteStateCopy(copy), 0600); !written.ok())
    return Fail(written);
  if (options.json) {
    fmt::print("{}\n",
               AsText({{"file", options.file}, {"objects", copy.objects.size()}, {"number", copy.number}}));
  } else {
    fmt::print("Exported {}, up to change {}, to {}. The file has secrets: keep it as you keep keys.\n",
               Counted(copy.objects.size(), "object"), copy.number, options.file);
  }
  return kOk;
}

// Why no import is possible now; Ok: no gateway uses the store. The lead of a shared store is taken, so that
// no gateway begins to drive meanwhile.
absl::Status TakeStore(OpenStore& open, const Config& config, uint64_t& epoch) {
  if (const int process = store::GatewayWith(FollowedPath(config)); process != 0) {
    return absl::FailedPreconditionError(
        fmt::format("a gateway (process {}) runs on {}; stop it first", process, config.server.state_dir));
  }
  const auto living = open.Living();
  if (!living.ok()) return living.status();
  if (!living->empty()) {
    return absl::FailedPreconditionError(
        fmt::format("the gateway {} uses this store; stop all gateways first", *living));
  }
  const auto lead = open.Await((*open).Campaign(kImporter, "", kCopyPatience));
  if (!lead.ok()) return lead.status();
  if (!lead->mine) {
    return absl::FailedPreconditionError(
        fmt::format("the gateway {} leads with this store; stop all gateways first", lead->holder));
  }
  epoch = lead->epoch;
  return absl::OkStatus();
}

int ImportState(const StateOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  const absl::StatusOr<std::string> text = ReadWhole(options.file, kMostCopyBytes);
  if (!text.ok()) return Fail(text.status());
  const absl::StatusOr<StateCopy> copy = ReadStateCopy(*text);
  if (!copy.ok()) {
    return Fail(absl::Status(copy.status().code(),
                             fmt::format("{}: {}", options.file, conf::Std(copy.status().message()))));
  }
  const absl::StatusOr<std::string> gateway = GatewayId(config->server.state_dir);
  if (!gateway.ok()) return Fail(gateway.status());
  OpenStore open(*config);
  if (!open.status().ok()) return Fail(open.status());
  uint64_t epoch = 0;
  if (const absl::Status taken = TakeStore(open, *config, epoch); !taken.ok()) return Fail(taken);
  const absl::Status imported = [&]() -> absl::Status {
    const auto stored = open.Await((*open).List(""));
    if (!stored.ok()) return stored.status();
    if (!stored->objects.empty() && !options.replace) {
      return absl::FailedPreconditionError(
          fmt::format("the store has {} already; export them, and give --replace to replace them all",
                      Counted(stored->objects.size(), "object")));
    }
    const bool shared = config->state.has_value();
    std::vector<store::Write> writes = WritesOf(*copy, stored->objects, *gateway, shared);
    ledger::Event event;
    event.action = "state.import";
    event.actor = Actor();
    event.subject = options.file;
    event.detail =
        ordered_json{
            {"objects", copy->objects.size()}, {"number", copy->number}, {"replaced", stored->objects.size()}}
            .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    writes.push_back(StoredEvent(std::move(event)));
    if (shared) writes.back().id = store::IdOfGateway(writes.back().id, *gateway);
    if (absl::Status skipped = open.Await((*open).SkipTo(copy->number)); !skipped.ok()) return skipped;
    return open.Await((*open).Commit(std::move(writes), epoch)).status();
  }();
  const absl::Status resigned = open.Await((*open).Resign(kImporter, epoch));
  if (!imported.ok()) return Fail(imported);
  if (!resigned.ok()) return Fail(resigned);
  if (options.json) {
    fmt::print("{}\n",
               AsText({{"file", options.file}, {"objects", copy->objects.size()}, {"number", copy->number}}));
  } else {
    fmt::print("Imported {} from {}. The gateways can start.\n", Counted(copy->objects.size(), "object"),
               options.file);
  }
  return kOk;
}

int ShowState(const StateOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  OpenStore open(*config);
  if (!open.status().ok()) return Fail(open.status());
  const auto all = open.Await((*open).List(""));
  if (!all.ok()) return Fail(all.status());
  const auto lead = open.Await((*open).Leader());
  if (!lead.ok()) return Fail(lead.status());
  std::map<std::string, uint64_t> kinds;
  for (const store::Object& object : all->objects) ++kinds[object.kind];
  const bool shared = config->state.has_value();
  const std::string where = shared ? config->state->url : StorePath(config->server.state_dir);
  const uint64_t schema = shared ? store::kPostgresSchema : uint64_t{store::kSqliteSchema};
  if (options.json) {
    ordered_json leader;
    if (lead->epoch != 0) leader = {{"epoch", lead->epoch}, {"holder", lead->holder}, {"about", lead->about}};
    fmt::print("{}\n", AsText({{"backend", shared ? "postgresql" : "sqlite"},
                               {"where", where},
                               {"schema", schema},
                               {"number", all->number},
                               {"objects", kinds},
                               {"leader", std::move(leader)}}));
    return kOk;
  }
  fmt::print("Backend      {}\nWhere        {}\nSchema       {}\nLast change  {}\nLeader       {}\n\n",
             shared ? "PostgreSQL" : "SQLite", where, schema, all->number,
             lead->epoch == 0 ? "none" : fmt::format("{} (epoch {})", lead->holder, lead->epoch));
  Table table({{"KIND"}, {"OBJECTS", true}});
  for (const auto& [kind, count] : kinds) table.Add({kind, std::to_string(count)});
  fmt::print("{}", table.Render());
  return kOk;
}

}  // namespace

void AddStateCopies(CLI::App& state, Run& run) {
  auto exporting = std::make_shared<StateOptions>();
  CLI::App* to_file = state.add_subcommand("export", "Write the store into a file, secrets included");
  exporting->config = AddConfigOption(*to_file);
  to_file->add_option("FILE", exporting->file, "The file, of mode 0600")->required();
  to_file->add_flag("--json", exporting->json, "Print JSON");
  to_file->footer(
      "The file has one line of JSON per object and a checksum at its end. A gateway may run meanwhile: "
      "the file is a consistent snapshot.\n\n"
      "Examples:\n"
      "  tidegate state export state.jsonl --config tidegate.yaml");
  to_file->callback([exporting, &run] { run = [exporting] { return ExportState(*exporting); }; });

  auto importing = std::make_shared<StateOptions>();
  CLI::App* from_file =
      state.add_subcommand("import", "Fill a store with what state export wrote, while no gateway runs");
  importing->config = AddConfigOption(*from_file);
  from_file->add_option("FILE", importing->file, "The file")->required();
  from_file->add_flag("--replace", importing->replace, "Replace what the store has");
  from_file->add_flag("--json", importing->json, "Print JSON");
  from_file->footer(
      "All objects are imported, or none. Moves a gateway from the file of its state_dir to PostgreSQL, or "
      "back: export, change state in the configuration, import.\n\n"
      "Examples:\n  tidegate state import state.jsonl --config tidegate.yaml\n"
      "  tidegate state import state.jsonl --replace");
  from_file->callback([importing, &run] { run = [importing] { return ImportState(*importing); }; });

  auto showing = std::make_shared<StateOptions>();
  CLI::App* status = state.add_subcommand("status", "Show where the store is, what it holds and who leads");
  showing->config = AddConfigOption(*status);
  status->add_flag("--json", showing->json, "Print JSON");
  status->footer("Examples:\n  tidegate state status --config tidegate.yaml");
  status->callback([showing, &run] { run = [showing] { return ShowState(*showing); }; });
}

}  // namespace gateway::cli
