#include "autograd/optim/groups.h"

#include <algorithm>

#include "engine/error.h"

namespace bochner {

bool fits(std::string_view name, std::string_view pattern) {
  // The latest star and the end of the text that it matches; on a mismatch after it, that text becomes longer.
  size_t star = std::string_view::npos;
  size_t taken = 0;
  size_t n = 0;
  size_t p = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<ParameterGroup> parameter_groups(const std::vector<Parameter*>& parameters,
                                             const std::vector<GroupRule>& rules) {
  for (const GroupRule& rule : rules) {
    if (!(rule.rate >= 0) || !(rule.weight_decay.value_or(0) >= 0)) {
      fail("parameter groups: '{}' has rate {} and weight decay {}; both must be at least 0", rule.pattern, rule.rate,
           rule.weight_decay.value_or(0));
    }
  }
  std::vector<ParameterGroup> groups(1);
  std::vector<bool> decided(rules.size());
  for (Parameter* parameter : parameters) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const GroupRule& one) { return fits(parameter->name, one.pattern); });
    if (rule == rules.end()) {
      groups.front().parameters.push_back(parameter);
      continue;
    }
    decided[static_cast<size_t>(rule - rules.begin())] = true;
    if (rule->frozen) {
      parameter->trainable = false;
      continue;
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& one) {
      return one.rate == rule->rate && one.weight_decay == rule->weight_decay;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {{}, rule->rate, rule->weight_decay});
    group->parameters.push_back(parameter);
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (decided[i]) continue;
    fail("parameter groups: no parameter is left for '{}'; there are {} ... {}", rules[i].pattern,
         parameters.empty() ? "none" : parameters.front()->name, parameters.empty() ? "" : parameters.back()->name);
  }
  return groups;
}

std::vector<ParameterGroup> one_group(std::vector<Parameter*> parameters) {
  return {ParameterGroup{std::move(parameters), 1, {}}};
}

}  // namespace bochner
