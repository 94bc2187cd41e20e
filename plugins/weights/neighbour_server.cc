#include "plugins/weights/neighbour_server.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/net/http/server.h"
#include "gateway/net/loop.h"
#include "gateway/net/off_loop.h"
#include "plugins/weights/byte_range.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/neighbour_document.h"
#include "plugins/weights/stored_file.h"

namespace plugins::weights {
namespace {

using gateway::net::Now;
using gateway::net::Task;
using gateway::net::http::Exchange;
using gateway::net::http::Headers;

constexpr size_t kLongestServed = 16U << 20;  // of a listing
constexpr int kHoldTries = 50;
constexpr conf::Duration kHoldAgain = std::chrono::milliseconds(20);

// The client's stream is closed when it takes a block too slowly.
class BlockDeadline final : public gateway::net::Alarm {
 public:
  BlockDeadline(gateway::net::Watchdog& watchdog, gateway::net::http::ServerConnection& connection)
      : Alarm(watchdog), connection_(connection) {}

 private:
  void OnAlarm() override { connection_.Close(); }
  gateway::net::http::ServerConnection& connection_;
};

// The weights that a request names, or one of their files. Absent: neither.
struct Asked {
  std::string hex{};
  std::string sha256{};  // empty: the document
};
std::optional<Asked> ReadTarget(std::string_view path) {
  if (!path.starts_with(kNeighbourRoot)) return std::nullopt;
  path.remove_prefix(kNeighbourRoot.size());
  const size_t slash = path.find('/');
  const bool of_file = slash != std::string_view::npos;
  const auto hex = HexOfDigest(fmt::format("sha256:{}", path.substr(0, slash)));
  const auto sha256 = of_file ? HexOfDigest(fmt::format("sha256:{}", path.substr(slash + 1)))
                              : std::optional<std::string>("");
  if (!hex || !sha256) return std::nullopt;
  return Asked{*hex, *sha256};
}

Task<void> Refuse(Exchange& exchange, int status, std::string_view why, Headers headers = {}) {
  headers.emplace_back("content-type", "application/json");
  co_await exchange.Send(status, headers, nlohmann::json{{"error", why}}.dump() + "\n");
}

// The files of weights in the store, by their SHA-256. Blocks.
absl::StatusOr<std::map<std::string, std::string>> PathsOf(const Store& store, const std::string& id) {
  const absl::StatusOr<std::string> listing = store.ListingOf(id);
  if (!listing.ok()) return listing.status();
  absl::StatusOr<std::vector<ListedFile>> files = ReadListing(*listing, id);
  if (!files.ok()) return files.status();
  std::map<std::string, std::string> paths;
  for (ListedFile& file : *files) paths.try_emplace(std::move(file.sha256), std::move(file.path));
  return paths;
}

// Blocks.
absl::StatusOr<std::string> DocumentOf(const Store& store, const std::string& id, const std::string& folder) {
  absl::StatusOr<std::string> listing = store.ListingOf(id);
  if (!listing.ok()) return listing.status();
  if (listing->size() > kLongestServed) {
    return absl::ResourceExhaustedError(
        fmt::format("{} has too many files to be served: its listing has {}", id, InBytes(listing->size())));
  }
  const absl::StatusOr<std::map<std::string, std::string>> paths = PathsOf(store, id);
  if (!paths.ok()) return paths.status();
  NeighbourDocument document{.listing = *std::move(listing), .manifest = store.ManifestOf(id), .bytes = {}};
  const std::string hex = id.substr(id.find('-') + 1);
  const bool provable = !document.manifest.empty() || (paths->size() == 1 && paths->contains(hex)) ||
                        Sha256Hex(document.listing) == hex;
  if (!provable) {
    return absl::NotFoundError(fmt::format(
        "the store of this node does not hold the manifest of {}, without which no other node could "
        "verify it",
        id));
  }
  for (const auto& [sha256, path] : *paths) {
    const absl::StatusOr<StoredFile> file = OpenBelow(folder, path);
    if (!file.ok()) return file.status();
    document.bytes[sha256] = file->bytes;
  }
  return WriteDocument(document);
}

}  // namespace

// One thread's part of the server.
class NeighbourServer::Worker {
 public:
  Worker(const Store& store, const Options& options, std::atomic<size_t>& connections)
      : store_(store),
        options_(options),
        expected_(Sha256Hex(options.token)),
        connections_(connections),
        loop_([](const std::exception_ptr& error) { std::rethrow_exception(error); }) {}

