package verbs

import (
	"iter"
	"slices"
	"strings"
)

// Page is the first most of all by their ids, of those after an id, and whether there are more. Stores list holds in no
// order and have no place to go on from, so each page goes through all of them; it keeps few of them at a time.
func Page[T any](all iter.Seq2[T, error], id func(*T) string, after string, most int) (list []T, more bool, err error) {
	cut := func() {
		slices.SortFunc(list, func(a, b T) int { return strings.Compare(id(&a), id(&b)) })
		if len(list) > most {
			more = true
			clear(list[most:])
			list = list[:most]
		}
	}
	for one, err := range all {
		if err != nil {
			return nil, false, err
		}
		if after != "" && id(&one) <= after {
			continue
		}
		if list = append(list, one); len(list) >= 2*most+100 {
			cut()
		}
	}
	cut()
	return list, more, nil
}
