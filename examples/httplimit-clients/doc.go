// Package clients tests guards of package httplimit with what stands at the other end in real life: curl, wrk, and Chromium
// without a screen. They are found by internal/engines.
package clients
