package access

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
)

// maxOwners bounds of how many reservations it is remembered whose they are.
const maxOwners = 1 << 16

// owners remembers who made the latest reservations on this server, to tell a cancel of one's own from one of somebody else's.
type owners struct {
	mu    sync.Mutex
	names map[uint64]string
}

var ownerSeed = maphash.MakeSeed()

func (o *owners) note(id, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names == nil || len(o.names) >= maxOwners {
		o.names = map[uint64]string{}
	}
	o.names[maphash.String(ownerSeed, id)] = name
}

func (o *owners) of(id string) (name string, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, known = o.names[maphash.String(ownerSeed, id)]
	return name, known
}

// Reserved notes that the caller in ctx has made the reservation of id.
func Reserved(ctx context.Context, id string) {
	if c := From(ctx); c != nil && !c.all && c.guard != nil {
		c.guard.owners.note(id, c.Name)
	}
}

// RecordCancel writes a line into the audit log if the caller in ctx has cancelled a reservation that another one made, or one that
// was not made at this server and the caller is an admin. Where nobody is asked, there is no telling.
func RecordCancel(ctx context.Context, id, outcome string) {
	c := From(ctx)
	if c == nil || c.all || c.guard == nil {
		return
	}
	owner, known := c.guard.owners.of(id)
	switch {
	case known && owner == c.Name:
	case known:
		c.guard.record(c, Action{What: "cancel", ID: id, Outcome: outcome, Attrs: []slog.Attr{slog.String("owner", owner)}})
	case c.May(Admin):
		c.guard.record(c, Action{What: "cancel", ID: id, Outcome: outcome})
	}
}
