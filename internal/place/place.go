// Package place says where a key is put by stores that keep their data in several places: one number for all keys that can
// be decided together. The client of a server computes it too, without knowing the server's store.
package place

import "github.com/ration-go/ration/driver"

// Count is how many places there are. A store that has fewer has a power of two, and takes the rest of the division.
const Count = 1 << 14

// Of is the place of a key: by its group, or by the key itself if it has none. It is less than Count.
func Of(k *driver.Key) int {
	s := k.Group
	if s == "" {
		s = k.ID
	}
	// FNV-1a, folded.
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return int((h ^ h>>32) & (Count - 1))
}
