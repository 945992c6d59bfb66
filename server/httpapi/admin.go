package httpapi

import (
	"context"
	"fmt"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
)

type reloadRequest struct{}

// reload reads the configuration anew. What was wrong with it is for the server's log: it may name files, and values that
// were meant to be secret.
func (h *handler) reload(ctx context.Context, _ *reloadRequest) (a doneAnswer, err error) {
	if h.reloading == nil {
		return a, fmt.Errorf("%w: this server has no configuration to read anew", ration.ErrUnsupported)
	}
	err = h.reloading(ctx)
	access.Record(ctx, access.Action{What: "reload", Outcome: access.Outcome(err)})
	if err != nil {
		return a, problem(codeInvalidConfig, "the configuration was not applied, and the one before stays; the server's log says why")
	}
	return doneAnswer{true}, nil
}
