package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// socketPrefix begins the address of a socket in the file system.
const socketPrefix = "unix:"

// maxSocket is the greatest length of a socket's path that all systems bear.
const maxSocket = 103

func checkSocket(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("%q is not the full path of a socket, as in unix:/run/ration/ration.sock", path)
	case len(path) > maxSocket:
		return fmt.Errorf("the path of a socket has at most %d bytes, and this one %d", maxSocket, len(path))
	}
	return nil
}

// listenSocket makes a socket at path. What is left of a server that is gone is removed; what somebody answers at, or is no
// socket, is not. Closing the listener removes the socket.
func listenSocket(ctx context.Context, path, mode string) (net.Listener, error) {
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Before it is bound, so that there is no moment at which others can connect. Where a system cannot do that, what
		// follows will do.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(bits)) })
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, fs.FileMode(bits)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket; remove it, or choose another path", path)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s is in use by another server; stop that one, or choose another path", path), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path) // nobody listens any more
	}
	return fmt.Errorf("%s: whether somebody listens there cannot be told: %w", path, err)
}
