// Sounds of any length as text, by a model that reads windows of one length and writes Whisper's tokens.
#pragma once

#include <string>
#include <vector>

#include "lithe/data/sound.h"
#include "lithe/data/sound_features.h"
#include "lithe/infer/speech_tokens.h"
#include "lithe/model/model.h"

namespace lithe {

/// How sure a model is of a window's text [Radford et al. 2022, 4.5].
struct SpeechQuality {
  double avg_logprob = 0;        // log-probability of a token, its end included
  double compression_ratio = 0;  // bytes of the text by its bytes behind zlib; a text that repeats itself has many
  double no_speech_prob = 0;     // of <|nospeech|> in place of a language; 0: the model has no such token
  double temperature = 0;        // the text was drawn at; 0: searched
};

struct SpeechSegment {
  double begin = 0, end = 0;  // seconds of the sound
  std::string text;
  SpeechQuality quality = {};        // of its window
  std::vector<int32_t> tokens = {};  // with its times
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
  /// Tried in turn until a window's text passes both thresholds below; the last one's text is taken as it is. One
  /// alone: nothing is asked of a text. Above 0 tokens are drawn, one text.
  std::vector<double> temperatures = {0};
  double logprob_threshold = -1;  // least avg_logprob
  double compression_ratio_threshold = 2.4;
  double no_speech_threshold = 0.6;       // a window above it whose avg_logprob is below the least has no text
  bool condition_on_prev_tokens = false;  // windows know the texts before them, but what was drawn above 0.5
  std::string initial_prompt;             // what the first window takes for the text before it
  int64_t seed = 0;                       // of draws
};

/// What `model`, an encoder_decoder whose modality audio has rows of `audio`, writes of a sound. A sound that is longer
/// than audio.pad_seconds is read window by window with times: the next begins where the last whole segment ends, or
/// behind the window where no segment ends in it. The language is that of the first window. Fails (usage) where the
/// model reads other rows, naming the two numbers on audio without pad_seconds, and on texts before the first where
/// the tokenizer has no <|startofprev|>.
SpeechText speech_text(const Model& model, const Tokenizer& tokenizer, const SpeechTokens& tokens,
                       const AudioConfig& audio, const Sound& sound, const SpeechSearch& search);

}  // namespace lithe
