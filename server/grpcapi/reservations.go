package grpcapi

import (
	"context"
	"fmt"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/verbs"
)

// Reserve is of the proto.
func (s *service) Reserve(ctx context.Context, r *rationv1.ReserveRequest) (*rationv1.ReserveResponse, error) {
	charges, err := s.charges(ctx, r, r.Charges)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	held, o, err := s.verbs.Reserve(ctx, r.Id, r.TtlMs, r.RefundOnExpiry, charges)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	tell(ctx, shadowsOf(&o)...)
	a := &rationv1.ReserveResponse{Outcome: outcomeOf(&o.Outcome)}
	if verbs.Held(held) {
		a.Id, a.ExpiresAtUs = held.ID(), held.ExpiresAt().UnixMicro()
	}
	return a, nil
}

// Settle is of the proto.
func (s *service) Settle(ctx context.Context, r *rationv1.SettleRequest) (*rationv1.SettleResponse, error) {
	amounts, err := amountsOf(r, r.Amounts)
	if err == nil {
		err = s.verbs.Settle(ctx, r.Id, amounts)
	}
	return &rationv1.SettleResponse{}, s.status(ctx, err)
}

// amountsOf is the amounts of the request r; nil if it has none, empty if they are none.
func amountsOf(r message, a *rationv1.Amounts) ([]int64, error) {
	if err := known(r); err != nil || a == nil {
		return nil, err
	}
	if err := known(a); err != nil {
		return nil, verbs.Within("/amounts", err)
	}
	return append([]int64{}, a.Amounts...), nil
}

// Cancel is of the proto.
func (s *service) Cancel(ctx context.Context, r *rationv1.CancelRequest) (*rationv1.CancelResponse, error) {
	err := known(r)
	if err == nil {
		err = s.verbs.Cancel(ctx, r.Id)
	}
	return &rationv1.CancelResponse{}, s.status(ctx, err)
}

// Renew is of the proto.
func (s *service) Renew(ctx context.Context, r *rationv1.RenewRequest) (*rationv1.RenewResponse, error) {
	if err := known(r); err != nil {
		return nil, s.status(ctx, err)
	}
	expires, err := s.verbs.Renew(ctx, r.Id, r.TtlMs)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	return &rationv1.RenewResponse{ExpiresAtUs: expires.UnixMicro()}, nil
}

// Progress is of the proto.
func (s *service) Progress(ctx context.Context, r *rationv1.ProgressRequest) (*rationv1.ProgressResponse, error) {
	amounts, err := amountsOf(r, r.Amounts)
	if err == nil && amounts == nil {
		err = verbs.At("/amounts", verbs.Problem(codeMissing, "no amounts; say what was used so far, in total"))
	}
	if err != nil {
		return nil, s.status(ctx, err)
	}
	ok, err := s.verbs.Progress(ctx, r.Id, amounts)
	if err != nil {
		return nil, s.status(ctx, err)
	}
	return &rationv1.ProgressResponse{Ok: ok}, nil
}

// ListReservations is of the proto.
func (s *service) ListReservations(ctx context.Context, r *rationv1.ListReservationsRequest) (*rationv1.ListReservationsResponse, error) {
	most := int32(verbs.PageOf)
	if r.Max != nil {
		most = *r.Max
	}
	err := known(r)
	if err == nil && (most < 1 || most > verbs.MaxPageOf) {
		err = verbs.At("/max", verbs.Problem(wire.Code(strictjson.InvalidNumber), fmt.Sprintf("%d is not between 1 and %d", most, verbs.MaxPageOf)))
	}
	if err != nil {
		return nil, s.status(ctx, err)
	}
	list, more, err := s.verbs.Reservations(ctx, string(r.After), int(most))
	if err != nil {
		return nil, s.status(ctx, err)
	}
	a := &rationv1.ListReservationsResponse{More: more, Reservations: make([]*rationv1.Reservation, len(list))}
	for i := range list {
		a.Reservations[i] = heldOf(&list[i])
	}
	return a, nil
}

func heldOf(hold *ration.Hold) *rationv1.Reservation {
	a := &rationv1.Reservation{
		Id: []byte(hold.ID), AtUs: hold.At.UnixMicro(), ExpiresAtUs: hold.ExpiresAt.UnixMicro(), Charges: make([]*rationv1.HeldCharge, len(hold.Charged)),
	}
	for i := range hold.Charged {
		d := &hold.Charged[i]
		a.Charges[i] = &rationv1.HeldCharge{Name: d.Name, Limit: d.Limit, Charged: d.Used}
	}
	return a
}
