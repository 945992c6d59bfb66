package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// ofReservation is the path of what is done to one, before its id.
const ofReservation = "/v1/reservations/"

// Bounds of what names and holds a reservation.
const (
	maxID     = 128
	maxRoute  = 16 // what a store that has its data in several places puts in front of an id, with its dot
	minTTL    = int64(time.Second / time.Millisecond)
	maxTTL    = int64(31 * 24 * time.Hour / time.Millisecond)
	pageOf    = 100 // reservations on a page, unless asked otherwise
	maxPageOf = 500
)

func (h *handler) reserve(ctx context.Context, r *reserveRequest) (a reserveAnswer, err error) {
	opts := ration.ReserveOptions{RefundOnExpiry: r.RefundOnExpiry}
	if r.ID != nil {
		if err := checkID(*r.ID); err != nil {
			return a, err
		}
		opts.ID = *r.ID
	}
	if r.TTLMS != nil {
		if opts.TTL, err = ttl(*r.TTLMS); err != nil {
			return a, err
		}
	}
	charges, err := h.charges(r.Charges)
	if err != nil {
		return a, err
	}
	held, err := h.limiter.Reserve(ctx, &opts, charges...)
	if err != nil {
		return a, err
	}
	a.outcomeAnswer = outcomeOf(&held.Outcome)
	if held.Allowed && !held.Degraded {
		a.ID, a.ExpiresAtUS = held.ID(), held.ExpiresAt().UnixMicro()
	}
	return a, nil
}

// checkID checks an id that a caller makes up.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return at("/id", problem(wire.CodeInvalidID, fmt.Sprintf("an id of %d bytes is not between 1 and %d; leave it out if the call need not happen once", len(id), maxID)))
	}
	return nil
}

func ttl(ms int64) (time.Duration, error) {
	if ms < minTTL || ms > maxTTL {
		return 0, at("/ttl_ms", problem(wire.CodeInvalidTime, fmt.Sprintf("ttl_ms is not between %d, a second, and %d, 31 days", minTTL, maxTTL)))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// reservation is that of an id in a path.
func (h *handler) reservation(id string) (*ration.Reservation, error) {
	if id == "" || len(id) > maxID+maxRoute {
		return nil, problem(wire.CodeInvalidID, fmt.Sprintf("an id of %d bytes in the path is none of a reservation", len(id)))
	}
	return h.limiter.Reservation(id), nil
}

func (h *handler) settle(ctx context.Context, id string, r *settleRequest) (a doneAnswer, err error) {
	held, err := h.reservation(id)
	if err == nil {
		err = checkAmounts(r.Amounts)
	}
	if err == nil {
		err = held.Settle(ctx, r.Amounts...)
	}
	return doneAnswer{err == nil}, err
}

// checkAmounts refuses a list that is there and empty: nothing, or nothing used?
func checkAmounts(amounts []int64) error {
	if amounts != nil && len(amounts) == 0 || len(amounts) > driver.MaxOps {
		return at("/amounts", problem(wire.CodeInvalidAmounts, fmt.Sprintf("%d amounts are not between 1 and %d; give one for each charge, or for all if all were equal", len(amounts), driver.MaxOps)))
	}
	for i, n := range amounts {
		if n < 0 {
			return at(fmt.Sprintf("/amounts/%d", i), problem(wire.CodeInvalidCost, "this is less than 0"))
		}
	}
	return nil
}

func (h *handler) cancel(ctx context.Context, id string, _ *cancelRequest) (a doneAnswer, err error) {
	held, err := h.reservation(id)
	if err == nil {
		err = held.Cancel(ctx)
	}
	return doneAnswer{err == nil}, err
}

func (h *handler) renew(ctx context.Context, id string, r *renewRequest) (a renewAnswer, err error) {
	held, err := h.reservation(id)
	if err != nil {
		return a, err
	}
	life, err := ttl(r.TTLMS)
	if err == nil {
		err = held.Renew(ctx, life)
	}
	if err != nil {
		return a, err
	}
	return renewAnswer{held.ExpiresAt().UnixMicro()}, nil
}

func (h *handler) progress(ctx context.Context, id string, r *progressRequest) (a progressAnswer, err error) {
	held, err := h.reservation(id)
	if err == nil {
		err = checkAmounts(r.Amounts)
	}
	if err != nil {
		return a, err
	}
	ok, err := held.Progress(ctx, r.Amounts...)
	return progressAnswer{ok}, err
}

// reservations lists a page of what is held, by id.
func (h *handler) reservations(ctx context.Context, query url.Values) (a reservationsAnswer, err error) {
	after, most, err := pageAsked(query)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	list, more, err := page(h.limiter.Holds(ctx), func(hold *ration.Hold) string { return hold.ID }, after, most)
	if err != nil {
		return a, errors.Join(err, driver.ErrNotApplied)
	}
	a = reservationsAnswer{Reservations: make([]heldAnswer, len(list)), More: more}
	for i := range list {
		a.Reservations[i] = heldOf(&list[i])
	}
	return a, nil
}

func pageAsked(query url.Values) (after string, most int, err error) {
	most = pageOf
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
			if err != nil || n < 1 || n > maxPageOf {
				return "", 0, problem(codeInvalidNumber, fmt.Sprintf("max is a whole number from 1 to %d", maxPageOf))
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
