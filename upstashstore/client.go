package upstashstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/redisscript"
)

// client sends commands as requests of Upstash's REST API.
type client struct {
	url, token string
	http       *http.Client
}

func newClient(o *Options) *client {
	h := http.Client{}
	if o.HTTPClient != nil {
		h = *o.HTTPClient
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{o.URL, o.Token, &h}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// Do is of redisscript.Client. Several commands are one request too, a pipeline.
func (c *client) Do(ctx context.Context, cmds []redisscript.Cmd, replies []redisscript.Reply) {
	var body any
	path := "/"
	if len(cmds) == 1 {
		body = cmds[0].Args
	} else {
		all := make([][]string, len(cmds))
		for i := range cmds {
			all[i] = cmds[i].Args
		}
		body, path = all, "/pipeline"
	}
	status, answer, token, err := c.post(ctx, path, body)
	var all []result
	if err == nil {
		// A server may say what it was sent.
		answer = bytes.ReplaceAll(answer, []byte(token), []byte("(token)"))
		all, err = results(status, answer, len(cmds))
	}
	for i := range replies {
		if err != nil {
			replies[i].Err = err
			continue
		}
		replies[i], replies[i].Err = all[i].reply(status)
	}
}

// access is where and as whom to ask.
func (c *client) access() (base, token string, err error) {
	base, token = c.url, c.token
	for _, name := range []string{"UPSTASH_REDIS_REST_URL", "KV_REST_API_URL"} {
		if base == "" {
			base = os.Getenv(name)
		}
	}
	for _, name := range []string{"UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_TOKEN"} {
		if token == "" {
			token = os.Getenv(name)
		}
	}
	switch {
	case base == "":
		return "", "", fmt.Errorf("%w: no URL: set Options.URL or UPSTASH_REDIS_REST_URL", driver.ErrNotApplied)
	case token == "":
		return "", "", fmt.Errorf("%w: no token: set Options.Token or UPSTASH_REDIS_REST_TOKEN", driver.ErrNotApplied)
	}
	return strings.TrimRight(base, "/"), token, nil
}

func (c *client) post(ctx context.Context, path string, body any) (status int, answer []byte, token string, err error) {
	base, token, err := c.access()
	if err != nil {
		return 0, nil, "", err
	}
	text, err := json.Marshal(body) // all of it is ASCII
	if err != nil {
		return 0, nil, "", fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, "", fmt.Errorf("%w: the URL is none that can be asked", driver.ErrNotApplied) // it may hold a password
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, "", sendError(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, "", sendError(err)
	}
	return resp.StatusCode, answer, token, nil
}

// sendError is err without the URL, and says whether the request surely was not sent.
func sendError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	return err
}

// result is the answer to one command.
type result struct {
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

func results(status int, answer []byte, n int) ([]result, error) {
	all := make([]result, 1)
	var err error
	if one := bytes.TrimSpace(answer); n == 1 || len(one) > 0 && one[0] == '{' { // a pipeline that is refused has one answer
		err = json.Unmarshal(answer, &all[0])
	} else {
		err = json.Unmarshal(answer, &all)
	}
	switch {
	case err != nil:
		return nil, statusError(status)
	case len(all) == n:
		return all, nil
	case len(all) == 1 && all[0].Error != "":
		_, err := all[0].reply(status)
		return nil, err
	}
	return nil, fmt.Errorf("%d answers to %d commands", len(all), n)
}

// statusError is that of an answer that says no more.
func statusError(status int) error {
	err := fmt.Errorf("the answer is HTTP %d and cannot be read", status)
	if refused(status) {
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	return err
}

// refused reports whether a request with that answer was not executed.
func refused(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusTooManyRequests:
		return true
	}
	return status >= 300 && status < 400
}

// reply reads the answer to one command.
func (r *result) reply(status int) (redisscript.Reply, error) {
	if r.Error != "" {
		var err error = redisscript.NewServerError(r.Error)
		if refused(status) {
			err = fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
		}
		return redisscript.Reply{}, err
	}
	if status != http.StatusOK {
		return redisscript.Reply{}, statusError(status)
	}
	var reply redisscript.Reply
	var list []json.RawMessage
	if err := json.Unmarshal(r.Result, &list); err == nil {
		for _, item := range list {
			text, err := scalar(item)
			if err != nil {
				return reply, err
			}
			reply.List = append(reply.List, text)
		}
		return reply, nil
	}
	text, err := scalar(r.Result)
	reply.Text = text
	return reply, err
}

// scalar is a string, a number as text, or "" for null.
func scalar(raw json.RawMessage) (string, error) {
	var text string
	var number json.Number
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case json.Unmarshal(raw, &text) == nil:
		return text, nil
	case json.Unmarshal(raw, &number) == nil:
		return number.String(), nil
	}
	return "", errors.New("an answer of an unknown kind")
}
