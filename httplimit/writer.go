package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// writer sees the answer go by: its status, and that its fields are as they should be when it begins.
type writer struct {
	http.ResponseWriter
	r       *http.Request
	dialect Headers
	entries []entry
	put     [3]string // what the dialect's fields were then

	status   int
	began    bool
	unseen   bool // the client was gone before
	hijacked bool
}

// wrap makes a ResponseWriter that sees what goes to w, and can do what w can.
func wrap(w http.ResponseWriter, r *http.Request, dialect Headers, es []entry) (http.ResponseWriter, *writer) {
	v := &writer{ResponseWriter: w, r: r, dialect: dialect, entries: es}
	if len(es) > 0 {
		for i, field := range dialect.fields() {
			v.put[i] = w.Header().Get(field)
		}
	}
	const flush, hijack, push, notify = 1, 2, 4, 8
	can := 0
	if has[http.Flusher](w) || has[interface{ FlushError() error }](w) {
		can |= flush
	}
	if has[http.Hijacker](w) {
		can |= hijack
	}
	if has[http.Pusher](w) {
		can |= push
	}
	if has[closeNotifier](w) {
		can |= notify
	}
	f, h, p, c := canFlush{v}, canHijack{v}, canPush{v}, canNotify{v}
	switch can {
	case flush:
		return struct {
			*writer
			canFlush
		}{v, f}, v
	case hijack:
		return struct {
			*writer
			canHijack
		}{v, h}, v
	case push:
		return struct {
			*writer
			canPush
		}{v, p}, v
	case notify:
		return struct {
			*writer
			canNotify
		}{v, c}, v
	case flush | hijack:
		return struct {
			*writer
			canFlush
			canHijack
		}{v, f, h}, v
	case flush | push:
		return struct {
			*writer
			canFlush
			canPush
		}{v, f, p}, v
	case flush | notify:
		return struct {
			*writer
			canFlush
			canNotify
		}{v, f, c}, v
	case hijack | push:
		return struct {
			*writer
			canHijack
			canPush
		}{v, h, p}, v
	case hijack | notify:
		return struct {
			*writer
			canHijack
			canNotify
		}{v, h, c}, v
	case push | notify:
		return struct {
			*writer
			canPush
			canNotify
		}{v, p, c}, v
	case flush | hijack | push:
		return struct {
			*writer
			canFlush
			canHijack
			canPush
		}{v, f, h, p}, v
	case flush | hijack | notify:
		return struct {
			*writer
			canFlush
			canHijack
			canNotify
		}{v, f, h, c}, v
	case flush | push | notify:
		return struct {
			*writer
			canFlush
			canPush
			canNotify
		}{v, f, p, c}, v
	case hijack | push | notify:
		return struct {
			*writer
			canHijack
			canPush
			canNotify
		}{v, h, p, c}, v
	case flush | hijack | push | notify:
		return struct {
			*writer
			canFlush
			canHijack
			canPush
			canNotify
		}{v, f, h, p, c}, v
	}
	return v, v
}

// closeNotifier is http.CloseNotifier, which is deprecated; some routers call it without asking.
type closeNotifier interface{ CloseNotify() <-chan bool }

// has reports whether w, or a writer that it unwraps to, is a T.
func has[T any](w http.ResponseWriter) bool {
	_, ok := find[T](w)
	return ok
}

func find[T any](w http.ResponseWriter) (t T, ok bool) {
	for {
		if t, ok := w.(T); ok {
			return t, true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return t, false
		}
		w = u.Unwrap()
	}
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	// 1xx come before the answer; but 101 is one.
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom keeps the way open for sendfile.
func (w *writer) ReadFrom(r io.Reader) (n int64, err error) {
	open := !w.began
	w.begin(http.StatusOK)
	if from, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		n, err = from.ReadFrom(r)
	} else {
		n, err = io.Copy(struct{ io.Writer }{w.ResponseWriter}, r)
	}
	if open && n == 0 {
		w.began, w.unseen = false, false // nothing was sent, so the status is still open
	}
	return n, err
}

// FlushError is for http.ResponseController, and fails where the writer outside cannot flush.
func (w *writer) FlushError() error {
	open := !w.began
	w.begin(http.StatusOK)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if open && errors.Is(err, http.ErrNotSupported) {
		w.began, w.unseen = false, false
	}
	return err
}

// begin notes the status that the answer begins with, and sees to its fields.
func (w *writer) begin(status int) {
	if w.began {
		return
	}
	w.began, w.status, w.unseen = true, status, w.r.Context().Err() != nil
	if len(w.entries) == 0 {
		return
	}
	header, fields := w.Header(), w.dialect.fields()
	if 300 <= status && status < 400 {
		for _, field := range fields {
			delete(header, field)
		}
		return
	}
	if len(header[fields[0]]) == 0 {
		return // the handler took them away
	}
	for i, field := range fields {
		if lines := header[field]; len(lines) != 1 || lines[0] != w.put[i] {
			// It passes on an answer of another server, with that one's fields; or a guard inside put its own there, and may not have
			// seen ours, if something buffers between.
			if !w.dialect.tells(header, w.entries, status) {
				w.dialect.set(header, w.entries)
			}
			return
		}
	}
}

// end is the status of the answer, once the handler has returned or panicked; unseen says that nobody was there when it began.
func (w *writer) end(returned bool) (status int, unseen bool) {
	switch {
	case w.began:
		return w.status, w.unseen
	case w.hijacked:
		return http.StatusSwitchingProtocols, false
	case !returned:
		return http.StatusInternalServerError, w.r.Context().Err() != nil
	}
	return http.StatusOK, w.r.Context().Err() != nil
}

type canFlush struct{ v *writer }

func (c canFlush) Flush() { _ = c.v.FlushError() }

type canHijack struct{ v *writer }

func (c canHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.v.ResponseWriter).Hijack()
	if err == nil {
		c.v.hijacked = true
	}
	return conn, rw, err
}

type canPush struct{ v *writer }

func (c canPush) Push(target string, opts *http.PushOptions) error {
	p, ok := find[http.Pusher](c.v.ResponseWriter)
	if !ok {
		return http.ErrNotSupported
	}
	return p.Push(target, opts)
}

type canNotify struct{ v *writer }

func (c canNotify) CloseNotify() <-chan bool {
	if n, ok := find[closeNotifier](c.v.ResponseWriter); ok {
		return n.CloseNotify()
	}
	return nil
}
