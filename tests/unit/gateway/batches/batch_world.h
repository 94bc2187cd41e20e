// Files and batches over a store that a test has, and lines that are answered as it says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/batches/batches.h"
#include "gateway/batches/kept_file.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/shard/shared.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/support/s3_server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/batches/stored_files.h"

namespace gateway::batches {

inline constexpr std::string_view kUrl = "/v1/chat/completions";

inline std::string InputLineOf(int number, std::string_view model) {
  return fmt::format(
      R"({{"custom_id":"{}","method":"POST","url":"{}","body":{{"model":"{}","messages":[]}}}})"
      "\n",
      number, kUrl, model);
}

// Files and batches over a store and a folder that outlive them, and lines that are answered as a test says.
struct World {
  // `bucket`: an option of files in flow form, or nothing. `of`: a store that other worlds use, too.
  explicit World(tests::TestLoop& on, std::string_view bucket = "", tests::MemoryStore* of = nullptr,
                 Sharing with = {}, const std::string& master = "")
      : loop(on), store(of == nullptr ? own_store : *of), sharing(std::move(with)) {
    ledger::ContentKeys::Options of_keys{.path = dir / "keys.json", .master_path = dir / "content.key"};
    if (!master.empty()) of_keys.masters = {master};
    keys = ledger::ContentKeys::Open(std::move(of_keys)).value();
    const std::string text = fmt::format(
        "server: {{listen: '127.0.0.1:0', state_dir: {}}}\ntenants: [{{name: demo, models: ['*']}}]\n"
        "files: {{tenant_bytes: 1MiB, file_bytes: 64KiB, tenant_files: 8{}}}\n"
        "batches: {{max_in_flight: 3, tenant_batches: 2}}\n"
        "models:\n  - {{name: a, endpoints: [{{url: 'http://127.0.0.1:1', engine: vllm}}]}}\n"
        "  - {{name: b, endpoints: [{{url: 'http://127.0.0.1:1', engine: vllm}}]}}\n",
        dir.path(), bucket);
    LoadResult loaded = ParseConfig(text, "t.yaml", SystemSources());
    for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
    runtime = *Runtime::Build(*std::move(loaded.config), shared.learned(), net::Now());
    auto caller = std::make_shared<Principal>();
    caller->tenant = "demo";
    caller->key = "key_1";
    caller->models.assign(2, true);
    caller->apis = config::ApiSet::All();
    principal = std::move(caller);
  }

  net::Task<void> Open() {
    files = std::make_unique<Files>(
        loop, store, keys.get(), dir / "files", [this] { return runtime->config().files; }, sharing);
    batches = std::make_unique<Batches>(
        loop, store, *files,
        Batches::Environment{
            .runtime = [this] { return runtime; },
            .principal = [this](const std::string&, const std::string&) { return principal; },
            .send = [this](LineCall call) { return Send(std::move(call)); },
            .sharing = sharing});
    EXPECT_TRUE((co_await files->Start()).ok());
    EXPECT_TRUE((co_await batches->Start()).ok());
    files->Begin();
    batches->Begin();
  }
  // As a kill leaves it, but for its tasks, which end soon.
  void Halt() {
    batches->Stop();
    files->Stop();
  }
  // Where no other world has tasks.
  net::Task<void> Close() {
    Halt();
    net::Sleep sleep(loop.watchdog);
    while (loop.tasks.running() > 1) co_await sleep.For(net::Watchdog::kTick);
    batches.reset();
    files.reset();
  }

  net::Task<LineAnswer> Send(LineCall call) {
    ++sent[call.request_id.substr(call.request_id.find(':') + 1)];
    most_at_once = std::max(most_at_once, ++now_running);
    net::Sleep sleep(loop.watchdog);
    bool cut = false;
    call.on_begun([&] {
      cut = true;
      sleep.Cancel();
    });
    co_await sleep.For(takes);
    --now_running;
    if (cut) co_return LineAnswer();
    co_return answer(call);
  }

  net::Task<Result<StoredFile>> Upload(std::string text) {
    const auto place = std::get<Files::Place>(co_await files->Hold("demo", 1000));
    absl::StatusOr<KeptFile> upload = KeptFile::Create(place.path, place.key);
    EXPECT_TRUE(upload.ok() && upload->Append(text).ok()) << upload.status();
    co_return co_await files->Keep(
        {.id = place.id, .tenant = "demo", .purpose = Purpose::kBatch, .bytes = text.size()}, net::Now());
  }
  net::Task<std::string> Begin(int lines, std::string_view model = "a",
                               conf::TimePoint created_at = net::Now()) {
    std::string text;
    for (int i = 1; i <= lines; ++i) text += InputLineOf(i, model);
    const Result<StoredFile> kept = co_await Upload(text);
    auto created = co_await batches->Create(
        {.principal = principal, .input_file = std::get<StoredFile>(kept).id, .endpoint = std::string(kUrl)},
        created_at);
    if (auto* const error = std::get_if<api::ApiError>(&created)) co_return error->code;
    co_return std::get<Batch>(created).id;
  }
  Batch Of(const std::string& id) const { return *batches->Find("demo", id); }
  net::Task<bool> Ends(std::string id) {
    co_return co_await tests::Eventually(loop, [&] { return HasEnded(Of(id).state); });
  }
  std::multiset<std::string> ResultsIn(const std::string& file) const {
    std::multiset<std::string> ids;
    const auto key = files->KeyOfFile(file);
    absl::StatusOr<KeptFile> kept = KeptFile::Open(files->PathOf(file), key.value(), KeptFile::Access::kRead);
    if (!kept.ok()) return ids;
    std::string text(kept->bytes(), '\0');
    EXPECT_EQ(kept->ReadAt(0, text).value(), text.size());
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      ids.insert(nlohmann::json::parse(line)["custom_id"].get<std::string>());
    return ids;
  }

  net::Task<absl::StatusOr<std::string>> Read(std::string id) { return ReadStored(*files, std::move(id)); }
  size_t FilesInFolder() const { return EntriesOf(dir / "files"); }

  tests::TestLoop& loop;
  tests::TempDir dir;
  tests::MemoryStore own_store;
  tests::MemoryStore& store;
  const Sharing sharing;
  Shared shared;
  std::unique_ptr<ledger::ContentKeys> keys;
  std::shared_ptr<const Runtime> runtime;
  PrincipalRef principal;
  std::unique_ptr<Files> files;
  std::unique_ptr<Batches> batches;
  std::function<LineAnswer(const LineCall&)> answer = [](const LineCall&) {
    return LineAnswer{.status = 200, .request_id = "req_1", .body = "{}"};
  };
  conf::Duration takes = std::chrono::milliseconds(10);
  std::map<std::string, int> sent;  // by line
  int now_running = 0;
  int most_at_once = 0;
};

// The option `s3` of files, for that server.
struct BucketOption {
  explicit BucketOption(const std::string& url) {
    std::ofstream(dir / "access") << tests::S3Server::kAccessKey;
    std::ofstream(dir / "secret") << tests::S3Server::kSecretKey;
    text = fmt::format(
        ", s3: {{endpoint: '{}', bucket: {}, region: {}, prefix: p/q, access_key: 'file:{}', secret_key: "
        "'file:{}'}}",
        url, tests::S3Server::kBucket, tests::S3Server::kRegion, dir / "access", dir / "secret");
  }
  tests::TempDir dir;
  std::string text;
};

inline int LinesIn(const absl::StatusOr<std::string>& text) {
  return text.ok() ? static_cast<int>(std::ranges::count(*text, '\n')) : -1;
}

}  // namespace gateway::batches
