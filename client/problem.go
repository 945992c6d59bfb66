package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// problem is what an answer that is not 200 says: an error that wraps driver.ErrNotApplied where surely nothing was
// charged. Not all answers are the server's own: proxies have theirs.
func problem(response *http.Response) error {
	const most = 64 << 10
	var p wire.Problem
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if kind == wire.ProblemType && err == nil && json.Unmarshal(body, &p) == nil && p.Code != "" {
		return said(&p)
	}
	switch status := response.StatusCode; {
	case status >= 300 && status < 400:
		return errors.New("redirects are not followed; give the address at which the server itself answers")
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return fmt.Errorf("%w; is this the address of a ration server?", driver.ErrNotApplied)
	}
	return errors.New("this answer is not of a ration server, so it may have been charged")
}

// said is p as an error. The word on charges counts for more than what the code alone would mean.
func said(p *wire.Problem) error {
	detail := fmt.Sprintf("%.500s", p.Detail)
	err := p.Code.Err(detail)
	switch {
	case p.Charged != wire.ChargedNo && errors.Is(err, driver.ErrNotApplied):
		return fmt.Errorf("%.60s: %s", p.Code, detail)
	case p.Charged == wire.ChargedNo && !errors.Is(err, driver.ErrNotApplied):
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	return err
}
