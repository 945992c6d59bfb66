package verbs

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// Words that an override may be, beside the text of a limit.
const (
	Unlimited = "unlimited"
	Blocked   = "blocked"
)

// Bounds of an override, in bytes.
const (
	maxNote = 200
	maxSet  = 256
)

// Override is an exception from a named limit, for one key.
type Override struct {
	Limit       string
	Fingerprint [16]byte // of the key
	Set         string   // the text of a limit of the same kind, Unlimited or Blocked
	Note        string
	Key         *KeptKey      // nil: it was not to be kept
	Expires     driver.Micros // by the store's clock; 0: never
	Changed     driver.Micros // by the store's clock
	Applies     bool          // the limit is there, and of the kind that Set is for

	until time.Time // Expires by this process's clock; zero: never
}

// KeptKey is a key as it was given.
type KeptKey struct {
	Parts []string // any bytes; none: ration.Global
	Group string
}

// ID names an override, in its space of documents and to callers.
func (o *Override) ID() string { return o.Limit + ":" + hex.EncodeToString(o.Fingerprint[:]) }

// stored is the value of an override's document.
type stored struct {
	Set   string   `json:"set"`
	Note  string   `json:"note,omitempty"`
	Kept  bool     `json:"kept,omitempty"`  // Parts and Group are the key's
	Parts []string `json:"parts,omitempty"` // in base64
	Group string   `json:"group,omitempty"` // in base64
}

func (o *Override) document() (driver.Document, error) {
	s := stored{Set: o.Set, Note: o.Note}
	if o.Key != nil {
		s.Kept, s.Group = true, base64.StdEncoding.EncodeToString([]byte(o.Key.Group))
		for _, part := range o.Key.Parts {
			s.Parts = append(s.Parts, base64.StdEncoding.EncodeToString([]byte(part)))
		}
	}
	value, err := json.Marshal(s)
	return driver.Document{Name: o.ID(), Value: value, Expires: o.Expires}, err
}

// errNotOurs is of a document that this version cannot read.
var errNotOurs = errors.New("a document among the overrides is none")

// overrideOf reads a document at the store's time now, which was at by this process's clock.
func overrideOf(d *driver.Document, now driver.Micros, at time.Time) (*Override, error) {
	limit, text, _ := strings.Cut(d.Name, ":")
	fingerprint, err := hex.DecodeString(text)
	o := &Override{Limit: limit, Expires: d.Expires, Changed: driver.Micros(d.Revision)}
	if err != nil || len(fingerprint) != len(o.Fingerprint) {
		return nil, errNotOurs
	}
	copy(o.Fingerprint[:], fingerprint)
	var s stored
	if json.Unmarshal(d.Value, &s) != nil || s.Set == "" {
		return nil, errNotOurs
	}
	o.Set, o.Note = s.Set, s.Note
	if s.Kept {
		if o.Key, err = s.key(); err != nil {
			return nil, errNotOurs
		}
	}
	if d.Expires != 0 {
		o.until = at.Add((d.Expires - now).Duration())
	}
	return o, nil
}

func (s *stored) key() (*KeptKey, error) {
	group, err := base64.StdEncoding.DecodeString(s.Group)
	k := &KeptKey{Group: string(group)}
	for _, part := range s.Parts {
		raw, partErr := base64.StdEncoding.DecodeString(part)
		err = errors.Join(err, partErr)
		k.Parts = append(k.Parts, string(raw))
	}
	return k, err
}

// over reports whether o has expired.
func (o *Override) over(now time.Time) bool { return !o.until.IsZero() && !now.Before(o.until) }

// check says what is wrong with what a caller made up.
func (o *Override) check() error {
	switch {
	case len(o.Set) > maxSet:
		return At("/override", Problem(wire.CodeInvalidLimit, fmt.Sprintf("an override of %d bytes is longer than %d", len(o.Set), maxSet)))
	case len(o.Note) > maxNote || !utf8.ValidString(o.Note):
		return At("/note", Problem(CodeInvalidOverride, fmt.Sprintf("a note is text of at most %d bytes", maxNote)))
	}
	return nil
}

// overriding is rule with the numbers that set says. Counts are those of the rule, so the kind must be too.
func overriding(rule ration.Rule, set string) (ration.Limit, error) {
	var err error
	switch set {
	case Blocked:
		// Not even where the store cannot tell.
		rule.Limit, rule.OnError = sized(rule.Limit, 0), ration.DenyOnError
	case Unlimited:
		rule.Limit = sized(rule.Limit, ration.MaxCount)
	default:
		was := rule.Limit
		if rule.Limit, err = ration.ParseLimit(set); err != nil {
			return nil, err
		}
		if kindOf(was) != kindOf(rule.Limit) {
			return nil, fmt.Errorf("%w: the limit %s is %q, and only its numbers can be overridden, by a text like it, by %q or by %q",
				ration.ErrInvalidLimit, rule.Name, was, Unlimited, Blocked)
		}
	}
	return rule, rule.Validate()
}

// hugeRate fills any bucket between two takes. Its units are whole tokens each µs, which leave room for the largest burst.
var hugeRate = ration.Per(1e12, time.Millisecond)

const (
	hugeBurst = 1 << 40
	maxSlots  = 4096
)

// sized is limit with another size; a size of ration.MaxCount is as large as there are.
func sized(limit ration.Limit, size int64) ration.Limit {
	switch l := limit.(type) {
	case ration.TokenBucket:
		if l.Burst = size; size > hugeBurst {
			l = ration.TokenBucket{Burst: hugeBurst, Refill: hugeRate}
		}
		return l
	case ration.SlidingWindow:
		l.Limit = size
		return l
	case ration.FixedWindow:
		l.Limit = size
		return l
	case ration.Budget:
		l.Limit = size
		return l
	case ration.Concurrency:
		l.Limit = min(size, maxSlots)
		return l
	}
	return limit
}

// kindOf is what two limits have in common that can share a count.
func kindOf(limit ration.Limit) string {
	switch l := limit.(type) {
	case ration.TokenBucket:
		return "bucket"
	case ration.SlidingWindow:
		return "sliding"
	case ration.FixedWindow:
		return "fixed"
	case ration.Concurrency:
		return "concurrent"
	case ration.Budget: // its period too
		l.Limit = 0
		return l.String()
	}
	return ""
}
