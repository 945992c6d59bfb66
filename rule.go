package ration

import "reflect"

// A Rule is a limit with a name, and how to apply it. Rules of different names never share a count; rules of one name and
// kind do, whatever their numbers: that is how a plan changes while usage stays. A bare limit counts under the name "".
type Rule struct {
	Name    string  // a letter a–z, then a–z, 0–9, _ . -; at most 64 bytes. Shown in metrics, headers, errors. "": as a bare limit
	Limit   Limit   // not a Rule
	OnError OnError // what to do when the store could not tell; zero: as Options.OnError

	// Lease lets each process have the store charged with up to so many uses at once when a key is used often, and serve
	// from them without asking: at a hot key that is many times faster. It never admits too much. What one process has
	// ahead another is refused, until it is given back: within a second, or when the Limiter is closed. A process that
	// dies leaves it charged. Zero: none. All processes have to agree whether a rule is leased: a sliding window then counts
	// for up to a second longer, and a bucket is smaller by up to a second's refill, so that moving uses ahead in time
	// admits nothing more. It is for Take; of no effect on stores in memory and under Options.Clock; not for Concurrency.
	Lease int64
}

func (Rule) limit() {}

// Validate checks the name and the limit.
func (r Rule) Validate() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.OnError > LocalOnError {
		return invalidf(ErrInvalidLimit, "rule %q has an unknown OnError", r.Name)
	}
	if _, slots := r.Limit.(Concurrency); r.Lease < 0 || r.Lease > MaxCount || slots && r.Lease != 0 {
		return invalidf(ErrInvalidLimit, "rule %q has a Lease of %d; it is 0 to 2^53 − 1, and 0 for Concurrency", r.Name, r.Lease)
	}
	switch r.Limit.(type) {
	case TokenBucket, SlidingWindow, FixedWindow, Budget, Concurrency:
		return r.Limit.Validate()
	}
	return badLimit(r.Limit)
}

// String is the text of the limit, without the name; "" if there is none.
func (r Rule) String() string {
	if r.Limit == nil {
		return ""
	}
	return r.Limit.String()
}

const maxName = 64

func checkName(name string) error {
	for i := range len(name) {
		c := name[i]
		if letter := 'a' <= c && c <= 'z'; !letter && (i == 0 || !('0' <= c && c <= '9' || c == '_' || c == '.' || c == '-')) {
			return invalidf(ErrInvalidLimit, "a rule's name is a letter a–z, then a–z, 0–9, _ . or -; %q is not", name)
		}
	}
	if len(name) > maxName {
		return invalidf(ErrInvalidLimit, "a rule's name of %d bytes is longer than %d", len(name), maxName)
	}
	return nil
}

// badLimit says what limit is, if it is not one of our values. reflect.TypeOf does not make it escape; %T would.
func badLimit(limit Limit) error {
	t := reflect.TypeOf(limit)
	switch {
	case t == nil:
		return invalidf(ErrInvalidLimit, "the limit is nil")
	case t.Kind() == reflect.Pointer:
		return invalidf(ErrInvalidLimit, "the limit is a %s; pass the value, not a pointer", t)
	case t == reflect.TypeFor[Rule]():
		return invalidf(ErrInvalidLimit, "the limit of a Rule is another Rule; put the limit itself there")
	}
	return invalidf(ErrInvalidLimit, "%s is not one of the limits of package ration", t)
}
