package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/client"
	"github.com/ration-go/ration/server"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

// chatAndOther are two configured limits.
func chatAndOther(cfg *server.Config) {
	cfg.API.FailedLimit = "off"
	cfg.Limits = []ration.Rule{
		{Name: "chat", Limit: ration.FixedWindow{Limit: 100, Window: time.Hour}},
		{Name: "other", Limit: ration.FixedWindow{Limit: 100, Window: time.Hour}},
	}
}

// TestScopesOverHTTP: a call is for a verb and a limit; what a token is not for is 403, and charges nothing.
func TestScopesOverHTTP(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{}
	var lines []string
	for name, scopes := range map[string]string{
		"reader": "read", "taker": "take", "chatter": "take:chat,read:chat", "resetter": "reset", "admin": "admin", "elsewhere": "admin@shop", "everywhere": "admin@*",
	} {
		token, line := tokenLine(t, name, scopes, "")
		tokens[name] = token
		lines = append(lines, line)
	}
	url, _ := guarded(t, io.Discard, chatAndOther, lines...)
	key := `{"key": "alice", "limit": %q}`
	for _, c := range []struct {
		method, path, body string
		may                string // whose call is not 403
	}{
		{"POST", "/v1/take", fmt.Sprintf(key, "chat"), "taker chatter admin everywhere"},
		{"POST", "/v1/take", fmt.Sprintf(key, "other"), "taker admin everywhere"},
		{"POST", "/v1/take", fmt.Sprintf(key, "fixed 3/1h"), "taker admin everywhere"},
		{"POST", "/v1/take", `{"key": "alice", "limit": "fixed 999/1h", "name": "chat"}`, "taker admin everywhere"},
		{"POST", "/v1/take-all", `{"charges": [{"key": "a", "limit": "chat"}]}`, "taker chatter admin everywhere"},
		{"POST", "/v1/take-all", `{"charges": [{"key": "a", "limit": "chat"}, {"key": "a", "limit": "other"}]}`, "taker admin everywhere"},
		{"POST", "/v1/reserve", `{"charges": [{"key": "a", "limit": "other"}]}`, "taker admin everywhere"},
		{"POST", "/v1/reservations/none/settle", `{}`, "taker chatter admin everywhere"},
		{"POST", "/v1/refund", `{"key": "alice", "limit": "other", "at_us": 1}`, "taker admin everywhere"},
		{"POST", "/v1/hit", `{"key": "alice", "window_ms": 1000}`, "taker admin everywhere"},
		{"POST", "/v1/peek", fmt.Sprintf(key, "chat"), "reader chatter admin everywhere"},
		{"POST", "/v1/peek", fmt.Sprintf(key, "other"), "reader admin everywhere"},
		{"GET", "/v1/limits", "", "reader chatter admin everywhere"},
		{"GET", "/v1/reservations", "", "reader chatter admin everywhere"},
		{"GET", "/metrics", "", "reader admin everywhere"},
		{"POST", "/v1/reset", fmt.Sprintf(key, "chat"), "resetter admin everywhere"},
		{"POST", "/v1/forget", `{"key": "alice"}`, "resetter admin everywhere"},
		{"POST", "/v1/admin/reload", `{}`, "admin everywhere"},
		{"POST", "/v1/overrides/set", `{"key": "alice", "limit": "chat", "override": "500"}`, "admin everywhere"},
		{"POST", "/v1/overrides/get", fmt.Sprintf(key, "chat"), "reader chatter admin everywhere"},
		{"GET", "/v1/overrides", "", "reader admin everywhere"},
		{"POST", "/v1/sweep", `{"max": 1}`, "everywhere"},
		{"GET", "/openapi.json", "", "reader taker chatter resetter admin elsewhere everywhere"},
	} {
		for name, token := range tokens {
			status, _, body := call(t, c.method, url+c.path, c.body, "Authorization: Bearer "+token)
			may := strings.Contains(" "+c.may+" ", " "+name+" ")
			if may == (status == http.StatusForbidden) || status == http.StatusUnauthorized || !may && !strings.Contains(body, `"code":"forbidden"`) {
				t.Errorf("%s: %s %s %s: %d %s", name, c.method, c.path, c.body, status, body)
			}
		}
	}
	// Who may read one limit is shown that one.
	if _, _, body := call(t, "GET", url+"/v1/limits", "", "Authorization: Bearer "+tokens["chatter"]); !strings.Contains(body, `"chat"`) || strings.Contains(body, `"other"`) {
		t.Error(body)
	}
	if _, _, body := call(t, "POST", url+"/v1/peek", fmt.Sprintf(key, "fixed 999/1h"), "Authorization: Bearer "+tokens["admin"]); !strings.Contains(body, `"used":0`) {
		t.Errorf("a refused call was charged: %s", body)
	}
}

