// Package fiberguard puts a guard of package httplimit in front of routes of fiber.
//
// Fiber's own adaptor.HTTPMiddleware works too, but it lets the guard return before the handlers run: that is enough for
// limits that charge every request, but not for Policy.Count, which needs the status, and not for a Concurrency limit.
package fiberguard

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
)

// Guard makes middleware of fiber of one of net/http.
func Guard(guard func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		r, err := adaptor.ConvertRequest(c, true)
		if err != nil {
			return err
		}
		var failed error
		guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := c.Next(); err != nil {
				failed = c.App().ErrorHandler(c, err)
			}
			w.WriteHeader(c.Response().StatusCode())
		})).ServeHTTP(&writer{c, http.Header{}}, r)
		return failed
	}
}

// writer puts a status, fields and a body into fiber's answer.
type writer struct {
	c      fiber.Ctx
	header http.Header
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.c.Status(status)
	for name, values := range w.header {
		for _, value := range values {
			w.c.Set(name, value)
		}
	}
}

func (w *writer) Write(b []byte) (int, error) { return w.c.Write(b) }

// App serves an API behind guard. What serves health checks stands outside.
func App(guard fiber.Handler) *fiber.App {
	app := fiber.New()
	app.Get("/health", func(c fiber.Ctx) error { return c.SendString("fine") })
	api := app.Group("/", guard)
	api.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString("hello " + c.Params("name")) })
	api.Get("/secret", func(fiber.Ctx) error { return fiber.NewError(fiber.StatusUnauthorized, "who are you?") })
	api.Get("/empty", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNotFound) })
	return app
}
