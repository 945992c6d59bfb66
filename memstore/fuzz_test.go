package memstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
)

// bytesSource makes choices of bytes, so that a fuzzer can steer a random sequence.
type bytesSource struct {
	data []byte
	i    uint64
}

func (s *bytesSource) Uint64() uint64 {
	s.i++
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], s.i*0x9E3779B97F4A7C15) // never the same again: rand draws anew what it cannot use
	n := copy(b[6:], s.data)                                    // the upper bits matter
	s.data = s.data[n:]
	return binary.LittleEndian.Uint64(b[:])
}

// Sequences of operations, with and without ids, are answered as driver.Run answers them.
func FuzzSequence(f *testing.F) {
	for seed := range uint64(8) {
		data := make([]byte, 400)
		r := rand.NewChaCha8([32]byte{byte(seed)})
		r.Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &bytesSource{data: data}
		r := rand.New(src)
		s, m := memstore.New(&memstore.Options{MaxKeys: 1000, SweepEvery: -1}), newModel()
		defer s.Close()
		now := 1000 * second
		for range 200 {
			if len(src.data) == 0 {
				return
			}
			now += driver.Micros(r.IntN(3000)) * second / 1000
			a := randomTxn(r, now)
			b := a
			b.Ops = slices.Clone(a.Ops)
			s.Apply(context.Background(), []*driver.Txn{&a})
			if err := driver.Run(m, now, []*driver.Txn{&b}); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); got != want {
				t.Fatalf("\n got %s\nwant %s", got, want)
			}
			if r.IntN(10) == 0 {
				s.Sweep(context.Background(), now, 1<<30)
				m.sweep(t, now)
			}
		}
	})
}
