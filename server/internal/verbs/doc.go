// Package verbs is what all protocols of the server do with a request once they have read it: finding the limit that it
// names, holding ids, lives and amounts to their bounds, asking the Limiter, and saying what was wrong and where.
//
// What belongs to one protocol stays with it: how a key, a number or an error looks on the wire.
package verbs
