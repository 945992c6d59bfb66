package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
)

// Examine is a server.ExamineFunc.
func Examine(url string, cfg *server.Config, opts *doctor.Options) *doctor.Subject {
	return &doctor.Subject{
		Checks: []doctor.Check{{Name: "connection", Do: func(ctx context.Context, say func(doctor.Finding)) bool {
			addresses, secured := addressesOf(url)
			var config *tls.Config
			if secured {
				config = &tls.Config{MinVersion: tls.VersionTLS12}
			}
			through := len(addresses) == 0 // then opening says what is wrong with the URL
			for _, address := range addresses {
				if doctor.Dial(ctx, address, config, opts.Now(), say) {
					through = true
				}
			}
			return through
		}}},
		Open: func(context.Context) (driver.Store, error) {
			return redisstore.Open(url, &redisstore.Options{Prefix: cfg.Redis.Prefix, WaitReplicas: cfg.Redis.WaitReplicas, SweepEvery: -1})
		},
		Explain: explain,
	}
}

// addressesOf are the hosts of a URL; none if it cannot be read.
func addressesOf(url string) (all []string, secured bool) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return nil, false
	}
	port := "6379"
	if strings.HasSuffix(scheme, "-sentinel") {
		port = "26379"
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "/")
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	for host := range strings.SplitSeq(rest, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		all = append(all, host)
	}
	return all, strings.HasPrefix(scheme, "rediss")
}

// explain is what Redis's own errors mean to an operator.
func explain(err error) (f doctor.Finding, ok bool) {
	if errors.Is(err, redisscript.ErrReplicas) {
		return doctor.Finding{Severity: doctor.Error, Code: "redis.wait", Text: err.Error(), Remedy: "start the replicas, or lower redis.wait_replicas"}, true
	}
	code, text := "", ""
	var server *redisscript.ServerError
	if errors.As(err, &server) {
		code, text = server.Code, server.Text
	} else if own, ok := errors.AsType[*rueidis.RedisError](err); ok {
		text = own.Error()
		code, _, _ = strings.Cut(text, " ")
	}
	f = doctor.Finding{Severity: doctor.Error, Text: "Redis says: " + text}
	switch code {
	case "":
		return f, false
	case "WRONGPASS", "NOAUTH":
		return doctor.Failure(fmt.Errorf("%w: %s", doctor.ErrAuth, text), ""), true
	case "NOPERM":
		f.Code, f.Remedy = "redis.rights", "let this user run EVAL, EVALSHA and the commands for keys on ~ration:* (or the prefix)"
	case "OOM":
		f.Code, f.Remedy = "store.full", "raise maxmemory; new keys are refused meanwhile"
	case "READONLY", "MASTERDOWN":
		f.Code, f.Remedy = "redis.read_only", "connect to the primary, or through Sentinel"
	case "MISCONF":
		f.Code, f.Remedy = "redis.disk", "see its log; free the disk"
	case "NOREPLICAS":
		f.Code, f.Remedy = "redis.replicas", "start the replicas that min-replicas-to-write asks for"
	case "CLUSTERDOWN":
		f.Code, f.Remedy = "redis.cluster", "see redis-cli --cluster check"
	default:
		f.Code, f.Remedy = "store.failed", "see what the error says"
	}
	return f, true
}