// TestClientsWithTokens: package client sends batches for namespaces of its own.
func TestClientsWithTokens(t *testing.T) {
	t.Parallel()
	shop, shopLine := tokenLine(t, "shop", "take@shop", "")
	ops, opsLine := tokenLine(t, "ops", "admin@*", "")
	named, namedLine := tokenLine(t, "named", "take:chat@*", "")
	url, _ := guarded(t, io.Discard, func(cfg *server.Config) { cfg.API.FailedLimit = "off" }, shopLine, opsLine, namedLine)
	limiter := func(token, namespace string) *ration.Limiter {
		store, err := client.New(url, &client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		l := ration.New(store, &ration.Options{Namespace: namespace, OnError: ration.AllowOnError})
		t.Cleanup(func() { l.Close() })
		return l
	}
	key, limit := ration.KeyOf("alice"), ration.FixedWindow{Limit: 3, Window: time.Hour}
	ctx := t.Context()
	l := limiter(shop, "shop")
	if d, err := l.Take(ctx, key, limit, 1); err != nil || !d.Allowed || d.Degraded {
		t.Errorf("%+v, %v", d, err)
	}
	// What a token is not for is an error that no outage policy turns into a pass.
	for name, err := range map[string]error{
		"peek":   second(l.Peek(ctx, key, limit, 1)),
		"reset":  l.Reset(ctx, key, limit),
		"forget": l.Forget(ctx, key),
		"other":  second(limiter(shop, "shop2").Take(ctx, key, limit, 1)),
		"none":   second(limiter(shop, "").Take(ctx, key, limit, 1)),
		"piece":  limiter(shop, "sho").Forget(ctx, key),
		"named":  second(limiter(named, "shop").Take(ctx, key, limit, 1)),
	} {
		if !errors.Is(err, ration.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	held, err := l.Reserve(ctx, nil, key.Charge(limit, 1))
	if err != nil || held.Settle(ctx) != nil {
		t.Error(err)
	}
	if err := limiter(ops, "shop").Reset(ctx, key, limit); err != nil {
		t.Error(err)
	}
	d, err := limiter("ration_wrong_wrong_wrong_wrong_wrong_wrong", "shop").Take(ctx, key, limit, 1)
	if err == nil && !d.Degraded {
		t.Errorf("%+v, %v", d, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTokensOverGRPC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	edge := write(t, filepath.Join(dir, "edge.yaml"), envoyConfig)
	web, webLine := tokenLine(t, "web", "take:chat", "")
	envoy, envoyLine := tokenLine(t, "envoy", "take:envoy/edge", "")
	wrongEdge, wrongLine := tokenLine(t, "wrong", "take:envoy/other", "")
	old, oldLine := tokenLine(t, "old", "admin", "2020-01-01")
	at, _ := guardedAll(t, io.Discard, func(cfg *server.Config) {
		chatAndOther(cfg)
		cfg.GRPC.Listen, cfg.Envoy.Configs = "127.0.0.1:0", []string{edge}
	}, webLine, envoyLine, wrongLine, oldLine)
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	as := func(headers ...string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), headers...)
	}
	api, rls := rationv1.NewRationServiceClient(conn), rlsv3.NewRateLimitServiceClient(conn)
	take := func(ctx context.Context, limit string) error {
		_, err := api.Take(ctx, &rationv1.TakeRequest{Key: &rationv1.Key{Parts: []string{"alice"}}, Limit: limit})
		return err
	}
	ask := func(ctx context.Context) error {
		_, err := rls.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}}},
		}})
		return err
	}
	_, resetErr := api.Reset(as("authorization", "Bearer "+web), &rationv1.ResetRequest{Key: &rationv1.Key{Parts: []string{"alice"}}, Limit: "chat"})
	_, limitsErr := api.ListLimits(as(), &rationv1.ListLimitsRequest{})
	_, healthErr := grpc_health_v1.NewHealthClient(conn).Check(as(), &grpc_health_v1.HealthCheckRequest{})
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"missing":      {take(as(), "chat"), codes.Unauthenticated},
		"wrong":        {take(as("authorization", "Bearer "+web[1:]), "chat"), codes.Unauthenticated},
		"no scheme":    {take(as("authorization", web), "chat"), codes.Unauthenticated},
		"twice":        {take(as("authorization", "Bearer "+web, "authorization", "Bearer "+web), "chat"), codes.Unauthenticated},
		"expired":      {take(as("authorization", "Bearer "+old), "chat"), codes.Unauthenticated},
		"good":         {take(as("authorization", "Bearer "+web), "chat"), codes.OK},
		"other limit":  {take(as("authorization", "Bearer "+web), "other"), codes.PermissionDenied},
		"text":         {take(as("authorization", "Bearer "+web), "fixed 3/1h"), codes.PermissionDenied},
		"reset":        {resetErr, codes.PermissionDenied},
		"list":         {limitsErr, codes.Unauthenticated},
		"health":       {healthErr, codes.OK},
		"envoy":        {ask(as("authorization", "Bearer "+envoy)), codes.OK},
		"other domain": {ask(as("authorization", "Bearer "+wrongEdge)), codes.PermissionDenied},
		"no domain":    {ask(as("authorization", "Bearer "+web)), codes.PermissionDenied},
		"envoy none":   {ask(as()), codes.Unauthenticated},
	} {
		if status.Code(c.err) != c.want {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
		if c.err != nil && strings.Contains(c.err.Error(), web[7:]) {
			t.Errorf("%s: a token is in %v", name, c.err)
		}
	}
}

