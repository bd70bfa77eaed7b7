// SentencePiece's own model files.
#include "text/protobuf_reader.h"
#include "text/side_files.h"

namespace gale::text {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint32_t { model_piece = 1, model_trainer = 2, model_normalizer = 3 };
enum PieceField : uint32_t { piece_text = 1, piece_score = 2, piece_type = 3 };
enum TrainerField : uint32_t {
  trainer_model_type = 3,
  trainer_suffix_space = 24,
  trainer_byte_fallback = 35,
  trainer_unknown_id = 40,
  trainer_bos_id = 41,
  trainer_eos_id = 42,
  trainer_padding_id = 43
};
enum NormalizerField : uint32_t {
  normalizer_charsmap = 2,
  normalizer_dummy_prefix = 3,
  normalizer_single_spaces = 4,
  normalizer_escapes_spaces = 5
};
enum ModelType : int64_t { type_unigram = 1, type_bpe = 2 };

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

Error broken(std::string_view what, size_t at) {
  return fail(ErrorKind::invalid_input, "SentencePiece model: {} is broken at byte {}; is the file whole?", what, at);
}

// User-defined tokens are found in text before its spaces are marked.
std::string with_spaces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool mark = text.starts_with(space_mark);
    out += mark ? ' ' : text.front();
    text.remove_prefix(mark ? space_mark.size() : 1);
  }
  return out;
}

class SentencePieceReader {
 public:
  Result<Vocabulary> run(std::string_view bytes, const SideFiles& beside) {
    VocabularySource& facts = vocabulary_.facts;
    facts.unknown = 0;
    facts.bos = 1;
    facts.eos = 2;
    ProtobufReader model(bytes);
    while (model.next()) {
      if (!model.is_bytes()) continue;
      Status status;
      if (model.field() == model_piece) status = read_piece(model.bytes());
      if (model.field() == model_trainer) status = read_trainer(model.bytes());
      if (model.field() == model_normalizer) status = read_normalizer(model.bytes());
      if (!status) return std::move(status).error();
    }
    if (!model.whole()) return broken("the file", model.position());
    if (vocabulary_.tokens.empty()) return fail(ErrorKind::invalid_input, "SentencePiece model: it has no pieces");
    vocabulary_.scores.resize(vocabulary_.tokens.size());
    if (type_ != type_unigram && type_ != type_bpe) {
      return fail(ErrorKind::unsupported,
                  "SentencePiece model: model_type {} is not supported: 1 (Unigram) and 2 (BPE)", type_);
    }
    facts.model = type_ == type_bpe ? "llama" : "t5";
    facts.space_prefix = dummy_prefix_ ? SpacePrefix::segments : SpacePrefix::never;
    facts.add_bos = type_ == type_bpe;
    facts.add_eos = type_ != type_bpe;
    facts.joins_unknown = true;
    for (const auto& id : {facts.unknown, facts.bos, facts.eos, facts.padding}) {
      if (id.value_or(-1) >= static_cast<int64_t>(vocabulary_.tokens.size())) {
        return fail(ErrorKind::invalid_input, "SentencePiece model: an id of its trainer_spec is {}, of {} pieces", *id,
                    vocabulary_.tokens.size());
      }
    }
    if (auto status = apply_side_files(vocabulary_, beside, /*has_added_tokens=*/false); !status) {
      return std::move(status).error();
    }
    return std::move(vocabulary_);
  }

 private:
  Status read_piece(std::string_view bytes) {
    std::string_view text;
    float score = 0;
    int64_t type = 1;
    ProtobufReader piece(bytes);
    while (piece.next()) {
      if (piece.field() == piece_text && piece.is_bytes()) text = piece.bytes();
      if (piece.field() == piece_score && piece.is_real()) score = piece.real();
      if (piece.field() == piece_type && piece.is_number()) type = piece.number();
    }
    if (!piece.whole()) return broken(fmt::format("piece {}", vocabulary_.tokens.size()), piece.position());
    // The numbers are those of TokenKind.
    if (type < 1 || type > 6) {
      return fail(ErrorKind::invalid_input, "SentencePiece model: piece {} ('{}') is of type {}: 1 .. 6 are possible",
                  vocabulary_.tokens.size(), text, type);
    }
    const auto kind = static_cast<TokenKind>(type);
    vocabulary_.add(kind == TokenKind::user_defined ? with_spaces(text) : std::string(text), kind, score);
    return {};
  }

  Status read_trainer(std::string_view bytes) {
    VocabularySource& facts = vocabulary_.facts;
    ProtobufReader trainer(bytes);
    while (trainer.next()) {
      if (!trainer.is_number()) continue;
      const int64_t value = trainer.number();
      // Ids are 32-bit; -1 says that there is none.
      const int64_t id = static_cast<int32_t>(value) < 0 ? -1 : static_cast<int32_t>(value);
      switch (trainer.field()) {
        case trainer_model_type:
          type_ = value;
          break;
        case trainer_suffix_space:
          if (value != 0) {
            return fail(ErrorKind::unsupported, "SentencePiece model: treat_whitespace_as_suffix is not supported");
          }
          break;
        case trainer_byte_fallback:
          facts.byte_fallback = value != 0;
          fallback_named_ = true;
          break;
        case trainer_unknown_id:
          facts.unknown = id;
          break;
        case trainer_bos_id:
          facts.bos = id;
          break;
        case trainer_eos_id:
          facts.eos = id;
          break;
        case trainer_padding_id:
          facts.padding = id;
          break;
        default:
          break;
      }
    }
    if (!fallback_named_) facts.byte_fallback = false;
    return trainer.whole() ? Status() : broken("trainer_spec", trainer.position());
  }

  Status read_normalizer(std::string_view bytes) {
    VocabularySource& facts = vocabulary_.facts;
    facts.remove_extra_whitespaces = true;  // unless the file says otherwise
    ProtobufReader normalizer(bytes);
    while (normalizer.next()) {
      if (normalizer.field() == normalizer_charsmap && normalizer.is_bytes()) {
        facts.charsmap = vocabulary_.texts.keep(normalizer.bytes());
      }
      if (!normalizer.is_number()) continue;
      const bool value = normalizer.number() != 0;
      if (normalizer.field() == normalizer_dummy_prefix) dummy_prefix_ = value;
      if (normalizer.field() == normalizer_single_spaces) facts.remove_extra_whitespaces = value;
      if (normalizer.field() == normalizer_escapes_spaces && !value) {
        return fail(ErrorKind::unsupported, "SentencePiece model: escape_whitespaces false is not supported");
      }
    }
    return normalizer.whole() ? Status() : broken("normalizer_spec", normalizer.position());
  }

  Vocabulary vocabulary_;
  int64_t type_ = type_unigram;  // what the format means if it is not named
  bool dummy_prefix_ = true;
  bool fallback_named_ = false;
};

}  // namespace

Result<Vocabulary> read_sentencepiece(std::string_view bytes, const SideFiles& beside) {
  return SentencePieceReader().run(bytes, beside);
}

}  // namespace gale::text