  absl::Status Listen(const std::shared_ptr<gateway::net::ListeningSocket>& socket) {
    gateway::net::http::Server::Options http;
    http.acceptor.socket = socket;
    if (options_.tls) http.acceptor.tls = [this] { return options_.tls; };
    http.acceptor.admit = [this](const std::string&) {
      if (connections_.fetch_add(1) < options_.connections) return true;
      --connections_;
      return false;
    };
    http.acceptor.on_end = [this](const std::string&) { --connections_; };
    http.on_closed = [this] { --connections_; };
    http.limits = options_.limits;
    auto server = gateway::net::http::Server::Listen(loop_, std::move(http),
                                                     [this](Exchange& exchange) { return Answer(exchange); });
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }

  void Run() { loop_.Run(); }
  // Any thread.
  void Stop() {
    loop_.Post([this] {
      if (server_) server_->CloseAll();
      loop_.Stop();
    });
  }

 private:
  Task<void> Answer(Exchange& exchange) {
    if (exchange.method() != "GET" && exchange.method() != "HEAD") {
      co_await Refuse(exchange, 405, "only GET and HEAD are served", {{"allow", "GET, HEAD"}});
      co_return;
    }
    if (exchange.path() == "/healthz") {
      co_await exchange.Send(200, {{"content-type", "text/plain"}}, "ok\n");
      co_return;
    }
    if (!MayRead(exchange)) {
      co_await Refuse(exchange, 401, "the request needs the token of the neighbours: Authorization: Bearer",
                      {{"www-authenticate", "Bearer"}});
      co_return;
    }
    const std::optional<Asked> asked = ReadTarget(exchange.path());
    if (!asked) {
      co_await Refuse(exchange, 404,
                      "weights are served at /v1/weights/DIGEST and /v1/weights/DIGEST/SHA256");
      co_return;
    }
    const std::string id = "sha256-" + asked->hex;
    absl::StatusOr<std::optional<Lease>> lease = co_await Hold(id);
    if (!lease.ok()) {
      co_await Refuse(exchange, 503, conf::Std(lease.status().message()));
    } else if (!lease->has_value()) {
      co_await Refuse(exchange, 404, "the store of this node does not hold these weights");
    } else if (asked->sha256.empty()) {
      co_await SendDocument(exchange, id, **lease);
    } else {
      co_await SendFile(exchange, id, **lease, asked->sha256);
    }
  }

  bool MayRead(const Exchange& exchange) const {
    constexpr std::string_view kScheme = "bearer ";
    const std::string_view field = exchange.head().Find("authorization");
    if (!conf::EqualsIgnoreCase(field.substr(0, kScheme.size()), kScheme)) return false;
    const std::string given = Sha256Hex(field.substr(kScheme.size()));
    return given.size() == expected_.size() &&
           CRYPTO_memcmp(given.data(), expected_.data(), given.size()) == 0;
  }

  // Others hold the lock for a moment while they list the store, and for long while they remove the weights.
  Task<absl::StatusOr<std::optional<Lease>>> Hold(const std::string& id) {
    gateway::net::Sleep pause(loop_.watchdog);
    for (int tries = 1;; ++tries) {
      absl::StatusOr<std::optional<Lease>> lease = store_.TryHold(id, Now());
      if (!absl::IsUnavailable(lease.status()) || tries == kHoldTries) co_return lease;
      co_await pause.For(kHoldAgain);
    }
  }

  Task<void> SendDocument(Exchange& exchange, const std::string& id, const Lease& lease) {
    const absl::StatusOr<std::string> document = co_await gateway::net::OffLoop(
        loop_, [this, &id, &lease] { return DocumentOf(store_, id, lease.folder); });
    if (!document.ok()) {
      co_await Refuse(exchange, absl::IsNotFound(document.status()) ? 404 : 500,
                      conf::Std(document.status().message()));
      co_return;
    }
    BlockDeadline deadline(loop_.watchdog, exchange.connection());
    deadline.SetAfter(options_.block_time);
    co_await exchange.Send(200, {{"content-type", "application/json"}}, *document);
  }

  // The listing of the last weights is kept: each file is a request.
  absl::StatusOr<std::string> PathOf(const std::string& id, const std::string& sha256) {
    if (listed_ != id) {
      absl::StatusOr<std::map<std::string, std::string>> paths = PathsOf(store_, id);
      if (!paths.ok()) return paths.status();
      paths_ = *std::move(paths);
      listed_ = id;
    }
    const auto found = paths_.find(sha256);
    if (found == paths_.end()) return absl::NotFoundError("these weights have no file of that SHA-256");
    return found->second;
  }

