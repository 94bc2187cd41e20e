// A member's ask, resolved against a cluster: numbers and bits where the ask has names.
//
// A job's ask with n alternatives of devices has n shapes, tried in order. Equal asks share a shape, so that
// what is known of a shape (which node classes may take it, how well) is known of every job that asks alike.
// Shapes live as long as their table; ids are dense and rise.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace scheduler {

using ShapeId = uint32_t;

struct Shape {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  uint16_t count = 0;  // whole devices
  uint16_t milli = 0;  // or a share of one
  int32_t device_mib = 0;
  uint64_t kinds = 0;  // bit k: device kind k will do; 0: needs no device
  std::vector<uint8_t>
      profile;  // per partition layout: 1 + the profile's index, 0 where it has none; empty: no partition
  std::vector<LabelRule> require;
  std::vector<LabelRule> avoid;
  std::vector<LabelRule> prefer;
  Isolation isolation = Isolation::kNone;
  uint32_t tenant = 0;  // 0 where no node or ask makes a difference by tenant

  bool needs_device() const { return kinds != 0; }
  bool is_partition() const { return !profile.empty(); }
  // 1 + the index of the partition profile on such nodes; 0: they have none of this name.
  uint8_t profile_on(const TypeView& view) const {
    return view.layout == nullptr || !is_partition() ? uint8_t{0} : profile[view.layout_index];
  }
  // What a member counts for on such a node, in milli.
  int64_t device_milli(const TypeView& view) const;
};

class ShapeTable {
 public:
  explicit ShapeTable(const Cluster& cluster);

  // The shapes of an ask, in its order of preference. An alternative that names no kind or profile of this
  // cluster is left out: none at all means that no node can ever take it.
  std::vector<ShapeId> Resolve(const Ask& ask, const std::string& tenant);

  const Shape& operator[](ShapeId id) const { return shapes_[id]; }
  uint32_t size() const { return static_cast<uint32_t>(shapes_.size()); }

  // The number of a tenant, from 1; the same name, the same number.
  uint32_t TenantNumber(const std::string& tenant);
  // In the order of their numbers.
  const std::vector<std::string>& tenants() const { return tenant_names_; }

 private:
  const Cluster* cluster_;
  bool tenants_matter_ = false;
  std::vector<Shape> shapes_;
  absl::flat_hash_map<std::string, ShapeId> by_text_;
  absl::flat_hash_map<std::string, uint32_t> tenants_;
  std::vector<std::string> tenant_names_;
};

}  // namespace scheduler
