// Parses and checks the JSON header of a safetensors file. Private to safetensors.cpp and its tests.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/elements.h"

namespace bochner {

struct SafetensorsHeader {
  struct Item {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    std::vector<int64_t> data_offsets;  ///< first byte and the byte after the last, counted from the end of the header
    int64_t place = 0;                  ///< where the entry ends in the file, for messages
  };
  std::vector<Item> items;  ///< in the order of the file
  std::map<std::string, std::string> metadata;
};

/// Parses the header text, which begins at byte 8 of `file`. JSON that is not UTF-8, does not have this form, is nested
/// deeper or has a duplicate name is an Error with the offset. Offsets and shapes are only checked to be non-negative
/// integers.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file);

/// The header text for these items, padded so that the elements begin at a multiple of 8 bytes.
std::string format_safetensors_header(const SafetensorsHeader& header);

/// Converts names such as `F32`; an Error lists the known ones.
std::string_view safetensors_name(FileType type);
FileType safetensors_type(std::string_view name, std::string_view tensor, std::string_view file, int64_t offset);

}  // namespace bochner
