// What a choice by cost is made of: policies/cost.h has the formula.
#pragma once

namespace router {

// A score in its parts, in seconds; all zero for policies that do not reckon in seconds.
struct CostTerms {
  double wait = 0;      // until the engine has computed what stands before this prompt
  double compute = 0;   // of this prompt's uncached part
  double decode = 0;    // of the expected answer
  double others = 0;    // the delay that computing it causes to all others
  double pressure = 0;  // of the KV cache
  double silence = 0;   // nothing heard for too long
  double distance = 0;  // it stands in another zone
  double adapter = 0;   // until the request's LoRA adapter is loaded there
  double handover = 0;  // the prompt is computed elsewhere and handed over
  double Sum() const {
    return wait + compute + decode + others + pressure + silence + distance + adapter + handover;
  }

  friend bool operator==(const CostTerms&, const CostTerms&) = default;
};

}  // namespace router
