package sqlitestore

import "github.com/ration-go/ration/driver"

// Figures is of driver.Meter. Sweeps are passes by this process; other processes make theirs.
func (s *Store) Figures() driver.Figures {
	return driver.Figures{Sweeps: s.sweeps.Load(), Swept: s.swept.Load(), Keys: -1, Bytes: -1}
}
