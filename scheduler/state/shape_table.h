// The shapes that jobs ask for, each once.
//
// A job's ask with n alternatives of devices has n shapes, tried in order. Equal requests share a shape, so
// that what is known about a shape (which node classes may take it, how well) holds for every job with that
// request.
// Shapes live as long as their table; ids are dense and rise.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/shape.h"

namespace scheduler {

using ShapeId = uint32_t;

// As in work.h, in a cluster that says how large partitions are. Of partitions of one name the smallest counts, so that no
// queue refuses what a node could give; where a job is placed, the size is exact. A name that the cluster does not know
// counts 0.
int64_t DeviceMilli(const DeviceAsk& ask, const Cluster& cluster);
int64_t DeviceMilli(const Job& job, const Cluster& cluster);

class ShapeTable {
 public:
  explicit ShapeTable(const Cluster& cluster);

  // The shapes of an ask, in its order of preference. An alternative that names no kind or profile of this
  // cluster is left out: none at all means that no node can ever take it.
  std::vector<ShapeId> Resolve(const Ask& ask, const std::string& tenant);

  const Cluster& cluster() const { return *cluster_; }
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
