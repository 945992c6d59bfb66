package grpcapi

import (
	"context"
	"fmt"

	"github.com/ration-go/ration/internal/wire"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/verbs"
)

// maxTakes is how many takes a batch may have.
const maxTakes = 1000

// batchResult is the answer to one take of a batch, in one piece.
type batchResult struct {
	result   rationv1.TakeResult
	decision rationv1.TakeResult_Decision
	answer   rationv1.Decision
}

// TakeBatch is of the proto.
func (s *service) TakeBatch(ctx context.Context, r *rationv1.TakeBatchRequest) (*rationv1.TakeBatchResponse, error) {
	if err := known(r); err != nil {
		return nil, s.status(ctx, err)
	}
	n := len(r.Takes)
	if n < 1 || n > maxTakes {
		return nil, s.status(ctx, verbs.At("/takes", verbs.Problem(wire.CodeInvalidTxn, fmt.Sprintf("%d takes are not between 1 and %d", n, maxTakes))))
	}
	a := &rationv1.TakeBatchResponse{Results: make([]*rationv1.TakeResult, n)}
	results := make([]batchResult, n)
	one := func(i int) {
		b := &results[i]
		a.Results[i] = &b.result
		d, err := s.take(ctx, r.Takes[i])
		if err != nil {
			code, _, detail, pointer := s.explain(ctx, err)
			if pointer != "" {
				detail = field(pointer) + ": " + detail
			}
			b.result.Result = &rationv1.TakeResult_Error{Error: &rationv1.TakeError{
				Code: string(code), Detail: detail, NotCharged: code != wire.CodeOutcomeUnknown,
			}}
			return
		}
		fill(&b.answer, &d.Decision)
		b.decision.Decision = &b.answer
		b.result.Result = &b.decision
	}
	s.verbs.Each(n, one)
	return a, nil
}