// sendCommands sends commands, each in words, in which ~ is a blank, in one write, and answers a line for each; arrays are read whole.
func sendCommands(t *testing.T, address string, commands ...string) (replies []string) {
	t.Helper()
	conn := must[net.Conn](t)(net.Dial("tcp", address))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var out strings.Builder
	for _, command := range commands {
		words := strings.Fields(command)
		fmt.Fprintf(&out, "*%d\r\n", len(words))
		for _, word := range words {
			word = strings.ReplaceAll(word, "~", " ")
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := io.WriteString(conn, out.String()); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	var read func() string
	read = func() string {
		line, err := in.ReadString('\n')
		if err != nil {
			return "closed"
		}
		line = strings.TrimSpace(line)
		n := 0
		if _, err := fmt.Sscanf(line, "*%d", &n); err == nil {
			for range n {
				line += " " + read()
			}
		} else if _, err := fmt.Sscanf(line, "$%d", &n); err == nil && n >= 0 {
			line = read()
		}
		return line
	}
	for range commands {
		replies = append(replies, read())
	}
	return replies
}

func TestTokensOverRESP(t *testing.T) {
	t.Parallel()
	web, webLine := tokenLine(t, "web", "take:chat", "")
	all, allLine := tokenLine(t, "all", "take", "")
	at, _ := guardedAll(t, io.Discard, func(cfg *server.Config) {
		chatAndOther(cfg)
		cfg.RESP.Listen = "127.0.0.1:0"
	}, webLine, allLine)
	for _, c := range []struct {
		commands string // with commas
		want     string // what replies begin with
	}{
		{"PING,CL.THROTTLE a chat,HELLO 3,INFO,AUTH", "-NOAUTH,-NOAUTH,-NOAUTH,-NOAUTH,-NOAUTH"},
		{"QUIT", "+OK"},
		{"AUTH WEB,PING,CL.THROTTLE a chat,CL.THROTTLE a other,CL.THROTTLE a 15 30 60,CL.THROTTLE a fixed~3/1h", "+OK,+PONG,*5 :0,-NOPERM,-NOPERM,-NOPERM"},
		{"AUTH default WEB,PING", "+OK,+PONG"},
		{"AUTH web WEB,PING", "+OK,+PONG"},
		{"AUTH all WEB,PING", "-WRONGPASS,-NOAUTH"},
		{"AUTH WEBx,PING", "-WRONGPASS,-NOAUTH"},
		{"AUTH x,CL.THROTTLE a chat", "-WRONGPASS,-NOAUTH"},
		{"HELLO 2 AUTH default WEB SETNAME x,CL.THROTTLE a chat", "*14,*5 :0"},
		{"HELLO 2 AUTH default no,PING", "-WRONGPASS,-NOAUTH"},
		{"AUTH ALL,CL.THROTTLE a other,CL.THROTTLE b 15 30 60,CL.THROTTLE b fixed~3/1h", "+OK,*5 :0,*5 :0,*5 :0"},
		{"AUTH WEB,AUTH no,PING", "+OK,-WRONGPASS,+PONG"},
	} {
		var commands []string
		for _, one := range strings.Split(c.commands, ",") {
			one = strings.NewReplacer("WEB", web, "ALL", all).Replace(one)
			commands = append(commands, one)
		}
		got := sendCommands(t, at["resp"], commands...)
		for i, want := range strings.Split(c.want, ",") {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: %d: %q, want %s", c.commands, i, got[i], want)
			}
			if strings.Contains(got[i], web[7:]) {
				t.Errorf("a token is in %q", got[i])
			}
		}
	}
}
