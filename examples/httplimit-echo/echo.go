// Package echoguard puts a guard of package httplimit in front of routes of echo.
package echoguard

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v5"
)

// Guard makes middleware of echo of one of net/http. It has errors of handlers answered behind the guard, and not only
// in front of it, so that the guard sees their status.
func Guard(guard func(http.Handler) http.Handler) echo.MiddlewareFunc {
	wrapped := echo.WrapMiddleware(guard)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return wrapped(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		})
	}
}

// Routes serves an API behind guard. What serves health checks stands outside.
func Routes(guard func(http.Handler) http.Handler) http.Handler {
	e := echo.New()
	e.GET("/health", func(c *echo.Context) error { return c.String(http.StatusOK, "fine") })
	api := e.Group("", Guard(guard))
	api.GET("/hello/:name", func(c *echo.Context) error { return c.String(http.StatusOK, "hello "+c.Param("name")) })
	api.GET("/secret", func(*echo.Context) error { return echo.NewHTTPError(http.StatusUnauthorized, "who are you?") })
	api.GET("/empty", func(c *echo.Context) error { return c.NoContent(http.StatusNotFound) })
	api.GET("/events", func(c *echo.Context) error {
		fmt.Fprint(c.Response(), "data: 1\n\n")
		if err := http.NewResponseController(c.Response()).Flush(); err != nil {
			return err
		}
		<-c.Request().Context().Done()
		return nil
	})
	return e
}
