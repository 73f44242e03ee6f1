// A run of `lra`: training with validations, checkpoints, and the test of the best one.
//
// The run folder holds config.ini, metrics.jsonl (one line for each validation), checkpoint-last and checkpoint-best
// (safetensors) and, at the end, results.json. A run that ended early, however, goes on with --resume to the same bits.
#pragma once

#include <filesystem>

#include "experiments/common/main.h"
#include "experiments/lra/learner.h"

namespace bochner::lra {

struct Outcome {
  Score valid;               ///< of the best checkpoint
  Score test;                ///< of the best checkpoint by validation
  Score last_test;           ///< of the last one
  int64_t best_step = 0;
  int64_t parameters = 0;
  double steps_per_second = 0;
  int64_t peak_memory_bytes = 0;
};

Outcome train(const Config& config, const TaskData& data, const std::filesystem::path& folder, Session& session);

}  // namespace bochner::lra
