package sqlitetest

import (
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/hitcontract"
)

// TestHitContract: what users of a bare counter rely on. There is no wire whose round trips could be counted.
func TestHitContract(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		l := ration.New(open(t, engine, file(t), nil), nil)
		hitcontract.Run(t, l, nil)
	})
}
