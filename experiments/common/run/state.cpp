#include "experiments/common/run/state.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/finite.h"

namespace bochner {
namespace {

template <class T>
T parse(const std::string& text, const std::string& name, const std::string& file) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) fail("{}: the value '{}' is damaged: {}", file, name, shown(text));
  return value;
}

/// The suffix of a value's name if the value's bytes are stored as the characters with these numbers.
constexpr std::string_view kAsLatin1 = " as Latin-1";

/// Values as stored in the file, whose strings are UTF-8; file names in config.ini may hold any bytes.
Metadata stored(const Metadata& values) {
  Metadata result;
  for (const auto& [name, value] : values) {
    std::string text;
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80) text += static_cast<char>(0xc0U | byte >> 6U);
      text += static_cast<char>(byte >= 0x80 ? 0x80U | (byte & 0x3fU) : byte);
    }
    result[text.size() == value.size() ? name : name + std::string(kAsLatin1)] = text;
  }
  return result;
}

/// The reverse.
State restored(TensorMap tensors, const Metadata& values, const std::string& file) {
  State state{std::move(tensors), {}, file};
  for (const auto& [name, value] : values) {
    if (!name.ends_with(kAsLatin1)) {
      state.values[name] = value;
      continue;
    }
    std::string& bytes = state.values[name.substr(0, name.size() - kAsLatin1.size())];
    unsigned lead = 0;
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0xc0) {
        lead = byte << 6U;
      } else {
        bytes += static_cast<char>(byte < 0x80 ? byte : (lead | (byte & 0x3fU)) & 0xffU);
      }
    }
  }
  return state;
}

}  // namespace

void State::set(const std::string& name, int64_t value) { values[name] = std::to_string(value); }
void State::set(const std::string& name, double value) {
  std::array<char, 32> text{};  // the shortest form that reads back to the same bits has at most 24 characters
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  BOCHNER_ASSERT(error == std::errc());
  values[name] = std::string(text.data(), end);
}
void State::set(const std::string& name, const Generator& value) {
  values[name] = std::to_string(value.seed()).append(" ").append(std::to_string(value.offset()));
}

const std::string& State::text(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) fail("{}: holds no value '{}'; is it a checkpoint of this experiment?", file, name);
  return found->second;
}

int64_t State::integer(const std::string& name) const { return parse<int64_t>(text(name), name, file); }
int64_t State::count(const std::string& name) const {
  const int64_t value = integer(name);
  if (value < 0) fail("{}: the value '{}' is damaged: {} is below 0", file, name, value);
  return value;
}
double State::real(const std::string& name) const { return parse<double>(text(name), name, file); }

Generator State::generator(const std::string& name) const {
  const std::string& both = text(name);
  const size_t blank = both.find(' ');
  if (blank == std::string::npos) fail("{}: the value '{}' is damaged: {}", file, name, shown(both));
  return Generator(parse<uint64_t>(both.substr(0, blank), name, file),
                   parse<uint64_t>(both.substr(blank + 1), name, file));
}

void State::copy_to(const std::string& name, const Tensor& to) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) fail("{}: holds no tensor '{}'; is it a checkpoint of this model?", file, name);
  const Tensor& from = found->second;
  if (!(from.shape() == to.shape()) || from.dtype() != to.dtype()) {
    fail("{}: tensor '{}' is {}, but the model needs {}", file, name, from.str(), to.str());
  }
  if (from.device().is_cpu()) require_finite(from, name, file);  // on a GPU, only what a model already held
  to.copy_(from);
}

void State::save(const std::filesystem::path& path) const { write_safetensors(path, tensors, stored(values)); }

State State::load(const std::filesystem::path& path) {
  Safetensors read = read_safetensors(path);
  return restored(std::move(read.tensors), read.metadata, path.string());
}

State State::values_of(const SafetensorsFile& file) { return restored({}, file.metadata(), file.name()); }

State broadcast(Communicator& comm, const State& state) {
  if (comm.size() == 1) return state;
  std::string bytes;
  if (comm.is_first()) bytes = text_of(format_safetensors(state.tensors, stored(state.values)));
  bytes = comm.broadcast(bytes);
  Safetensors read = parse_safetensors(bytes_of(bytes), "state of " + comm.who(0));
  return restored(std::move(read.tensors), read.metadata, "state of " + comm.who(0));
}

}  // namespace bochner
