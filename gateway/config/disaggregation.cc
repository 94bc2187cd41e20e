#include "gateway/config/disaggregation.h"

#include "conf/reader.h"

namespace gateway::config {

void Bind(conf::Object& o, Disaggregation& disaggregation) {
  o.Optional("min_prompt", disaggregation.min_prompt, conf::AtLeast{1U});
  o.Optional("min_uncached", disaggregation.min_uncached, conf::AtLeast{1U});
  if (disaggregation.min_uncached > disaggregation.min_prompt)
    o.Error("must not be more than min_prompt", "min_uncached");
}

}  // namespace gateway::config
