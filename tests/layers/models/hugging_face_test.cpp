// BERT and ViT against transformers (tests/golden/bert.py): weights read by name, outputs, gradients, and the way back.
#include "layers/models/hugging_face.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/io/gzip.h"
#include "engine/ops/index.h"
#include "tests/layers/models/pretrained.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using nlohmann::json;
using test::golden_model;
using test::input_of;
using test::TemporaryFolder;
using test::tensors_of;
using test::write_model;

constexpr double kTolerance = 1e-9;

std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }

/// The outputs of a model, and the loss of tests/golden/bert.py.
struct Outputs {
  std::map<std::string, Variable> named;
  std::vector<Variable> states;
  Variable loss;
};

Variable sum_of_squares(const Variable& x, const Variable& pooled) { return sum(square(x)) + sum(pooled); }

/// Cross-entropy over the positions whose label is not -100.
Variable cross_entropy_of_marked(const Variable& scores, const json& labels) {
  const auto values = labels.get<std::vector<int64_t>>();
  return cross_entropy(reshape(scores, {-1, scores.size(-1)}),
                       Tensor::from(values, {static_cast<int64_t>(values.size())}), {.ignore = -100});
}

Outputs outputs_of(Bert& bert, const std::string& architecture, const json& model) {
  Generator noise(1);
  Context context{noise, false};
  Bert::Input input{input_of(model, "input_ids"), input_of(model, "attention_mask"), input_of(model, "token_type_ids")};
  if (input.mask.defined()) input.mask = input.mask.cast(DType::boolean);
  Outputs out;
  const Variable x = bert.forward(input, context, &out.states);
  const auto label = [](const std::vector<int64_t>& labels) {
    return Tensor::from(labels, {static_cast<int64_t>(labels.size())});
  };
  if (architecture == "BertModel") {
    out.named = {{"last_hidden_state", x}, {"pooler_output", bert.pool(x)}};
    out.loss = sum_of_squares(x, out.named["pooler_output"]);
  } else if (architecture == "BertForPreTraining") {
    out.named = {{"prediction_logits", bert.token_scores(x)},
                 {"seq_relationship_logits", bert.next_sentence_scores(bert.pool(x))}};
    out.loss = cross_entropy_of_marked(out.named["prediction_logits"], golden("labels", "bert.json")) +
               cross_entropy(out.named["seq_relationship_logits"], label({0, 1, 1}));
  } else if (architecture == "BertForMaskedLM") {
    out.named = {{"logits", bert.token_scores(x)}};
    std::vector<int64_t> labels(18);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 7 + 3) % 11;
    out.loss = cross_entropy_of_marked(out.named["logits"], labels);
  } else {
    out.named = {{"logits", bert.class_scores(bert.pool(x), context)}};
    out.loss = cross_entropy(out.named["logits"], label({0, 2, 1}));
  }
  return out;
}

Outputs outputs_of(Vit& vit, const std::string& architecture, const json& model) {
  Generator noise(1);
  Context context{noise, false};
  Outputs out;
  const Variable x = vit.forward(input_of(model, "pixel_values"), context, &out.states);
  if (architecture == "ViTModel") {
    out.named = {{"last_hidden_state", x}, {"pooler_output", vit.pool(x)}};
    out.loss = sum_of_squares(x, out.named["pooler_output"]);
  } else {
    out.named = {{"logits", vit.class_scores(vit.pool(x), context)}};
    out.loss = cross_entropy(out.named["logits"], Tensor::from<int64_t>({2, 0}, {2}));
  }
  return out;
}

void expect_outputs(const Outputs& out, const json& model) {
  const json& expected = model.at("outputs");
  for (const auto& [name, value] : out.named) expect_near(value.value(), expected.at(name), kTolerance, name);
  ASSERT_EQ(out.states.size(), expected.at("hidden_states").size());
  for (size_t i = 0; i < out.states.size(); ++i)
    expect_near(out.states[i].value(), expected.at("hidden_states")[i], kTolerance, "state " + std::to_string(i));
}

