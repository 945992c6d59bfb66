package grpcapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ration-go/ration/driver"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
)

func TestTake(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	const limit = "fixed 2/1h"
	for i := range 3 {
		a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("alice"), Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		d := a.Decision
		if d.Allowed != (i < 2) || d.Limit != 2 || d.Used != min(int64(i)+1, 2) || d.Remaining != max(0, 1-int64(i)) || d.Never || d.Degraded {
			t.Errorf("take %d: %v", i, d)
		}
		if (d.RetryAfterMs > 0) != (i == 2) || d.ResetAfterMs <= 3599_000 || d.ResetAfterMs > 3600_000 || d.AtUs < 1 {
			t.Errorf("take %d: %v", i, d)
		}
	}
	// The same key in bytes; another group; other parts; everybody.
	for _, other := range []struct {
		key  *rationv1.Key
		used int64
	}{
		{&rationv1.Key{RawParts: [][]byte{[]byte("alice")}}, 2},
		{&rationv1.Key{Parts: []string{"alice"}, Group: "g"}, 0},
		{key("ali", "ce"), 0},
		{&rationv1.Key{Global: true}, 0},
		{&rationv1.Key{RawParts: [][]byte{{0xff, 0}}}, 0},
	} {
		a, err := e.Peek(ctx, &rationv1.PeekRequest{Key: other.key, Limit: limit})
		if err != nil || a.Decision.Used != other.used {
			t.Errorf("%v: %v, %v", other.key, a, err)
		}
	}
	if a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("alice"), Limit: limit, Cost: ptr[int64](3)}); err != nil || !a.Decision.Never {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("alice"), Limit: limit, Cost: ptr[int64](0)}); err != nil || !a.Decision.Allowed {
		t.Errorf("cost 0: %v, %v", a, err)
	}
	if a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("alice"), Limit: "chat"}); err != nil || a.Decision.Name != "chat" || a.Decision.Limit != 20 {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("alice"), Limit: limit, Name: ptr("other")}); err != nil || a.Decision.Name != "other" || a.Decision.Used != 1 {
		t.Errorf("%v, %v", a, err)
	}
}

func TestTakeOnce(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	r := &rationv1.TakeRequest{Key: key("alice"), Limit: "fixed 9/1h", Id: ptr("x")}
	for range 2 {
		if a, err := e.Take(ctx, r); err != nil || a.Decision.Used != 1 {
			t.Errorf("%v, %v", a, err)
		}
	}
	r.Cost = ptr[int64](2)
	_, err := e.Take(ctx, r)
	if got := failureOf(t, err); got != (failure{codes.AlreadyExists, "ID_REUSED", "no", "", 0}) {
		t.Errorf("%+v", got)
	}
}

func TestTakeAll(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	r := &rationv1.TakeAllRequest{Charges: []*rationv1.Charge{
		{Key: key("user"), Limit: "fixed 1/1h"}, {Key: key("all"), Limit: "fixed 10/1h", Cost: ptr[int64](2)},
	}}
	a, err := e.TakeAll(ctx, r)
	if err != nil || !a.Outcome.Decision.Allowed || len(a.Outcome.Each) != 2 || a.Outcome.Each[1].Used != 2 || a.Outcome.Index != 0 {
		t.Errorf("%v, %v", a, err)
	}
	a, err = e.TakeAll(ctx, r)
	if err != nil || a.Outcome.Decision.Allowed || !a.Outcome.Each[1].Allowed || a.Outcome.Each[1].Used != 2 {
		t.Errorf("%v, %v", a, err)
	}
}

