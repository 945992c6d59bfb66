package grpclimit

import (
	"context"
	"net/http"
	"net/textproto"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/ration-go/ration/httplimit"
)

// ByMetadata is the value of a key of the request's metadata, such as an API key; the first one. Whoever sends metadata chooses
// what it says: check it before, or limit addresses too. In a Pacer it is the metadata that goes out.
func ByMetadata(key string) KeyFunc {
	return func(ctx context.Context, _ Call) string {
		md, ok := metadata.FromIncomingContext(ctx)
		if !ok {
			md, _ = metadata.FromOutgoingContext(ctx)
		}
		if values := md.Get(key); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// ByMethod is the name of the method: all callers of a method share a count.
func ByMethod() KeyFunc {
	return func(_ context.Context, c Call) string { return c.Method }
}

// HTTP is the identity that a key function of package httplimit sees: in a request whose address, TLS state and headers are
// those of the call's connection and metadata. It is for httplimit.ByIP, ByUser, ByHeader and combinations, on servers; one
// identity then has the same key in both packages.
func HTTP(key httplimit.KeyFunc) KeyFunc {
	return func(ctx context.Context, c Call) string {
		r := (&http.Request{Method: http.MethodPost, Header: http.Header{}}).WithContext(ctx)
		if p, ok := peer.FromContext(ctx); ok {
			if p.Addr != nil {
				r.RemoteAddr = p.Addr.String()
			}
			if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
				r.TLS = &info.State
			}
		}
		md, _ := metadata.FromIncomingContext(ctx)
		for name, values := range md {
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
		r.Host = r.Header.Get(":authority")
		return key(r)
	}
}
