// The state of a run as named tensors and named values, and its file: a checkpoint in safetensors form.
//
//   State state;
//   state.tensors["encoder.0.weight"] = weight;
//   state.set("step", step);
//   state.set("dropout", generator);
//   state.save(folder / "checkpoint-last");      // atomic: the old file stays until the new one is complete
//   State back = State::load(folder / "checkpoint-last");
//   step = back.integer("step");
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/io/safetensors.h"
#include "engine/random.h"

namespace bochner {

/// Values in a state without the frozen weights that are in a file of their own: that file's name and hash.
inline constexpr const char* kBaseFile = "base.file";
inline constexpr const char* kBaseHash = "base.sha256";

struct State {
  TensorMap tensors;
  Metadata values;
  std::string file = "state";  ///< for messages

  void set(const std::string& name, const std::string& value) { values[name] = value; }
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, double value);
  void set(const std::string& name, const Generator& value);

  // An Error names the file and a value that is missing or malformed.
  const std::string& text(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  int64_t count(const std::string& name) const;  ///< an integer that is not negative
  double real(const std::string& name) const;
  Generator generator(const std::string& name) const;
  /// Copies the tensor of that name into `to`; an Error if there is none or its shape or type differs.
  void copy_to(const std::string& name, const Tensor& to) const;

  void save(const std::filesystem::path& path) const;
  static State load(const std::filesystem::path& path);
  /// Only the values of an open file: no tensor is read.
  static State values_of(const SafetensorsFile& file);
};

/// The state of the first process, in all of them.
State broadcast(Communicator& comm, const State& state);

}  // namespace bochner