func TestRefundResetForgetHit(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("a"), Limit: "fixed 9/1h", Cost: ptr[int64](5)})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := e.Refund(ctx, &rationv1.RefundRequest{Key: key("a"), Limit: "fixed 9/1h", Cost: ptr[int64](2), AtUs: a.Decision.AtUs}); err != nil || r.Given != 2 {
		t.Errorf("%v, %v", r, err)
	}
	if h, err := e.Hit(ctx, &rationv1.HitRequest{Key: key("a"), WindowMs: 3600_000}); err != nil || h.Count != 4 || h.LeftMs < 1 || h.LeftMs > 3600_000 {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := e.Reset(ctx, &rationv1.ResetRequest{Key: key("a"), Limit: "fixed 9/1h"}); err != nil {
		t.Error(err)
	}
	if h, err := e.Hit(ctx, &rationv1.HitRequest{Key: key("a"), WindowMs: 3600_000, N: ptr[int64](-3)}); err != nil || h.Count != -3 {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := e.Forget(ctx, &rationv1.ForgetRequest{Key: key("a")}); err != nil {
		t.Error(err)
	}
	if h, err := e.Hit(ctx, &rationv1.HitRequest{Key: key("a"), WindowMs: 1000, N: ptr[int64](0)}); err != nil || h.Count != 0 || h.LeftMs != 1000 {
		t.Errorf("%v, %v", h, err)
	}
}

func TestReservations(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	charges := []*rationv1.Charge{{Key: key("a"), Limit: "fixed 100/1h", Name: ptr("one"), Cost: ptr[int64](50)}, {Key: key("b"), Limit: "fixed 100/1h", Cost: ptr[int64](50)}}
	reserve := func() string {
		t.Helper()
		a, err := e.Reserve(ctx, &rationv1.ReserveRequest{Charges: charges, TtlMs: ptr[int64](60_000)})
		if err != nil || !a.Outcome.Decision.Allowed || a.Id == "" || a.ExpiresAtUs <= a.Outcome.Decision.AtUs {
			t.Fatalf("%v, %v", a, err)
		}
		return a.Id
	}
	id := reserve()
	if a, err := e.Reserve(ctx, &rationv1.ReserveRequest{Charges: append(charges, &rationv1.Charge{Key: key("c"), Limit: "fixed 0/1h"})}); err != nil || a.Outcome.Decision.Allowed || a.Id != "" {
		t.Errorf("%v, %v", a, err)
	}
	list, err := e.ListReservations(ctx, &rationv1.ListReservationsRequest{})
	if err != nil || list.More || len(list.Reservations) != 1 || string(list.Reservations[0].Id) != id || len(list.Reservations[0].Charges) != 2 ||
		list.Reservations[0].Charges[0].Name != "one" || list.Reservations[0].Charges[0].Charged != 50 {
		t.Errorf("%v, %v", list, err)
	}
	if a, err := e.Progress(ctx, &rationv1.ProgressRequest{Id: id, Amounts: &rationv1.Amounts{Amounts: []int64{10}}}); err != nil || !a.Ok {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := e.Renew(ctx, &rationv1.RenewRequest{Id: id, TtlMs: 120_000}); err != nil || a.ExpiresAtUs < time.Now().UnixMicro() {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := e.Settle(ctx, &rationv1.SettleRequest{Id: id, Amounts: &rationv1.Amounts{Amounts: []int64{20, 30}}}); err != nil {
		t.Error(err)
	}
	for k, used := range map[string]int64{"a": 20, "b": 30} {
		r := &rationv1.PeekRequest{Key: key(k), Limit: "fixed 100/1h"}
		if k == "a" {
			r.Name = ptr("one")
		}
		if a, err := e.Peek(ctx, r); err != nil || a.Decision.Used != used {
			t.Errorf("%s: %v, %v", k, a, err)
		}
	}
	_, err = e.Settle(ctx, &rationv1.SettleRequest{Id: id})
	if got := failureOf(t, err); got != (failure{codes.FailedPrecondition, "ENDED", "no", "", 0}) {
		t.Errorf("%+v", got)
	}
	id = reserve()
	for range 2 {
		if _, err := e.Cancel(ctx, &rationv1.CancelRequest{Id: id}); err != nil {
			t.Error(err)
		}
	}
	if a, err := e.Peek(ctx, &rationv1.PeekRequest{Key: key("b"), Limit: "fixed 100/1h"}); err != nil || a.Decision.Used != 30 {
		t.Errorf("%v, %v", a, err)
	}
}

func TestPagesOfReservations(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	for i := range 7 {
		if _, err := e.Reserve(ctx, &rationv1.ReserveRequest{Charges: []*rationv1.Charge{{Key: key("a"), Limit: "fixed 100/1h"}}, Id: ptr(fmt.Sprint("r", i))}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	r := &rationv1.ListReservationsRequest{Max: ptr[int32](3)}
	for more := true; more; {
		a, err := e.ListReservations(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range a.Reservations {
			ids = append(ids, string(one.Id))
		}
		more, r.After = a.More, []byte(ids[len(ids)-1])
	}
	if got := strings.Join(ids, " "); got != "r0 r1 r2 r3 r4 r5 r6" {
		t.Error(got)
	}
}

func TestListLimits(t *testing.T) {
	t.Parallel()
	a, err := newEnv(t).ListLimits(t.Context(), &rationv1.ListLimitsRequest{})
	if err != nil || len(a.Limits) != 2 || a.Limits[0].Name != "chat" || a.Limits[0].Limit != "bucket 10/1m burst 20" || a.Limits[0].OnError != "" ||
		a.Limits[1].OnError != "allow" {
		t.Errorf("%v, %v", a, err)
	}
}

// unknown is m with a field that nobody knows.
func unknown[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x3f, 1}) // field 1023, varint 1
	return m
}

// TestBadInput: each is refused with the field that is wrong, and charges nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	take := func(change func(*rationv1.TakeRequest)) func() error {
		r := &rationv1.TakeRequest{Key: key("a"), Limit: "fixed 9/1h"}
		change(r)
		return func() error { _, err := e.Take(ctx, r); return err }
	}
	for name, one := range map[string]struct {
		call   func() error
		code   codes.Code
		reason string
		field  string
	}{
		"no key":        {take(func(r *rationv1.TakeRequest) { r.Key = nil }), codes.InvalidArgument, "MISSING_FIELD", "key"},
		"empty key":     {take(func(r *rationv1.TakeRequest) { r.Key = &rationv1.Key{} }), codes.InvalidArgument, "MISSING_FIELD", "key"},
		"empty part":    {take(func(r *rationv1.TakeRequest) { r.Key = key("") }), codes.InvalidArgument, "INVALID_KEY", ""},
		"two keys":      {take(func(r *rationv1.TakeRequest) { r.Key.Global = true }), codes.InvalidArgument, "INVALID_KEY", "key"},
		"no limit":      {take(func(r *rationv1.TakeRequest) { r.Limit = "" }), codes.InvalidArgument, "MISSING_FIELD", "limit"},
		"unknown limit": {take(func(r *rationv1.TakeRequest) { r.Limit = "caht" }), codes.InvalidArgument, "UNKNOWN_LIMIT", "limit"},
		"bad limit":     {take(func(r *rationv1.TakeRequest) { r.Limit = "fixed ten/1h" }), codes.InvalidArgument, "INVALID_LIMIT", "limit"},
		"two names":     {take(func(r *rationv1.TakeRequest) { r.Limit, r.Name = "chat", ptr("x") }), codes.InvalidArgument, "INVALID_LIMIT", "limit"},
		"bad cost":      {take(func(r *rationv1.TakeRequest) { r.Cost = ptr[int64](-1) }), codes.InvalidArgument, "INVALID_COST", ""},
		"huge cost":     {take(func(r *rationv1.TakeRequest) { r.Cost = ptr[int64](1 << 53) }), codes.InvalidArgument, "INVALID_COST", ""},
		"empty id":      {take(func(r *rationv1.TakeRequest) { r.Id = ptr("") }), codes.InvalidArgument, "INVALID_ID", "id"},
		"unknown field": {take(func(r *rationv1.TakeRequest) { unknown(r) }), codes.InvalidArgument, "UNKNOWN_FIELD", ""},
		"unknown field of the key": {
			take(func(r *rationv1.TakeRequest) { unknown(r.Key) }), codes.InvalidArgument, "UNKNOWN_FIELD", "key",
		},
		"in a charge": {func() error {
			_, err := e.TakeAll(ctx, &rationv1.TakeAllRequest{Charges: []*rationv1.Charge{{Key: key("a"), Limit: "chat"}, {Key: key("b"), Limit: "fixed 1"}}})
			return err
		}, codes.InvalidArgument, "INVALID_LIMIT", "charges[1].limit"},
		"no charges": {func() error {
			_, err := e.TakeAll(ctx, &rationv1.TakeAllRequest{})
			return err
		}, codes.InvalidArgument, "INVALID_LIMIT", ""},
		"no time": {func() error {
			_, err := e.Refund(ctx, &rationv1.RefundRequest{Key: key("a"), Limit: "chat"})
			return err
		}, codes.InvalidArgument, "INVALID_TIME", "at_us"},
		"short life": {func() error {
			_, err := e.Renew(ctx, &rationv1.RenewRequest{Id: "x", TtlMs: 999})
			return err
		}, codes.InvalidArgument, "INVALID_TIME", "ttl_ms"},
		"no reservation": {func() error {
			_, err := e.Settle(ctx, &rationv1.SettleRequest{Id: "x"})
			return err
		}, codes.NotFound, "NO_RESERVATION", ""},
		"empty amounts": {func() error {
			_, err := e.Settle(ctx, &rationv1.SettleRequest{Id: "x", Amounts: &rationv1.Amounts{}})
			return err
		}, codes.InvalidArgument, "INVALID_AMOUNTS", "amounts"},
		"no amounts": {func() error {
			_, err := e.Progress(ctx, &rationv1.ProgressRequest{Id: "x"})
			return err
		}, codes.InvalidArgument, "MISSING_FIELD", "amounts"},
		"an amount below 0": {func() error {
			_, err := e.Progress(ctx, &rationv1.ProgressRequest{Id: "x", Amounts: &rationv1.Amounts{Amounts: []int64{1, -1}}})
			return err
		}, codes.InvalidArgument, "INVALID_COST", "amounts[1]"},
		"a page too long": {func() error {
			_, err := e.ListReservations(ctx, &rationv1.ListReservationsRequest{Max: ptr[int32](501)})
			return err
		}, codes.InvalidArgument, "INVALID_NUMBER", "max"},
		"a window too short": {func() error {
			_, err := e.Hit(ctx, &rationv1.HitRequest{Key: key("a")})
			return err
		}, codes.InvalidArgument, "INVALID_LIMIT", ""},
		"slots taken": {take(func(r *rationv1.TakeRequest) { r.Limit = "concurrent 5 lease 30s" }), codes.InvalidArgument, "INVALID_LIMIT", ""},
	} {
		got := failureOf(t, one.call())
		if want := (failure{one.code, one.reason, "no", one.field, 0}); got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
	if a, err := e.Peek(ctx, &rationv1.PeekRequest{Key: key("a"), Limit: "fixed 9/1h"}); err != nil || a.Decision.Used != 0 {
		t.Errorf("something was charged: %v, %v", a, err)
	}
}

// TestTroubleOfTheStore is never a refusal, and says whether it may have been charged.
func TestTroubleOfTheStore(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	for _, one := range []struct {
		err  error
		want failure
	}{
		{errors.New("broken"), failure{codes.Unknown, "OUTCOME_UNKNOWN", "unknown", "", 0}},
		{fmt.Errorf("refused: %w", driver.ErrNotApplied), failure{codes.Unavailable, "UNAVAILABLE", "no", "", time.Second}},
		{driver.ErrFull, failure{codes.Unavailable, "FULL", "no", "", time.Second}},
		{driver.ErrOverflow, failure{codes.FailedPrecondition, "OVERFLOW", "no", "", 0}},
		{driver.ErrCorrupt, failure{codes.DataLoss, "CORRUPT", "no", "", 0}},
	} {
		e.store.fail.Store(&one.err)
		_, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("secret-name"), Limit: "fixed 9/1h"})
		if got := failureOf(t, err); got != one.want {
			t.Errorf("%v: %+v", one.err, got)
		}
		if text := err.Error(); strings.Contains(text, "broken") || strings.Contains(text, "secret-name") {
			t.Errorf("%s tells of the inside", text)
		}
	}
	broken := errors.New("broken")
	e.store.fail.Store(&broken)
	_, err := e.Peek(ctx, &rationv1.PeekRequest{Key: key("a"), Limit: "fixed 9/1h"})
	if got := failureOf(t, err); got != (failure{codes.Unavailable, "UNAVAILABLE", "no", "", time.Second}) {
		t.Errorf("%+v", got)
	}
	if a, err := e.Take(ctx, &rationv1.TakeRequest{Key: key("a"), Limit: "day"}); err != nil || !a.Decision.Allowed || !a.Decision.Degraded {
		t.Errorf("%v, %v", a, err)
	}
}
