#include "scheduler/state/shape_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace scheduler {
namespace {

constexpr std::string_view kTenantLabel = "tenant";

void AppendRules(std::string& text, char sign, const std::vector<LabelRule>& rules) {
  for (const LabelRule& rule : rules) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}", sign, rule.key.size(), rule.key);
    for (const std::string& value : rule.values) {
      fmt::format_to(std::back_inserter(text), "={}:{}", value.size(), value);
    }
  }
}

// Equal shapes have equal texts.
std::string TextOf(const Shape& shape) {
  std::string text =
      fmt::format("{} {} {} {} {} {:x} {} {} ", shape.cpu_milli, shape.memory_mib, shape.count, shape.milli,
                  shape.device_mib, shape.kinds, static_cast<int>(shape.isolation), shape.tenant);
  for (const uint8_t profile : shape.profile) fmt::format_to(std::back_inserter(text), "p{}", profile);
  AppendRules(text, '+', shape.require);
  AppendRules(text, '-', shape.avoid);
  AppendRules(text, '~', shape.prefer);
  return text;
}

uint64_t KindsOf(const Cluster& cluster, const DeviceAsk& ask) {
  uint64_t kinds = 0;
  for (size_t k = 0; k < cluster.kinds.size(); ++k) {
    if (ask.kinds.empty() || std::ranges::find(ask.kinds, cluster.kinds[k].name) != ask.kinds.end()) {
      kinds |= uint64_t{1} << k;
    }
  }
  return kinds;
}

// Narrows `kinds` to those that can be cut so; empty when none can.
std::vector<uint8_t> ProfilesOf(const Cluster& cluster, const std::string& profile, uint64_t& kinds) {
  std::vector<uint8_t> found(cluster.layouts.size(), 0);
  for (size_t l = 0; l < cluster.layouts.size(); ++l) {
    const auto& profiles = cluster.layouts[l].profiles;
    const auto at = std::ranges::find(profiles, profile, &PartitionProfile::name);
    if (at != profiles.end()) found[l] = static_cast<uint8_t>(at - profiles.begin() + 1);
  }
  for (size_t k = 0; k < cluster.kinds.size(); ++k) {
    const uint32_t layout = cluster.kinds[k].layout;
    if (layout == kNone || found[layout] == 0) kinds &= ~(uint64_t{1} << k);
  }
  return found;
}

}  // namespace

int64_t DeviceMilli(const DeviceAsk& ask, const Cluster& cluster) {
  if (ask.profile.empty()) return DeviceMilli(ask);
  uint64_t kinds = KindsOf(cluster, ask);
  const std::vector<uint8_t> profiles = ProfilesOf(cluster, ask.profile, kinds);
  int64_t smallest = kWholeDevice;
  for (size_t k = 0; k < cluster.kinds.size(); ++k) {
    if ((kinds >> k & 1) == 0) continue;
    const uint32_t of_kind =
        cluster.kinds[k].layout;  // it has the profile, or the kind would not be among them
    const PartitionLayout& layout = cluster.layouts[of_kind];
    smallest = std::min(
        smallest, int64_t{layout.profiles[profiles[of_kind] - 1U].compute} * kWholeDevice / layout.compute);
  }
  return kinds == 0 ? 0 : smallest;
}

int64_t DeviceMilli(const Job& job, const Cluster& cluster) {
  int64_t milli = 0;
  for (const Role& role : job.roles) {
    if (!role.ask.devices.empty()) milli += DeviceMilli(role.ask.devices.front(), cluster) * role.count;
  }
  return milli;
}

ShapeTable::ShapeTable(const Cluster& cluster) : cluster_(&cluster) {
  tenants_matter_ = std::ranges::any_of(
      cluster.nodes, [](const Node& node) { return node.labels.contains(std::string(kTenantLabel)); });
}

uint32_t ShapeTable::TenantNumber(const std::string& tenant) {
  const auto [at, is_new] = tenants_.try_emplace(tenant, static_cast<uint32_t>(tenants_.size() + 1));
  if (is_new) tenant_names_.push_back(tenant);
  return at->second;
}

std::vector<ShapeId> ShapeTable::Resolve(const Ask& ask, const std::string& tenant) {
  Shape common;
  common.cpu_milli = ask.cpu_milli;
  common.memory_mib = ask.memory_mib;
  common.require = ask.require;
  common.avoid = ask.avoid;
  common.prefer = ask.prefer;
  common.isolation = ask.isolation;
  if (tenants_matter_) common.require.push_back({std::string(kTenantLabel), {"", tenant}});
  if (ask.isolation == Isolation::kTenant) common.tenant = TenantNumber(tenant);

  std::vector<ShapeId> ids;
  const auto add = [&](Shape shape) {
    std::string text = TextOf(shape);
    const auto [at, is_new] = by_text_.try_emplace(std::move(text), size());
    if (is_new) shapes_.push_back(std::move(shape));
    ids.push_back(at->second);
  };
  if (ask.devices.empty()) add(common);
  for (const DeviceAsk& device : ask.devices) {
    Shape shape = common;
    shape.count = device.count;
    shape.milli = device.milli;
    shape.device_mib = static_cast<int32_t>(device.memory_mib);
    if (device.count > 0 || device.milli > 0 || !device.profile.empty()) {
      shape.kinds = KindsOf(*cluster_, device);
      if (!device.profile.empty()) shape.profile = ProfilesOf(*cluster_, device.profile, shape.kinds);
      if (shape.kinds == 0) continue;
    }
    add(std::move(shape));
  }
  return ids;
}

}  // namespace scheduler
