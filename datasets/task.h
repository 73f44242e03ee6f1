// A task: what an experiment must know about its data to build a model and to judge it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace bochner {

struct Task {
  std::string name;          ///< as in `lra --task NAME`
  int64_t classes = 0;       ///< labels are 0 ... classes - 1
  int64_t vocabulary = 0;    ///< ids are 0 ... vocabulary - 1; 0 is padding
  int64_t max_length = 0;    ///< tokens of the longest sequence that a model sees
  int sequences = 1;         ///< 2 for pairs
  bool masks_zeros = false;  ///< tokens 0 count as padding (LoaderOptions::mask_zeros)
  int64_t image_width = 0;   ///< pixels in a row, if tokens are the pixels of an image, row by row; 0: they are not
};

/// A task with its data, each part under the name that papers give it.
struct TaskData {
  Task task;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> valid;
  std::shared_ptr<const Dataset> test;
  /// What to report with every result on these data, such as `validation is the test set`.
  std::vector<std::string> remarks = {};
};

}  // namespace bochner
