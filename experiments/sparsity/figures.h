// Figure 6 and Table 14 of KL, from the curves of finished runs.
#pragma once

#include <vector>

#include "experiments/common/report/report.h"

namespace bochner::sparsity {

inline constexpr const char* kGradientMean = "gradient-mean";
inline constexpr const char* kGradientDeviation = "gradient-deviation";
inline constexpr const char* kGradientNoise = "gradient-noise";

/// For 20, 40, 60 and 80 %, the first evaluation whose validation accuracy reached it: `step at 20` and the gradients
/// there, as in `gradient-mean at 20`.
Metrics crossings(const RunRecord& run);

/// The learning curves of each attention, one for each sparsity; Table 14 next to the paper's; the gradients over the
/// course of training.
std::vector<ReportFigure> figures(const std::vector<RunRecord>& runs, const PaperTable& papers);

}  // namespace bochner::sparsity
