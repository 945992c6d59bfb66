package httpapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/internal/verbs"
)

// ofReservation is the path of what is done to one, before its id.
const ofReservation = "/v1/reservations/"

func (h *handler) reserve(ctx context.Context, r *reserveRequest) (a reserveAnswer, err error) {
	charges, err := h.charges(ctx, r.Charges)
	if err != nil {
		return a, err
	}
	held, o, err := h.Reserve(ctx, r.ID, r.TTLMS, r.RefundOnExpiry, charges)
	if err != nil {
		return a, err
	}
	a.outcomeAnswer = outcomeOf(&o)
	if verbs.Held(held) {
		a.ID, a.ExpiresAtUS = held.ID(), held.ExpiresAt().UnixMicro()
	}
	return a, nil
}

func (h *handler) settle(ctx context.Context, id string, r *settleRequest) (doneAnswer, error) {
	err := h.Settle(ctx, id, r.Amounts)
	return doneAnswer{err == nil}, err
}

func (h *handler) cancel(ctx context.Context, id string, _ *cancelRequest) (doneAnswer, error) {
	err := h.Cancel(ctx, id)
	return doneAnswer{err == nil}, err
}

func (h *handler) renew(ctx context.Context, id string, r *renewRequest) (renewAnswer, error) {
	expires, err := h.Renew(ctx, id, r.TTLMS)
	return renewAnswer{expires.UnixMicro()}, err
}

func (h *handler) progress(ctx context.Context, id string, r *progressRequest) (progressAnswer, error) {
	ok, err := h.Progress(ctx, id, r.Amounts)
	return progressAnswer{ok}, err
}

// reservations lists a page of what is held, by id.
func (h *handler) reservations(ctx context.Context, query url.Values) (a reservationsAnswer, err error) {
	after, most, err := pageAsked(query)
	if err != nil {
		return a, err
	}
	list, more, err := h.Reservations(ctx, after, most)
	if err != nil {
		return a, err
	}
	a = reservationsAnswer{Reservations: make([]heldAnswer, len(list)), More: more}
	for i := range list {
		a.Reservations[i] = heldOf(&list[i])
	}
	return a, nil
}

func pageAsked(query url.Values) (after string, most int, err error) {
	most = verbs.PageOf
	for name, values := range query {
		switch {
		case name != "after" && name != "max":
			return "", 0, problem(codeUnexpectedQuery, "only after and max are read from this query")
		case len(values) > 1:
			return "", 0, problem(codeUnexpectedQuery, name+" stands twice in the query")
		case name == "after":
			after = values[0]
		default:
			n, err := strconv.ParseUint(values[0], 10, 16)
			if err != nil || n < 1 || n > verbs.MaxPageOf {
				return "", 0, problem(codeInvalidNumber, fmt.Sprintf("max is a whole number from 1 to %d", verbs.MaxPageOf))
			}
			most = int(n)
		}
	}
	return after, most, nil
}

// heldOf is hold as it is shown: who is charged is not.
func heldOf(hold *ration.Hold) heldAnswer {
	a := heldAnswer{ID: hold.ID, AtUS: hold.At.UnixMicro(), ExpiresAtUS: hold.ExpiresAt.UnixMicro(), Charges: make([]heldCharge, len(hold.Charged))}
	if !utf8.ValidString(hold.ID) { // made by package client, where an id is any bytes
		a.ID, a.IDBase64 = "", base64.StdEncoding.EncodeToString([]byte(hold.ID))
	}
	for i := range hold.Charged {
		d := &hold.Charged[i]
		a.Charges[i] = heldCharge{Name: d.Name, Limit: d.Limit, Charged: d.Used}
	}
	return a
}
