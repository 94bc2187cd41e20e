// A real PostgreSQL, if one is installed: on a free port and a socket of its own folder, ended with the
// object. It refuses to run as root, so root runs it as another user.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/free_port.h"

namespace tests {

class PostgresServer {
 public:
  static constexpr const char* kUser = "tidegate";
  static constexpr const char* kPassword = "pg-password-of-the-test";

  // Why it cannot run here; empty: it can.
  static std::string Missing();
  // One for all tests of this process that need a database of their own, but no server of their own.
  static PostgresServer& Shared();

  // `settings` as name=value.
  explicit PostgresServer(std::vector<std::string> settings = {});
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Before Start().
  void Set(std::string setting) { settings_.push_back(std::move(setting)); }
  // Makes the data when there is none; returns when it answers.
  bool Start();
  void Kill();  // like a power failure of the server
  void Stop();  // ends its connections
  void Signal(int signal) const;

  // A copy of its data, as a standby has it; Promote() puts it in the place of the data, ends that server, and
  // starts the copy as another server that has taken over.
  bool MakeCopy();
  bool PromoteCopy();

  bool MakeDatabase(const std::string& name);
  bool Sql(const std::string& database, const std::string& sql) const;
  // Over TCP, with a password, or over the socket of this machine, without one.
  std::string Url(const std::string& database, const std::string& options = "sslmode=disable") const;
  // A file that the server's user may read alone, with the content of another.
  std::string Own(const std::string& file, const std::string& name) const;

 private:
  bool Run(const std::vector<std::string>& words) const;
  pid_t Spawn(const std::vector<std::string>& words) const;
  void Give(const std::string& path) const;
  std::string Binary(const std::string& name) const;

  std::vector<std::string> settings_;
  std::string folder_;
  FreePort port_;
  pid_t pid_ = -1;
};

}  // namespace tests
