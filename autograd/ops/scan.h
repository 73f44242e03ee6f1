// Running sums of Variables.
#pragma once

#include "autograd/variable.h"
#include "engine/ops/scan.h"

namespace bochner {

/// y_i = sum over j <= i of x_j along `axis`; exclusive and reverse as in engine/ops/scan.h.
Variable cumsum(const Variable& x, int axis, ScanOptions options = {});

}  // namespace bochner
