// PostgresConnection: one connection to a PostgreSQL server, by libpq, without blocking.
//
// Statements are sent in one pipeline and answered together. Each call has a deadline; a connection whose
// server is late, or that was lost, is broken and stays so: its user makes another one. Names are looked up
// by the process' resolver, since libpq's own look-up would block.
//
// Owner: its user; one call at a time, and destroyed when none is under way. Thread: the loop's.
// Errors:
//   Unavailable         no connection, a late answer, a lock that others hold, a server that cannot be
//                       written, or any error that is not named here
//   ResourceExhausted   the server's disk or memory is full
//   InvalidArgument     the server cannot keep such text
//   FailedPrecondition  the user of the database lacks a right
//   DataLoss            the server found its data damaged
// No message has the password.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"

namespace gateway::net {

// A parameter of a statement: text, a number or bytes.
class PostgresValue {
 public:
  PostgresValue(std::string_view text) : bytes_(text) {}              // NOLINT: a value is what it is given
  PostgresValue(const char* text) : bytes_(text) {}                   // NOLINT
  PostgresValue(const std::string& text) : bytes_(text) {}            // NOLINT
  PostgresValue(uint64_t number) : bytes_(std::to_string(number)) {}  // NOLINT
  static PostgresValue Bytes(std::optional<std::string> bytes) {
    PostgresValue value(bytes ? std::string_view(*bytes) : std::string_view());
    value.null_ = !bytes;
    value.binary_ = true;
    return value;
  }

  const char* data() const { return null_ ? nullptr : bytes_.c_str(); }
  int size() const { return static_cast<int>(bytes_.size()); }
  bool binary() const { return binary_; }

 private:
  std::string bytes_;
  bool binary_ = false;
  bool null_ = false;
};

struct PostgresStatement {
  std::string sql;  // one statement; $1, $2, … are the parameters
  std::vector<PostgresValue> parameters{};
};

// The rows that a statement gave.
class PostgresRows {
 public:
  size_t size() const { return rows_.size(); }
  bool IsNull(size_t row, size_t column) const { return !rows_[row][column]; }
  // Text or bytes; empty: null.
  const std::string& Text(size_t row, size_t column) const;
  uint64_t Number(size_t row, size_t column) const;  // of a bigint or an integer that is not negative
  bool Bool(size_t row, size_t column) const { return Text(row, column) == std::string(1, '\1'); }

 private:
  friend class PostgresConnection;
  std::vector<std::vector<std::optional<std::string>>> rows_;
};

class PostgresConnection {
 public:
  struct Options {
    std::string url;          // postgres://USER@HOST:PORT/DATABASE?sslmode=…, without a password
    std::string password;     // empty: none
    std::string ca;           // PEM file, for sslmode=verify-full
    std::string certificate;  // of this client; both or neither
    std::string key;
    std::string application = "tidegate";  // as the server's lists show it
  };

  PostgresConnection(Loop& loop, Options options);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // Connects, once, to the first server that can be written.
  Task<absl::Status> Connect(conf::Duration patience);

  // Runs all statements in order, until one fails; the rows of each. After an error within a transaction,
  // the transaction is still open and takes ROLLBACK only.
  Task<absl::StatusOr<std::vector<PostgresRows>>> Run(std::vector<PostgresStatement> statements,
                                                      conf::Duration patience);

  // Waits until a notification of a channel that this connection listens to has come, or time is over, or
  // Interrupt() is called. An error: the connection is broken.
  Task<absl::Status> AwaitNotification(conf::Duration patience);
  void Interrupt();

  bool broken() const { return broken_; }
  const std::string& address() const { return address_; }  // without user and password

 private:
  struct Wire;
  enum class Until { kReadable, kWritable, kEither };
  struct Server {
    std::string host;
    std::string address;  // numeric; empty: a socket of this machine
    std::string port;
  };

  Task<bool> Wait(Until until);
  Task<absl::StatusOr<std::vector<std::string>>> Lookup(const std::string& host);
  Task<absl::StatusOr<std::vector<Server>>> Servers();
  absl::Status Begin(const Server& server);
  Task<absl::Status> Shake();
  Task<absl::Status> Flush();
  // Reads until libpq has a result, or the connection is broken.
  Task<bool> AwaitResult();
  absl::Status Lost(std::string_view why);
  absl::Status Late();
  std::string Scrubbed(std::string_view message) const;

  const Options options_;
  std::string address_;
  conf::Duration patience_{};
  bool late_ = false;
  bool broken_ = false;
  bool interrupted_ = false;
  std::unique_ptr<Wire> wire_;
};

}  // namespace gateway::net
