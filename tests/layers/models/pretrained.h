// The models of tests/golden/bert.py as folders that transformers could have written.
#pragma once

#include <numeric>

#include "engine/io/safetensors.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/files.h"
#include "tests/layers/golden.h"

namespace bochner::test {

inline nlohmann::json golden_model(const std::string& architecture) { return golden(architecture, "bert.json"); }

inline Shape shape_of(const nlohmann::json& sizes) {
  Dims dims;
  for (const int64_t size : sizes) dims.push_back(size);
  return Shape(dims);
}

/// The value of a tensor: a formula over its name.
inline Tensor filled(const std::string& name, const Shape& shape) {
  const bool scale = (name.find("LayerNorm") != std::string::npos || name.find("layernorm") != std::string::npos) &&
                     name.ends_with("weight");
  const Tensor wave_of_name = wave(std::accumulate(name.begin(), name.end(), 0) % 17, shape);
  std::vector<double> values = wave_of_name.to_vector<double>();
  for (double& value : values) value = (scale ? 1 : 0) + 0.3 * value;
  return Tensor::from(values, shape);
}

inline TensorMap tensors_of(const nlohmann::json& model) {
  TensorMap tensors;
  for (const auto& [name, sizes] : model.at("shapes").items()) tensors[name] = filled(name, shape_of(sizes));
  return tensors;
}

/// Writes config.json and model.safetensors.
inline void write_model(const std::filesystem::path& folder, const nlohmann::json& config, const TensorMap& tensors) {
  put(folder / "config.json", config.dump());
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

/// An input of the model in f64 or i64; undefined if it has none with that name.
inline Tensor input_of(const nlohmann::json& model, const std::string& name) {
  const nlohmann::json& inputs = model.at("inputs");
  if (!inputs.contains(name)) return {};
  const Shape shape = shape_of(inputs.at(name).at("shape"));
  const nlohmann::json& values = inputs.at(name).at("values");
  return name == "pixel_values" ? Tensor::from(values.get<std::vector<double>>(), shape)
                                : Tensor::from(values.get<std::vector<int64_t>>(), shape);
}

inline double difference(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item(); }

}  // namespace bochner::test
