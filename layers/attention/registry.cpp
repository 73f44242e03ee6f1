// The table of contents of attention: every name that --attention takes, in the order of `mechanisms()`. Each family
// describes itself in its own file, in `describe_NAME`.
#include "layers/attention/registry.h"
#include "engine/nearest.h"

namespace bochner {

#define BOCHNER_MECHANISMS(X) \
  X(softmax)                  \
  X(linear_elu)               \
  X(performers)               \
  X(mixtures)                 \
  X(fastfood)                 \
  X(generative)               \
  X(hedgehog)                 \
  X(gaussian)                 \
  X(skyformer)                \
  X(nystromformer)            \
  X(linformer)                \
  X(informer)                 \
  X(reformer)                 \
  X(bigbird)                  \
  X(longformer)               \
  X(local)                    \
  X(sparse)                   \
  X(sinkhorn)                 \
  X(synthesizer)              \
  X(none)

#define BOCHNER_DECLARE(name) void describe_##name(Mechanisms& list);
BOCHNER_MECHANISMS(BOCHNER_DECLARE)
#undef BOCHNER_DECLARE

namespace {

Mechanisms& registered() {
  static Mechanisms list = [] {
    Mechanisms made;
#define BOCHNER_DESCRIBE(name) describe_##name(made);
    BOCHNER_MECHANISMS(BOCHNER_DESCRIBE)
#undef BOCHNER_DESCRIBE
    return made;
  }();
  return list;
}

std::vector<std::string> names_with(bool MechanismInfo::*trait) {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) {
    if (info.*trait) names.push_back(info.name);
  }
  return names;
}

}  // namespace

const Mechanisms& mechanisms() { return registered(); }

void add_mechanisms(const std::function<void(Mechanisms&)>& describe) {
  Mechanisms added;
  describe(added);
  for (MechanismInfo& info : added) {
    for (const MechanismInfo& known : mechanisms()) {
      if (known.name == info.name) fail("attention: there is a '{}' already; give yours another name", info.name);
    }
    registered().push_back(std::move(info));
  }
}

void fail_causal(const std::string& mechanism) {
  fail("{} has no causal form; these have one: {}", mechanism, listed(names_with(&MechanismInfo::causal)));
}

void fail_slices(const std::string& mechanism) {
  fail("--sequence-shards: {} needs whole sequences; these attentions take slices of them: {}", mechanism,
       listed(names_with(&MechanismInfo::slices)));
}

void require_self_attention(const std::string& mechanism, const Variable& Q, const Variable& K) {
  if (Q.size(2) == K.size(2)) return;
  fail("{}: {} queries and {} keys; it attends within one sequence only", mechanism, Q.size(2), K.size(2));
}

const MechanismInfo& mechanism_named(const std::string& name) {
  std::vector<std::string> names;
  for (const MechanismInfo& info : mechanisms()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  fail("attention: '{}' is not known; the nearest is '{}' (all: {})", name, nearest(name, names), listed(names));
}

std::unique_ptr<Mechanism> make_mechanism(Slot slot, int64_t heads, int64_t dim, const MechanismOptions& options,
                                          Generator& init) {
  MechanismOptions checked = options;
  checked.list().validate();
  return mechanism_named(options.name()).maker.make(std::move(slot), heads, dim, checked, init);
}

}  // namespace bochner
