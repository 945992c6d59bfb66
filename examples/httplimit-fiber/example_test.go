package fiberguard_test

import (
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/ration-go/ration"
	fiberguard "github.com/ration-go/ration/examples/httplimit-fiber"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

func ExampleGuard() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()
	hourly := ration.Rule{Name: "hourly", Limit: ration.SlidingWindow{Limit: 1, Window: time.Hour}}
	guard, err := httplimit.New(limiter, []httplimit.Policy{{Limit: hourly, Key: httplimit.ByIP(nil)}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	app := fiberguard.App(fiberguard.Guard(guard))
	for range 2 {
		r, err := app.Test(httptest.NewRequest("GET", "/hello/ada", nil))
		if err != nil {
			log.Fatal(err)
		}
		r.Body.Close()
		fmt.Println(r.StatusCode, r.Header.Get("RateLimit"))
	}
	// Output:
	// 200 "hourly";r=0;t=3600
	// 429 "hourly";r=0;t=3600
}
