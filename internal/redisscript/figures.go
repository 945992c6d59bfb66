package redisscript

import "github.com/ration-go/ration/driver"

// Figures is of driver.Meter. Only holds are swept; everything else expires in Redis by itself.
func (s *Store) Figures() driver.Figures {
	return driver.Figures{Sweeps: s.sweeps.Load(), Swept: s.swept.Load(), Keys: -1, Bytes: -1}
}
