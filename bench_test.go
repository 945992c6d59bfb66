package ration_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func benchLimiter(b *testing.B) *ration.Limiter {
	l := ration.New(memstore.New(&memstore.Options{MaxKeys: 2 << 20, MaxBytes: 1 << 30}), nil)
	b.Cleanup(func() { l.Close() })
	return l
}

var benchLimits = map[string]ration.Limit{
	"bucket": ration.TokenBucket{Burst: 1 << 26, Refill: ration.PerMinute(2)},
	"rule":   ration.Rule{Name: "chat", Limit: ration.TokenBucket{Burst: 1 << 26, Refill: ration.PerMinute(2)}},
	"fixed":  ration.FixedWindow{Limit: 1 << 50, Window: time.Hour},
	"budget": ration.Rule{Name: "day", Limit: ration.Budget{Limit: 1 << 50, Period: ration.Day, Zone: "Europe/Berlin"}},
}

func BenchmarkTakeHot(b *testing.B) {
	for name, limit := range benchLimits {
		b.Run(name, func(b *testing.B) {
			l := benchLimiter(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Take(ctx, ration.KeyOf("user-1234567"), limit, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTakeHotParallel(b *testing.B) {
	l := benchLimiter(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Take(ctx, ration.KeyOf("user-1234567"), benchLimits["bucket"], 1)
		}
	})
}

func BenchmarkTakeMillionKeys(b *testing.B) {
	l := benchLimiter(b)
	keys := make([]string, 1<<20)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i*7919)
		l.Take(ctx, ration.KeyOf(keys[i]), benchLimits["bucket"], 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		x := uint32(time.Now().UnixNano())
		for pb.Next() {
			x = x*1664525 + 1013904223
			l.Take(ctx, ration.KeyOf(keys[x>>12]), benchLimits["bucket"], 1)
		}
	})
}
