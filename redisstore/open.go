package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Open is a Store with a client of its own, which Close closes. It connects before it returns. The URL is one of
//
//	redis://user:password@host:6379/0                         one server, or any node of a Cluster
//	redis-cluster://user:password@host1:6379,host2:6379       a Cluster
//	redis-sentinel://user:password@host1:26379,host2:26379/master/0
//
// with rediss in place of redis for TLS. User, password, port and the number of the database may be left out; what is not
// a letter or digit in a password is written as %XX. For Sentinels that want a password of their own there are the
// parameters sentinel_user and sentinel_password. nil opts are the defaults. No error shows the URL.
func Open(rawURL string, opts *Options) (*Store, error) {
	o, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", netError(err))
	}
	s, err := New(client, opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.owned = client.Close
	return s, nil
}

var errURL = errors.New("the URL is none of redis://, rediss://, redis-cluster:// or redis-sentinel://host:port,…")

// parseURL reads a URL by hand: net/url knows of one host only, and its errors show all of it.
func parseURL(raw string) (o rueidis.ClientOption, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	kind, secure := strings.CutPrefix(scheme, "rediss")
	if !secure {
		kind, _ = strings.CutPrefix(scheme, "redis")
	}
	if !ok || !strings.HasPrefix(scheme, "redis") || kind != "" && kind != "-cluster" && kind != "-sentinel" {
		return o, errURL
	}
	rest, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return o, errors.New("the parameters of the URL cannot be read")
	}
	rest, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var err1, err2 error
		o.Username, err1 = url.PathUnescape(user)
		o.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return o, errors.New("the user or password of the URL cannot be read; write what is no letter or digit as %XX")
		}
		rest = rest[at+1:]
	}
	defaultPort := "6379"
	if kind == "-sentinel" {
		defaultPort = "26379"
		path, err = sentinelPath(&o, path)
		if err != nil {
			return o, err
		}
		o.Sentinel.Username, o.Sentinel.Password = params.Get("sentinel_user"), params.Get("sentinel_password")
		params.Del("sentinel_user")
		params.Del("sentinel_password")
		// Without it one missed message would leave the client with the old primary.
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second
	}
	for name := range params {
		return o, fmt.Errorf("the URL has an unknown parameter %q", name)
	}
	if path != "" {
		if o.SelectDB, err = strconv.Atoi(path); err != nil || o.SelectDB < 0 || kind == "-cluster" {
			return o, errors.New("what follows the hosts of the URL is not the number of a database")
		}
	}
	for host := range strings.SplitSeq(rest, ",") {
		addr, err := address(host, defaultPort)
		if err != nil || kind == "" && len(o.InitAddress) > 0 {
			return o, errors.New("the hosts of the URL cannot be read")
		}
		o.InitAddress = append(o.InitAddress, addr)
	}
	if secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	o.DisableCache = true // every decision writes
	o.ClientName = "ration"
	return o, nil
}

// sentinelPath takes the name of the primary from path.
func sentinelPath(o *rueidis.ClientOption, path string) (rest string, err error) {
	master, rest, _ := strings.Cut(path, "/")
	if o.Sentinel.MasterSet, err = url.PathUnescape(master); err != nil || master == "" {
		return "", errors.New("the name of the primary is missing in the URL: redis-sentinel://host:port/name")
	}
	return rest, nil
}

func address(host, port string) (string, error) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	} else {
		host = strings.Trim(host, "[]")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" {
		return "", errURL
	}
	return net.JoinHostPort(host, port), nil
}