template <class Model, class Options>
void check(const std::string& architecture, Options (*read_options)(const std::filesystem::path&)) {
  const json model = golden_model(architecture);
  const TemporaryFolder folder;
  write_model(folder.path(), model.at("config"), tensors_of(model));
  Generator init(1);
  Model ours({}, read_options(folder.path()), init);
  ours.to(Device::cpu(), DType::f64);
  const LoadedTensors loaded = load_pretrained(ours, folder.path());
  EXPECT_EQ(loaded.read.size(), model.at("shapes").size());
  EXPECT_TRUE(loaded.made_new.empty() && loaded.left_over.empty()) << loaded.text();
  {
    Tape tape;
    const Outputs out = outputs_of(ours, architecture, model);
    expect_outputs(out, model);
    EXPECT_NEAR(out.loss.item(), model.at("loss"), kTolerance * std::abs(out.loss.item()));
    tape.backward(out.loss);
  }
  std::map<std::string, Tensor> gradients;
  for (Parameter* parameter : ours.parameters()) {
    gradients[parameter->name] =
        parameter->grad.defined() ? parameter->grad : Tensor::zeros(parameter->shape(), DType::f64);
  }
  const TensorMap named = pretrained_tensors(ours, gradients);
  ASSERT_EQ(named.size(), model.at("gradients").size());
  for (const auto& [name, expected] : model.at("gradients").items()) {
    const Variable g = named.at(name).contiguous();
    const double norm = std::sqrt(sum(square(g)).item());
    EXPECT_NEAR(sum(g * Variable(wave(9, g.shape()))).item(), expected[0], kTolerance * std::max(1.0, norm)) << name;
    EXPECT_NEAR(norm, expected[1], kTolerance * std::max(1.0, norm)) << name;
  }
  // And back: the same tensors under the same names, and a config.json with the same contents.
  save_pretrained(ours, folder / "mine");
  const TensorMap written = read_safetensors(folder / "mine/model.safetensors").tensors;
  ASSERT_EQ(written.size(), model.at("shapes").size());
  for (const auto& [name, value] : tensors_of(model)) {
    ASSERT_TRUE(written.contains(name)) << name;
    EXPECT_EQ(written.at(name).shape(), value.shape()) << name;
    EXPECT_EQ(values_of(written.at(name)), values_of(value)) << name;
  }
  const json config = json::parse(test::contents(folder / "mine/config.json"));
  for (const auto& [key, value] : config.items()) {
    if (key == "id2label" && value.size() == 3) {
      EXPECT_EQ(value, model.at("config").at(key));
    } else if (key == "label2id") {
      for (const auto& [label, number] : value.items()) {
        EXPECT_EQ(config.at("id2label").at(number.dump()), label);
      }
    } else if (key == "classifier_dropout") {
      EXPECT_EQ(value, model.at("config").at("hidden_dropout_prob"));  // what null stands for
    } else {
      EXPECT_EQ(value, model.at("config").at(key)) << key;
    }
  }
  Model again({}, read_options(folder / "mine"), init);
  EXPECT_TRUE(load_pretrained(again, folder / "mine").left_over.empty());
}

class PretrainedBert : public testing::TestWithParam<const char*> {};
TEST_P(PretrainedBert, EqualsTransformers) { check<Bert>(GetParam(), &read_bert_options); }
INSTANTIATE_TEST_SUITE_P(Architectures, PretrainedBert,
                         testing::Values("BertModel", "BertForPreTraining", "BertForMaskedLM",
                                         "BertForSequenceClassification"));

class PretrainedVit : public testing::TestWithParam<const char*> {};
TEST_P(PretrainedVit, EqualsTransformers) { check<Vit>(GetParam(), &read_vit_options); }
INSTANTIATE_TEST_SUITE_P(Architectures, PretrainedVit, testing::Values("ViTModel", "ViTForImageClassification"));

