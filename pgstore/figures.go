package pgstore

import "github.com/ration-go/ration/driver"

// Figures is of driver.Meter. A step through a part of a table is a sweep; other processes make theirs.
func (s *Store) Figures() driver.Figures {
	return driver.Figures{Sweeps: s.sweeps.Load(), Swept: s.swept.Load(), Keys: -1, Bytes: -1}
}
