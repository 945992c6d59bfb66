// Package grpcapi decides over gRPC what package httpapi decides over HTTP: the service of ration/v1/ration.proto, where
// every field is explained, and the standard health service.
//
// What a request means is the same in both; see package httpapi. Errors are statuses:
//
//	INVALID_ARGUMENT     the request is wrong; a BadRequest detail names the field
//	NOT_FOUND            no reservation of this id is known
//	ALREADY_EXISTS       the id was used for another request
//	FAILED_PRECONDITION  the reservation ended in another way, or a count would pass 2^53 − 1
//	UNIMPLEMENTED        the store cannot do this
//	DATA_LOSS            the store holds something else under this key
//	UNAVAILABLE          nothing was charged, try again later; a RetryInfo detail says when
//	UNKNOWN              it may have been charged, so a blind repetition may charge twice
//
// Each has an ErrorInfo detail of the domain "ration", whose reason is the code of the HTTP API in capitals, such as
// INVALID_KEY, and whose metadata says whether it was charged: "no" or "unknown". A refusal is no error.
//
// A field that is not known is an error, as over HTTP. Text that is not UTF-8 never gets here: grpc answers INTERNAL.
//
// The Go code of the proto is generated with the generators that the go.mod pins, and checked by buf, which has a module
// file of its own because of all that it needs:
//
//	cd server && GOWORK=off go generate ./grpcapi
//
// The tests have buf check its style, and that it breaks no client of what was published before. At a release that is made anew:
//
//	cd server/grpcapi && buf build --exclude-source-info --as-file-descriptor-set -o testdata/published.binpb
package grpcapi

//go:generate go tool -modfile=../tools.mod buf lint
//go:generate go tool -modfile=../tools.mod buf generate