/// The folder of a BERT, to be damaged.
struct Folder {
  explicit Folder(const std::string& architecture = "BertModel")
      : config(golden_model(architecture).at("config")), tensors(tensors_of(golden_model(architecture))) {
    write();
  }
  void write() const { write_model(folder.path(), config, tensors); }
  /// The message of the Error on reading options and weights; empty if there is none.
  std::string refusal() const {
    write();
    try {
      Generator init(1);
      Bert bert({}, read_bert_options(folder.path()), init);
      load_pretrained(bert, folder.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder;
  json config;
  TensorMap tensors;
};

TEST(HuggingFace, OldNamesPrefixesAndHalfPrecisionAreRead) {
  Folder one;
  TensorMap old;
  for (const auto& [name, tensor] : one.tensors) {
    std::string renamed = "bert." + name;
    for (const auto& [now, then] : {std::pair<std::string, std::string>{"LayerNorm.weight", "LayerNorm.gamma"},
                                    {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (renamed.ends_with(now)) renamed.replace(renamed.size() - now.size(), now.size(), then);
    }
    old[renamed] = tensor.cast(DType::bf16);
  }
  old["cls.seq_relationship.bias"] = Tensor::zeros({2});
  old.erase("bert.pooler.dense.bias");
  one.tensors = old;
  one.write();
  Generator init(1);
  Bert bert({}, read_bert_options(one.folder.path()), init);
  const LoadedTensors loaded = load_pretrained(bert, one.folder.path());
  EXPECT_EQ(loaded.text(), "38 tensors read; made new: pooler.dense.bias; left over: 'cls.seq_relationship.bias'");
  LoadedTensors foreign;
  foreign.left_over = {"\x1b[31mX\nerror: fake"};
  EXPECT_EQ(foreign.text(), "0 tensors read; made new: none; left over: '\\x1b[31mX\\x0aerror: fake'");
  EXPECT_NEAR(bert.state().at("embeddings.norm.weight").to_vector<double>()[0],
              test::filled("embeddings.LayerNorm.weight", {12}).to_vector<double>()[0], 1.0 / 256);
}

TEST(HuggingFace, OfAHeadOfMaskedTokensTheDecoderIsTied) {
  Folder one("BertForMaskedLM");
  const Tensor bias = one.tensors.at("cls.predictions.bias");
  one.tensors["cls.predictions.decoder.weight"] = one.tensors.at("bert.embeddings.word_embeddings.weight").clone();
  one.tensors["cls.predictions.decoder.bias"] = bias;
  one.tensors.erase("cls.predictions.bias");
  one.write();
  Generator init(1);
  Bert bert({}, read_bert_options(one.folder.path()), init);
  EXPECT_TRUE(load_pretrained(bert, one.folder.path()).made_new.empty());
  EXPECT_EQ(bert.state().at("masked_tokens.bias").to_vector<float>(), bias.cast(DType::f32).to_vector<float>());
  one.tensors["cls.predictions.bias"] = bias + 1.0;
  EXPECT_NE(one.refusal().find("cls.predictions.decoder.bias and cls.predictions.bias differ"), std::string::npos);
  one.tensors.erase("cls.predictions.decoder.bias");
  EXPECT_EQ(one.refusal(), "");
  one.config["tie_word_embeddings"] = false;
  EXPECT_NE(one.refusal().find("config.json: tie_word_embeddings is false"), std::string::npos);
  one.config.erase("tie_word_embeddings");
  one.tensors["cls.predictions.decoder.weight"].slice(0, 0, 1).fill_(3);
  EXPECT_NE(one.refusal().find("decoder.weight and bert.embeddings.word_embeddings.weight differ"), std::string::npos);
}

Activation activation_of(const char* name) {
  Folder one;
  one.config["hidden_act"] = name;
  one.write();
  return read_bert_options(one.folder.path()).activation;
}

TEST(HuggingFace, WhatIsNotKnownIsRefusedByName) {
  const auto refusal_with = [](const char* key, const json& value) {
    Folder one;
    one.config[key] = value;
    return one.refusal();
  };
  const auto says = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(refusal_with("hidden_act", "swish"), "config.json: hidden_act is 'swish'; known here are");
  says(refusal_with("architectures", {"BertForQuestionAnswering"}),
       "architecture BertForQuestionAnswering is not known");
  says(refusal_with("architectures", 3), "architectures is 3, not a list of one name");
  says(refusal_with("model_type", "roberta"), "model_type is 'roberta', and only bert is known here");
  says(refusal_with("position_embedding_type", "relative_key"), "position_embedding_type is \"relative_key\"");
  says(refusal_with("is_decoder", true), "is_decoder is true");
  says(refusal_with("num_attention_heads", 5), "5 heads do not divide hidden_size 12");
  says(refusal_with("num_hidden_layers", -1), "num_hidden_layers is -1, no number from 0 to 4096");
  says(refusal_with("layer_norm_eps", "tiny"), "layer_norm_eps is \"tiny\", no number");
  says(refusal_with("vocab_size", 16777216), "its sizes ask for at least");
  Folder wide;  // nothing but a pooler of 2^32 numbers
  wide.config.update({{"num_hidden_layers", 0}, {"hidden_size", 65536}, {"num_attention_heads", 1}});
  wide.config.update({{"vocab_size", 1}, {"max_position_embeddings", 1}, {"type_vocab_size", 1}, {"pad_token_id", 0}});
  wide.tensors = {{"embeddings.word_embeddings.weight", Tensor::zeros({4, 65536})}};
  says(wide.refusal(), "its sizes ask for at least");
  says(refusal_with("num_hidden_layers", 3), "holds no tensor encoder.layer.2.");
  says(refusal_with("vocab_size", 12),
       "tensor embeddings.word_embeddings.weight is (13, 12), the model needs (12, 12)");
  says(refusal_with("intermediate_size", 11),
       "encoder.layer.0.intermediate.dense.bias is (10,), the model needs (11,)");
  for (const char* name : {"gelu_new", "gelu_python_tanh"}) {
    EXPECT_EQ(refusal_with("hidden_act", name), "");
    EXPECT_EQ(activation_of(name), Activation::gelu_tanh);
  }
  EXPECT_EQ(activation_of("gelu_python"), Activation::gelu);
  EXPECT_EQ(refusal_with("tie_word_embeddings", false), "");  // nothing is tied
}

TEST(HuggingFace, OtherFilesAreRefusedByName) {
  Folder one;
  one.tensors = {{"weight", Tensor::zeros({3000})}};
  EXPECT_NE(one.refusal().find("model.safetensors: holds no tensor encoder."), std::string::npos) << one.refusal();
  one.tensors.clear();
  for (const auto& [name, tensor] : tensors_of(golden_model("BertModel"))) one.tensors["bert." + name] = tensor;
  one.tensors.erase("bert.encoder.layer.1.output.dense.bias");  // with the prefix that the others have
  EXPECT_NE(one.refusal().find("holds no tensor bert.encoder.layer.1.output.dense.bias"), std::string::npos);
  one.tensors = tensors_of(golden_model("BertModel"));
  one.tensors["pooler.dense.bias"] = Tensor::zeros({12}, DType::i64);
  EXPECT_NE(one.refusal().find("tensor pooler.dense.bias is i64, the model needs f32"), std::string::npos);
  one.tensors["pooler.dense.bias"] = Tensor::full({12}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(one.refusal().find("tensor 'pooler.dense.bias': element 0 of 12 is infinite or no number"),
            std::string::npos)
      << one.refusal();

  const TemporaryFolder folder;
  test::put(folder / "config.json", "[1]");
  EXPECT_THROW(pretrained_type(folder.path()), Error);
  test::put(folder / "config.json", R"({"model_type": "gpt2"})");
  EXPECT_THROW(pretrained_type(folder.path()), Error);
  test::put(folder / "config.json", R"({"model_type": "vit"})");
  EXPECT_EQ(pretrained_type(folder.path()), "vit");
  test::put(folder / "pytorch_model.bin", "");
  try {
    read_vit_options(folder.path());
    ADD_FAILURE() << "weights in another format were read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("holds pytorch_model.bin and no model.safetensors"), std::string::npos);
  }
}

TEST(HuggingFace, WeightsThatAreNotThereAreNotBlamedOnConfigJson) {
  const Folder one;
  for (const auto& [text, told] :
       {std::pair{"", "the file is empty"}, {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"}}) {
    test::put(one.folder / "model.safetensors", text);
    const std::string message = test::message_of([&] { read_bert_options(one.folder.path()); });
    EXPECT_TRUE(message.starts_with((one.folder / "model.safetensors").string())) << message;
    EXPECT_NE(message.find(told), std::string::npos) << message;
  }
}

TEST(HuggingFace, AClassifierOfOtherClassesIsMadeNew) {
  Folder one("BertForSequenceClassification");
  BertOptions options = read_bert_options(one.folder.path());
  options.classes += 2;
  Generator init(1);
  Bert bert({}, options, init);
  const std::vector<double> drawn = bert.state().at("classifier.weight").to_vector<double>();
  const LoadedTensors loaded = load_pretrained(bert, one.folder.path());
  EXPECT_EQ(loaded.made_new, (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
  EXPECT_EQ(loaded.left_over, loaded.made_new);
  EXPECT_FALSE(loaded.filled.contains("classifier.weight"));
  EXPECT_EQ(bert.state().at("classifier.weight").to_vector<double>(), drawn);
}

TEST(HuggingFace, ARefusedFileLeavesTheModelAsItWas) {
  Folder one;
  one.tensors["pooler.dense.weight"] = Tensor::zeros({12, 11});
  one.write();
  BertOptions options = read_bert_options(one.folder.path());
  Generator init(1);
  Bert bert({}, options, init);
  std::map<std::string, std::vector<double>> before;
  for (const auto& [name, tensor] : bert.state()) before[name] = tensor.to_vector<double>();
  EXPECT_THROW(load_pretrained(bert, one.folder.path()), Error);
  for (const auto& [name, tensor] : bert.state()) EXPECT_EQ(tensor.to_vector<double>(), before[name]) << name;
}

TEST(HuggingFace, WhatTransformersWouldComputeDifferentlyIsNotWritten) {
  const TemporaryFolder folder;
  const auto refused = [&](const auto& change) {
    BertOptions options{.vocabulary = 7, .length = 5, .layers = 1, .dim = 4, .hidden = 4};
    options.attention.heads = 2;
    change(options);
    Generator init(1);
    Bert bert({}, options, init);
    EXPECT_THROW(save_pretrained(bert, folder / "mine"), Error);
    EXPECT_FALSE(std::filesystem::exists(folder / "mine"));
  };
  refused([](BertOptions& o) { o.attention.mechanism = "performer"; });
  refused([](BertOptions& o) { o.attention.head_dim = 3; });
  refused([](BertOptions& o) { o.masked_tokens = true, o.classes = 2; });
  refused([](BertOptions& o) { o.activation = Activation::identity; });
}

TEST(HuggingFace, TokenizersComeAlong) {
  Generator init(1);
  Vit vit({}, {.image = 4, .patch = 2, .layers = 1, .dim = 4, .hidden = 4, .attention = {.heads = 2}}, init);
  const TemporaryFolder from, packed, to;
  from.put("vocab.txt", "[PAD]\n");
  from.put("added_tokens.json", "{}");
  packed.put("vocab.txt.gz", text_of(format_gzip(bytes_of("[PAD]\n"))));
  save_pretrained(vit, to / "mine", from.path());
  save_pretrained(vit, to / "mine", to / "mine");  // over itself
  save_pretrained(vit, to / "unpacked", packed.path());
  for (const char* name : {"mine", "unpacked"}) EXPECT_EQ(test::contents(to / name / "vocab.txt"), "[PAD]\n");
  EXPECT_EQ(test::contents(to / "mine/added_tokens.json"), "{}");
}

}  // namespace
}  // namespace bochner
