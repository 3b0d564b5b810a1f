// Sounds of any length as text, by a model that reads windows of one length and writes Whisper's tokens.
#pragma once

#include <string>
#include <vector>

#include "lithe/data/sound.h"
#include "lithe/data/sound_features.h"
#include "lithe/infer/speech_tokens.h"
#include "lithe/model/model.h"

namespace lithe {

struct SpeechSegment {
  double begin = 0, end = 0;  // seconds of the sound
  std::string text;
};

struct SpeechText {
  std::string text, language;  // without spaces before it; language: empty where the model has one alone
  std::vector<SpeechSegment> segments;
  bool interrupted = false;  // by a signal
};

struct SpeechSearch {
  int64_t num_beams = 1;      // 1: greedy
  double length_penalty = 1;  // of beams, as BeamSearchConfig has it
  SpeechChoice choice;        // times: segments are what stands between two; else each window is one
};

/// What `model`, an encoder_decoder whose modality audio has rows of `audio`, writes of a sound. A sound that is longer
/// than audio.pad_seconds is read window by window with times: the next begins where the last whole segment ends, or
/// behind the window where no segment ends in it. The language is that of the first window. Windows do not know what
/// was written of those before. Fails (usage) where the model reads other rows, and, naming the two numbers, on audio
/// without pad_seconds.
SpeechText speech_text(const Model& model, const Tokenizer& tokenizer, const SpeechTokens& tokens,
                       const AudioConfig& audio, const Sound& sound, const SpeechSearch& search);

}  // namespace lithe
