// The real `tidegate serve` with a configuration from a test, on free ports of loopback, with its own state
// folder that outlives restarts; and the records of its ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/parse.h"
#include "gateway/ledger/verify.h"
#include "tests/support/child_process.h"
#include "tests/support/raw_client.h"
#include "tests/support/temp_dir.h"

namespace tests {

// Members in YAML's flow form, without braces: "heartbeat: 100ms, limits: {headers: 20}".
struct GatewayConfig {
  std::vector<uint16_t> replicas;  // of chat-small, named r0, r1, …
  std::string server = {};         // shutdown_delay is 0s unless it is given
  std::string tenant = {};         // of `demo`, the tenant of calls without credentials
  std::string model = {};          // of chat-small
  std::string endpoint = "engine: vllm";
  std::string price = "price: {input: 1, output: 2}";  // of chat-small; empty: none
  std::string ledger = {};
  std::string tenants = {};   // further tenants, each as "  - {…}\n"
  std::string models = {};    // further models, likewise
  std::string sections = {};  // further sections, as lines
  bool anonymous = true;
  int threads = 2;
  uint16_t port = 0;                        // its port, also after a restart; 0: any
  std::string state_dir = {};               // default: in the test's own folder
  std::optional<TlsClient> tls = {};        // with server.tls: how calls here reach it
  std::optional<TlsClient> admin_tls = {};  // with server.admin_tls
};

class GatewayProcess {
 public:
  explicit GatewayProcess(GatewayConfig config);

  uint16_t port() const { return port_; }
  uint16_t admin_port() const { return admin_port_; }
  RawClient Connect() const { return tls_ ? RawClient(port_, *tls_) : RawClient(port_); }
  Answer Ask(std::string_view request) const { return Connect().Ask(request); }
  Answer AskAdmin(std::string_view request) const;
  // The value of a line of /metrics, by name and labels as they are written; absent without such a line.
  std::optional<double> Metric(std::string_view series) const;
  ChildProcess& process() { return *process_; }
  const std::string& state_dir() const { return state_dir_; }
  std::string ledger_dir() const { return state_dir_ + "/ledger"; }
  std::string config_path() const { return folder_ / "tidegate.yaml"; }

  // Each waits until the gateway answers.
  void Start();
  void Kill();  // -9
  void Restart() { Kill(), Start(); }
  void WriteConfig(const GatewayConfig& config);
  // Sends SIGHUP, and waits until the reload has ended.
  void Reload();

  // The exit status after SIGTERM, as waitpid returns it; nothing if it did not end in time.
  std::optional<int> Stop(milliseconds patience = RawClient::kPatience);

  // Everything in the ledger, in order.
  std::vector<gateway::ledger::Record> Records() const;
  // Waits for the close of the request with this id (x-request-id), or with the client's own id.
  gateway::ledger::Record CloseOf(std::string_view request,
                                  milliseconds patience = RawClient::kPatience) const;
  // True when within the time no request is running, the ledger has every record, and every open has its
  // close.
  bool Settles(milliseconds patience = RawClient::kPatience) const;
  gateway::ledger::VerifyReport Verify() const;

 private:
  TempDir folder_;
  std::string state_dir_;
  const std::optional<TlsClient> tls_;
  const std::optional<TlsClient> admin_tls_;
  uint16_t port_ = 0;
  uint16_t admin_port_ = 0;
  std::unique_ptr<ChildProcess> process_;
};

// Opens without a close, opens with two, and closes of an unknown open: all empty in a valid ledger.
struct Unbalanced {
  std::vector<std::string> open;
  std::vector<std::string> twice;
  std::vector<std::string> orphans;
  bool none() const { return open.empty() && twice.empty() && orphans.empty(); }
};
Unbalanced Balance(const std::vector<gateway::ledger::Record>& records);

}  // namespace tests
