package ration

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Fingerprint is 16 bytes that stand for key, with its group, in lists that are shown or shared: the same in every process whose
// Options have the same KeySecret, and no two keys have one. It is made by HMAC-SHA-256 with the KeySecret. Without one it is a
// plain hash, and whoever can guess a key can tell that a fingerprint is its. It is safe for concurrent use. An invalid key is
// ErrInvalidKey.
func (l *Limiter) Fingerprint(key Key) (f [16]byte, err error) {
	if l.err != nil {
		return f, l.err
	}
	if err := key.check(); err != nil {
		return f, err
	}
	var h hash.Hash
	if l.hashes {
		h = hmac.New(sha256.New, l.opts.KeySecret)
	} else {
		h = sha256.New()
	}
	var room [64]byte
	b := append(room[:0], 'f')
	b = binary.AppendUvarint(b, uint64(len(key.group)))
	b = append(b, key.group...)
	h.Write(append(b, key.id...))
	copy(f[:], h.Sum(room[:0]))
	return f, nil
}
