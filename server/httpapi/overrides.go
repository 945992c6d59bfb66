package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Keys stand in bodies here as everywhere: a path gets into logs.

type setOverrideRequest struct {
	keyFields
	Limit       string `json:"limit" strict:"required"`
	Override    string `json:"override" strict:"required"`
	TTLMS       *int64 `json:"ttl_ms"`
	ExpiresAtUS *int64 `json:"expires_at_us"`
	KeepKey     bool   `json:"keep_key"`
	Note        string `json:"note"`
}

type overrideRequest struct {
	keyFields
	Limit string `json:"limit" strict:"required"`
}

// overrideAnswer has a key only if that was to be kept.
type overrideAnswer struct {
	ID          string   `json:"id"`
	Limit       string   `json:"limit"`
	Fingerprint string   `json:"fingerprint"`
	Override    string   `json:"override"`
	Note        string   `json:"note,omitempty"`
	Key         []string `json:"key,omitempty"`
	KeyBase64   []string `json:"key_base64,omitempty"`
	Global      bool     `json:"global,omitempty"`
	Group       string   `json:"group,omitempty"`
	ChangedAtUS int64    `json:"changed_at_us"`
	ExpiresAtUS int64    `json:"expires_at_us,omitempty"`
	Applies     bool     `json:"applies"`
	WithinMS    int64    `json:"within_ms"`
}

type overridesAnswer struct {
	Overrides []overrideAnswer `json:"overrides"`
	More      bool             `json:"more"`
}

type removedAnswer struct {
	Removed  bool  `json:"removed"`
	WithinMS int64 `json:"within_ms"`
}

func (h *handler) setOverride(ctx context.Context, r *setOverrideRequest) (a overrideAnswer, err error) {
	key, err := r.key()
	if err != nil {
		return a, err
	}
	o := verbs.Override{Limit: r.Limit, Set: r.Override, Note: r.Note}
	if r.KeepKey {
		o.Key = r.kept()
	}
	var life time.Duration
	switch {
	case r.TTLMS != nil && r.ExpiresAtUS != nil:
		return a, verbs.At("/ttl_ms", problem(wire.CodeInvalidTime, "give either ttl_ms or expires_at_us, or neither for an override without end"))
	case r.TTLMS != nil:
		if *r.TTLMS < minLife || *r.TTLMS > maxLife {
			return a, verbs.At("/ttl_ms", problem(wire.CodeInvalidTime, fmt.Sprintf("ttl_ms is not between %d, a second, and %d, ten years", minLife, int64(maxLife))))
		}
		life = time.Duration(*r.TTLMS) * time.Millisecond
	case r.ExpiresAtUS != nil:
		if *r.ExpiresAtUS < 1 {
			return a, verbs.At("/expires_at_us", problem(wire.CodeInvalidTime, "this is not after 1970"))
		}
		o.Expires = driver.Micros(*r.ExpiresAtUS)
	}
	set, err := h.SetOverride(ctx, key, o, life)
	access.Record(ctx, access.Action{What: "override", Limit: r.Limit, Key: &key, Outcome: access.Outcome(err), Attrs: []slog.Attr{slog.String("override", r.Override)}})
	if err != nil {
		return a, err
	}
	return h.overrideOf(set), nil
}

// Bounds of an override's life, in milliseconds.
const (
	minLife = 1000
	maxLife = 87_660 * 3600 * 1000
)

// kept is the key as it was sent.
func (f *keyFields) kept() *verbs.KeptKey {
	p := f.Key.parts
	if f.KeyBase64.given {
		p = f.KeyBase64.parts
	}
	return &verbs.KeptKey{Parts: p.list, Group: f.Group}
}

func (h *handler) override(ctx context.Context, r *overrideRequest) (a overrideAnswer, err error) {
	key, err := r.key()
	if err != nil {
		return a, err
	}
	if err := verbs.May(ctx, access.Read, r.Limit); err != nil {
		return a, err
	}
	found, err := h.Override(ctx, key, r.Limit)
	if err != nil {
		return a, err
	}
	return h.overrideOf(found), nil
}

func (h *handler) removeOverride(ctx context.Context, r *overrideRequest) (a removedAnswer, err error) {
	key, err := r.key()
	if err != nil {
		return a, err
	}
	existed, err := h.RemoveOverride(ctx, key, r.Limit)
	access.Record(ctx, access.Action{What: "remove override", Limit: r.Limit, Key: &key, Outcome: access.Outcome(err)})
	return removedAnswer{existed, h.Within().Milliseconds()}, err
}

// overrides lists a page of them, by id.
func (h *handler) overrides(ctx context.Context, query url.Values) (a overridesAnswer, err error) {
	after, most, err := pageAsked(query)
	if err == nil {
		err = verbs.MayAll(ctx, access.Read) // keys may be shown
	}
	if err != nil {
		return a, err
	}
	list, more, err := h.Overrides(ctx, after, most)
	if err != nil {
		return a, err
	}
	a = overridesAnswer{Overrides: make([]overrideAnswer, len(list)), More: more}
	for i := range list {
		a.Overrides[i] = h.overrideOf(&list[i])
	}
	return a, nil
}

func (h *handler) overrideOf(o *verbs.Override) overrideAnswer {
	a := overrideAnswer{
		ID: o.ID(), Limit: o.Limit, Fingerprint: hex.EncodeToString(o.Fingerprint[:]), Override: o.Set, Note: o.Note,
		ChangedAtUS: int64(o.Changed), ExpiresAtUS: int64(o.Expires), Applies: o.Applies, WithinMS: h.Within().Milliseconds(),
	}
	if o.Key == nil {
		return a
	}
	a.Global = len(o.Key.Parts) == 0
	if slices.ContainsFunc(o.Key.Parts, func(part string) bool { return !utf8.ValidString(part) }) {
		for _, part := range o.Key.Parts {
			a.KeyBase64 = append(a.KeyBase64, base64.StdEncoding.EncodeToString([]byte(part)))
		}
	} else {
		a.Key = o.Key.Parts
	}
	a.Group = o.Key.Group // text, over HTTP
	return a
}
