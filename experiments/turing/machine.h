// Turing machines, and a plain simulator for them, with which the Transformer in transformer.h is compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bochner::turing {

/// A one-tape machine whose tape has a first cell but no last one. States and symbols are numbers, and names are only
/// printed; symbol 0 is the blank, and state 0 is the initial state.
struct Machine {
  struct Rule {
    int64_t write = 0;
    int64_t next = 0;
    int64_t move = 0;  ///< -1 or 1; 0: there is no rule
  };
  std::string name;
  std::vector<std::string> states;
  std::vector<std::string> symbols;  ///< one character each
  std::vector<Rule> rules;           ///< rules[state * symbols.size() + symbol]

  const Rule& rule(int64_t state, int64_t symbol) const;
  /// Whether the state has no rule at all, so that the machine halts in it.
  bool is_final(int64_t state) const;

  /// One rule per line, `state symbol write next move`, with a move of L or R; the first line's state is the initial
  /// one, states without rules are final, `_` is the blank, and `#` begins a comment. An Error names the line.
  static Machine parse(const std::string& name, std::string_view text);
  /// The numbers of an input's symbols; an Error if one is unknown or is a blank.
  std::vector<int64_t> read(std::string_view input) const;
};

/// A machine at one moment.
struct Configuration {
  int64_t state = 0;
  int64_t head = 0;
  std::vector<int64_t> tape;  ///< up to the last cell that was ever visited or held input

  bool operator==(const Configuration&) const = default;
  int64_t symbol() const { return tape[static_cast<size_t>(head)]; }
};

/// Initial state, the head on the last cell of the input (KL A.1), which must not be empty.
Configuration start(const Machine& machine, const std::vector<int64_t>& input);
/// One step. An Error if there is no rule, or if the head would leave the tape.
void step(const Machine& machine, Configuration& at);
/// `>01[1]_` : the tape with the head in brackets.
std::string text(const Machine& machine, const Configuration& at);

/// The machines that come with the experiment.
struct Example {
  std::string name;
  std::string input;
  std::string text;
};
const std::vector<Example>& examples();

}  // namespace bochner::turing
