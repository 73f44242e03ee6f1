// INI files: `key = value` lines below `[section]` lines, which form the name `section.key`.
//
//   # a comment, also after a value if a blank precedes it
//   steps = 5000
//   [model]
//   layers = 2        # model.layers
//   name = "a value # with a blank before its hash, or blanks at its ends, stands in quotes; "" is one within them"
//
// Boost.Program_options has a reader, but it cannot report the line of a mistake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bochner {

struct IniEntry {
  std::string name;  ///< `section.key`
  std::string value;
  int line = 0;  ///< from 1
};

/// An Error `file:line: what is wrong` if a line is neither a section, nor `key = value`, nor empty, nor a comment, if
/// a name is malformed or given twice, or if there is a control character.
std::vector<IniEntry> parse_ini(std::string_view text, std::string_view file);

/// `value` written so that an INI file reads it back.
std::string ini_value(const std::string& value);

}  // namespace bochner
