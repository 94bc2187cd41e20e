#include "gateway/control/metering/device_meter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace gateway::control {
namespace {

using ledger::DeviceRecord;

constexpr int64_t kMinute = 60'000;  // ms
constexpr int64_t kHour = 3'600'000;

int64_t Millis(conf::TimePoint at) {
  return std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

conf::TimePoint FromMillis(int64_t ms) {
  return conf::TimePoint(std::chrono::milliseconds(ms));
}

int64_t After(int64_t at, int64_t unit) {
  return (at / unit + 1) * unit;
}

bool Means(const HeldBy& by, const HeldDevices& holding) {
  return by.all() || (by.model == holding.model && by.job == holding.job);
}

}  // namespace

conf::TimePoint DeviceMeter::MinuteOf(conf::TimePoint now) {
  const int64_t ms = Millis(now);
  return FromMillis(ms - ms % kMinute);
}

std::vector<DeviceRecord> DeviceMeter::GoOn(std::span<const ledger::LastHeld> last, conf::TimePoint begun) {
  const bool first = begun_ms_ == 0;
  begun_ms_ = Millis(begun);
  std::vector<DeviceRecord> missing;
  for (const ledger::LastHeld& held : last) {
    // The clock was put back: the time counted so far stays counted, and counting continues from now.
    int64_t& until = until_ms_[{held.model, held.job, held.device}];
    until = first ? std::min(held.until_us / 1000, begun_ms_) : held.until_us / 1000;
    if (held.device_us >= held.held_us) continue;
    missing.push_back({.from_us = held.from_us,
                       .until_us = held.until_us,
                       .tenant = std::string(ledger::kIdle),
                       .model = held.model,
                       .job = held.job,
                       .device = held.device,
                       .device_us = held.held_us - held.device_us,
                       .held_us = held.held_us});
  }
  return missing;
}

int64_t DeviceMeter::FromOf(const HeldDevices& holding) const {
  const int64_t since = std::max<int64_t>(Millis(holding.since), 0);
  const auto until = until_ms_.find({holding.model, holding.job, holding.kind});
  return until == until_ms_.end() ? since : std::max(since, until->second);
}

conf::TimePoint DeviceMeter::GoesOnAt(std::span<const HeldDevices> holdings) const {
  int64_t at = begun_ms_;
  for (const HeldDevices& holding : holdings) at = std::min(at, FromOf(holding));
  return FromMillis(at);
}

void DeviceMeter::Serve(std::span<const ledger::Served> served, std::span<const HeldDevices> holdings) {
  std::map<std::string_view, const HeldDevices*> by_run;
  for (const HeldDevices& holding : holdings) {
    if (!holding.run.empty()) by_run.emplace(holding.run, &holding);
  }
  for (const ledger::Served& one : served) {
    const auto by = by_run.find(one.replica);
    if (by == by_run.end() || one.weight == 0) continue;
    weights_[{by->second->model, "", by->second->kind}][one.tenant] += one.weight;
  }
}

void DeviceMeter::Draw(std::span<const DrawnEnergy> drawn, std::span<const HeldDevices> holdings) {
  std::map<std::pair<std::string_view, uint8_t>, std::vector<std::pair<const HeldDevices*, int64_t>>> holders;
  for (const HeldDevices& holding : holdings) {
    if (holding.until) continue;
    for (const HeldPlace& place : holding.places)
      holders[{place.node, place.device}].emplace_back(&holding, place.milli);
  }
  for (const DrawnEnergy& of : drawn) {
    if (of.mj <= 0) continue;
    const auto& by = holders[{of.node, of.device}];
    int64_t all = 1000;
    int64_t sum = 0;
    for (const auto& [holding, milli] : by) sum += milli;
    all = std::max(all, sum);
    sum = 0;
    int64_t given = 0;
    for (const auto& [holding, milli] : by) {
      sum += milli;
      const auto upto = static_cast<int64_t>(static_cast<__int128>(of.mj) * sum / all);
      energy_mj_[{holding->model, holding->job, holding->kind}] += upto - std::exchange(given, upto);
    }
    if (of.mj > given) energy_mj_[{"", "", of.kind}] += of.mj - given;
  }
}

int64_t DeviceMeter::EnergyOf(const Key& key) const {
  const auto found = energy_mj_.find(key);
  return found == energy_mj_.end() ? 0 : found->second;
}

void DeviceMeter::Price(DeviceRecord& record) const {
  if (!tariff_ || record.energy_mj <= 0) return;
  constexpr double kMillijoulesPerKwh = 3.6e9;
  const EnergyRate rate = tariff_(FromMillis(record.from_us / 1000));
  const double kwh = static_cast<double>(record.energy_mj) / kMillijoulesPerKwh;
  record.energy_micro_usd = std::llround(kwh * rate.usd_per_kwh * 1e6);
  record.co2_mg = std::llround(kwh * rate.grams_co2_per_kwh * 1e3);
}

void DeviceMeter::AddIdle(int64_t now_ms, std::vector<DeviceRecord>& out) const {
  for (const auto& [key, mj] : energy_mj_) {
    const auto& [model, job, kind] = key;
    if (!model.empty() || !job.empty() || mj <= 0) continue;
    const auto until = until_ms_.find(key);
    const int64_t from = until == until_ms_.end() ? begun_ms_ : std::max(begun_ms_, until->second);
    if (from >= now_ms) continue;
    DeviceRecord& record = out.emplace_back();
    record.from_us = from * 1000;
    record.until_us = now_ms * 1000;
    record.tenant = ledger::kIdle;
    record.device = kind;
    record.energy_mj = mj;
    Price(record);
  }
}

std::vector<DeviceRecord> DeviceMeter::Next(std::span<const HeldDevices> holdings, const HeldBy& by,
                                            conf::TimePoint until) const {
  const int64_t now = Millis(until);
  std::map<Key, std::vector<const HeldDevices*>> groups;
  for (const HeldDevices& holding : holdings) {
    if (holding.milli > 0 && Means(by, holding))
      groups[{holding.model, holding.job, holding.kind}].push_back(&holding);
  }
  std::vector<DeviceRecord> out;
  for (const auto& [key, group] : groups) {
    const auto end_of = [now](const HeldDevices& holding) {
      return holding.until ? std::min(now, Millis(*holding.until)) : now;
    };
    int64_t from = now;
    int64_t end = 0;
    for (const HeldDevices* holding : group) {
      from = std::min(from, FromOf(*holding));
      const bool known = holding->until || !holding->alive;
      end = std::max(end, known ? end_of(*holding) : std::min(now, Millis(*holding->alive)));
    }
    const auto weights = weights_.find(key);
    const Weights* served = weights == weights_.end() ? nullptr : &weights->second;
    bool first = true;
    while (from < end) {
      int64_t to = std::min(end, After(from, first ? kMinute : kHour));
      if (from < begun_ms_) to = std::min(to, begun_ms_);
      int64_t held = 0;
      for (const HeldDevices* holding : group)
        held += std::max<int64_t>(std::min(to, end_of(*holding)) - std::max(from, FromOf(*holding)), 0) *
                holding->milli;
      const bool dead = !first && from < begun_ms_;
      Share(*group.front(), from, to, held, to == end ? EnergyOf(key) : 0, dead ? nullptr : served, out);
      from = to;
      first = false;
    }
  }
  if (by.all()) AddIdle(now, out);
  return out;
}

// Each tenant's part ends at the running sum of the weights, so that the parts add up exactly.
void DeviceMeter::Share(const HeldDevices& of, int64_t from_ms, int64_t until_ms, int64_t held_us,
                        int64_t energy_mj, const Weights* weights, std::vector<DeviceRecord>& out) const {
  DeviceRecord record{.from_us = from_ms * 1000,
                      .until_us = until_ms * 1000,
                      .tenant = of.job.empty() ? std::string(ledger::kIdle) : of.tenant,
                      .model = of.model,
                      .job = of.job,
                      .device = of.kind,
                      .device_us = held_us,
                      .held_us = held_us};
  if (held_us == 0) return;
  if (weights == nullptr) {
    record.energy_mj = energy_mj;
    Price(record);
    return out.push_back(std::move(record));
  }
  uint64_t all = 0;
  for (const auto& [tenant, weight] : *weights) all += weight;
  uint64_t sum = 0;
  int64_t given = 0;
  int64_t given_mj = 0;
  for (const auto& [tenant, weight] : *weights) {
    sum += weight;
    const auto upto = static_cast<int64_t>(static_cast<unsigned __int128>(held_us) * sum / all);
    record.tenant = tenant;
    record.weight = weight;
    record.device_us = upto - std::exchange(given, upto);
    const auto upto_mj = static_cast<int64_t>(static_cast<__int128>(energy_mj) * sum / all);
    record.energy_mj = upto_mj - std::exchange(given_mj, upto_mj);
    record.energy_micro_usd = record.co2_mg = 0;
    Price(record);
    if (record.device_us > 0 || record.energy_mj > 0) out.push_back(record);
  }
}

void DeviceMeter::KeepOnly(std::span<const HeldDevices> holdings) {
  std::set<Key> held;
  for (const HeldDevices& holding : holdings) held.insert({holding.model, holding.job, holding.kind});
  const auto is_idle = [](const Key& key) { return std::get<0>(key).empty() && std::get<1>(key).empty(); };
  std::erase_if(until_ms_, [&](const auto& one) { return !held.contains(one.first) && !is_idle(one.first); });
  for (auto& [key, mj] : energy_mj_) {
    if (held.contains(key) || is_idle(key)) continue;
    energy_mj_[{"", "", std::get<2>(key)}] += std::exchange(mj, 0);
  }
  std::erase_if(energy_mj_, [](const auto& one) { return one.second == 0; });
  std::erase_if(weights_, [&](const auto& one) { return !held.contains(one.first); });
}

void DeviceMeter::Written(std::span<const DeviceRecord> records) {
  for (const DeviceRecord& record : records) {
    const Key key{record.model, record.job, record.device};
    int64_t& until = until_ms_[key];
    until = std::max(until, record.until_us / 1000);
    weights_.erase(key);
    energy_mj_[key] -= record.energy_mj;
  }
}

}  // namespace gateway::control
