package memstore

import "github.com/ration-go/ration/driver"

// Figures is of driver.Meter. A step of the background sweep is a sweep.
func (s *Store) Figures() driver.Figures {
	return driver.Figures{Sweeps: s.sweeps.Load(), Swept: s.swept.Load(), Keys: s.keys.Load(), Bytes: s.bytes.Load()}
}

func (s *Store) noteSweep(removed int) {
	s.sweeps.Add(1)
	s.swept.Add(int64(removed))
}
