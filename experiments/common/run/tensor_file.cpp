#include "experiments/common/run/tensor_file.h"

#include <algorithm>
#include <cmath>

#include "engine/io/paths.h"
#include "experiments/common/process/interrupt.h"

namespace bochner {
namespace {

/// `O: 3 of 64 numbers are not finite, the first is element 5`, for each such tensor.
std::string not_finite(const TensorMap& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<double> values = tensor.to_vector<double>();
    const auto is_bad = [](double x) { return !std::isfinite(x); };
    const auto first = std::find_if(values.begin(), values.end(), is_bad);
    if (first == values.end()) continue;
    text += fmt::format("{}{}: {} of {} numbers are not finite, the first is element {}", text.empty() ? "" : "; ",
                        name, std::count_if(first, values.end(), is_bad), values.size(), first - values.begin());
  }
  return text;
}

}  // namespace

std::filesystem::path result_file(const std::filesystem::path& input, const std::filesystem::path& out,
                                  const std::string& name) {
  if (out.extension() == ".safetensors") {
    if (std::filesystem::is_directory(out)) fail("--out={}: a folder of that name is there already", out.string());
    if (is_same(out, input)) fail("--out={}: that is the input; name another file", out.string());
    return out;
  }
  if (out.parent_path().extension() == ".safetensors") {  // for one of several mechanisms, each in a folder of its own
    fail("--out={}: one file cannot take the results of several mechanisms; name a folder", out.parent_path().string());
  }
  const std::filesystem::path folder = out.empty() ? input.parent_path() : out;
  if (!folder.empty()) std::filesystem::create_directories(folder);
  return folder / fmt::format("{}-{}.safetensors", input.stem().string(), name);
}

void write_result(const std::filesystem::path& file, const TensorMap& tensors, const Metadata& metadata,
                  const std::string& what, Log& log) {
  write_safetensors(file, tensors, metadata);
  for (const auto& [name, tensor] : tensors) log.info("{:<24} {}", name, tensor.str());
  fmt::print("{}\n", file.string());
  const std::string bad = not_finite(tensors);
  if (!bad.empty()) throw RunFailure(fmt::format("{}: {}; {} holds them", what, bad, file.string()));
}

}  // namespace bochner
