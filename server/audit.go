package server

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// auditFile is a file to which lines are appended. One that was moved away, as logrotate does, is made anew.
type auditFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	looked time.Time
}

func openAudit(path string) (*auditFile, error) {
	a := &auditFile{path: path}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("audit.file: %w", err)
	}
	return a, nil
}

func (a *auditFile) open() (err error) {
	a.file, err = os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	a.looked = time.Now()
	return err
}

// Write appends a line.
func (a *auditFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return 0, os.ErrClosed
	}
	if time.Since(a.looked) >= time.Second && a.moved() {
		before := a.file
		if err := a.open(); err != nil {
			a.file = before // better there than nowhere
		} else {
			_ = before.Close() // nothing of it was held back
		}
	}
	return a.file.Write(line)
}

// moved reports whether another file, or none, is at the path.
func (a *auditFile) moved() bool {
	a.looked = time.Now()
	there, err := os.Stat(a.path)
	if err != nil {
		return true
	}
	mine, err := a.file.Stat()
	return err == nil && !os.SameFile(there, mine)
}

// Close closes the file. A second Close does nothing.
func (a *auditFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file = nil
	return err
}
