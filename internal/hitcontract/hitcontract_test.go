package hitcontract_test

import (
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/hitcontract"
	"github.com/ration-go/ration/memstore"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	l := ration.New(memstore.New(nil), nil)
	defer l.Close()
	hitcontract.Run(t, l, nil)
}
