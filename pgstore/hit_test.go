//go:build linux

package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/hitcontract"
)

// TestHitContract: what users of a bare counter rely on, with its round trips counted on the connection.
func TestHitContract(t *testing.T) {
	t.Parallel()
	c := &trips{}
	pool := newPool(t, server(t, 15).URL, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = c.dial })
	hitcontract.Run(t, ration.New(open(t, pool, nil), nil), c.n.Load)
}
