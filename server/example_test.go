package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/sqlite"
)

// A server inside another program.
func ExampleNew() {
	cfg := server.Defaults()
	cfg.Store = "memory:"
	cfg.Limits = []ration.Rule{{Name: "chat", Limit: ration.FixedWindow{Limit: 3, Window: time.Hour}}}
	s, err := server.New(context.Background(), cfg, &server.Options{
		Stores: map[string]server.OpenFunc{"memory": server.OpenMemory},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	mux := http.NewServeMux()
	mux.Handle("/v1/", s.Handler())

	call := httptest.NewRequest(http.MethodPost, "/v1/hit", strings.NewReader(`{"key": "alice", "window_ms": 60000}`))
	call.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, call)
	fmt.Print(answer.Body)
	// Output: {"count":1,"left_ms":60000}
}

// The program ration, with one more store. This is all of its main.go.
func ExampleMain() {
	openMine := func(_ context.Context, url string, _ *server.Config) (driver.Store, error) {
		return nil, fmt.Errorf("%s is not written yet", url)
	}
	server.Main(&server.Options{
		Stores: map[string]server.OpenFunc{
			"memory": server.OpenMemory,
			"sqlite": sqlite.Open,
			"mine":   openMine, // --store mine:…
		},
	})
}
