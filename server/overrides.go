package server

import (
	"context"
	"time"
)

// Time between two questions for overrides, unless the configuration says.
const (
	overridesPoll       = time.Second
	billedOverridesPoll = 30 * time.Second
)

// followOverrides reads the overrides, and keeps doing so until Close.
func (s *Server) followOverrides(ctx context.Context) {
	poll := s.cfg.Overrides.Poll
	if poll == 0 {
		if poll = overridesPoll; s.info.Kind == "upstash" {
			poll = billedOverridesPoll
		}
	}
	follow := s.decide.OpenOverrides(ctx, s.cfg.Namespace, poll, s.log)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.running.Go(func() { follow(background) })
}