  Task<void> SendFile(Exchange& exchange, const std::string& id, const Lease& lease,
                      const std::string& sha256) {
    const absl::StatusOr<std::string> path = PathOf(id, sha256);
    absl::StatusOr<StoredFile> file =
        path.ok() ? OpenBelow(lease.folder, *path) : absl::StatusOr<StoredFile>(path.status());
    if (!file.ok()) {
      listed_.clear();  // they may have been fetched again, with another name
      co_await Refuse(exchange, absl::IsNotFound(file.status()) ? 404 : 500,
                      conf::Std(file.status().message()));
      co_return;
    }
    const std::string etag = fmt::format("\"{}\"", sha256);
    const std::string_view condition = exchange.head().Find("if-range");
    const bool same = condition.empty() || condition == etag;
    const std::optional<AskedBytes> asked =
        ReadRange(same ? exchange.head().Find("range") : std::string_view(), file->bytes);
    Headers headers = {
        {"content-type", "application/octet-stream"}, {"accept-ranges", "bytes"}, {"etag", etag}};
    if (!asked) {
      headers.emplace_back("content-range", fmt::format("bytes */{}", file->bytes));
      co_await exchange.Send(416, headers, {});
      co_return;
    }
    if (asked->part) {
      headers.emplace_back("content-range", fmt::format("bytes {}-{}/{}", asked->first,
                                                        asked->first + asked->count - 1, file->bytes));
    }
    Sent sent{.id = id, .path = *path, .peer = std::string(exchange.address()), .of = asked->count};
    const conf::TimePoint began = Now();
    if (co_await exchange.StartSized(asked->part ? 206 : 200, headers, asked->count) &&
        exchange.method() != "HEAD") {
      co_await SendBytes(exchange, *file, lease.folder + "/" + *path, *asked, sent.bytes);
      sent.took = Now() - began;
      options_.on_sent(sent);
    }
  }

  Task<void> SendBytes(Exchange& exchange, const StoredFile& file, const std::string& path, AskedBytes asked,
                       uint64_t& sent) {
    std::string block(std::min<uint64_t>(kBlock, asked.count), '\0');
    BlockDeadline deadline(loop_.watchdog, exchange.connection());
    while (sent < asked.count) {
      block.resize(std::min<uint64_t>(kBlock, asked.count - sent));
      const absl::StatusOr<size_t> read =
          gateway::net::ReadAt(file.fd.get(), path, asked.first + sent, block);
      if (!read.ok() || *read < block.size()) {
        exchange.Reset();  // the answer has begun: only a cut can report the error
        co_return;
      }
      deadline.SetAfter(options_.block_time);
      if (!co_await exchange.WriteSized(block)) co_return;
      sent += block.size();
    }
  }

  const Store store_;
  const Options& options_;
  const std::string expected_;
  std::atomic<size_t>& connections_;
  gateway::net::Loop loop_;
  std::unique_ptr<gateway::net::http::Server> server_;
  std::string listed_;                        // the id of the weights that have these paths; empty: none
  std::map<std::string, std::string> paths_;  // by SHA-256
};

NeighbourServer::NeighbourServer(Options options, std::shared_ptr<gateway::net::ListeningSocket> socket)
    : options_(std::move(options)), socket_(std::move(socket)) {}

absl::StatusOr<std::unique_ptr<NeighbourServer>> NeighbourServer::Start(const Store& store, Options options) {
  if (options.token.empty()) return absl::InvalidArgumentError("the server of weights needs a token");
  absl::StatusOr<std::shared_ptr<gateway::net::ListeningSocket>> socket =
      gateway::net::ListeningSocket::Open(options.address);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<NeighbourServer> server(new NeighbourServer(std::move(options), *std::move(socket)));
  for (uint32_t i = 0; i < std::max(server->options_.threads, 1U); ++i) {
    Worker& worker = *server->workers_.emplace_back(
        std::make_unique<Worker>(store, server->options_, server->connections_));
    if (absl::Status listens = worker.Listen(server->socket_); !listens.ok()) return listens;
  }
  for (const std::unique_ptr<Worker>& worker : server->workers_)
    server->threads_.emplace_back([&worker = *worker] { worker.Run(); });
  return server;
}

NeighbourServer::~NeighbourServer() {
  for (const std::unique_ptr<Worker>& worker : workers_) worker->Stop();
  if (threads_.empty()) {  // it has not started
    for (const std::unique_ptr<Worker>& worker : workers_) worker->Run();
  }
  threads_.clear();
}

}  // namespace plugins::weights
