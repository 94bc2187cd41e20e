#include "gateway/limits/failed_attempts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

namespace gateway {
namespace {

constexpr size_t kMostCodes = 16;

// Names an IPv6 network as a whole: a client with one of its addresses usually has all of them.
std::string NameOf(std::string_view address) {
  in6_addr ipv6{};
  const std::string text(address);
  if (text.find(':') == std::string::npos || inet_pton(AF_INET6, text.c_str(), &ipv6) != 1) return text;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
    std::array<char, INET_ADDRSTRLEN> ipv4{};
    inet_ntop(AF_INET, ipv6.s6_addr + 12, ipv4.data(), ipv4.size());
    return ipv4.data();
  }
  std::memset(ipv6.s6_addr + 8, 0, 8);
  std::array<char, INET6_ADDRSTRLEN> network{};
  inet_ntop(AF_INET6, &ipv6, network.data(), network.size());
  return std::string(network.data()) + "/64";
}

}  // namespace

FailedAttempts::Account& FailedAttempts::AccountOf(std::string_view address, uint32_t per_minute,
                                                   conf::TimePoint now) {
  const std::string name = NameOf(address);
  auto found = accounts_.find(name);
  if (found == accounts_.end()) {
    const bool full = accounts_.size() >= kMostAddresses;
    const auto [made, fresh] = accounts_.try_emplace(full ? std::string(kOthers) : name);
    if (fresh) {
      made->second.left = per_minute;
      made->second.filled = now;
    }
    found = made;
  }
  return found->second;
}

std::optional<conf::Duration> FailedAttempts::Count(std::string_view address, std::string_view code,
                                                    uint32_t per_minute, conf::TimePoint now) {
  const std::scoped_lock lock(mutex_);
  if (failures_ == 0) since_ = now;
  ++failures_;
  Account& account = AccountOf(address, per_minute, now);
  if (account.codes.size() < kMostCodes || account.codes.contains(code)) ++account.codes[std::string(code)];
  if (per_minute == 0) return std::nullopt;
  const double a_second = per_minute / 60.0;
  const double passed = std::chrono::duration<double>(now - account.filled).count();
  account.left = std::min<double>(per_minute, account.left + std::max(0.0, passed) * a_second);
  account.filled = now;
  if (account.left >= 1) {
    account.left -= 1;
    return std::nullopt;
  }
  return std::chrono::duration_cast<conf::Duration>(
      std::chrono::duration<double>((1 - account.left) / a_second));
}

std::optional<ledger::Event> FailedAttempts::Take(conf::TimePoint now) {
  const std::scoped_lock lock(mutex_);
  if (failures_ == 0) return std::nullopt;
  nlohmann::ordered_json addresses = nlohmann::ordered_json::array();
  for (auto& [address, account] : accounts_) {
    if (account.codes.empty()) continue;
    uint64_t failures = 0;
    for (const auto& [code, count] : account.codes) failures += count;
    addresses.push_back({{"address", address}, {"failures", failures}, {"codes", account.codes}});
    account.codes.clear();
  }
  std::sort(addresses.begin(), addresses.end(), [](const auto& a, const auto& b) {
    return a["failures"] != b["failures"] ? a["failures"] > b["failures"] : a["address"] < b["address"];
  });
  // Removes accounts that are full again by now.
  absl::erase_if(accounts_,
                 [&](const auto& entry) { return now - entry.second.filled >= std::chrono::minutes(1); });
  ledger::Event event;
  event.kind = ledger::Kind::kRefusals;
  event.action = "authentication_failed";
  event.actor = "gateway";
  event.detail = nlohmann::ordered_json{{"since_us", conf::ToUnixMicros(since_)},
                                        {"until_us", conf::ToUnixMicros(now)},
                                        {"failures", failures_},
                                        {"addresses", std::move(addresses)}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  failures_ = 0;
  return event;
}

}  // namespace gateway
