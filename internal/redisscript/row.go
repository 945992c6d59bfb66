package redisscript

import (
	"github.com/ration-go/ration/internal/arith"
)

// reader reads numbers and words from a text. After the first that is not there, bad is true.
type reader struct {
	s   string
	bad bool
}

// int reads a number and the byte after it, if any, which has to be sep; sep 0 is for any.
func (r *reader) int(sep byte) (n int64) {
	s, i := r.s, 0
	minus := len(s) > 0 && s[0] == '-'
	if minus {
		i++
	}
	first := i
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		n = 10*n + int64(s[i]-'0')
	}
	if i == first || i-first > 18 {
		r.bad, r.s = true, ""
		return 0
	}
	if minus {
		n = -n
	}
	if i < len(s) && sep != 0 {
		if s[i] != sep {
			r.bad = true
		}
		i++
	}
	r.s = s[i:]
	return n
}

// word reads up to sep, or the end.
func (r *reader) word(sep byte) (w string) {
	for i := range len(r.s) {
		if r.s[i] == sep {
			w, r.s = r.s[:i], r.s[i+1:]
			return w
		}
	}
	w, r.s = r.s, ""
	return w
}

// parseRow sets st to the state in a row, as the scripts write it (core.lua, encode), or to the zero State beside false.
func parseRow(st *arith.State, row string) bool {
	*st = arith.State{}
	if row == "" {
		return true
	}
	r := reader{s: row[1:]}
	switch row[0] {
	case 'p':
		st.Level, st.Unit, st.Stamp = r.int(','), r.int(','), r.int(',')
		st.Since, st.Expires = st.Stamp-r.int(','), st.Stamp+r.int(',')
	case 'u':
		st.Since, st.Expires = r.int(','), r.int(',')
		n := r.int('|')
		if n < 1 || n > arith.MaxSlots {
			return false
		}
		st.Uses = make([]arith.Use, n)
		at := int64(0)
		for i := range st.Uses {
			at += r.int(':')
			st.Uses[i] = arith.Use{At: at, Cost: r.int(':'), Window: r.int('|')}
		}
	case 'w':
		w, n := r.int(','), r.int(',')
		r.int(',') // sum
		first, _, tail := r.int(','), r.int(','), r.int(',')
		st.Since = first - r.int(';')
		if r.bad || n < 1 || n > arith.MaxUses {
			return false
		}
		st.Uses = make([]arith.Use, n)
		at := first
		for i := range st.Uses {
			st.Uses[i] = arith.Use{At: at, Cost: tail, Window: w}
			if i < len(st.Uses)-1 {
				use := reader{s: r.word(';')}
				at += use.int(':')
				st.Uses[i].Cost = 1
				if use.s != "" {
					st.Uses[i].Cost = use.int(0)
				}
				r.bad = r.bad || use.bad
			}
		}
		st.Expires = min(at+w, arith.Max)
	default:
		r.bad = true
	}
	return !r.bad && r.s == ""
}
