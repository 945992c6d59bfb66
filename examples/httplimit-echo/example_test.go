package echoguard_test

import (
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/ration-go/ration"
	echoguard "github.com/ration-go/ration/examples/httplimit-echo"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

func ExampleRoutes() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()
	hourly := ration.Rule{Name: "hourly", Limit: ration.SlidingWindow{Limit: 1, Window: time.Hour}}
	guard, err := httplimit.New(limiter, []httplimit.Policy{{Limit: hourly, Key: httplimit.ByIP(nil)}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	routes := echoguard.Routes(guard)
	for range 2 {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest("GET", "/hello/ada", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "hourly";r=0;t=3600
	// 429 "hourly";r=0;t=3600
}
