#include "gateway/process/upgrade_check.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "conf/json_parse.h"
#include "conf/node.h"
#include "conf/text.h"
#include "gateway/config/load.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/journal.h"
#include "gateway/ledger/segment.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "gateway/net/loop.h"
#include "gateway/net/postgres.h"
#include "gateway/process/applied_config.h"
#include "gateway/process/open_state.h"
#include "gateway/store/followed.h"
#include "gateway/store/import.h"
#include "gateway/store/postgres_schema.h"
#include "gateway/store/postgres_store.h"
#include "gateway/store/sqlite_file.h"

namespace gateway {
namespace {

using Effect = UpgradeFinding::Effect;

// The format of segments, as their first record has it.
constexpr uint64_t kSegmentFormat = 1;
// Of segments, from the newest on, in which the last start is looked for.
constexpr uint64_t kMostSearched = uint64_t{256} << 20;
constexpr size_t kMostKeysFile = size_t{64} << 20;
constexpr int kContentKeysVersion = 1;

// Asks the system, so that a folder that may not be read differs from one that is missing.
absl::StatusOr<bool> FindEntry(const std::string& path) {
  struct stat entry{};
  if (stat(path.c_str(), &entry) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return absl::FailedPreconditionError(
      conf::Abseil(fmt::format("{}: {}", path, std::generic_category().message(errno))));
}

// The schema of the tables in a database; nothing where there are none. Makes none.
net::Task<absl::StatusOr<std::optional<uint64_t>>> SchemaInDatabase(net::Loop& loop,
                                                                    store::PostgresStoreOptions options) {
  net::PostgresConnection connection(loop, options.server);
  if (absl::Status connected = co_await connection.Connect(options.connect_patience); !connected.ok())
    co_return connected;
  std::vector<net::PostgresStatement> ask;
  ask.push_back({"SELECT to_regclass('tidegate.meta') IS NOT NULL"});
  const auto there = co_await connection.Run(std::move(ask), options.patience);
  if (!there.ok()) co_return there.status();
  if (!there->at(0).Bool(0, 0)) co_return std::optional<uint64_t>();
  std::vector<net::PostgresStatement> read;
  read.push_back({"SELECT schema FROM tidegate.meta"});
  const auto found = co_await connection.Run(std::move(read), options.patience);
  if (!found.ok()) co_return found.status();
  if (found->at(0).size() != 1)
    co_return absl::DataLossError(fmt::format("{}: tidegate.meta is empty", connection.address()));
  co_return std::optional<uint64_t>(found->at(0).Number(0, 0));
}

class UpgradeReader {
 public:
  UpgradeReader(const Config& config, const conf::Sources& sources, UpgradeReport& out)
      : config_(config), sources_(sources), state_dir_(config.server.state_dir), out_(out) {}

  void ReadAll() {
    if (!There("state_dir", state_dir_)) {
      if (out_.findings.empty())
        Add("state_dir", Effect::kKept, fmt::format("{} does not exist yet; serve creates it", state_dir_));
      if (config_.state) ReadDatabase();
      return;
    }
    out_.process = store::GatewayWith(FollowedPath(config_));
    if (config_.state) {
      ReadDatabase();
    } else {
      ReadStore();
    }
    ReadSegments();
    ReadJournals();
    ReadContentKeys();
    ReadAppliedConfig();
    CompareVersions();
    if (out_.findings.empty())
      Add("state_dir", Effect::kKept,
          fmt::format("{} holds no state yet: there is nothing to check", state_dir_));
  }

 private:
  void Add(std::string part, Effect effect, std::string message) {
    out_.findings.push_back({std::move(part), effect, std::move(message)});
  }

  bool There(const std::string& part, const std::string& path) {
    const absl::StatusOr<bool> there = FindEntry(path);
    if (!there.ok()) Add(part, Effect::kUnread, std::string(conf::Std(there.status().message())));
    return there.ok() && *there;
  }

  void ReadStore() {
    const std::string path = StorePath(state_dir_);
    if (!There("store", path)) {
      for (const std::string& file : FilesBeforeStore(state_dir_)) {
        Add("store", Effect::kChanged,
            fmt::format("{}/{} is imported into the store, and renamed to *{}", state_dir_, file,
                        store::kImportedSuffix));
      }
      const std::string trace = TraceOfStore(state_dir_);
      if (!trace.empty()) {
        Add("store", Effect::kRefused,
            fmt::format("{} is missing, and {} shows that a gateway has kept its state here; restore it, or "
                        "run tidegate state rebuild",
                        path, trace));
      }
      return;
    }
    const absl::StatusOr<int64_t> schema = store::SqliteFile::SchemaOf(path);
    if (!schema.ok()) {
      Add("store", Effect::kUnread, std::string(conf::Std(schema.status().message())));
    } else {
      CompareSchema(path, static_cast<uint64_t>(*schema), static_cast<uint64_t>(store::kSqliteSchema));
    }
  }

  void ReadDatabase() {
    absl::StatusOr<store::PostgresStoreOptions> options = PostgresOptions(*config_.state);
    if (!options.ok())
      return Add("store", Effect::kUnread, std::string(conf::Std(options.status().message())));
    net::Loop loop([](const std::exception_ptr& error) { log::Exception("upgrade-check", error); });
    const auto schema = net::Await(loop, SchemaInDatabase(loop, *std::move(options)));
    loop.Stop();
    loop.Run();
    if (!schema.ok()) {
      Add("store", Effect::kUnread, std::string(conf::Std(schema.status().message())));
    } else if (!*schema) {
      Add("store", Effect::kChanged, "the database has no tables of Tidegate; the first start creates them");
    } else {
      CompareSchema("the database", **schema, store::kPostgresSchema);
    }
  }

  void CompareSchema(const std::string& where, uint64_t schema, uint64_t known) {
    if (schema == known) {
      Add("store", Effect::kKept, fmt::format("{} has schema {}, which this version uses", where, schema));
    } else if (schema < known) {
      Add("store", Effect::kChanged,
          fmt::format("{} has schema {}; the first start makes it schema {}, which older versions refuse: "
                      "back it up before the upgrade",
                      where, schema, known));
    } else {
      Add("store", Effect::kRefused,
          fmt::format("{} has schema {}, and this version knows schemas up to {}; run the version that "
                      "wrote it or a later one, or restore the backup made before its upgrade",
                      where, schema, known));
    }
  }

  // The newest segment says the format; the newest start record, the version.
  void ReadSegments() {
    const std::string dir = LedgerDir(config_);
    if (!There("ledger", dir)) return;
    const absl::StatusOr<std::vector<ledger::SegmentName>> segments = ledger::ListSegments(dir);
    if (!segments.ok()) {
      Add("ledger", Effect::kUnread, std::string(conf::Std(segments.status().message())));
      return;
    }
    uint64_t searched = 0;
    for (size_t i = segments->size(); i-- > 0 && out_.from.empty() && searched < kMostSearched;) {
      const ledger::SegmentName& segment = (*segments)[i];
      absl::StatusOr<ledger::LineReader> lines = ledger::LineReader::Open(segment.path);
      if (!lines.ok()) {
        Add("ledger", Effect::kUnread, std::string(conf::Std(lines.status().message())));
        return;
      }
      const bool newest = i + 1 == segments->size();
      bool first = true;
      while (true) {
        const absl::StatusOr<std::optional<std::string_view>> line = lines->Next();
        if (!line.ok() || !*line) break;  // `audit verify` reports damage
        const std::optional<ledger::LineParts> parts = ledger::SplitLine(**line);
        if (!parts) continue;
        if (first && newest) CheckFormat(segment.path, *parts);
        first = false;
        if (parts->kind == "start")
          out_.from = std::string(ledger::FindText(parts->body, "subject").value_or(""));
      }
      searched += lines->offset();
    }
  }

  void CheckFormat(const std::string& path, const ledger::LineParts& first) {
    const std::optional<uint64_t> format = ledger::FindUint(first.body, "format");
    if (!format) {
      Add("ledger", Effect::kUnread, fmt::format("{}: its first record does not name a format", path));
    } else if (*format == kSegmentFormat) {
      Add("ledger", Effect::kKept, fmt::format("segments have format {}, which this version uses", *format));
    } else {
      Add("ledger", *format > kSegmentFormat ? Effect::kRefused : Effect::kChanged,
          fmt::format("{} has format {}, and this version writes format {}", path, *format, kSegmentFormat));
    }
  }

  // Records that a gateway which was killed has not yet moved into a segment.
  void ReadJournals() {
    std::error_code error;
    std::filesystem::directory_iterator entry(LedgerDir(config_), error);
    std::vector<std::string> bad;
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      const std::string path = entry->path();
      if (!entry->path().filename().native().starts_with("journal-")) continue;
      const auto journal = ledger::ReadJournal(path);
      if (!journal.ok()) bad.emplace_back(conf::Std(journal.status().message()));
    }
    std::ranges::sort(bad);
    for (const std::string& why : bad) {
      Add("journals", Effect::kRefused,
          why + "; records of requests in it would be lost: stop the gateway with the version that wrote it");
    }
  }

  void ReadContentKeys() {
    const std::string path = ContentKeysPath(state_dir_);
    if (!There("content keys", path)) return;
    absl::StatusOr<std::string> text = net::ReadFile(path, kMostKeysFile);
    if (!text.ok()) {
      Add("content keys", Effect::kUnread, std::string(conf::Std(text.status().message())));
      return;
    }
    const nlohmann::json file = conf::ParseJson(*text);
    if (!file.is_object() || !file.contains("version") || !file["version"].is_number_integer()) {
      Add("content keys", Effect::kUnread, fmt::format("{}: is damaged", path));
    } else if (const int version = file["version"].get<int>(); version != kContentKeysVersion) {
      Add("content keys", Effect::kRefused,
          fmt::format("{} has version {}, and this version knows version {}", path, version,
                      kContentKeysVersion));
    }
  }

  // A restart reads the file again, so changes that were never loaded come into force with the upgrade.
  void ReadAppliedConfig() {
    const std::string path = AppliedConfigPath(state_dir_);
    if (!There("configuration", path)) return;
    const absl::StatusOr<std::string> applied = net::ReadFile(path, conf::ParseLimits().bytes);
    if (!applied.ok()) {
      Add("configuration", Effect::kUnread, std::string(conf::Std(applied.status().message())));
      return;
    }
    const LoadResult before = ParseConfig(*applied, path, sources_, config::ProbeThisMachine);
    if (!before.config) {
      Add("configuration", Effect::kChanged,
          fmt::format("{}, the configuration that was applied last, is refused by this version: {}", path,
                      conf::ToString(before.problems.front())));
    } else if (Hash(*before.config) != Hash(config_)) {
      Add("configuration", Effect::kChanged,
          fmt::format("the file differs from {}, which was applied last; the start applies the file", path));
    } else {
      Add("configuration", Effect::kKept, "the file is the one that was applied last");
    }
  }

  void CompareVersions() {
    if (out_.from.empty() || !IsOlderVersion(TIDEGATE_VERSION, out_.from)) return;
    Add("version", Effect::kChanged,
        fmt::format("this is a downgrade: version {} has run on this state folder, and records that only it "
                    "knows are skipped",
                    out_.from));
  }

  const Config& config_;
  const conf::Sources& sources_;
  const std::string state_dir_;
  UpgradeReport& out_;
};

// The number at the front of `text`, which loses it and a "." after it.
uint64_t TakeNumber(std::string_view& text) {
  uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with('.')) {
    text.remove_prefix(1);
  } else {
    text = {};
  }
  return number;
}

}  // namespace

bool UpgradeReport::Has(UpgradeFinding::Effect effect) const {
  return std::ranges::any_of(findings,
                             [effect](const UpgradeFinding& finding) { return finding.effect == effect; });
}

UpgradeReport CheckUpgrade(const Config& config, const conf::Sources& sources) {
  UpgradeReport out;
  UpgradeReader(config, sources, out).ReadAll();
  return out;
}

bool IsOlderVersion(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const uint64_t left = TakeNumber(a);
    const uint64_t right = TakeNumber(b);
    if (left != right) return left < right;
  }
  return false;
}

std::string_view Name(UpgradeFinding::Effect effect) {
  switch (effect) {
    case Effect::kKept:
      return "kept";
    case Effect::kChanged:
      return "changed";
    case Effect::kRefused:
      return "refused";
    case Effect::kUnread:
      return "unread";
  }
  return "";
}

}  // namespace gateway
