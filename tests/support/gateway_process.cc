#include "tests/support/gateway_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "gateway/ledger/signing.h"
#include "gateway/ledger/tail.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;

std::string Joined(std::string_view members) {
  return members.empty() ? std::string() : fmt::format(", {}", members);
}

std::string Render(const GatewayConfig& c, std::string_view state_dir) {
  std::string endpoints;
  for (size_t i = 0; i < c.replicas.size(); ++i) {
    endpoints += fmt::format("{}{{name: r{}, url: http://127.0.0.1:{}{}}}", i ? ", " : "", i, c.replicas[i],
                             Joined(c.endpoint));
  }
  std::string text = fmt::format(
      "server: {{listen: 127.0.0.1:{}, admin: 127.0.0.1:0, threads: {}, state_dir: {}{}}}\n"
      "tenants:\n  - {{name: demo{}{}}}\n{}"
      "models:\n  - {{name: chat-small{}{}{}}}\n{}",
      c.port, c.threads, state_dir,
      Joined(c.server) +
          (c.server.find("shutdown_delay:") == std::string::npos ? ", shutdown_delay: 0s" : ""),
      c.tenant.find("models:") == std::string::npos ? ", models: [\"*\"]" : "", Joined(c.tenant), c.tenants,
      Joined(c.price), endpoints.empty() ? "" : fmt::format(", endpoints: [{}]", endpoints), Joined(c.model),
      c.models);
  if (c.anonymous) text += "auth: {anonymous_tenant: demo}\n";
  if (!c.ledger.empty()) text += fmt::format("ledger: {{{}}}\n", c.ledger);
  return text + c.sections;
}

uint16_t PortOf(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

}  // namespace

GatewayProcess::GatewayProcess(GatewayConfig config)
    : state_dir_(config.state_dir.empty() ? folder_ / "state" : config.state_dir),
      tls_(config.tls),
      admin_tls_(config.admin_tls) {
  WriteConfig(config);
  Start();
}

void GatewayProcess::WriteConfig(const GatewayConfig& config) {
  std::ofstream(config_path()) << Render(config, state_dir_);
}

void GatewayProcess::Start() {
  process_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{TIDEGATE_BINARY, "serve", "--config", config_path()}, folder_ / "gateway.log");
  const std::string line = process_->WaitForLine("\"event\":\"serving\"", RawClient::kPatience);
  ASSERT_FALSE(line.empty()) << "the gateway did not start: " << process_->Output();
  const Json serving = Json::parse(line);
  port_ = PortOf(serving.value("listen", ":0"));
  admin_port_ = PortOf(serving.value("admin", ":0"));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Ask(Get("/v1/models")).status != 0; }));
}

Answer GatewayProcess::AskAdmin(std::string_view request) const {
  RawClient client = admin_tls_ ? RawClient(admin_port_, *admin_tls_) : RawClient(admin_port_);
  return client.Ask(request);
}

std::optional<double> GatewayProcess::Metric(std::string_view series) const {
  const std::string metrics = "\n" + AskAdmin(Get("/metrics")).body;
  const std::string sign = fmt::format("\n{} ", series);
  const size_t at = metrics.find(sign);
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(metrics.c_str() + at + sign.size(), nullptr);
}

void GatewayProcess::Reload() {
  const auto done = [&] {
    return Metric("tidegate_config_reloads_total{result=\"applied\"}").value_or(0) +
           Metric("tidegate_config_reloads_total{result=\"refused\"}").value_or(0);
  };
  const double before = done();
  process_->Signal(SIGHUP);
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return done() > before; })) << process_->Output();
}

void GatewayProcess::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait(RawClient::kPatience);
}

std::optional<int> GatewayProcess::Stop(milliseconds patience) {
  process_->Signal(SIGTERM);
  return process_->Wait(patience);
}

std::vector<Record> GatewayProcess::Records() const {
  std::vector<Record> records;
  gateway::ledger::Tail tail(ledger_dir(), 0);
  gateway::ledger::RecordParser parser;
  while (true) {
    auto batch = tail.Read(1000, 1 << 20);
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || batch->lines.empty()) return records;
    for (const auto& line : batch->lines) {
      const absl::Status parsed = parser.Parse(line.text, &records.emplace_back());
      EXPECT_TRUE(parsed.ok()) << parsed << line.text;
    }
  }
}

Record GatewayProcess::CloseOf(std::string_view request, milliseconds patience) const {
  Record found;
  const bool came = Within(patience, [&] {
    std::string ours(request);
    for (Record& record : Records()) {
      if (record.client_request == request) ours = record.request;
      if (record.kind == Kind::kClose && record.request == ours) {
        found = std::move(record);
        return true;
      }
    }
    return false;
  });
  EXPECT_TRUE(came) << "the ledger has no close of " << request;
  return found;
}

bool GatewayProcess::Settles(milliseconds patience) const {
  const auto idle = [&] {
    return Metric("tidegate_requests_active") == 0.0 && Metric("tidegate_ledger_queued_bytes") == 0.0;
  };
  return Within(patience, [&] { return idle() && Balance(Records()).none(); });
}

gateway::ledger::VerifyReport GatewayProcess::Verify() const {
  const auto key = gateway::ledger::PublicKey::Load(ledger_dir() + "/signing.pub");
  EXPECT_TRUE(key.ok()) << key.status();
  gateway::ledger::VerifyReport unreadable;
  unreadable.first_bad.emplace().why = "not read at all";
  if (!key.ok()) return unreadable;
  auto report = gateway::ledger::Verify(ledger_dir(), *key);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : unreadable;
}

Unbalanced Balance(const std::vector<Record>& records) {
  std::map<uint64_t, std::pair<std::string, int>> opens;
  Unbalanced result;
  for (const Record& record : records) {
    if (record.kind == Kind::kOpen) opens[record.seq] = {record.request, 0};
    if (record.kind != Kind::kClose || record.open_seq == 0) continue;
    const auto open = opens.find(record.open_seq);
    if (open == opens.end()) {
      result.orphans.push_back(record.request);
    } else if (++open->second.second > 1) {
      result.twice.push_back(record.request);
    }
  }
  for (const auto& [seq, open] : opens) {
    if (open.second == 0) result.open.push_back(open.first);
  }
  return result;
}

}  // namespace tests
