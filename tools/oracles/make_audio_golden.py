"""Writes tests/golden/audio.json: log-mel features and resampled sounds, by numpy alone and from the published definitions.

    python tools/oracles/make_audio_golden.py            writes
    python tools/oracles/make_audio_golden.py --check    compares
    ... --mel-filters mel_filters.npz                    also compares the filters with Whisper's own file

Whisper: audio.py of openai/whisper (torch.stft, centred, reflected) with librosa's Slaney filters. Kaldi: feature-window.cc,
feature-fbank.cc and mel-computations.cc, with their defaults but for dither 0. The sounds are formulas, which the test
repeats: sample t of `mix` is 0.3 sin(2 pi 440 t / rate) + 0.2 sin(2 pi (200 + 2 t / rate * 700) t / rate) + noise of a
linear congruence.
"""

import json
import sys

import numpy as np


def sound(count, rate):
    t = np.arange(count, dtype=np.float64)
    state, noise = 12345, np.zeros(count)
    for i in range(count):
        state = (1103515245 * state + 12345) % 2**31
        noise[i] = state / 2**31 - 0.5
    wave = 0.3 * np.sin(2 * np.pi * 440 * t / rate) + 0.2 * np.sin(2 * np.pi * (200 + 1400 * t / rate) * t / rate)
    return np.float32(wave + 0.05 * noise)


def slaney_filters(rate, n_fft, n_mels):
    def hz_of(mel):
        linear = mel * (200.0 / 3)
        return np.where(mel >= 15, 1000 * np.exp((mel - 15) * np.log(6.4) / 27), linear)

    top = rate / 2
    mel_top = 15 + np.log(top / 1000) / (np.log(6.4) / 27) if top >= 1000 else top * 3 / 200
    points = hz_of(np.linspace(0, mel_top, n_mels + 2))
    freqs = np.linspace(0, rate / 2, n_fft // 2 + 1)
    ramps = points[:, None] - freqs[None, :]
    out = np.zeros((n_mels, n_fft // 2 + 1))
    for i in range(n_mels):
        out[i] = np.maximum(0, np.minimum(-ramps[i] / (points[i + 1] - points[i]), ramps[i + 2] / (points[i + 2] - points[i + 1])))
        out[i] *= 2 / (points[i + 2] - points[i])
    return out


def whisper(samples, rate, n_mels):
    n_fft, hop = rate // 40, rate // 100
    window = np.hanning(n_fft + 1)[:-1]
    padded = np.pad(samples.astype(np.float64), n_fft // 2, mode="reflect")
    frames = np.stack([padded[i * hop : i * hop + n_fft] for i in range(len(samples) // hop + 1)])
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    mel = power[:-1] @ slaney_filters(rate, n_fft, n_mels).T
    log = np.log10(np.maximum(mel, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def kaldi(samples, rate, n_mels):
    window_size, shift = rate * 25 // 1000, rate * 10 // 1000
    padded = 1 << (window_size - 1).bit_length()
    x = samples.astype(np.float64) * 32768
    frames = np.stack([x[i * shift : i * shift + window_size] for i in range(1 + (len(x) - window_size) // shift)])
    frames = frames - frames.mean(axis=1, keepdims=True)
    previous = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    n = np.arange(window_size)
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * n / (window_size - 1))) ** 0.85
    frames = (frames - 0.97 * previous) * povey
    power = np.abs(np.fft.rfft(frames, n=padded, axis=1)) ** 2
    mel = lambda f: 1127 * np.log(1 + f / 700)
    low, high = mel(20.0), mel(rate / 2)
    delta = (high - low) / (n_mels + 1)
    out = np.zeros((n_mels, padded // 2))
    for m in range(n_mels):
        left, centre, right = low + m * delta, low + (m + 1) * delta, low + (m + 2) * delta
        for k in range(padded // 2):
            at = mel(rate / padded * k)
            if left < at < right:
                out[m, k] = (at - left) / (centre - left) if at <= centre else (right - at) / (right - centre)
    return np.log(np.maximum(power[:, :-1] @ out.T, np.finfo(np.float32).eps))


def resample(samples, old, new):
    """Every sample of the result by its own sum: sinc under a Hann window of 32 zeros, cut at 0.99 of the lower half rate."""
    cut = 0.99 * min(old, new) / old
    count = -(-len(samples) * new // old)
    out = np.zeros(count)
    for j in range(count):
        t = (np.arange(len(samples)) - j * old / new) * cut
        inside = np.abs(t) < 32
        out[j] = np.sum(samples[inside] * np.sinc(t[inside]) * np.cos(np.pi * t[inside] / 64) ** 2) * cut
    return out


def golden():
    out = {}
    for name, of, rate, count, bins in [("whisper", whisper, 16000, 4001, 80), ("whisper_8k", whisper, 8000, 1203, 40),
                                        ("kaldi", kaldi, 16000, 4001, 80), ("kaldi_8k", kaldi, 8000, 1203, 23)]:
        features = of(sound(count, rate), rate, bins)
        rows = sorted({0, 1, len(features) // 2, len(features) - 1})
        out[name] = {"rate": rate, "samples": count, "bins": bins, "frames": len(features), "rows": rows,
                     "values": [[round(float(v), 7) for v in features[r]] for r in rows]}
    for name, old, new, count in [("up", 8000, 16000, 300), ("down", 44100, 16000, 900), ("slower", 9, 10, 250)]:
        made = resample(sound(count, 16000).astype(np.float64), old, new)
        out["resample_" + name] = {"from": old, "to": new, "samples": count, "values": [round(float(v), 7) for v in made]}
    return out


if __name__ == "__main__":
    made, path = golden(), "tests/golden/audio.json"
    if "--mel-filters" in sys.argv:
        ours, theirs = slaney_filters(16000, 400, 80), np.load(sys.argv[sys.argv.index("--mel-filters") + 1])["mel_80"]
        print("largest difference to Whisper's filters:", np.abs(ours - theirs).max())
    if "--check" in sys.argv:
        assert json.load(open(path)) == made, "differs from " + path
    else:
        with open(path, "w") as file:
            json.dump(made, file)
            file.write("\n")
