// Package ginguard puts a guard of package httplimit in front of routes of gin.
package ginguard

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Guard makes middleware of gin of one of net/http. The handlers behind it write through the guard, so it sees their status.
func Guard(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		outside := c.Writer
		guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			through := &writer{outside, w}
			c.Request, c.Writer = r, through
			defer func() { c.Writer = outside }()
			c.Next()
			through.begin() // a status without a body is written later, by gin itself
		})).ServeHTTP(outside, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// writer keeps the status until something is written, as gin does, and then goes through the guard.
type writer struct {
	gin.ResponseWriter
	guard http.ResponseWriter
}

func (w *writer) Unwrap() http.ResponseWriter { return w.guard }

func (w *writer) begin() {
	if !w.Written() {
		w.guard.WriteHeader(w.Status())
	}
}

func (w *writer) WriteHeaderNow() {
	w.begin()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	return w.guard.Write(b)
}

func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *writer) Flush() {
	w.begin()
	w.ResponseWriter.Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.guard).Hijack()
}

// Routes serves an API behind guard. What serves health checks stands outside.
func Routes(guard func(http.Handler) http.Handler) http.Handler {
	e := gin.New()
	e.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "fine") })
	api := e.Group("/", Guard(guard))
	api.GET("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "hello "+c.Param("name")) })
	api.GET("/secret", func(c *gin.Context) {
		c.AbortWithStatusJSON(http.StatusUnauthorized, gin.H{"error": "who are you?"})
	})
	api.GET("/empty", func(c *gin.Context) { c.Status(http.StatusNotFound) })
	api.GET("/events", func(c *gin.Context) {
		fmt.Fprint(c.Writer, "data: 1\n\n")
		c.Writer.Flush()
		<-c.Request.Context().Done()
	})
	return e
}
