// Package chiguard puts a guard of package httplimit in front of routes of chi, which takes middleware of net/http as it is.
package chiguard

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Routes serves an API behind guard. What serves health checks stands outside.
func Routes(guard func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Get("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	r.Group(func(r chi.Router) {
		r.Use(guard)
		r.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", chi.URLParam(r, "name")) })
		r.Get("/secret", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
		r.Get("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		r.Get("/events", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	})
	return r
}
