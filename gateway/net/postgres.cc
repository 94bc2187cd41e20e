#include "gateway/net/postgres.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <coroutine>
#include <functional>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/libpq.h"
#include "gateway/net/resolver.h"

namespace gateway::net {
namespace {

using PostgresSocket = asio::posix::basic_stream_descriptor<IoContext::executor_type>;

constexpr const char* kTcpPatienceMs = "10000";
constexpr conf::Duration kShortestPatience = std::chrono::milliseconds(100);
constexpr const char* kNoFile = "/dev/null/none";

class PostgresAlarm final : public Alarm {
 public:
  PostgresAlarm(Watchdog& watchdog, std::function<void()> fn) : Alarm(watchdog), fn_(std::move(fn)) {}

 private:
  void OnAlarm() override { fn_(); }
  std::function<void()> fn_;
};

const Libpq& Pq() {
  return Libpq::Get();
}

struct FreeResult {
  void operator()(PGresult* result) const { Pq().clear(result); }
};
using PostgresResult = std::unique_ptr<PGresult, FreeResult>;

// The code of an SQLSTATE, the five letters of the SQL standard; PostgreSQL's appendix A lists them.
absl::StatusCode CodeOfSqlState(std::string_view state) {
  if (state.starts_with("53"))
    return state == "53300" ? absl::StatusCode::kUnavailable : absl::StatusCode::kResourceExhausted;
  if (state == "22021" || state == "22P05") return absl::StatusCode::kInvalidArgument;
  if (state == "42501") return absl::StatusCode::kFailedPrecondition;
  if (state.starts_with("XX00") && state != "XX000") return absl::StatusCode::kDataLoss;
  return absl::StatusCode::kUnavailable;
}

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> out;
  while (true) {
    const size_t comma = list.find(',');
    out.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

const std::string& PostgresRows::Text(size_t row, size_t column) const {
  static const std::string kNone;
  const std::optional<std::string>& value = rows_[row][column];
  return value ? *value : kNone;
}

uint64_t PostgresRows::Number(size_t row, size_t column) const {
  uint64_t number = 0;
  for (const char c : Text(row, column)) number = (number << 8) | static_cast<unsigned char>(c);
  return number;
}

struct PostgresConnection::Wire {
  explicit Wire(Loop& loop, std::function<void()> on_late)
      : socket(loop.io),
        resolving(Resolver::OfProcess(), loop.io),
        alarm(loop.watchdog, std::move(on_late)) {}
  ~Wire() { Finish(); }

  void Finish() {
    if (socket.is_open()) socket.release();  // it is libpq's
    if (db != nullptr) Pq().finish(std::exchange(db, nullptr));
  }

  PGconn* db = nullptr;
  PostgresSocket socket;
  Resolver::Wait resolving;
  PostgresAlarm alarm;
  bool waits = false;
};

PostgresConnection::PostgresConnection(Loop& loop, Options options)
    : options_(std::move(options)), address_("postgres"), wire_(std::make_unique<Wire>(loop, [this] {
        late_ = true;
        wire_->resolving.Abort();
        if (wire_->waits) wire_->socket.cancel();
      })) {}

PostgresConnection::~PostgresConnection() = default;

// libpq's messages have several lines.
std::string PostgresConnection::Scrubbed(std::string_view message) const {
  std::string text(message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (size_t at = 0; (at = text.find_first_of("\n\t", at)) != std::string::npos;) text[at] = ' ';
  if (options_.password.empty()) return text;
  for (size_t at = 0; (at = text.find(options_.password, at)) != std::string::npos; at += 3)
    text.replace(at, options_.password.size(), "***");
  return text;
}

absl::Status PostgresConnection::Lost(std::string_view why) {
  broken_ = true;
  return absl::UnavailableError(fmt::format("{}: {}", address_, Scrubbed(why)));
}

absl::Status PostgresConnection::Late() {
  return Lost(fmt::format("no answer within {}", conf::InWords(patience_)));
}

// False: late, interrupted, or the socket failed, which libpq finds out by itself.
Task<bool> PostgresConnection::Wait(Until until) {
  // The first that happens ends the others.
  struct Awaiter {
    PostgresSocket& socket;
    Until until;
    int waits = 0;
    bool ready = false;
    void Start(PostgresSocket::wait_type type, std::coroutine_handle<> waiter) {
      ++waits;
      socket.async_wait(type, [this, waiter](ErrorCode failed) {
        if (!failed && !std::exchange(ready, true) && waits > 1) socket.cancel();
        if (--waits == 0) waiter.resume();
      });
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
      if (until != Until::kWritable) Start(PostgresSocket::wait_read, waiter);
      if (until != Until::kReadable) Start(PostgresSocket::wait_write, waiter);
    }
    bool await_resume() const noexcept { return ready; }
  };
  if (late_) co_return false;
  wire_->waits = true;
  Awaiter wait{wire_->socket, until};
  const bool ready = co_await wait;
  wire_->waits = false;
  co_return ready && !late_;
}

Task<absl::StatusOr<std::vector<std::string>>> PostgresConnection::Lookup(const std::string& host) {
  std::vector<std::string> addresses;
  ErrorCode numeric;
  asio::ip::make_address(host, numeric);
  if (host.empty() || host.front() == '/' || host.front() == '@') {
    addresses.emplace_back();  // a socket of this machine
  } else if (!numeric) {
    addresses.push_back(host);
  } else {
    const Resolved found = co_await wire_->resolving.Get(host);
    if (late_) co_return Late();
    if (found.error) co_return absl::UnavailableError(fmt::format("{}: {}", host, found.error.message()));
    for (const asio::ip::address& address : found.addresses) addresses.push_back(address.to_string());
  }
  co_return addresses;
}

// Each server gets its part of the time: a silent one does not keep us from the next.
Task<absl::Status> PostgresConnection::Connect(conf::Duration patience) {
  patience_ = patience;
  wire_->alarm.SetAfter(patience);
  const conf::TimePoint until = Now() + patience;
  const absl::StatusOr<std::vector<Server>> servers = co_await Servers();
  absl::Status status = servers.status();
  std::vector<std::string> failures;
  for (size_t i = 0; servers.ok() && i < servers->size() && !interrupted_; ++i) {
    late_ = broken_ = false;
    patience_ = std::max<conf::Duration>((until - Now()) / static_cast<int64_t>(servers->size() - i),
                                         kShortestPatience);
    wire_->alarm.SetAfter(patience_);
    status = Begin((*servers)[i]);
    if (status.ok()) status = co_await Shake();
    if (status.ok()) break;
    wire_->Finish();
    failures.emplace_back(conf::Std(status.message()));
  }
  wire_->alarm.Clear();
  if (status.ok()) co_return status;
  broken_ = true;
  if (failures.size() > 1) status = absl::UnavailableError(fmt::format("{}", fmt::join(failures, "; ")));
  co_return status;
}

// Every address of every name, in order.
Task<absl::StatusOr<std::vector<PostgresConnection::Server>>> PostgresConnection::Servers() {
  if (const absl::Status loaded = Libpq::Load(); !loaded.ok()) co_return Lost(conf::Std(loaded.message()));
  char* problem = nullptr;
  PQconninfoOption* const parts = Pq().parse_address(options_.url.c_str(), &problem);
  if (parts == nullptr) {
    const absl::Status status = Lost(problem == nullptr ? "not a PostgreSQL address" : problem);
    Pq().free_memory(problem);
    co_return status;
  }
  std::string hosts;
  std::string ports;
  std::string database;
  for (const PQconninfoOption* part = parts; part->keyword != nullptr; ++part) {
    const std::string_view name = part->keyword;
    if (part->val == nullptr) continue;
    if (name == "host") hosts = part->val;
    if (name == "port") ports = part->val;
    if (name == "dbname") database = part->val;
  }
  Pq().free_address(parts);
  address_ = fmt::format("postgres {}{}{}/{}", hosts, ports.empty() ? "" : ":", ports, database);

  const std::vector<std::string> ports_given = Split(ports);
  const std::vector<std::string> hosts_given = Split(hosts);
  std::vector<Server> servers;
  absl::Status unknown;
  for (size_t i = 0; i < hosts_given.size(); ++i) {
    const auto found = co_await Lookup(hosts_given[i]);
    if (late_) co_return found.status();
    if (!found.ok()) {
      unknown = found.status();
      continue;
    }
    const std::string port = ports_given.size() == 1  ? ports_given[0]
                             : i < ports_given.size() ? ports_given[i]
                                                      : "";
    for (const std::string& address : *found) servers.push_back({hosts_given[i], address, port});
  }
  if (servers.empty()) co_return Lost(conf::Std(unknown.message()));
  co_return servers;
}

absl::Status PostgresConnection::Begin(const Server& server) {
  // Later ones replace what the address says. No file of the user's is read without being named.
  const std::pair<const char*, const char*> settings[] = {
      {"dbname", options_.url.c_str()},
      {"host", server.host.c_str()},
      {"hostaddr", server.address.c_str()},
      {"port", server.port.c_str()},
      {"password", options_.password.c_str()},
      {"passfile", kNoFile},
      {"sslrootcert", options_.ca.empty() ? kNoFile : options_.ca.c_str()},
      {"sslcert", options_.certificate.empty() ? kNoFile : options_.certificate.c_str()},
      {"sslkey", options_.key.c_str()},
      {"application_name", options_.application.c_str()},
      {"client_encoding", "UTF8"},
      {"target_session_attrs", "read-write"},
      {"keepalives_idle", "10"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", kTcpPatienceMs},
  };
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : settings) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  wire_->db = Pq().begin(keywords.data(), values.data(), 1);
  if (wire_->db == nullptr) return Lost("no memory for a connection");
  Pq().set_notice_processor(wire_->db, [](void*, const char*) {}, nullptr);
  if (Pq().status(wire_->db) == CONNECTION_BAD) return Lost(Pq().error_message(wire_->db));
  return absl::OkStatus();
}

// libpq may take another socket for the next address, under the same number: each wait is registered anew.
Task<absl::Status> PostgresConnection::Shake() {
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED) co_return Lost(Pq().error_message(wire_->db));
    ErrorCode error;
    wire_->socket.assign(Pq().socket(wire_->db), error);
    if (error) co_return Lost(error.message());
    const Until until = next == PGRES_POLLING_READING ? Until::kReadable : Until::kWritable;
    co_await Wait(until);
    wire_->socket.release();
    if (late_) co_return Late();
    if (interrupted_) co_return Lost("not connected: it was given up");
    next = Pq().poll(wire_->db);
  }
  ErrorCode error;
  wire_->socket.assign(Pq().socket(wire_->db), error);
  if (error) co_return Lost(error.message());
  if (Pq().set_nonblocking(wire_->db, 1) != 0 || Pq().enter_pipeline_mode(wire_->db) != 1)
    co_return Lost(Pq().error_message(wire_->db));
  co_return absl::OkStatus();
}

// Reads as well: a server whose answers are not taken stops taking statements.
Task<absl::Status> PostgresConnection::Flush() {
  while (true) {
    const int left = Pq().flush(wire_->db);
    if (left == 0) co_return absl::OkStatus();
    if (left < 0) co_return Lost(Pq().error_message(wire_->db));
    co_await Wait(Until::kEither);
    if (late_) co_return Late();
    if (Pq().consume_input(wire_->db) == 0) co_return Lost(Pq().error_message(wire_->db));
  }
}

Task<bool> PostgresConnection::AwaitResult() {
  while (Pq().is_busy(wire_->db) != 0) {
    co_await Wait(Until::kReadable);
    if (late_ || Pq().consume_input(wire_->db) == 0) co_return false;
  }
  co_return true;
}

Task<absl::StatusOr<std::vector<PostgresRows>>> PostgresConnection::Run(
    std::vector<PostgresStatement> statements, conf::Duration patience) {
  if (broken_ || wire_->db == nullptr) co_return Lost("the connection is lost");
  patience_ = patience;
  late_ = false;
  for (const PostgresStatement& statement : statements) {
    std::vector<const char*> values;
    std::vector<int> sizes;
    std::vector<int> formats;
    for (const PostgresValue& value : statement.parameters) {
      values.push_back(value.data());
      sizes.push_back(value.size());
      formats.push_back(value.binary() ? 1 : 0);
    }
    if (Pq().send_query(wire_->db, statement.sql.c_str(), static_cast<int>(values.size()), nullptr,
                        values.data(), sizes.data(), formats.data(), 1) != 1)
      co_return Lost(Pq().error_message(wire_->db));
  }
  if (Pq().sync_pipeline(wire_->db) != 1) co_return Lost(Pq().error_message(wire_->db));
  wire_->alarm.SetAfter(patience);
  if (absl::Status sent = co_await Flush(); !sent.ok()) {
    wire_->alarm.Clear();
    co_return sent;
  }

  std::vector<PostgresRows> answers;
  absl::Status failed;
  while (true) {
    const bool answered = co_await AwaitResult();
    if (late_) {
      wire_->alarm.Clear();
      co_return Late();
    }
    // A lost connection has its reason in a last result.
    const PostgresResult result(Pq().get_result(wire_->db));
    const ExecStatusType status = result ? Pq().result_status(result.get()) : PGRES_EMPTY_QUERY;
    if (status == PGRES_PIPELINE_SYNC) break;
    if (result && status == PGRES_FATAL_ERROR && failed.ok()) {
      const char* const state = Pq().error_field(result.get(), PG_DIAG_SQLSTATE);
      failed = absl::Status(state == nullptr ? absl::StatusCode::kUnavailable : CodeOfSqlState(state),
                            fmt::format("{}: {}", address_, Scrubbed(Pq().result_error(result.get()))));
    }
    if (!answered || Pq().status(wire_->db) == CONNECTION_BAD) {
      wire_->alarm.Clear();
      const absl::Status lost = Lost(Pq().error_message(wire_->db));
      co_return failed.ok() ? lost : failed;
    }
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) continue;
    PostgresRows rows;
    for (int r = 0; r < Pq().rows(result.get()); ++r) {
      auto& row = rows.rows_.emplace_back();
      for (int c = 0; c < Pq().columns(result.get()); ++c) {
        row.emplace_back();
        if (Pq().is_null(result.get(), r, c) == 0)
          row.back().emplace(Pq().value(result.get(), r, c),
                             static_cast<size_t>(Pq().length(result.get(), r, c)));
      }
    }
    answers.push_back(std::move(rows));
  }
  wire_->alarm.Clear();
  if (!failed.ok()) co_return failed;
  co_return answers;
}

Task<absl::Status> PostgresConnection::AwaitNotification(conf::Duration patience) {
  if (broken_ || wire_->db == nullptr) co_return Lost("the connection is lost");
  late_ = false;
  wire_->alarm.SetAfter(patience);
  bool told = false;
  while (!told && !late_ && !std::exchange(interrupted_, false)) {
    if (Pq().consume_input(wire_->db) == 0) {
      wire_->alarm.Clear();
      co_return Lost(Pq().error_message(wire_->db));
    }
    while (PGnotify* const notification = Pq().notification(wire_->db)) {
      Pq().free_memory(notification);
      told = true;
    }
    if (!told && !interrupted_) co_await Wait(Until::kReadable);
  }
  wire_->alarm.Clear();
  late_ = false;
  co_return absl::OkStatus();
}

void PostgresConnection::Interrupt() {
  interrupted_ = true;
  wire_->resolving.Abort();
  if (wire_->waits) wire_->socket.cancel();
}

}  // namespace gateway::net
