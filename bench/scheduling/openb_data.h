// Alibaba's openb traces and the published figures for them, read from a folder.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace bench::scheduling {

struct OpenbList {
  std::string name;  // "gpushare40"
  std::vector<scheduler::Ask> asks;
};

struct Reading {
  double at_100 = 0;  // percent of all devices that are allocated, when as many have been asked for
  double at_130 = 0;
};

struct Openb {
  scheduler::Cluster cluster;
  std::vector<OpenbList> lists;
  std::map<std::pair<std::string, std::string>, Reading>
      published;  // by list and policy; of none to all lists
};

// Any folder with openb_node_list_*.csv (openb_node_list_gpu_node.csv where there are several) and
// openb_pod_list_*.csv; published_allocation.csv may be missing.
absl::StatusOr<Openb> LoadOpenb(const std::string& path);

}  // namespace bench::scheduling
