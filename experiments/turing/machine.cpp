#include "experiments/turing/machine.h"

#include <algorithm>
#include <sstream>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/lines.h"

namespace bochner::turing {
namespace {

int64_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  names.push_back(name);
  return static_cast<int64_t>(names.size()) - 1;
}

}  // namespace

const Machine::Rule& Machine::rule(int64_t state, int64_t symbol) const {
  return rules[static_cast<size_t>(state) * symbols.size() + static_cast<size_t>(symbol)];
}

bool Machine::is_final(int64_t state) const {
  for (size_t symbol = 0; symbol < symbols.size(); ++symbol) {
    if (rule(state, static_cast<int64_t>(symbol)).move != 0) return false;
  }
  return true;
}

Machine Machine::parse(const std::string& name, std::string_view text) {
  Machine machine{.name = name, .states = {}, .symbols = {"_"}, .rules = {}};
  struct Line {
    int number;
    int64_t state, symbol;
    Rule rule;
  };
  std::vector<Line> lines;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    std::istringstream words{std::string(line.substr(0, line.find('#')))};
    std::vector<std::string> word;
    for (std::string next; words >> next;) word.push_back(next);
    if (word.empty()) continue;
    if (word.size() != 5) {
      fail("{}, line {}: {} words; a rule has five: state symbol write next move", name, number, word.size());
    }
    if (word[1].size() != 1 || word[2].size() != 1) {
      fail("{}, line {}: {} and {} must be symbols of one character", name, number, shown(word[1]), shown(word[2]));
    }
    if (word[4] != "L" && word[4] != "R") fail("{}, line {}: the move {} must be L or R", name, number, shown(word[4]));
    Line rule{number, place_of(machine.states, word[0]), place_of(machine.symbols, word[1]), {}};
    rule.rule = {place_of(machine.symbols, word[2]), place_of(machine.states, word[3]), word[4] == "L" ? -1 : 1};
    lines.push_back(rule);
  }
  if (lines.empty()) fail("{}: no rules; one a line: state symbol write next move", name);
  machine.rules.resize(machine.states.size() * machine.symbols.size());
  for (const Line& line : lines) {
    Rule& rule =
        machine.rules[static_cast<size_t>(line.state) * machine.symbols.size() + static_cast<size_t>(line.symbol)];
    if (rule.move != 0) fail("{}, line {}: a second rule for the same state and symbol", name, line.number);
    rule = line.rule;
  }
  return machine;
}

std::vector<int64_t> Machine::read(std::string_view input) const {
  std::vector<int64_t> tape;
  for (const char c : input) {
    const auto found = std::find(symbols.begin() + 1, symbols.end(), std::string(1, c));
    if (found == symbols.end())
      fail("{}: '{}' of the input is no symbol of this machine other than the blank", name, c);
    tape.push_back(found - symbols.begin());
  }
  if (tape.empty()) fail("{}: the input is empty; the head begins on its last cell", name);
  return tape;
}

Configuration start(const Machine& machine, const std::vector<int64_t>& input) {
  if (input.empty()) fail("{}: the input is empty; the head begins on its last cell", machine.name);
  Configuration at{.state = 0, .head = static_cast<int64_t>(input.size()) - 1, .tape = input};
  at.tape.push_back(0);
  return at;
}

void step(const Machine& machine, Configuration& at) {
  const Machine::Rule& rule = machine.rule(at.state, at.symbol());
  if (rule.move == 0) {
    fail("{}: no rule for state {} and symbol {}", machine.name, shown(machine.states[static_cast<size_t>(at.state)]),
         shown(machine.symbols[static_cast<size_t>(at.symbol())]));
  }
  at.tape[static_cast<size_t>(at.head)] = rule.write;
  at.state = rule.next;
  at.head += rule.move;
  if (at.head < 0) fail("{}: the head leaves the tape to the left", machine.name);
  if (at.head == static_cast<int64_t>(at.tape.size())) at.tape.push_back(0);
}

std::string text(const Machine& machine, const Configuration& at) {
  std::string line;
  for (size_t i = 0; i < at.tape.size(); ++i) {
    const std::string& symbol = machine.symbols[static_cast<size_t>(at.tape[i])];
    line += static_cast<int64_t>(i) == at.head ? "[" + symbol + "]" : symbol;
  }
  return line;
}

const std::vector<Example>& examples() {
  static const std::vector<Example> list = {
      {"increment", ">10111",
       "carry 1 0 carry L    # from the last digit: ones become zeros,\n"
       "carry 0 1 done  R    # the first zero becomes one\n"
       "carry > > grow  R    # all were ones: one digit more\n"
       "grow  0 1 fill  R\n"
       "grow  _ 1 done  R\n"
       "fill  0 0 fill  R\n"
       "fill  _ 0 done  R\n"},
      {"palindrome", ">1001001",
       "last   0 _ seek0 L    # take the last symbol away and remember it\n"
       "last   1 _ seek1 L\n"
       "last   > > yes   R    # nothing is left\n"
       "seek0  0 0 seek0 L\n"
       "seek0  1 1 seek0 L\n"
       "seek0  > > first0 R\n"
       "seek1  0 0 seek1 L\n"
       "seek1  1 1 seek1 L\n"
       "seek1  > > first1 R\n"
       "first0 0 > back  R    # the first symbol is the same: take it away, too\n"
       "first0 1 1 no    R\n"
       "first0 _ _ yes   L    # it was the middle\n"
       "first1 1 > back  R\n"
       "first1 0 0 no    R\n"
       "first1 _ _ yes   L\n"
       "back   0 0 back  R\n"
       "back   1 1 back  R\n"
       "back   _ _ last  L\n"},
      // Lin and Rado, 1965: six ones in 14 steps. The zeros make space to the left.
      {"busy-beaver", "00000000",
       "A 0 1 B    R\nA _ 1 B    R\nA 1 1 halt R\n"
       "B 0 0 C    R\nB _ 0 C    R\nB 1 1 B    R\n"
       "C 0 1 C    L\nC _ 1 C    L\nC 1 1 A    L\n"},
  };
  return list;
}

}  // namespace bochner::turing
