// Bodies of the APIs that run a text through the model once: embeddings, rerank, score.
#pragma once

#include <string>

#include "tools/engine/job.h"
#include "tools/engine/request.h"

namespace tidegate_engine {

// Vectors have unit length and depend on the text alone, so a text has the same vector in every replica.
std::string PoolingBody(const Pooling& request, const Job& job);

}  // namespace tidegate_engine
