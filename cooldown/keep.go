package cooldown

import (
	"context"
	"slices"
	"sync"

	"github.com/ration-go/ration"
)

// keeper renews the reservations of gates while a command runs. A nil one does nothing.
type keeper struct {
	mu   sync.Mutex // gates of others may ask several at once
	held []holding
}

type holding struct {
	*ration.Reservation
	slots bool
}

type keeperKey struct{}

func (k *keeper) add(r *ration.Reservation, slots bool) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, holding{r, slots})
}

// drop forgets what is ended before the command runs: a gate beside it refused, and another way passed.
func (k *keeper) drop(r *ration.Reservation) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = slices.DeleteFunc(k.held, func(h holding) bool { return h.Reservation == r })
}

// keep renews until stop is called, also if ctx is done before: the command may not look at it. alive ends with ctx, and if a
// slot is lost; what a limit of another kind has counted stays counted, whatever becomes of its reservation.
func (k *keeper) keep(ctx context.Context) (alive context.Context, stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	alive, cancel := context.WithCancelCause(ctx)
	var stops []func()
	for _, h := range k.held {
		renewed, stop := h.KeepAlive(context.WithoutCancel(ctx))
		if h.slots {
			context.AfterFunc(renewed, func() { cancel(context.Cause(renewed)) })
		}
		stops = append(stops, stop)
	}
	return alive, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}
