package activity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/ration-go/ration"
)

// fingerprintBytes are enough that two keys of a busy server do not look alike: 80 bits.
const (
	fingerprintBytes = 10
	fingerprintLen   = fingerprintBytes * 8 / 5
)

// letters leave out those that are easily taken for others.
var letters = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Fingerprint names a key without telling it: the same key has the same one, and without the secret nobody can try which key
// has it. It has 16 letters and digits.
func (r *Recorder) Fingerprint(key ration.Key) string {
	group, parts := key.Parts()
	mac := hmac.New(sha256.New, r.secret)
	var room [256]byte
	b := room[:0]
	for _, text := range append([]string{group}, parts...) {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	mac.Write(b)
	return letters.EncodeToString(mac.Sum(b[:0])[:fingerprintBytes])
}

// who is a key as it is shown.
func (r *Recorder) who(key ration.Key) Who {
	group, parts := key.Parts()
	w := Who{Fingerprint: r.Fingerprint(key), Shared: key == ration.Global.In(group)}
	if !r.clear {
		return w
	}
	w.Group = group
	if !utf8.ValidString(group) {
		w.Group = ""
	}
	if slices.ContainsFunc(parts, func(part string) bool { return !utf8.ValidString(part) }) {
		for _, part := range parts {
			w.KeyBase64 = append(w.KeyBase64, base64.StdEncoding.EncodeToString([]byte(part)))
		}
		return w
	}
	w.Key = parts
	return w
}

// ClearKeys reports whether snapshots show keys.
func (r *Recorder) ClearKeys() bool { return r != nil && r.clear }
